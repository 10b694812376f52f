/**
 * The data directory of `tenrec dev`: in memory where the machine has room for it, and removed with the process. One
 * that a killed process left is removed by the next start. Its name tells which process made it.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { DataDir } from '../../store/directory/data-dir.ts'

/** Where Linux has files in memory. */
const MEMORY_FOLDER = '/dev/shm'
/** The number of tmpfs. Source: statfs(2). */
const TMPFS = 0x01021994
/** Free bytes that make it worth using: containers often have 64 MiB, which a few tests would fill. */
const MEMORY_ROOM_BYTES = 512 * 1024 ** 2
const PREFIX = 'tenrec-dev-'
/** With the name of the process. */
const NAME_PATTERN = /^tenrec-dev-(\d+-\d{1,10}-\d{1,20})-\w{6}$/
/** A folder of another pid namespace may belong to a process that is about to lock it. */
const STARTING_MS = 60_000

/** Makes an empty folder that nobody else may look into, and answers its absolute path. */
export function makeThrowAwayFolder(): string {
  const parent = hasMemoryFolder() ? MEMORY_FOLDER : tmpdir()
  return mkdtempSync(join(parent, `${PREFIX}${DataDir.ownProcessName()}-`))
}

/** Removes a folder that `makeThrowAwayFolder` made. */
export function removeThrowAwayFolder(path: string): void {
  rmSync(path, { recursive: true, force: true, maxRetries: 3 })
}

/** Removes the folders of this user whose process is gone, and answers how many those were. Never throws. */
export function removeAbandonedFolders(nowMs: number): number {
  let count = 0
  for (const parent of new Set([MEMORY_FOLDER, tmpdir()])) {
    for (const path of foldersIn(parent)) {
      try {
        if (!isAbandoned(path, nowMs)) continue
        removeThrowAwayFolder(path)
        count++
      } catch {
        // Another process removes it at the same time, or it cannot be looked at: the next start tries again.
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
