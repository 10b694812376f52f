/** The limits of http/console: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Bytes of all files of the console, compressed ones too: they stay in memory. Beyond: it is not served. */
export const CONSOLE_BYTES_MAX = 4 * 1024 * 1024
