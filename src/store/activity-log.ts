/**
 * What people did with persons through the API. Table `activity`: project, entry number -> JSON of
 * `ActivityView`, sealed. Table `activity_items`: project, P, entry number -> nothing, sealed.
 */
import type { ActivityPage, ActivityView } from '../query/persons.ts'
import { seal, unseal } from './codec.ts'
import type { Table } from './environment.ts'
import { NUMBER_MAX, numberInKey, pairKey, tripleKey } from './keys.ts'
import { emptyValue } from './person-records.ts'

const ACTIVITY = 'activity'

/** The tables of the activity log. */
export interface ActivityTables {
  readonly activity: Table
  readonly activityItems: Table
}

/** Stores one entry. Only in a write transaction. */
export function storeActivity(
  tables: ActivityTables,
  projectId: number,
  entry: number,
  person: number,
  view: ActivityView,
): void {
  const key = pairKey(projectId, entry)
  void tables.activity.put(key, seal(key, Buffer.from(JSON.stringify(view))))
  const itemKey = tripleKey(projectId, person, entry)
  void tables.activityItems.put(itemKey, emptyValue(itemKey))
}

/** A page of activity, newest first; of one person, or of the project (`person` null). */
export function listActivity(
  tables: ActivityTables,
  projectId: number,
  person: number | null,
  page: number,
  limit: number,
): ActivityPage {
  const offset = (page - 1) * limit
  const results: ActivityView[] = []
  if (person === null) {
    const range = { start: pairKey(projectId, NUMBER_MAX), end: pairKey(projectId, 0) }
    const options = { ...range, reverse: true, offset, limit }
    for (const { key, value } of tables.activity.getRange(options)) {
      results.push(decodeActivity(key, value))
    }
    const totalCount = countKeys(tables.activity, pairKey(projectId, 0), pairKey(projectId + 1, 0))
    return { totalCount, results }
  }
  const first = tripleKey(projectId, person, 0)
  const last = tripleKey(projectId, person, NUMBER_MAX)
  const options = { start: last, end: first, reverse: true, offset, limit }
  for (const itemKey of tables.activityItems.getKeys(options)) {
    const key = pairKey(projectId, numberInKey(itemKey, 8))
    const value = tables.activity.get(key)
    if (value !== undefined) results.push(decodeActivity(key, value))
  }
  const totalCount = countKeys(tables.activityItems, first, tripleKey(projectId, person + 1, 0))
  return { totalCount, results }
}

function countKeys(table: Table, start: Buffer, end: Buffer): number {
  return table.getKeysCount({ start, end })
}

function decodeActivity(key: Uint8Array, value: Buffer): ActivityView {
  // Written by `storeActivity`, and unchanged since: the checksum says so.
  return JSON.parse(unseal(ACTIVITY, key, value).toString('utf8')) as ActivityView
}
