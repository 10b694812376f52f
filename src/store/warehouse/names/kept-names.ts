/**
 * What the names of a project came to, up to an S: so that whoever asks first reads the segments behind it alone.
 *
 * Table `kept_names`: project u32 -> `version u8, state u8 (1: there are names, 0: they are too many), reserved 2,
 * S u32, events that erasures had removed float64`, little-endian, then MessagePack of `PackedProjectNames`. It
 * holds as long as erasures have removed no more: merges change nothing of it. What it says can be gathered anew
 * from the segments at any time, so it is no function of the log, and one that is damaged is passed over.
 */
import { attempt } from '../../faults.ts'
import { pack, unpack } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { numberKey } from '../../lmdb/keys.ts'
import { load, store } from '../../lmdb/records.ts'
import { KEPT_NAMES_BYTES_MAX } from '../limits.ts'
import type { PackedProjectNames, ProjectNames } from './project-names.ts'

const FORMAT_VERSION = 1
const FIXED_BYTES = 16

/** What is kept of a project. */
export interface KeptNames {
  /** S of the newest event that counts. */
  readonly through: number
  /** Events that erasures had removed. */
  readonly erased: number
  /** Makes what is new into these names; null: they were too many to be kept. */
  readonly restore: ((names: ProjectNames) => void) | null
}

/** What is kept of a project; null when nothing is, or nothing that can be read. About 0.1 ms for 16 KiB. */
export function loadKeptNames(table: Table, projectId: number): KeptNames | null {
  const record = attempt(
    () => load(table, numberKey(projectId)) ?? null,
    () => undefined,
  )
  if (record === null || record.readUInt8() !== FORMAT_VERSION) return null
  const through = record.readUInt32LE(4)
  const restore = (names: ProjectNames): void => {
    // Written by `storeKeptNames`, and unchanged since: the checksum says so.
    names.restore(unpack(record.subarray(FIXED_BYTES)) as PackedProjectNames, through)
  }
  const erased = record.readDoubleLE(8)
  return { through, erased, restore: record.readUInt8(1) === 1 ? restore : null }
}

/** Keeps names. Only in a write transaction. */
export function storeKeptNames(
  table: Table,
  projectId: number,
  names: ProjectNames,
  erased: number,
): void {
  const isKept = names.bytes <= KEPT_NAMES_BYTES_MAX
  const fixed = Buffer.alloc(FIXED_BYTES)
  fixed.writeUInt8(FORMAT_VERSION)
  fixed.writeUInt8(isKept ? 1 : 0, 1)
  fixed.writeUInt32LE(names.through, 4)
  fixed.writeDoubleLE(erased, 8)
  store(table, numberKey(projectId), fixed, isKept ? pack(names.pack()) : Buffer.alloc(0))
}
