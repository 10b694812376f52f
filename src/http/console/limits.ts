/** The limits of http/console, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The largest number of bytes of all files of the console, including the compressed ones, which stay in memory. With
 * more, the console is not served.
 */
export const CONSOLE_BYTES_MAX = 4 * 1024 * 1024
