/** The limits of store/log, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/**
 * The smallest number of bytes in the first file of a log. While no file can be reused, each new file is twice as large
 * as the one before.
 */
export const LOG_FILE_BYTES_MIN = 1024 * 1024
/**
 * The largest number of bytes up to which a log file grows, unless a single append needs more. A larger file is not
 * reused.
 */
export const LOG_FILE_BYTES_MAX = 64 * 1024 * 1024
/** The time that fallocate(1) may take. After it, zeros are written instead. */
export const LOG_ALLOCATION_MS_MAX = 10_000
/**
 * The smallest number of bytes on the disk that log files beyond the first size leave free if the need of processing is
 * unknown. With less, events are answered 503.
 */
export const LOG_DISK_LEFT_BYTES_MIN = 16 * 1024 * 1024
/**
 * The largest number of bytes appended since the last check up to which the log is calm. The files of a calm log become
 * small again.
 */
export const LOG_CALM_BYTES_MAX = 1024 * 1024
/** The largest number of files that one append removes, so that no acknowledgement waits for a long cleanup. */
export const LOG_FILES_REMOVED_MAX = 4
/**
 * The largest number of bytes of waiting blocks whose checksums are verified at a start. The others are verified when
 * they are processed.
 */
export const LOG_CHECKED_BYTES_MAX = 1024 * 1024 * 1024
/**
 * The largest number of attempts to open a log file. A file that disappears before it is opened was reused. After the
 * last attempt, it counts as missing.
 */
export const LOG_ATTEMPTS_MAX = 10
/**
 * The largest number of times that a damage of the log must be seen before it is reported while a daemon writes the
 * log.
 */
export const LOG_LOOKS_MAX = 3
/**
 * The time for which a reader waits for a file descriptor while connections use all of them. After it, the read fails.
 */
export const LOG_DESCRIPTOR_WAIT_MS_MAX = 10_000
