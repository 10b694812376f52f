/**
 * Scans of stored events for analytic queries (port: query/event-columns.ts). Segments that cannot match
 * are skipped by their times and the names in their headers; of the others only the columns that matter
 * are decoded, and kept for the next query. Rows are picked by name and time,
 * then by filters on the event alone, then by owner, then by the other filters. All on the snapshot that
 * the reader is at.
 */
import { ServiceError } from '../base/errors.ts'
import type { EventColumns, EventScanner, EventScanRequest } from '../query/event-columns.ts'
import { ScanCache, type ScanSegment } from './event-scan-cache.ts'
import { FactCache, type FactTables, type ProjectFacts } from './event-scan-facts.ts'
import {
  type Candidates,
  compileFilter,
  keepMarked,
  newCandidates,
  type RowFilter,
} from './event-scan-filter.ts'
import { NamePicker } from './event-scan-names.ts'
import { RowPool, type ScanRows } from './event-scan-rows.ts'
import { ScanSeries } from './event-scan-series.ts'
import { type ValueReader, valueColumn, valueReader } from './event-scan-values.ts'
import { OWNER_HAS_SINCE, PERSON_NUMBER_MAX } from './person-owners.ts'
import { loadPerson } from './person-records.ts'
import { SEGMENT_ROWS_MAX } from './segment-builder.ts'
import type { SegmentCatalogue } from './segment-catalogue.ts'
import type { SegmentSummary } from './segment-format.ts'
import type { SegmentTables } from './segment-view.ts'

/** Rows that one scan may find. More: 400 `query_too_large`. A row takes 20 bytes and 4 for each value. */
export const SCAN_ROWS_MAX = 20_000_000

/** What bounds one query. */
export interface ScanLimits {
  /** By the clock of `performance.now()`. Later: 504 `query_timeout`. */
  readonly deadlineMs: number
  /** Whether nobody waits for the answer any more; asked between segments. */
  readonly isCancelled: () => boolean
  /** Default `SCAN_ROWS_MAX`. */
  readonly rowsMax?: number
}

/** What scans of one thread work with. */
export interface ScanStoreOptions {
  readonly tables: FactTables
  readonly segments: SegmentTables
  readonly catalogue: SegmentCatalogue
  readonly cacheBytesMax: number
  /** Runs a read; null when it met damage that somebody is told of. */
  readonly guarded: <T>(read: () => T) => T | null
}

/** What the scans of one thread keep between queries. */
export class ScanStore {
  readonly #options: ScanStoreOptions
  readonly #cache: ScanCache
  readonly #facts: FactCache
  readonly #rows = new RowPool()

  constructor(options: ScanStoreOptions) {
    this.#options = options
    this.#cache = new ScanCache(options.segments, options.cacheBytesMax)
    this.#facts = new FactCache(options.tables)
  }

  /** Bytes of decoded columns that are kept: an estimate. */
  get cachedBytes(): number {
    return this.#cache.bytes
  }

