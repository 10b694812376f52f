/** The limits of store/log: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Blocks that one append removes at most, so that no acknowledgement waits for a long clean-up. */
export const TRIM_BLOCKS_MAX = 512
