/**
 * The innermost loops of scans: they read the rows of one name in one segment, where only times and owners decide. Most
 * queries spend most of their time here.
 */

import { OWNER_BITS } from '../../../rules/analytics/event-columns.ts'
import { OWNER_HAS_SINCE, type OwnerTable } from '../../identity/owner-table.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import { heldRange, type SegmentTimes } from './event-scan-columns.ts'
import type { PassingValues } from './event-scan-pairs.ts'
import type { ScanRows } from './event-scan-rows.ts'

/**
 * The positions that a first pass over rows has found, for a second pass. All scans of the thread share this memory,
 * because only one scan runs at a time.
 */
const PLACES = new Uint16Array(SEGMENT_ROWS_MAX)
const NO_TIMES: SegmentTimes = { base: 0, offsets: new Uint32Array(0) }

/** A range of positions in a segment, and the conditions that decide which of its rows are found. */
export interface SegmentRange {
  /** For each position: the distinct ID number and the row. */
  readonly distinctIds: Uint32Array
  readonly rows: Uint16Array
  /** The sequence number of row 0. */
  readonly firstSequence: number
  /** The times, or null if they are not needed. */
  readonly times: SegmentTimes | null
  /** The time range in milliseconds. Both ends are inclusive. */
  readonly fromMs: number
  readonly toMs: number
  /** True if all rows of the segment are in the time range. */
  readonly isWithin: boolean
  readonly owners: OwnerTable
  /** An array with a 1 at the number of each requested person. Null means all persons. */
  readonly wanted: Uint8Array | null
  /**
   * A bit set: 1 for each distinct ID number that belongs to a requested person. Null if these bits cannot decide which
   * rows are found.
   */
  readonly wantedIds: Uint32Array | null
  readonly hasSequences: boolean
  /** True if the result contains distinct ID numbers instead of owners. */
  readonly areIds: boolean
  /** True if only erased rows are excluded for lack of an owner. */
  readonly areAll: boolean
  /** True if `areAll` is true, no row was erased, and only the times are needed. `distinctIds` is then empty. */
  readonly areTimesAlone: boolean
  /**
   * True if `areAll` is true, no row was erased, and the times are not needed. The result is then a slice of
   * `distinctIds`.
   */
  readonly isTaken: boolean
}

/**
 * Adds the persons, times and sequence numbers of the rows that are found between the positions `start` and `end`
 * (exclusive). `target` must have room for all of them.
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
    // Erased rows have no distinct ID number, and therefore no owner.
    count += owner === 0 ? 0 : 1
  }
  target.count = count
}

/** Returns whether the bit of a number is set. */
export function hasBit(bits: Uint32Array, number: number): boolean {
  return (((bits[number >>> 5] ?? 0) >>> (number & 31)) & 1) === 1
}

/** Stores in `PLACES` the positions of rows with a wanted distinct ID number. Returns their number. */
function wantedPlaces(
  distinctIds: Uint32Array,
  bits: Uint32Array,
  start: number,
  end: number,
): number {
  let found = 0
  for (let place = start; place < end; place++) {
    const distinctId = distinctIds[place] ?? 0
    // Always write, without a branch: the owner of the next row is unpredictable, and a mispredicted branch costs more
    // than the write.
    PLACES[found] = place
    found += ((bits[distinctId >>> 5] ?? 0) >>> (distinctId & 31)) & 1
  }
  return found
}

/** Adds the rows at the first `found` positions in `PLACES`. Their distinct ID numbers belong to requested persons. */
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
    // Events that are older than the deletion of their person have no owner.
    count += owner === 0 ? 0 : 1
  }
  target.count = count
}

/** Adds the distinct ID numbers of rows that were not erased, with their times. */
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

/** Adds only times. Call it only if no row was erased. */
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
 * Adds the distinct ID numbers and times of rows whose value passes and that were not erased. `target` must have room
 * for all of them. Call it only if owners do not decide which rows are found.
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
 * Stores in `PLACES` the positions of rows whose value passes. Returns their number. This is a separate pass, because
 * most rows usually do not pass.
 */
function placesOf({ column, isPassed }: PassingValues, start: number, end: number): number {
  const { ids, first } = column
  const { from, to } = heldRange(column, start, end)
  const isNonePassed = isPassed[0] === 1
  let found = 0
  if (isNonePassed) for (let place = start; place < from; place++) PLACES[found++] = place
  for (let place = from; place < to; place++) {
    // Always write, without a branch: the result is unpredictable, and a mispredicted branch costs more than the write.
    PLACES[found] = place
    found += isPassed[ids[place - first] ?? 0] ?? 0
  }
  if (isNonePassed) for (let place = to; place < end; place++) PLACES[found++] = place
  return found
}

/** Returns the owner of an event whose distinct_id has once lost its owner. Returns 0 for events before that time. */
function ownerSince(
  { owners, distinctIds, rows, firstSequence }: SegmentRange,
  place: number,
): number {
  const distinctId = distinctIds[place] ?? 0
  const sequence = firstSequence + (rows[place] ?? 0)
  if (sequence <= (owners.since.get(distinctId) ?? 0)) return 0
  return (owners.words[distinctId] ?? 0) & OWNER_BITS
}
