/**
 * When an event happened: the client's timestamp or offset, corrected by how far the client's clock is
 * off, within what the server accepts. Source: docs/compatibility/events.md, "Time".
 */

import type { JsonObject } from '../../base/json.ts'
import { FUTURE_TIMESTAMP_MS_MAX } from '../../base/limits.ts'
import { cutUnits } from './fields.ts'
import { TIME_SHOWN_UNITS_MAX } from './limits.ts'
import { MOMENT_MS_MAX, MOMENT_MS_MIN, parseTimestamp } from './timestamp.ts'
import type { EventContext, IngestionWarning } from './types.ts'

/** First millisecond of 2001: a clock that says less was never set. */
const SENT_AT_MS_MIN = 978_307_200_000
const MILLISECOND_DIGITS_MIN = 12
const DIGITS = /^\d{1,16}$/

/** No warnings; shared, so that the usual event allocates no list. */
export const NO_WARNINGS: readonly IngestionWarning[] = Object.freeze([])

/** The moment of an event and what it was computed with. */
export interface EventTime {
  readonly timestampMs: number
  /** The client's clock when sending, milliseconds; null when it gave none that is valid. */
  readonly sentAtMs: number | null
  readonly warnings: readonly IngestionWarning[]
}

/** The client's clock of a whole request. */
export interface RequestSentAt {
  /** Milliseconds; null when absent or invalid. */
  readonly sentAtMs: number | null
  /** One was given, but it is unreadable or in 2000 or earlier: ignored, with a warning. */
  readonly isSentAtInvalid: boolean
}

/**
 * Milliseconds that a `sent_at` stands for: digits only are milliseconds (more than 11 of them) or
 * seconds, everything else is a timestamp. Null when unreadable or in the year 2000 or earlier.
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
 * The client's clock of a request from the places that can state it, strongest first: root of the
 * body, form field `sent_at`, query `_`, query `sent_at`. The first that is given decides, also when
 * it is invalid.
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
 * When an event happened, by the four steps of the reference: arrival time; timestamp, corrected by the
 * client's clock; offset; not more than 23 hours ahead. Never throws; what cannot be used is ignored
 * with a warning. Source: docs/compatibility/events.md, "Time".
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
 * The moment of an event by its timestamp (null: none), its offset and the client's clock when it was sent
 * (null: taken as right), whatever the bounds are.
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

/** Whether the server accepts a moment: at most 23 hours ahead, and within the years of four digits. */
export function isTimestampUsable(timestampMs: number, nowMs: number): boolean {
  return timestampMs <= nowMs + FUTURE_TIMESTAMP_MS_MAX && timestampMs >= MOMENT_MS_MIN
}

/** ISO text of a time that many events of one request share. */
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
