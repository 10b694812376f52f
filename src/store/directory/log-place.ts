/** The folder of the log within a data directory: that it is there, still the same, and of this format. */
import { statSync } from 'node:fs'
import { OperatorError } from '../../base/errors.ts'
import { logFolder, logNumbers, logPath } from '../log/log-file.ts'

/** The files of the log of a data directory, absolute, oldest first. Throws `OperatorError`, exit code 1 or 78. */
export function requireLogFiles(dataDir: string): readonly string[] {
  const folder = logFolder(dataDir)
  let numbers: readonly number[]
  try {
    numbers = logNumbers(folder)
  } catch (error) {
    throw new OperatorError(`${folder} cannot be read: ${String(error)}`, { cause: error })
  }
  if (numbers.length > 0) return numbers.map((number) => logPath(folder, number))
  throw new OperatorError(
    `${folder} is missing or empty: restore the data directory from a backup`,
    {
      exitCode: 78,
    },
  )
}

/** Whether the log of a data directory has files. */
export function hasLogFiles(dataDir: string): boolean {
  return logNumbers(logFolder(dataDir)).length > 0
}

/** Bytes of all files of the log; 0 when there are none. */
export function logBytes(dataDir: string): number {
  const folder = logFolder(dataDir)
  const sizes = logNumbers(folder).map((number) =>
    Number(statSync(logPath(folder, number), { throwIfNoEntry: false })?.size ?? 0),
  )
  return sizes.reduce((sum, bytes) => sum + bytes, 0)
}

/** Knows the files of a log. */
export class LogPlace {
  readonly #dataDir: string
  /** Identity by number. */
  #files: ReadonlyMap<number, string>

  constructor(dataDir: string) {
    this.#dataDir = dataDir
    this.#files = identities(dataDir) ?? new Map()
  }

  /**
   * Whether the files are those of the last call, or became others as they do: old ones go, new ones come, and
   * one that is made beforehand, which is the newest of several, is replaced by a larger one before it is used.
   * Cost: a stat for each file.
   */
  isInPlace(): boolean {
    const files = identities(this.#dataDir)
    // Nobody can look now: a process without descriptors.
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
