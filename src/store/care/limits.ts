/** The limits of store/care: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** A chunk ends at the latest with the entry that reaches this size. */
export const CHUNK_BYTES_MAX = 8 * 1024 * 1024
/** A read that takes longer came from the disk: then what lies around it is fetched, too. */
export const PAGE_CACHED_MS_MAX = 0.1
/** After this many findings the rest of a file is not looked at. */
export const VERIFY_FINDINGS_MAX = 20
