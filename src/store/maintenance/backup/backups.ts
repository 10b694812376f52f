/**
 * Creates backups, lists and checks the backups of a folder, and restores them.
 *
 * A new backup does not write a chunk that already exists, and does not read it either. So a damaged chunk would be
 * noticed only when a restore needs it. The check reads all manifests and chunks and compares them with their
 * checksums. A backup with an older format of the store is restored unchanged, and the restored store is then migrated.
 * If the migration is interrupted, `tenrec migrate` continues it.
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

/** Describes one backup of a folder. */
export interface BackupSummary {
  readonly name: string
  /** The creation time in ISO 8601. */
  readonly createdAt: string
  /** The version of the program that created the backup. */
  readonly program: string
  readonly entries: number
  readonly bytes: number
}

/** Returns the backups in a folder, oldest first. Throws `OperatorError` if the manifest of a backup cannot be read. */
export function listBackups(folder: string): readonly BackupSummary[] {
  return backupNames(folder).map((name) => summaryOf(folder, name))
}

/**
 * Returns the newest backup in a folder, or null if there is none. Reads only its manifest. Throws the errors of
 * `listBackups`.
 */
export function newestBackup(folder: string): BackupSummary | null {
  const name = backupNames(folder).at(-1)
  return name === undefined ? null : summaryOf(folder, name)
}

function summaryOf(folder: string, name: string): BackupSummary {
  const manifest = readManifest(folder, name)
  const { createdAt, program } = manifest
  return { name, createdAt, program, ...manifestTotals(manifest) }
}

/** The result of checking the backups of a folder. */
export interface BackupCheck {
  readonly backups: number
  /** The number of different chunks. A chunk that several backups share counts once. */
  readonly chunks: number
  readonly bytes: number
  /** One sentence for each damaged or missing file. It contains the path of the file and what to do about it. */
  readonly findings: readonly string[]
}

/**
 * Reads all manifests and chunks of the backups in a folder. `onProgress` receives the number of bytes read so far.
 * Throws `OperatorError` if the folder contains no backup. Costs one read of all files, with one chunk in memory at a
 * time.
 */
export async function checkBackups(
  folder: string,
  onProgress: (bytes: number) => void,
): Promise<BackupCheck> {
  const path = resolve(folder)
  const names = backupNames(path)
  if (names.length === 0) throw new OperatorError(`There is no backup in ${path}.`)
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

/** Checks a chunk. Returns the number of bytes of its file, or 0 if the file cannot be read. */
async function checkChunk(name: string, path: string, findings: string[]): Promise<number> {
  const remedy = 'The next backup writes it again, if the store still has the data'
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    const what = isMissing ? 'is missing' : `cannot be read (${String(cause)})`
    findings.push(`${path} ${what}. ${remedy}.`)
    return 0
  }
  try {
    for (const _entry of readChunk(name, path, bytes));
  } catch (cause) {
    if (!(cause instanceof DamagedChunkError)) throw cause
    findings.push(`${cause.message}. Remove the file. ${remedy}.`)
  }
  return bytes.length
}

const MARK = `tenrec-backup ${BACKUP_VERSION}\n`

/** The options of a backup. */
export interface BackupOptions {
  readonly dataDir: string
  /** The backup folder. If it is missing, it is created. If it exists, it must be empty or a backup folder. */
  readonly folder: string
  readonly nowMs: number
  /**
   * The number of backups of this store to keep, including the new one. Older ones are removed afterward. Null: all
   * are kept.
   */
  readonly keep: number | null
  /** Called after each chunk, with the number of all bytes read so far. */
  readonly onProgress: (bytes: number) => void
}

/** What a backup has written. */
export interface BackupResult {
  readonly name: string
  readonly entries: number
  readonly bytes: number
  readonly chunks: number
  /** The number of chunks that this backup has added to the folder. */
  readonly newChunks: number
  readonly newBytes: number
  /** The names of the older backups that were removed. */
  readonly removed: readonly string[]
}

