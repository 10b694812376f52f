/** Sessions of the console: what is kept of one, what it opens and when it ends. The store keeps them. */
import { SESSION_AGE_MS_MAX, SESSION_IDLE_MS_MAX } from './limits.ts'
import type { PersonalKey, PersonalKeyGrant } from './organization.ts'

/** A session as it is kept: not its token, by the hash of which it is found. */
export interface ConsoleSession {
  readonly id: number
  readonly userId: number
  /** SHA-256 of the personal key with which it was begun; null for a login link, which gives all rights. */
  readonly keyHash: Buffer | null
  readonly createdAtMs: number
  /** Of the last request that somebody made; up to `SESSION_SEEN_LATE_MS_MAX` late. */
  readonly lastSeenAtMs: number
  /** Of the client that began it. */
  readonly address: string
  readonly userAgent: string
}

/** What begins a session. */
export interface SessionStart {
  /** The session's own, random. */
  readonly token: string
  /** A personal key that was looked at, and whose it is; or the code of a login link. */
  readonly proof: { readonly key: string; readonly userId: number } | { readonly code: string }
  readonly atMs: number
  readonly address: string
  readonly userAgent: string
}

/** A session as its user sees it. */
export interface ConsoleSessionView extends Omit<ConsoleSession, 'keyHash'> {
  /** The personal key; null for a login link. */
  readonly key: Pick<PersonalKey, 'label' | 'scopes' | 'projectIds' | 'expiresAtMs'> | null
}

/** What a session opens: what its key does, or all that its user may do. */
export interface SessionGrant extends Omit<PersonalKeyGrant, 'keyId'> {
  /** Absent for a login link. */
  readonly keyId?: number
  readonly session: Pick<ConsoleSession, 'id' | 'createdAtMs' | 'lastSeenAtMs'>
}

/** When a session ends if nobody uses it any more; `keyExpiresAtMs` null: its key never does. */
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
