/**
 * Computes the result of one scan, segment by segment. Rows are picked in several steps: first by name and time, then
 * by filters that need only the event, then by owner, and last by the other filters. Only the columns that are needed
 * are read.
 */
import { ServiceError } from '../../../base/errors.ts'
import {
  type EventColumns,
  type EventScanRequest,
  type LookedAt,
  OWNER_BITS,
  type ValueColumn,
} from '../../../rules/analytics/event-columns.ts'
import { OWNER_HAS_SINCE, type OwnerTable } from '../../identity/owner-table.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import { valueAt } from './event-scan-columns.ts'
import type { ProjectFacts } from './event-scan-facts.ts'
import { type Candidates, keepMarked, newCandidates, type RowFilter } from './event-scan-filter.ts'
import { NamePicker } from './event-scan-names.ts'
import { countPassing, type PassingValues, rowsOf, valueCounts } from './event-scan-pairs.ts'
import { addPassing, addRange, hasBit, type SegmentRange } from './event-scan-range.ts'
import {
  clippedRange,
  filterOf,
  isInRange,
  isTouched,
  isWhollyIn,
  type WantedEvents,
} from './event-scan-request.ts'
import type { ScanRows } from './event-scan-rows.ts'
import type { ScanSegment } from './event-scan-segment.ts'
import { ScanSeries } from './event-scan-series.ts'
import { type ValueReader, valueColumn, valueReader } from './event-scan-values.ts'
import type { NameCounts } from './segment-counts.ts'
import { type SessionPart, sessionPart } from './session-parts.ts'

const NO_IDS = new Uint32Array(0)
const NO_TIMES = new Float64Array(0)
const NO_VALUES: readonly ValueColumn[] = []

/** What a scan needs besides its request. */
export interface ScanBasis {
  readonly facts: ProjectFacts
  /** The owners of the distinct ID numbers, now or in an earlier state; see `EventPart.ownersAt`. */
  readonly owners: OwnerTable
  readonly wanted: WantedEvents
}

/** One scan. Call `add` for each segment that may have matching rows. */
export class Scan {
  readonly #request: EventScanRequest
  readonly #facts: ProjectFacts
  /** The owners of the distinct ID numbers, now or in an earlier state; see `EventPart.ownersAt`. */
  readonly #owners: OwnerTable
  readonly #rowsMax: number
  /** True if the caller wants the rows sorted by time. */
  readonly #isOrdered: boolean
  readonly #hasSequences: boolean
  readonly #keepsOwnerless: boolean
  /** True if the result contains distinct ID numbers instead of owners. */
  readonly #areIds: boolean
  readonly #series: ScanSeries
  readonly #filter: RowFilter | null
  readonly #readers: readonly ValueReader[]
  readonly #rows: ScanRows
  readonly #picker: NamePicker
  readonly #marks = new Uint8Array(SEGMENT_ROWS_MAX)
  readonly #wanted: WantedEvents['persons']
  readonly #wantedIds: WantedEvents['ids']
  /** The start ranges of the requested sessions (session-starts.ts). Null: all sessions are requested. */
  readonly #startRanges: ReadonlySet<number> | null
  /** The part of the sessions to which this scan is limited. Null: it is not limited. */
  readonly #sessions: SessionPart | null
  /** Segments that only have smaller distinct ID numbers are skipped. */
  readonly #firstDistinctId: number
  /** True if a filter or a value needs the owner of each event. */
  readonly #needsOwners: boolean
  /**
   * True if rows are found only by name, time, owner and at most one filter for the whole request, and if no values are
   * read. The scan can then use faster paths.
   */
  readonly #isPlain: boolean
  /**
   * If the request reads only one value, and rows are found only by names and times: the reader of this value. The
   * events with each value can then be counted without reading them. In all other cases null.
   */
  readonly #split: ValueReader | null
  /**
   * If each row of the result stands for several events with the same value: the number of events for each row that the
   * last segment has added.
   */
  readonly #weights = new Uint32Array(SEGMENT_ROWS_MAX)
  #hasWeights = false
  #looksAt: LookedAt
  /**
   * Rows that are passed on without a copy: parts of the array of distinct ID numbers of the last segment that was
   * added. Null if the caller wants all rows at once.
   */
  readonly #shown: Uint32Array[] | null
  #candidates: Candidates | null = null

