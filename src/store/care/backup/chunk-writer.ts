/**
 * Puts chunks into a backup folder, each once. What is written goes past the page cache where the file
 * system can do that: it costs a sixth of the processor's time, keeps in memory what the daemon reads,
 * and leaves no heap of unwritten pages that the next flush of the daemon's log would have to wait for.
 * Files are flushed and get their names some at a time, so that the file system's journal is written
 * once for all of them.
 */
import { constants, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { type FileHandle, open, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { diskSpace } from '../../../base/disk-space.ts'
import { flush } from '../../../base/durable-file.ts'
import { OperatorError } from '../../../base/errors.ts'
import { type Chunk, ChunkMemory, nameChunk } from './chunks.ts'
import { chunkPath } from './manifest.ts'

const DRAFT_SUFFIX = '.new'
/** Chunks that are hashed and written while the next is read. */
const CHUNKS_AT_ONCE = 4
/** Files that are written at a time, in pieces: what the disk has queued is what others wait for. */
const WRITES_AT_ONCE = 2
const PIECE_BYTES = 256 * 1024
/** Written files that are flushed and named together. */
const FILES_PER_FLUSH = 32
/** What direct writes are a multiple of. */
const BLOCK_BYTES = 4096
/** The target keeps at least this much free. */
const FREE_BYTES_MIN = 64 * 1024 ** 2
/** Free space is asked for again when so much was written. */
const BYTES_PER_LOOK = 16 * 1024 ** 2
/** What a file system answers that cannot write past the page cache. */
const NOT_DIRECT = ['EINVAL', 'EOPNOTSUPP', 'ENOTSUP']
const DISK_FULL = ['ENOSPC', 'EDQUOT']
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC

interface Draft {
  readonly file: FileHandle
  readonly path: string
}

/** Writes the chunks of one backup. */
export class ChunkWriter {
  bytes = 0
  entries = 0
  chunks = 0
  newBytes = 0
  newChunks = 0
  readonly #folder: string
  readonly #known: Set<string>
  readonly #touched = new Set<string>()
  readonly #memories: ChunkMemory[]
  readonly #running = new Set<Promise<void>>()
  readonly #waiting: (() => void)[] = []
  #writing = 0
  #drafts: Draft[] = []
  #publishing: Promise<void> = Promise.resolve()
  #bytesUntilLook = 0
  #isDirect = true
  #failure: Error | null = null

  /** Removes what an earlier backup that was cut short has left half written. */
  constructor(folder: string) {
    this.#folder = folder
    removeDrafts(folder)
    this.#known = new Set(chunkNames(folder))
    this.#memories = Array.from({ length: CHUNKS_AT_ONCE + 1 }, () => new ChunkMemory())
  }

  /** Memory for the next chunk, until `add` gets it. */
  readonly takeMemory = (): ChunkMemory => this.#memories.pop() ?? new ChunkMemory()

  /**
   * Takes a chunk; `onName` is told its name when it is known. Waits while too many are on their way.
   * Throws what the file system throws, and `OperatorError` when the disk is nearly full.
   */
  async add(chunk: Chunk, onName: (name: string) => void): Promise<void> {
    this.chunks++
    this.bytes += chunk.length
    this.entries += chunk.entries
    const work = this.#put(chunk, onName)
      .catch((error: unknown) => {
        this.#failure ??= asFailure(error, this.#folder)
      })
      .finally(() => {
        this.#memories.push(chunk.memory)
        this.#running.delete(work)
      })
    this.#running.add(work)
    while (this.#running.size >= CHUNKS_AT_ONCE) await Promise.race(this.#running)
    this.#throwFailure()
  }

  /** Waits until every chunk and every name is on the disk. */
  async finish(): Promise<void> {
    await Promise.all(this.#running)
    this.#throwFailure()
    this.#publish()
    await this.#publishing
    this.#throwFailure()
    await Promise.all([...this.#touched].map((path) => flushFolder(path)))
    flush(join(this.#folder, 'chunks'))
  }

  /** Closes what is open; nothing else when `finish` was called. */
  async close(): Promise<void> {
    await Promise.all(this.#running)
    await this.#publishing
    for (const { file } of this.#drafts.splice(0)) await file.close()
  }

  async #put(chunk: Chunk, onName: (name: string) => void): Promise<void> {
    const name = await nameChunk(chunk)
    onName(name)
    if (this.#known.has(name) || this.#failure !== null) return
    this.#known.add(name)
    this.newChunks++
    this.newBytes += chunk.length
    await this.#requireSpace(chunk.length)
    const path = chunkPath(this.#folder, name)
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const file = await this.#inTurn(() => this.#write(path + DRAFT_SUFFIX, chunk))
    this.#drafts.push({ path, file })
    if (this.#drafts.length >= FILES_PER_FLUSH) this.#publish()
  }

  /** Runs `action` when fewer than `WRITES_AT_ONCE` others run. */
  async #inTurn<T>(action: () => Promise<T>): Promise<T> {
    while (this.#writing >= WRITES_AT_ONCE) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
    this.#writing++
    try {
      return await action()
    } finally {
      this.#writing--
      this.#waiting.shift()?.()
    }
  }

  async #requireSpace(bytes: number): Promise<void> {
    this.#bytesUntilLook -= bytes
    if (this.#bytesUntilLook >= 0) return
    this.#bytesUntilLook = BYTES_PER_LOOK
    const { freeBytes } = await diskSpace(this.#folder)
    if (freeBytes < FREE_BYTES_MIN + bytes) throw diskFull(this.#folder)
  }

  /** A file with the chunk, still open. What went through the page cache is flushed already. */
  async #write(path: string, chunk: Chunk): Promise<FileHandle> {
    if (this.#isDirect) {
      const file = await writeDirectly(path, chunk)
      if (file !== null) return file
      this.#isDirect = false
    }
    const file = await open(path, CREATE, 0o600)
    return orClose(file, async () => {
      await writeAll(file, chunk.memory.bytes.subarray(0, chunk.length))
      await file.datasync()
    })
  }

  /** Flushes all drafts and names them, one such batch after the other. */
  #publish(): void {
    const drafts = this.#drafts
    this.#drafts = []
    this.#publishing = this.#publishing
      .then(() => publish(drafts))
      .then(() => {
        for (const { path } of drafts) this.#touched.add(dirname(path))
      })
      .catch((error: unknown) => {
        this.#failure ??= asFailure(error, this.#folder)
      })
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure
  }
}

/** The names of all chunks in a backup folder. */
export function chunkNames(folder: string): readonly string[] {
  const root = join(folder, 'chunks')
  return readdirSync(root).flatMap((part) =>
    readdirSync(join(root, part)).filter((name) => name.length === 64),
  )
}

function removeDrafts(folder: string): void {
  const root = join(folder, 'chunks')
  for (const part of readdirSync(root)) {
    for (const name of readdirSync(join(root, part))) {
      if (name.endsWith(DRAFT_SUFFIX)) rmSync(join(root, part, name))
    }
  }
}

/** Null where the file system cannot do it. The last block is written as a whole, then cut. */
async function writeDirectly(path: string, { memory, length }: Chunk): Promise<FileHandle | null> {
  const padded = Math.ceil(length / BLOCK_BYTES) * BLOCK_BYTES
  const bytes = memory.grow(padded).subarray(0, padded)
  try {
    const file = await open(path, CREATE | constants.O_DIRECT, 0o600)
    return await orClose(file, async () => {
      await writeAll(file, bytes)
      await file.truncate(length)
    })
  } catch (error) {
    if (NOT_DIRECT.includes(codeOf(error))) return null
    throw error
  }
}

async function writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
  let written = 0
  while (written < bytes.length) {
    const length = Math.min(PIECE_BYTES, bytes.length - written)
    const { bytesWritten } = await file.write(bytes, written, length, written)
    if (bytesWritten === 0) throw Object.assign(new Error('nothing is written'), { code: 'ENOSPC' })
    written += bytesWritten
  }
}

async function orClose(file: FileHandle, action: () => Promise<void>): Promise<FileHandle> {
  try {
    await action()
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

async function publish(drafts: readonly Draft[]): Promise<void> {
  try {
    // The first writes the journal for all; more of them at a time would only hold threads.
    for (const { file } of drafts) await file.datasync()
  } finally {
    for (const { file } of drafts) await file.close()
  }
  for (const { path } of drafts) await rename(path + DRAFT_SUFFIX, path)
}

async function flushFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

function asFailure(error: unknown, folder: string): Error {
  if (DISK_FULL.includes(codeOf(error))) return diskFull(folder, error)
  return error instanceof Error ? error : new Error(String(error))
}

function diskFull(folder: string, cause?: unknown): OperatorError {
  return new OperatorError(`the disk of ${folder} is nearly full: make room and repeat`, { cause })
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
