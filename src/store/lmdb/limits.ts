/** The limits of store/lmdb: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Tables of an environment. A further one cannot be opened. */
export const TABLES_MAX = 64
/** Threads that read an environment at a time. A further one cannot. */
export const READERS_MAX = 254
/** Times that a state of all environments is looked for. Then it fails. */
export const PIN_ATTEMPTS_MAX = 100
/** Milliseconds for giving some free pages of a data file back to the file system. Later: it is given up, and tried again. */
export const HOLE_PUNCH_MS_MAX = 10_000
/** Ranges of free pages that one transaction gives back: without perl, a program is started for each, some 3 ms. More: the next transaction does it. */
export const RELEASED_RANGES_MAX = 128
/** Bytes that a transaction can write, for which zeros at the end of the data file are cut off. More: LMDB may have written some already, and it fails. */
export const CUT_FOR_BYTES_MAX = 64 * 1024 ** 2
