/** The limits of store/lmdb, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of tables of an LMDB environment. A further one cannot be opened. */
export const TABLES_MAX = 64
/** The largest number of threads that can read an LMDB environment at a time. A further one fails. */
export const READERS_MAX = 254
/** The largest number of attempts to find a common state of all environments. After the last one, the read fails. */
export const PIN_ATTEMPTS_MAX = 100
/**
 * The time for returning free pages of a data file to the file system. After it, the attempt is stopped and repeated
 * later.
 */
export const HOLE_PUNCH_MS_MAX = 10_000
/**
 * The largest number of ranges of free pages that one transaction returns. Without perl, a program is started for each,
 * which takes about 3 ms. Further ranges are left to the next transaction.
 */
export const RELEASED_RANGES_MAX = 128
/**
 * The largest number of bytes that a transaction can write for which zeros at the end of the data file are cut off. A
 * larger transaction fails, because LMDB may have written some of it already.
 */
export const CUT_FOR_BYTES_MAX = 64 * 1024 ** 2
