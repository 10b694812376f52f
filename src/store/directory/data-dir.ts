/**
 * The whole data directory. It contains:
 *
 * | entry                    | content                                                                  |
 * |--------------------------|--------------------------------------------------------------------------|
 * | `log`, `events`, `flags` | the log, and one folder for each environment                             |
 * | `format`                 | the format of the store; written last, so it exists only in whole stores |
 * | `lock`, `lock.*`         | the note about the owner (data-dir-lock.ts)                              |
 * | `processing`             | processing attempts (engine/processor/processing-attempts.ts)            |
 * | `credentials.json`       | the keys of the first start (open-store.ts)                              |
 * | `outbox`                 | on a machine of a cluster: its outboxes (cluster/outboxes.ts)            |
 *
 * If a data file is damaged or missing, or the format is newer than this version, a retry cannot help. The program then
 * ends with exit code 78 and one line that tells the operator what to do.
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
import { compareParts } from './store-agreement.ts'

/** The format that this version reads and writes. */
export const FORMAT_VERSION = 7
/** The format of stores whose log was in LMDB. The log of such a store is converted at the start. */
const LMDB_LOG_FORMAT = 2
/**
 * The oldest format that the current code reads without a conversion. Format 4 added person deltas
 * (store/identity/person-changes.ts), format 5 property pages (store/identity/properties/property-pages.ts), format 6
 * groups of long texts (store/events/format/lz4/lz4.ts), and format 7 deflated blocks of the log
 * (store/log/stored-block.ts).
 */
const NO_DELTAS_FORMAT = 3
/** The names of the environments, which are also the names of their folders. */
export const ENVIRONMENT_NAMES = ['events', 'flags'] as const
/** One of `ENVIRONMENT_NAMES`. */
export type EnvironmentName = (typeof ENVIRONMENT_NAMES)[number]
/** The folders of all parts of a store. */
export const PART_NAMES = ['log', ...ENVIRONMENT_NAMES] as const
/** One of `PART_NAMES`. */
export type PartName = (typeof PART_NAMES)[number]

/**
 * The tables that a new store contains. They are created at once, so that a command can read a store that no daemon has
 * opened yet.
 */
export const FIRST_TABLES: Readonly<Record<EnvironmentName, readonly string[]>> = {
  events: EVENTS_TABLES,
  flags: FLAGS_TABLES,
}

/**
 * A file that exists while a restore moves environments into the data directory. As long as it exists, no daemon and no
 * command opens the directory.
 */
export const RESTORE_MARK = 'restoring'
/** The folder in which a restore builds environments. It exists from the first to the last step of the restore. */
export const RESTORE_NURSERY = '.restored'
/**
 * The *creation mark*: a file that exists while a store is being created. It is written before the first environment,
 * and removed after `format` is written.
 */
export const CREATION_MARK = 'creating'

const FORMAT_NAME = 'format'
const DATA_NAME = 'data.mdb'
/** The unit of `blocks` in the result of stat(2). */
const DISK_BLOCK_BYTES = 512
const LMDB_LOCK_NAME = 'lock.mdb'
/**
 * The beginning of the names of the folders in which environments are created before they are moved to their final
 * path.
 */
const NURSERY_PREFIX = '.new-'
/** A data directory that this process owns: it was checked, has all its parts, and is locked by this process. */
export class DataDir {
  /** The absolute path of the data directory. */
  readonly path: string
  /** Texts for the daemon's log about files that differ from the state in which Tenrec left them, but can be used. */
  readonly notes: readonly string[]
  /** The number of events that the log contained when the directory was opened, and that were not processed yet. */
  readonly waitingEvents: number
  readonly #lock: HeldLock
  readonly #identities: ReadonlyMap<string, string>
  readonly #log: LogPlace

