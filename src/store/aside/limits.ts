/** The limits of store/aside: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */
import { DROPPED_DAYS_MAX } from '../../base/limits.ts'

/** UTF-16 units of the reason of a dead letter. Longer: cut. */
export const LETTER_REASON_UNITS_MAX = 1000
/** Letters that are kept; the oldest make room, and the metrics tell so. */
export const LETTERS_MAX = 100_000
/** Bytes of letters that are kept together; the newest is kept whatever its size. */
export const LETTERS_BYTES_MAX = 256 * 1024 * 1024
/** Hours of which dropped events are counted. Older ones are removed. */
export const DROPPED_HOURS_MAX = DROPPED_DAYS_MAX * 24
/** Bytes of an event's JSON that are kept. */
export const DROPPED_DATA_BYTES_MAX = 1024
/** Events that a project keeps for each reason; the oldest make room. */
export const DROPPED_REASON_EVENTS_MAX = 200
/** Bytes of them. Beyond: the oldest go. */
export const DROPPED_REASON_BYTES_MAX = 256 * 1024
/** Events that all projects keep together. */
export const DROPPED_EVENTS_MAX = 20_000
/** Bytes of them. Beyond: the oldest go. */
export const DROPPED_BYTES_MAX = 24 * 1024 * 1024
/** Lines that a project keeps; the oldest make room. */
export const WARNING_LINES_MAX = 1000
