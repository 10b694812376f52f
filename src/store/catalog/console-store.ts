/**
 * Console sessions and login codes. Only their hashes are stored. They do not raise a version, because every request
 * reads its session from the table. Both tables contain MessagePack with a checksum:
 *
 *   console_sessions   SHA-256 of the token -> `ConsoleSession`
 *   login_codes        SHA-256 of the code  -> `LoginCode`
 */
import { randomBytes } from 'node:crypto'
import {
  type ConsoleSession,
  type ConsoleSessionView,
  type SessionStart,
  sessionEndMs,
} from '../../rules/access/console-session.ts'
import { SESSION_SEEN_LATE_MS_MAX } from '../../rules/access/limits.ts'
import { DamagedRecordError } from '../faults.ts'
import { unpack } from '../lmdb/codec.ts'
import { entriesOf, getRecord, putRecord, removeRange } from '../lmdb/records.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { hashKey } from './key-store.ts'
import { LOGIN_CODE_MS_MAX, LOGIN_CODES_MAX, SESSIONS_OF_USER_MAX } from './limits.ts'

const CODE_BYTES = 18

/** A code that is not used yet. */
interface LoginCode {
  readonly userId: number
  readonly expiresAtMs: number
}

type Owner = Pick<ConsoleSession, 'userId' | 'keyHash'>

/** Reads and writes sessions and codes. Each change is a durable transaction. */
export class ConsoleStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  /**
   * Returns the stored session of a token, ended or not. Returns null for an unknown or damaged session. Costs one
   * lookup.
   */
  find(token: string): ConsoleSession | null {
    const table = this.#environment.table('console_sessions')
    const record = sound(
      () => getRecord(table, hashKey(token)),
      () => undefined,
    )
    return record === undefined ? null : decodeSession(record)
  }

  /**
   * Begins a session. Returns false if its code is unknown, used or expired, or if its user is inactive. Removes ended
   * sessions, and the least recently used session of a user with too many.
   */
  begin({ token, proof, atMs, address, userAgent }: SessionStart): boolean {
    return this.#environment.record(() => {
      const owner: Owner | null =
        'key' in proof
          ? { userId: proof.userId, keyHash: hashKey(proof.key) }
          : this.#redeem(proof.code, atMs)
      if (owner === null) return false
      this.#makeRoom(owner.userId, atMs)
      const session: ConsoleSession = {
        id: this.#environment.nextNumber('console_session'),
        ...owner,
        createdAtMs: atMs,
        lastSeenAtMs: atMs,
        address,
        userAgent,
      }
      putRecord(this.#environment.table('console_sessions'), hashKey(token), session)
      return true
    })
  }

  /** Records the use of a session, unless it was recorded recently. */
  seen(token: string, atMs: number): void {
    this.#environment.record(() => {
      const session = this.find(token)
      if (session === null || atMs - session.lastSeenAtMs < SESSION_SEEN_LATE_MS_MAX) return
      const table = this.#environment.table('console_sessions')
      putRecord(table, hashKey(token), { ...session, lastSeenAtMs: atMs })
    })
  }

  /** Ends a session. Does nothing if the session does not exist. */
  end(id: number): void {
    this.#environment.record(() => {
      const all = this.#orNone('console_sessions', () => this.#all())
      for (const { key, session } of all) if (session.id === id) this.#remove(key)
    })
  }

  /** Returns the open sessions of a user, newest first. The cost is linear in the number of all sessions. */
  list(userId: number, atMs: number): readonly ConsoleSessionView[] {
    const keys = this.#environment.all('personal_keys').filter((key) => key.revokedAtMs === null)
    return this.#all().flatMap(({ session: { keyHash, ...session } }): ConsoleSessionView[] => {
      const key = keyHash && keys.find(({ hash }) => hash.equals(keyHash))
      const isOpen = key !== undefined && sessionEndMs(session, key?.expiresAtMs ?? null) > atMs
      if (session.userId !== userId || !isOpen) return []
      if (key === null) return [{ ...session, key }]
      const { label, scopes, projectIds, expiresAtMs } = key
      return [{ ...session, key: { label, scopes, projectIds, expiresAtMs } }]
    })
  }

  /** Creates a code with which a user can log in once. Above the limit the oldest code becomes invalid. */
  createCode(userId: number): string {
    const code = randomBytes(CODE_BYTES).toString('base64url')
    this.#environment.record(() => {
      const atMs = this.#environment.clock.now()
      const table = this.#environment.table('login_codes')
      const codes = this.#orNone('login_codes', () =>
        [...entriesOf(table)].map(({ key, value }) => ({
          key: Buffer.from(key),
          ...(unpack(value) as LoginCode),
        })),
      ).sort((a, b) => a.expiresAtMs - b.expiresAtMs)
      const expired = codes.filter(({ expiresAtMs }) => expiresAtMs <= atMs).length
      const removed = Math.max(expired, codes.length - LOGIN_CODES_MAX + 1)
      for (const { key } of codes.slice(0, removed)) table.removeSync(key)
      putRecord(table, hashKey(code), { userId, expiresAtMs: atMs + LOGIN_CODE_MS_MAX })
    })
    return code
  }

  /** Redeems a code, which cannot be used again. */
  #redeem(code: string, atMs: number): Owner | null {
    const table = this.#environment.table('login_codes')
    // `createCode` wrote the record, and the checksum guarantees that it is unchanged.
    const known = getRecord(table, hashKey(code)) as LoginCode | undefined
    if (known === undefined) return null
    table.removeSync(hashKey(code))
    const user = this.#environment.all('users').find(({ id }) => id === known.userId)
    const isGood = known.expiresAtMs > atMs && user?.isActive === true
    return isGood ? { userId: known.userId, keyHash: null } : null
  }

  #makeRoom(userId: number, atMs: number): void {
    const own: { readonly key: Buffer; readonly session: ConsoleSession }[] = []
    for (const entry of this.#orNone('console_sessions', () => this.#all())) {
      if (sessionEndMs(entry.session, null) <= atMs) this.#remove(entry.key)
      else if (entry.session.userId === userId) own.push(entry)
    }
    own.sort((a, b) => a.session.lastSeenAtMs - b.session.lastSeenAtMs)
    const removed = Math.max(0, own.length - SESSIONS_OF_USER_MAX + 1)
    for (const { key } of own.slice(0, removed)) this.#remove(key)
  }

  /**
   * Returns the contents of a table. A damaged table is emptied, so that users must log in again. Call it only within a
   * write.
   */
  #orNone<T>(name: 'console_sessions' | 'login_codes', read: () => readonly T[]): T[] {
    return sound(
      () => [...read()],
      () => {
        removeRange(this.#environment.table(name), {})
        return []
      },
    )
  }

  #remove(key: Buffer): void {
    this.#environment.table('console_sessions').removeSync(key)
  }

  /** Returns all sessions, newest first, with their keys in the table. Throws `DamagedRecordError`. */
  #all() {
    return [...entriesOf(this.#environment.table('console_sessions'))]
      .map(({ key, value }) => ({ key: Buffer.from(key), session: decodeSession(unpack(value)) }))
      .sort((a, b) => b.session.id - a.session.id)
  }
}

/** Decodes a session. The store wrote it, and the checksum guarantees that it is unchanged. */
function decodeSession(record: unknown): ConsoleSession {
  const session = record as ConsoleSession
  return { ...session, keyHash: session.keyHash && Buffer.from(session.keyHash) }
}

/** Returns the result of `read`, or the result of `instead` if a record is damaged. */
function sound<T>(read: () => T, instead: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (cause instanceof DamagedRecordError) return instead()
    throw cause
  }
}
