/**
 * The pieces of a backup. The entries of a table, in the order of their keys, are cut into chunks; a
 * chunk is a file named by the SHA-256 of its bytes, so that what did not change since the last backup
 * is already there. Where a chunk ends depends on the keys around the place only, so that entries which
 * are added or removed move no other border.
 *
 * A chunk is `key bytes u16, value bytes u32 (little-endian), key, value` for each entry, one behind the
 * other.
 */
import { createHash, webcrypto } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Entry } from '../../lmdb/environment.ts'
import { CHUNK_BYTES_MAX } from '../limits.ts'

const ENTRY_HEAD_BYTES = 6
/** No chunk ends before this size, unless the table does. */
const CHUNK_BYTES_MIN = 512 * 1024
/** Behind the least size, a chunk ends after about this many further bytes. */
const CHUNK_BYTES_SPREAD = 1024 * 1024
const HASH_SPACE = 2 ** 32
const WASM_PAGE_BYTES = 64 * 1024
const FIRST_PAGES = 32

/**
 * Memory in which a chunk is put together; its place stays, whatever it grows to. It begins at the border of
 * a page, which buffers of Node do not: only then can the file system take it to the disk as it is, past the
 * page cache.
 */
export class ChunkMemory {
  // The only memory of JavaScript whose start is known to be aligned.
  readonly #memory = new WebAssembly.Memory({ initial: FIRST_PAGES })
  #bytes = Buffer.from(this.#memory.buffer)

  /** All of it; becomes invalid when it grows. */
  get bytes(): Buffer {
    return this.#bytes
  }

  /** Makes room for at least so many bytes and answers all of it; what it held stays. */
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

/** A chunk that has no name yet. */
export interface Chunk {
  /** Holds it from the first byte on. */
  readonly memory: ChunkMemory
  readonly length: number
  readonly entries: number
}

/** A chunk whose bytes are not what its name says, or make no sense. */
export class DamagedChunkError extends Error {
  override readonly name = 'DamagedChunkError'
}

/** Goes through the entries of a table in the order of their keys. */
export interface EntryCursor {
  readonly keyBytes: number
  readonly valueBytes: number
  /** Goes to the next entry, at first to the first one; false behind the last. */
  next(): boolean
  /** Copies the key, and the value behind it. */
  copyTo(target: Buffer, offset: number): void
}

/**
 * Cuts entries into chunks. `takeMemory` is asked for each of them. Cost: one copy of all bytes. Throws
 * what the cursor throws.
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

/** The name of a chunk. It is found out in a thread of the pool of Node, meanwhile more can be read. */
export async function nameChunk({ memory, length }: Chunk): Promise<string> {
  const digest = await webcrypto.subtle.digest('SHA-256', memory.bytes.subarray(0, length))
  return Buffer.from(digest).toString('hex')
}

/** The entries of a chunk, as views of its bytes. Throws `DamagedChunkError`, which names the file. */
export function* readChunk(name: string, path: string, bytes: Buffer): Generator<Entry> {
  if (hashOf(bytes) !== name) {
    throw new DamagedChunkError(`${path} is damaged: its checksum does not fit`)
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

/** The chance of a border grows with the bytes of the entry, so that chunks are alike in size. */
function isBorder(key: Buffer, entryBytes: number, chunkBytes: number): boolean {
  if (chunkBytes >= CHUNK_BYTES_MAX) return true
  return crc32(key) < Math.min(1, entryBytes / CHUNK_BYTES_SPREAD) * HASH_SPACE
}

function hashOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
