/**
 * Numbers about the whole environment `events`, table `state`:
 *
 * | name            | meaning                                                                       |
 * |-----------------|-------------------------------------------------------------------------------|
 * | `position`      | the last sequence of the log whose events are stored                          |
 * | `log_time`      | when the newest record up to there arrived, milliseconds                      |
 * | `letters`       | the newest number that a dead letter ever had                                 |
 * | `seed`          | of the fingerprints (uuid-fingerprint.ts)                                     |
 * | `log_through`   | the last sequence that was processed and that the log had on the disk by then |
 * | `flags_version` | the largest version of environment `flags` that processing has seen           |
 *
 * The record of `position` holds three more numbers: how often persons were folded, how many events of the next block
 * are already stored, and how many of these were dropped. A block that is too large for one transaction is stored in
 * several.
 * `log_through` and `flags_version` bear witness of the other environments, which never fall behind them (store-agreement.ts).
 * A store that an earlier version wrote last lacks them.
 */
import { randomInt } from 'node:crypto'
import type { Environment, Table } from './environment.ts'
import { type StateNumber, stateKey } from './keys.ts'
import { load, peek, store } from './records.ts'

/** A number of table `state`, or null. Throws `DamagedRecordError`. */
export function readNumber(table: Table, name: StateNumber): number | null {
  return load(table, stateKey(name))?.readDoubleLE() ?? null
}

/** Stores a number of table `state`. Only in a write transaction. */
export function storeNumber(table: Table, name: StateNumber, number: number): void {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeDoubleLE(number)
  store(table, stateKey(name), bytes)
}

const STANDING_KEY = stateKey('position')
const STANDING_NUMBERS = 4

/**
 * How far processing is, and how often persons were folded. All of it is one record, because each decision reads it.
 * The first `done` events of the block behind `position` are stored, and `dropped` of them were dropped.
 */
export interface Standing {
  readonly position: number
  /** Also increases when a commit changes persons without changing `position`, so that caches notice the change. */
  readonly folds: number
  readonly done: number
  readonly dropped: number
}

/** Reads it; zeros in an empty store. Throws `DamagedRecordError`. */
export function readStanding(table: Table): Standing {
  const bytes = peek(table, STANDING_KEY)
  // Older stores have fewer numbers.
  const numberAt = (index: number): number =>
    bytes === undefined || bytes.length < 8 * (index + 1) ? 0 : bytes.readDoubleLE(8 * index)
  return { position: numberAt(0), folds: numberAt(1), done: numberAt(2), dropped: numberAt(3) }
}

/** Stores it. Only in a write transaction. */
export function storeStanding(table: Table, standing: Standing): void {
  const { position, folds, done, dropped } = standing
  const bytes = Buffer.allocUnsafe(STANDING_NUMBERS * 8)
  bytes.writeDoubleLE(position)
  bytes.writeDoubleLE(folds, 8)
  bytes.writeDoubleLE(done, 16)
  bytes.writeDoubleLE(dropped, 24)
  store(table, STANDING_KEY, bytes)
}

/** What environment `events` has seen of the two others. */
export interface Witness {
  readonly logThrough: number
  readonly flagsVersion: number
}

/** Reads what was seen; zeros when nothing was. Throws `DamagedRecordError`. */
export function readWitness(table: Table): Witness {
  return {
    logThrough: readNumber(table, 'log_through') ?? 0,
    flagsVersion: readNumber(table, 'flags_version') ?? 0,
  }
}

/** Stores what has grown since `last`, and answers what is stored now. Only in a write transaction. */
export function storeWitness(table: Table, last: Witness, seen: Witness): Witness {
  if (seen.logThrough > last.logThrough) storeNumber(table, 'log_through', seen.logThrough)
  if (seen.flagsVersion > last.flagsVersion) storeNumber(table, 'flags_version', seen.flagsVersion)
  return {
    logThrough: Math.max(last.logThrough, seen.logThrough),
    flagsVersion: Math.max(last.flagsVersion, seen.flagsVersion),
  }
}

/** The seed of the fingerprints of this store (uuid-fingerprint.ts); drawn and stored the first time. */
export function openSeed(environment: Environment, table: Table): number {
  const known = readNumber(table, 'seed')
  if (known !== null) return known
  const seed = randomInt(2 ** 32)
  environment.write(() => storeNumber(table, 'seed', seed))
  return seed
}
