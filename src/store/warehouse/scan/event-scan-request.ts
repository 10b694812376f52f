/** What a request for a scan asks for: which segments, of which times, whose events, and filters. */
import type { DateRange } from '../../../rules/analytics/date-range.ts'
import {
  type EventPart,
  type EventScanRequest,
  OWNER_BITS,
} from '../../../rules/analytics/event-columns.ts'
import { filtersOf } from '../../../rules/filters/filter-group.ts'
import type { OwnerTable } from '../../identity/owner-table.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import {
  allOf,
  compileFilter,
  type RowFilter,
  type ScanFacts,
  sessionFilter,
} from './event-scan-filter.ts'

const EVERYWHERE = { after: 0, through: Number.POSITIVE_INFINITY }
const EVERYBODY = { index: 0, count: 1 }

/** Properties of persons and groups, and cohorts, change without any event of the past. */
export function needsPersons({ filter, series, values, persons }: EventScanRequest): boolean {
  const filters = series.flatMap((one) => [one.filter, ...one.steps.map((step) => step.filter)])
  const leaves = [filter, ...filters].flatMap((tree) => (tree === null ? [] : filtersOf(tree)))
  return (
    persons !== null ||
    leaves.some(({ type = 'event' }) => type !== 'event' && type !== 'element') ||
    values.some(({ kind }) => kind === 'person_property' || kind === 'group_property')
  )
}

/**
 * A segment is always in the same part, so that each thread keeps the columns of its own: full ones, which
 * follow each other, in turn, small ones anywhere.
 */
export function isInPart(summary: SegmentSummary, part: EventPart | undefined): boolean {
  if (part === undefined) return true
  const { firstSequence, rows } = summary
  const { after, through } = part.sequences ?? EVERYWHERE
  if (firstSequence + rows - 1 <= after || firstSequence > through) return false
  if (part.by !== 'segments') return true
  const place = firstSequence - 1
  const number = Math.floor(place / SEGMENT_ROWS_MAX) + (place % SEGMENT_ROWS_MAX)
  return number % part.count === part.index
}

/** Whether all events of a segment that is in a part are. */
export function isWhollyIn(
  { firstSequence, rows }: SegmentSummary,
  { sequences }: EventPart | { readonly sequences?: undefined } = {},
): boolean {
  const { after, through } = sequences ?? EVERYWHERE
  return firstSequence > after && firstSequence + rows - 1 <= through
}

/** 1 for each P that is asked for, in its part of the persons; null: everybody. */
export function wantedPersons(
  { persons, part, hasProfile = false, keepsOwnerless = false }: EventScanRequest,
  { lastPerson, firstPersonless, hasPersonless }: OwnerTable,
): Uint8Array | null {
  let marks = persons?.marks ?? null
  if (hasProfile && hasPersonless) {
    marks = marks?.slice(0, firstPersonless) ?? new Uint8Array(firstPersonless).fill(1)
    marks[0] = 0
  }
  const among = part?.among
  if (part?.by !== 'persons' && among === undefined) return marks
  const { index, count } = part?.by === 'persons' ? part : EVERYBODY
  const wanted = new Uint8Array(lastPerson + 1)
  for (let person = index; person <= lastPerson; person += count) {
    const isAmong = among === undefined || among[person] === 1
    if (isAmong) wanted[person] = marks === null ? 1 : (marks[person] ?? 0)
  }
  // What belongs to nobody is in the first part.
  const keepsNobody = keepsOwnerless && index === 0 && marks === null && among === undefined
  wanted[0] = keepsNobody ? 1 : 0
  return wanted
}

/** The filters of a request, the one on sessions first: it is the quickest. */
export function filterOf(
  { filter, sessions }: EventScanRequest,
  facts: ScanFacts,
): RowFilter | null {
  const own = filter === null ? null : compileFilter(filter, facts)
  if (sessions === undefined) return own
  const ofSessions = sessionFilter(sessions, facts)
  return own === null ? ofSessions : allOf([ofSessions, own])
}

/**
 * The bits of the D that belong to those who are asked for: they lie closer together in memory than owners do, so
 * that who is not wanted costs hardly anything. Null: everybody is, or what belongs to nobody, which no D tells.
 */
export function wantedIds(
  owners: Uint32Array,
  wanted: Uint8Array | null,
  keepsOwnerless: boolean,
): Uint32Array | null {
  if (wanted === null || keepsOwnerless) return null
  const bits = new Uint32Array((owners.length >>> 5) + 1)
  for (let distinctId = 0; distinctId < owners.length; distinctId++) {
    const isWanted = wanted[(owners[distinctId] ?? 0) & OWNER_BITS] ?? 0
    bits[distinctId >>> 5] = (bits[distinctId >>> 5] ?? 0) | (isWanted << (distinctId & 31))
  }
  return bits
}

/** The smallest D that belongs to somebody of a list by P; 0 when there is no list, or nobody is in it. */
export function firstDistinctId(owners: Uint32Array, wanted: Uint8Array | null): number {
  if (wanted === null || wanted[0] === 1) return 0
  for (let distinctId = 0; distinctId < owners.length; distinctId++) {
    if (wanted[(owners[distinctId] ?? 0) & OWNER_BITS] === 1) return distinctId
  }
  return Number.POSITIVE_INFINITY
}

/** All times of a segment are in a range. */
export function isInRange(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  range: DateRange,
): boolean {
  return firstTimestampMs >= range.fromMs && lastTimestampMs <= range.toMs
}

/** Whether some times of a segment may be in a range. */
export function isTouched(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  { fromMs, toMs }: DateRange,
): boolean {
  return lastTimestampMs >= fromMs && firstTimestampMs <= toMs
}

/** The part of a range that the times of a segment are in. */
export function within(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  { fromMs, toMs }: DateRange,
): DateRange {
  return { fromMs: Math.max(fromMs, firstTimestampMs), toMs: Math.min(toMs, lastTimestampMs) }
}
