/**
 * What the names of a project came to, up to an S: so that whoever asks first reads the segments behind it alone.
 *
 * Table `kept_names`: project u32 -> `version u8, reserved 3, S u32, events that erasures had removed float64`,
 * little-endian, then MessagePack of `PackedProjectNames`. It
 * holds as long as erasures have removed no more: merges change nothing of it. What it says can be gathered anew
 * from the segments at any time, so it is no function of the log, and one that is damaged is passed over.
 */
import { attempt } from '../../faults.ts'
import { pack, unpack } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { numberKey } from '../../lmdb/keys.ts'
import { load, store } from '../../lmdb/records.ts'
import type { PackedProjectNames, ProjectNames } from './project-names.ts'

const FORMAT_VERSION = 2
const FIXED_BYTES = 16

/** What is kept of a project. */
export interface KeptNames {
  /** S of the newest event that counts. */
  readonly through: number
  /** Events that erasures had removed. */
  readonly erased: number
  /** Makes what is new into these names. */
  readonly restore: (names: ProjectNames) => void
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
  return { through, erased, restore }
}

/** Keeps names. Only in a write transaction. */
export function storeKeptNames(
  table: Table,
  projectId: number,
  names: ProjectNames,
  erased: number,
): void {
  const fixed = Buffer.alloc(FIXED_BYTES)
  fixed.writeUInt8(FORMAT_VERSION)
  fixed.writeUInt32LE(names.through, 4)
  fixed.writeDoubleLE(erased, 8)
  store(table, numberKey(projectId), fixed, pack(names.pack()))
}
