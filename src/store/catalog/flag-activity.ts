/**
 * The log of who changed which flag. Table `flag_activity`: project, entry -> JSON of an entry as answers
 * show it. Table `flag_activity_items`: project, flag, entry -> nothing. All sealed; nothing removes them.
 */
import {
  type FlagActivity,
  type FlagActivityEntries,
  jsonOf,
} from '../../rules/flags/edit/flag-activity.ts'
import { emptyValue, seal, unseal } from '../lmdb/codec.ts'
import type { Environment, Table } from '../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, pairKey, tripleKey } from '../lmdb/keys.ts'

const ACTIVITY = 'flag_activity'
const ITEMS = 'flag_activity_items'

/** Stores one entry under a number that was never used. Only in a write transaction. */
export function storeFlagActivity(
  environment: Environment,
  projectId: number,
  entry: number,
  activity: FlagActivity,
): void {
  const key = pairKey(projectId, entry)
  environment.table(ACTIVITY).putSync(key, seal(key, Buffer.from(jsonOf(activity))))
  const itemKey = tripleKey(projectId, activity.flagId, entry)
  environment.table(ITEMS).putSync(itemKey, emptyValue(itemKey))
}

/** The log of a project, or of one flag, behind its newest `offset` entries. Throws `DamagedRecordError`. */
export function listFlagActivity(
  environment: Environment,
  projectId: number,
  flagId: number | null,
  offset: number,
  limit: number,
): FlagActivityEntries {
  const table = environment.table(ACTIVITY)
  const options = { reverse: true, offset, limit }
  if (flagId === null) {
    const range = { start: pairKey(projectId, NUMBER_MAX), end: pairKey(projectId, 0) }
    const keys = [...table.getKeys({ ...range, ...options })].map((key) => Buffer.from(key))
    const bounds = { start: pairKey(projectId, 0), end: pairKey(projectId + 1, 0) }
    return { totalCount: table.getKeysCount(bounds), entries: entriesOf(table, keys) }
  }
  const items = environment.table(ITEMS)
  const first = tripleKey(projectId, flagId, 0)
  const last = tripleKey(projectId, flagId, NUMBER_MAX)
  const keys = [...items.getKeys({ start: last, end: first, ...options })].map((key) =>
    pairKey(projectId, numberInKey(key, 8)),
  )
  const bounds = { start: first, end: tripleKey(projectId, flagId + 1, 0) }
  return { totalCount: items.getKeysCount(bounds), entries: entriesOf(table, keys) }
}

function* entriesOf(table: Table, keys: readonly Buffer[]): Generator<string> {
  for (const key of keys) {
    const value = table.get(key)
    if (value !== undefined) yield unseal(ACTIVITY, key, value).toString('utf8')
  }
}
