/**
 * One scan on its way through the segments: rows are picked by name and time, then by filters on the event
 * alone, then by owner, then by the other filters. What nobody looks at is not even read.
 */
import { ServiceError } from '../../../base/errors.ts'
import type { DateRange } from '../../../rules/analytics/date-range.ts'
import {
  type EventColumns,
  type EventScanRequest,
  type LookedAt,
  OWNER_BITS,
} from '../../../rules/analytics/event-columns.ts'
import { OWNER_HAS_SINCE, type OwnerTable } from '../../identity/owner-table.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import type { ScanSegment } from './event-scan-cache.ts'
import type { ProjectFacts } from './event-scan-facts.ts'
import { type Candidates, keepMarked, newCandidates, type RowFilter } from './event-scan-filter.ts'
import { NamePicker } from './event-scan-names.ts'
import { filterOf, firstDistinctId, isWhollyIn, wantedPersons } from './event-scan-request.ts'
import type { ScanRows } from './event-scan-rows.ts'
import { ScanSeries } from './event-scan-series.ts'
import { addStretch, type Stretch, takeStretch } from './event-scan-stretch.ts'
import { type ValueReader, valueColumn, valueReader } from './event-scan-values.ts'

/** One scan on its way through the segments. */
export class Scan {
  readonly #request: EventScanRequest
  readonly #facts: ProjectFacts
  /** Whose the events are, or were. */
  readonly #owners: OwnerTable
  readonly #rowsMax: number
  /** Rows have to come in order of time. */
  readonly #isOrdered: boolean
  readonly #hasSequences: boolean
  readonly #keepsOwnerless: boolean
  /** D in place of owners. */
  readonly #areIds: boolean
  readonly #series: ScanSeries
  readonly #filter: RowFilter | null
  readonly #readers: readonly ValueReader[]
  readonly #rows: ScanRows
  readonly #picker: NamePicker
  readonly #marks = new Uint8Array(SEGMENT_ROWS_MAX)
  /** 1 for each P that is asked for; null: everybody. */
  readonly #wanted: Uint8Array | null
  /** When sessions that are asked for began; null: any. */
  readonly #stretches: ReadonlySet<number> | null
  /** The smallest D of somebody who is asked for. */
  readonly #firstDistinctId: number
  /** Whether filters or values ask for owners. */
  readonly #needsOwners: boolean
  #looksAt: LookedAt
  #candidates: Candidates | null = null

  constructor(
    request: EventScanRequest,
    { facts, owners }: { readonly facts: ProjectFacts; readonly owners: OwnerTable },
    rows: ScanRows,
    rowsMax: number,
  ) {
    this.#request = request
    this.#facts = facts
    this.#owners = owners
    this.#rowsMax = rowsMax
    this.#isOrdered = request.order === undefined || request.order === 'time'
    this.#hasSequences = request.order !== 'any'
    // As long as nobody was deleted, nothing belongs to nobody: the quicker ways do.
    this.#keepsOwnerless = request.keepsOwnerless === true && owners.since.size > 0
    this.#areIds = request.areIds === true
    this.#series = new ScanSeries(request.series, facts)
    this.#filter = filterOf(request, facts)
    this.#readers = request.values.map((value) => valueReader(value, facts))
    this.#rows = rows
    this.#picker = new NamePicker(this.#isOrdered)
    this.#wanted = wantedPersons(request, owners)
    this.#firstDistinctId = firstDistinctId(owners.words, this.#wanted)
    const { sessions } = request
    this.#stretches = sessions === undefined ? null : facts.sessions.stretchesOf(sessions)
    this.#looksAt = request.isPersonsOnly === true ? 'persons' : 'all'
    this.#needsOwners =
      this.#wanted !== null ||
      this.#filter?.needsOwners === true ||
      this.#series.haveFilters ||
      request.values.some(({ kind }) => kind === 'person_property')
  }

  /** Rows so far. */
  get count(): number {
    return this.#rows.count
  }

  /** Forgets the rows so far; values keep their numbers. */
  forget(): void {
    this.#rows.count = 0
  }

  mayMatch({ firstTimestampMs, lastTimestampMs }: SegmentSummary): boolean {
    return lastTimestampMs >= this.#request.fromMs && firstTimestampMs <= this.#request.toMs
  }

