/**
 * The log of stores of format 2: an LMDB environment in the same folder, table `blocks` (sequence u64
 * big-endian -> block) and table `state` (`end` -> the last sequence that there ever was, a sealed f64).
 * What is not processed is taken over with its sequences; the environment stays until the store says that
 * it has the next format, so that this may be cut short and done again.
 */
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../../base/errors.ts'
import { unseal } from '../lmdb/codec.ts'
import { Environment, type Table } from '../lmdb/environment.ts'
import { readNumber, readWitness } from '../lmdb/event-state.ts'
import { EVENTS_ENVIRONMENT } from '../lmdb/keys.ts'
import { LogAppender } from './event-log.ts'
import { logFolder, logNumbers, logPath } from './log-file.ts'

const DATA_NAME = 'data.mdb'
const END_KEY = Buffer.from('end', 'latin1')
/** Blocks are appended together until they have so many bytes. */
const APPEND_BYTES = 4 * 1024 * 1024

/** Whether there is one in a data directory. */
export function isOldLog(dataDir: string): boolean {
  return existsSync(join(logFolder(dataDir), DATA_NAME))
}

/**
 * Takes it over. Nobody else has the store open, and its data files were found sound. Throws
 * `OperatorError`, exit code 78, when blocks are missing, or all that came since it was copied. Cost: a copy
 * of all that is not processed.
 */
export async function takeOverLog(dataDir: string): Promise<void> {
  const folder = logFolder(dataDir)
  // Of an attempt that was cut short, or of a later version that was left again.
  for (const number of logNumbers(folder)) rmSync(logPath(folder, number))
  const events = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: ['state'] })
  const processed = readNumber(events.table('state'), 'position') ?? 0
  const { logThrough } = readWitness(events.table('state'))
  await events.close()
  const old = new Environment({ dataDir, name: 'log', tables: [], isReadOnly: true })
  old.openAll()
  const blocks = old.find('blocks')
  const last = lastEver(blocks, old.find('state'))
  const copied = last < logThrough ? last : await copyBlocks(dataDir, blocks, processed)
  await old.close()
  const needed = Math.max(last, logThrough)
  if (needed <= copied) return
  throw new OperatorError(
    `${join(folder, DATA_NAME)} lacks the blocks from ${copied + 1} to ${needed}: restore the whole data ` +
      'directory from a backup; nothing was changed',
    { exitCode: 78 },
  )
}

/** It may hold none any more, and it may never have noted how far it came. */
function lastEver(blocks: Table | undefined, state: Table | undefined): number {
  const end = state?.get(END_KEY)
  let last = end === undefined ? 0 : unseal('state', END_KEY, end).readDoubleLE()
  for (const key of blocks?.getKeys({ limit: 1, reverse: true }) ?? []) {
    last = Math.max(last, Number(Buffer.from(key).readBigUInt64BE()))
  }
  return last
}

/** Removes what is left of it. */
export function removeOldLog(dataDir: string): void {
  for (const name of [DATA_NAME, 'lock.mdb', 'namespace']) {
    rmSync(join(logFolder(dataDir), name), { force: true })
  }
}

/** Answers the last sequence up to which there is no gap. */
async function copyBlocks(
  dataDir: string,
  blocks: Table | undefined,
  processed: number,
): Promise<number> {
  const log = new LogAppender({ dataDir, processed, isSealed: true })
  let last = processed
  let gathered: Buffer[] = []
  let bytes = 0
  const start = Buffer.allocUnsafe(8)
  start.writeBigUInt64BE(BigInt(processed + 1))
  for (const { key, value } of blocks?.getRange({ start }) ?? []) {
    if (Number(Buffer.from(key).readBigUInt64BE()) !== last + 1) break
    last++
    bytes += value.length
    gathered.push(Buffer.from(value))
    if (bytes < APPEND_BYTES) continue
    log.append(gathered, 0)
    gathered = []
    bytes = 0
  }
  log.append(gathered, 0)
  await log.close()
  return last
}