/** Creates one backup. Throws `OperatorError`. Costs one read of every byte of the store. */
export async function createBackup(options: BackupOptions): Promise<BackupResult> {
  const [dataDir = ''] = PART_NAMES.map((name) => requireEnvironment(options.dataDir, name))
  const folder = resolve(options.folder)
  openFolder(folder, dataDir)
  const release = await lockDataDir(folder, 'backup')
  const writer = new ChunkWriter(folder)
  try {
    const environments = await readEnvironments(dataDir, writer, options.onProgress)
    // A backup of a damaged store must not replace an earlier backup. So this checks that the parts of the store belong
    // together. LMDB may read the files for this, because `readEnvironments` found all their pages intact.
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

/** Creates the folder, or checks that it is a backup folder. */
function openFolder(folder: string, dataDir: string): void {
  if (folder === dataDir || folder.startsWith(`${dataDir}/`)) {
    throw new OperatorError(
      `${folder} is inside the data directory. Choose another folder, if possible on another disk.`,
    )
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const mark = join(folder, 'format')
  if (existsSync(mark)) {
    if (readFileSync(mark, 'utf8') === MARK) return
    throw new OperatorError(`${mark} must be the line '${MARK.trim()}'. Choose another folder.`)
  }
  if (readdirSync(folder).some((entry) => !entry.startsWith('lock'))) {
    throw new OperatorError(
      `${folder} is not empty and is not a backup folder. Choose another folder.`,
    )
  }
  for (const part of ['backups', 'chunks']) mkdirSync(join(folder, part), { mode: 0o700 })
  writeDurably(mark, MARK)
}

/**
 * Returns a name for a new backup: the time in seconds. If a backup with this name exists, a number is added, for
 * example 20261121T145109Z-2.
 */
function freeName(folder: string, nowMs: number): string {
  const base = new Date(nowMs).toISOString().replace(/[-:]|\.\d+/g, '')
  const taken = new Set(backupNames(folder))
  if (!taken.has(base)) return base
  let number = 2
  while (taken.has(`${base}-${number}`)) number++
  return `${base}-${number}`
}

/** A backup, with the identity of the store from which it was made. The identity is null if it cannot be read. */
interface OwnedBackup {
  readonly name: string
  readonly manifest: Manifest | null
  readonly store: string | null
}

/** Returns the backups of a folder, oldest first. The manifest is null if it is damaged. */
function ownedBackups(folder: string): readonly OwnedBackup[] {
  return backupNames(folder).map((name) => {
    const manifest = manifestOrNull(folder, name, [])
    return { name, manifest, store: manifest === null ? null : storeIdentity(folder, manifest) }
  })
}

/**
 * Keeps the newest `keep` backups of the store to which `newest` belongs and removes the older ones. Then removes the
 * chunks that no backup needs any more. Backups of other or unknown stores are neither counted nor removed. If a
 * manifest cannot be read, no chunk is removed, because its backup may still need any of them.
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
 * Returns the newest backup of a folder. Throws `OperatorError` if there is none, or if the folder contains backups of
 * several stores. In the second case the operator must name a backup, because the newest one may belong to the wrong
 * store.
 */
function chooseNewest(folder: string): string {
  const backups = ownedBackups(folder)
  const newest = backups.at(-1)
  if (newest === undefined) throw new OperatorError(`There is no backup in ${folder}.`)
  const newestOf = new Map<string, string>()
  for (const { name, store } of backups) if (store !== null) newestOf.set(store, name)
  if (newestOf.size <= 1) return newest.name
  throw new OperatorError(
    `${folder} has backups of ${newestOf.size} stores. Name one with --backup; ` +
      `the newest of each are ${[...newestOf.values()].join(', ')}.`,
  )
}

/** The options of a restore. */
export interface RestoreOptions {
  readonly folder: string
  /** The name of the backup. Null: the newest. */
  readonly name: string | null
  readonly dataDir: string
  /** True if an existing store may be replaced. */
  readonly isForced: boolean
  /** Called after each chunk, with the number of bytes written so far and the number of bytes to write in total. */
  readonly onProgress: (bytes: number, totalBytes: number) => void
  /** Called before each migration step. Steps are needed if the backup has an older format of the store. */
  readonly onStep?: (step: Migration) => void
  /** The migration steps. Default: those of `tenrec migrate`. */
  readonly migrations?: readonly Migration[]
}

/** What a restore has done. */
export interface RestoreResult {
  readonly name: string
  readonly createdAt: string
  /** The format of the store in the backup. The restored store was migrated to the current format. */
  readonly format: number
  readonly entries: number
  readonly bytes: number
}

/**
 * Restores one backup, and migrates it if it has an older format. Throws `OperatorError` if there is a store and
 * `isForced` is false, if the directory is in use, if no steps lead from the format to the current one, or if a chunk
 * is missing or damaged (exit code 78). In all these cases, the existing store stays as it was.
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
    throw new OperatorError(`${cause.message}. Use another backup.`, { exitCode: 78, cause })
  } finally {
    release()
  }
}

/** Checks that every chunk exists before anything is written. */
function requireChunks(folder: string, manifest: Manifest): void {
  for (const { chunks } of allTables(manifest)) {
    const missing = chunks.find((chunk) => !existsSync(chunkPath(folder, chunk)))
    if (missing === undefined) continue
    throw new OperatorError(`${chunkPath(folder, missing)} is missing. Use another backup.`, {
      exitCode: 78,
    })
  }
}

function requirePlace(path: string, isForced: boolean): void {
  if (isForced || existsSync(join(path, RESTORE_MARK))) return
  const taken = PART_NAMES.find((name) => existsSync(join(path, name)))
  if (taken === undefined) return
  throw new OperatorError(
    `There is a store in ${path}. Choose another --data-dir, or replace the store with --force.`,
  )
}
