/**
 * Numbers about the whole environment `events`, table `state`:
 *
 * | name            | meaning                                                                      |
 * |-----------------|------------------------------------------------------------------------------|
 * | `position`      | the number of the last block of the log whose events are all stored          |
 * | `log_time`      | the arrival time of the newest record up to `position`, in milliseconds      |
 * | `letters`       | the largest number that a dead letter ever had                               |
 * | `seed`          | the seed of the fingerprints (uuid-fingerprint.ts)                           |
 * | `log_through`   | the number of the last block that was processed and flushed to disk          |
 * | `flags_version` | the largest version of environment `flags` that processing has seen          |
 *
 * The record of `position` contains three more numbers: the number of folds (see `Standing`), how many events of the
 * next block are already stored, and how many of these were dropped. A block that is too large for one transaction is
 * stored in several transactions.
 *
 * `log_through` and `flags_version` record how far the log and the environment `flags` were when `events` was last
 * written. If the log or `flags` is now at an earlier point, it has lost data (store-agreement.ts). A store that was
 * last written by an earlier version has neither of the two numbers.
 */
import { randomInt } from 'node:crypto'
import type { Environment, Table } from './environment.ts'
import { type StateNumber, stateKey } from './keys.ts'
import { load, peek, store } from './records.ts'

/** Returns a number of table `state`, or null. Throws `DamagedRecordError`. */
export function readNumber(table: Table, name: StateNumber): number | null {
  return load(table, stateKey(name))?.readDoubleLE() ?? null
}

/** Stores a number of table `state`. Call it only within a write transaction. */
export function storeNumber(table: Table, name: StateNumber, number: number): void {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeDoubleLE(number)
  store(table, stateKey(name), bytes)
}

const STANDING_KEY = stateKey('position')
const STANDING_NUMBERS = 4

/**
 * The progress of processing, and the number of *folds*: transactions in which persons with deltas (person-changes.ts)
 * were stored completely. All numbers are in one record, because each flag decision reads them. The first `done` events
 * of the block after `position` are stored, and `dropped` of them were dropped.
 */
export interface Standing {
  readonly position: number
  /**
   * The number of folds. It also increases when a commit changes persons without changing `position`. Caches of persons
   * compare both numbers to find out whether they are outdated.
   */
  readonly folds: number
  readonly done: number
  readonly dropped: number
}

/** Reads the progress of processing. All numbers are 0 in an empty store. Throws `DamagedRecordError`. */
export function readStanding(table: Table): Standing {
  const bytes = peek(table, STANDING_KEY)
  // The record of an older store has fewer numbers. The missing ones count as 0.
  const numberAt = (index: number): number =>
    bytes === undefined || bytes.length < 8 * (index + 1) ? 0 : bytes.readDoubleLE(8 * index)
  return { position: numberAt(0), folds: numberAt(1), done: numberAt(2), dropped: numberAt(3) }
}

/** Stores the progress of processing. Call it only within a write transaction. */
export function storeStanding(table: Table, standing: Standing): void {
  const { position, folds, done, dropped } = standing
  const bytes = Buffer.allocUnsafe(STANDING_NUMBERS * 8)
  bytes.writeDoubleLE(position)
  bytes.writeDoubleLE(folds, 8)
  bytes.writeDoubleLE(done, 16)
  bytes.writeDoubleLE(dropped, 24)
  store(table, STANDING_KEY, bytes)
}

/**
 * How far the log and the flags were when `events` was last written. If one of them is at an earlier point now, it has
 * lost data.
 */
export interface Witness {
  readonly logThrough: number
  readonly flagsVersion: number
}

/** Reads how far the log and the flags were. A number that was never stored is 0. Throws `DamagedRecordError`. */
export function readWitness(table: Table): Witness {
  return {
    logThrough: readNumber(table, 'log_through') ?? 0,
    flagsVersion: readNumber(table, 'flags_version') ?? 0,
  }
}

/**
 * Stores those numbers of `seen` that are larger than in `last`. Returns the numbers that are now stored. Call it only
 * within a write transaction.
 */
export function storeWitness(table: Table, last: Witness, seen: Witness): Witness {
  if (seen.logThrough > last.logThrough) storeNumber(table, 'log_through', seen.logThrough)
  if (seen.flagsVersion > last.flagsVersion) storeNumber(table, 'flags_version', seen.flagsVersion)
  return {
    logThrough: Math.max(last.logThrough, seen.logThrough),
    flagsVersion: Math.max(last.flagsVersion, seen.flagsVersion),
  }
}

/**
 * Returns the seed of the fingerprints of this store (uuid-fingerprint.ts). The first call chooses it at random and
 * stores it.
 */
export function openSeed(environment: Environment, table: Table): number {
  const known = readNumber(table, 'seed')
  if (known !== null) return known
  const seed = randomInt(2 ** 32)
  environment.write(() => storeNumber(table, 'seed', seed))
  return seed
}
