/** The limits of store/log, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The smallest number of bytes in the first file of a log. If no file can be reused, a new file is twice as large as
 * the one before.
 */
export const LOG_FILE_BYTES_MIN = 1024 * 1024
/** The largest number of bytes in a log file, unless a single append needs more. A larger file is not reused. */
export const LOG_FILE_BYTES_MAX = 64 * 1024 * 1024
/**
 * The longest time that fallocate(1) may take to reserve the space of a log file. After this time, it is stopped, and
 * the file is filled with zeros instead.
 */
export const LOG_ALLOCATION_MS_MAX = 10_000
/**
 * The number of bytes on the disk that a new log file must leave free until it is known how much space processing
 * needs. If less would be left, no further file is created, and requests with events are answered 503 when the last
 * file is full.
 */
export const LOG_DISK_LEFT_BYTES_MIN = 16 * 1024 * 1024
/**
 * The size in bytes from which a block of the log is compressed if a sample of the block shrinks to a tenth. A smaller
 * block is stored as it is.
 */
export const LOG_DEFLATED_BYTES_MIN = 256 * 1024
/**
 * If at most this many bytes were appended to the log between two checks, the log counts as calm. The files of a calm
 * log are made small again.
 */
export const LOG_CALM_BYTES_MAX = 1024 * 1024
/** The largest number of files that one append removes, so that no acknowledgment waits for a long cleanup. */
export const LOG_FILES_REMOVED_MAX = 4
/**
 * The largest number of bytes of unprocessed blocks whose checksums are verified at the start. The checksums of further
 * blocks are verified when they are processed.
 */
export const LOG_CHECKED_BYTES_MAX = 1024 * 1024 * 1024
/**
 * The largest number of attempts to open a log file. If the file disappears before it is opened, it was reused, and the
 * next attempt lists the files again. If the last attempt fails, the file counts as missing.
 */
export const LOG_ATTEMPTS_MAX = 10
/**
 * The number of attempts of a check to read a log that a daemon is writing. Damage is reported only if every attempt
 * finds it, because a block may be half written during one of them.
 */
export const LOG_LOOKS_MAX = 3
/**
 * The longest time that a reader of the log waits for a free file descriptor while connections use all of them. After
 * this time, the read fails.
 */
export const LOG_DESCRIPTOR_WAIT_MS_MAX = 10_000
