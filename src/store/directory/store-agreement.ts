/**
 * Checks whether the three parts of a store belong together. A part can be sound by itself and still be older than the
 * others: somebody restored it from a copy, or it fell back to an older state after damage to a meta page. The data
 * that was acknowledged after that older state is lost. The part itself does not show this loss, but the other parts
 * do:
 *
 *   log     has every block after the position of `events`, and the number of its newest block ever (log-file.ts)
 *   events  has the number of the newest block and the flags version that it has seen (event-state.ts)
 *   flags   has its version (catalog/organization-store.ts)
 *
 * The log removes a block only after the transaction of `events` that covers it is on the disk. A crash or a power cut
 * at any moment therefore leaves a store whose parts agree. With `--durability commit`, a crash can lose the newest
 * blocks of the log. `events` does not record such blocks as seen.
 */
import { join } from 'node:path'
import { OperatorError } from '../../base/errors.ts'
import { FlagsVersion } from '../catalog/organization-store.ts'
import { DamagedRecordError } from '../faults.ts'
import { Environment } from '../lmdb/environment.ts'
import { readNumber, readWitness, type Witness } from '../lmdb/event-state.ts'
import { EVENTS_ENVIRONMENT, FLAGS_ENVIRONMENT } from '../lmdb/keys.ts'
import { DamagedLogError, logFolder } from '../log/log-file.ts'
import { type LogReach, lookAtLog } from '../log/log-inspection.ts'

const STATE = 'state'
/** Matches the messages of LMDB about a file with invalid content. */
const LMDB_DAMAGE = /MDB_(?:CORRUPTED|PAGE_NOTFOUND|INVALID|VERSION_MISMATCH|INCOMPATIBLE|PANIC)/
const DATA_NAME = 'data.mdb'

/** The part of the store that is older than the others or cannot be read, and why. */
export interface Disagreement {
  /** The path of the data file or folder of this part. */
  readonly file: string
  /** What is wrong with the part: the data that it lacks, with its range, or the reason why it cannot be read. */
  readonly what: string
}

/** The result of comparing the parts of a store. */
export interface Comparison {
  /** Null if the parts agree. */
  readonly disagreement: Disagreement | null
  /** The number of events in the log that are not processed yet. */
  readonly waitingEvents: number
}

/**
 * How far the log and the flags are, as they have recorded it themselves. `witness` is how far `events` had seen both
 * of them when `events` was last written.
 */
export interface StoreClaims {
  readonly log: LogReach
  readonly witness: Witness
  readonly flagsVersion: number
}

/**
 * Compares the states that the parts of a store have recorded. `path` is absolute, and the data files must already have
 * been checked (lmdb-file.ts). Set `isAlone` if no other process has the store open. The checksums of the unprocessed
 * blocks are then checked too; log-inspection.ts says what that costs. Returns null if the parts agree. Throws
 * `OperatorError` if a file cannot be read at the moment. It writes nothing.
 */
export function findDisagreement(path: string, isAlone = false): Disagreement | null {
  return compareParts(path, isAlone).disagreement
}

/**
 * Does the same as `findDisagreement`, and also returns the number of events in the log that are not processed yet. It
 * is 0 if the parts do not agree or `isAlone` is false.
 */
export function compareParts(path: string, isAlone: boolean): Comparison {
  const place = { file: join(path, EVENTS_ENVIRONMENT, DATA_NAME) }
  try {
    const claims = readClaims(path, place, isAlone)
    const found = judgeClaims(claims)
    if (found === null) return { disagreement: null, waitingEvents: claims.log.waitingEvents }
    const { environment, what } = found
    if (environment !== 'log') return differing(join(path, environment, DATA_NAME), what)
    return differing(found.file ?? logFolder(path), what)
  } catch (cause) {
    if (cause instanceof DamagedLogError) return differing(cause.file, cause.what)
    // This error already has a message and an exit code for the operator.
    if (cause instanceof OperatorError) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    if (cause instanceof DamagedRecordError || LMDB_DAMAGE.test(reason)) {
      return differing(place.file, `it cannot be read: ${reason}`)
    }
    // The machine has a temporary problem, such as too many open files. The store is not damaged.
    throw new OperatorError(`Cannot read ${place.file}: ${reason}.`, { cause })
  }
}

function differing(file: string, what: string): Comparison {
  return { disagreement: { file, what }, waitingEvents: 0 }
}

/**
 * Returns the part that is damaged or older than the other parts, with a text about the data that it lacks. Returns
 * null if there is no such part.
 */
export function judgeClaims({ log, witness, flagsVersion }: StoreClaims): {
  readonly environment: 'log' | 'events' | 'flags'
  readonly what: string
  /** The path of the affected file if the part is the log. Absent for an environment. */
  readonly file?: string
} | null {
  if (log.missing !== null) {
    const { first, last } = log.missing
    return {
      environment: EVENTS_ENVIRONMENT,
      what: `it is older than the log: it has the events up to block ${log.processed}, but the log no longer has the blocks from ${first} to ${last}`,
    }
  }
  if (log.damage !== null) {
    const { file, first, last } = log.damage
    return { environment: 'log', file, what: `blocks ${first} to ${last} are damaged or missing` }
  }
  if (witness.logThrough > log.last) {
    return {
      environment: 'log',
      what: `it is older than the events: it ends with block ${log.last}, but the events up to block ${witness.logThrough} are stored; what was accepted after block ${witness.logThrough} is missing`,
    }
  }
  if (witness.flagsVersion > flagsVersion) {
    return {
      environment: FLAGS_ENVIRONMENT,
      what: `it is older than the events: it has version ${flagsVersion}, but version ${witness.flagsVersion} existed; the changes of flags, projects, keys and users from version ${flagsVersion + 1} on are missing`,
    }
  }
  return null
}

/**
 * Reads the positions and versions that the parts of the store have recorded. Before this function reads a file, it
 * sets `place.file` to that file, so that the caller can name the file in an error.
 */
function readClaims(path: string, place: { file: string }, isAlone: boolean): StoreClaims {
  const opened: { close(): Promise<void> }[] = []
  const keep = <T extends { close(): Promise<void> }>(part: T): T => {
    opened.push(part)
    return part
  }
  try {
    const options = { dataDir: path, name: EVENTS_ENVIRONMENT, tables: [STATE], isReadOnly: true }
    const events = keep(new Environment(options))
    const state = events.table(STATE)
    let witness: Witness = { logThrough: 0, flagsVersion: 0 }
    const { file } = place
    const readPosition = (): number => {
      place.file = file
      events.refresh()
      witness = readWitness(state)
      const position = readNumber(state, 'position') ?? 0
      place.file = logFolder(path)
      return position
    }
    place.file = logFolder(path)
    const log = lookAtLog(path, readPosition, isAlone)
    place.file = join(path, FLAGS_ENVIRONMENT, DATA_NAME)
    // The version of the flags must be read after the version that `events` has seen. If a running daemon changes flags
    // in between, the version of the flags is then the higher one, which is allowed.
    const flagsVersion = keep(new FlagsVersion(path, true)).read()
    return { log, witness, flagsVersion }
  } finally {
    // `close` closes each part before it returns. Its promise only waits for writes, and there were none.
    for (const part of opened) void part.close()
  }
}
