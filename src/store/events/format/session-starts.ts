/**
 * Finds the ranges of time in which the sessions of a segment started. They come from the session ids: an id is a UUID
 * of version 7, which begins with a time. A search for a session can skip a segment if the range of the session's id is
 * not among the ranges of the segment. It does not matter whether the time in an id is right, because only bytes of ids
 * are compared. A range is given by the first three bytes of an id, and is 4.7 hours long.
 */
import { SESSION_ID } from '../../../rules/analytics/session-id.ts'
import { SEGMENT_SESSION_STARTS_MAX } from '../limits.ts'
import type { SegmentBuilder } from './segment-builder.ts'

const ID_UNITS = 36
const VERSION_AT = 14
const VERSION_7 = 0x37
const START_RANGE_DIGITS = 6
/**
 * The length of a range, in milliseconds. An id begins with a time of six bytes, and a range is given by the first
 * three of them.
 */
export const START_RANGE_MS = 2 ** 24

/** Returns the range of a session id, given as a text. */
export function startRangeOf(id: string): number {
  return Number.parseInt(id.slice(0, START_RANGE_DIGITS), 16)
}

/** Returns the range of a session id, given as 16 bytes from `start` on. */
export function startRangeAt(bytes: Uint8Array, start: number): number {
  return ((bytes[start] ?? 0) << 16) | ((bytes[start + 1] ?? 0) << 8) | (bytes[start + 2] ?? 0)
}

/**
 * Returns the ranges of all sessions of a segment, in ascending order. Returns null if there are too many, or if it
 * would take too long to find them.
 */
export function sessionStarts({ columns, rest }: SegmentBuilder): readonly number[] | null {
  const column = columns.get(SESSION_ID)
  if (rest.count > 0 || column?.isMirror === true) return null
  const texts = new Set<string>()
  // The ids of sessions are UUIDs. If no value has the length of a UUID, there are no sessions.
  const values = column?.mayHold(ID_UNITS) === true ? column.values : []
  for (const value of values) {
    const isId =
      typeof value === 'string' &&
      value.length === ID_UNITS &&
      value.charCodeAt(VERSION_AT) === VERSION_7
    if (isId) texts.add(value.slice(0, START_RANGE_DIGITS).toLowerCase())
    if (texts.size > SEGMENT_SESSION_STARTS_MAX) return null
  }
  const starts = Array.from(texts, startRangeOf).filter((start) => !Number.isNaN(start))
  return starts.sort((a, b) => a - b)
}
