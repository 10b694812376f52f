/** The limits of http/console, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of bytes of all files of the console, including the compressed ones, which stay in memory. With
 * more, the console is not served.
 */
export const CONSOLE_BYTES_MAX = 4 * 1024 * 1024
/** The largest number of passwords that are hashed at a time, each with 32 MiB of memory. Others wait. */
export const PASSWORDS_HASHED_MAX = 1
/**
 * The largest number of logins that wait until their password is hashed. A further one is answered 503
 * `passwords_full`.
 */
export const PASSWORDS_WAITING_MAX = 16
