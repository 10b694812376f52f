/**
 * The temporary data directory of `tenrec dev`. It is in memory if enough memory is free, and is removed when the
 * process ends. The next start removes a directory that a killed process left behind. The name of the directory
 * contains a text that identifies the process.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { DataDir } from '../../store/directory/data-dir.ts'

/** The directory of Linux whose files are only in memory. */
const MEMORY_FOLDER = '/dev/shm'
/** The type number of the file system tmpfs. Source: statfs(2). */
const TMPFS = 0x01021994
/**
 * A directory in memory must have this number of free bytes. Containers often have 64 MiB, which a few tests would
 * fill.
 */
const MEMORY_ROOM_BYTES = 512 * 1024 ** 2
const PREFIX = 'tenrec-dev-'
/** Matches the name of such a directory. Group 1 of the match identifies the process that created the directory. */
const NAME_PATTERN = /^tenrec-dev-(\d+-\d{1,10}-\d{1,20})-\w{6}$/
/**
 * A directory whose process is in another PID namespace must be at least this old to be removed, in milliseconds. If it
 * is younger, its process may be about to lock it.
 */
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
        // Another process may be removing the directory now, or it cannot be examined. The next start tries again.
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
