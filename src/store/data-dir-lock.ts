/**
 * Exclusive ownership of a data directory by one process. The lock is a symbolic link whose target
 * names the owner, `lock.<pid>.<start time>`: it is created with its content in one step, and needs no
 * space on a full disk. An owner that is gone is noticed by its pid together with its start time, so
 * neither kill -9 nor a reused pid keeps the directory locked. An empty file of that name stands
 * beside it, so that programs that follow links (copies, backups of files) do not stumble.
 */
import { lstatSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { OperatorError } from '../base/errors.ts'

const LOCK_NAME = 'lock'
/** Held for an instant by the process that removes the lock of an owner that is gone. */
const CLAIM_NAME = 'lock.claim'
const OWNER_PATTERN = /^(?:lock\.)?(\d{1,10})\.(\d{1,20})$/
const ATTEMPTS_MAX = 40
const ATTEMPT_PAUSE_MS = 20

/** Locks a directory until the returned function is called. Throws `OperatorError` within 2 s. */
export async function lockDataDir(dataDir: string): Promise<() => void> {
  const path = join(dataDir, LOCK_NAME)
  const own = `lock.${process.pid}.${startTimeOf(process.pid) ?? 0}`
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    if (tryLink(own, path)) return owned(own, path)
    const found = readOwner(path)
    const pid = found === null ? null : livingPid(found)
    if (pid !== null) {
      throw new OperatorError(
        `${dataDir} is in use by the process ${pid}: stop it first, or choose another data directory`,
      )
    }
    if (takeOver(own, path, found, join(dataDir, CLAIM_NAME))) return owned(own, path)
    await sleep(ATTEMPT_PAUSE_MS)
  }
  throw new OperatorError(`${path} cannot be taken: remove it if no tenrec process is running`)
}

/** The pid of the process that holds the lock, or null. */
export function lockOwner(dataDir: string): number | null {
  const owner = readOwner(join(dataDir, LOCK_NAME))
  return owner === null ? null : livingPid(owner)
}

/**
 * Replaces the lock `stale` of an owner that is gone. Between looking and replacing another process
 * may have done the same, so one process at a time looks again and replaces. False: look again.
 */
function takeOver(own: string, path: string, stale: string | null, claimPath: string): boolean {
  if (!tryLink(own, claimPath)) {
    const claimant = readOwner(claimPath)
    if (claimant === null || livingPid(claimant) === null) rmSync(claimPath, { force: true })
    return false
  }
  try {
    if (readOwner(path) !== stale) return false
    rmSync(path, { force: true })
    if (stale !== null && OWNER_PATTERN.test(stale)) {
      rmSync(join(dirname(path), stale), { force: true })
    }
    return tryLink(own, path)
  } finally {
    rmSync(claimPath, { force: true })
  }
}

/** The lock is ours: gives the link something to point at, and answers what gives it up. */
function owned(own: string, path: string): () => void {
  const target = join(dirname(path), own)
  try {
    writeFileSync(target, '', { mode: 0o600 })
  } catch {
    // The link alone is the lock.
  }
  return () => {
    if (readOwner(path) !== own) return
    rmSync(path, { force: true })
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

/** The owner that a lock names; null when it is missing or is no link of ours. */
function readOwner(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    if (!hasCode(error, 'EINVAL')) throw error
    if (!lstatSync(path).isDirectory()) return null
    throw new OperatorError(`${path} is a directory: remove it, it is not a part of the store`)
  }
}

/** The pid of an owner that still runs, or null. */
function livingPid(owner: string): number | null {
  const match = OWNER_PATTERN.exec(owner)
  if (match === null) return null
  const pid = Number(match[1])
  const startTime = startTimeOf(pid)
  if (startTime === null) return null
  return startTime === match[2] ? pid : null
}

/**
 * When a process started, in ticks since the machine did; null when there is no such process, when it
 * is a zombie, or when it belongs to another user and is hidden from us.
 */
function startTimeOf(pid: number): string | null {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return null
  }
  // The second field is the program's name in parentheses and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = ''] = fields
  return state === 'Z' || state === 'X' ? null : (fields[19] ?? null)
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
