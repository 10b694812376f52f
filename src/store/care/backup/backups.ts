/**
 * What can be done with a backup folder: make a backup, list and check those that are there,
 * restore one.
 *
 * A backup takes a chunk that is there for a good one, so one that rots would otherwise show when
 * somebody needs it: checking reads manifests and chunks and compares them with their checksums. A
 * backup of an older format is restored as it is and then migrated: cut short, `tenrec migrate`
 * goes on with it.
 */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { flush, writeDurably } from '../../../base/durable-file.ts'
import { OperatorError } from '../../../base/errors.ts'
import { VERSION } from '../../../base/version.ts'
import {
  FORMAT_VERSION,
  PART_NAMES,
  RESTORE_MARK,
  requireAgreement,
  requireEnvironment,
} from '../../directory/data-dir.ts'
import { lockDataDir } from '../../directory/data-dir-lock.ts'
import type { Migration } from '../migrations.ts'
import { MIGRATIONS, planMigration, runMigration, stepsFrom } from '../migrations.ts'
import { ChunkWriter, chunkNames } from './chunk-writer.ts'
import { DamagedChunkError, readChunk } from './chunks.ts'
import {
  allTables,
  BACKUP_VERSION,
  backupNames,
  chunkPath,
  encodeManifest,
  type Manifest,
  manifestPath,
  manifestTotals,
  nextSequence,
  readManifest,
} from './manifest.ts'
import { refill } from './store-builder.ts'
import { storeIdentity } from './store-identity.ts'
import { readEnvironments } from './store-reader.ts'

/** A backup that is there. */
export interface BackupSummary {
  readonly name: string
  /** ISO 8601. */
  readonly createdAt: string
  /** Version of the program that made it. */
  readonly program: string
  readonly entries: number
  readonly bytes: number
}

/** The backups in a folder, oldest first. Throws `OperatorError` when one cannot be read. */
export function listBackups(folder: string): readonly BackupSummary[] {
  return backupNames(folder).map((name) => summaryOf(folder, name))
}

/** The newest backup in a folder, or null. Throws as `listBackups`; the others are not read. */
export function newestBackup(folder: string): BackupSummary | null {
  const name = backupNames(folder).at(-1)
  return name === undefined ? null : summaryOf(folder, name)
}

function summaryOf(folder: string, name: string): BackupSummary {
  const manifest = readManifest(folder, name)
  const { createdAt, program } = manifest
  return { name, createdAt, program, ...manifestTotals(manifest) }
}

/** What was checked. */
export interface BackupCheck {
  readonly backups: number
  /** Chunks, each counted once. */
  readonly chunks: number
  readonly bytes: number
  /** What is wrong, a sentence for each file, with the file and the way out. */
  readonly findings: readonly string[]
}

/**
 * Reads all that the backups of a folder consist of. `onProgress` gets the bytes so far. Throws
 * `OperatorError` when the folder holds no backup. Cost: one read of the folder; a chunk in memory.
 */
export async function checkBackups(
  folder: string,
  onProgress: (bytes: number) => void,
): Promise<BackupCheck> {
  const path = resolve(folder)
  const names = backupNames(path)
  if (names.length === 0) throw new OperatorError(`there is no backup in ${path}`)
  const findings: string[] = []
  const chunks = new Set<string>()
  for (const name of names) {
    const manifest = manifestOrNull(path, name, findings)
    if (manifest === null) continue
    for (const table of allTables(manifest)) for (const chunk of table.chunks) chunks.add(chunk)
  }
  let bytes = 0
  for (const chunk of chunks) {
    bytes += await checkChunk(chunk, chunkPath(path, chunk), findings)
    onProgress(bytes)
  }
  return { backups: names.length, chunks: chunks.size, bytes, findings }
}

function manifestOrNull(folder: string, name: string, findings: string[]): Manifest | null {
  try {
    return readManifest(folder, name)
  } catch (cause) {
    if (!(cause instanceof OperatorError)) throw cause
    findings.push(cause.message)
    return null
  }
}

/** The bytes of a chunk that are there. */
async function checkChunk(name: string, path: string, findings: string[]): Promise<number> {
  const remedy = 'the next backup writes it anew if the store still has what it held'
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    const what = isMissing ? 'is missing' : `cannot be read (${String(cause)})`
    findings.push(`${path} ${what}: ${remedy}`)
    return 0
  }
  try {
    for (const _entry of readChunk(name, path, bytes));
  } catch (cause) {
    if (!(cause instanceof DamagedChunkError)) throw cause
    findings.push(`${cause.message}: remove it, and ${remedy}`)
  }
  return bytes.length
}

const MARK = `tenrec-backup ${BACKUP_VERSION}\n`

/** What to back up, and where to. */
export interface BackupOptions {
  readonly dataDir: string
  /** The backup folder; made if it is missing, and must be empty or a backup folder. */
  readonly folder: string
  readonly nowMs: number
  /** Backups of this store to keep, this one included; older ones are removed afterwards. Null: all. */
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
  const [dataDir = ''] = PART_NAMES.map((name) => requireEnvironment(options.dataDir, name))
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
      sequence: nextSequence(folder),
      environments,
    }
    const name = freeName(folder, options.nowMs)
    writeDurably(manifestPath(folder, name), encodeManifest(manifest))
    const removed = options.keep === null ? [] : prune(folder, manifest, options.keep)
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

/** The time as a name; with a number behind it when there is one of that second. */
function freeName(folder: string, nowMs: number): string {
  const base = new Date(nowMs).toISOString().replace(/[-:]|\.\d+/g, '')
  const taken = new Set(backupNames(folder))
  if (!taken.has(base)) return base
  let number = 2
  while (taken.has(`${base}-${number}`)) number++
  return `${base}-${number}`
}

