/**
 * Hashes and checks passwords with scrypt. Node runs scrypt on threads of its own, so neither the main thread nor a
 * worker thread is blocked. A hash needs 32 MiB of memory. Therefore only a few are computed at a time, and the others
 * wait for their turn.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { refusal } from '../../base/refusals.ts'
import {
  normalizedPassword,
  PASSWORD_COST,
  PASSWORD_HASH_BYTES,
  PASSWORD_SALT_BYTES,
  type PasswordHash,
  parsePasswordHash,
  passwordHashText,
} from '../../rules/access/password.ts'
import { PASSWORDS_HASHED_MAX, PASSWORDS_WAITING_MAX } from './limits.ts'

/**
 * The memory limit of scrypt, as a multiple of the memory that it needs by the formula. OpenSSL needs slightly more
 * than the formula says.
 */
const MEMORY_FACTOR = 2

/** Hashes and checks the passwords of one server. */
export class Passwords {
  readonly #waiting: (() => void)[] = []
  /** The owners whose passwords are being set at the moment. */
  readonly #setting = new Set<string>()
  #running = 0
  /**
   * Stands for the password of a user who has none. Checking it takes as long as checking a real password, so the time
   * does not tell which users have one.
   */
  readonly #absent: PasswordHash = {
    ...PASSWORD_COST,
    salt: randomBytes(PASSWORD_SALT_BYTES),
    hash: randomBytes(PASSWORD_HASH_BYTES),
  }

  /**
   * Runs `action`, which sets a password, unless an action for the same `owner` is running. One user can therefore not
   * fill the queue in which all logins wait. Throws 429 `password_changing`.
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

  /** Hashes a password and returns the hash in the form in which it is stored. Throws 503 `passwords_full`. */
  async hash(password: string): Promise<string> {
    const form = { ...PASSWORD_COST, salt: randomBytes(PASSWORD_SALT_BYTES) }
    return passwordHashText({ ...form, hash: await this.#derive(password, form) })
  }

  /**
   * Returns true if the hash of a password is `stored`. If `stored` is null because the user has no password, the check
   * takes the same time and returns false. Throws 503 `passwords_full`.
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
      return await derive(normalizedPassword(password), form)
    } finally {
      const next = this.#waiting.shift()
      // The next waiting call takes over the turn of this one. If the turn were released first, another call could take
      // it in between.
      if (next === undefined) this.#running--
      else next()
    }
  }

  /** Waits until one more hash may be computed, and takes the turn. */
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
