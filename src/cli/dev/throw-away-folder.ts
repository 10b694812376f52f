/**
 * The temporary data directory of `tenrec dev`. It is in memory if there is enough, and is removed when the process
 * ends. The next start removes a directory that a killed process left behind. Its name contains the name of the
 * process.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { DataDir } from '../../store/directory/data-dir.ts'

/** Directory for files in memory on Linux. */
const MEMORY_FOLDER = '/dev/shm'
/** Type number of tmpfs. Source: statfs(2). */
const TMPFS = 0x01021994
/** Free bytes that the directory in memory must have. Containers often have 64 MiB, which a few tests would fill. */
const MEMORY_ROOM_BYTES = 512 * 1024 ** 2
const PREFIX = 'tenrec-dev-'
/** Pattern of the names, with the name of the process. */
const NAME_PATTERN = /^tenrec-dev-(\d+-\d{1,10}-\d{1,20})-\w{6}$/
/** Minimum age of an abandoned directory of another PID namespace, whose process may be about to lock it. */
const STARTING_MS = 60_000

/** Creates an empty directory that no other user can read, and returns its absolute path. */
export function makeThrowAwayFolder(): string {
  const parent = hasMemoryFolder() ? MEMORY_FOLDER : tmpdir()
  return mkdtempSync(join(parent, `${PREFIX}${DataDir.ownProcessName()}-`))
}

/** Removes a directory that `makeThrowAwayFolder` created. */
export function removeThrowAwayFolder(path: string): void {
  rmSync(path, { recursive: true, force: true, maxRetries: 3 })
}

/** Removes the directories of this user whose process has ended, and returns their number. Never throws. */
export function removeAbandonedFolders(nowMs: number): number {
  let count = 0
  for (const parent of new Set([MEMORY_FOLDER, tmpdir()])) {
    for (const path of foldersIn(parent)) {
      try {
        if (!isAbandoned(path, nowMs)) continue
        removeThrowAwayFolder(path)
        count++
      } catch {
        // Another process removes it at the same time, or it cannot be examined. The next start tries again.
      }
    }
  }
  return count
}

function foldersIn(parent: string): readonly string[] {
  try {
    return readdirSync(parent)
      .filter((name) => NAME_PATTERN.test(name))
      .map((name) => join(parent, name))
  } catch {
    return []
  }
}

function isAbandoned(path: string, nowMs: number): boolean {
  const stat = lstatSync(path)
  if (!stat.isDirectory() || stat.uid !== process.getuid?.()) return false
  const [, maker = ''] = NAME_PATTERN.exec(basename(path)) ?? []
  const hasEnded = DataDir.hasProcessEnded(maker) ?? nowMs - stat.mtimeMs > STARTING_MS
  return hasEnded && DataDir.holder(path) === null
}

function hasMemoryFolder(): boolean {
  try {
    const { type, bavail, bsize } = statfsSync(MEMORY_FOLDER)
    return type === TMPFS && bavail * bsize >= MEMORY_ROOM_BYTES
  } catch {
    return false
  }
}
