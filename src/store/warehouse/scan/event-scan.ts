/**
 * Scans of stored events for analytic queries (port: rules/analytics/event-columns.ts). Segments that cannot match
 * are skipped by their times and the names in their headers; of the others only the columns that matter
 * are decoded, and kept for the next query. Rows are picked by name and time,
 * then by filters on the event alone, then by owner, then by the other filters. All on the snapshot that
 * the reader is at.
 */
import { ServiceError } from '../../../base/errors.ts'
import type { ScanLimits } from '../../../ports/warehouse.ts'
import type { DateRange } from '../../../rules/analytics/date-range.ts'
import type {
  CreatedPersons,
  EventColumns,
  EventExtent,
  EventScanner,
  EventScanRequest,
  SettledEvents,
  ValueColumn,
  ValueRequest,
} from '../../../rules/analytics/event-columns.ts'
import { OWNER_HAS_SINCE, PERSON_NUMBER_MAX } from '../../identity/person-owners.ts'
import { loadPerson } from '../../identity/person-records.ts'
import type { EventTables } from '../../lmdb/keys.ts'
import { emptyCounters, loadCounters } from '../format/event-projects.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import type { SegmentReader } from '../format/segment-reader.ts'
import { SCAN_ROWS_MAX, SEGMENT_ROWS_MAX } from '../limits.ts'
import { ScanCache, type ScanSegment } from './event-scan-cache.ts'
import { FactCache, type ProjectFacts } from './event-scan-facts.ts'
import { type Candidates, keepMarked, newCandidates, type RowFilter } from './event-scan-filter.ts'
import { NamePicker } from './event-scan-names.ts'
import { readAt } from './event-scan-places.ts'
import {
  filterOf,
  firstDistinctId,
  isInPart,
  needsPersons,
  wantedPersons,
} from './event-scan-request.ts'
import { RowPool, type ScanRows } from './event-scan-rows.ts'
import { ScanSeries } from './event-scan-series.ts'
import { addStretch, type Stretch } from './event-scan-stretch.ts'
import { type ValueReader, valueColumn, valueReader } from './event-scan-values.ts'
import { SettledProjects } from './settled-events.ts'

const ALWAYS = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY }
/** Of the memory for decoded columns: as much is kept, at most, for each of two results. */
const ROWS_SHARE = 4
/** And as much for what is made of events. */
const VALUE_SHARE = 8

/** What the scans of one thread keep between queries. */
export class ScanStore {
  readonly tables: EventTables
  readonly segments: SegmentReader
  readonly cache: ScanCache
  readonly facts: FactCache
  readonly rows: RowPool
  /** Of all values made of events that are kept. */
  readonly valueBytesMax: number
  readonly settled: SettledProjects

  /** `cacheBytesMax`: bytes of decoded columns that are kept. */
  constructor(tables: EventTables, segments: SegmentReader, cacheBytesMax: number) {
    this.tables = tables
    this.segments = segments
    this.cache = new ScanCache(segments, cacheBytesMax)
    this.rows = new RowPool(cacheBytesMax / ROWS_SHARE)
    this.facts = new FactCache(tables)
    this.valueBytesMax = cacheBytesMax / VALUE_SHARE
    this.settled = new SettledProjects(segments)
  }

  /** Bytes of decoded columns that are kept: an estimate. */
  get cachedBytes(): number {
    return this.cache.bytes
  }

  /** How many segments these columns are of. */
  get cachedSegments(): number {
    return this.cache.segmentCount
  }

  /** A scanner for one query. What scanners of earlier queries have found is not valid any more. */
  scanner(limits: ScanLimits): EventScanner {
    this.rows.takeBack()
    return new SegmentScanner(this, limits)
  }
}

class SegmentScanner implements EventScanner {
  readonly #store: ScanStore
  readonly #limits: ScanLimits
  looksAtPersons = false
  /** Those of the last project: a scanner lives as long as its snapshot. */
  #known: ProjectFacts | null = null

  constructor(store: ScanStore, limits: ScanLimits) {
    this.#store = store
    this.#limits = limits
  }

