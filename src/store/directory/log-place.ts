/** Checks the folder of the log in a data directory: that it has log files, and that they were not replaced. */
import { statSync } from 'node:fs'
import { OperatorError } from '../../base/errors.ts'
import { logFolder, logNumbers, logPath } from '../log/log-file.ts'

/**
 * Returns the absolute paths of the log files of a data directory, oldest first. Throws `OperatorError` with exit code
 * 1 or 78.
 */
export function requireLogFiles(dataDir: string): readonly string[] {
  const folder = logFolder(dataDir)
  let numbers: readonly number[]
  try {
    numbers = logNumbers(folder)
  } catch (error) {
    throw new OperatorError(`Cannot read ${folder}: ${String(error)}.`, { cause: error })
  }
  if (numbers.length > 0) return numbers.map((number) => logPath(folder, number))
  throw new OperatorError(
    `${folder} is missing or empty. Restore the data directory from a backup.`,
    {
      exitCode: 78,
    },
  )
}

/** Returns whether the log of a data directory has files. */
export function hasLogFiles(dataDir: string): boolean {
  return logNumbers(logFolder(dataDir)).length > 0
}

/** Returns the total size in bytes of all log files, or 0 if there are none. */
export function logBytes(dataDir: string): number {
  const folder = logFolder(dataDir)
  const sizes = logNumbers(folder).map((number) =>
    Number(statSync(logPath(folder, number), { throwIfNoEntry: false })?.size ?? 0),
  )
  return sizes.reduce((sum, bytes) => sum + bytes, 0)
}

/** Finds out whether the files of a log were replaced while the log is in use. */
export class LogPlace {
  readonly #dataDir: string
  /** The device and inode number of each file, by the number in the file's name. */
  #files: ReadonlyMap<number, string>

  constructor(dataDir: string) {
    this.#dataDir = dataDir
    this.#files = identities(dataDir) ?? new Map()
  }

  /**
   * Returns whether the files are the same as at the last call, apart from the changes that the log makes itself. The
   * log removes old files and adds new ones. If there are several files, the newest one is prepared for later, and may
   * be replaced by a larger one before it is used. The cost is one call of stat for each file.
   */
  isInPlace(): boolean {
    const files = identities(this.#dataDir)
    // The files cannot be checked at the moment, for example because the process has no free file descriptors. Nothing
    // shows that they were replaced.
    if (files === null) return true
    if (files.size === 0) return false
    const newest = Math.max(...files.keys())
    const before = [...this.#files.keys()]
    const unused = before.length > 1 ? before.at(-1) : undefined
    const isAsExpected = before.every((number) => {
      if (number === unused || (number < newest && !files.has(number))) return true
      return files.get(number) === this.#files.get(number)
    })
    if (isAsExpected) this.#files = files
    return isAsExpected
  }
}

function identities(dataDir: string): ReadonlyMap<number, string> | null {
  const folder = logFolder(dataDir)
  const found = new Map<number, string>()
  try {
    for (const number of logNumbers(folder)) {
      const stat = statSync(logPath(folder, number), { throwIfNoEntry: false, bigint: true })
      if (stat !== undefined) found.set(number, `${stat.dev}.${stat.ino}`)
    }
  } catch {
    return null
  }
  return found
}
