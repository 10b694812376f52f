/**
 * Who may open an environment beside others. LMDB's own lock file knows its readers by the numbers of
 * their processes, and a process that closes clears the places of its number: across pid namespaces that
 * are the places of others, whose pages are then written over. Nor does it hold when `lock.mdb` was
 * removed and made anew. So all who have an environment open share a kernel lock on its folder
 * (kernel-lock.ts), and the file `namespace` in it names their pid namespace and their `lock.mdb`. Only who is
 * alone may change it.
 */
import {
  chownSync,
  closeSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../../base/errors.ts'
import { type LockHolder, lockHolder } from './data-dir-lock.ts'
import { KernelLock } from './kernel-lock.ts'
import { LOCK_ATTEMPTS_BESIDE_DAEMON_MAX, LOCK_ATTEMPTS_MAX } from './limits.ts'
import { ownPidNamespace } from './pid-namespace.ts'

const USERS_NAME = 'namespace'
const LMDB_LOCK_NAME = 'lock.mdb'
const ATTEMPT_PAUSE_MS = 20

/** By identity of the folder: a process stands in line once, and until it ends. */
const joined = new Map<string, KernelLock>()

/**
 * Registers this process as one that has the environment open, until it ends. Call it before LMDB opens
 * what others may open. Throws `OperatorError` when those who have it open live in another pid namespace,
 * or have another `lock.mdb`. About 5 ms, and up to 2 s before it throws.
 */
export function joinEnvironment(dataDir: string, name: string): void {
  const folder = join(dataDir, name)
  for (let attempt = 0; attempt < LOCK_ATTEMPTS_MAX; attempt++) {
    const lock = new KernelLock(folder)
    const isKnown = joined.has(lock.identity)
    if (!isKnown && tryJoin(lock, folder)) {
      joined.set(lock.identity, lock)
      return
    }
    lock.release()
    if (isKnown) return
    if (attempt === LOCK_ATTEMPTS_BESIDE_DAEMON_MAX && otherHolder(dataDir)?.purpose === 'daemon')
      break
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ATTEMPT_PAUSE_MS)
  }
  throw refusal(dataDir, folder)
}

function tryJoin(lock: KernelLock, folder: string): boolean {
  const users = usersText(folder)
  if (!lock.tryTake('shared')) return false
  if (isNamed(folder, users)) return lock.isInPlace
  // Nobody else has it open: whatever the file says is of the past.
  if (!lock.tryTake('exclusive') || !lock.isInPlace) return false
  if (!claim(folder)) return true
  // On the way from one mode to the other somebody else may have claimed it.
  return lock.tryTake('shared') && isNamed(folder, usersText(folder))
}

function isNamed(folder: string, users: string | null): boolean {
  if (users === null) return false
  try {
    return readFileSync(join(folder, USERS_NAME), 'utf8') === users
  } catch {
    return false
  }
}

/** What the file has to say for us to join; null when no other process can be told to be one of ours. */
function usersText(folder: string): string | null {
  const namespace = ownPidNamespace()
  const stat = statSync(join(folder, LMDB_LOCK_NAME), { throwIfNoEntry: false, bigint: true })
  if (namespace === null || stat === undefined) return null
  return `${namespace} ${stat.dev}.${stat.ino}\n`
}

/** Names us as those who use the folder. False when it could not be written: then nobody else can join. */
function claim(folder: string): boolean {
  const lockFile = join(folder, LMDB_LOCK_NAME)
  try {
    // Only if it is missing: to close it would give up LMDB's locks of this process.
    if (statSync(lockFile, { throwIfNoEntry: false }) === undefined) {
      closeSync(openSync(lockFile, 'ax', 0o600))
      giveToOwner(lockFile, folder)
    }
    const text = usersText(folder)
    if (text === null) return false
    writeUsers(folder, text)
    return true
  } catch {
    return false
  }
}

/** Replaces the file; on a full disk its content, which has the same length and needs no space. */
function writeUsers(folder: string, text: string): void {
  const file = join(folder, USERS_NAME)
  const draft = `${file}.new`
  try {
    writeFileSync(draft, text, { mode: 0o600 })
    giveToOwner(draft, folder)
    renameSync(draft, file)
  } catch (error) {
    const isFull = error instanceof Error && 'code' in error && error.code === 'ENOSPC'
    if (!isFull || statSync(file, { throwIfNoEntry: false }) === undefined) throw error
    rmSync(draft, { force: true })
    const descriptor = openSync(file, 'r+')
    try {
      writeSync(descriptor, text, 0)
      ftruncateSync(descriptor, Buffer.byteLength(text))
    } finally {
      closeSync(descriptor)
    }
  }
}

/** The superuser may run a command on the store of a daemon that is somebody else. */
function giveToOwner(file: string, folder: string): void {
  const { uid, gid } = statSync(folder)
  if (process.getuid?.() === 0 && uid !== 0) chownSync(file, uid, gid)
}

/** Who else has the directory: a daemon that starts has it itself. */
function otherHolder(dataDir: string): LockHolder | null {
  const holder = lockHolder(dataDir)
  return holder?.pid === process.pid ? null : holder
}

function refusal(dataDir: string, folder: string): OperatorError {
  const holder = otherHolder(dataDir)
  const who = holder === null ? 'another process' : holder.description
  if (readNamespace(folder) === ownPidNamespace()) {
    return new OperatorError(
      `${join(folder, LMDB_LOCK_NAME)} was removed while ${who} had it open: stop that one first`,
    )
  }
  if (ownPidNamespace() === null) {
    return new OperatorError(
      `${dataDir} is in use, and without /proc it cannot be told by whom: mount /proc, or stop the daemon first`,
    )
  }
  return new OperatorError(
    `${dataDir} is in use by ${holder?.pid === null ? who : 'a process of another pid namespace'}: ` +
      "run the command where that one runs, inside its container, because LMDB's lock ends there",
  )
}

function readNamespace(folder: string): string | null {
  try {
    return readFileSync(join(folder, USERS_NAME), 'utf8').split(' ')[0] ?? null
  } catch {
    return null
  }
}
