/**
 * How values of the stores become bytes: MessagePack for small structures of our own making, and a
 * checksum behind every value. LMDB has no checksums: without this a flipped bit would be served.
 *
 * A sealed value is `bytes, crc32 u32 little-endian`, the checksum being over the key and the bytes,
 * so that a value under the wrong key is noticed as well. The only door to msgpackr.
 */
import { crc32 } from 'node:zlib'
import { Packr } from 'msgpackr'

// No records: they would make the meaning of bytes depend on what was packed before.
const PACKR = new Packr({ useRecords: false, moreTypes: false, mapsAsObjects: true })

/** Bytes that `seal` adds. */
export const SEAL_BYTES = 4

/** Tables whose keys are numbers only: keys of others hold texts of clients. */
const NUMBERED_TABLES: ReadonlySet<string> = new Set([
  ...['segment_headers', 'segment_groups', 'uuid_runs', 'uuid_chunks', 'projects'],
  ...['distinct_texts', 'persons', 'person_changes', 'person_owners', 'warnings'],
])

/** A stored value whose checksum does not fit, or that is missing: it is refused, never served. */
export class DamagedRecordError extends Error {
  override readonly name = 'DamagedRecordError'
  readonly table: string
  /** The key in hexadecimal digits. */
  readonly key: string

  constructor(table: string, key: Uint8Array, what = 'the checksum does not fit') {
    const digits = Buffer.from(key).toString('hex')
    super(`table ${table}, key ${digits}: ${what}; restore from a backup or export what is left`)
    this.table = table
    this.key = digits
  }

  /** Which record it is, for those who may not see what clients have sent. */
  get place(): string {
    return NUMBERED_TABLES.has(this.table)
      ? `table ${this.table}, key ${this.key}`
      : `table ${this.table}`
  }
}

/** Told of a record that is damaged or missing, and left out. */
export type DamageListener = (error: DamagedRecordError) => void

/** What `read` answers; null when it met damage that `onDamage` was told of. */
export function attempt<T>(read: () => T, onDamage: DamageListener): T | null {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof DamagedRecordError)) throw cause
    onDamage(cause)
    return null
  }
}

/** The listener of those who pass over nothing. */
export function refuseDamage(error: DamagedRecordError): never {
  throw error
}

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

/** The bytes of a sealed value (a view). Throws `DamagedRecordError`. */
export function unseal(table: string, key: Uint8Array, sealed: Buffer): Buffer {
  const length = sealed.length - SEAL_BYTES
  if (length < 0) throw new DamagedRecordError(table, key, 'the value is too short')
  const bytes = sealed.subarray(0, length)
  if (crc32(bytes, crc32(key)) !== sealed.readUInt32LE(length)) {
    throw new DamagedRecordError(table, key)
  }
  return bytes
}
