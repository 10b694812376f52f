/** Sessions of the console: their stored form, their rights and their end. The store keeps them. */
import { SESSION_AGE_MS_MAX, SESSION_IDLE_MS_MAX } from './limits.ts'
import type { PersonalKey, PersonalKeyGrant } from './organization.ts'

/** A session as it is stored. The token is not stored; the session is found by the hash of the token. */
export interface ConsoleSession {
  readonly id: number
  readonly userId: number
  /**
   * The SHA-256 of the personal key with which the session was started. Null for a login link, a password or an account
   * at the identity provider, which grant all rights of the user.
   */
  readonly keyHash: Buffer | null
  /**
   * The time at which the password of this login was set. Null for a session that was started without a password. If
   * the user's password was set at another time, the session has ended.
   */
  readonly passwordSetAtMs: number | null
  /**
   * The account at the identity provider with which the session was started. Null for a session that was started
   * without such an account. When the account is no longer linked to the user, the session has ended.
   */
  readonly identity: SessionIdentity | null
  readonly createdAtMs: number
  /** The time of the last request of the user. It may be up to `SESSION_SEEN_LATE_MS_MAX` out of date. */
  readonly lastSeenAtMs: number
  /** The IP address of the client that started the session. `userAgent` is the user agent of this client. */
  readonly address: string
  readonly userAgent: string
}

/** A link between an account at the identity provider and a user. */
export interface SessionIdentity {
  /** The key under which the link is stored. */
  readonly hash: Buffer
  /**
   * The time at which the account was linked. If the account is unlinked and linked again, the time differs, so
   * sessions that began before stay ended.
   */
  readonly linkedAtMs: number
}

/**
 * The proof with which a client starts a session. The caller has already checked a personal key, a password or an
 * account at the identity provider. The store checks the code of a login link.
 */
export type SessionProof =
  | { readonly key: string; readonly userId: number }
  | { readonly passwordSetAtMs: number; readonly userId: number }
  | { readonly issuer: string; readonly subject: string }
  | { readonly code: string }

/** The ways to start a session. */
export const SESSION_PROOFS = ['key', 'password', 'link', 'oidc'] as const
/** One of `SESSION_PROOFS`. */
export type SessionProofKind = (typeof SESSION_PROOFS)[number]

/** The data that starts a session. */
export interface SessionStart {
  /** The random token of the session. */
  readonly token: string
  readonly proof: SessionProof
  readonly atMs: number
  readonly address: string
  readonly userAgent: string
}

/** A session as its user sees it. */
export interface ConsoleSessionView
  extends Omit<ConsoleSession, 'keyHash' | 'passwordSetAtMs' | 'identity'> {
  readonly startedWith: SessionProofKind
  /** The personal key that started the session. Null if the session was started in another way. */
  readonly key: Pick<PersonalKey, 'label' | 'scopes' | 'projectIds' | 'expiresAtMs'> | null
}

/** The rights of a session: the rights of its key or, without a key, all rights of its user. */
export interface SessionGrant extends Omit<PersonalKeyGrant, 'keyId'> {
  /** The number of the personal key that started the session. Absent if the session was started in another way. */
  readonly keyId?: number
  readonly session: Pick<ConsoleSession, 'id' | 'createdAtMs' | 'lastSeenAtMs'> & {
    readonly startedWith: SessionProofKind
  }
}

/** Returns how a session was started. */
export function sessionProof({
  keyHash,
  passwordSetAtMs,
  identity,
}: Pick<ConsoleSession, 'keyHash' | 'passwordSetAtMs' | 'identity'>): SessionProofKind {
  if (keyHash !== null) return 'key'
  if (identity !== null) return 'oidc'
  return passwordSetAtMs === null ? 'link' : 'password'
}

/**
 * Why a session has ended: it was not used (`idle`), it reached its age limit (`old`), its personal key is not valid
 * any more (`key`), its password was changed or removed (`password`), its account at the identity provider was unlinked
 * (`identity`), its user is not active (`user`), or it is not stored any more (`removed`).
 */
export type SessionEnd = 'idle' | 'old' | 'key' | 'password' | 'identity' | 'user' | 'removed'

/**
 * Returns the time at which a session ends if it is not used any more. `keyExpiresAtMs` is null if its key never
 * expires.
 */
export function sessionEndMs(
  { createdAtMs, lastSeenAtMs }: Pick<ConsoleSession, 'createdAtMs' | 'lastSeenAtMs'>,
  keyExpiresAtMs: number | null,
): number {
  return Math.min(
    createdAtMs + SESSION_AGE_MS_MAX,
    lastSeenAtMs + SESSION_IDLE_MS_MAX,
    keyExpiresAtMs ?? Number.POSITIVE_INFINITY,
  )
}
