/**
 * The records of feature flags in the environment `flags`, as values and as bytes. All numbers are big-endian. Every
 * value ends with a checksum over key and value (codec.ts).
 *
 * | table               | key                              | value                                          |
 * |---------------------|----------------------------------|------------------------------------------------|
 * | state               | `flag_id`, `flag_dashboard_id`   | last number used, over all projects            |
 * | flags               | project u32, flag u32            | flag, MessagePack; objects of clients as JSON  |
 * | flag_projects       | project u32                      | `ProjectCounters`, MessagePack                 |
 * | flag_changes        | project u32, change u32          | number of the flag, MessagePack                |
 * | flag_activity       | project u32, entry u32           | JSON of an entry in the form of the API        |
 * | flag_activity_items | project u32, flag u32, entry u32 | nothing                                        |
 * | flag_dashboards     | project u32, dashboard u32       | name of a dashboard of an older version        |
 *
 * The changes of a project's flags are numbered. `flag_changes` contains, for each flag, its last change. By this
 * table, a reader finds the flags that have changed or were removed since its last read.
 */
import type { JsonObject } from '../../base/json.ts'
import type { Flag } from '../../rules/flags/types.ts'
import type { Table } from '../lmdb/environment.ts'
import { NUMBER_MAX, numberKey, pairKey } from '../lmdb/keys.ts'
import { getRecord, putRecord } from '../lmdb/records.ts'

/** The numbers of the last change and of the last entry of a project. The next ones get the next higher numbers. */
export interface ProjectCounters {
  /** The number of the last change of a flag. */
  readonly change: number
  /** The number of the last entry in the activity log of the flags. */
  readonly entry: number
}

/** A flag as stored, with the number of its last change and the size of its filters. */
export interface StoredFlag {
  readonly flag: Flag
  readonly change: number
  /** The number of UTF-16 code units in the JSON of the flag's filters. */
  readonly filtersUnits: number
}

/** Writes a flag. Call it only within a write transaction. */
export function storeFlag(table: Table, flag: Flag, change: number): void {
  const { filters, rollbackConditions, ...rest } = flag
  putRecord(table, pairKey(flag.projectId, flag.id), {
    ...rest,
    change,
    filtersJson: JSON.stringify(filters),
    rollbackConditionsJson: JSON.stringify(rollbackConditions),
  })
}

/** Returns a flag, also if it is deleted. Returns null if there is none. Throws `DamagedRecordError`. */
export function loadFlag(table: Table, projectId: number, id: number): StoredFlag | null {
  if (id > NUMBER_MAX) return null
  const record = getRecord(table, pairKey(projectId, id))
  // The cast is right: `storeFlag` wrote the record, and its checksum matches.
  return record === undefined ? null : decodeFlag(record as Record<string, unknown>)
}

/** Returns a flag from its record. */
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

/** Returns the counters of a project. They are 0 before its first flag. Throws `DamagedRecordError`. */
export function loadCounters(table: Table, projectId: number): ProjectCounters {
  const record = getRecord(table, numberKey(projectId))
  return record === undefined ? { change: 0, entry: 0 } : (record as ProjectCounters)
}