  constructor(
    request: EventScanRequest,
    { facts, owners, wanted }: ScanBasis,
    rows: ScanRows,
    { rowsMax, isInChunks }: { readonly rowsMax: number; readonly isInChunks: boolean },
  ) {
    this.#request = request
    this.#shown = isInChunks ? [] : null
    this.#facts = facts
    this.#owners = owners
    this.#rowsMax = rowsMax
    this.#isOrdered = request.order === undefined || request.order === 'time'
    this.#hasSequences = request.order !== 'any'
    // If no person was ever deleted, every event has an owner. The faster paths for events with owners can then be
    // used.
    this.#keepsOwnerless = request.keepsOwnerless === true && owners.since.size > 0
    this.#areIds = request.areIds === true
    this.#series = new ScanSeries(request.series, facts)
    this.#sessions = sessionPart(request.part)
    this.#filter = filterOf(request, facts)
    this.#readers = request.values.map((value) => valueReader(value, facts, request.areValuesLocal))
    this.#rows = rows
    const isPickedInOrder = this.#isOrdered || request.order === 'arrival'
    this.#picker = new NamePicker(isPickedInOrder)
    this.#wanted = wanted.persons
    this.#wantedIds = wanted.ids
    this.#firstDistinctId = wanted.firstDistinctId
    const { sessions } = request
    this.#startRanges = sessions === undefined ? null : facts.sessions.startRangesOf(sessions)
    this.#looksAt = request.isPersonsOnly === true ? 'persons' : 'all'
    const isWhole = this.#sessions === null
    const mayHoldSessions =
      isWhole && !isPickedInOrder && !this.#keepsOwnerless && !this.#series.haveFilters
    const [reader] = this.#readers
    this.#isPlain = mayHoldSessions && this.#readers.length === 0
    const isSplit = mayHoldSessions && this.#readers.length === 1 && this.#filter === null
    this.#split = isSplit && reader?.columnOf !== undefined ? reader : null
    this.#needsOwners =
      this.#wanted !== null ||
      this.#filter?.needsOwners === true ||
      this.#series.haveFilters ||
      request.values.some(({ kind }) => kind === 'person_property')
  }