  scan(request: EventScanRequest): EventColumns {
    const facts = this.#factsOf(request.projectId)
    this.looksAtPersons ||= needsPersons(request)
    const { segments, cache, rows } = this.#store
    const target = rows.lend(request.values.length)
    const scan = new Scan(request, facts, target, this.#limits.rowsMax ?? SCAN_ROWS_MAX)
    const summaries = segments.allSummaries(request.projectId)
    cache.beginScan(request.projectId, summaries)
    for (const summary of summaries) {
      if (!scan.mayMatch(summary) || !isInPart(summary, request.part)) continue
      this.checkLimits()
      cache.use(summary, (segment) => scan.add(segment))
    }
    return scan.finish()
  }

  extent(projectId: number, range: DateRange | null): EventExtent {
    const { tables, segments } = this.#store
    const { fromMs, toMs } = range ?? ALWAYS
    let events = 0
    for (const summary of segments.allSummaries(projectId)) {
      const { firstTimestampMs, lastTimestampMs, rows } = summary
      if (lastTimestampMs >= fromMs && firstTimestampMs <= toMs) events += rows
    }
    const { rows, generation, bytes } = loadCounters(tables.projects, projectId) ?? emptyCounters()
    const { position } = this.#factsOf(projectId)
    return { events, state: [position, rows, generation, bytes].join(' ') }
  }

  settled(projectId: number): SettledEvents {
    return this.#store.settled.of(projectId, this.#factsOf(projectId).owners)
  }

  valuesAt(
    projectId: number,
    sequences: Uint32Array,
    values: readonly ValueRequest[],
  ): readonly ValueColumn[] {
    const readers = values.map((value) => valueReader(value, this.#factsOf(projectId)))
    const { segments, cache } = this.#store
    const summaries = segments.allSummaries(projectId)
    cache.beginScan(projectId, summaries)
    return readAt(sequences, readers, summaries, (summary, read) => {
      this.checkLimits()
      cache.use(summary, read)
    })
  }

  remembered<Value extends { readonly bytes: number }>(
    projectId: number,
    name: string,
    make: () => Value,
  ): Value {
    const { state } = this.extent(projectId, null)
    return this.#factsOf(projectId).kept(name, state, this.#store.valueBytesMax, make)
  }

  giveBack(): void {
    this.#store.rows.takeBack()
  }

  firstEventMs(projectId: number): number | null {
    let first = Number.POSITIVE_INFINITY
    for (const { firstTimestampMs } of this.#store.segments.allSummaries(projectId)) {
      if (firstTimestampMs < first) first = firstTimestampMs
    }
    return Number.isFinite(first) ? first : null
  }

  personUuid(projectId: number, person: number): string {
    return loadPerson(this.#store.tables, projectId, person)?.uuid ?? ''
  }

  uuidPrefix(projectId: number, person: number): number {
    return this.#factsOf(projectId).uuidPrefix(person)
  }

  createdWithin(projectId: number, fromMs: number, untilMs: number): CreatedPersons {
    this.looksAtPersons = true
    return this.#factsOf(projectId).createdWithin(fromMs, untilMs)
  }

  #factsOf(projectId: number): ProjectFacts {
    if (this.#known?.projectId !== projectId) {
      this.#known = this.#store.facts.facts(projectId)
      this.#known.limitBy(() => this.checkLimits())
    }
    return this.#known
  }

  checkLimits(): void {
    const { deadlineMs, isCancelled } = this.#limits
    if (isCancelled()) throw new ServiceError('query_timeout', 'nobody waits for the answer')
    if (performance.now() > deadlineMs) {
      const detail =
        'the query takes too long: ask for a shorter range of time or fewer events, or allow more time by the setting query_timeout_ms'
      throw new ServiceError('query_timeout', detail)
    }
  }
}

/** One scan on its way through the segments. */
class Scan {
  readonly #request: EventScanRequest
  readonly #facts: ProjectFacts
  readonly #rowsMax: number
  /** Rows have to come in order of time. */
  readonly #isOrdered: boolean
  readonly #hasSequences: boolean
  readonly #keepsOwnerless: boolean
  readonly #series: ScanSeries
  readonly #filter: RowFilter | null
  readonly #readers: readonly ValueReader[]
  readonly #rows: ScanRows
  readonly #picker: NamePicker
  readonly #marks = new Uint8Array(SEGMENT_ROWS_MAX)
  /** 1 for each P that is asked for; null: everybody. */
  readonly #wanted: Uint8Array | null
  /** The smallest D of somebody who is asked for. */
  readonly #firstDistinctId: number
  #candidates: Candidates | null = null

  constructor(request: EventScanRequest, facts: ProjectFacts, rows: ScanRows, rowsMax: number) {
    this.#request = request
    this.#facts = facts
    this.#rowsMax = rowsMax
    this.#isOrdered = request.order === undefined || request.order === 'time'
    this.#hasSequences = request.order !== 'any'
    this.#keepsOwnerless = request.keepsOwnerless === true
    this.#series = new ScanSeries(request.series, facts)
    this.#filter = filterOf(request, facts)
    this.#readers = request.values.map((value) => valueReader(value, facts))
    this.#rows = rows
    this.#picker = new NamePicker(this.#isOrdered)
    this.#wanted = wantedPersons(request, facts.owners.words)
    this.#firstDistinctId = firstDistinctId(facts.owners.words, this.#wanted)
  }

  mayMatch({ firstTimestampMs, lastTimestampMs }: SegmentSummary): boolean {
    return lastTimestampMs >= this.#request.fromMs && firstTimestampMs <= this.#request.toMs
  }

  /** Adds the rows of a segment; when it throws, none of them. */
  add(segment: ScanSegment): void {
    if (!this.#series.mayMatch(segment)) return
    // A D is as old as its first event: older segments have none of it.
    if (this.#wanted !== null && segment.lastDistinctId < this.#firstDistinctId) return
    const nameMasks = this.#series.masksOf(segment.nameRows)
    const isPlain =
      this.#filter === null &&
      this.#readers.length === 0 &&
      !this.#isOrdered &&
      !this.#keepsOwnerless
    if (isPlain && !this.#series.haveFilters) this.#addPlainly(segment, nameMasks)
    else this.#addCandidates(segment, nameMasks)
    if (this.#rows.count > this.#rowsMax) throw tooManyRows(this.#rowsMax)
  }

  finish(): EventColumns {
    const rows = this.#rows
    if (this.#isOrdered) rows.sort()
    const { count } = rows
    const full = this.#request.isPersonsOnly === true ? 0 : count
    return {
      count,
      timesMs: rows.timesMs.subarray(0, full),
      persons: rows.persons.subarray(0, count),
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
    const stretch = this.#stretchOf(segment)
    for (let id = 0; id < nameMasks.length; id++) {
      const mask = nameMasks[id] ?? 0
      if (mask === 0) continue
      const start = this.#rows.count
      stretch.start = starts[id] ?? 0
      stretch.end = starts[id + 1] ?? 0
      addStretch(stretch, this.#rows)
      if (this.#request.isPersonsOnly === true) continue
      this.#rows.masks.fill(mask, start, this.#rows.count)
    }
  }

  #stretchOf(segment: ScanSegment): Stretch {
    const { fromMs, toMs, isPersonsOnly } = this.#request
    const { firstTimestampMs, lastTimestampMs, firstSequence, rows } = segment.summary
    const isWithin = firstTimestampMs >= fromMs && lastTimestampMs <= toMs
    this.#rows.reserve(rows)
    return {
      ...{ start: 0, end: 0, firstSequence, owners: this.#facts.owners, wanted: this.#wanted },
      ...{ fromMs, toMs, distinctIds: segment.distinctIds, rows: segment.nameRows.rows },
      times: isWithin && isPersonsOnly === true ? null : segment.times,
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
    this.#keepOwned(segment, candidates)
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
    if (summary.firstTimestampMs >= fromMs && summary.lastTimestampMs <= toMs) return
    const { base, offsets } = segment.times
    let count = 0
    for (let index = 0; index < picked; index++) {
      const place = places[index] ?? 0
      const time = base + (offsets[place] ?? 0)
      if (time < fromMs || time > toMs) continue
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
    const { words, since } = this.#facts.owners
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
        owner = sequence <= (since.get(distinctId) ?? 0) ? 0 : owner & PERSON_NUMBER_MAX
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
    target.persons.set(owners.subarray(0, count), start)
    target.count = start + count
    if (this.#request.isPersonsOnly === true) return
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

function tooManyRows(rowsMax: number): ServiceError {
  const detail = `the query concerns more than ${rowsMax} events: ask for a shorter range of time or fewer events`
  return new ServiceError('query_too_large', detail)
}
