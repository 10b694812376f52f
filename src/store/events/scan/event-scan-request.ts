/**
 * Evaluates the request of a scan: which segments must be read, which persons are requested, and which filters are
 * needed.
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
 * Returns whether the result of a request depends on persons, groups or cohorts. If it does, it can change without new
 * events in the requested range of time.
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
 * Returns whether a part of a query reads a segment. Each part is answered by one thread. A segment always belongs to
 * the same part, so each thread caches only the columns of its own segments. Full segments belong to the parts in turn.
 * The part of a small segment depends on the sequence number of its first event.
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

/** Returns whether the sequence numbers of all events of a segment belong to a part. */
export function isWhollyIn(
  { firstSequence, rows }: SegmentSummary,
  { sequences }: EventPart | { readonly sequences?: undefined } = {},
): boolean {
  const { after, through } = sequences ?? EVERYWHERE
  return firstSequence > after && firstSequence + rows - 1 <= through
}

/** Which events belong to the requested persons. */
export interface WantedEvents {
  /** An array that has a 1 at the number of each requested person. Null: all persons are requested. */
  readonly persons: Uint8Array | null
  /**
   * A set of bits: the bit of a distinct ID number is 1 if it belongs to a requested person. Null if all persons are
   * requested, or if events without an owner are included.
   */
  readonly ids: Uint32Array | null
  /** The smallest distinct ID number that belongs to a requested person. */
  readonly firstDistinctId: number
}

/**
 * Determines which events belong to the requested persons. The result for all persons of a part is kept, because a
 * query often scans the same part several times.
 */
export class WantedOfPart {
  #owners: OwnerTable | null = null
  #part = ''
  #wanted: WantedEvents | null = null

  of(request: EventScanRequest, owners: OwnerTable): WantedEvents {
    const { part, persons, hasProfile = false, keepsOwnerless = false } = request
    const areAll = persons === null && !hasProfile && !keepsOwnerless
    if (part?.by !== 'persons' || part.among !== undefined || !areAll) {
      return wantedEvents(request, owners)
    }
    const name = `${part.index} ${part.count}`
    if (this.#wanted === null || this.#owners !== owners || this.#part !== name) {
      this.#wanted = wantedEvents(request, owners)
      this.#owners = owners
      this.#part = name
    }
    return this.#wanted
  }
}

function wantedEvents(request: EventScanRequest, owners: OwnerTable): WantedEvents {
  const { words, since } = owners
  const persons = wantedPersons(request, owners)
  const ids = wantedIds(words, persons, request.keepsOwnerless === true && since.size > 0)
  return { persons, ids, firstDistinctId: firstDistinctId(words, persons) }
}

/**
 * Returns an array with a 1 at the number of each requested person, or null for all persons. If only a part of a query
 * is requested, only the persons of that part have a 1.
 */
function wantedPersons(
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
  // Events without an owner belong to the first part of a query. In the array, they have the number 0.
  const keepsNobody = keepsOwnerless && index === 0 && marks === null && among === undefined
  wanted[0] = keepsNobody ? 1 : 0
  return wanted
}

/**
 * Returns the filter for a request. If sessions are requested, the filter for them runs first, because it is the
 * fastest.
 */
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
 * Returns a set of bits: the bit of a distinct ID number is 1 if it belongs to a requested person. By these bits, rows
 * are excluded faster than by their owners, because the bits are close together in memory. Returns null if all persons
 * are requested. Also returns null if events without an owner are included: the owner of an event then depends on its
 * sequence number too.
 */
function wantedIds(
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
 * includes events without an owner. Returns infinity if no distinct ID number belongs to such a person.
 */
function firstDistinctId(owners: Uint32Array, wanted: Uint8Array | null): number {
  if (wanted === null || wanted[0] === 1) return 0
  for (let distinctId = 0; distinctId < owners.length; distinctId++) {
    if (wanted[(owners[distinctId] ?? 0) & OWNER_BITS] === 1) return distinctId
  }
  return Number.POSITIVE_INFINITY
}

/** Returns whether the times of all events of a segment are in a range. */
export function isInRange(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  range: DateRange,
): boolean {
  return firstTimestampMs >= range.fromMs && lastTimestampMs <= range.toMs
}

/** Returns whether the time of some event of a segment may be in a range. */
export function isTouched(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  { fromMs, toMs }: DateRange,
): boolean {
  return lastTimestampMs >= fromMs && firstTimestampMs <= toMs
}

/** Returns the part of a range of time in which a segment can have events. */
export function clippedRange(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  { fromMs, toMs }: DateRange,
): DateRange {
  return { fromMs: Math.max(fromMs, firstTimestampMs), toMs: Math.min(toMs, lastTimestampMs) }
}
