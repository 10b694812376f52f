/**
 * When the sessions of a segment began, judged by their ids: UUIDs of version 7, which begin with a time. Not
 * that this time were true: an id that begins otherwise than all ids of a segment is none of them, and so
 * who looks for sessions leaves the segment alone. A stretch is the first three bytes of an id: 4.7 hours.
 */
import { SESSION_ID } from '../../../rules/analytics/session-id.ts'
import { SEGMENT_SESSION_STRETCHES_MAX } from '../limits.ts'
import type { SegmentBuilder } from './segment-builder.ts'

const ID_UNITS = 36
const VERSION_AT = 14
const VERSION_7 = 0x37
const STRETCH_DIGITS = 6
/** Milliseconds of a stretch: what the other three bytes of a time make. */
export const STRETCH_MS = 2 ** 24

/** The stretch of an id as it is sent. */
export function stretchOf(id: string): number {
  return Number.parseInt(id.slice(0, STRETCH_DIGITS), 16)
}

/** The stretch of the 16 bytes of an id. */
export function stretchAt(bytes: Uint8Array, start: number): number {
  return ((bytes[start] ?? 0) << 16) | ((bytes[start + 1] ?? 0) << 8) | (bytes[start + 2] ?? 0)
}

/** The stretches of all sessions of a segment, ascending; null: too many, or nobody can say it cheaply. */
export function sessionStretches({ columns, rest }: SegmentBuilder): readonly number[] | null {
  const column = columns.get(SESSION_ID)
  if (rest.count > 0 || column?.isMirror === true) return null
  const texts = new Set<string>()
  // Nothing else makes a session.
  const values = column?.mayHold(ID_UNITS) === true ? column.values : []
  for (const value of values) {
    const isId =
      typeof value === 'string' &&
      value.length === ID_UNITS &&
      value.charCodeAt(VERSION_AT) === VERSION_7
    if (isId) texts.add(value.slice(0, STRETCH_DIGITS).toLowerCase())
    if (texts.size > SEGMENT_SESSION_STRETCHES_MAX) return null
  }
  const stretches = Array.from(texts, stretchOf).filter((stretch) => !Number.isNaN(stretch))
  return stretches.sort((a, b) => a - b)
}
