/**
 * The data directory as a whole. In it: a folder for the log and for each environment, the file `format` (which
 * format the store has; written last, so that where it stands, a whole store stands), the note of
 * who has it open (data-dir-lock.ts), the file `processing` with the record of processing attempts
 * (engine/processor/processing-attempts.ts), and `credentials.json` of the first start (open-store.ts).
 *
 * What is refused here never gets better by trying again: damaged or missing data files and a newer
 * format end with exit code 78 and one line that tells what to do.
 */

import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { requireFreeDisk } from '../../base/disk-space.ts'
import { flush, writeDurably } from '../../base/durable-file.ts'
import { OperatorError } from '../../base/errors.ts'
import { addressesMissing } from '../../base/process-limits.ts'
import { Environment } from '../lmdb/environment.ts'
import { readNumber } from '../lmdb/event-state.ts'
import { EVENTS_ENVIRONMENT, EVENTS_TABLES, FLAGS_TABLES } from '../lmdb/keys.ts'
import { inspectLmdbFile, type LmdbFinding } from '../lmdb/lmdb-file.ts'
import { freeListFault } from '../lmdb/lmdb-walk.ts'
import { LogAppender } from '../log/event-log.ts'
import { logFolder } from '../log/log-file.ts'
import { isOldLog, removeOldLog, takeOverLog } from '../log/old-log.ts'
import { type HeldLock, holdDataDir, type LockHolder, lockHolder } from './data-dir-lock.ts'
import { joinEnvironment } from './environment-lock.ts'
import { requireLocalFileSystem } from './file-system.ts'
import { hasLogFiles, LogPlace, logBytes, requireLogFiles } from './log-place.ts'
import { hasProcessEnded, ownProcessName } from './pid-namespace.ts'
import { findDisagreement } from './store-agreement.ts'

/** The format that this program reads and writes. */
export const FORMAT_VERSION = 5
/** The format whose log is in LMDB: a start takes it over. */
const LMDB_LOG_FORMAT = 2
/**
 * The format before deltas of persons (store/identity/person-changes.ts) and, from 4 to 5, pages of properties
 * (store/identity/properties/property-pages.ts): whoever knows them can read it as it is.
 */
const NO_DELTAS_FORMAT = 3
/** Folders of the environments. */
export const ENVIRONMENT_NAMES = ['events', 'flags'] as const
/** One of `ENVIRONMENT_NAMES`. */
export type EnvironmentName = (typeof ENVIRONMENT_NAMES)[number]
/** Folders of all that a store consists of. */
export const PART_NAMES = ['log', ...ENVIRONMENT_NAMES] as const
/** One of `PART_NAMES`. */
export type PartName = (typeof PART_NAMES)[number]

/**
 * Tables that exist from the beginning, so that a command can read a store that was never served.
 */
export const FIRST_TABLES: Readonly<Record<EnvironmentName, readonly string[]>> = {
  events: EVENTS_TABLES,
  flags: FLAGS_TABLES,
}

/**
 * Stands in a data directory while a restore moves environments into it; such a directory is
 * refused.
 */
export const RESTORE_MARK = 'restoring'
/** Folder in which a restore builds environments: there from its first step to its last. */
export const RESTORE_NURSERY = '.restored'
/** Stands in a data directory from before its first environment is there until `format` is. */
export const CREATION_MARK = 'creating'

const FORMAT_NAME = 'format'
const DATA_NAME = 'data.mdb'
/** What `blocks` of a stat counts. */
const DISK_BLOCK_BYTES = 512
const LMDB_LOCK_NAME = 'lock.mdb'
/** Where environments are created before they are moved to their place. */
const NURSERY_PREFIX = '.new-'
/** A data directory that this process owns: checked, complete, locked. */
export class DataDir {
  /** Absolute. */
  readonly path: string
  /** What the checks found that is not as it was left, for the log. */
  readonly notes: readonly string[]
  readonly #lock: HeldLock
  readonly #identities: ReadonlyMap<string, string>
  readonly #log: LogPlace

  private constructor(path: string, notes: readonly string[], lock: HeldLock) {
    this.path = path
    this.notes = notes
    this.#lock = lock
    const files = ENVIRONMENT_NAMES.map((name) => join(path, name, DATA_NAME))
    const places = [path, logFolder(path), ...files]
    this.#identities = new Map(places.map((file) => [file, identityOf(file) ?? '']))
    this.#log = new LogPlace(path)
  }

