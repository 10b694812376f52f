/**
 * Converts the log of a store of format 2. That log is an LMDB environment in the same folder with two tables: `blocks`
 * (sequence number u64 big-endian -> block) and `state` (`end` -> the highest sequence number ever, f64 with a
 * checksum). Unprocessed blocks are copied with their sequence numbers. The environment stays until the store is marked
 * with the next format, so the conversion can be interrupted and repeated.
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
/** The number of bytes of blocks that are collected before they are appended together. */
const APPEND_BYTES = 4 * 1024 * 1024

/** Returns whether a data directory contains a log of format 2. */
export function isOldLog(dataDir: string): boolean {
  return existsSync(join(logFolder(dataDir), DATA_NAME))
}

/**
 * Copies the unprocessed blocks of the old log into a new one. No other process may have the store open, and its data
 * files must have been checked. Throws `OperatorError` with exit code 78 if blocks are missing within the old log or at
 * its end. The time depends on the number of unprocessed blocks, because all of them are copied.
 */
export async function takeOverLog(dataDir: string): Promise<void> {
  const folder = logFolder(dataDir)
  // Files of the new log that exist already are of no use: an interrupted conversion left them, or this version was used
  // before the operator went back to the old one. All unprocessed blocks are still in the old log.
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
    `${join(folder, DATA_NAME)} lacks the blocks from ${copied + 1} to ${needed}. Restore the whole data ` +
      'directory from a backup. Nothing was changed.',
    { exitCode: 78 },
  )
}

/**
 * Returns the number of the newest block that the old log ever had: the number recorded in table `state` or the number
 * of the last block, whichever is higher. Both are needed, because the log may be empty now, and some old logs did not
 * record the number.
 */
function lastEver(blocks: Table | undefined, state: Table | undefined): number {
  const end = state?.get(END_KEY)
  let last = end === undefined ? 0 : unseal('state', END_KEY, end).readDoubleLE()
  for (const key of blocks?.getKeys({ limit: 1, reverse: true }) ?? []) {
    last = Math.max(last, Number(Buffer.from(key).readBigUInt64BE()))
  }
  return last
}

/** Removes the files of the old log. */
export function removeOldLog(dataDir: string): void {
  for (const name of [DATA_NAME, 'lock.mdb', 'namespace']) {
    rmSync(join(logFolder(dataDir), name), { force: true })
  }
}

/** Copies blocks in order, until one is missing. Returns the sequence number of the last block that was copied. */
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
