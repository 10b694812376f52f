/** Sessions of the console as the front knows them: opened by their token, begun, noted as used. */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import type { OrganizationPort } from '../../engine/threads/organization-tasks.ts'
import type { SessionGrant, SessionStart } from '../../rules/access/console-session.ts'
import { SESSION_SEEN_LATE_MS_MAX } from '../../rules/access/limits.ts'
import type { RateLimits } from '../server/rate-limits.ts'

const TOKEN_BYTES = 32

/** What they work with. */
export interface ConsoleSessionsOptions {
  readonly directory: { consoleSession(token: string): SessionGrant | null }
  readonly queries: OrganizationPort
  readonly clock: Clock
  /** Receives what could not be noted; a `Logger` will do. */
  readonly log: { error(fields: object, message: string): void }
  readonly limits: Pick<RateLimits, 'attempt'>
}

/** The sessions of a daemon. */
export class ConsoleSessions {
  readonly #options: ConsoleSessionsOptions
  /** Sessions whose use is being noted. */
  readonly #noting = new Set<number>()

  constructor(options: ConsoleSessionsOptions) {
    this.#options = options
  }

  /** What a session opens; null for one that is unknown or has ended. That somebody uses it is noted now and then. */
  open(token: string, isUse: boolean): SessionGrant | null {
    const { directory, clock } = this.#options
    const grant = directory.consoleSession(token)
    if (grant === null) return null
    const { id, lastSeenAtMs } = grant.session
    const isDue = isUse && clock.now() - lastSeenAtMs >= SESSION_SEEN_LATE_MS_MAX
    if (isDue && !this.#noting.has(id)) void this.#note(id, token)
    return grant
  }

  /**
   * Begins a session and answers its token; null when the proof is none, as that of a key that is nobody's.
   * Throws as `RateLimits.attempt`.
   */
  async begin(
    proof: SessionStart['proof'] | null,
    from: Pick<SessionStart, 'address' | 'userAgent'>,
  ): Promise<string | null> {
    const { queries, clock, limits } = this.#options
    return limits.attempt(from.address, async () => {
      if (proof === null) return null
      const token = randomBytes(TOKEN_BYTES).toString('base64url')
      const start = { token, proof, atMs: clock.now(), ...from }
      return (await queries.organization('beginSession', start)) ? token : null
    })
  }

  async #note(id: number, token: string): Promise<void> {
    const { queries, clock, log } = this.#options
    this.#noting.add(id)
    try {
      await queries.organization('sawSession', { token, atMs: clock.now() })
    } catch (err) {
      log.error({ err, session: id }, 'the use of a session could not be noted')
    } finally {
      this.#noting.delete(id)
    }
  }
}