  /** Adds the rows of a segment; when it throws, none of them. */
  add(segment: ScanSegment): void {
    if (!this.#series.mayMatch(segment)) return
    // A D is as old as its first event: older segments have none of it.
    if (this.#wanted !== null && segment.lastDistinctId < this.#firstDistinctId) return
    if (this.#stretches !== null && !segment.mayHoldSessions(this.#stretches)) return
    const nameMasks = this.#series.masksOf(segment.nameRows)
    const { looksAt } = this.#request
    if (looksAt !== undefined) this.#looksAt = looksAt(within(segment.summary, this.#request))
    const isPlain =
      this.#filter === null &&
      isWhollyIn(segment.summary, this.#request.part) &&
      this.#readers.length === 0 &&
      !this.#isOrdered &&
      !this.#keepsOwnerless
    if (isPlain && !this.#series.haveFilters) this.#addPlainly(segment, nameMasks)
    else this.#addCandidates(segment, nameMasks)
    for (const key of this.#request.soon ?? []) segment.property(key, this.#facts.textOf)
    if (this.#rows.count > this.#rowsMax) throw tooManyRows(this.#rowsMax)
  }

  finish(): EventColumns {
    const rows = this.#rows
    if (this.#isOrdered) rows.sort()
    const { count } = rows
    const full = this.#looksAt === 'all' ? count : 0
    return {
      count,
      timesMs: rows.timesMs.subarray(0, full),
      persons: rows.persons.subarray(0, this.#looksAt === 'count' ? 0 : count),
      sequences: rows.sequences.subarray(0, this.#hasSequences ? count : 0),
      seriesMasks: rows.masks.subarray(0, full),
      values: this.#readers.map((reader, index) =>
        valueColumn(rows.values[index] ?? new Uint32Array(0), count, reader),
      ),
    }
  }

  /** Names and time alone decide: one pass over the rows of each name. */
  #addPlainly(segment: ScanSegment, nameMasks: Uint32Array): void {
    const { starts } = segment.nameRows
    const isCounted =
      this.#looksAt === 'count' &&
      isInRange(segment.summary, this.#request) &&
      this.#isAllOwned(segment)
    const stretch = isCounted ? null : this.#stretchOf(segment)
    for (let id = 0; id < nameMasks.length; id++) {
      const mask = nameMasks[id] ?? 0
      if (mask === 0) continue
      const start = this.#rows.count
      const [first, end] = [starts[id] ?? 0, starts[id + 1] ?? 0]
      if (stretch === null) this.#rows.count += end - first
      else if (stretch.isTaken) takeStretch(stretch, first, end, this.#rows)
      else addStretch(stretch, first, end, this.#rows)
      if (this.#looksAt !== 'all') continue
      this.#rows.masks.fill(mask, start, this.#rows.count)
    }
  }

  /** Whether whose events they are neither has to be known nor leaves any of them out. */
  #isAllOwned(segment: ScanSegment): boolean {
    const isLookedAt = (this.#looksAt !== 'count' && !this.#areIds) || this.#needsOwners
    return !isLookedAt && this.#owners.since.size === 0 && !segment.hasDeletedRows
  }

  #stretchOf(segment: ScanSegment): Stretch {
    const { fromMs, toMs } = this.#request
    const { firstSequence, rows } = segment.summary
    const isWithin = isInRange(segment.summary, this.#request)
    const hasTimes = !isWithin || this.#looksAt === 'all'
    const areAll = this.#owners.since.size === 0 && this.#wanted === null
    this.#rows.reserve(rows)
    return {
      areIds: this.#areIds,
      isTaken: this.#areIds && areAll && !hasTimes && !this.#hasSequences,
      firstSequence,
      owners: this.#owners,
      wanted: this.#wanted,
      fromMs,
      toMs,
      distinctIds: segment.distinctIds,
      rows: segment.nameRows.rows,
      times: hasTimes ? segment.times : null,
      isWithin,
      hasSequences: this.#hasSequences,
    }
  }

  #addCandidates(segment: ScanSegment, nameMasks: Uint32Array): void {
    this.#candidates ??= newCandidates(segment)
    const candidates = this.#candidates
    candidates.segment = segment
    this.#pick(segment, nameMasks, candidates)
    const filter = this.#filter
    if (filter?.keep !== undefined) filter.keep(candidates)
    else if (filter?.needsOwners === false) this.#keepPassing(candidates, filter)
    if (!this.#isAllOwned(segment)) this.#keepOwned(segment, candidates)
    if (filter?.needsOwners === true) this.#keepPassing(candidates, filter)
    if (candidates.count > 0 && this.#series.haveFilters) this.#restrict(candidates)
    if (candidates.count > 0) this.#append(segment, candidates)
  }

  /** Candidates by name and time, with the series that they belong to by name. */
  #pick(segment: ScanSegment, nameMasks: Uint32Array, candidates: Candidates): void {
    const { nameRows, summary } = segment
    const { places, masks } = candidates
    const picked = this.#picker.pick(nameRows, nameMasks, candidates)
    candidates.count = picked
    const { fromMs, toMs } = this.#request
    const isWhole = isWhollyIn(summary, this.#request.part)
    if (isInRange(summary, this.#request) && isWhole) return
    const { base, offsets } = segment.times
    const { after = 0, through = 0 } = this.#request.part?.sequences ?? {}
    let count = 0
    for (let index = 0; index < picked; index++) {
      const place = places[index] ?? 0
      const time = base + (offsets[place] ?? 0)
      if (time < fromMs || time > toMs) continue
      const sequence = summary.firstSequence + (nameRows.rows[place] ?? 0)
      if (!isWhole && (sequence <= after || sequence > through)) continue
      places[count] = place
      masks[count++] = masks[index] ?? 0
    }
    candidates.count = count
  }

  #keepPassing(candidates: Candidates, filter: RowFilter): void {
    if (candidates.count === 0) return
    filter.mark(candidates, this.#marks)
    keepMarked(candidates, this.#marks)
  }

  /** Drops candidates that belong to nobody, or to nobody who is asked for. */
  #keepOwned(segment: ScanSegment, candidates: Candidates): void {
    const { distinctIds, nameRows, summary } = segment
    const { words, since } = this.#owners
    const wanted = this.#wanted
    const { places, owners, masks } = candidates
    let count = 0
    for (let index = 0; index < candidates.count; index++) {
      const place = places[index] ?? 0
      const distinctId = distinctIds[place] ?? 0
      // Deleted rows have no distinct_id, and so no owner.
      let owner = words[distinctId] ?? 0
      if (owner >= OWNER_HAS_SINCE) {
        const sequence = summary.firstSequence + (nameRows.rows[place] ?? 0)
        owner = sequence <= (since.get(distinctId) ?? 0) ? 0 : owner & OWNER_BITS
      }
      const isKept = owner !== 0 || (this.#keepsOwnerless && distinctId !== 0)
      if (!isKept || (wanted !== null && wanted[owner] !== 1)) continue
      places[count] = place
      masks[count] = masks[index] ?? 0
      owners[count++] = owner
    }
    candidates.count = count
  }

  /** Takes candidates out of series by the filters of those; who is in none is dropped. */
  #restrict(candidates: Candidates): void {
    const { masks } = candidates
    this.#series.restrict(candidates)
    for (let index = 0; index < candidates.count; index++) {
      this.#marks[index] = masks[index] === 0 ? 0 : 1
    }
    keepMarked(candidates, this.#marks)
  }

  #append(segment: ScanSegment, candidates: Candidates): void {
    const target = this.#rows
    const { places, owners, masks, count } = candidates
    target.reserve(count)
    const start = target.count
    for (const [index, reader] of this.#readers.entries()) {
      const ids = target.values[index]
      if (ids !== undefined) reader.read(candidates, ids, start)
    }
    target.count = start + count
    if (this.#looksAt === 'count') return
    if (this.#areIds) {
      for (let index = 0; index < count; index++) {
        target.persons[start + index] = segment.distinctIds[places[index] ?? 0] ?? 0
      }
    } else target.persons.set(owners.subarray(0, count), start)
    if (this.#looksAt === 'persons') return
    const { base, offsets } = segment.times
    target.masks.set(masks.subarray(0, count), start)
    const { timesMs, sequences } = target
    for (let index = 0; index < count; index++) {
      timesMs[start + index] = base + (offsets[places[index] ?? 0] ?? 0)
    }
    if (!this.#hasSequences) return
    const { firstSequence } = segment.summary
    const { rows } = segment.nameRows
    for (let index = 0; index < count; index++) {
      sequences[start + index] = firstSequence + (rows[places[index] ?? 0] ?? 0)
    }
  }
}

/** All times of a segment are in a range. */
function isInRange(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  range: DateRange,
): boolean {
  return firstTimestampMs >= range.fromMs && lastTimestampMs <= range.toMs
}

/** The part of a range that the times of a segment are in. */
export function within(
  { firstTimestampMs, lastTimestampMs }: SegmentSummary,
  { fromMs, toMs }: DateRange,
): DateRange {
  return { fromMs: Math.max(fromMs, firstTimestampMs), toMs: Math.min(toMs, lastTimestampMs) }
}

function tooManyRows(rowsMax: number): ServiceError {
  const detail = `the query concerns more than ${rowsMax} events: ask for a shorter range of time or fewer events`
  return new ServiceError('query_too_large', detail)
}
