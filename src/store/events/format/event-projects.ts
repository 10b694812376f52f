/**
 * The counters of each project in environment `events`: the numbers of its events and distinct_ids, and the sequence
 * number up to which the runs of the uuid index contain its events. Table `projects`, little-endian:
 *
 *   project u32 -> version u8, reserved 3, rows u32, distinct_ids u32, indexed rows u32, segments u32,
 *                  generation u32, bytes float64
 *
 * The sequence number of the newest event equals `rows`. Merges of segments and erasures change `generation`.
 */

import { DamagedRecordError } from '../../faults.ts'
import type { Table } from '../../lmdb/environment.ts'
import { numberInKey, numberKey } from '../../lmdb/keys.ts'
import { entriesOf, load, store } from '../../lmdb/records.ts'

const FORMAT_VERSION = 1
const RECORD_BYTES = 32

/** The counters of one project. */
export interface ProjectCounters {
  /** The number of stored events, which is also the newest sequence number. */
  rows: number
  /** The number of distinct_ids, which is also the newest distinct ID number. */
  distinctIds: number
  /**
   * The sequence number up to which events are in the runs of the uuid index. To find a later event by its uuid, the
   * segments after this number are read.
   */
  indexedRows: number
  segments: number
  /** The number of times that segments of the project were replaced, by merges or erasures. */
  generation: number
  /** The number of bytes that all segments take in the store. */
  bytes: number
}

/** Returns the counters of a project that has no events. */
export function emptyCounters(): ProjectCounters {
  return { rows: 0, distinctIds: 0, indexedRows: 0, segments: 0, generation: 0, bytes: 0 }
}

/** Returns the counters of a project, or null if it has none. Throws `DamagedRecordError`. */
export function loadCounters(table: Table, projectId: number): ProjectCounters | null {
  const key = numberKey(projectId)
  const record = load(table, key)
  return record === undefined ? null : decodeCounters(table, key, record)
}

/** Returns the counters of all projects. Throws `DamagedRecordError`. */
export function loadAllCounters(table: Table): Map<number, ProjectCounters> {
  const all = new Map<number, ProjectCounters>()
  for (const { key, value } of entriesOf(table)) {
    all.set(numberInKey(key, 0), decodeCounters(table, key, value))
  }
  return all
}

/** Stores the counters of a project. Call it only within a write transaction. */
export function storeCounters(table: Table, projectId: number, counters: ProjectCounters): void {
  const record = Buffer.alloc(RECORD_BYTES)
  record.writeUInt8(FORMAT_VERSION)
  record.writeUInt32LE(counters.rows, 4)
  record.writeUInt32LE(counters.distinctIds, 8)
  record.writeUInt32LE(counters.indexedRows, 12)
  record.writeUInt32LE(counters.segments, 16)
  record.writeUInt32LE(counters.generation, 20)
  record.writeDoubleLE(counters.bytes, 24)
  store(table, numberKey(projectId), record)
}

function decodeCounters(table: Table, key: Uint8Array, record: Buffer): ProjectCounters {
  if (record.length !== RECORD_BYTES || record.readUInt8() !== FORMAT_VERSION) {
    throw new DamagedRecordError(table.name, key, 'the format is unknown')
  }
  return {
    rows: record.readUInt32LE(4),
    distinctIds: record.readUInt32LE(8),
    indexedRows: record.readUInt32LE(12),
    segments: record.readUInt32LE(16),
    generation: record.readUInt32LE(20),
    bytes: record.readDoubleLE(24),
  }
}
