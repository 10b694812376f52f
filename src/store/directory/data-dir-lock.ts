/**
 * Makes one process the owner of a data directory, by a kernel lock on the directory itself (kernel-lock.ts). The lock
 * works across pid and mount namespaces, it ends with the process, and it does not depend on a file that could be
 * removed.
 *
 * A note in the directory names the owner, so that error messages can name it. Only the kernel lock decides which
 * process is the owner. The note is a symbolic link `lock` to a file `lock.PID.START`, which contains details. In older
 * versions, this link alone was the lock. An older version therefore does not open a directory that has the note. And
 * this version does not open a directory whose link names a running process of an older version.
 */
import { lstatSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SYSTEM_CLOCK } from '../../base/clock.ts'
import { OperatorError } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { KernelLock } from './kernel-lock.ts'
import { LOCK_COMMAND_WAIT_MS_MAX, LOCK_SILENCE_MS_MAX, LOCK_WAIT_MS_MAX } from './limits.ts'
import { ownPidNamespace, ownStartTime, startTimeOf } from './pid-namespace.ts'

const PURPOSES = ['daemon', 'command', 'restore', 'migrate', 'backup'] as const
/**
 * The purpose for which a process locks a directory. While a `daemon` has the lock, other processes may use the store.
 * A `command` runs only for a short time, so other processes wait until it ends.
 */
export type LockPurpose = (typeof PURPOSES)[number]

/** The process that has locked a directory, as far as it is known. */
export interface LockHolder {
  /**
   * The number of the process in the pid namespace of the calling process. Null if the process runs in another
   * namespace, or if nothing is known about it.
   */
  readonly pid: number | null
  /**
   * The purpose of the lock. Null if the process has an older version. `unknown` if the process has left no note that
   * can be read.
   */
  readonly purpose: LockPurpose | 'unknown' | null
  /** The process in words that fit into a sentence, such as `the process 17`. */
  readonly description: string
}

interface Note {
  readonly pid: number
  readonly startTime: string
  /** The details in the note. Null if the note has none, because an older version wrote it. */
  readonly details: { readonly [key: string]: unknown } | null
}

/**
 * Describes the process that has the lock if nothing is known about it: there is no note, or the note names a process
 * that has ended.
 */
const UNKNOWN_HOLDER: LockHolder = {
  pid: null,
  purpose: 'unknown',
  description:
    'an unknown process (its file `lock` is missing or belongs to another process; `fuser -v` on the directory finds it)',
}
const LOCK_NAME = 'lock'
const OWNER_PATTERN = /^(?:lock\.)?(\d{1,10})\.(\d{1,20})$/
const ATTEMPT_PAUSE_MS = 20

/** A lock that this process holds. */
export interface HeldLock {
  /** The file descriptor that has the lock (see `KernelLock.descriptor`). */
  readonly descriptor: number
  readonly release: () => void
}

/**
 * Locks a directory. Returns a function that releases the lock. If another process has the lock, it throws
 * `OperatorError` within 2 s.
 */
export async function lockDataDir(dataDir: string, purpose: LockPurpose): Promise<() => void> {
  const { release } = await holdDataDir(dataDir, purpose)
  return release
}

/** Does the same as `lockDataDir`, but also returns the file descriptor of the lock. */
export async function holdDataDir(dataDir: string, purpose: LockPurpose): Promise<HeldLock> {
  const outcome = await take(dataDir, purpose)
  if ('release' in outcome) return outcome
  throw new OperatorError(
    `${dataDir} is in use by ${outcome.description}. Stop that process first, or choose another data directory.`,
  )
}

/**
 * Locks a directory for a command that changes a store. If no daemon runs, the command has the lock until it calls the
 * returned function. If a daemon in this pid namespace has the lock, or a process of an older version, the command may
 * use the store at the same time, without a lock. If another command has the lock, waits up to 10 s for that command to
 * end. Throws `OperatorError` if the lock is still taken then, or if any other process has it.
 */
export async function lockForCommand(dataDir: string): Promise<() => void> {
  const outcome = await take(dataDir, 'command')
  if ('release' in outcome) return outcome.release
  const { pid, purpose, description } = outcome
  if (pid !== null && (purpose === 'daemon' || purpose === null)) return () => {}
  const wayOut =
    purpose === 'daemon'
      ? 'Run the command in the container of that process.'
      : 'Stop that process first.'
  throw new OperatorError(`${dataDir} is in use by ${description}. ${wayOut}`)
}

/**
 * Returns the process that has locked a directory, or null if none has. Throws `OperatorError` if this cannot be found
 * out.
 */
export function lockHolder(dataDir: string): LockHolder | null {
  const lock = new KernelLock(dataDir)
  try {
    return lock.tryTake('shared') ? olderHolder(dataDir) : describeHolder(dataDir)
  } finally {
    lock.release()
  }
}

/**
 * Takes the lock. If another process has it, and will probably release it soon, waits for that first (see
 * `patienceMs`). If the lock stays taken, returns the process that has it.
 */
async function take(dataDir: string, purpose: LockPurpose): Promise<HeldLock | LockHolder> {
  const startedAtMs = SYSTEM_CLOCK.monotonic()
  for (;;) {
    const outcome = tryOnce(dataDir, purpose)
    if (outcome !== null && 'release' in outcome) return outcome
    const elapsedMs = SYSTEM_CLOCK.monotonic() - startedAtMs
    if (outcome === null && elapsedMs > LOCK_WAIT_MS_MAX) {
      throw new OperatorError(
        `${dataDir} or its file \`lock\` is being replaced again and again. Find the program that does this.`,
      )
    }
    if (outcome !== null && elapsedMs >= patienceMs(outcome, purpose)) return outcome
    await sleep(ATTEMPT_PAUSE_MS)
  }
}

