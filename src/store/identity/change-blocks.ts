/**
 * Encodes and decodes blocks of changes, in the format described in person-changes.ts. An entry can be copied, and a
 * delta can be appended to it, without decoding the entry. The checksum of the extended entry is then computed from the
 * stored checksum and the new bytes. So a reader still detects damage to the stored bytes: if the copied bytes did not
 * match the stored checksum, the extended entry does not match the new checksum either.
 */
import { crc32 } from 'node:zlib'
import { DamagedRecordError } from '../faults.ts'
import { PERSON_CHANGES_MAX } from './limits.ts'

/** The table that contains the blocks. */
export const CHANGES = 'person_changes'
/**
 * The value in place of the version in an entry that contains only deltas. The version of the person's complete record
 * then applies.
 */
const WHOLE_VERSION = 0xffff_ffff
const BLOCK_BYTES = 16 * 1024
const HEAD_BYTES = 4
const ENTRY_HEAD_BYTES = 8
const VERSION_BYTES = 4
const CRC_BYTES = 4
const LINE_FEED = 0x0a

/** The changes that are stored for one person. */
export interface StoredChanges {
  /** The version of the person before the deltas. Null: the version of the person's complete record. */
  readonly version: number | null
  /** The changed properties as JSON, or '' if there are only deltas. */
  readonly json: string
  /** The deltas in order, separated by line feeds, or '' if there are none. */
  readonly deltas: string
}

/** An entry of a block: the bytes from `start` to `end`. Its checksum follows them. */
export interface ChangesEntry {
  readonly block: Buffer
  readonly start: number
  readonly end: number
}

/**
 * Returns the location of an entry. Does not check its contents. Throws `DamagedRecordError` if the entry is missing.
 */
export function findEntry(
  key: Buffer,
  block: Buffer,
  number: number,
  position: number,
): ChangesEntry {
  const head = HEAD_BYTES + position * ENTRY_HEAD_BYTES
  const count = entryCount(block)
  const bodyStart = HEAD_BYTES + count * ENTRY_HEAD_BYTES
  if (position >= count || bodyStart > block.length || block.readUInt32LE(head) !== number) {
    throw new DamagedRecordError(CHANGES, key, 'the entry is missing')
  }
  const start = position === 0 ? bodyStart : block.readUInt32LE(head - 4)
  const end = block.readUInt32LE(head + 4) - CRC_BYTES
  if (start + VERSION_BYTES > end || end + CRC_BYTES > block.length) {
    throw new DamagedRecordError(CHANGES, key, 'the entry has a wrong length')
  }
  return { block, start, end }
}

/** Returns the contents of an entry. `key` is the key of its block. Throws `DamagedRecordError`. */
export function readEntry(
  key: Buffer,
  number: number,
  { block, start, end }: ChangesEntry,
): StoredChanges {
  const crc = crc32(block.subarray(start, end), seedOf(key.readUInt32BE(), number))
  if (crc !== block.readUInt32LE(end)) throw new DamagedRecordError(CHANGES, key)
  const version = block.readUInt32LE(start)
  const text = block.toString('utf8', start + VERSION_BYTES, end)
  // The JSON that Tenrec writes contains no line feeds.
  const jsonEnd = text.indexOf('\n')
  return {
    version: version === WHOLE_VERSION ? null : version,
    json: jsonEnd < 0 ? text : text.slice(0, jsonEnd),
    deltas: jsonEnd < 0 ? '' : text.slice(jsonEnd + 1),
  }
}

/** Returns the number of entries in a block. Outdated entries, which newer ones have replaced, count too. */
export function entryCount(block: Buffer): number {
  return block.length < HEAD_BYTES ? 0 : block.readUInt32LE()
}

/** Returns the person number of the entry at a position of a block. */
export function numberAt(block: Buffer, position: number): number {
  return block.readUInt32LE(HEAD_BYTES + position * ENTRY_HEAD_BYTES)
}

/** Checks every entry of a block, including outdated ones. Throws `DamagedRecordError`. */
export function checkChangesBlock(key: Buffer, block: Buffer): void {
  const count = entryCount(block)
  const bodyStart = HEAD_BYTES + count * ENTRY_HEAD_BYTES
  if (count === 0 || bodyStart > block.length) {
    throw new DamagedRecordError(CHANGES, key, 'the block has a wrong length')
  }
  for (let position = 0; position < count; position++) {
    const number = numberAt(block, position)
    readEntry(key, number, findEntry(key, block, number, position))
  }
  if (block.readUInt32LE(bodyStart - 4) !== block.length) {
    throw new DamagedRecordError(CHANGES, key, 'the block has a wrong length')
  }
}