  /**
   * Locks and checks a data directory, and creates what is missing if there is no store yet. Throws
   * `OperatorError`: exit code 1 when it is in use, cannot be written or is on a network file
   * system that is not allowed, 78 when it is damaged.
   */
  static async open(dataDir: string, isNetworkDiskAllowed = true): Promise<DataDir> {
    const path = resolve(dataDir)
    const obstacle = addressesMissing()
    if (obstacle !== null) throw refusal(obstacle)
    if (!isNetworkDiskAllowed) requireLocalFileSystem(path)
    createFolder(path)
    const lock = await holdDataDir(path, 'daemon')
    try {
      const format = formatOf(path, LMDB_LOG_FORMAT)
      const isStore = format !== null
      const notes: string[] = []
      for (const name of ENVIRONMENT_NAMES) notes.push(...checkEnvironment(path, name, isStore))
      if (!isStore) await createStore(path)
      endCreation(path)
      for (const name of ENVIRONMENT_NAMES) {
        requireWritable(join(path, name, DATA_NAME))
        joinEnvironment(path, name)
      }
      if (format === LMDB_LOG_FORMAT) await takeOver(path)
      for (const file of requireLogFiles(path)) {
        requireDataFile(file, true)
        requireWritable(file)
      }
      if (isStore) requireAgreement(path, true)
      if (isStore && format !== FORMAT_VERSION) markFormat(path)
      removeOldLog(path)
      return new DataDir(path, notes, lock)
    } catch (error) {
      lock.release()
      throw error
    }
  }

  /**
   * The process that has a directory, or null. Throws `OperatorError` when that cannot be found
   * out.
   */
  static holder(path: string): LockHolder | null {
    return lockHolder(path)
  }

  /** This process in the name of a folder that is to be removed after it. */
  static ownProcessName(): string {
    return ownProcessName()
  }

  /** Whether the process with such a name is gone; null when it lives in another pid namespace. */
  static hasProcessEnded(name: string): boolean | null {
    return hasProcessEnded(name)
  }

  /**
   * Whether the directory and its data files still are the ones that were opened. False after they
   * were moved, deleted or replaced: whatever is written from then on would be lost. Cost: four
   * stats, and one for each file of the log.
   */
  isInPlace(): boolean {
    for (const [file, identity] of this.#identities) {
      if (identityOf(file) !== identity) return false
    }
    return this.#log.isInPlace()
  }

  /** The descriptor that holds the lock: a process that inherits it keeps others out until it ends. */
  get lockDescriptor(): number {
    return this.#lock.descriptor
  }

  /** Gives up the lock. */
  release(): void {
    this.#lock.release()
  }
}

/**
 * Checks that there is a store which this program understands, that one of its environments may be
 * opened, and that all of them belong together, and registers the process for it
 * (environment-lock.ts): for commands that work beside a running daemon. Answers the absolute path.
 * Throws `OperatorError`, exit code 1 or 78.
 */
export function requireStore(dataDir: string, name: PartName): string {
  const path = requireEnvironment(dataDir, name)
  // Where another file is missing or damaged, those who open it say so.
  if (PART_NAMES.every((each) => each === name || isSound(path, each))) {
    for (const each of ENVIRONMENT_NAMES) joinEnvironment(path, each)
    requireAgreement(path)
  }
  return path
}

function isSound(path: string, name: PartName): boolean {
  try {
    if (name === 'log') return hasLogFiles(path)
    return findDamage(path, name) === null
  } catch (error) {
    if (error instanceof OperatorError) return false
    throw error
  }
}

/** The same without a look at the others: for commands that get out what is left of a store. */
export function requireEnvironment(dataDir: string, name: PartName): string {
  const path = requireFormat(dataDir)
  if (name === 'log') {
    requireLogFiles(path)
    return path
  }
  const what = findDamage(path, name)
  if (what !== null) throw damage(join(path, name, DATA_NAME), what)
  joinEnvironment(path, name)
  return path
}

/** Checks that there is a store which this program understands, and answers its absolute path. */
function requireFormat(dataDir: string): string {
  const path = resolve(dataDir)
  if (existsSync(path) && formatOf(path) !== null) return path
  throw new OperatorError(
    `there is no store in ${path}: create one with 'tenrec init', or name another with --data-dir`,
  )
}

/**
 * What is wrong with the data file of an environment of a store that may be in use, or null. Throws
 * `OperatorError` when it is missing or cannot be read.
 */
export function findDamage(path: string, name: EnvironmentName): string | null {
  // A daemon may be writing: what looks wrong must look wrong again.
  let finding = inspectEnvironment(path, name, true)
  for (let attempt = 0; finding?.kind === 'damaged' && attempt < 2; attempt++) {
    finding = inspectEnvironment(path, name, true)
  }
  return finding?.kind === 'damaged' ? finding.what : null
}