  /** A scanner for one query. What scanners of earlier queries have found is not valid any more. */
  scanner(limits: ScanLimits): EventScanner {
    this.#rows.takeBack()
    const caches = { segments: this.#cache, facts: this.#facts, rows: this.#rows }
    return new SegmentScanner(this.#options, caches, limits)
  }
}

interface ScanCaches {
  readonly segments: ScanCache
  readonly facts: FactCache
  readonly rows: RowPool
}

class SegmentScanner implements EventScanner {
  readonly #options: ScanStoreOptions
  readonly #caches: ScanCaches
  readonly #limits: ScanLimits
  /** Those of the last project: a scanner lives as long as its snapshot. */
  #known: ProjectFacts | null = null

  constructor(options: ScanStoreOptions, caches: ScanCaches, limits: ScanLimits) {
    this.#options = options
    this.#caches = caches
    this.#limits = limits
  }

  scan(request: EventScanRequest): EventColumns {
    const facts = this.#factsOf(request.projectId)
    const { segments, rows } = this.#caches
    const target = rows.lend(request.values.length)
    const scan = new Scan(request, facts, target, this.#limits.rowsMax ?? SCAN_ROWS_MAX)
    segments.beginScan()
    for (const summary of this.#options.catalogue.summaries(request.projectId)) {
      if (!scan.mayMatch(summary)) continue
      this.#checkLimits()
      this.#options.guarded(() => segments.use(summary, (segment) => scan.add(segment)))
    }
    return scan.finish()
  }

  firstEventMs(projectId: number): number | null {
    let first = Number.POSITIVE_INFINITY
    for (const { firstTimestampMs } of this.#options.catalogue.summaries(projectId)) {
      if (firstTimestampMs < first) first = firstTimestampMs
    }
    return Number.isFinite(first) ? first : null
  }

  personUuid(projectId: number, person: number): string {
    return loadPerson(this.#options.tables, projectId, person)?.uuid ?? ''
  }

  uuidPrefix(projectId: number, person: number): number {
    return this.#factsOf(projectId).uuidPrefix(person)
  }

  personCreatedMs(projectId: number, person: number): number {
    return this.#factsOf(projectId).createdMs(person)
  }

  #factsOf(projectId: number): ProjectFacts {
    if (this.#known?.projectId !== projectId) this.#known = this.#caches.facts.facts(projectId)
    return this.#known
  }

  #checkLimits(): void {
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
  readonly #isOrdered: boolean
  readonly #series: ScanSeries
  readonly #filter: RowFilter | null
  readonly #readers: readonly ValueReader[]
  readonly #rows: ScanRows
  readonly #picker: NamePicker
  readonly #marks = new Uint8Array(SEGMENT_ROWS_MAX)
  /** 1 for each P that is asked for; null: everybody. */
  readonly #wanted: Uint8Array | null
  #candidates: Candidates | null = null

  constructor(request: EventScanRequest, facts: ProjectFacts, rows: ScanRows, rowsMax: number) {
    this.#request = request
    this.#facts = facts
    this.#rowsMax = rowsMax
    this.#isOrdered = request.order !== 'any'
    this.#series = new ScanSeries(request.series, facts)
    this.#filter = request.filter === null ? null : compileFilter(request.filter, facts)
    this.#readers = request.values.map((value) => valueReader(value, facts))
    this.#rows = rows
    this.#picker = new NamePicker(this.#isOrdered)
    this.#wanted = request.persons === null ? null : wantedPersons(request.persons)
  }

  mayMatch({ firstTimestampMs, lastTimestampMs }: SegmentSummary): boolean {
    return lastTimestampMs >= this.#request.fromMs && firstTimestampMs <= this.#request.toMs
  }

  /** Adds the rows of a segment; when it throws, none of them. */
  add(segment: ScanSegment): void {
    if (!this.#series.mayMatch(segment)) return
    this.#candidates ??= newCandidates(segment)
    const candidates = this.#candidates
    candidates.segment = segment
    this.#pick(segment, candidates)
    const filter = this.#filter
    if (filter?.needsOwners === false) this.#keepPassing(candidates, filter)
    this.#keepOwned(segment, candidates)
    if (filter?.needsOwners === true) this.#keepPassing(candidates, filter)
    if (candidates.count > 0 && this.#series.haveFilters) this.#restrict(candidates)
    if (candidates.count > 0) this.#append(segment, candidates)
  }

  finish(): EventColumns {
    const rows = this.#rows
    if (this.#isOrdered) rows.sort()
    const { count } = rows
    return {
      count,
      timesMs: rows.timesMs.subarray(0, count),
      persons: rows.persons.subarray(0, count),
      sequences: rows.sequences.subarray(0, this.#isOrdered ? count : 0),
      seriesMasks: rows.masks.subarray(0, count),
      values: this.#readers.map((reader, index) =>
        valueColumn(rows.values[index] ?? new Uint32Array(0), count, reader),
      ),
    }
  }

  /** Candidates by name and time, with the series that they belong to by name. */
  #pick(segment: ScanSegment, candidates: Candidates): void {
    const { nameRows, summary } = segment
    const { rows, masks } = candidates
    const picked = this.#picker.pick(nameRows, this.#series.masksOf(nameRows), candidates)
    candidates.count = picked
    const { fromMs, toMs } = this.#request
    if (summary.firstTimestampMs >= fromMs && summary.lastTimestampMs <= toMs) return
    const { base, offsets } = segment.times
    let count = 0
    for (let index = 0; index < picked; index++) {
      const row = rows[index] ?? 0
      const time = base + (offsets[row] ?? 0)
      if (time < fromMs || time > toMs) continue
      rows[count] = row
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
    const { firstSequence } = segment.summary
    const { distinctIds } = segment
    const { words, since } = this.#facts.owners
    const wanted = this.#wanted
    const { rows, owners, masks } = candidates
    let count = 0
    for (let index = 0; index < candidates.count; index++) {
      const row = rows[index] ?? 0
      const distinctId = distinctIds[row] ?? 0
      // Deleted rows have no distinct_id, and so no owner.
      let owner = words[distinctId] ?? 0
      if (owner === 0) continue
      if (owner >= OWNER_HAS_SINCE) {
        if (firstSequence + row <= (since.get(distinctId) ?? 0)) continue
        owner &= PERSON_NUMBER_MAX
        if (owner === 0) continue
      }
      if (wanted !== null && wanted[owner] !== 1) continue
      rows[count] = row
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
    const { rows, owners, masks, count } = candidates
    if (target.count + count > this.#rowsMax) throw tooManyRows(this.#rowsMax)
    const { base, offsets } = segment.times
    const { firstSequence } = segment.summary
    target.reserve(count)
    const start = target.count
    for (const [index, reader] of this.#readers.entries()) {
      const ids = target.values[index]
      if (ids !== undefined) reader.read(candidates, ids, start)
    }
    target.persons.set(owners.subarray(0, count), start)
    target.masks.set(masks.subarray(0, count), start)
    const { timesMs, sequences } = target
    for (let index = 0; index < count; index++) {
      timesMs[start + index] = base + (offsets[rows[index] ?? 0] ?? 0)
    }
    for (let index = 0; index < count && this.#isOrdered; index++) {
      sequences[start + index] = firstSequence + (rows[index] ?? 0)
    }
    target.count = start + count
  }
}

function wantedPersons(persons: ReadonlySet<number>): Uint8Array {
  let last = 0
  for (const person of persons) if (person > last) last = person
  const wanted = new Uint8Array(Math.min(last, PERSON_NUMBER_MAX) + 1)
  for (const person of persons) wanted[person] = 1
  return wanted
}

function tooManyRows(rowsMax: number): ServiceError {
  const detail = `the query concerns more than ${rowsMax} events: ask for a shorter range of time or fewer events`
  return new ServiceError('query_too_large', detail)
}
