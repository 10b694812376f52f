/**
 * Evaluates the request of a scan: which segments the scan reads, which persons it wants, and which filters it needs.
 */
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

/**
 * Returns whether the request depends on persons, groups or cohorts. Their properties can change without new events in
 * the requested time range.
 */
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
 * Returns whether a segment belongs to a part of the segments. A segment always belongs to the same part, so each
 * thread caches only the columns of its own segments. Full segments belong to the parts in turn, and small segments to
 * any part.
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

/** Returns whether all events of a segment are within the sequence numbers of a part. */
export function isWhollyIn(
  { firstSequence, rows }: SegmentSummary,
  { sequences }: EventPart | { readonly sequences?: undefined } = {},
): boolean {
  const { after, through } = sequences ?? EVERYWHERE
  return firstSequence > after && firstSequence + rows - 1 <= through
}

/**
 * Returns an array with a 1 at the number of each requested person, or null for all persons. If only a part is
 * requested, the array contains only the persons of the part.
 */
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
  // Events without an owner belong to the first part.
  const keepsNobody = keepsOwnerless && index === 0 && marks === null && among === undefined
  wanted[0] = keepsNobody ? 1 : 0
  return wanted
}

/** Returns the filter of a request. The filter on sessions comes first, because it is the fastest. */
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
 * Returns a bit set with a 1 for each distinct ID number that belongs to a requested person. These bits exclude rows
 * faster than owners do, because the bits are close together in memory. Returns null if all persons are requested, or
 * if events without an owner are included, because the bits cannot decide then.
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

/**
 * Returns the smallest distinct ID number that belongs to a person in `wanted`. Returns 0 if `wanted` is null or
 * includes events without an owner, and infinity if no person in it has a distinct ID number.
 */
export function firstDistinctId(owners: Uint32Array, wanted: Uint8Array | null): number {
  if (wanted === null || wanted[0] === 1) return 0
  for (let distinctId = 0; distinctId < owners.length; distinctId++) {
    if (wanted[(owners[distinctId] ?? 0) & OWNER_BITS] === 1) return distinctId
  }
  return Number.POSITIVE_INFINITY
}

/** Returns whether all times of a segment are in a range. */
export function isInRange(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  range: DateRange,
): boolean {
  return firstTimestampMs >= range.fromMs && lastTimestampMs <= range.toMs
}

/** Returns whether some times of a segment may be within a range. */
export function isTouched(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  { fromMs, toMs }: DateRange,
): boolean {
  return lastTimestampMs >= fromMs && firstTimestampMs <= toMs
}

/** Returns the part of a time range that lies within the times of a segment. */
export function clippedRange(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  { fromMs, toMs }: DateRange,
): DateRange {
  return { fromMs: Math.max(fromMs, firstTimestampMs), toMs: Math.min(toMs, lastTimestampMs) }
}
