/**
 * Makes a backup of a data directory, while a daemon uses it or not. All three environments are pinned
 * before the first is read, the log first: an event that was acknowledged before is in the log or
 * already processed, and one that is in both is skipped on restoring by its position.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { OperatorError } from '../../base/errors.ts'
import { VERSION } from '../../base/version.ts'
import {
  ENVIRONMENT_NAMES,
  type EnvironmentName,
  FORMAT_VERSION,
  flush,
  requireStore,
  writeDurably,
} from '../data-dir.ts'
import { lockDataDir } from '../data-dir-lock.ts'
import { freeDiskBytes } from '../disk-guard.ts'
import { Environment, type PinnedEnvironment } from '../environment.ts'
import { type Chunk, cutChunks } from './chunks.ts'
import {
  allTables,
  BACKUP_VERSION,
  backupNames,
  chunkPath,
  encodeManifest,
  type Manifest,
  manifestPath,
  readManifest,
  type TableBackup,
} from './manifest.ts'

const MARK = `tenrec-backup ${BACKUP_VERSION}\n`
const DRAFT_SUFFIX = '.new'
/** Chunks that are being written while the next is read. */
const WRITES_MAX = 4
/** The target keeps at least this much free. */
const FREE_BYTES_MIN = 64 * 1024 ** 2

/** What to back up, and where to. */
export interface BackupOptions {
  readonly dataDir: string
  /** The backup folder; made if it is missing, and must be empty or a backup folder. */
  readonly folder: string
  readonly nowMs: number
  /** Backups to keep, this one included; older ones are removed afterwards. Null: all. */
  readonly keep: number | null
  /** Called after each chunk with all bytes read so far. */
  readonly onProgress: (bytes: number) => void
}

/** What a backup did. */
export interface BackupResult {
  readonly name: string
  readonly entries: number
  readonly bytes: number
  readonly chunks: number
  /** Chunks that were not there from an earlier backup. */
  readonly newChunks: number
  readonly newBytes: number
  /** Names of older backups that were removed. */
  readonly removed: readonly string[]
}

/** Makes one backup. Throws `OperatorError`. Cost: reads every byte of the store once. */
export async function createBackup(options: BackupOptions): Promise<BackupResult> {
  const dataDir = ENVIRONMENT_NAMES.map((name) => requireStore(options.dataDir, name))[0] ?? ''
  const folder = resolve(options.folder)
  openFolder(folder, dataDir)
  const release = await lockDataDir(folder)
  try {
    const writer = new ChunkWriter(folder)
    const environments = await readEnvironments(dataDir, writer, options.onProgress)
    await writer.finish()
    const manifest: Manifest = {
      version: BACKUP_VERSION,
      storeFormat: FORMAT_VERSION,
      program: VERSION,
      createdAt: new Date(options.nowMs).toISOString(),
      environments,
    }
    const name = freeName(folder, options.nowMs)
    writeDurably(manifestPath(folder, name), encodeManifest(manifest))
    const removed = options.keep === null ? [] : prune(folder, options.keep)
    const { bytes, entries, chunks, newBytes, newChunks } = writer
    return { name, bytes, entries, chunks, newBytes, newChunks, removed }
  } finally {
    release()
  }
}

