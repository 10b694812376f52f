/**
 * Whether the three environments of a store belong together. Each of them may be sound by itself and yet
 * be older than the others: put back from a copy, or fallen back to an older state behind a damaged meta
 * page. What was acknowledged since is gone then, and nothing in that environment says so; the others do:
 *
 *   log     has every block behind the position of `events`, and says how far it ever came (event-log.ts)
 *   events  says how far the log had come, and which version the flags had (event-state.ts)
 *   flags   has its version (catalog/organization-store.ts)
 *
 * A block is removed from the log in a transaction that begins when the transaction of `events` that
 * covers it is on the disk, so a crash or a power cut at any moment leaves a store that agrees. With
 * `--durability commit` the log may lose its last moments, and `events` bears no witness of it.
 */
import { join } from 'node:path'
import { OperatorError } from '../../base/errors.ts'
import { FlagsVersion } from '../catalog/organization-store.ts'
import { DamagedRecordError } from '../faults.ts'
import { Environment } from '../lmdb/environment.ts'
import { readNumber, readWitness, type Witness } from '../lmdb/event-state.ts'
import { EVENTS_ENVIRONMENT, FLAGS_ENVIRONMENT, LOG_ENVIRONMENT, LOG_TABLES } from '../lmdb/keys.ts'
import { type LogReach, lookAtLog, raiseEnd } from '../log/event-log.ts'

const STATE = 'state'
/** What LMDB says of a file whose content is not what it should be. */
const LMDB_DAMAGE = /MDB_(?:CORRUPTED|PAGE_NOTFOUND|INVALID|VERSION_MISMATCH|INCOMPATIBLE|PANIC)/
const DATA_NAME = 'data.mdb'

/** Why the environments of a store do not belong together. */
export interface Disagreement {
  /** The data file that is older than the others, or cannot be read. */
  readonly file: string
  /** What is missing, and from where to where. */
  readonly what: string
}

/** What the environments say of themselves and of each other. */
export interface StoreClaims {
  readonly log: LogReach
  readonly witness: Witness
  readonly flagsVersion: number
}

/**
 * Compares what the environments of a store say. `path` is absolute, and all three files were found sound
 * (lmdb-file.ts). Throws `OperatorError` when they cannot be read now. Beside those who write it or alone; nothing is written. Null: they agree. Cost: the keys
 * of the blocks that are not processed.
 */
export function findDisagreement(path: string): Disagreement | null {
  const place = { file: join(path, LOG_ENVIRONMENT, DATA_NAME) }
  try {
    const found = judgeClaims(readClaims(path, place))
    if (found === null) return null
    return { file: join(path, found.environment, DATA_NAME), what: found.what }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    if (cause instanceof DamagedRecordError || LMDB_DAMAGE.test(reason)) {
      return { file: place.file, what: `it cannot be read: ${reason}` }
    }
    // A fault of the machine that passes, such as too many open files: nothing is wrong with the store.
    throw new OperatorError(`${place.file} cannot be read: ${reason}`, { cause })
  }
}

/** The rule: which environment is older than the others, and what it lacks; null for none. */
export function judgeClaims({ log, witness, flagsVersion }: StoreClaims): {
  readonly environment: string
  readonly what: string
} | null {
  if (log.missing !== null) {
    const { first, last } = log.missing
    return {
      environment: EVENTS_ENVIRONMENT,
      what: `it is older than the log: it has the events of blocks up to ${log.processed}, and the log no longer has the blocks from ${first} to ${last}`,
    }
  }
  if (witness.logThrough > log.last) {
    return {
      environment: LOG_ENVIRONMENT,
      what: `it is older than the events: it ends with block ${log.last}, and the events of blocks up to ${witness.logThrough} are stored; what was accepted behind block ${witness.logThrough} is missing`,
    }
  }
  if (witness.flagsVersion > flagsVersion) {
    return {
      environment: FLAGS_ENVIRONMENT,
      what: `it is older than the events: it has version ${flagsVersion}, and version ${witness.flagsVersion} was seen; the changes of flags, projects, keys and users from version ${flagsVersion + 1} on are missing`,
    }
  }
  return null
}

/**
 * Makes the log of a store that is put together from a backup agree with its events: a backup has the log
 * of a moment before. `path`: the folder of the environments.
 */
export async function alignLog(path: string): Promise<void> {
  const events = openEnvironment(path, EVENTS_ENVIRONMENT, [STATE], false)
  const log = openEnvironment(path, LOG_ENVIRONMENT, LOG_TABLES, false)
  try {
    raiseEnd(log, readNumber(events.table(STATE), 'position') ?? 0)
  } finally {
    await log.close()
    await events.close()
  }
}

/** `place.file` is the one that is read, for who catches. */
function readClaims(path: string, place: { file: string }): StoreClaims {
  const opened: { close(): Promise<void> }[] = []
  const keep = <T extends { close(): Promise<void> }>(environment: T): T => {
    opened.push(environment)
    return environment
  }
  try {
    const log = keep(openEnvironment(path, LOG_ENVIRONMENT, LOG_TABLES, true))
    place.file = join(path, EVENTS_ENVIRONMENT, DATA_NAME)
    const events = keep(openEnvironment(path, EVENTS_ENVIRONMENT, [STATE], true))
    const state = events.table(STATE)
    let witness: Witness = { logThrough: 0, flagsVersion: 0 }
    const readPosition = (): number => {
      place.file = join(path, EVENTS_ENVIRONMENT, DATA_NAME)
      events.refresh()
      witness = readWitness(state)
      const position = readNumber(state, 'position') ?? 0
      place.file = join(path, LOG_ENVIRONMENT, DATA_NAME)
      return position
    }
    place.file = join(path, LOG_ENVIRONMENT, DATA_NAME)
    const reach = lookAtLog(log, readPosition)
    place.file = join(path, FLAGS_ENVIRONMENT, DATA_NAME)
    // Last: what was seen of it is older then.
    const flagsVersion = keep(new FlagsVersion(path, true)).read()
    return { log: reach, witness, flagsVersion }
  } finally {
    // Closing ends at once; what it returns only tells of writes, and there were none.
    for (const environment of opened) void environment.close()
  }
}

function openEnvironment(
  dataDir: string,
  name: string,
  tables: readonly string[],
  isReadOnly: boolean,
): Environment {
  return new Environment({ dataDir, name, tables, isReadOnly })
}
