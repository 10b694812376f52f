/**
 * Hashes and checks passwords with scrypt, on threads of Node that are neither the main thread nor a worker thread. A
 * hash needs 32 MiB of memory, so only a few are made at a time and the others wait for their turn.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { refusal } from '../../base/refusals.ts'
import {
  normalisedPassword,
  PASSWORD_COST,
  PASSWORD_HASH_BYTES,
  PASSWORD_SALT_BYTES,
  type PasswordHash,
  parsePasswordHash,
  passwordHashText,
} from '../../rules/access/password.ts'
import { PASSWORDS_HASHED_MAX, PASSWORDS_WAITING_MAX } from './limits.ts'

/** The memory that scrypt may use, as a multiple of what it needs. OpenSSL needs slightly more than the formula says. */
const MEMORY_FACTOR = 2

/** The passwords of one server. */
export class Passwords {
  readonly #waiting: (() => void)[] = []
  /** The owners of passwords that are being set. */
  readonly #setting = new Set<string>()
  #running = 0
  /** Stands for the password of users who have none, so that checking it takes as long as for others. */
  readonly #absent: PasswordHash = {
    ...PASSWORD_COST,
    salt: randomBytes(PASSWORD_SALT_BYTES),
    hash: randomBytes(PASSWORD_HASH_BYTES),
  }

  /**
   * Runs `action`, which sets a password, unless another one for the same `owner` runs. One user can therefore not fill
   * the queue in which all logins wait. Throws 429 `password_changing`.
   */
  async setting<T>(owner: string, action: () => Promise<T>): Promise<T> {
    if (this.#setting.has(owner)) throw refusal('password_changing')
    this.#setting.add(owner)
    try {
      return await action()
    } finally {
      this.#setting.delete(owner)
    }
  }

  /** Returns the text of a password's hash. Throws 503 `passwords_full`. */
  async hash(password: string): Promise<string> {
    const form = { ...PASSWORD_COST, salt: randomBytes(PASSWORD_SALT_BYTES) }
    return passwordHashText({ ...form, hash: await this.#derive(password, form) })
  }

  /**
   * Returns whether a password has this hash. The time is the same for a user without a password, for whom `stored` is
   * null. Throws 503 `passwords_full`.
   */
  async isRight(password: string, stored: string | null): Promise<boolean> {
    const known = stored === null ? null : parsePasswordHash(stored)
    const expected = known ?? this.#absent
    const found = await this.#derive(password, expected)
    return timingSafeEqual(found, expected.hash) && known !== null
  }

  async #derive(password: string, form: Omit<PasswordHash, 'hash'>): Promise<Buffer> {
    await this.#turn()
    try {
      return await derive(normalisedPassword(password), form)
    } finally {
      const next = this.#waiting.shift()
      // The next one takes over this turn, so that no other call can come in between.
      if (next === undefined) this.#running--
      else next()
    }
  }

  /** Waits until one more hash may be made, and counts it. */
  async #turn(): Promise<void> {
    if (this.#running < PASSWORDS_HASHED_MAX) {
      this.#running++
      return
    }
    if (this.#waiting.length >= PASSWORDS_WAITING_MAX) throw refusal('passwords_full')
    await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}

function derive(
  password: string,
  { costExponent, blockSize, parallelism, salt }: Omit<PasswordHash, 'hash'>,
): Promise<Buffer> {
  const N = 2 ** costExponent
  const maxmem = MEMORY_FACTOR * 128 * N * blockSize
  const options = { N, r: blockSize, p: parallelism, maxmem }
  return new Promise((resolve, reject) => {
    scrypt(password, salt, PASSWORD_HASH_BYTES, options, (error, key) => {
      if (error === null) resolve(key)
      else reject(error)
    })
  })
}
