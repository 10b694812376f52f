/**
 * Console sessions and login codes. Only their hashes are stored. A change of these tables does not raise the version
 * number of the environment, because no thread caches them: every request reads its session from the table. Both tables
 * contain MessagePack with a checksum:
 *
 *   console_sessions   SHA-256 of the token -> `ConsoleSession`
 *   login_codes        SHA-256 of the code  -> `LoginCode`
 */
import { randomBytes } from 'node:crypto'
import {
  type ConsoleSession,
  type ConsoleSessionView,
  type SessionProof,
  type SessionStart,
  sessionEndMs,
  sessionProof,
} from '../../rules/access/console-session.ts'
import { SESSION_SEEN_LATE_MS_MAX } from '../../rules/access/limits.ts'
import { DamagedRecordError } from '../faults.ts'
import { unpack } from '../lmdb/codec.ts'
import { entriesOf, getRecord, putRecord, removeRange } from '../lmdb/records.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { hashKey } from './key-store.ts'
import { LOGIN_CODE_MS_MAX, LOGIN_CODES_MAX, SESSIONS_OF_USER_MAX } from './limits.ts'
import { identityByHash, identityHash } from './linked-accounts.ts'
import type { PasswordStore } from './password-store.ts'

const CODE_BYTES = 18

/** A login code that was not used yet. */
interface LoginCode {
  readonly userId: number
  readonly expiresAtMs: number
}

type Owner = Pick<ConsoleSession, 'userId' | 'keyHash' | 'passwordSetAtMs' | 'identity'>

/**
 * The members of a session that say how the user logged in. After a login with a login link, all of them are null.
 * After any other login, exactly one of them is not null.
 */
const NO_PROOF = { keyHash: null, passwordSetAtMs: null, identity: null }

/** Reads and writes sessions and codes. Each change is a durable transaction. */
export class ConsoleStore {
  readonly #environment: DirectoryEnvironment
  readonly #passwords: PasswordStore

  constructor(environment: DirectoryEnvironment, passwords: PasswordStore) {
    this.#environment = environment
    this.#passwords = passwords
  }

  /**
   * Returns the stored session of a token, also if it has ended. Returns null if the session is unknown or damaged.
   * Costs one lookup.
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
   * Begins a session. Returns false if the login code is unknown, used or expired, if the password was changed or the
   * account was unlinked since it was checked, or if the user is inactive. Also removes ended sessions. If the user has
   * too many sessions, removes the session that was not used for the longest time.
   */
  begin({ token, proof, atMs, address, userAgent }: SessionStart): boolean {
    return this.#environment.record(() => {
      const owner = this.#ownerOf(proof, atMs)
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

  /**
   * Returns whether the account at an identity provider with which the user logged in is still linked to the user.
   * Costs one lookup.
   */
  isLinked({ userId, identity }: Pick<ConsoleSession, 'userId' | 'identity'>): boolean {
    const known = identity && identityByHash(this.#environment, identity.hash)
    return known?.userId === userId && known.linkedAtMs === identity?.linkedAtMs
  }

  /** Records that a session was used, unless this was recorded recently. */
  recordUse(token: string, atMs: number): void {
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

  /** Returns the open sessions of a user, newest first. Reads all sessions of all users. */
  list(userId: number, atMs: number): readonly ConsoleSessionView[] {
    const keys = this.#environment.all('personal_keys').filter((key) => key.revokedAtMs === null)
    const passwordSetAtMs = this.#passwords.find(userId)?.setAtMs
    const own = this.#all().filter(({ session }) => session.userId === userId)
    return own.flatMap(({ session: stored }): ConsoleSessionView[] => {
      const { keyHash, passwordSetAtMs: startedAtMs, identity, ...session } = stored
      const key = keyHash && keys.find(({ hash }) => hash.equals(keyHash))
      const isOfPassword = startedAtMs === null || startedAtMs === passwordSetAtMs
      const isCurrent = isOfPassword && (identity === null || this.isLinked(stored))
      const endMs = sessionEndMs(session, key?.expiresAtMs ?? null)
      if (key === undefined || !isCurrent || endMs <= atMs) return []
      const startedWith = sessionProof(stored)
      if (key === null) return [{ ...session, startedWith, key }]
      const { label, scopes, projectIds, expiresAtMs } = key
      return [{ ...session, startedWith, key: { label, scopes, projectIds, expiresAtMs } }]
    })
  }

  /**
   * Creates a code with which a user can log in once. If there are too many unused codes, the oldest one becomes
   * invalid.
   */
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

  /**
   * Checks the proof of a login. Returns the members of a session that name the user and the proof. Returns null if the
   * proof is not valid any more.
   */
  #ownerOf(proof: SessionProof, atMs: number): Owner | null {
    if ('code' in proof) return this.#redeem(proof.code, atMs)
    if ('subject' in proof) return this.#ownerOfAccount(proof)
    const { userId } = proof
    if ('key' in proof) return { ...NO_PROOF, userId, keyHash: hashKey(proof.key) }
    const { passwordSetAtMs } = proof
    const isCurrent = this.#passwords.find(userId)?.setAtMs === passwordSetAtMs
    const isGood = isCurrent && this.#isActive(userId)
    return isGood ? { ...NO_PROOF, userId, passwordSetAtMs } : null
  }

  #ownerOfAccount(account: Parameters<typeof identityHash>[0]): Owner | null {
    const hash = identityHash(account)
    const known = identityByHash(this.#environment, hash)
    if (known === null || !this.#isActive(known.userId)) return null
    const { userId, linkedAtMs } = known
    return { ...NO_PROOF, userId, identity: { hash, linkedAtMs } }
  }

  #isActive(userId: number): boolean {
    return this.#environment.all('users').some(({ id, isActive }) => id === userId && isActive)
  }

  /** Redeems a login code and deletes it. Returns its owner, or null if the code is unknown or expired. */
  #redeem(code: string, atMs: number): Owner | null {
    const table = this.#environment.table('login_codes')
    // The cast is right: `createCode` wrote the record, and its checksum matches.
    const known = getRecord(table, hashKey(code)) as LoginCode | undefined
    if (known === undefined) return null
    table.removeSync(hashKey(code))
    const { userId } = known
    const isGood = known.expiresAtMs > atMs && this.#isActive(userId)
    return isGood ? { ...NO_PROOF, userId } : null
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
   * Returns the contents of a table. If a record is damaged, the table is emptied, and users must log in again. Call it
   * only within a write.
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

  /** Returns all sessions, newest first, each with its key in the table. Throws `DamagedRecordError`. */
  #all() {
    return [...entriesOf(this.#environment.table('console_sessions'))]
      .map(({ key, value }) => ({ key: Buffer.from(key), session: decodeSession(unpack(value)) }))
      .sort((a, b) => b.session.id - a.session.id)
  }
}

/** Decodes a session. The cast is right: the store wrote the record, and its checksum matches. */
function decodeSession(record: unknown): ConsoleSession {
  const session = record as ConsoleSession
  // Sessions from versions without passwords lack `passwordSetAtMs`. Sessions from versions without linked accounts
  // lack `identity`.
  const { keyHash, passwordSetAtMs = null, identity = null } = session
  return {
    ...session,
    keyHash: keyHash && Buffer.from(keyHash),
    passwordSetAtMs,
    identity: identity && { ...identity, hash: Buffer.from(identity.hash) },
  }
}

/** Returns the result of `read` or, if `read` throws `DamagedRecordError`, the result of `instead`. */
function sound<T>(read: () => T, instead: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (cause instanceof DamagedRecordError) return instead()
    throw cause
  }
}
