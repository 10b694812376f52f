/**
 * The innermost loop of scans: the rows of one name in one segment, where nothing but time and owner
 * decides. Most questions spend most of their time here.
 */

import { OWNER_BITS } from '../../../rules/analytics/event-columns.ts'
import { OWNER_HAS_SINCE, type OwnerTable } from '../../identity/owner-table.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import type { SegmentTimes } from './event-scan-columns.ts'
import type { PassingValues } from './event-scan-pairs.ts'
import type { ScanRows } from './event-scan-rows.ts'

/** Places that a first pass has found for a second one. */
const PLACES = new Uint16Array(SEGMENT_ROWS_MAX)
const NO_TIMES: SegmentTimes = { base: 0, offsets: new Uint32Array(0) }

/** Places of a segment and what decides about them. */
export interface Stretch {
  /** D, and the row, of each place. */
  readonly distinctIds: Uint32Array
  readonly rows: Uint16Array
  /** S of row 0. */
  readonly firstSequence: number
  /** Null: nobody wants to know them. */
  readonly times: SegmentTimes | null
  /** Both inclusive, milliseconds. */
  readonly fromMs: number
  readonly toMs: number
  /** All rows are in that range. */
  readonly isWithin: boolean
  readonly owners: OwnerTable
  /** 1 for each P that is asked for; null: everybody. */
  readonly wanted: Uint8Array | null
  /** The bits of the D that these have; null: no D tells. */
  readonly wantedIds: Uint32Array | null
  readonly hasSequences: boolean
  /** The D of a row stands in the place of its owner. */
  readonly areIds: boolean
  /** And owners do not decide. */
  readonly areAll: boolean
  /** And nothing but their times is looked at, and no row was erased: `distinctIds` is empty. */
  readonly areTimesAlone: boolean
  /** And neither do times, nothing else is looked at, and no row was erased: the rows are `distinctIds` as they are. */
  readonly isTaken: boolean
}

/**
 * Adds persons, times and sequences of the rows that pass, from the first place up to, but not including, `end`;
 * there must be room for all of them.
 */
export function addStretch(stretch: Stretch, start: number, end: number, target: ScanRows): void {
  if (stretch.areTimesAlone && stretch.times !== null) {
    target.count = addTimes(stretch, stretch.times, start, end, target)
    return
  }
  if (stretch.areAll && !stretch.hasSequences && stretch.times !== null) {
    addTimedIds(stretch, stretch.times, start, end, target)
    return
  }
  if (stretch.wantedIds !== null) {
    addWanted(stretch, wantedPlaces(stretch.distinctIds, stretch.wantedIds, start, end), target)
    return
  }
  const { distinctIds, isWithin, fromMs, toMs, times, wanted, areIds } = stretch
  const { words } = stretch.owners
  const { timesMs, persons, sequences } = target
  const base = times?.base ?? 0
  const offsets = times?.offsets ?? null
  let { count } = target
  for (let place = start; place < end; place++) {
    const distinctId = distinctIds[place] ?? 0
    let owner = words[distinctId] ?? 0
    if (owner >= OWNER_HAS_SINCE) owner = ownerSince(stretch, place)
    if (wanted !== null && wanted[owner] !== 1) continue
    if (offsets !== null) {
      const timeMs = base + (offsets[place] ?? 0)
      if (!isWithin && (timeMs < fromMs || timeMs > toMs)) continue
      timesMs[count] = timeMs
    }
    if (stretch.hasSequences) {
      sequences[count] = stretch.firstSequence + (stretch.rows[place] ?? 0)
    }
    persons[count] = areIds ? distinctId : owner
    // Deleted rows have no distinct_id, and so no owner.
    count += owner === 0 ? 0 : 1
  }
  target.count = count
}

/** Whether the bit of a number is set. */
export function hasBit(bits: Uint32Array, number: number): boolean {
  return (((bits[number >>> 5] ?? 0) >>> (number & 31)) & 1) === 1
}

/** Notes where the D are that are wanted, and says how many. */
function wantedPlaces(
  distinctIds: Uint32Array,
  bits: Uint32Array,
  start: number,
  end: number,
): number {
  let found = 0
  for (let place = start; place < end; place++) {
    const distinctId = distinctIds[place] ?? 0
    // Written in any case: nobody can foretell whose the next row is, and a wrong guess costs more.
    PLACES[found] = place
    found += ((bits[distinctId >>> 5] ?? 0) >>> (distinctId & 31)) & 1
  }
  return found
}

/** The first `found` rows of `PLACES`, whose D belong to those who are asked for. */
function addWanted(stretch: Stretch, found: number, target: ScanRows): void {
  const { distinctIds, isWithin, fromMs, toMs, areIds, hasSequences, rows } = stretch
  const { words } = stretch.owners
  const { timesMs, persons, sequences } = target
  const { base, offsets } = stretch.times ?? NO_TIMES
  const hasTimes = stretch.times !== null
  let { count } = target
  for (let index = 0; index < found; index++) {
    const place = PLACES[index] ?? 0
    const distinctId = distinctIds[place] ?? 0
    let owner = words[distinctId] ?? 0
    if (owner >= OWNER_HAS_SINCE) owner = ownerSince(stretch, place)
    if (hasTimes) {
      const timeMs = base + (offsets[place] ?? 0)
      timesMs[count] = timeMs
      if (!isWithin && (timeMs < fromMs || timeMs > toMs)) continue
    }
    persons[count] = areIds ? distinctId : owner
    if (hasSequences) sequences[count] = stretch.firstSequence + (rows[place] ?? 0)
    // What an owner had before it was deleted belongs to nobody.
    count += owner === 0 ? 0 : 1
  }
  target.count = count
}

/** The D of rows that were not erased, with their times. */
function addTimedIds(
  { distinctIds, fromMs, toMs }: Stretch,
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

/** Times alone, where no row was erased. */
function addTimes(
  { fromMs, toMs, isWithin }: Stretch,
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
 * Adds the D and the times of rows whose value passes, and that were not erased; there must be room for all.
 * Only where owners do not decide.
 */
export function addPassing(
  stretch: Stretch,
  passing: PassingValues,
  start: number,
  end: number,
  target: ScanRows,
): void {
  const { distinctIds, fromMs, toMs, times, areTimesAlone } = stretch
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

/** Notes where the values that pass are, and says how many: in a pass of its own, since most rows mostly do not. */
function placesOf(
  { column: { ids }, isPassed }: PassingValues,
  start: number,
  end: number,
): number {
  let found = 0
  for (let place = start; place < end; place++) {
    // Written in any case: nobody can foretell which pass, and a wrong guess costs more.
    PLACES[found] = place
    found += isPassed[ids[place] ?? 0] ?? 0
  }
  return found
}

/** The owner of a D whose earlier events belong to nobody. */
function ownerSince({ owners, distinctIds, rows, firstSequence }: Stretch, place: number): number {
  const distinctId = distinctIds[place] ?? 0
  const sequence = firstSequence + (rows[place] ?? 0)
  if (sequence <= (owners.since.get(distinctId) ?? 0)) return 0
  return (owners.words[distinctId] ?? 0) & OWNER_BITS
}
