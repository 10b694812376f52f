/** The limits of store/rejected, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */
import { DROPPED_DAYS_MAX } from '../../base/limits.ts'

/** The largest number of UTF-16 units in the reason of a dead letter. The rest is cut off. */
export const LETTER_REASON_UNITS_MAX = 1000
/**
 * The largest number of dead letters that are kept. Beyond it, the oldest ones are removed, and a metric counts them.
 * @user Events
 */
export const LETTERS_MAX = 100_000
/**
 * The largest number of bytes of all dead letters. Beyond it, the oldest ones are removed. The newest one stays,
 * whatever its size.
 */
export const LETTERS_BYTES_MAX = 256 * 1024 * 1024
/** The largest number of hours for which dropped events are counted. Older counts are removed. */
export const DROPPED_HOURS_MAX = DROPPED_DAYS_MAX * 24
/** The largest number of bytes that are kept of a dropped event's JSON. The rest is cut off. */
export const DROPPED_DATA_BYTES_MAX = 1024
/**
 * The largest number of dropped events that a project keeps for each reason. Beyond it, the oldest ones are removed.
 */
export const DROPPED_REASON_EVENTS_MAX = 200
/**
 * The largest number of bytes of the dropped events that a project keeps for each reason. Beyond it, the oldest ones
 * are removed.
 */
export const DROPPED_REASON_BYTES_MAX = 256 * 1024
/** The largest number of dropped events that all projects keep together. Beyond it, the oldest ones are removed. */
export const DROPPED_EVENTS_MAX = 20_000
/** The largest number of bytes of the dropped events of all projects. Beyond it, the oldest ones are removed. */
export const DROPPED_BYTES_MAX = 24 * 1024 * 1024
/**
 * The largest number of ingestion warnings that a project keeps. Beyond it, the oldest ones are removed.
 * @user Events
 */
export const WARNING_LINES_MAX = 1000
