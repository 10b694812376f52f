/**
 * Reads a store for a backup, even while a daemon uses it. The log is read first, as a table `blocks` (sequence number
 * u64 big-endian -> block). Then both environments are pinned before either of them is read. So every event that was
 * acknowledged before the backup is in the log that was read, in the environment `events`, or in both. `events` records
 * which blocks of the log are processed, so a restore skips those blocks. `events` may even contain blocks that were
 * appended after the log was read. The restored log therefore continues after the last processed block
 * (store-builder.ts).
 */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../../../base/errors.ts'
import { ENVIRONMENT_NAMES, type EnvironmentName } from '../../directory/data-dir.ts'
import { Environment, type PinnedState } from '../../lmdb/environment.ts'
import { LmdbFault } from '../../lmdb/lmdb-walk.ts'
import { LogReader } from '../../log/event-log.ts'
import type { ChunkWriter } from './chunk-writer.ts'
import { cutChunks, type EntryCursor } from './chunks.ts'
import type { Manifest, TableBackup } from './manifest.ts'
import { listTables, TableCursor } from './table-cursor.ts'

const DATA_NAME = 'data.mdb'
/** The number of bytes of a block's sequence number, which is its key. */
const SEQUENCE_BYTES = 8

/**
 * Divides all tables of a store into chunks. `dataDir` is an absolute path. After each chunk, `onProgress` receives the
 * number of all bytes read so far. Throws `OperatorError`, with exit code 78 for a damaged file. Costs one read of
 * every byte of the store.
 */
export async function readEnvironments(
  dataDir: string,
  writer: ChunkWriter,
  onProgress: (bytes: number) => void,
): Promise<Manifest['environments']> {
  const log = await readLog(dataDir, writer, onProgress)
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
  const tables: Record<EnvironmentName, readonly TableBackup[]> = { events: [], flags: [] }
  try {
    for (const { name, file, environment } of opened) {
      const state = environment.pinNewest()
      if (state === null) {
        throw new OperatorError(`${file} changes too often to be read. Try again.`)
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
  return { log, ...tables }
}

async function readLog(
  dataDir: string,
  writer: ChunkWriter,
  onProgress: (bytes: number) => void,
): Promise<readonly TableBackup[]> {
  const reader = new LogReader({ dataDir })
  try {
    return [await readTable(new LogEntries(reader), 'blocks', writer, onProgress)]
  } finally {
    await reader.close()
  }
}

/** Iterates over the blocks of a log. Blocks that are processed and removed before they are read are left out. */
class LogEntries implements EntryCursor {
  readonly keyBytes = SEQUENCE_BYTES
  valueBytes = 0
  readonly #reader: LogReader
  #sequence: number
  readonly #last: number
  #block: Buffer | undefined

  constructor(reader: LogReader) {
    const { first, last } = reader.extent() ?? { first: 1, last: 0 }
    this.#reader = reader
    this.#sequence = first - 1
    this.#last = last
  }

  next(): boolean {
    do {
      if (++this.#sequence > this.#last) return false
      this.#block = this.#reader.block(this.#sequence)
    } while (this.#block === undefined)
    this.valueBytes = this.#block.length
    return true
  }

  copyTo(target: Buffer, offset: number): void {
    target.writeBigUInt64BE(BigInt(this.#sequence), offset)
    this.#block?.copy(target, offset + SEQUENCE_BYTES)
  }
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
        throw new LmdbFault(
          `table ${name} has ${backup.entries} entries instead of ${tree.entries}`,
        )
      }
      backups.push(backup)
    }
    return backups
  } catch (cause) {
    if (!(cause instanceof LmdbFault)) throw cause
    throw new OperatorError(
      `${file} is damaged (${cause.message}). Run \`tenrec verify\`, and restore the store from an earlier backup.`,
      { exitCode: 78, cause },
    )
  } finally {
    closeSync(descriptor)
  }
}

async function readTable(
  cursor: EntryCursor,
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
