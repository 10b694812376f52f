/**
 * Reads a store for a backup, while a daemon uses it or not. All three environments are pinned
 * before the first is read, the log first: an event that was acknowledged before is in the log or
 * already processed, and one that is in both is skipped on restoring by its position. The events
 * may be ahead of the log by what was processed in between; a restore lets the log know
 * (store-agreement.ts).
 */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../../../base/errors.ts'
import { ENVIRONMENT_NAMES, type EnvironmentName } from '../../directory/data-dir.ts'
import { Environment, type PinnedState } from '../../lmdb/environment.ts'
import { LmdbFault } from '../../lmdb/lmdb-walk.ts'
import type { ChunkWriter } from './chunk-writer.ts'
import { cutChunks } from './chunks.ts'
import type { TableBackup } from './manifest.ts'
import { listTables, TableCursor } from './table-cursor.ts'

const DATA_NAME = 'data.mdb'
type Environments = Record<EnvironmentName, readonly TableBackup[]>

/**
 * Cuts all tables of the store in an absolute path into chunks. `onProgress` gets all bytes so far
 * after each. Throws `OperatorError`, exit code 78 for a damaged file. Cost: reads every byte of
 * the store once.
 */
export async function readEnvironments(
  dataDir: string,
  writer: ChunkWriter,
  onProgress: (bytes: number) => void,
): Promise<Environments> {
  const opened = ENVIRONMENT_NAMES.map((name) => {
    const file = join(dataDir, name, DATA_NAME)
    return {
      name,
      file,
      environment: new Environment({ dataDir, name, tables: [], isReadOnly: true }),
    }
  })
  const pinned: {
    readonly name: EnvironmentName
    readonly file: string
    readonly state: PinnedState
  }[] = []
  const tables: Environments = { log: [], events: [], flags: [] }
  try {
    for (const { name, file, environment } of opened) {
      const state = environment.pinNewest()
      if (state === null) {
        throw new OperatorError(`${file} changes too often to be read: try again`)
      }
      pinned.push({ name, file, state })
    }
    for (const { name, file, state } of pinned) {
      tables[name] = await readFileOf(file, state, writer, onProgress)
    }
  } finally {
    for (const { state } of pinned) state.pin.release()
    for (const { environment } of opened) await environment.close()
  }
  return tables
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
