/** The limits of store/lmdb, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of tables of an LMDB environment. A further one cannot be opened. */
export const TABLES_MAX = 64
/** The largest number of threads that can read an LMDB environment at a time. A further thread gets an error. */
export const READERS_MAX = 254
/**
 * The largest number of attempts to pin the newest state of a data file while other processes write to it. If the last
 * attempt fails, the backup or the check of the store reports that the file changes too often.
 */
export const PIN_ATTEMPTS_MAX = 100
/**
 * The longest time that one call may take to release free pages of a data file to the file system. After this time, the
 * call is stopped, and the pages are released later.
 */
export const HOLE_PUNCH_MS_MAX = 10_000
/**
 * The largest number of ranges of free pages that one transaction releases to the file system. Without perl, a program
 * is started for each range, which takes about 3 ms. Further ranges are released by the next transaction.
 */
export const RELEASED_RANGES_MAX = 128
/**
 * If the disk is full, zeros at the end of the data file can be cut off to make room for a transaction that writes up
 * to this number of bytes. A transaction that writes more fails, because LMDB may have written some of it already.
 */
export const CUT_FOR_BYTES_MAX = 64 * 1024 ** 2
