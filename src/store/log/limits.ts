/** The limits of store/log: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** The first file of a log. While no file can be used again, each new one is twice as large as the one before. */
export const LOG_FILE_BYTES_MIN = 1024 * 1024
/** A file grows no larger, unless one append alone needs more; such a file is not used again. */
export const LOG_FILE_BYTES_MAX = 64 * 1024 * 1024
/** Milliseconds that fallocate(1) may take. Longer: zeros are written. */
export const LOG_ALLOCATION_MS_MAX = 10_000
/**
 * Bytes of the disk that files beyond the first size leave free, where nobody says how much processing needs. With
 * less, events are answered 503.
 */
export const LOG_DISK_LEFT_BYTES_MIN = 16 * 1024 * 1024
/** Bytes appended since the log was looked at last, up to which it is calm: its files are small again. */
export const LOG_CALM_BYTES_MAX = 1024 * 1024
/** Files that one append removes at most, so that no acknowledgement waits for a long clean-up. */
export const LOG_FILES_REMOVED_MAX = 4
/** Bytes of waiting blocks that a start compares with their checksums; the rest is compared when it is processed. */
export const LOG_CHECKED_BYTES_MAX = 1024 * 1024 * 1024
/** A file that is gone before it is opened was recycled; looked for more often, it is missing. */
export const LOG_ATTEMPTS_MAX = 10
/** What looks wrong with the log beside a daemon must look wrong so often. */
export const LOG_LOOKS_MAX = 3
/** Milliseconds that a reader waits for a file descriptor, while connections have them all. */
export const LOG_DESCRIPTOR_WAIT_MS_MAX = 10_000
