/**
 * Turns a backup into a data directory. The environments are built beside their places and moved there
 * when all of them are on the disk. The folder in which they are built stands from the first step to the
 * last, and a mark while they are moved (data-dir.ts, `RESTORE_NURSERY` and `RESTORE_MARK`): a directory
 * that was left in between is refused until the restore is repeated. A backup of an older
 * format is put into its place as it is, and then migrated: cut short, `tenrec migrate` goes on with it.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { diskSpace } from '../../../base/disk-space.ts'
import { flush, writeDurably } from '../../../base/durable-file.ts'
import { OperatorError } from '../../../base/errors.ts'
import {
  CREATION_MARK,
  ENVIRONMENT_NAMES,
  type EnvironmentName,
  markFormat,
  RESTORE_MARK,
  RESTORE_NURSERY,
} from '../../directory/data-dir.ts'
import { lockDataDir } from '../../directory/data-dir-lock.ts'
import { alignLog } from '../../directory/store-agreement.ts'
import { Environment } from '../../lmdb/environment.ts'
import {
  MIGRATIONS,
  type Migration,
  planMigration,
  runMigration,
  stepsFrom,
} from '../migrations.ts'
import { DamagedChunkError, readChunk } from './chunks.ts'
import {
  allTables,
  backupNames,
  chunkPath,
  type Manifest,
  manifestPath,
  manifestTotals,
  readManifest,
  type TableBackup,
} from './manifest.ts'

/** What LMDB needs beside the bytes of the entries. */
const DISK_FACTOR = 1.5
/** Chunks that one transaction writes. */
const CHUNKS_PER_TRANSACTION = 16

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
 * Restores one backup, and migrates it when it has an older format. Throws `OperatorError`: when there is
 * a store and it is not forced, when the directory is in use, when no steps lead from its format to the
 * current one, when a chunk is missing or damaged (exit code 78). Then nothing was replaced.
 */
export async function restoreBackup(options: RestoreOptions): Promise<RestoreResult> {
  const folder = resolve(options.folder)
  const name = options.name ?? backupNames(folder).at(-1)
  if (name === undefined) throw new OperatorError(`there is no backup in ${folder}`)
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
    await refill(path, folder, manifest, options)
  } catch (cause) {
    if (!(cause instanceof DamagedChunkError)) throw cause
    throw new OperatorError(`${cause.message}; use another backup`, { exitCode: 78, cause })
  } finally {
    release()
  }
}

/** Builds the environments and moves them. If that fails, the directory is as usable as it was. */
async function refill(
  path: string,
  folder: string,
  manifest: Manifest,
  options: RestoreOptions,
): Promise<void> {
  const totals = manifestTotals(manifest)
  const nursery = join(path, RESTORE_NURSERY)
  const wasInterrupted = existsSync(nursery)
  mkdirSync(nursery, { recursive: true, mode: 0o700 })
  flush(path)
  try {
    empty(nursery)
    await requireSpace(path, totals.bytes)
    let bytes = 0
    for (const environment of ENVIRONMENT_NAMES) {
      await build(nursery, environment, folder, manifest, (chunkBytes) => {
        bytes += chunkBytes
        options.onProgress(bytes, totals.bytes)
      })
    }
    await alignLog(nursery)
    for (const environment of ENVIRONMENT_NAMES) settle(join(nursery, environment))
    moveIntoPlace(path, nursery, manifest.storeFormat)
  } catch (error) {
    if (wasInterrupted && existsSync(nursery)) empty(nursery)
    else rmSync(nursery, { recursive: true, force: true })
    throw error
  }
}

function empty(folder: string): void {
  for (const entry of readdirSync(folder)) rmSync(join(folder, entry), { recursive: true })
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
  const taken = ENVIRONMENT_NAMES.find((name) => existsSync(join(path, name)))
  if (taken === undefined) return
  throw new OperatorError(
    `there is a store in ${path}: choose another --data-dir, or replace it with --force`,
  )
}

async function requireSpace(path: string, bytes: number): Promise<void> {
  const needed = bytes * DISK_FACTOR
  const { freeBytes: free } = await diskSpace(path)
  if (free >= needed) return
  const mib = (value: number): string => `${Math.ceil(value / 1024 ** 2)} MiB`
  throw new OperatorError(
    `restoring needs ${mib(needed)} in ${path}, ${mib(free)} are free: make room`,
  )
}

async function build(
  nursery: string,
  name: EnvironmentName,
  folder: string,
  manifest: Manifest,
  onChunk: (bytes: number) => void,
): Promise<void> {
  const tables = manifest.environments[name]
  const environment = new Environment({
    dataDir: nursery,
    name,
    tables: tables.map((table) => table.name),
  })
  try {
    for (const table of tables) fill(environment, table, folder, onChunk)
  } finally {
    await environment.close()
  }
}

/** Leaves the data file of an environment alone in its folder, on the disk. */
function settle(folder: string): void {
  rmSync(join(folder, 'lock.mdb'), { force: true })
  flush(folder)
}

function fill(
  environment: Environment,
  table: TableBackup,
  folder: string,
  onChunk: (bytes: number) => void,
): void {
  const target = environment.table(table.name)
  let entries = 0
  for (let first = 0; first < table.chunks.length; first += CHUNKS_PER_TRANSACTION) {
    environment.write(() => {
      for (const chunk of table.chunks.slice(first, first + CHUNKS_PER_TRANSACTION)) {
        const path = chunkPath(folder, chunk)
        const bytes = readFileSync(path)
        for (const { key, value } of readChunk(chunk, path, bytes)) {
          void target.put(key, value)
          entries++
        }
        onChunk(bytes.length)
      }
    })
  }
  if (entries === table.entries) return
  throw new DamagedChunkError(
    `table ${table.name} of the backup has ${entries} entries instead of ${table.entries}`,
  )
}

/** Replaces what is there. Between the first and the last step the mark makes every start refuse. */
function moveIntoPlace(path: string, nursery: string, format: number): void {
  writeDurably(join(path, RESTORE_MARK), 'a restore was interrupted\n')
  for (const name of ENVIRONMENT_NAMES) {
    rmSync(join(path, name), { recursive: true, force: true })
    renameSync(join(nursery, name), join(path, name))
  }
  flush(path)
  markFormat(path, format)
  rmSync(join(path, CREATION_MARK), { force: true })
  rmSync(nursery, { recursive: true })
  flush(path)
  rmSync(join(path, RESTORE_MARK))
  flush(path)
}
