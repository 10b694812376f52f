/**
 * The innermost loops of scans. They read the rows of one segment that have the same name, for queries in which only
 * times and owners decide which rows are found. Most queries spend most of their time here.
 */

import { OWNER_BITS } from '../../../rules/analytics/event-columns.ts'
import { OWNER_HAS_SINCE, type OwnerTable } from '../../identity/owner-table.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import { heldRange, type SegmentTimes } from './event-scan-columns.ts'
import type { PassingValues } from './event-scan-pairs.ts'
import type { ScanRows } from './event-scan-rows.ts'

/**
 * The positions of rows that a first pass has found, for a second pass. All scans of the thread share this memory,
 * because only one scan runs at a time.
 */
const PLACES = new Uint16Array(SEGMENT_ROWS_MAX)
const NO_TIMES: SegmentTimes = { base: 0, offsets: new Uint32Array(0) }

/** A segment, and the conditions that decide which of its rows are found. */
export interface SegmentRange {
  /**
   * For each position in name order (event-scan-names.ts), the distinct ID number of the event, and the number of its
   * row.
   */
  readonly distinctIds: Uint32Array
  readonly rows: Uint16Array
  /** The sequence number of row 0. */
  readonly firstSequence: number
  /** The times of the events. Null: they are not needed. */
  readonly times: SegmentTimes | null
  /** The requested range of time, in milliseconds. Both ends belong to it. */
  readonly fromMs: number
  readonly toMs: number
  /** True if all rows of the segment are in the requested range of time. */
  readonly isWithin: boolean
  readonly owners: OwnerTable
  /** An array that has a 1 at the number of each requested person. Null: all persons are requested. */
  readonly wanted: Uint8Array | null
  /**
   * A set of bits: the bit of a distinct ID number is 1 if it belongs to a requested person. Null if all persons are
   * requested, or if events without an owner are included.
   */
  readonly wantedIds: Uint32Array | null
  readonly hasSequences: boolean
  /** True if the result contains distinct ID numbers instead of owners. */
  readonly areIds: boolean
  /** True if all rows except erased ones have an owner, and the owners are not needed. */
  readonly areAll: boolean
  /** True if `areAll` is true, no row was erased, and only the times are needed. `distinctIds` is empty then. */
  readonly areTimesAlone: boolean
  /**
   * True if `areAll` is true, no row was erased, and the times are not needed. The result is then a part of the array
   * `distinctIds`.
   */
  readonly isTaken: boolean
}

/**
 * Adds the persons, times and sequence numbers of the rows that are found at the positions from `start` to `end - 1`.
 * `target` must have room for all of them.
 */
export function addRange(range: SegmentRange, start: number, end: number, target: ScanRows): void {
  if (range.areTimesAlone && range.times !== null) {
    target.count = addTimes(range, range.times, start, end, target)
    return
  }
  if (range.areAll && !range.hasSequences && range.times !== null) {
    addTimedIds(range, range.times, start, end, target)
    return
  }
  if (range.wantedIds !== null) {
    addWanted(range, wantedPlaces(range.distinctIds, range.wantedIds, start, end), target)
    return
  }
  const { distinctIds, isWithin, fromMs, toMs, times, wanted, areIds } = range
  const { words } = range.owners
  const { timesMs, persons, sequences } = target
  const base = times?.base ?? 0
  const offsets = times?.offsets ?? null
  let { count } = target
  for (let place = start; place < end; place++) {
    const distinctId = distinctIds[place] ?? 0
    let owner = words[distinctId] ?? 0
    if (owner >= OWNER_HAS_SINCE) owner = ownerSince(range, place)
    if (wanted !== null && wanted[owner] !== 1) continue
    if (offsets !== null) {
      const timeMs = base + (offsets[place] ?? 0)
      if (!isWithin && (timeMs < fromMs || timeMs > toMs)) continue
      timesMs[count] = timeMs
    }
    if (range.hasSequences) {
      sequences[count] = range.firstSequence + (range.rows[place] ?? 0)
    }
    persons[count] = areIds ? distinctId : owner
    // An erased row has the distinct ID number 0, and therefore no owner. It is not counted.
    count += owner === 0 ? 0 : 1
  }
  target.count = count
}

/** Returns whether the bit with this number is set. */
export function hasBit(bits: Uint32Array, number: number): boolean {
  return (((bits[number >>> 5] ?? 0) >>> (number & 31)) & 1) === 1
}

/**
 * Writes the positions of the rows with a wanted distinct ID number into `PLACES`. Returns the number of these rows.
 */
function wantedPlaces(
  distinctIds: Uint32Array,
  bits: Uint32Array,
  start: number,
  end: number,
): number {
  let found = 0
  for (let place = start; place < end; place++) {
    const distinctId = distinctIds[place] ?? 0
    // The position is always written, without a branch: it cannot be predicted who owns the next row, and a
    // mispredicted branch costs more than the write.
    PLACES[found] = place
    found += ((bits[distinctId >>> 5] ?? 0) >>> (distinctId & 31)) & 1
  }
  return found
}

