/**
 * Whether the three parts of a store belong together. Each of them may be sound by itself and yet
 * be older than the others: put back from a copy, or fallen back to an older state behind a damaged meta
 * page. What was acknowledged since is gone then, and nothing in that part says so; the others do:
 *
 *   log     has every block behind the position of `events`, and says how far it ever came (log-file.ts)
 *   events  says how far the log had come, and which version the flags had (event-state.ts)
 *   flags   has its version (catalog/organization-store.ts)
 *
 * A block is forgotten by the log after the transaction of `events` that covers it is on the disk, so a crash or a power cut at any moment leaves a store that agrees. With
 * `--durability commit` the log may lose its last moments, and `events` bears no witness of it.
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
/** What LMDB says of a file whose content is not what it should be. */
const LMDB_DAMAGE = /MDB_(?:CORRUPTED|PAGE_NOTFOUND|INVALID|VERSION_MISMATCH|INCOMPATIBLE|PANIC)/
const DATA_NAME = 'data.mdb'

/** Why the parts of a store do not belong together. */
export interface Disagreement {
  /** The data file or folder that is older than the others, or cannot be read. */
  readonly file: string
  /** What is missing, and from where to where. */
  readonly what: string
}

/** What the parts say of themselves and of each other. */
export interface StoreClaims {
  readonly log: LogReach
  readonly witness: Witness
  readonly flagsVersion: number
}

/**
 * Compares what the parts of a store say. `path` is absolute, and the data files were found sound
 * (lmdb-file.ts). `isAlone`: nobody has the store open, and blocks that are not processed are compared with
 * their checksums (log-inspection.ts, where the cost is said). Throws `OperatorError` when something cannot
 * be read now. Nothing is written. Null: they agree.
 */
export function findDisagreement(path: string, isAlone = false): Disagreement | null {
  const place = { file: join(path, EVENTS_ENVIRONMENT, DATA_NAME) }
  try {
    const found = judgeClaims(readClaims(path, place, isAlone))
    if (found === null) return null
    const { environment, what } = found
    if (environment !== 'log') return { file: join(path, environment, DATA_NAME), what }
    return { file: found.file ?? logFolder(path), what }
  } catch (cause) {
    if (cause instanceof DamagedLogError) return cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    if (cause instanceof DamagedRecordError || LMDB_DAMAGE.test(reason)) {
      return { file: place.file, what: `it cannot be read: ${reason}` }
    }
    // A fault of the machine that passes, such as too many open files: nothing is wrong with the store.
    throw new OperatorError(`${place.file} cannot be read: ${reason}`, { cause })
  }
}

/** The rule: which part is older than the others or damaged, and what it lacks; null for none. */
export function judgeClaims({ log, witness, flagsVersion }: StoreClaims): {
  readonly environment: 'log' | 'events' | 'flags'
  readonly what: string
  /** Of the log: which of its files. */
  readonly file?: string
} | null {
  if (log.missing !== null) {
    const { first, last } = log.missing
    return {
      environment: EVENTS_ENVIRONMENT,
      what: `it is older than the log: it has the events of blocks up to ${log.processed}, and the log no longer has the blocks from ${first} to ${last}`,
    }
  }
  if (log.damage !== null) {
    const { file, first, last } = log.damage
    return { environment: 'log', file, what: `blocks ${first} to ${last} are damaged or missing` }
  }
  if (witness.logThrough > log.last) {
    return {
      environment: 'log',
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

/** `place.file` is the one that is read, for who catches. */
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
    // Last: what was seen of it is older then.
    const flagsVersion = keep(new FlagsVersion(path, true)).read()
    return { log, witness, flagsVersion }
  } finally {
    // Closing ends at once; what it returns only tells of writes, and there were none.
    for (const part of opened) void part.close()
  }
}
