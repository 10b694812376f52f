/**
 * The passwords of users. All machines of a cluster have the same passwords. No thread caches passwords: every login
 * reads the current one, and so does every request of a session that began with a password. Table `passwords`: user u32
 * -> `StoredPassword`, MessagePack with a checksum.
 */
import type { StoredPassword } from '../../rules/access/password.ts'
import { DamagedRecordError } from '../faults.ts'
import { numberKey } from '../lmdb/keys.ts'
import { getRecord, putRecord } from '../lmdb/records.ts'
import { demand } from './checks.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'

/** Reads and changes passwords. Each change is a durable transaction. */
export class PasswordStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  /** Returns the password of a user, or null if the user has none. A damaged record counts as no password. */
  find(userId: number): StoredPassword | null {
    try {
      // The cast is right: `set` wrote the record, and its checksum matches.
      const record = getRecord(this.#environment.table('passwords'), numberKey(userId))
      return (record as StoredPassword | undefined) ?? null
    } catch (cause) {
      if (cause instanceof DamagedRecordError) return null
      throw cause
    }
  }

  /**
   * Sets the hash of a user's password, or removes the password if `hash` is null. The new password's `setAtMs` is
   * always later than that of the password that it replaces, even if the clock has gone back. If `expectedAtMs` is
   * given, it is the `setAtMs` of the password that the caller has checked, or null if the user had none. Throws 400
   * `invalid_input` if the password has changed since that check.
   */
  set(userId: number, hash: string | null, expectedAtMs?: number | null): StoredPassword | null {
    return this.#environment.save(() => {
      const user = this.#environment.all('users').find(({ id }) => id === userId)
      demand(user?.isActive === true, 'not_found', `There is no user ${userId}.`)
      const before = this.find(userId)
      const isExpected = expectedAtMs === undefined || (before?.setAtMs ?? null) === expectedAtMs
      const detail = 'The password was changed in the meantime. Try again.'
      demand(isExpected, 'invalid_input', detail, 'current_password')
      const table = this.#environment.table('passwords')
      if (hash === null) {
        table.removeSync(numberKey(userId))
        return null
      }
      const setAtMs = Math.max(this.#environment.clock.now(), (before?.setAtMs ?? 0) + 1)
      const stored: StoredPassword = { userId, hash, setAtMs }
      putRecord(table, numberKey(userId), stored)
      return stored
    })
  }
}
