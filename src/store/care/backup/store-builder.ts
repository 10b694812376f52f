/**
 * Turns a backup into a data directory. Its parts are built beside their places and moved
 * there when all of them are on the disk. The log begins behind what `events` has processed. The folder in which they are built stands from the first
 * step to the last, and a mark while they are moved (data-dir.ts, `RESTORE_NURSERY` and
 * `RESTORE_MARK`): a directory that was left in between is refused until the restore is repeated.
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
import { Environment } from '../../lmdb/environment.ts'
import { readNumber } from '../../lmdb/event-state.ts'
import { EVENTS_ENVIRONMENT } from '../../lmdb/keys.ts'
import { LogAppender } from '../../log/event-log.ts'
import { DamagedChunkError, readChunk } from './chunks.ts'
import { chunkPath, type Manifest, manifestTotals, type TableBackup } from './manifest.ts'

/** What LMDB needs beside the bytes of the entries. */
const DISK_FACTOR = 1.5
/** Chunks that one transaction writes. */
const CHUNKS_PER_TRANSACTION = 16

/**
 * Builds the environments of the directory `path` and moves them. If that fails, it is as usable as
 * it was. Throws `OperatorError` when there is no room, and `DamagedChunkError`.
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

/** Also from backups of format 2: the table of blocks is the same, and only its end is not needed. */
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
            throw new DamagedChunkError(`block ${last} of the log is not in the backup`)
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

/**
 * Replaces what is there. Between the first and the last step the mark makes every start refuse.
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
