/**
 * Logins with OpenID Connect that have begun and are not finished. Each is bound to the browser in which it began: the
 * browser has a random token in a cookie, and only with the same token can the login be finished. A login is removed
 * when it is finished, so that nothing of it can be used twice.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { networkOf } from '../../base/addresses.ts'
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import { refusal } from '../../base/refusals.ts'
import type { ProviderAccount } from '../../rules/access/identity.ts'
import {
  LOGINS_FINISHED_AT_ONCE_MAX,
  PENDING_LOGIN_MS_MAX,
  PENDING_LOGINS_MAX,
  PENDING_LOGINS_OF_ADDRESS_MAX,
} from './limits.ts'
import type { LoginSecrets, OidcProvider } from './oidc-provider.ts'

const TOKEN_BYTES = 32

/** A login that has begun. */
interface PendingLogin extends LoginSecrets {
  /** The SHA-256 of the token of the browser. */
  readonly browserHash: Buffer
  readonly network: string
  readonly redirectUri: string
  readonly returnTo: string
  readonly endsAtMs: number
}

/** The data with which a login begins. */
export interface LoginStart {
  /** The token in the cookie of the browser, or null without one. */
  readonly browser: string | null
  readonly address: string
  /** The page of the console to which the provider sends the browser. */
  readonly redirectUri: string
  /** The page of the console that the user wants to see afterwards. */
  readonly returnTo: string
}

/** The services that logins need. */
export interface OidcLoginsOptions {
  /** The label of the button on the login page. */
  readonly label: string
  /** True if unknown people become viewers. */
  readonly isViewerMade: boolean
  readonly provider: Pick<OidcProvider, 'begin' | 'finish'>
  readonly clock: Pick<Clock, 'monotonic'>
}

/** The pending logins of a daemon. They are lost when it restarts; the users then begin again. */
export class OidcLogins {
  readonly label: string
  readonly isViewerMade: boolean
  readonly #provider: OidcLoginsOptions['provider']
  readonly #clock: OidcLoginsOptions['clock']
  /** The logins by their state, oldest first. */
  readonly #pending = new Map<string, PendingLogin>()
  #finishing = 0

  constructor({ label, isViewerMade, provider, clock }: OidcLoginsOptions) {
    this.label = label
    this.isViewerMade = isViewerMade
    this.#provider = provider
    this.#clock = clock
  }

  /**
   * Begins a login. Returns the address of the provider to open, and the token that the browser has to keep. Throws 503
   * `provider_away`.
   */
  async begin({
    browser,
    address,
    redirectUri,
    returnTo,
  }: LoginStart): Promise<{ readonly url: string; readonly browser: string }> {
    const { url, secrets } = await this.#provider.begin(redirectUri)
    const nowMs = this.#clock.monotonic()
    const network = networkOf(address)
    this.#makeRoom(network, nowMs)
    // Logins in several tabs of a browser share its token. A token that no login of this daemon has is not accepted.
    const token = this.#isKnown(browser) ? browser : randomBytes(TOKEN_BYTES).toString('base64url')
    this.#pending.set(secrets.state, {
      ...secrets,
      browserHash: hashOf(token),
      network,
      redirectUri,
      returnTo,
      endsAtMs: nowMs + PENDING_LOGIN_MS_MAX,
    })
    return { url, browser: token }
  }

  /**
   * Finishes the login to which the provider has answered with the query `callback`. Returns the account and the page to
   * show. Returns null if the browser has not begun such a login, or if it is finished or too old. Throws 503
   * `logins_full`, and the errors of `OidcProvider.finish`.
   */
  async finish(
    browser: string | null,
    callback: string,
  ): Promise<{ readonly account: ProviderAccount; readonly returnTo: string } | null> {
    const parameters = new URLSearchParams(callback)
    const state = parameters.get('state') ?? ''
    const login = this.#pending.get(state)
    if (login === undefined || browser === null) return null
    const isOwn = timingSafeEqual(hashOf(browser), login.browserHash)
    if (!isOwn || login.endsAtMs <= this.#clock.monotonic()) return null
    if (this.#finishing >= LOGINS_FINISHED_AT_ONCE_MAX) throw refusal('logins_full')
    this.#pending.delete(state)
    this.#finishing++
    try {
      const url = new URL(login.redirectUri)
      url.search = parameters.toString()
      const account = await this.#provider.finish(url, login)
      return { account, returnTo: login.returnTo }
    } finally {
      this.#finishing--
    }
  }

  #isKnown(browser: string | null): browser is string {
    if (browser === null) return false
    const hash = hashOf(browser)
    return [...this.#pending.values()].some((login) => login.browserHash.equals(hash))
  }

  /** Removes logins that are too old, and the oldest one of the network or of all if there are too many. */
  #makeRoom(network: string, nowMs: number): void {
    const own: string[] = []
    for (const [state, login] of this.#pending) {
      if (login.endsAtMs <= nowMs) this.#pending.delete(state)
      else if (login.network === network) own.push(state)
    }
    const [oldestOwn] = own
    if (own.length >= PENDING_LOGINS_OF_ADDRESS_MAX && oldestOwn !== undefined) {
      this.#pending.delete(oldestOwn)
    }
    const [oldest] = this.#pending.keys()
    if (this.#pending.size >= PENDING_LOGINS_MAX && oldest !== undefined) {
      this.#pending.delete(oldest)
    }
  }
}

/** Returns the error for a login that `OidcLogins.finish` does not know. */
export function unknownLogin(): ServiceError {
  const minutes = PENDING_LOGIN_MS_MAX / 60_000
  return new ServiceError(
    'authentication_failed',
    `This login began in another browser, is already finished, or took longer than ${minutes} minutes. Begin it again.`,
  )
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token, 'utf8').digest()
}
