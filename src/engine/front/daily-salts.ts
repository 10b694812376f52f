/**
 * The daily salts with which the IDs of visitors without cookies are hashed. A salt consists of 32 random bytes. The
 * salt of each day is a file in the folder `cookieless` that only its owner can read. The file is on disk before its
 * salt is used, so that a crash does not change any ID. The file is removed when no more events of its day are
 * accepted. Salts are in files because LMDB would keep removed values in free pages, and because backups must not
 * contain salts.
 */
import { randomBytes } from 'node:crypto'
import {
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { flush } from '../../base/durable-file.ts'
import { isDayOpen } from '../../rules/capture/cookieless.ts'

const FOLDER = 'cookieless'
const SALT_BYTES = 32
const DAY = /^\d{4}-\d\d-\d\d$/
const FORGET_EVERY_MS = 600_000

/**
 * The salts of a data directory. Each thread may have an instance of its own. The first thread that needs the salt of a
 * day creates it for all of them.
 */
export class DailySalts {
  readonly #folder: string
  readonly #keptMs: number
  readonly #known = new Map<string, Uint8Array>()
  #forgetAtMs = 0

  /**
   * `keptMs` is the time in milliseconds for which a salt is still kept after the last moment at which events of its
   * day are accepted.
   */
  constructor(dataDir: string, keptMs = 0) {
    this.#keptMs = keptMs
    this.#folder = join(dataDir, FOLDER)
  }

  /**
   * Returns the salt of a day such as `2026-11-22`. Creates the salt if there is none. The first call for a day reads
   * or writes a file and waits for the disk. Throws the errors of the file system.
   */
  saltOf(day: string): Uint8Array {
    const known = this.#known.get(day)
    if (known !== undefined) return known
    if (!DAY.test(day)) throw new RangeError(`${JSON.stringify(day)} is no day`)
    const salt = this.#read(day) ?? this.#make(day)
    const dayMs = Date.parse(`${day}T00:00:00Z`)
    for (const other of this.#known.keys()) if (!isDayOpen(other, dayMs)) this.#known.delete(other)
    this.#known.set(day, salt)
    return salt
  }

  /** Returns the salt of a day. Unlike `saltOf`, it does not create a missing salt, but returns null. */
  find(day: string): Uint8Array | null {
    return this.#known.get(day) ?? this.#read(day)
  }

  /**
   * Stores the salt that another machine has created for a day, unless this machine already has a salt for the day.
   * Throws the errors of the file system.
   */
  adopt(day: string, salt: Uint8Array): void {
    if (!DAY.test(day)) throw new RangeError(`${JSON.stringify(day)} is no day`)
    if (this.#read(day) === null) this.#make(day, salt)
  }

  /** Removes the salts of past days, at most every ten minutes. A removed salt cannot be recreated. */
  forget(nowMs: number): void {
    if (nowMs < this.#forgetAtMs && nowMs > this.#forgetAtMs - FORGET_EVERY_MS) return
    this.#forgetAtMs = nowMs + FORGET_EVERY_MS
    const throughMs = nowMs - this.#keptMs
    for (const day of this.#known.keys()) if (!isDayOpen(day, throughMs)) this.#known.delete(day)
    for (const name of this.#names()) {
      const day = name.slice(0, 'yyyy-mm-dd'.length)
      if (DAY.test(day) && isPast(day, throughMs)) rmSync(join(this.#folder, name), { force: true })
    }
  }

  #names(): readonly string[] {
    try {
      return readdirSync(this.#folder)
    } catch {
      return []
    }
  }

  #read(day: string): Uint8Array | null {
    try {
      const bytes = Buffer.from(readFileSync(join(this.#folder, day), 'latin1'), 'hex')
      return bytes.length === SALT_BYTES ? bytes : null
    } catch {
      return null
    }
  }

  #make(day: string, made: Uint8Array = randomBytes(SALT_BYTES)): Uint8Array {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    const path = join(this.#folder, day)
    const draft = join(this.#folder, `${day}.${randomBytes(6).toString('hex')}`)
    writeFileSync(draft, Buffer.from(made).toString('hex'), { mode: 0o600, flag: 'wx' })
    flush(draft)
    const salt = this.#publish(draft, path, day) ?? made
    flush(this.#folder)
    return salt
  }

  /**
   * Gives a complete file its final name. If another thread has created the salt of the day first, returns that salt.
   * Otherwise returns null.
   */
  #publish(draft: string, path: string, day: string): Uint8Array | null {
    try {
      linkSync(draft, path)
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
      const other = this.#read(day)
      // The file contains no valid salt, so it is replaced.
      if (other === null) renameSync(draft, path)
      return other
    } finally {
      rmSync(draft, { force: true })
    }
    return null
  }
}

/**
 * Returns whether events of a day were accepted earlier, but are no longer accepted. False for a day in the future: if
 * the clock was wrong, the salt of that day may still be needed.
 */
function isPast(day: string, nowMs: number): boolean {
  return !isDayOpen(day, nowMs) && Date.parse(`${day}T00:00:00Z`) < nowMs
}