/**
 * Adds the rows at the first `found` positions in `PLACES`. The distinct ID numbers of these rows belong to requested
 * persons.
 */
function addWanted(range: SegmentRange, found: number, target: ScanRows): void {
  const { distinctIds, isWithin, fromMs, toMs, areIds, hasSequences, rows } = range
  const { words } = range.owners
  const { timesMs, persons, sequences } = target
  const { base, offsets } = range.times ?? NO_TIMES
  const hasTimes = range.times !== null
  let { count } = target
  for (let index = 0; index < found; index++) {
    const place = PLACES[index] ?? 0
    const distinctId = distinctIds[place] ?? 0
    let owner = words[distinctId] ?? 0
    if (owner >= OWNER_HAS_SINCE) owner = ownerSince(range, place)
    if (hasTimes) {
      const timeMs = base + (offsets[place] ?? 0)
      timesMs[count] = timeMs
      if (!isWithin && (timeMs < fromMs || timeMs > toMs)) continue
    }
    persons[count] = areIds ? distinctId : owner
    if (hasSequences) sequences[count] = range.firstSequence + (rows[place] ?? 0)
    // An event from before the deletion of its person has no owner. It is not counted.
    count += owner === 0 ? 0 : 1
  }
  target.count = count
}

/** Adds the distinct ID numbers and the times of those rows that are in the range of time and were not erased. */
function addTimedIds(
  { distinctIds, fromMs, toMs }: SegmentRange,
  { base, offsets }: SegmentTimes,
  start: number,
  end: number,
  target: ScanRows,
): void {
  const { timesMs, persons } = target
  let { count } = target
  for (let place = start; place < end; place++) {
    const timeMs = base + (offsets[place] ?? 0)
    const distinctId = distinctIds[place] ?? 0
    timesMs[count] = timeMs
    persons[count] = distinctId
    count += distinctId !== 0 && timeMs >= fromMs && timeMs <= toMs ? 1 : 0
  }
  target.count = count
}

/** Adds the times of rows, and nothing else. Call it only if no row of the segment was erased. */
function addTimes(
  { fromMs, toMs, isWithin }: SegmentRange,
  { base, offsets }: SegmentTimes,
  start: number,
  end: number,
  { timesMs, count }: ScanRows,
): number {
  let next = count
  for (let place = start; place < end; place++) {
    const timeMs = base + (offsets[place] ?? 0)
    timesMs[next] = timeMs
    next += isWithin || (timeMs >= fromMs && timeMs <= toMs) ? 1 : 0
  }
  return next
}

/**
 * Adds the distinct ID numbers and times of the rows whose value passes a filter. Erased rows are left out. `target`
 * must have room for all rows. Call it only if owners do not decide which rows are found.
 */
export function addPassing(
  range: SegmentRange,
  passing: PassingValues,
  start: number,
  end: number,
  target: ScanRows,
): void {
  const { distinctIds, fromMs, toMs, times, areTimesAlone } = range
  const { timesMs, persons } = target
  const found = placesOf(passing, start, end)
  let { count } = target
  for (let index = 0; index < found; index++) {
    const place = PLACES[index] ?? 0
    const distinctId = distinctIds[place] ?? 0
    persons[count] = distinctId
    let isIn = distinctId !== 0 || areTimesAlone
    if (times !== null) {
      const timeMs = times.base + (times.offsets[place] ?? 0)
      timesMs[count] = timeMs
      isIn &&= timeMs >= fromMs && timeMs <= toMs
    }
    count += isIn ? 1 : 0
  }
  target.count = count
}

/**
 * Writes the positions of the rows whose value passes into `PLACES`. Returns their number. This is a pass of its own,
 * because most rows usually do not pass.
 */
function placesOf({ column, isPassed }: PassingValues, start: number, end: number): number {
  const { ids, first } = column
  const { from, to } = heldRange(column, start, end)
  const isNonePassed = isPassed[0] === 1
  let found = 0
  if (isNonePassed) for (let place = start; place < from; place++) PLACES[found++] = place
  for (let place = from; place < to; place++) {
    // The position is always written, without a branch: the result cannot be predicted, and a mispredicted branch costs
    // more than the write.
    PLACES[found] = place
    found += isPassed[ids[place - first] ?? 0] ?? 0
  }
  if (isNonePassed) for (let place = to; place < end; place++) PLACES[found++] = place
  return found
}

/**
 * Returns the owner of an event whose distinct_id was once taken from a deleted person. Returns 0 if the event is from
 * before that deletion.
 */
function ownerSince(
  { owners, distinctIds, rows, firstSequence }: SegmentRange,
  place: number,
): number {
  const distinctId = distinctIds[place] ?? 0
  const sequence = firstSequence + (rows[place] ?? 0)
  if (sequence <= (owners.since.get(distinctId) ?? 0)) return 0
  return (owners.words[distinctId] ?? 0) & OWNER_BITS
}
