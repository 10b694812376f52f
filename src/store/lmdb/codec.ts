/**
 * How values of the stores become bytes: MessagePack for small structures of our own making, and a
 * checksum behind every value. LMDB has no checksums: without this a flipped bit would be served.
 *
 * A sealed value is `bytes, crc32 u32 little-endian`, the checksum being over the key and the bytes,
 * so that a value under the wrong key is noticed as well. The only door to msgpackr.
 */

import { crc32 } from 'node:zlib'
import { Packr } from 'msgpackr'
import { DamagedRecordError } from '../faults.ts'

// No records: they would make the meaning of bytes depend on what was packed before.
const PACKR = new Packr({ useRecords: false, moreTypes: false, mapsAsObjects: true })

/** Bytes that `seal` adds. */
export const SEAL_BYTES = 4

/** Plain data as MessagePack. Only for structures that we make, never for client objects. */
export function pack(value: unknown): Buffer {
  return PACKR.pack(value)
}

/** The reverse of `pack`; the caller knows what it packed. */
export function unpack(bytes: Uint8Array): unknown {
  return PACKR.unpack(bytes) as unknown
}

/** A copy of `parts`, one behind the other, with the checksum for `key` at the end. */
export function seal(key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer {
  let length = SEAL_BYTES
  for (const part of parts) length += part.length
  const sealed = Buffer.allocUnsafeSlow(length)
  let offset = 0
  for (const part of parts) {
    sealed.set(part, offset)
    offset += part.length
  }
  sealed.writeUInt32LE(crc32(sealed.subarray(0, offset), crc32(key)), offset)
  return sealed
}

/** Writes the checksum of a value for `key` into the last bytes of `sealed`, and returns it. */
export function sealInPlace(key: Uint8Array, sealed: Buffer): Buffer {
  const end = sealed.length - SEAL_BYTES
  sealed.writeUInt32LE(crc32(sealed.subarray(0, end), crc32(key)), end)
  return sealed
}

/** The bytes of a sealed value (a view); `bytesWanted`: how many it must have. Throws `DamagedRecordError`. */
export function unseal(
  table: string,
  key: Uint8Array,
  sealed: Buffer,
  bytesWanted?: number,
): Buffer {
  const length = sealed.length - SEAL_BYTES
  if (length < 0) throw new DamagedRecordError(table, key, 'the value is too short')
  const bytes = sealed.subarray(0, length)
  if (crc32(bytes, crc32(key)) !== sealed.readUInt32LE(length)) {
    throw new DamagedRecordError(table, key)
  }
  if (length === (bytesWanted ?? length)) return bytes
  throw new DamagedRecordError(table, key, 'the value has a wrong length')
}

/** The memory of some numbers as on disk: all machines that Node runs on in practice are little-endian. */
export function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
