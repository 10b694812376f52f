/**
 * Makes a backup of a data directory, while a daemon uses it or not. All three environments are pinned
 * before the first is read, the log first: an event that was acknowledged before is in the log or
 * already processed, and one that is in both is skipped on restoring by its position. The events may be
 * ahead of the log by what was processed in between; a restore lets the log know (store-agreement.ts).
 */
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { flush, writeDurably } from '../../../base/durable-file.ts'
import { OperatorError } from '../../../base/errors.ts'
import { VERSION } from '../../../base/version.ts'
import {
  ENVIRONMENT_NAMES,
  type EnvironmentName,
  FORMAT_VERSION,
  requireAgreement,
  requireEnvironment,
} from '../../directory/data-dir.ts'
import { lockDataDir } from '../../directory/data-dir-lock.ts'
import { Environment } from '../../lmdb/environment.ts'
import { LmdbFault } from '../verify/lmdb-walk.ts'
import { type PinnedState, pinNewest } from '../verify/pin-newest.ts'
import { ChunkWriter, chunkNames } from './chunk-writer.ts'
import { cutChunks } from './chunks.ts'
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
import { listTables, TableCursor } from './table-cursor.ts'

const DATA_NAME = 'data.mdb'
const MARK = `tenrec-backup ${BACKUP_VERSION}\n`

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
  const [dataDir = ''] = ENVIRONMENT_NAMES.map((name) => requireEnvironment(options.dataDir, name))
  const folder = resolve(options.folder)
  openFolder(folder, dataDir)
  const release = await lockDataDir(folder, 'backup')
  const writer = new ChunkWriter(folder)
  try {
    const environments = await readEnvironments(dataDir, writer, options.onProgress)
    // Before it may take the place of an earlier one; now LMDB may read the files, as all pages were in order.
    requireAgreement(dataDir)
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
    await writer.close()
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
  const pins: PinnedState[] = []
  const tables: Partial<Record<EnvironmentName, readonly TableBackup[]>> = {}
  try {
    const files = ENVIRONMENT_NAMES.map((name) => join(dataDir, name, DATA_NAME))
    for (const [index, environment] of opened.entries()) {
      pins.push(pinFile(environment, files[index] ?? ''))
    }
    for (const [index, name] of ENVIRONMENT_NAMES.entries()) {
      const pinned = pins[index]
      if (pinned === undefined) continue
      tables[name] = await readFileOf(files[index] ?? '', pinned, writer, onProgress)
    }
  } finally {
    for (const { pin } of pins) pin.release()
    for (const environment of opened) await environment.close()
  }
  const { log = [], events = [], flags = [] } = tables
  return { log, events, flags }
}

function pinFile(environment: Environment, file: string): PinnedState {
  const pinned = pinNewest(environment, file)
  if (pinned !== null) return pinned
  throw new OperatorError(`${file} changes too often to be read: try again`)
}

async function readFileOf(
  file: string,
  { state }: PinnedState,
  writer: ChunkWriter,
  onProgress: (bytes: number) => void,
): Promise<readonly TableBackup[]> {
  const descriptor = openSync(file, 'r')
  try {
    const backups: TableBackup[] = []
    for (const { name, tree } of listTables(descriptor, state)) {
      const cursor = new TableCursor(descriptor, state, tree)
      const backup = await readTable(cursor, name, writer, onProgress)
      if (backup.entries !== tree.entries) {
        throw new LmdbFault(`table ${name} has ${backup.entries} entries of ${tree.entries}`)
      }
      backups.push(backup)
    }
    return backups
  } catch (cause) {
    if (!(cause instanceof LmdbFault)) throw cause
    throw new OperatorError(
      `${file} is damaged (${cause.message}): see 'tenrec verify'; restore it from an earlier backup`,
      { exitCode: 78, cause },
    )
  } finally {
    closeSync(descriptor)
  }
}

async function readTable(
  cursor: TableCursor,
  name: string,
  writer: ChunkWriter,
  onProgress: (bytes: number) => void,
): Promise<TableBackup> {
  const chunks: string[] = []
  let entries = 0
  let bytes = 0
  for (const chunk of cutChunks(cursor, writer.takeMemory)) {
    const place = chunks.push('') - 1
    entries += chunk.entries
    bytes += chunk.length
    await writer.add(chunk, (chunkName) => {
      chunks[place] = chunkName
    })
    onProgress(writer.bytes)
  }
  return { name, entries, bytes, chunks }
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
