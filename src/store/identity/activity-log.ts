/**
 * What people did with persons through the API. Table `activity`: project, entry number -> JSON of
 * `ActivityView`, sealed. Table `activity_items`: project, P, entry number -> nothing, sealed.
 */
import type { ActivityView } from '../../rules/persons/person-queries.ts'
import { emptyValue, seal, unseal } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, pairKey, tripleKey } from '../lmdb/keys.ts'

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

/** A stretch of the log. */
export interface ActivityEntries {
  /** All that there are. */
  readonly totalCount: number
  /** Each is read when its turn comes: an entry may hold large values. */
  readonly entries: Iterable<ActivityView>
}

/** Activity, newest first; of one person, or of the project (`person` null). */
export function listActivity(
  tables: ActivityTables,
  projectId: number,
  person: number | null,
  offset: number,
  limit: number,
): ActivityEntries {
  if (person === null) {
    const range = { start: pairKey(projectId, NUMBER_MAX), end: pairKey(projectId, 0) }
    const options = { ...range, reverse: true, offset, limit }
    const keys = [...tables.activity.getKeys(options)].map((key) => Buffer.from(key))
    const totalCount = countKeys(tables.activity, pairKey(projectId, 0), pairKey(projectId + 1, 0))
    return { totalCount, entries: entriesOf(tables.activity, keys) }
  }
  const first = tripleKey(projectId, person, 0)
  const last = tripleKey(projectId, person, NUMBER_MAX)
  const options = { start: last, end: first, reverse: true, offset, limit }
  const itemKeys = [...tables.activityItems.getKeys(options)]
  const keys = itemKeys.map((itemKey) => pairKey(projectId, numberInKey(itemKey, 8)))
  const totalCount = countKeys(tables.activityItems, first, tripleKey(projectId, person + 1, 0))
  return { totalCount, entries: entriesOf(tables.activity, keys) }
}

function* entriesOf(table: Table, keys: readonly Buffer[]): Generator<ActivityView> {
  for (const key of keys) {
    const value = table.get(key)
    if (value !== undefined) yield decodeActivity(key, value)
  }
}

function countKeys(table: Table, start: Buffer, end: Buffer): number {
  return table.getKeysCount({ start, end })
}

function decodeActivity(key: Uint8Array, value: Buffer): ActivityView {
  // Written by `storeActivity`, and unchanged since: the checksum says so.
  return JSON.parse(unseal(ACTIVITY, key, value).toString('utf8')) as ActivityView
}
