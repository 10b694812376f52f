/**
 * The chunks of a backup. The entries of a table, in the order of their keys, are divided into chunks. A chunk is a
 * file that is named after the SHA-256 of its bytes. So if a chunk has not changed since the last backup, its file
 * already exists. Where a chunk ends depends only on the keys near its end. So if entries are added or removed in one
 * chunk, the boundaries of most other chunks stay the same.
 *
 *   chunk   for each entry: key bytes u16 | value bytes u32 | key | value; little-endian
 */
import { createHash, webcrypto } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Entry } from '../../lmdb/environment.ts'
import { CHUNK_BYTES_MAX } from '../limits.ts'

const ENTRY_HEAD_BYTES = 6
/** The minimum size of a chunk, except for the last one of a table. */
const CHUNK_BYTES_MIN = 512 * 1024
/** The average number of bytes by which a chunk exceeds the minimum size. */
const CHUNK_BYTES_SPREAD = 1024 * 1024
const HASH_SPACE = 2 ** 32
const WASM_PAGE_BYTES = 64 * 1024
const FIRST_PAGES = 32

/**
 * Memory for building a chunk. It begins at the start of a memory page, and its address stays the same when it grows.
 * Both are needed to write directly to the disk, without the page cache, and a buffer of Node.js guarantees neither.
 */
export class ChunkMemory {
  // Only the memory of WebAssembly is certain to start at the boundary of a memory page.
  readonly #memory = new WebAssembly.Memory({ initial: FIRST_PAGES })
  #bytes = Buffer.from(this.#memory.buffer)

  /** All of the memory, as a buffer. The buffer becomes invalid when the memory grows. */
  get bytes(): Buffer {
    return this.#bytes
  }

  /** Makes sure that the memory has at least this number of bytes, and returns all of it. The contents are kept. */
  grow(bytes: number): Buffer {
    const missing = bytes - this.#bytes.length
    if (missing > 0) {
      const more = Math.max(this.#bytes.length, missing)
      this.#memory.grow(Math.ceil(more / WASM_PAGE_BYTES))
      this.#bytes = Buffer.from(this.#memory.buffer)
    }
    return this.#bytes
  }
}

/** A chunk whose name has not been calculated yet. */
export interface Chunk {
  /** The memory that contains the chunk from its first byte on. */
  readonly memory: ChunkMemory
  readonly length: number
  readonly entries: number
}

/** Thrown if the bytes of a chunk do not match its name, or cannot be decoded. */
export class DamagedChunkError extends Error {
  override readonly name = 'DamagedChunkError'
}

/** Iterates over the entries of a table in the order of their keys. */
export interface EntryCursor {
  readonly keyBytes: number
  readonly valueBytes: number
  /** Moves to the next entry. The first call moves to the first entry. Returns false after the last one. */
  next(): boolean
  /** Copies the key, followed by the value. */
  copyTo(target: Buffer, offset: number): void
}

/**
 * Divides entries into chunks. `takeMemory` is called for each chunk. Costs one copy of all bytes. Throws the errors of
 * the cursor.
 */
export function* cutChunks(entries: EntryCursor, takeMemory: () => ChunkMemory): Generator<Chunk> {
  let memory: ChunkMemory | null = null
  let bytes: Buffer = Buffer.alloc(0)
  let length = 0
  let count = 0
  while (entries.next()) {
    if (memory === null) {
      memory = takeMemory()
      bytes = memory.bytes
    }
    const { keyBytes, valueBytes } = entries
    const entryBytes = ENTRY_HEAD_BYTES + keyBytes + valueBytes
    if (length + entryBytes > bytes.length) bytes = memory.grow(length + entryBytes)
    bytes.writeUInt16LE(keyBytes, length)
    bytes.writeUInt32LE(valueBytes, length + 2)
    const keyStart = length + ENTRY_HEAD_BYTES
    entries.copyTo(bytes, keyStart)
    length += entryBytes
    count++
    if (length < CHUNK_BYTES_MIN) continue
    if (isBorder(bytes.subarray(keyStart, keyStart + keyBytes), entryBytes, length)) {
      yield { memory, length, entries: count }
      memory = null
      length = 0
      count = 0
    }
  }
  if (memory !== null) yield { memory, length, entries: count }
}

/**
 * Returns the name of a chunk. The hash is calculated in the thread pool of Node.js, so that this thread can read
 * further entries meanwhile.
 */
export async function nameChunk({ memory, length }: Chunk): Promise<string> {
  const digest = await webcrypto.subtle.digest('SHA-256', memory.bytes.subarray(0, length))
  return Buffer.from(digest).toString('hex')
}

/** Returns the entries of a chunk as views of its bytes. Throws `DamagedChunkError` with the path of the file. */
export function* readChunk(name: string, path: string, bytes: Buffer): Generator<Entry> {
  if (hashOf(bytes) !== name) {
    throw new DamagedChunkError(`${path} is damaged: its checksum does not match`)
  }
  let offset = 0
  while (offset < bytes.length) {
    const keyStart = offset + ENTRY_HEAD_BYTES
    const valueStart = keyStart + (keyStart <= bytes.length ? bytes.readUInt16LE(offset) : 0)
    const end = valueStart + (keyStart <= bytes.length ? bytes.readUInt32LE(offset + 2) : 0)
    if (keyStart > bytes.length || end > bytes.length) {
      throw new DamagedChunkError(`${path} is damaged: it ends in the middle of an entry`)
    }
    yield { key: bytes.subarray(keyStart, valueStart), value: bytes.subarray(valueStart, end) }
    offset = end
  }
}

/**
 * Returns whether a chunk ends after this entry. A large entry is more likely to end a chunk than a small one, so that
 * chunks have similar sizes.
 */
function isBorder(key: Buffer, entryBytes: number, chunkBytes: number): boolean {
  if (chunkBytes >= CHUNK_BYTES_MAX) return true
  return crc32(key) < Math.min(1, entryBytes / CHUNK_BYTES_SPREAD) * HASH_SPACE
}

function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
