/**
 * The sessions of the console, on the main thread: starts sessions, finds them by their token, and records their use.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import type { OrganizationPort } from '../../engine/threads/organization-tasks.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import type {
  SessionEnd,
  SessionGrant,
  SessionProof,
  SessionStart,
} from '../../rules/access/console-session.ts'
import {
  SESSION_AGE_MS_MAX,
  SESSION_IDLE_MS_MAX,
  SESSION_SEEN_LATE_MS_MAX,
} from '../../rules/access/limits.ts'
import type { User } from '../../rules/access/organization.ts'
import type { StoredPassword } from '../../rules/access/password.ts'
import type { RateLimits } from '../server/rate-limits.ts'
import type { OidcLogins } from './oidc-logins.ts'
import { Passwords } from './passwords.ts'

const TOKEN_BYTES = 32
const HOUR_MS = 3_600_000

/** The reason why a session has ended, as the end of the sentence "Your session has ended, because ...". */
const ENDS: Readonly<Record<SessionEnd, string>> = {
  idle: `it was not used for ${SESSION_IDLE_MS_MAX / HOUR_MS} hours`,
  old: `you logged in more than ${SESSION_AGE_MS_MAX / HOUR_MS / 24} days ago`,
  key: 'its personal key was revoked or replaced, or has expired',
  password: 'the password of its user was changed or removed',
  identity: 'its account at the identity provider was unlinked',
  user: 'its user was deactivated',
  removed: 'you logged out, or it was ended on the page Access',
}

/** The services that sessions need. */
export interface ConsoleSessionsOptions {
  readonly directory: {
    consoleSession(token: string): SessionGrant | null
    userByEmail(email: string): User | null
    passwordOf(userId: number): StoredPassword | null
    sessionEnd(token: string): SessionEnd
  }
  readonly queries: OrganizationPort
  readonly clock: Clock
  /** Logs an error if the use of a session could not be recorded. A `Logger` can be passed. */
  readonly log: { error(fields: object, message: string): void }
  readonly limits: Pick<RateLimits, 'attempt'>
  /** The logins with OpenID Connect. Null if no provider is configured. */
  readonly oidc?: OidcLogins | null
}

/** The client that starts a session. */
type SessionOrigin = Pick<SessionStart, 'address' | 'userAgent'>

/** The console sessions of a daemon. */
export class ConsoleSessions {
  /** Hashes the passwords of users. */
  readonly passwords = new Passwords()
  /** The logins with OpenID Connect. Null if no provider is configured. */
  readonly oidc: OidcLogins | null
  readonly #options: ConsoleSessionsOptions
  /** The numbers of the sessions whose use is being recorded at the moment. */
  readonly #noting = new Set<number>()

  constructor(options: ConsoleSessionsOptions) {
    this.#options = options
    this.oidc = options.oidc ?? null
  }

  /**
   * Returns the rights of the session with a token, or null if the token is unknown or the session has ended. If
   * `isUse`, the use of the session is recorded from time to time.
   */
  open(token: string, isUse: boolean): SessionGrant | null {
    const { directory, clock } = this.#options
    const grant = directory.consoleSession(token)
    if (grant === null) return null
    const { id, lastSeenAtMs } = grant.session
    const isDue = isUse && clock.now() - lastSeenAtMs >= SESSION_SEEN_LATE_MS_MAX
    if (isDue && !this.#noting.has(id)) void this.#note(id, token)
    return grant
  }

  /** Returns a sentence that says why the session with a token has ended. */
  endOf(token: string): string {
    const reason = ENDS[this.#options.directory.sessionEnd(token)]
    return `Your session has ended, because ${reason}. Log in again.`
  }

  /**
   * Starts a session with a key, a login link or another proof, and returns its token. Returns null if the proof is
   * invalid, for example a key without an owner. Throws the errors of `RateLimits.attempt`.
   */
  async begin(proof: SessionProof | null, from: SessionOrigin): Promise<string | null> {
    return this.#options.limits.attempt(from.address, () => this.#start(proof, from))
  }

  /**
   * Starts a session with a password and returns its token. Returns null if there is no such user or if the password is
   * wrong. Both cases take the same time, so that the time does not tell which users exist. Throws 503
   * `passwords_full`, and the errors of `RateLimits.attempt`.
   */
  async beginWithPassword(
    { email, password }: { readonly email: string; readonly password: string },
    from: SessionOrigin,
  ): Promise<string | null> {
    const account = email.trim().toLowerCase()
    const open = async () => this.#start(await this.#proofOf(account, password), from)
    return this.#options.limits.attempt(from.address, open, account)
  }

  /**
   * Finishes a login with OpenID Connect: starts a session, and returns its token and the page to show. If the account
   * is linked to a user by this login, `audit` is the entry for the audit log. Returns null if this browser has not
   * begun the login. Throws the errors of `OidcLogins.finish`, of the store, and of `RateLimits.attempt`.
   */
  async beginWithAccount(
    { browser, callback }: { readonly browser: string | null; readonly callback: string },
    from: SessionOrigin,
    audit: AuditEntry,
  ): Promise<{ readonly token: string; readonly returnTo: string } | null> {
    const { oidc } = this
    if (oidc === null) return null
    return this.#options.limits.attempt(from.address, async () => {
      const finished = await oidc.finish(browser, callback)
      if (finished === null) return null
      const { account, returnTo } = finished
      const { isViewerMade } = oidc
      const login = { account, isViewerMade, audit }
      const { issuer, subject } = await this.#options.queries.organization('enterIdentity', login)
      const token = await this.#start({ issuer, subject }, from)
      return token === null ? null : { token, returnTo }
    })
  }

  /**
   * Returns true if this is the current password of the user. Throws 503 `passwords_full`, and the errors of
   * `RateLimits.attempt`.
   */
  async isPasswordOf(
    user: Pick<User, 'email'>,
    password: string,
    address: string,
  ): Promise<boolean> {
    const open = () => this.#proofOf(user.email, password)
    // A wrong password is not counted as a failed login of this user, but under another name. Otherwise strangers who
    // fail to log in with the e-mail address could keep its user from changing the password. The name contains a space,
    // so it is never the e-mail address of another user.
    const account = `password of ${user.email.toLowerCase()}`
    return (await this.#options.limits.attempt(address, open, account)) !== null
  }

  async #proofOf(email: string, password: string): Promise<SessionProof | null> {
    const { directory } = this.#options
    const user = directory.userByEmail(email)
    const stored = user === null ? null : directory.passwordOf(user.id)
    const isRight = await this.passwords.isRight(password, stored?.hash ?? null)
    return isRight && stored !== null
      ? { userId: stored.userId, passwordSetAtMs: stored.setAtMs }
      : null
  }

  async #start(proof: SessionProof | null, from: SessionOrigin): Promise<string | null> {
    if (proof === null) return null
    const { queries, clock } = this.#options
    const token = randomBytes(TOKEN_BYTES).toString('base64url')
    const start = { token, proof, atMs: clock.now(), ...from }
    return (await queries.organization('beginSession', start)) ? token : null
  }

  async #note(id: number, token: string): Promise<void> {
    const { queries, clock, log } = this.#options
    this.#noting.add(id)
    try {
      await queries.organization('sawSession', { token, atMs: clock.now() })
    } catch (err) {
      log.error({ err, session: id }, 'Could not record the use of a session.')
    } finally {
      this.#noting.delete(id)
    }
  }
}
