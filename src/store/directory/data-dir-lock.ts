/**
 * Exclusive ownership of a data directory by one process: a kernel lock on the directory itself
 * (kernel-lock.ts). It holds across pid and mount namespaces, ends with the process, and no file that
 * somebody removes belongs to it.
 *
 * Beside it lies a note, which tells others who that is and decides nothing against them: a symbolic link
 * `lock` to `lock.PID.START` with the details in it. The link alone was the lock of older versions, so
 * they find it, and one of theirs that names a living process is respected.
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
/** What a directory is locked for. Others may work beside a `daemon`, and wait for a `command`. */
export type LockPurpose = (typeof PURPOSES)[number]

/** The process that has a directory, as far as it can be told. */
export interface LockHolder {
  /** In our own pid namespace; null when it lives in another one, or nothing is known of it. */
  readonly pid: number | null
  /** Null for a process of an older version, `unknown` for one that left no note or none that we may read. */
  readonly purpose: LockPurpose | 'unknown' | null
  /** For a sentence, such as `the process 17`. */
  readonly description: string
}

interface Note {
  readonly pid: number
  readonly startTime: string
  /** What only newer versions say. */
  readonly details: { readonly [key: string]: unknown } | null
}

/** Somebody has the lock and left no note, or it was removed. */
const UNKNOWN_HOLDER: LockHolder = {
  pid: null,
  purpose: 'unknown',
  description:
    "a process that cannot be named: its file 'lock' is gone or of another ('fuser -v' on the directory finds it)",
}
const LOCK_NAME = 'lock'
const OWNER_PATTERN = /^(?:lock\.)?(\d{1,10})\.(\d{1,20})$/
const ATTEMPT_PAUSE_MS = 20

/** A lock that is held. */
export interface HeldLock {
  /** As `KernelLock.descriptor`. */
  readonly descriptor: number
  readonly release: () => void
}

/** Locks a directory until the returned function is called. Throws `OperatorError`, within 2 s. */
export async function lockDataDir(dataDir: string, purpose: LockPurpose): Promise<() => void> {
  const { release } = await holdDataDir(dataDir, purpose)
  return release
}

/** The same, with the descriptor of the lock. */
export async function holdDataDir(dataDir: string, purpose: LockPurpose): Promise<HeldLock> {
  const outcome = await take(dataDir, purpose)
  if ('release' in outcome) return outcome
  throw new OperatorError(
    `${dataDir} is in use by ${outcome.description}: stop it first, or choose another data directory`,
  )
}

/**
 * For a command that changes a store beside a running daemon or without one: without one it has the
 * directory to itself until the returned function is called. Throws `OperatorError` when another
 * process than a daemon of this pid namespace has it, after 10 s when that is a command.
 */
export async function lockForCommand(dataDir: string): Promise<() => void> {
  const outcome = await take(dataDir, 'command')
  if ('release' in outcome) return outcome.release
  const { pid, purpose, description } = outcome
  if (pid !== null && (purpose === 'daemon' || purpose === null)) return () => {}
  const wayOut =
    purpose === 'daemon' ? 'run the command where it runs, inside its container' : 'stop it first'
  throw new OperatorError(`${dataDir} is in use by ${description}: ${wayOut}`)
}

/** The process that has the directory, or null. Throws `OperatorError` when that cannot be found out. */
export function lockHolder(dataDir: string): LockHolder | null {
  const lock = new KernelLock(dataDir)
  try {
    return lock.tryTake('shared') ? olderHolder(dataDir) : describeHolder(dataDir)
  } finally {
    lock.release()
  }
}

/** Takes the lock, or answers who has it, after waiting for those who have it for a moment only. */
async function take(dataDir: string, purpose: LockPurpose): Promise<HeldLock | LockHolder> {
  const startedAtMs = SYSTEM_CLOCK.monotonic()
  for (;;) {
    const outcome = tryOnce(dataDir, purpose)
    if (outcome !== null && 'release' in outcome) return outcome
    const elapsedMs = SYSTEM_CLOCK.monotonic() - startedAtMs
    if (outcome === null && elapsedMs > LOCK_WAIT_MS_MAX) {
      throw new OperatorError(
        `${dataDir} or the file 'lock' in it is replaced all the time: see who does`,
      )
    }
    if (outcome !== null && elapsedMs >= patienceMs(outcome, purpose)) return outcome
    await sleep(ATTEMPT_PAUSE_MS)
  }
}

/** How long to wait for somebody who has the lock. */
function patienceMs(holder: LockHolder, purpose: LockPurpose): number {
  if (holder.purpose === 'command') {
    return purpose === 'command' ? LOCK_COMMAND_WAIT_MS_MAX : LOCK_WAIT_MS_MAX
  }
  // The note may be of the past, and the lock that of somebody who only looks.
  return holder.pid === null || holder.purpose === 'unknown' ? LOCK_SILENCE_MS_MAX : 0
}

/** The lock, or who has it; null: try again. */
function tryOnce(dataDir: string, purpose: LockPurpose): HeldLock | LockHolder | null {
  const lock = new KernelLock(dataDir)
  let isKept = false
  try {
    if (!lock.tryTake('exclusive')) return describeHolder(dataDir)
    // The directory may have been replaced since it was opened.
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

/** Somebody holds the kernel lock: who, as far as the note tells. */
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
    `a process of another pid namespace, such as a container's (process ${pid} there, ` +
    `on host ${said('host')}, since ${said('since')})`
  return { pid: null, purpose, description }
}

/** A living process of an older version, which takes no kernel lock. */
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
 * Says who we are, in the place of whoever was here before; answers what removes it, or null when
 * a process of an older version was quicker. The kernel lock is ours.
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
    // The disk is full: the link, which needs no space, names the process.
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
    throw new OperatorError(`${path} cannot be created: ${String(error)}`, { cause: error })
  }
}

/** What the link and the file behind it say; null when there is no link of ours. */
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

/** Where the link points to; null when it is missing or is no link. */
function readTarget(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    if (!hasCode(error, 'EINVAL')) throw error
    if (!lstatSync(path).isDirectory()) return null
    throw new OperatorError(`${path} is a directory: remove it, it is not a part of the store`)
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
