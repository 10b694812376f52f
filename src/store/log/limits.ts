/** The limits of store/log, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The smallest number of bytes in the first file of a log. If no file can be reused, a new file is twice as large as
 * the one before.
 */
export const LOG_FILE_BYTES_MIN = 1024 * 1024
/** The largest number of bytes in a log file, unless a single append needs more. A larger file is not reused. */
export const LOG_FILE_BYTES_MAX = 64 * 1024 * 1024
/** The time that fallocate(1) may take to reserve the space of a log file. After it, zeros are written instead. */
export const LOG_ALLOCATION_MS_MAX = 10_000
/**
 * The number of bytes on the disk that a new log file must leave free, as long as it is unknown how much processing
 * needs. If that is not possible, no further file is created, and events are answered 503 when the last file is full.
 */
export const LOG_DISK_LEFT_BYTES_MIN = 16 * 1024 * 1024
/**
 * The smallest number of bytes of a block that is stored deflated in the log, if a sample of it shrinks to a tenth. A
 * smaller block is stored as it is.
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
 * The largest number of attempts to open a log file. A file that disappears before it is opened was reused. After the
 * last attempt, it counts as missing.
 */
export const LOG_ATTEMPTS_MAX = 10
/**
 * The number of attempts of a check to read a log that a daemon is writing. Damage is reported only if every attempt
 * finds it, because a block may be half written during one of them.
 */
export const LOG_LOOKS_MAX = 3
/**
 * The time for which a reader waits for a file descriptor while connections use all of them. After it, the read fails.
 */
export const LOG_DESCRIPTOR_WAIT_MS_MAX = 10_000