/** An entry that was added to a block. */
export interface AddedEntry {
  readonly number: number
  /** The offset at which the entry ends, counted from the start of the block's first entry. */
  readonly end: number
  /** The number of further deltas that the person may get, encoded as person-changes.ts describes. */
  readonly room: number
}

/** A block of changes that is being filled. `finish` returns it and starts the next one in the same memory. */
export class ChangesBlockWriter {
  readonly #projectId: number
  #body = Buffer.allocUnsafeSlow(4 * BLOCK_BYTES)
  #length = 0
  #entries: AddedEntry[] = []

  constructor(projectId: number) {
    this.#projectId = projectId
  }

  /** The entries added since the last `finish`. */
  get entries(): readonly AddedEntry[] {
    return this.#entries
  }

  get isFull(): boolean {
    return this.#entries.length >= PERSON_CHANGES_MAX || this.#length >= BLOCK_BYTES
  }

  /** Adds the changes of a person, without deltas. */
  addChanges(number: number, version: number, json: string, room: number): void {
    this.#reserve(VERSION_BYTES + json.length * 3 + CRC_BYTES)
    const start = this.#length
    this.#length = this.#body.writeUInt32LE(version, start)
    this.#length += this.#body.write(json, this.#length, 'utf8')
    this.#seal(number, start, seedOf(this.#projectId, number), room)
  }

  /**
   * Adds an entry for a person that gets a delta: a copy of the entry `stored`, followed by the delta. If `stored` is
   * null, the person has no changes yet.
   */
  addDelta(number: number, stored: ChangesEntry | null, delta: string, room: number): void {
    const storedBytes = stored === null ? VERSION_BYTES : stored.end - stored.start
    this.#reserve(storedBytes + 1 + delta.length * 3 + CRC_BYTES)
    let added = this.#length
    let crc = seedOf(this.#projectId, number)
    if (stored === null) this.#length = this.#body.writeUInt32LE(WHOLE_VERSION, this.#length)
    else {
      crc = stored.block.readUInt32LE(stored.end)
      added += stored.block.copy(this.#body, this.#length, stored.start, stored.end)
      this.#length = added
    }
    this.#body[this.#length++] = LINE_FEED
    this.#length += this.#body.write(delta, this.#length, 'utf8')
    this.#seal(number, added, crc, room)
  }

  /** Adds an unchanged copy of an entry from another block. */
  addCopy(number: number, { block, start, end }: ChangesEntry, room: number): void {
    this.#reserve(end - start + CRC_BYTES)
    this.#length += block.copy(this.#body, this.#length, start, end + CRC_BYTES)
    this.#entries.push({ number, end: this.#length, room })
  }

  /** Returns a block with all entries that were added, and starts a new one. */
  finish(): Buffer {
    const entries = this.#entries
    const bodyStart = HEAD_BYTES + entries.length * ENTRY_HEAD_BYTES
    const block = Buffer.allocUnsafeSlow(bodyStart + this.#length)
    let offset = block.writeUInt32LE(entries.length)
    for (const { number, end } of entries) {
      offset = block.writeUInt32LE(number, offset)
      offset = block.writeUInt32LE(bodyStart + end, offset)
    }
    this.#body.copy(block, bodyStart, 0, this.#length)
    this.#length = 0
    this.#entries = []
    return block
  }

  /**
   * Ends an entry and writes its checksum. `crc` is the checksum of the entry's bytes before the offset `from`. The
   * bytes from `from` on are added to the checksum here.
   */
  #seal(number: number, from: number, crc: number, room: number): void {
    const sum = crc32(this.#body.subarray(from, this.#length), crc)
    this.#length = this.#body.writeUInt32LE(sum, this.#length)
    this.#entries.push({ number, end: this.#length, room })
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes
    if (needed <= this.#body.length) return
    const body = Buffer.allocUnsafeSlow(Math.max(needed, this.#body.length * 2))
    this.#body.copy(body, 0, 0, this.#length)
    this.#body = body
  }
}

/**
 * Returns the initial value of the checksum of an entry. It depends on the person, so an entry that is stored under a
 * wrong person is detected.
 */
function seedOf(projectId: number, number: number): number {
  return (Math.imul(projectId, 0x9e3779b1) ^ number) >>> 0
}
