/**
 * Restores a backup into a data directory. The parts of the store are built in another folder and moved to their final
 * paths once all of them are on the disk. The restored log contains only blocks after the last one that the restored
 * environment `events` has processed. The folder for building (`RESTORE_NURSERY` in data-dir.ts) exists from the first
 * step to the last. While the parts are moved, the file `RESTORE_MARK` exists too. If a restore was interrupted, no
 * daemon and no command opens the directory until the restore is repeated.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { diskSpace } from '../../../base/disk-space.ts'
import { flush, writeDurably } from '../../../base/durable-file.ts'
import { OperatorError } from '../../../base/errors.ts'
import {
  CREATION_MARK,
  ENVIRONMENT_NAMES,
  type EnvironmentName,
  markFormat,
  PART_NAMES,
  RESTORE_MARK,
  RESTORE_NURSERY,
} from '../../directory/data-dir.ts'
import { DamagedRecordError } from '../../faults.ts'
import { type Entry, Environment, type Table } from '../../lmdb/environment.ts'
import { readNumber } from '../../lmdb/event-state.ts'
import { EVENTS_ENVIRONMENT, FLAGS_ENVIRONMENT } from '../../lmdb/keys.ts'
import { entriesOf } from '../../lmdb/records.ts'
import { LogAppender } from '../../log/event-log.ts'
import { hasForm, neededTable } from '../catalogue-forms.ts'
import { DamagedChunkError, readChunk } from './chunks.ts'
import { chunkPath, type Manifest, manifestTotals, type TableBackup } from './manifest.ts'

/** The disk space that a restored environment needs, as a multiple of the bytes of its entries. */
const DISK_FACTOR = 1.5
/** The number of chunks that one transaction writes. */
const CHUNKS_PER_TRANSACTION = 16

/**
 * Builds the parts of the store in the directory `path` and moves them into place. If building fails, the directory
 * stays as usable as it was before. Throws `DamagedChunkError`, and `OperatorError` if the disk has too little space.
 */
export async function refill(
  path: string,
  folder: string,
  manifest: Manifest,
  onProgress: (bytes: number, totalBytes: number) => void,
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
    const onChunk = (chunkBytes: number): void => {
      bytes += chunkBytes
      onProgress(bytes, totals.bytes)
    }
    for (const environment of ENVIRONMENT_NAMES) {
      await build(nursery, environment, folder, manifest, onChunk)
    }
    await buildLog(nursery, folder, manifest, onChunk)
    for (const part of PART_NAMES) settle(join(nursery, part))
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

async function requireSpace(path: string, bytes: number): Promise<void> {
  const needed = bytes * DISK_FACTOR
  const { freeBytes: free } = await diskSpace(path)
  if (free >= needed) return
  const mib = (value: number): string => `${Math.ceil(value / 1024 ** 2)} MiB`
  throw new OperatorError(
    `Restoring needs ${mib(needed)} in ${path}, but only ${mib(free)} are free. Free some space.`,
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
    if (name === FLAGS_ENVIRONMENT) requireOwnRecords(environment, tables)
  } finally {
    await environment.close()
  }
}

/**
 * Builds the log. Also works for backups of format 2, which have the same table `blocks`. Their table `state` is not
 * needed.
 */
async function buildLog(
  nursery: string,
  folder: string,
  manifest: Manifest,
  onChunk: (bytes: number) => void,
): Promise<void> {
  const processed = await readPosition(nursery)
  const log = new LogAppender({ dataDir: nursery, processed, isSealed: true })
  let last = processed
  try {
    for (const table of manifest.environments.log) {
      for (const chunk of table.chunks) {
        const path = chunkPath(folder, chunk)
        const bytes = readFileSync(path)
        for (const { key, value } of readChunk(chunk, path, bytes)) {
          if (table.name !== 'blocks' || Number(key.readBigUInt64BE()) <= processed) continue
          if (Number(key.readBigUInt64BE()) !== ++last) {
            throw new DamagedChunkError(`Block ${last} of the log is not in the backup`)
          }
          log.append([value], 0)
        }
        onChunk(bytes.length)
      }
    }
  } finally {
    await log.close()
  }
}

async function readPosition(dataDir: string): Promise<number> {
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: ['state'] })
  try {
    return readNumber(environment.table('state'), 'position') ?? 0
  } finally {
    await environment.close()
  }
}

/** Removes the lock file of LMDB from the folder of a part of the store, if there is one, and flushes the folder. */
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
    `Table ${table.name} of the backup has ${entries} entries instead of ${table.entries}`,
  )
}

/**
 * Throws `DamagedChunkError` if a table of the catalogue has records of another table. This happens if the manifest
 * names the wrong chunks. Only the first and the last record of each table are checked.
 */
function requireOwnRecords(
  environment: Environment,
  tables: readonly Pick<TableBackup, 'name'>[],
): void {
  environment.refresh()
  const known = new Set(tables.map(({ name }) => name))
  for (const { name } of tables) {
    const needed = neededTable(name)
    const isLacking =
      needed !== null && !(known.has(needed) && hasEntries(environment.table(needed)))
    for (const isLast of [false, true]) {
      for (const { key, value } of endOf(environment.table(name), isLast)) {
        if (!isLacking && hasForm(name, key, value)) continue
        throw new DamagedChunkError(`Table ${name} of the backup has records of another table`)
      }
    }
  }
}

function hasEntries(table: Table): boolean {
  return table.getKeysCount({ limit: 1 }) > 0
}

/**
 * Yields the first or the last record of a table. A damaged record is skipped, because the check of the restored store
 * reports it.
 */
function* endOf(table: Table, isLast: boolean): Generator<Entry> {
  try {
    for (const { key, value } of entriesOf(table, { limit: 1, reverse: isLast })) {
      yield { key: Buffer.from(key), value: Buffer.from(value) }
    }
  } catch (cause) {
    if (!(cause instanceof DamagedRecordError)) throw cause
  }
}

/**
 * Replaces the existing parts by the new ones. While the file `RESTORE_MARK` exists, no daemon starts on the directory.
 */
function moveIntoPlace(path: string, nursery: string, format: number): void {
  writeDurably(join(path, RESTORE_MARK), 'a restore was interrupted\n')
  for (const name of PART_NAMES) {
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