  private constructor({
    path,
    notes,
    waitingEvents,
    lock,
  }: Pick<DataDir, 'path' | 'notes' | 'waitingEvents'> & { readonly lock: HeldLock }) {
    this.path = path
    this.notes = notes
    this.waitingEvents = waitingEvents
    this.#lock = lock
    const files = ENVIRONMENT_NAMES.map((name) => join(path, name, DATA_NAME))
    const places = [path, logFolder(path), ...files]
    this.#identities = new Map(places.map((file) => [file, identityOf(file) ?? '']))
    this.#log = new LogPlace(path)
  }

  /**
   * Locks and checks a data directory, and creates the store if there is none. Throws `OperatorError` with exit code 1
   * if the directory is in use or cannot be written, or if it is on a network file system and `isNetworkDiskAllowed` is
   * false. The exit code is 78 if the directory is damaged.
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
      const waitingEvents = isStore ? requireAgreement(path, true) : 0
      if (isStore && format !== FORMAT_VERSION) markFormat(path)
      removeOldLog(path)
      return new DataDir({ path, notes, waitingEvents, lock })
    } catch (error) {
      lock.release()
      throw error
    }
  }

  /** Returns the process that has locked a directory, or null. Throws `OperatorError` if that cannot be found out. */
  static holder(path: string): LockHolder | null {
    return lockHolder(path)
  }

  /**
   * Returns a text that identifies this process, for use as the name of a folder. By the name, another process can find
   * out whether this process has ended, and then remove the folder.
   */
  static ownProcessName(): string {
    return ownProcessName()
  }

  /**
   * Returns whether a process has ended. `name` is what `ownProcessName` returned in that process. Returns null if the
   * process runs in another pid namespace.
   */
  static hasProcessEnded(name: string): boolean | null {
    return hasProcessEnded(name)
  }

  /**
   * Returns whether the directory and its data files are still those that were opened. If they were moved, deleted or
   * replaced, later writes would be lost. It costs four calls of stat(2), and one more for each file of the log.
   */
  isInPlace(): boolean {
    for (const [file, identity] of this.#identities) {
      if (identityOf(file) !== identity) return false
    }
    return this.#log.isInPlace()
  }

  /**
   * The file descriptor that holds the lock. If a child process inherits the descriptor, other processes cannot take
   * the lock until the child has ended.
   */
  get lockDescriptor(): number {
    return this.#lock.descriptor
  }

  /** Releases the lock. */
  release(): void {
    this.#lock.release()
  }
}

/**
 * Checks that a directory contains a store in a supported format, that the environment `name` can be opened, and that
 * all environments belong together. Also registers this process as a user of the environments (environment-lock.ts).
 * Commands that can run beside a daemon call it. Returns the absolute path. Throws `OperatorError` with exit code 1 or
 * 78.
 */
