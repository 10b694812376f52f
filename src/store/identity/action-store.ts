/**
 * Stores the actions of a project. Table `actions`: project, action -> JSON of `ActionRecord` and a checksum. A deleted
 * action stays in the table, marked as deleted, so that its number is not used again.
 */
import type { Page } from '../../base/pages.ts'
import { type ActionRecord, type ActionView, actionView } from '../../rules/filters/actions.ts'
import type { Table } from '../lmdb/environment.ts'
import { keysOf } from '../lmdb/keys.ts'
import { loadNumbered, NumberedRecords } from '../lmdb/numbered-records.ts'
import { jsonOf } from '../lmdb/records.ts'

/** The actions of one project, as the processing thread sees and changes them. */
export class ProjectActions extends NumberedRecords<ActionRecord> {
  /** Returns an action, also if it is deleted. Returns null if it does not exist. */
  action(id: number): ActionRecord | null {
    return this.find(id)
  }

  put(action: ActionRecord): void {
    this.set(action.id, action)
  }
}

/** Returns an action that is not deleted, or null. Throws `DamagedRecordError`. */
export function findAction(table: Table, projectId: number, id: number): ActionView | null {
  const action = loadNumbered<ActionRecord>(table, projectId, id)
  return action === null || action.isDeleted ? null : actionView(action)
}

/** Returns a page of the actions that are not deleted, in order of creation. */
export function listActions(
  table: Table,
  projectId: number,
  limit: number,
  offset: number,
): Page<ActionView> {
  const records = [...jsonOf<ActionRecord>(table, keysOf(projectId))].map(({ value }) => value)
  const actions = records.filter(({ isDeleted }) => !isDeleted)
  return { count: actions.length, results: actions.slice(offset, offset + limit).map(actionView) }
}
