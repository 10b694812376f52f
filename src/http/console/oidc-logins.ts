/**
 * Logins with OpenID Connect that have begun and are not finished. Each login is bound to the browser in which it
 * began: the browser gets a random token in a cookie, and the login can be finished only with the same token. A login
 * is removed when it is finished, so that its secrets cannot be used twice.
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

/** A login that has begun and is not finished. */
interface PendingLogin extends LoginSecrets {
  /** The SHA-256 of the token in the cookie of the browser. */
  readonly browserHash: Buffer
  readonly network: string
  readonly redirectUri: string
  readonly returnTo: string
  readonly endsAtMs: number
}

/** The data with which a login begins. */
export interface LoginStart {
  /** The token in the cookie of the browser, or null if it has none. */
  readonly browser: string | null
  readonly address: string
  /** The URL of the console page to which the provider sends the browser after the login. */
  readonly redirectUri: string
  /** The page of the console that is shown after the login. */
  readonly returnTo: string
}

/** The services that logins need. */
export interface OidcLoginsOptions {
  /** The label of the button on the login page. */
  readonly label: string
  /** True if a person who is not a user yet becomes a viewer. */
  readonly isViewerMade: boolean
  readonly provider: Pick<OidcProvider, 'begin' | 'finish'>
  readonly clock: Pick<Clock, 'monotonic'>
}

/** The pending logins of a daemon. They are lost when the daemon restarts, and the users then begin again. */
export class OidcLogins {
  readonly label: string
  readonly isViewerMade: boolean
  readonly #provider: OidcLoginsOptions['provider']
  readonly #clock: OidcLoginsOptions['clock']
  /** The pending logins by their `state` parameter, oldest first. */
  readonly #pending = new Map<string, PendingLogin>()
  #finishing = 0

  constructor({ label, isViewerMade, provider, clock }: OidcLoginsOptions) {
    this.label = label
    this.isViewerMade = isViewerMade
    this.#provider = provider
    this.#clock = clock
  }

  /**
   * Begins a login. Returns the URL of the provider that the browser must open, and the token for the cookie of the
   * browser. Throws 503 `provider_away`.
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
    // Logins in several tabs of a browser share one token. If no unfinished login of this daemon has the token of the
    // browser, the browser gets a new token.
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
   * Finishes a login after the provider has sent the browser back with the query `callback`. Returns the account and
   * the page to show. Returns null if this browser has not begun the login, or if the login is finished or too old.
   * Throws 503 `logins_full`, and the errors of `OidcProvider.finish`.
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

  /**
   * Removes logins that are too old. If the network has too many logins, also removes its oldest one. If there are too
   * many in total, removes the oldest of all.
   */
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

/** Returns the error for a login for which `OidcLogins.finish` has returned null. */
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