/** Returns how long, in milliseconds, to wait for a holder that will probably release the lock soon. 0: do not wait. */
function patienceMs(holder: LockHolder, purpose: LockPurpose): number {
  if (holder.purpose === 'command') {
    return purpose === 'command' ? LOCK_COMMAND_WAIT_MS_MAX : LOCK_WAIT_MS_MAX
  }
  // Nothing is known about the holder. It may be a process that only checks the lock and releases it at once, so a
  // short wait makes sense.
  return holder.pid === null || holder.purpose === 'unknown' ? LOCK_SILENCE_MS_MAX : 0
}

/** Returns the lock, or the process that has it. Null means that the caller must try again. */
function tryOnce(dataDir: string, purpose: LockPurpose): HeldLock | LockHolder | null {
  const lock = new KernelLock(dataDir)
  let isKept = false
  try {
    if (!lock.tryTake('exclusive')) return describeHolder(dataDir)
    // The directory may have been replaced between opening and locking it.
    if (!lock.isInPlace) return null
    const older = olderHolder(dataDir)
    if (older !== null) return older
    const removeNote = leaveNote(dataDir, purpose)
    if (removeNote === null) return null
    isKept = true
    const release = (): void => {
      removeNote()
      lock.release()
    }
    return { descriptor: lock.descriptor, release }
  } finally {
    if (!isKept) lock.release()
  }
}

/** Describes the process that has the kernel lock, with the details in its note. */
function describeHolder(dataDir: string): LockHolder {
  const note = readNote(dataDir)
  if (note === null) return UNKNOWN_HOLDER
  const { pid, details } = note
  const purpose = PURPOSES.find((known) => known === details?.['purpose']) ?? 'unknown'
  const namespace = details?.['pid_namespace']
  if (details === null || namespace === ownPidNamespace()) {
    if (!isAlive(note)) return UNKNOWN_HOLDER
    return { pid, purpose, description: `the process ${pid}` }
  }
  const said = (key: string): string => {
    const value = details[key]
    return typeof value === 'string' && /^[\w.:-]{1,255}$/.test(value) ? value : 'unknown'
  }
  const description =
    `a process of another PID namespace, such as a container (process ${pid} there, ` +
    `on host ${said('host')}, since ${said('since')})`
  return { pid: null, purpose, description }
}

/**
 * Returns the process of an older version that owns the directory, if it is alive. Such a process has no kernel lock.
 */
function olderHolder(dataDir: string): LockHolder | null {
  const note = readNote(dataDir)
  if (note === null || note.details !== null || !isAlive(note)) return null
  if (note.pid === process.pid && note.startTime === ownStartTime()) return null
  return { pid: note.pid, purpose: null, description: `the process ${note.pid}` }
}

function isAlive({ pid, startTime }: Note): boolean {
  return startTimeOf(pid) === startTime
}

/**
 * Replaces the note of the previous owner by a note of this process. Returns a function that removes the note. Returns
 * null if a process of an older version has created its link at the same moment. Call it only while this process has
 * the kernel lock.
 */
function leaveNote(dataDir: string, purpose: LockPurpose): (() => void) | null {
  const path = join(dataDir, LOCK_NAME)
  const name = `lock.${process.pid}.${ownStartTime() ?? 0}`
  const target = join(dataDir, name)
  const stale = readTarget(path)
  rmSync(path, { force: true })
  if (stale !== null && OWNER_PATTERN.test(stale)) {
    rmSync(join(dirname(path), stale), { force: true })
  }
  const details = {
    purpose,
    host: hostname(),
    pid_namespace: ownPidNamespace(),
    since: new Date(SYSTEM_CLOCK.now()).toISOString(),
  }
  try {
    writeFileSync(target, `${JSON.stringify(details)}\n`, { mode: 0o644 })
  } catch {
    // The disk is full. That is no obstacle: the link takes no disk space, and names the process even without the file.
  }
  if (!tryLink(name, path)) return null
  return () => {
    if (readTarget(path) === name) rmSync(path, { force: true })
    rmSync(target, { force: true })
  }
}

function tryLink(target: string, path: string): boolean {
  try {
    symlinkSync(target, path)
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw new OperatorError(`Cannot create ${path}: ${String(error)}.`, { cause: error })
  }
}

/** Reads the link and the file that it points to. Returns null if there is no link, or if Tenrec did not create it. */
function readNote(dataDir: string): Note | null {
  const target = readTarget(join(dataDir, LOCK_NAME))
  const match = target === null ? null : OWNER_PATTERN.exec(target)
  if (target === null || match === null) return null
  let details: unknown
  try {
    details = JSON.parse(readFileSync(join(dataDir, target), 'utf8'))
  } catch {
    details = null
  }
  const [, pid = '', startTime = ''] = match
  return { pid: Number(pid), startTime, details: isObject(details) ? details : null }
}

/** Returns the target of the link, or null if it is missing or not a link. */
function readTarget(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    if (!hasCode(error, 'EINVAL')) throw error
    if (!lstatSync(path).isDirectory()) return null
    throw new OperatorError(`${path} is a directory, but it is not part of the store. Remove it.`)
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
