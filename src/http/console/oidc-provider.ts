/**
 * The connection to an OpenID Connect provider. Only this file imports openid-client, and it loads the package at the
 * first login. The provider describes itself in its discovery document. The document is read when it is needed, cached,
 * and read again later. After the provider has failed, no request is sent to it for a while, so that it neither delays
 * logins nor receives a flood of requests.
 */
import type { ClientAuth, Configuration, CustomFetchOptions } from 'openid-client'
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import { refusal } from '../../base/refusals.ts'
import { accountOf, claimsIn, type ProviderAccount } from '../../rules/access/identity.ts'
import {
  PROVIDER_ANSWER_BYTES_MAX,
  PROVIDER_KNOWN_MS_MAX,
  PROVIDER_PAUSE_MS_MAX,
  PROVIDER_REQUEST_MS_MAX,
} from './limits.ts'

type Library = typeof import('openid-client')

/** The pause after the first failure of the provider. Each further failure doubles the pause. */
const FIRST_PAUSE_MS = 1000
const SCOPES = 'openid email profile'
const SERVER_FAULT = 500
/** The statuses of answers that cannot have a body. */
const EMPTY_STATUSES = [204, 205, 304]
const JSON_TYPE = /^application\/(?:[\w.+-]*\+)?(?:json|jwt)\b/i

/** The provider, and how Tenrec is registered there as a client. */
export interface ProviderOptions {
  readonly issuer: string
  readonly clientId: string
  /** The secret of the client. Null for a public client, which has none. */
  readonly clientSecret: string | null
  /** The domains whose email addresses may log in. See `accountOf` in rules/access/identity.ts. */
  readonly emailDomains: readonly string[]
  readonly clock: Pick<Clock, 'monotonic'>
  /** Logs the reasons of failures. A `Logger` can be passed. */
  readonly log: { warn(fields: object, message: string): void }
}

/** Random values that belong to one login. The verifier and the nonce must stay secret until the login is finished. */
export interface LoginSecrets {
  readonly state: string
  readonly nonce: string
  /** The code verifier of PKCE. */
  readonly verifier: string
}

/** The error for a provider that cannot be reached, or whose answer does not follow OpenID Connect. */
class ProviderFault extends Error {
  override readonly name = 'ProviderFault'
}

/** The provider of a daemon. */
export class OidcProvider {
  readonly #options: ProviderOptions
  #library: Library | null = null
  #known: { readonly configuration: Configuration; readonly untilMs: number } | null = null
  #reading: Promise<Configuration> | null = null
  #pauseMs = 0
  #pausedUntilMs = 0

  constructor(options: ProviderOptions) {
    this.#options = options
  }

