/** The limits of store/maintenance, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of bytes in a chunk of a backup. A chunk ends with the entry that reaches this size. */
export const CHUNK_BYTES_MAX = 8 * 1024 * 1024
/**
 * A read of a page that takes longer than this time came from the disk and not from memory. The backup then also reads
 * the adjacent pages, because they take hardly any more time.
 */
export const PAGE_CACHED_MS_MAX = 0.1
/**
 * After this number of findings in the whole store, `verify` checks no further blocks of the log and no further
 * records.
 */
export const VERIFY_FINDINGS_MAX = 20
