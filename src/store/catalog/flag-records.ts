/**
 * What the environment `flags` holds about feature flags, as values and as bytes. All numbers are
 * big-endian; every value ends in a checksum over key and value (codec.ts).
 *
 * | table               | key                              | value                                      |
 * |---------------------|----------------------------------|--------------------------------------------|
 * | state               | `flag_id`, `flag_dashboard_id`   | last number given out, over all projects   |
 * | flags               | project u32, flag u32            | flag, MessagePack; client objects as JSON  |
 * | flag_projects       | project u32                      | `ProjectCounters`, MessagePack             |
 * | flag_changes        | project u32, change u32          | number of the flag, MessagePack            |
 * | flag_activity       | project u32, entry u32           | JSON of an entry, as answers show it       |
 * | flag_activity_items | project u32, flag u32, entry u32 | nothing                                    |
 * | flag_dashboards     | project u32, dashboard u32       | one of before there were others: its name  |
 *
 * Changes of a project are counted; `flag_changes` holds the last change of each flag, also of those that
 * are gone for good, so that a reader can fetch just what it has not seen.
 */
import type { JsonObject } from '../../base/json.ts'
import type { Flag } from '../../rules/flags/types.ts'
import type { Table } from '../lmdb/environment.ts'
import { NUMBER_MAX, numberKey, pairKey } from '../lmdb/keys.ts'
import { getRecord, putRecord } from '../lmdb/records.ts'

/** What is counted of the flags of a project. */
export interface ProjectCounters {
  /** Number of the last change. */
  readonly change: number
  /** Number of the last entry of the activity log. */
  readonly entry: number
}

/** A flag with what its change was numbered and how large its filters are. */
export interface StoredFlag {
  readonly flag: Flag
  readonly change: number
  /** UTF-16 units of the JSON of its filters. */
  readonly filtersUnits: number
}

/** Writes a flag. Only in a write transaction. */
export function storeFlag(table: Table, flag: Flag, change: number): void {
  const { filters, rollbackConditions, ...rest } = flag
  putRecord(table, pairKey(flag.projectId, flag.id), {
    ...rest,
    change,
    filtersJson: JSON.stringify(filters),
    rollbackConditionsJson: JSON.stringify(rollbackConditions),
  })
}

/** A flag, deleted or not, or null. Throws `DamagedRecordError`. */
export function loadFlag(table: Table, projectId: number, id: number): StoredFlag | null {
  if (id > NUMBER_MAX) return null
  const record = getRecord(table, pairKey(projectId, id))
  // Written by `storeFlag`, and unchanged since: the checksum says so.
  return record === undefined ? null : decodeFlag(record as Record<string, unknown>)
}

/** A flag from its record. */
export function decodeFlag(record: Record<string, unknown>): StoredFlag {
  const { filtersJson, rollbackConditionsJson, change, ...rest } = record as unknown as Omit<
    Flag,
    'filters' | 'rollbackConditions'
  > & { filtersJson: string; rollbackConditionsJson: string; change: number }
  const filters = JSON.parse(filtersJson) as JsonObject
  const rollbackConditions: unknown = JSON.parse(rollbackConditionsJson)
  const flag: Flag = { ...rest, filters, rollbackConditions }
  return { flag, change, filtersUnits: filtersJson.length }
}

/** The counters of a project; zeros before its first flag. Throws `DamagedRecordError`. */
export function loadCounters(table: Table, projectId: number): ProjectCounters {
  const record = getRecord(table, numberKey(projectId))
  return record === undefined ? { change: 0, entry: 0 } : (record as ProjectCounters)
}
