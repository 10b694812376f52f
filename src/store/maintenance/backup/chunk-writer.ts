/**
 * Writes chunks into a backup folder, each only once. If the file system supports it, writes bypass the page cache.
 * This has three advantages: such writes need a sixth of the processor time, they do not push the daemon's data out of
 * the page cache, and they leave no unwritten pages for which the next flush of the daemon's log would have to wait.
 * Several files are flushed and renamed together, so that the journal of the file system is written once for all of
 * them.
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
/** The number of chunks that may be hashed and written at the same time, while further entries are read. */
const CHUNKS_AT_ONCE = 4
/**
 * The number of files that are written at a time, and the number of bytes in one write. Both numbers are small, because
 * writes of other programs, such as the daemon, wait until everything that is queued at the disk is written.
 */
const WRITES_AT_ONCE = 2
const WRITE_BYTES = 256 * 1024
/** The number of written files that are flushed and renamed together. */
const FILES_PER_FLUSH = 32
/** Direct writes must have a multiple of this number of bytes. */
const BLOCK_BYTES = 4096
/** The minimum free space that is left on the disk. */
const FREE_BYTES_MIN = 64 * 1024 ** 2
/** The free space is checked again each time this number of bytes was written. */
const BYTES_PER_LOOK = 16 * 1024 ** 2
/** Error codes of a file system that cannot bypass the page cache. */
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

  /** Reads the names of the chunks in the folder, and removes the unfinished files of an interrupted backup. */
  constructor(folder: string) {
    this.#folder = folder
    removeDrafts(folder)
    this.#known = new Set(chunkNames(folder))
    this.#memories = Array.from({ length: CHUNKS_AT_ONCE + 1 }, () => new ChunkMemory())
  }

  /** Returns memory for building the next chunk. After `add` has written that chunk, the memory is used again. */
  readonly takeMemory = (): ChunkMemory => this.#memories.pop() ?? new ChunkMemory()

  /**
   * Writes a chunk, unless the folder already has it, and calls `onName` once its name is known. If too many chunks are
   * in progress, waits until one is done. Throws errors of the file system, and `OperatorError` if the disk is nearly
   * full.
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

  /** Waits until all chunks are on the disk, under their final names. */
  async finish(): Promise<void> {
    await Promise.all(this.#running)
    this.#throwFailure()
    this.#publish()
    await this.#publishing
    this.#throwFailure()
    await Promise.all([...this.#touched].map((path) => flushFolder(path)))
    flush(join(this.#folder, 'chunks'))
  }

  /** Closes the files that are still open because the backup has failed. After `finish`, there are none. */
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

  /** Runs `action` as soon as fewer than `WRITES_AT_ONCE` other actions are running. */
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

  /**
   * Writes a chunk to a file, and returns the open file. If the write went through the page cache, the file is already
   * flushed.
   */
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

  /**
   * Starts to flush the files that were written since the last call and to give them their final names. If the work of
   * an earlier call has not ended, the new work begins after it.
   */
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

/** Returns the names of all chunks in a backup folder. */
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

/**
 * Writes a file without the page cache, or returns null if the file system does not support this. Without the page
 * cache, only whole blocks can be written, so the last block is padded, and the file is then truncated to the length of
 * the chunk.
 */
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
    const length = Math.min(WRITE_BYTES, bytes.length - written)
    const { bytesWritten } = await file.write(bytes, written, length, written)
    if (bytesWritten === 0)
      throw Object.assign(new Error('the system has written no bytes'), { code: 'ENOSPC' })
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
    // The files are flushed one after another: the first flush also writes the journal of the file system for all of
    // them, so parallel flushes would only wait for each other.
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
  return new OperatorError(
    `The disk of ${folder} is nearly full. Free some space and run the command again.`,
    { cause },
  )
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