export function requireStore(dataDir: string, name: PartName): string {
  const path = requireEnvironment(dataDir, name)
  // If another part is missing or damaged, skip the checks below: the code that opens that part reports the fault.
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

/**
 * Does the same as `requireStore`, but does not check the other environments. Commands that export what is left of a
 * damaged store use it.
 */
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

/** Checks that there is a store in a format that this program supports, and returns its absolute path. */
function requireFormat(dataDir: string): string {
  const path = resolve(dataDir)
  if (existsSync(path) && formatOf(path) !== null) return path
  throw new OperatorError(
    `There is no store in ${path}. Create one with \`tenrec init\`, or name another directory with --data-dir.`,
  )
}

/**
 * Returns the fault in the data file of an environment, or null. The environment may be in use. Throws `OperatorError`
 * if the file is missing or cannot be read.
 */
export function findDamage(path: string, name: EnvironmentName): string | null {
  // If a daemon is writing at the same time, a sound file may look damaged for a moment. So a fault counts only if
  // every attempt finds it.
  let finding = inspectEnvironment(path, name, true)
  for (let attempt = 0; finding?.kind === 'damaged' && attempt < 2; attempt++) {
    finding = inspectEnvironment(path, name, true)
  }
  return finding?.kind === 'damaged' ? finding.what : null
}

/**
 * Throws if one part of the store is older than the others. Data that was acknowledged is then missing. `path` is
 * absolute. Set `isAlone` if no other process has the store open. The number of events in the log that are not processed
 * yet is then returned, otherwise 0. Throws `OperatorError` with exit code 78.
 */
export function requireAgreement(path: string, isAlone = false): number {
  const { disagreement, waitingEvents } = compareParts(path, isAlone)
  if (disagreement === null) return waitingEvents
  const { file, what } = disagreement
  throw refusal(
    `${file} does not match the rest of the store (${what}). Restore the whole data directory ` +
      'from a backup. Nothing was changed.',
  )
}

/**
 * Returns the number of bytes that a part of the store takes on the disk: the data file of an environment, or all files
 * of the log. Returns 0 if there is no such file. Free pages that were released to the file system take no space on the
 * disk, so they do not count, although the length of the file includes them.
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
    throw new OperatorError(`Cannot create the data directory: ${reason}.`, { cause: error })
  }
}

/**
 * Returns the format of a directory, or null if it contains no store. Throws `OperatorError` if this version does not
 * support the format.
 */
function formatOf(path: string, oldest = NO_DELTAS_FORMAT): number | null {
  const version = requireComplete(path)
  if (version === null || (version >= oldest && version <= FORMAT_VERSION)) return version
  const wayOut =
    version > FORMAT_VERSION
      ? 'Use the newer version.'
      : `Run \`tenrec migrate --dry-run\` to see what can be done.`
  throw refusal(
    `${path} has the format ${version}, but this version of Tenrec supports format ${FORMAT_VERSION}. ${wayOut}`,
  )
}

/**
 * Checks that a directory may be used. Returns the format of its store, or null if it contains none. Throws
 * `OperatorError` with exit code 78 if a restore into the directory was interrupted, or if its `format` file is missing
 * or damaged.
 */
export function requireComplete(path: string): number | null {
  const again = `A restore into ${path} was interrupted or is still running. Run \`tenrec restore\` again`
  if (existsSync(join(path, RESTORE_MARK))) throw refusal(`${again}.`)
  const nursery = join(path, RESTORE_NURSERY)
  if (existsSync(nursery)) {
    throw refusal(`${again}, or remove ${nursery} to keep the store that was there before.`)
  }
  const version = readFormat(path)
  if (version !== null || existsSync(join(path, CREATION_MARK))) return version
  const files = ENVIRONMENT_NAMES.map((known) => join(path, known, DATA_NAME))
  const file = files.find((each) => existsSync(each)) ?? (hasLogFiles(path) && logFolder(path))
  if (file === false) return null
  throw refusal(
    `${join(path, FORMAT_NAME)} is missing, but ${file} exists. Restore a backup. ` +
      `If nothing else was removed, create the file with the line 'tenrec ${FORMAT_VERSION}', which is right for this version.`,
  )
}

/**
 * Returns the format in the `format` file, or null if there is no such file. Throws `OperatorError` with exit code 1 if
 * the file cannot be read, and with 78 if it is damaged.
 */
export function readFormat(path: string): number | null {
  const file = join(path, FORMAT_NAME)
  let content: string
  try {
    content = readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw new OperatorError(`Cannot read ${file}: ${String(error)}.`, { cause: error })
  }
  const version = /^tenrec (\d{1,9})\n$/.exec(content)?.[1]
  if (version !== undefined) return Number(version)
  throw refusal(`${file} is damaged. It must be the line 'tenrec ${FORMAT_VERSION}'.`)
}

/**
 * Checks one environment and returns notes for the operator. Throws `OperatorError` if the environment is damaged. A
 * missing environment is an error only if `isStore` is true, that is, if the directory already contains a whole store.
 */
export function checkEnvironment(
  path: string,
  name: PartName,
  isStore: boolean,
): readonly string[] {
  const file = join(path, name, DATA_NAME)
  const finding = inspectEnvironment(path, name, isStore)
  const isReadable = finding !== null && finding.kind !== 'damaged'
  // If a command is writing at the same time, a sound list of free pages may look damaged for a moment. So a fault
  // counts only if the list looks damaged twice.
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

/** Checks the data file of an environment. Returns null if the file does not exist and `isStore` is false. */
function inspectEnvironment(path: string, name: PartName, isStore: boolean): LmdbFinding | null {
  const file = join(path, name, DATA_NAME)
  try {
    checkLmdbLock(join(path, name, LMDB_LOCK_NAME))
    return requireDataFile(file, isStore) ? inspectLmdbFile(file) : null
  } catch (error) {
    if (error instanceof OperatorError) throw error
    throw new OperatorError(`Cannot read ${file}: ${String(error)}.`, { cause: error })
  }
}

/**
 * Copies the log of a store of format 2 out of LMDB. The old log stays. Does nothing if the log is not in LMDB, as in a
 * store that a restore has built. The conversion may be interrupted and repeated. Throws `OperatorError`, with exit
 * code 78 if the log is damaged.
 */
export async function takeOver(path: string): Promise<void> {
  if (!isOldLog(path)) return
  checkEnvironment(path, 'log', true)
  joinEnvironment(path, 'log')
  await takeOverLog(path)
}

/** Throws an error that names the file if the file cannot be written. The error of LMDB would not name it. */
function requireWritable(file: string): void {
  try {
    closeSync(openSync(file, 'r+'))
  } catch (error) {
    throw new OperatorError(`Cannot write ${file}: ${String(error)}.`, { cause: error })
  }
}

/** Returns whether a data file exists. If `isStore` is true, it must exist. */
function requireDataFile(file: string, isStore: boolean): boolean {
  const stat = statSync(file, { throwIfNoEntry: false })
  if (stat === undefined) {
    if (!isStore) return false
    throw refusal(`${file} is missing. Restore the data directory from a backup.`)
  }
  if (stat.isFile()) return true
  throw refusal(`${file} is not a file. Restore the data directory from a backup.`)
}

/** Throws if there is a folder at the path of LMDB's lock file. LMDB can repair everything else at this path. */
function checkLmdbLock(file: string): void {
  if (lstatSync(file, { throwIfNoEntry: false })?.isDirectory() !== true) return
  throw new OperatorError(
    `${file} is a directory. Remove it, because LMDB needs this path for its lock.`,
  )
}

/**
 * Creates the missing environments and then the `format` file. Each environment is created in a temporary folder, and
 * moved to its path only when it is on the disk. After a power cut, it therefore exists completely or not at all. If
 * the creation was interrupted, the creation mark shows that nothing was stored in the environments that already exist.
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

/** Removes the creation mark. From now on, a missing `format` file means that the file was lost. */
function endCreation(path: string): void {
  const mark = join(path, CREATION_MARK)
  if (!existsSync(mark)) return
  rmSync(mark)
  flush(path)
}

/** Writes the `format` file, which marks the directory as a complete store. */
export function markFormat(path: string, version = FORMAT_VERSION): void {
  writeDurably(join(path, FORMAT_NAME), `tenrec ${version}\n`)
}

function identityOf(path: string): string | null {
  const stat = statSync(path, { throwIfNoEntry: false, bigint: true })
  return stat === undefined ? null : `${stat.dev}.${stat.ino}`
}

function damage(file: string, what: string): OperatorError {
  return refusal(
    `${file} is damaged (${what}). Restore the data directory from a backup. Nothing was changed.`,
  )
}

function refusal(message: string): OperatorError {
  return new OperatorError(message, { exitCode: 78 })
}

/**
 * Returns the folder of an outbox: the events of a partition that this machine of a cluster has accepted, until enough
 * machines have stored them. The folder contains a log, and the file with the name of the outbox.
 */
export const outboxFolder = (dataDir: string, partition = 0): string =>
  join(dataDir, 'outbox', partition === 0 ? '' : `partition-${partition}`)

/** Returns the number of the last block of the log that is processed, or 0 for a new data directory. */
export function readProcessedPosition(dataDir: string): number {
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: ['state'] })
  try {
    return readNumber(environment.table('state'), 'position') ?? 0
  } finally {
    // `close` closes the environment before it returns. Its promise only waits for writes, and there were none.
    void environment.close()
  }
}