/**
 * Refuses a store of which one part is older than the others: what was acknowledged is
 * missing. `path` is absolute; `isAlone`: nobody has it open. Throws `OperatorError`, exit code 78.
 */
export function requireAgreement(path: string, isAlone = false): void {
  const found = findDisagreement(path, isAlone)
  if (found === null) return
  throw refusal(
    `${found.file} does not fit the rest of the store (${found.what}): restore the whole data directory ` +
      'from a backup; nothing was changed',
  )
}

/**
 * Bytes of the disk that the data file of an environment takes, or all files of the log; 0 when it cannot be asked. Free
 * pages that were given back are part of the length of a data file, and take nothing.
 */
export function storeBytes(dataDir: string, name: PartName): number {
  if (name === 'log') return logBytes(dataDir)
  const stat = statSync(join(dataDir, name, DATA_NAME), { throwIfNoEntry: false })
  return stat === undefined ? 0 : Math.min(stat.size, stat.blocks * DISK_BLOCK_BYTES)
}

function createFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new OperatorError(`the data directory cannot be created: ${reason}`, { cause: error })
  }
}

/** The format of a directory, or null when there is no store in it; throws when it is another one. */
function formatOf(path: string, oldest = NO_DELTAS_FORMAT): number | null {
  const version = requireComplete(path)
  if (version === null || (version >= oldest && version <= FORMAT_VERSION)) return version
  const wayOut =
    version > FORMAT_VERSION
      ? 'use a newer program'
      : `'tenrec migrate --dry-run' says what can be done`
  throw refusal(
    `${path} has the format ${version}, this program knows ${FORMAT_VERSION}: ${wayOut}`,
  )
}

/**
 * The format of a directory that may be used, or null when there is no store in it. Throws
 * `OperatorError`, exit code 78, when a restore into it was cut short, or its mark is lost or
 * damaged.
 */
export function requireComplete(path: string): number | null {
  const again = `a restore into ${path} was interrupted, or still runs: repeat 'tenrec restore'`
  if (existsSync(join(path, RESTORE_MARK))) throw refusal(again)
  const nursery = join(path, RESTORE_NURSERY)
  if (existsSync(nursery)) {
    throw refusal(`${again}; or, to go on with what was there before it, remove ${nursery}`)
  }
  const version = readFormat(path)
  if (version !== null || existsSync(join(path, CREATION_MARK))) return version
  const files = ENVIRONMENT_NAMES.map((known) => join(path, known, DATA_NAME))
  const file = files.find((each) => existsSync(each)) ?? (hasLogFiles(path) && logFolder(path))
  if (file === false) return null
  throw refusal(
    `${join(path, FORMAT_NAME)} is missing, but not ${file}: restore a backup; ` +
      `or, if nothing else was removed, put it back: one line 'tenrec ${FORMAT_VERSION}' for this version`,
  )
}

/**
 * The format that a directory is marked with; null without a mark. Throws `OperatorError`: exit
 * code 1 when the mark cannot be read, 78 when it is damaged.
 */
export function readFormat(path: string): number | null {
  const file = join(path, FORMAT_NAME)
  let content: string
  try {
    content = readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw new OperatorError(`${file} cannot be read: ${String(error)}`, { cause: error })
  }
  const version = /^tenrec (\d{1,9})\n$/.exec(content)?.[1]
  if (version !== undefined) return Number(version)
  throw refusal(`${file} is damaged: it must be the line 'tenrec ${FORMAT_VERSION}'`)
}

/**
 * Checks one environment. Answers what there is to tell. Throws `OperatorError` when it is damaged,
 * or missing although there `isStore`.
 */
export function checkEnvironment(
  path: string,
  name: PartName,
  isStore: boolean,
): readonly string[] {
  const file = join(path, name, DATA_NAME)
  const finding = inspectEnvironment(path, name, isStore)
  const isReadable = finding !== null && finding.kind !== 'damaged'
  // A command may write: what looks wrong must look wrong again.
  const fault = isReadable && freeListFault(file) && freeListFault(file)
  if (typeof fault === 'string') throw damage(file, fault)
  switch (finding?.kind) {
    case undefined:
    case 'sound':
      return []
    case 'sound_with_note':
      return [`${file}: ${finding.what}`]
    case 'damaged':
      throw damage(file, finding.what)
  }
}

/** What a look at the data file finds; null when there is none and need not be. */
function inspectEnvironment(path: string, name: PartName, isStore: boolean): LmdbFinding | null {
  const file = join(path, name, DATA_NAME)
  try {
    checkLmdbLock(join(path, name, LMDB_LOCK_NAME))
    return requireDataFile(file, isStore) ? inspectLmdbFile(file) : null
  } catch (error) {
    if (error instanceof OperatorError) throw error
    throw new OperatorError(`${file} cannot be read: ${String(error)}`, { cause: error })
  }
}

