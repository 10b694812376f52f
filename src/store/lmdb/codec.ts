/**
 * Encodes values of the stores: MessagePack for small structures that Tenrec creates itself, and a checksum at the end
 * of every value. LMDB has no checksums, so a flipped bit would otherwise be returned as valid data.
 *
 * A value with its checksum is called sealed: the bytes, then their crc32 as u32 little-endian. The checksum covers the
 * key and the bytes, so that a value under a wrong key is also detected. This is the only file that imports msgpackr.
 */

import { crc32 } from 'node:zlib'
import { Packr } from 'msgpackr'
import { DamagedRecordError } from '../faults.ts'

/**
 * A text of at most this number of bytes is summed in JavaScript. Calling the function of node:zlib takes longer than
 * that.
 */
const SHORT_BYTES = 24
/** For each byte, the remainder that the usual algorithm of crc32 looks up. */
const REMAINDERS = Int32Array.from({ length: 256 }, (_, byte) => {
  let remainder = byte
  for (let bit = 0; bit < 8; bit++) {
    remainder = (remainder & 1) === 0 ? remainder >>> 1 : (remainder >>> 1) ^ 0xedb88320
  }
  return remainder
})

// `useRecords` is off. With it, the meaning of packed bytes would depend on values that were packed earlier.
const PACKR = new Packr({ useRecords: false, moreTypes: false, mapsAsObjects: true })

/** The number of bytes that `seal` adds. */
export const SEAL_BYTES = 4

/** Encodes plain data as MessagePack. Use it only for structures that Tenrec creates, never for objects of a client. */
export function pack(value: unknown): Buffer {
  return PACKR.pack(value)
}

/** Decodes the result of `pack`. The caller must know the type of the packed value. */
export function unpack(bytes: Uint8Array): unknown {
  return PACKR.unpack(bytes) as unknown
}

/** Returns a copy of `parts`, one after another, followed by the checksum of `key` and the parts. */
export function seal(key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer {
  let length = SEAL_BYTES
  for (const part of parts) length += part.length
  const sealed = Buffer.allocUnsafeSlow(length)
  let offset = 0
  for (const part of parts) {
    sealed.set(part, offset)
    offset += part.length
  }
  sealed.writeUInt32LE(sumOf(sealed, offset, sumOf(key, key.length, 0)), offset)
  return sealed
}

/** Writes the checksum of a value under `key` into the last bytes of `sealed`, and returns `sealed`. */
export function sealInPlace(key: Uint8Array, sealed: Buffer): Buffer {
  const end = sealed.length - SEAL_BYTES
  sealed.writeUInt32LE(sumOf(sealed, end, sumOf(key, key.length, 0)), end)
  return sealed
}

/**
 * Returns the bytes of a sealed value, without its checksum and without a copy. If `bytesWanted` is given, the value
 * must have this number of bytes. Throws `DamagedRecordError`.
 */
export function unseal(
  table: string,
  key: Uint8Array,
  sealed: Buffer,
  bytesWanted?: number,
): Buffer {
  const length = sealed.length - SEAL_BYTES
  if (length < 0) throw new DamagedRecordError(table, key, 'the value is too short')
  if (sumOf(sealed, length, sumOf(key, key.length, 0)) !== sealed.readUInt32LE(length)) {
    throw new DamagedRecordError(table, key)
  }
  const bytes = sealed.subarray(0, length)
  if (length === (bytesWanted ?? length)) return bytes
  throw new DamagedRecordError(table, key, 'the value has a wrong length')
}

/** Returns the crc32 of the first `length` bytes, continued from the sum of the bytes before them. */
function sumOf(bytes: Uint8Array, length: number, before: number): number {
  if (length > SHORT_BYTES) return crc32(bytes.subarray(0, length), before)
  let sum = ~before
  for (let index = 0; index < length; index++) {
    sum = (REMAINDERS[(sum ^ (bytes[index] ?? 0)) & 0xff] ?? 0) ^ (sum >>> 8)
  }
  return ~sum >>> 0
}

/**
 * Returns the memory of an array as the bytes to store, without a copy. Stored numbers are little-endian, and so is the
 * memory of every machine on which Node.js is used in practice.
 */
export function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
