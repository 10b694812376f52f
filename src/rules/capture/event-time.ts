/**
 * Computes when an event happened, from the timestamp or the offset that the client sent. A timestamp is corrected by
 * the error of the client's clock, and a time outside of the bounds is replaced by the time of arrival. Source:
 * docs/compatibility/events.md, "Time".
 */

import type { JsonObject } from '../../base/json.ts'
import { FUTURE_TIMESTAMP_MS_MAX } from '../../base/limits.ts'
import { cutUnits } from './fields.ts'
import { TIME_SHOWN_UNITS_MAX } from './limits.ts'
import { MOMENT_MS_MAX, MOMENT_MS_MIN, parseTimestamp } from './timestamp.ts'
import type { EventContext, IngestionWarning } from './types.ts'

/** The first millisecond of 2001. A clock that shows an earlier time was never set. */
const SENT_AT_MS_MIN = 978_307_200_000
const MILLISECOND_DIGITS_MIN = 12
const DIGITS = /^\d{1,16}$/

/** An empty list of warnings that all events without a warning share, so that they allocate none. */
export const NO_WARNINGS: readonly IngestionWarning[] = Object.freeze([])

/** The moment of an event and the values that it was computed from. */
export interface EventTime {
  readonly timestampMs: number
  /**
   * The time that the client's clock showed when it sent the request, in milliseconds since 1970. Null if the client
   * sent no valid time.
   */
  readonly sentAtMs: number | null
  readonly warnings: readonly IngestionWarning[]
}

/** The time that the client's clock showed when it sent a request. */
export interface RequestSentAt {
  /** Milliseconds since 1970, or null if the time is absent or invalid. */
  readonly sentAtMs: number | null
  /** True if a time was sent but is unreadable or before 2001. It is then ignored, with a warning. */
  readonly isSentAtInvalid: boolean
}

/**
 * Returns the milliseconds since 1970 that a `sent_at` stands for. A number with at most 11 digits is in seconds. A
 * number with more digits is in milliseconds. Every other value is read as a timestamp. Returns null if the value is
 * unreadable or before 2001.
 */
export function parseSentAt(value: unknown): number | null {
  const text = typeof value === 'number' ? String(value) : value
  if (typeof text !== 'string') return null
  let ms: number | null
  if (DIGITS.test(text)) ms = Number(text) * (text.length >= MILLISECOND_DIGITS_MIN ? 1 : 1000)
  else ms = parseTimestamp(text)
  return ms !== null && ms >= SENT_AT_MS_MIN && ms <= MOMENT_MS_MAX ? ms : null
}

/**
 * Returns the time at which the client sent a request, by its own clock. Its sources, in order of precedence, are the
 * root of the body, the form field `sent_at`, the query parameter `_` and the query parameter `sent_at`. The first
 * source that is given decides, even if its value is invalid.
 */
export function requestSentAt(
  root: unknown,
  form: string | undefined,
  underscore: string | undefined,
  query: string | undefined,
): RequestSentAt {
  const given = isGiven(root) ? root : form || underscore || query
  if (!isGiven(given)) return { sentAtMs: null, isSentAtInvalid: false }
  const sentAtMs = parseSentAt(given)
  return { sentAtMs, isSentAtInvalid: sentAtMs === null }
}

/**
 * Returns when an event happened. If the event has an offset, it is the time of arrival minus the offset. Otherwise it
 * is the timestamp, corrected by the error of the client's clock. Without a timestamp, it is the time of arrival. A
 * time that is more than 23 hours in the future, or before the year 0000, is replaced by the time of arrival. It never
 * throws: a value that cannot be used is ignored, with a warning. Source: docs/compatibility/events.md, "Time".
 */
export function eventTime(
  event: JsonObject,
  properties: JsonObject,
  context: EventContext,
): EventTime {
  const nowMs = context.arrivedAtMs
  let warnings = NO_WARNINGS
  let sentAtMs = context.sentAtMs
  if (context.isSentAtInvalid === true) {
    warnings = [{ type: 'ignored_invalid_timestamp', details: { field: 'sent_at' } }]
  } else if (sentAtMs === null && isGiven(event['sent_at'])) {
    sentAtMs = parseSentAt(event['sent_at'])
    if (sentAtMs === null) warnings = [invalidTimestamp('sent_at', event['sent_at'])]
  }
  const timestamp = event['timestamp']
  let givenMs: number | null = null
  if (isGiven(timestamp)) {
    givenMs = parseTimestamp(timestamp)
    if (givenMs === null) warnings = [...warnings, invalidTimestamp('timestamp', timestamp)]
  }
  const skewAtMs = properties['$ignore_sent_at'] === true ? null : sentAtMs
  const timestampMs = timestampOf(givenMs, event['offset'], skewAtMs, nowMs)
  if (isTimestampUsable(timestampMs, nowMs)) return { timestampMs, sentAtMs, warnings }
  const cause: IngestionWarning =
    timestampMs > nowMs
      ? { type: 'event_timestamp_in_future', details: {} }
      : { type: 'ignored_invalid_timestamp', details: { field: 'offset' } }
  return { timestampMs: nowMs, sentAtMs, warnings: [...warnings, cause] }
}

/**
 * Returns the time of an event in milliseconds since 1970, which may be out of bounds. `givenMs` is the timestamp, or
 * null if there is none. `sentAtMs` is the time that the client's clock showed when it sent the event. If it is null,
 * the clock is assumed to be right.
 */
export function timestampOf(
  givenMs: number | null,
  offset: unknown,
  sentAtMs: number | null,
  nowMs: number,
): number {
  if (typeof offset === 'number' && Number.isFinite(offset)) return nowMs - Math.trunc(offset)
  if (givenMs === null) return nowMs
  return sentAtMs === null ? givenMs : nowMs + (givenMs - sentAtMs)
}

/** Returns whether the server accepts a time: at most 23 hours in the future, and not before the year 0000. */
export function isTimestampUsable(timestampMs: number, nowMs: number): boolean {
  return timestampMs <= nowMs + FUTURE_TIMESTAMP_MS_MAX && timestampMs >= MOMENT_MS_MIN
}

/** Returns a time in ISO 8601. The last result is cached, because all events of a request ask for the same time. */
export function sharedIsoText(timeMs: number): string {
  if (timeMs !== lastTimeMs) {
    lastText = new Date(timeMs).toISOString()
    lastTimeMs = timeMs
  }
  return lastText
}

let lastTimeMs = Number.NaN
let lastText = ''

function invalidTimestamp(field: string, value: unknown): IngestionWarning {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  return {
    type: 'ignored_invalid_timestamp',
    details: { field, value: cutUnits(text, TIME_SHOWN_UNITS_MAX) },
  }
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}