/**
 * Takes over the log of a store of format 2 from LMDB, where it stays; nothing to do for one that a restore
 * has built. May be cut short and done again. Throws `OperatorError`, exit code 78 when it is damaged.
 */
export async function takeOver(path: string): Promise<void> {
  if (!isOldLog(path)) return
  checkEnvironment(path, 'log', true)
  joinEnvironment(path, 'log')
  await takeOverLog(path)
}

/** LMDB would say only that something may not be done, and not with which file. */
function requireWritable(file: string): void {
  try {
    closeSync(openSync(file, 'r+'))
  } catch (error) {
    throw new OperatorError(`${file} cannot be written: ${String(error)}`, { cause: error })
  }
}

/** Whether a data file is there; with `isStore` it has to be. */
function requireDataFile(file: string, isStore: boolean): boolean {
  const stat = statSync(file, { throwIfNoEntry: false })
  if (stat === undefined) {
    if (!isStore) return false
    throw refusal(`${file} is missing: restore the data directory from a backup`)
  }
  if (stat.isFile()) return true
  throw refusal(`${file} is not a file: restore the data directory from a backup`)
}

/** LMDB mends its lock file by itself, whatever is in it, but not a folder in its place. */
function checkLmdbLock(file: string): void {
  if (lstatSync(file, { throwIfNoEntry: false })?.isDirectory() !== true) return
  throw new OperatorError(`${file} is a directory: remove it, LMDB needs the place for its lock`)
}

/**
 * Creates the environments that are missing, then the mark. Each is made elsewhere and moved to its
 * place when it is on the disk: a power cut leaves whole environments or none. Another mark tells
 * that nothing was ever stored in those that are there.
 */
async function createStore(path: string): Promise<void> {
  await requireFreeDisk(path)
  for (const entry of readdirSync(path)) {
    if (entry.startsWith(NURSERY_PREFIX)) rmSync(join(path, entry), { recursive: true })
  }
  writeDurably(join(path, CREATION_MARK), 'nothing is stored yet\n')
  const nursery = join(path, `${NURSERY_PREFIX}${process.pid}`)
  if (!hasLogFiles(path)) {
    await new LogAppender({ dataDir: nursery, processed: 0 }).close()
    renameSync(logFolder(nursery), logFolder(path))
  }
  for (const name of ENVIRONMENT_NAMES) {
    if (existsSync(join(path, name, DATA_NAME))) continue
    const environment = new Environment({ dataDir: nursery, name, tables: FIRST_TABLES[name] })
    await environment.close()
    rmSync(join(nursery, name, LMDB_LOCK_NAME), { force: true })
    flush(join(nursery, name, DATA_NAME))
    flush(join(nursery, name))
    rmSync(join(path, name, LMDB_LOCK_NAME), { force: true })
    renameSync(join(nursery, name), join(path, name))
  }
  rmSync(nursery, { recursive: true, force: true })
  flush(path)
  markFormat(path)
}

/** What lacks its format from now on has lost it. */
function endCreation(path: string): void {
  const mark = join(path, CREATION_MARK)
  if (!existsSync(mark)) return
  rmSync(mark)
  flush(path)
}

/** Marks a directory as a whole store of a format, by default of the one of this program. */
export function markFormat(path: string, version = FORMAT_VERSION): void {
  writeDurably(join(path, FORMAT_NAME), `tenrec ${version}\n`)
}

function identityOf(path: string): string | null {
  const stat = statSync(path, { throwIfNoEntry: false, bigint: true })
  return stat === undefined ? null : `${stat.dev}.${stat.ino}`
}

function damage(file: string, what: string): OperatorError {
  return refusal(
    `${file} is damaged (${what}): restore the data directory from a backup; nothing was changed`,
  )
}

function refusal(message: string): OperatorError {
  return new OperatorError(message, { exitCode: 78 })
}

/** In a cluster: where what this machine has accepted for a partition waits for the others, a log and its name. */
export const outboxFolder = (dataDir: string, partition = 0): string =>
  join(dataDir, 'outbox', partition === 0 ? '' : `partition-${partition}`)

/** The position up to which the log of a data directory is processed; 0 for a new one. */
export function readProcessedPosition(dataDir: string): number {
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: ['state'] })
  try {
    return readNumber(environment.table('state'), 'position') ?? 0
  } finally {
    // Closing ends at once; what it returns only tells of writes, and there were none.
    void environment.close()
  }
}
