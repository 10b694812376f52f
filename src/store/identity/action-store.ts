/**
 * Actions of a project. Table `actions`: project, action -> JSON of `ActionRecord`, sealed. Deleted
 * actions stay, marked, so that no number is given twice.
 */
import { type ActionRecord, type ActionView, actionView } from '../../rules/filters/actions.ts'
import type { Table } from '../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, pairKey } from '../lmdb/keys.ts'
import { getJson, parseRecord, putJson } from '../lmdb/records.ts'

const ACTIONS = 'actions'

/** The actions of one project in the processing thread. */
export class ProjectActions {
  readonly #projectId: number
  readonly #table: Table
  readonly #changed = new Map<number, ActionRecord>()

  constructor(projectId: number, table: Table) {
    this.#projectId = projectId
    this.#table = table
  }

  /** An action, deleted or not, or null. */
  action(id: number): ActionRecord | null {
    return this.#changed.get(id) ?? loadAction(this.#table, this.#projectId, id)
  }

  put(action: ActionRecord): void {
    this.#changed.set(action.id, action)
  }

  /** A number that no action has had. */
  nextId(): number {
    const start = pairKey(this.#projectId, NUMBER_MAX)
    const range = { start, end: pairKey(this.#projectId, 0), reverse: true, limit: 1 }
    let last = 0
    for (const key of this.#table.getKeys(range)) last = numberInKey(key, 4)
    for (const id of this.#changed.keys()) last = Math.max(last, id)
    return last + 1
  }

  /** Stores what was changed. Only in a write transaction. */
  store(): void {
    for (const [id, action] of this.#changed) {
      putJson(this.#table, pairKey(this.#projectId, id), action)
    }
    this.#changed.clear()
  }
}

/** An action that is not deleted, or null. Throws `DamagedRecordError`. */
export function findAction(table: Table, projectId: number, id: number): ActionView | null {
  const action = loadAction(table, projectId, id)
  return action === null || action.isDeleted ? null : actionView(action)
}

function loadAction(table: Table, projectId: number, id: number): ActionRecord | null {
  if (!Number.isInteger(id) || id < 1 || id > NUMBER_MAX) return null
  return getJson<ActionRecord>(table, ACTIONS, pairKey(projectId, id))
}

/** A page of the actions that are not deleted, in order of creation. */
export function listActions(
  table: Table,
  projectId: number,
  limit: number,
  offset: number,
): { readonly count: number; readonly results: readonly ActionView[] } {
  const range = { start: pairKey(projectId, 0), end: pairKey(projectId + 1, 0) }
  const actions: ActionRecord[] = []
  for (const { key, value } of table.getRange(range)) {
    const action = parseRecord<ActionRecord>(ACTIONS, key, value)
    if (!action.isDeleted) actions.push(action)
  }
  const results = actions.slice(offset, offset + limit).map(actionView)
  return { count: actions.length, results }
}