/** Creates the folder, or checks that it is one of ours. */
function openFolder(folder: string, dataDir: string): void {
  if (folder === dataDir || folder.startsWith(`${dataDir}/`)) {
    throw new OperatorError(
      `${folder} lies in the data directory: choose a folder elsewhere, best on another disk`,
    )
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const mark = join(folder, 'format')
  if (existsSync(mark)) {
    if (readFileSync(mark, 'utf8') === MARK) return
    throw new OperatorError(`${mark} is not the line '${MARK.trim()}': choose another folder`)
  }
  if (readdirSync(folder).some((entry) => !entry.startsWith('lock'))) {
    throw new OperatorError(`${folder} is not empty and no backup folder: choose another`)
  }
  for (const part of ['backups', 'chunks']) mkdirSync(join(folder, part), { mode: 0o700 })
  writeDurably(mark, MARK)
}

type Environments = Record<EnvironmentName, readonly TableBackup[]>

async function readEnvironments(
  dataDir: string,
  writer: ChunkWriter,
  onProgress: (bytes: number) => void,
): Promise<Environments> {
  const opened = ENVIRONMENT_NAMES.map(
    (name) => new Environment({ dataDir, name, tables: [], isReadOnly: true }),
  )
  const names = opened.map((environment) => environment.openAll())
  const pins = opened.map((environment) => environment.pin())
  const tables: Partial<Record<EnvironmentName, readonly TableBackup[]>> = {}
  try {
    for (const [index, name] of ENVIRONMENT_NAMES.entries()) {
      const pin = pins[index]
      if (pin === undefined) continue
      const backups: TableBackup[] = []
      for (const table of names[index] ?? []) {
        backups.push(await readTable(pin, table, writer, onProgress))
      }
      tables[name] = backups
    }
  } finally {
    for (const pin of pins) pin.release()
    for (const environment of opened) await environment.close()
  }
  const { log = [], events = [], flags = [] } = tables
  return { log, events, flags }
}

async function readTable(
  pin: PinnedEnvironment,
  name: string,
  writer: ChunkWriter,
  onProgress: (bytes: number) => void,
): Promise<TableBackup> {
  const chunks: string[] = []
  let entries = 0
  let bytes = 0
  for (const chunk of cutChunks(pin.entries(name))) {
    await writer.add(chunk)
    chunks.push(chunk.name)
    entries += chunk.entries
    bytes += chunk.bytes.length
    onProgress(writer.bytes)
  }
  return { name, entries, bytes, chunks }
}

/** Puts chunks into a folder, some at a time, each once. */
class ChunkWriter {
  bytes = 0
  entries = 0
  chunks = 0
  newBytes = 0
  newChunks = 0
  readonly #folder: string
  readonly #known: Set<string>
  readonly #touched = new Set<string>()
  readonly #writes = new Set<Promise<void>>()
  #failure: Error | null = null

  constructor(folder: string) {
    this.#folder = folder
    this.#known = new Set(chunkNames(folder))
  }

  /** Takes a chunk; waits while too many are being written. Throws what the file system throws. */
  async add(chunk: Chunk): Promise<void> {
    this.chunks++
    this.bytes += chunk.bytes.length
    this.entries += chunk.entries
    if (this.#known.has(chunk.name)) return
    this.#known.add(chunk.name)
    this.newChunks++
    this.newBytes += chunk.bytes.length
    const write = this.#write(chunk)
      .catch((error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error))
      })
      .finally(() => this.#writes.delete(write))
    this.#writes.add(write)
    while (this.#writes.size >= WRITES_MAX) await Promise.race(this.#writes)
    this.#throwFailure()
  }

  /** Waits until every chunk and every name is on the disk. */
  async finish(): Promise<void> {
    await Promise.all(this.#writes)
    this.#throwFailure()
    for (const path of this.#touched) flush(path)
    flush(join(this.#folder, 'chunks'))
  }

  async #write(chunk: Chunk): Promise<void> {
    const freeBytes = await freeDiskBytes(this.#folder)
    if (freeBytes < FREE_BYTES_MIN + chunk.bytes.length) {
      throw new OperatorError(`the disk of ${this.#folder} is nearly full: make room and repeat`)
    }
    const path = chunkPath(this.#folder, chunk.name)
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    const file = await open(path + DRAFT_SUFFIX, 'w', 0o600)
    try {
      await file.writeFile(chunk.bytes)
      await file.datasync()
    } finally {
      await file.close()
    }
    await rename(path + DRAFT_SUFFIX, path)
    this.#touched.add(dirname(path))
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure
  }
}

function chunkNames(folder: string): readonly string[] {
  const root = join(folder, 'chunks')
  return readdirSync(root).flatMap((part) => {
    const path = join(root, part)
    return readdirSync(path).filter((name) => name.length === 64)
  })
}

/** The time as a name; with a number behind it when there is one of that second. */
function freeName(folder: string, nowMs: number): string {
  const base = new Date(nowMs).toISOString().replace(/[-:]|\.\d+/g, '')
  const taken = new Set(backupNames(folder))
  if (!taken.has(base)) return base
  let number = 2
  while (taken.has(`${base}-${number}`)) number++
  return `${base}-${number}`
}

/** Removes all but the newest backups, then the chunks that no backup needs any more. */
function prune(folder: string, keep: number): readonly string[] {
  const names = backupNames(folder)
  const removed = names.slice(0, Math.max(0, names.length - keep))
  const needed = new Set<string>()
  for (const name of names.slice(removed.length)) {
    for (const { chunks } of allTables(readManifest(folder, name))) {
      for (const chunk of chunks) needed.add(chunk)
    }
  }
  for (const name of removed) rmSync(manifestPath(folder, name))
  flush(join(folder, 'backups'))
  for (const name of chunkNames(folder)) {
    if (!needed.has(name)) rmSync(chunkPath(folder, name))
  }
  return removed
}
