/** The limits of http/console, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of bytes of all files of the console, including the compressed ones, which stay in memory. With
 * more, the console is not served.
 */
export const CONSOLE_BYTES_MAX = 4 * 1024 * 1024
/**
 * The largest number of passwords that are hashed at a time, each with 32 MiB of memory. Further ones wait for their
 * turn.
 */
export const PASSWORDS_HASHED_MAX = 1
/**
 * The largest number of logins that wait until their password is hashed. A further one is answered 503
 * `passwords_full`.
 */
export const PASSWORDS_WAITING_MAX = 16
/**
 * The time that a login with OpenID Connect may take from its beginning to its end. After it, the login is answered 401
 * `authentication_failed`.
 * @user Console and live events
 */
export const PENDING_LOGIN_MS_MAX = 600_000
/**
 * The largest number of logins with OpenID Connect that have begun and are not finished. A further one removes the
 * oldest.
 */
export const PENDING_LOGINS_MAX = 10_000
/**
 * The largest number of logins with OpenID Connect that were begun from one IP address and are not finished. A further
 * one removes the oldest of this address.
 */
export const PENDING_LOGINS_OF_ADDRESS_MAX = 100
/**
 * The largest number of logins for which the identity provider is asked at a time. A further one is answered 503
 * `logins_full`.
 */
export const LOGINS_FINISHED_AT_ONCE_MAX = 16
/** The time that one request to the identity provider may take. After it, the login is answered 503 `provider_away`. */
export const PROVIDER_REQUEST_MS_MAX = 5000
/**
 * The largest number of bytes of an answer of the identity provider. If an answer has more, the login is answered 503.
 */
export const PROVIDER_ANSWER_BYTES_MAX = 512 * 1024
/** The time for which the description of the identity provider is cached. After it, the description is read again. */
export const PROVIDER_KNOWN_MS_MAX = 3_600_000
/**
 * The longest time for which an identity provider that failed is not asked again. Logins are answered 503 meanwhile.
 */
export const PROVIDER_PAUSE_MS_MAX = 60_000
