/**
 * The pieces of a backup. The entries of a table, in the order of their keys, are cut into chunks; a
 * chunk is a file named by the SHA-256 of its bytes, so that what did not change since the last backup
 * is already there. Where a chunk ends depends on the keys around the place only, so that entries which
 * are added or removed move no other border.
 *
 * A chunk is `key bytes u16, value bytes u32 (little-endian), key, value` for each entry, one behind the
 * other.
 */
import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Entry } from '../environment.ts'

const ENTRY_HEAD_BYTES = 6
/** No chunk ends before this size, unless the table does. */
const CHUNK_BYTES_MIN = 512 * 1024
/** Behind the least size, a chunk ends after about this many further bytes. */
const CHUNK_BYTES_SPREAD = 1024 * 1024
/** A chunk ends at the latest with the entry that reaches this size. */
const CHUNK_BYTES_MAX = 8 * 1024 * 1024
const HASH_SPACE = 2 ** 32

/** A finished chunk. */
export interface Chunk {
  /** SHA-256 of `bytes`, hexadecimal digits. */
  readonly name: string
  readonly bytes: Buffer
  readonly entries: number
}

/** A chunk whose bytes are not what its name says, or make no sense. */
export class DamagedChunkError extends Error {
  override readonly name = 'DamagedChunkError'
}

/** Cuts entries into chunks. Cost: one copy and one hash of all bytes. */
export function* cutChunks(entries: Iterable<Entry>): Generator<Chunk> {
  let memory = Buffer.allocUnsafeSlow(CHUNK_BYTES_MIN + CHUNK_BYTES_SPREAD)
  let length = 0
  let count = 0
  for (const { key, value } of entries) {
    const entryBytes = ENTRY_HEAD_BYTES + key.length + value.length
    if (length + entryBytes > memory.length) {
      const larger = Buffer.allocUnsafeSlow((length + entryBytes) * 2)
      larger.set(memory.subarray(0, length))
      memory = larger
    }
    memory.writeUInt16LE(key.length, length)
    memory.writeUInt32LE(value.length, length + 2)
    memory.set(key, length + ENTRY_HEAD_BYTES)
    memory.set(value, length + ENTRY_HEAD_BYTES + key.length)
    length += entryBytes
    count++
    if (isBorder(key, entryBytes, length)) {
      yield finishChunk(memory.subarray(0, length), count)
      memory = Buffer.allocUnsafeSlow(CHUNK_BYTES_MIN + CHUNK_BYTES_SPREAD)
      length = 0
      count = 0
    }
  }
  if (count > 0) yield finishChunk(memory.subarray(0, length), count)
}

/** The entries of a chunk, as views of its bytes. Throws `DamagedChunkError`. */
export function* readChunk(name: string, bytes: Buffer): Generator<Entry> {
  if (hashOf(bytes) !== name) {
    throw new DamagedChunkError(`the chunk ${name} is damaged: its checksum does not fit`)
  }
  let offset = 0
  while (offset < bytes.length) {
    const keyStart = offset + ENTRY_HEAD_BYTES
    const valueStart = keyStart + (keyStart <= bytes.length ? bytes.readUInt16LE(offset) : 0)
    const end = valueStart + (keyStart <= bytes.length ? bytes.readUInt32LE(offset + 2) : 0)
    if (keyStart > bytes.length || end > bytes.length) {
      throw new DamagedChunkError(`the chunk ${name} ends in the middle of an entry`)
    }
    yield { key: bytes.subarray(keyStart, valueStart), value: bytes.subarray(valueStart, end) }
    offset = end
  }
}

/** The chance of a border grows with the bytes of the entry, so that chunks are alike in size. */
function isBorder(key: Buffer, entryBytes: number, chunkBytes: number): boolean {
  if (chunkBytes < CHUNK_BYTES_MIN) return false
  if (chunkBytes >= CHUNK_BYTES_MAX) return true
  return crc32(key) < Math.min(1, entryBytes / CHUNK_BYTES_SPREAD) * HASH_SPACE
}

function finishChunk(bytes: Buffer, entries: number): Chunk {
  return { name: hashOf(bytes), bytes, entries }
}

function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