/** A backup and the store that it was made of; null where that cannot be read. */
interface OwnedBackup {
  readonly name: string
  readonly manifest: Manifest | null
  readonly store: string | null
}

/** The backups of a folder in their order. One that is damaged is listed without its contents. */
function ownedBackups(folder: string): readonly OwnedBackup[] {
  return backupNames(folder).map((name) => {
    const manifest = manifestOrNull(folder, name, [])
    return { name, manifest, store: manifest === null ? null : storeIdentity(folder, manifest) }
  })
}

/**
 * Removes all but the newest backups of the store of `newest`, then the chunks that no backup needs any more. A backup
 * of another store, or of an unknown one, is neither counted nor removed. While a manifest cannot be read, no chunk is
 * removed: the backup may still need it.
 */
function prune(folder: string, newest: Manifest, keep: number): readonly string[] {
  const store = storeIdentity(folder, newest)
  if (store === null) return []
  const backups = ownedBackups(folder)
  const own = backups.filter((backup) => backup.store === store).map(({ name }) => name)
  const removed = own.slice(0, Math.max(0, own.length - keep))
  if (removed.length === 0) return []
  for (const name of removed) rmSync(manifestPath(folder, name))
  flush(join(folder, 'backups'))
  const needed = new Set<string>()
  for (const { name, manifest } of backups) {
    if (manifest === null) return removed
    if (removed.includes(name)) continue
    for (const { chunks } of allTables(manifest)) for (const chunk of chunks) needed.add(chunk)
  }
  for (const name of chunkNames(folder)) {
    if (!needed.has(name)) rmSync(chunkPath(folder, name))
  }
  return removed
}

/**
 * The newest backup of a folder. Throws `OperatorError` when there is none, or when the folder has backups of several
 * stores: then it must be named, because the newest one may be another store's.
 */
function chooseNewest(folder: string): string {
  const backups = ownedBackups(folder)
  const newest = backups.at(-1)
  if (newest === undefined) throw new OperatorError(`there is no backup in ${folder}`)
  const newestOf = new Map<string, string>()
  for (const { name, store } of backups) if (store !== null) newestOf.set(store, name)
  if (newestOf.size <= 1) return newest.name
  throw new OperatorError(
    `${folder} has backups of ${newestOf.size} stores. Name one with --backup; ` +
      `the newest of each are ${[...newestOf.values()].join(', ')}.`,
  )
}

/** Which backup, and where to. */
export interface RestoreOptions {
  readonly folder: string
  /** Null: the newest. */
  readonly name: string | null
  readonly dataDir: string
  /** Replace a store that is there. */
  readonly isForced: boolean
  /** Called after each chunk with the bytes written so far and the bytes in all. */
  readonly onProgress: (bytes: number, totalBytes: number) => void
  /** Called before each step that a backup of an older format needs. */
  readonly onStep?: (step: Migration) => void
  /** Default: those that `tenrec migrate` takes. */
  readonly migrations?: readonly Migration[]
}

/** What was restored. */
export interface RestoreResult {
  readonly name: string
  readonly createdAt: string
  /** Format of the backup; the store has the current one. */
  readonly format: number
  readonly entries: number
  readonly bytes: number
}

/**
 * Restores one backup, and migrates it when it has an older format. Throws `OperatorError`: when
 * there is a store and it is not forced, when the directory is in use, when no steps lead from its
 * format to the current one, when a chunk is missing or damaged (exit code 78). Then nothing was
 * replaced.
 */
export async function restoreBackup(options: RestoreOptions): Promise<RestoreResult> {
  const folder = resolve(options.folder)
  const name = options.name ?? chooseNewest(folder)
  const manifest = readManifest(folder, name)
  const { migrations = MIGRATIONS, onStep = () => undefined } = options
  const format = manifest.storeFormat
  const origin = `${manifestPath(folder, name)} (made by ${manifest.program})`
  const steps = stepsFrom(format, origin, migrations)
  requireChunks(folder, manifest)
  const path = resolve(options.dataDir)
  await restoreInto(path, folder, manifest, options)
  if (steps.length > 0) await runMigration(planMigration(path, migrations), onStep)
  return { name, createdAt: manifest.createdAt, format, ...manifestTotals(manifest) }
}

async function restoreInto(
  path: string,
  folder: string,
  manifest: Manifest,
  options: RestoreOptions,
): Promise<void> {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  const release = await lockDataDir(path, 'restore')
  try {
    requirePlace(path, options.isForced)
    await refill(path, folder, manifest, options.onProgress)
  } catch (cause) {
    if (!(cause instanceof DamagedChunkError)) throw cause
    throw new OperatorError(`${cause.message}; use another backup`, { exitCode: 78, cause })
  } finally {
    release()
  }
}

/** Every chunk must be there before anything is written. */
function requireChunks(folder: string, manifest: Manifest): void {
  for (const { chunks } of allTables(manifest)) {
    const missing = chunks.find((chunk) => !existsSync(chunkPath(folder, chunk)))
    if (missing === undefined) continue
    throw new OperatorError(`${chunkPath(folder, missing)} is missing: use another backup`, {
      exitCode: 78,
    })
  }
}

function requirePlace(path: string, isForced: boolean): void {
  if (isForced || existsSync(join(path, RESTORE_MARK))) return
  const taken = PART_NAMES.find((name) => existsSync(join(path, name)))
  if (taken === undefined) return
  throw new OperatorError(
    `there is a store in ${path}: choose another --data-dir, or replace it with --force`,
  )
}
