/**
 * Decides whether a process may open an environment that other processes have open. LMDB's own lock file is not enough,
 * for two reasons. First, it identifies readers by their process numbers. When a process closes the environment, it
 * clears all readers with its own number. In another pid namespace, the same number can belong to another process. That
 * process then no longer counts as a reader, and the pages that it reads are overwritten. Second, the lock file fails
 * if `lock.mdb` was removed and created again.
 *
 * All processes that have an environment open therefore share a kernel lock on its folder (kernel-lock.ts). The file
 * `namespace` in the folder names their pid namespace and their `lock.mdb`. Only a process that is the only user of the
 * environment may change that file.
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

/**
 * The locks that this process has taken, by the identity of the folder (`KernelLock.identity`). The process takes each
 * lock once, and keeps the lock until the process ends.
 */
const joined = new Map<string, KernelLock>()

/**
 * Registers this process as a user of an environment until the process ends. Call it before LMDB opens an environment
 * that other processes may open. Throws `OperatorError` if the other users run in another pid namespace or use another
 * `lock.mdb`. It takes about 5 ms, or up to 2 s if it throws.
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
  // If this process is the only user, the file `namespace` is left over from earlier users and can be replaced.
  if (!lock.tryTake('exclusive') || !lock.isInPlace) return false
  if (!claim(folder)) return true
  // Changing the mode of the lock releases it for a moment, in which another process may have replaced the file.
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

/**
 * Returns the content that the file `namespace` must have so that this process may use the environment. Returns null if
 * this process cannot find out its pid namespace, or if there is no `lock.mdb`.
 */
function usersText(folder: string): string | null {
  const namespace = ownPidNamespace()
  const stat = statSync(join(folder, LMDB_LOCK_NAME), { throwIfNoEntry: false, bigint: true })
  if (namespace === null || stat === undefined) return null
  return `${namespace} ${stat.dev}.${stat.ino}\n`
}

/**
 * Writes the pid namespace and the `lock.mdb` of this process into the file `namespace`. Returns false if the file
 * could not be written. This process may then use the environment, but no other process may join it.
 */
function claim(folder: string): boolean {
  const lockFile = join(folder, LMDB_LOCK_NAME)
  try {
    // An existing `lock.mdb` must not be opened here: if this process opened and closed it, the process would lose the
    // locks that LMDB holds on it.
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

/**
 * Replaces the file `namespace`. If the disk is full, the content of the old file is overwritten instead. This needs no
 * space, because the new content has the same length.
 */
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

/**
 * Gives a file the owner of its folder. The superuser may run a command on the store of a daemon that runs as another
 * user, and that user must be able to use the file.
 */
function giveToOwner(file: string, folder: string): void {
  const { uid, gid } = statSync(folder)
  if (process.getuid?.() === 0 && uid !== 0) chownSync(file, uid, gid)
}

/**
 * Returns the other process that has locked the data directory, or null. Also returns null if this process itself has
 * the lock, as a daemon has at its start.
 */
function otherHolder(dataDir: string): LockHolder | null {
  const holder = lockHolder(dataDir)
  return holder?.pid === process.pid ? null : holder
}

function refusal(dataDir: string, folder: string): OperatorError {
  const holder = otherHolder(dataDir)
  const who = holder === null ? 'another process' : holder.description
  if (readNamespace(folder) === ownPidNamespace()) {
    return new OperatorError(
      `${join(folder, LMDB_LOCK_NAME)} was removed while ${who} had it open. Stop that process first.`,
    )
  }
  if (ownPidNamespace() === null) {
    return new OperatorError(
      `${dataDir} is in use, but without /proc the process cannot be found. Mount /proc, or stop the daemon first.`,
    )
  }
  return new OperatorError(
    `${dataDir} is in use by ${holder?.pid === null ? who : 'a process of another PID namespace'}. ` +
      'Run the command in the container of that process, because the lock of LMDB does not reach beyond it.',
  )
}

function readNamespace(folder: string): string | null {
  try {
    return readFileSync(join(folder, USERS_NAME), 'utf8').split(' ')[0] ?? null
  } catch {
    return null
  }
}
