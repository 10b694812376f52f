/** The limits of engine/processor: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Batches without events that may wait beside those with events. */
export const BATCHES_MAX = 1024
/** Letters of one command; it says when there are more. */
export const COMMAND_LETTERS_MAX = 200
/** Bytes of letters after which one command ends, so that events do not wait long. */
export const COMMAND_LETTER_BYTES_MAX = 8 * 1024 * 1024