  /**
   * Returns the URL of the provider at which a login begins, and the secrets of the login. Throws 503 `provider_away`.
   */
  async begin(
    redirectUri: string,
  ): Promise<{ readonly url: string; readonly secrets: LoginSecrets }> {
    const configuration = await this.#configuration()
    const library = await this.#load()
    const secrets = {
      state: library.randomState(),
      nonce: library.randomNonce(),
      verifier: library.randomPKCECodeVerifier(),
    }
    const url = library.buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: SCOPES,
      state: secrets.state,
      nonce: secrets.nonce,
      code_challenge: await library.calculatePKCECodeChallenge(secrets.verifier),
      code_challenge_method: 'S256',
    })
    return { url: url.href, secrets }
  }

  /**
   * Exchanges the code in the URL to which the provider has sent the browser, and returns the account. Throws 401
   * `authentication_failed` if the provider refused the login or its answer cannot be trusted, 403 `permission_denied`
   * if the account may not log in, and 503 `provider_away`.
   */
  async finish(callback: URL, { state, nonce, verifier }: LoginSecrets): Promise<ProviderAccount> {
    const configuration = await this.#configuration()
    const library = await this.#load()
    try {
      const tokens = await library.authorizationCodeGrant(configuration, callback, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      })
      const claims = tokens.claims()
      if (claims === undefined)
        throw new ProviderFault('The answer of the provider has no ID token.')
      const { iss: issuer, sub: subject } = claims
      // Many providers report the email address only in the user info, and not in the ID token.
      const person =
        typeof claims['email'] === 'string'
          ? claims
          : await library.fetchUserInfo(configuration, tokens.access_token, subject)
      const account = accountOf({ issuer, subject }, claimsIn(person), this.#options.emailDomains)
      if (typeof account !== 'string') return account
      throw new ServiceError('permission_denied', account)
    } catch (cause) {
      throw this.#refusalOf(cause, library)
    }
  }

  /** Returns the error for the user, and logs its cause. */
  #refusalOf(cause: unknown, library: Library): ServiceError {
    if (cause instanceof ServiceError) return cause
    const { log, issuer } = this.#options
    if (faultIn(cause) !== null) {
      log.warn({ err: cause, issuer }, 'The identity provider failed during a login.')
      return refusal('provider_away', { cause })
    }
    log.warn({ err: cause, issuer }, 'A login at the identity provider was refused.')
    if (cause instanceof library.AuthorizationResponseError) {
      // The error code comes from a URL that anybody can write, so it is shown only if it has the form of an error
      // code.
      const reason = /^[a-z_]{1,40}$/.test(cause.error) ? ` (${cause.error})` : ''
      const detail = `The identity provider refused the login${reason}. Try again, or log in in another way.`
      return new ServiceError('authentication_failed', detail, { cause })
    }
    const detail =
      'The answer of the identity provider could not be trusted. Try again. The server log says what was wrong.'
    return new ServiceError('authentication_failed', detail, { cause })
  }

  async #load(): Promise<Library> {
    this.#library ??= await import('openid-client')
    return this.#library
  }

  /** Returns the description of the provider. While the provider fails, an outdated description is used. */
  async #configuration(): Promise<Configuration> {
    const nowMs = this.#options.clock.monotonic()
    const known = this.#known
    if (known !== null && nowMs < known.untilMs) return known.configuration
    if (nowMs >= this.#pausedUntilMs) this.#reading ??= this.#read()
    if (this.#reading === null) {
      if (known !== null) return known.configuration
      const retryAfterSeconds = Math.ceil((this.#pausedUntilMs - nowMs) / 1000)
      throw refusal('provider_away', { retryAfterSeconds })
    }
    try {
      return await this.#reading
    } catch (cause) {
      if (known !== null) return known.configuration
      throw cause
    }
  }

  async #read(): Promise<Configuration> {
    const { clock, log, issuer } = this.#options
    try {
      const configuration = await this.#discover(await this.#load())
      this.#pauseMs = 0
      this.#known = { configuration, untilMs: clock.monotonic() + PROVIDER_KNOWN_MS_MAX }
      return configuration
    } catch (cause) {
      this.#pauseMs = Math.min(PROVIDER_PAUSE_MS_MAX, Math.max(FIRST_PAUSE_MS, this.#pauseMs * 2))
      this.#pausedUntilMs = clock.monotonic() + this.#pauseMs
      log.warn({ err: cause, issuer }, 'The identity provider could not be read.')
      throw refusal('provider_away', { retryAfterSeconds: this.#pauseMs / 1000, cause })
    } finally {
      this.#reading = null
    }
  }

  async #discover(library: Library): Promise<Configuration> {
    const { issuer, clientId, clientSecret } = this.#options
    const isPlain = issuer.startsWith('http:')
    const secret = clientSecret === null ? {} : { client_secret: clientSecret }
    const configuration = await library.discovery(
      new URL(issuer),
      clientId,
      secret,
      clientAuthentication(library, clientSecret),
      {
        [library.customFetch]: fetchBounded,
        timeout: PROVIDER_REQUEST_MS_MAX / 1000,
        // The signature of the ID token is always checked. OpenID Connect would allow to trust the connection instead.
        execute: [
          library.enableNonRepudiationChecks,
          ...(isPlain ? [library.allowInsecureRequests] : []),
        ],
      },
    )
    const { issuer: found, authorization_endpoint: login = '' } = configuration.serverMetadata()
    if (new URL(found).href !== new URL(issuer).href) {
      throw new ProviderFault(
        `The issuer of the provider is ${JSON.stringify(found)}. Setting \`oidc_issuer\` must be the same address.`,
      )
    }
    // The browser will open this URL. It must use https, unless the issuer itself uses http.
    if (!/^https:/i.test(login) && !(isPlain && /^http:/i.test(login))) {
      throw new ProviderFault(
        'The `authorization_endpoint` of the provider must be an https address.',
      )
    }
    return configuration
  }
}

/**
 * Returns the method by which Tenrec authenticates to the provider. A public client has no secret and uses none. Other
 * clients send the secret with HTTP Basic, or in the body if the provider supports only that.
 */
function clientAuthentication(library: Library, secret: string | null): ClientAuth {
  if (secret === null) return library.None()
  const [basic, posted] = [library.ClientSecretBasic(secret), library.ClientSecretPost(secret)]
  return (server, ...request) => {
    // OpenID Connect Discovery, section 3: if the provider lists no methods, it supports `client_secret_basic`.
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const isPosted =
      methods.includes('client_secret_post') && !methods.includes('client_secret_basic')
    return isPosted ? posted(server, ...request) : basic(server, ...request)
  }
}

/**
 * Sends a request to the provider and reads the whole answer. Throws `ProviderFault` if the provider cannot be reached
 * or is too slow, or if its answer is too large or is not JSON.
 */
async function fetchBounded(url: string, options: CustomFetchOptions): Promise<Response> {
  try {
    const { body, ...rest } = options
    const response = await fetch(url, {
      ...rest,
      body: (body ?? null) as RequestInit['body'] & {},
      redirect: 'manual',
      signal: AbortSignal.timeout(PROVIDER_REQUEST_MS_MAX),
    })
    const { status, headers } = response
    const bytes = await bodyOf(response)
    const type = headers.get('content-type') ?? ''
    if (status >= SERVER_FAULT)
      throw new ProviderFault(`The provider answered with status ${status}.`)
    if (!JSON_TYPE.test(type)) {
      throw new ProviderFault(
        `The answer of the provider (status ${status}) is not JSON, but ${JSON.stringify(type)}.`,
      )
    }
    const isEmpty = EMPTY_STATUSES.includes(status)
    return new Response(isEmpty ? null : bytes, { status, headers })
  } catch (cause) {
    if (cause instanceof ProviderFault) throw cause
    throw new ProviderFault('The provider does not answer.', { cause })
  }
}

async function bodyOf(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of response.body ?? []) {
    // Node's types declare the chunks of a body as `any`.
    const bytes = chunk as Uint8Array
    length += bytes.length
    // Leaving the loop closes the connection.
    if (length > PROVIDER_ANSWER_BYTES_MAX)
      throw new ProviderFault('The answer of the provider is too large.')
    chunks.push(bytes)
  }
  return new Uint8Array(Buffer.concat(chunks))
}

/** Returns the fault of the provider among the causes of an error, or null. */
function faultIn(error: unknown): ProviderFault | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ProviderFault) return cause
  }
  return null
}