  /**
   * Calls `show` with the rows that were found since the last call, in one or several chunks. A value has the same
   * number in all chunks.
   */
  showChunks(show: (chunk: EventColumns) => void): void {
    const rest = { timesMs: NO_TIMES, sequences: NO_IDS, seriesMasks: NO_IDS, values: NO_VALUES }
    for (const persons of this.#shown ?? []) {
      show({ count: persons.length, persons, ...rest, weights: undefined })
    }
    this.#shown?.splice(0)
    if (this.#rows.count > 0) show(this.finish())
    this.#rows.count = 0
  }

  /** Returns whether a segment may have rows in the requested range of time. */
  mayMatch(summary: SegmentSummary): boolean {
    return isTouched(summary, this.#request)
  }

  /**
   * Counts the matching rows of a segment from its header, without opening it. This works if rows are found only by
   * names and the caller needs only their number. Returns false if the segment must be opened.
   */
  addCounted(summary: SegmentSummary, names: NameCounts): boolean {
    const count = this.#series.countOf(names, summary.rows)
    if (count === 0) return true
    const { looksAt, soon = [], part } = this.#request
    const isByNames =
      this.#isPlain && this.#filter === null && !this.#needsOwners && this.#owners.since.size === 0
    if (!isByNames || soon.length > 0 || !names.isWhole) return false
    if (!isInRange(summary, this.#request) || !isWhollyIn(summary, part)) return false
    if (looksAt?.(clippedRange(summary, this.#request)) !== 'count') return false
    this.#looksAt = 'count'
    this.#hasWeights = false
    this.#rows.count += count
    this.#checkRows()
    return true
  }

  /** Adds the rows of a segment. If it throws, no rows were added. */
  add(segment: ScanSegment): void {
    // A distinct ID number is assigned with its first event. So if all distinct ID numbers of the requested persons are
    // larger than those of the segment, the segment has none of their events.
    if (this.#wanted !== null && segment.lastDistinctId < this.#firstDistinctId) return
    if (this.#startRanges !== null && !segment.mayHoldSessions(this.#startRanges)) return
    if (this.#sessions?.mayHold(segment) === false) return
    const nameMasks = this.#series.masksOf(segment.nameRows)
    const { looksAt } = this.#request
    if (looksAt !== undefined) this.#looksAt = looksAt(clippedRange(segment.summary, this.#request))
    this.#hasWeights = false
    const isWhole = isWhollyIn(segment.summary, this.#request.part)
    const isDone =
      isWhole && (this.#addPlainly(segment, nameMasks) || this.#addSplit(segment, nameMasks))
    if (!isDone) this.#addCandidates(segment, nameMasks)
    for (const key of this.#request.soon ?? []) segment.property(key, this.#facts.textOf)
    this.#checkRows()
  }

  #checkRows(): void {
    if (this.#rows.count > this.#rowsMax) throw tooManyRows(this.#rowsMax)
  }

  finish(): EventColumns {
    const rows = this.#rows
    if (this.#isOrdered) rows.sort()
    const { count } = rows
    const looksAt = this.#looksAt
    const isFull = looksAt === 'all'
    return {
      count,
      timesMs: isFull || looksAt === 'times' ? rows.timesMs.subarray(0, count) : NO_TIMES,
      persons: isFull || looksAt === 'persons' ? rows.persons.subarray(0, count) : NO_IDS,
      sequences: this.#hasSequences ? rows.sequences.subarray(0, count) : NO_IDS,
      seriesMasks: isFull ? rows.masks.subarray(0, count) : NO_IDS,
      values:
        this.#readers.length === 0
          ? NO_VALUES
          : this.#readers.map((reader, index) =>
              valueColumn(rows.values[index] ?? NO_IDS, count, reader),
            ),
      weights: this.#hasWeights ? this.#weights.subarray(0, count) : undefined,
    }
  }

  /**
   * Adds the matching rows in one pass for each name. This works if rows are found only by names, times, owners and one
   * column. Returns false if it does not work.
   */
  #addPlainly(segment: ScanSegment, nameMasks: readonly number[]): boolean {
    if (!this.#isPlain) return false
    const { starts } = segment.nameRows
    const filter = this.#filter
    let passing: PassingValues | null = null
    if (filter !== null) {
      if (filter.passing === undefined || !this.#areAll || this.#hasSequences) return false
      passing = filter.passing(segment, rowsOf(starts, nameMasks))
      if (passing === null) return false
    }
    if (passing !== null && this.#looksAt === 'count' && this.#isCounted(segment)) {
      const pairs = segment.pairs(passing.column)
      this.#rows.count += countPassing(segment.nameRows, pairs, passing, nameMasks)
      return true
    }
    const range = this.#rangeIn(segment)
    for (let id = 0; id < nameMasks.length; id++) {
      const mask = nameMasks[id] ?? 0
      if (mask === 0) continue
      const start = this.#rows.count
      const [first, end] = [starts[id] ?? 0, starts[id + 1] ?? 0]
      if (passing !== null) addPassing(range, passing, first, end, this.#rows)
      else if (range.isTaken && this.#shown !== null) {
        this.#shown.push(range.distinctIds.subarray(first, end))
      } else addRange(range, first, end, this.#rows)
      if (this.#looksAt !== 'all') continue
      this.#rows.masks.fill(mask, start, this.#rows.count)
    }
    return true
  }

  /**
   * Adds one row for each value, with the number of events that have the value. Returns false, without adding rows, if
   * more than these numbers is needed or if this would not be worthwhile.
   */
  #addSplit(segment: ScanSegment, nameMasks: readonly number[]): boolean {
    const split = this.#split
    if (split?.columnOf === undefined || this.#looksAt !== 'count') return false
    if (!isInRange(segment.summary, this.#request) || !this.#isAllOwned(segment)) return false
    const column = split.columnOf(segment)
    const { values } = column
    if (values.length > rowsOf(segment.nameRows.starts, nameMasks)) return false
    const counts = valueCounts(segment.nameRows, segment.pairs(column), column, nameMasks)
    const rows = this.#rows
    rows.reserve(values.length)
    const [numbers] = rows.values
    for (let value = 0; value < values.length; value++) {
      const count = counts[value] ?? 0
      if (count === 0 || numbers === undefined) continue
      numbers[rows.count] = split.numberOf?.(valueAt(values, value)) ?? 0
      this.#weights[rows.count++] = count
    }
    this.#hasWeights = true
    return true
  }

  /** Returns whether all rows of a segment are in the requested range of time and none of them was erased. */
  #isCounted({ summary, hasDeletedRows }: ScanSegment): boolean {
    return isInRange(summary, this.#request) && !hasDeletedRows
  }

  /** Returns whether the owners of events are not needed, and every row of the segment has one. */
  #isAllOwned(segment: ScanSegment): boolean {
    const isLookedAt = this.#looksAt === 'all' || this.#looksAt === 'persons'
    const isNeeded = (isLookedAt && !this.#areIds) || this.#needsOwners
    return !isNeeded && this.#owners.since.size === 0 && !segment.hasDeletedRows
  }

  /** True if the owners of events are not needed, and all rows except erased ones have one. */
  get #areAll(): boolean {
    const isOfNobody = this.#areIds || this.#looksAt === 'times' || this.#looksAt === 'count'
    return isOfNobody && this.#owners.since.size === 0 && this.#wanted === null
  }

  #rangeIn(segment: ScanSegment): SegmentRange {
    const { fromMs, toMs } = this.#request
    const { firstSequence, rows } = segment.summary
    const isWithin = isInRange(segment.summary, this.#request)
    const hasTimes = !isWithin || this.#looksAt === 'all' || this.#looksAt === 'times'
    this.#rows.reserve(rows)
    const areAll = this.#areAll
    const areTimesAlone =
      areAll && this.#looksAt === 'times' && !this.#hasSequences && !segment.hasDeletedRows
    return {
      areIds: this.#areIds,
      areAll,
      areTimesAlone,
      isTaken:
        this.#areIds && areAll && !hasTimes && !this.#hasSequences && !segment.hasDeletedRows,
      firstSequence,
      owners: this.#owners,
      wanted: this.#wanted,
      wantedIds: this.#wantedIds,
      fromMs,
      toMs,
      distinctIds: areTimesAlone ? NO_IDS : segment.distinctIds,
      rows: segment.nameRows.rows,
      times: hasTimes ? segment.times : null,
      isWithin,
      hasSequences: this.#hasSequences,
    }
  }

  #addCandidates(segment: ScanSegment, nameMasks: readonly number[]): void {
    this.#candidates ??= newCandidates(segment)
    const candidates = this.#candidates
    candidates.segment = segment
    this.#pick(segment, nameMasks, candidates)
    if (candidates.count === 0) return
    this.#sessions?.keepOwn(candidates, this.#facts, this.#marks)
    const filter = this.#filter
    if (filter?.keep !== undefined) filter.keep(candidates)
    else if (filter?.needsOwners === false) this.#keepPassing(candidates, filter)
    const keepOfOnly = this.#series.keepOfOnly
    keepOfOnly?.(candidates)
    if (!this.#isAllOwned(segment)) this.#keepOwned(segment, candidates)
    if (filter?.needsOwners === true) this.#keepPassing(candidates, filter)
    const isLeft = this.#series.haveFilters && keepOfOnly === undefined
    if (candidates.count > 0 && isLeft) this.#restrict(candidates)
    if (candidates.count > 0) this.#append(segment, candidates)
  }

  /**
   * Picks the rows with matching names and times as candidates. Each candidate gets a bit mask of the series to which
   * it may belong by its name.
   */
  #pick(segment: ScanSegment, nameMasks: readonly number[], candidates: Candidates): void {
    const { nameRows, summary } = segment
    const { places, masks } = candidates
    const picked = this.#picker.pick(nameRows, nameMasks, candidates)
    candidates.count = picked
    const { fromMs, toMs } = this.#request
    const wantedIds = this.#wantedIds
    if (wantedIds !== null) {
      const { distinctIds } = segment
      let few = 0
      for (let index = 0; index < picked; index++) {
        const place = places[index] ?? 0
        if (!hasBit(wantedIds, distinctIds[place] ?? 0)) continue
        places[few] = place
        masks[few++] = masks[index] ?? 0
      }
      candidates.count = few
    }
    const isWhole = isWhollyIn(summary, this.#request.part)
    if (candidates.count === 0 || (isInRange(summary, this.#request) && isWhole)) return
    const { base, offsets } = segment.times
    const { after = 0, through = 0 } = this.#request.part?.sequences ?? {}
    let count = 0
    for (let index = 0; index < candidates.count; index++) {
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

  /**
   * Looks up the owners of the candidates. Removes candidates whose owner is not requested, and candidates without an
   * owner unless the request includes them.
   */
  #keepOwned(segment: ScanSegment, candidates: Candidates): void {
    const { distinctIds, nameRows, summary } = segment
    const { words, since } = this.#owners
    const wanted = this.#wanted
    const { places, owners, masks } = candidates
    let count = 0
    for (let index = 0; index < candidates.count; index++) {
      const place = places[index] ?? 0
      const distinctId = distinctIds[place] ?? 0
      // An erased row has the distinct ID number 0, and therefore no owner.
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

  /**
   * Removes each candidate from the series whose filters it does not pass. A candidate that then belongs to no series
   * is removed completely.
   */
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
    if (this.#looksAt === 'times') {
      this.#appendTimes(segment, candidates, start)
      return
    }
    if (this.#areIds) {
      for (let index = 0; index < count; index++) {
        target.persons[start + index] = segment.distinctIds[places[index] ?? 0] ?? 0
      }
    } else target.persons.set(owners.subarray(0, count), start)
    if (this.#looksAt === 'persons') return
    target.masks.set(masks.subarray(0, count), start)
    this.#appendTimes(segment, candidates, start)
    if (!this.#hasSequences) return
    const { sequences } = target
    const { firstSequence } = segment.summary
    const { rows } = segment.nameRows
    for (let index = 0; index < count; index++) {
      sequences[start + index] = firstSequence + (rows[places[index] ?? 0] ?? 0)
    }
  }

  #appendTimes(segment: ScanSegment, { places, count }: Candidates, start: number): void {
    const { base, offsets } = segment.times
    const { timesMs } = this.#rows
    for (let index = 0; index < count; index++) {
      timesMs[start + index] = base + (offsets[places[index] ?? 0] ?? 0)
    }
  }
}

function tooManyRows(rowsMax: number): ServiceError {
  const detail = `The query would read more than ${rowsMax} events. Choose a shorter time range or fewer events.`
  return new ServiceError('query_too_large', detail)
}
