/**
 * Scans stored events for analytic queries. It implements the interface `EventScanner` of
 * rules/analytics/event-columns.ts. The times of a segment, and the event names in its header, decide whether it can be
 * skipped. Of all other segments, the columns that are needed are decoded and stay cached for later queries.
 * event-scan-pass.ts describes how rows are picked. All data is read in the snapshot of the reader.
 */
import { ServiceError } from '../../../base/errors.ts'
import type { CachesOfThread } from '../../../base/memory/memory-board.ts'
import { type BlockShare, blockShares } from '../../../base/shared-blocks.ts'
import type { ScanLimits } from '../../../ports/warehouse.ts'
import type { DateRange } from '../../../rules/analytics/date-range.ts'
import type {
  ChunkVisitor,
  CreatedPersons,
  DistinctIdOwners,
  EventColumns,
  EventExtent,
  EventScanner,
  EventScanRequest,
  KnownEvents,
  ValueColumn,
  ValueRequest,
} from '../../../rules/analytics/event-columns.ts'
import type { EventTables } from '../../lmdb/keys.ts'
import { emptyCounters, loadCounters } from '../format/event-projects.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import type { SegmentReader } from '../format/segment-reader.ts'
import { segmentIndexAfter } from '../format/segment-tables.ts'
import { SCAN_ROWS_MAX } from '../limits.ts'
import { ColumnMemory } from './column-memory.ts'
import { ScanCache } from './event-scan-cache.ts'
import { FactCache, type ProjectFacts } from './event-scan-facts.ts'
import { type Candidates, newCandidates } from './event-scan-filter.ts'
import { Scan } from './event-scan-pass.ts'
import {
  clippedRange,
  isInPart,
  isTouched,
  needsPersons,
  WantedOfPart,
} from './event-scan-request.ts'
import { RowPool } from './event-scan-rows.ts'
import type { ScanSegment } from './event-scan-segment.ts'
import { type ValueReader, valueColumn, valueReader } from './event-scan-values.ts'
import { KnownProjects } from './known-events.ts'
import { SegmentCounts } from './segment-counts.ts'
import { sessionBounds } from './session-parts.ts'

/**
 * The memory for rows of results that later queries reuse is limited to the size of the cache, divided by this number.
 */
const ROWS_SHARE = 16
/** The memory for values that were computed from events is limited to the size of the cache, divided by this number. */
const VALUE_SHARE = 4
/** The estimated number of bytes of a cached first timestamp. */
const FIRST_EVENT_BYTES = 64

/** What the scans of one thread cache from query to query. */
export class ScanStore {
  readonly tables: EventTables
  readonly segments: SegmentReader
  readonly cache: ScanCache
  readonly facts: FactCache
  readonly rows: RowPool
  /** The largest number of bytes of all cached values that were computed from events. */
  readonly valueBytesMax: number
  readonly known: KnownProjects
  readonly counts: SegmentCounts
  readonly #memory: ColumnMemory

  /**
   * `cache` is the memory for decoded columns that all threads share. If it is a number, this thread uses memory of its
   * own, with this number of bytes.
   */
  constructor(tables: EventTables, segments: SegmentReader, cache: number | BlockShare) {
    const [alone] = typeof cache === 'number' ? blockShares(cache, 1) : []
    const share = (alone ?? cache) as BlockShare
    const cacheBytesMax = share.bytesMax / share.shared.threads
    this.tables = tables
    this.segments = segments
    this.#memory = new ColumnMemory(share)
    this.cache = new ScanCache(segments, this.#memory, share)
    this.rows = new RowPool(cacheBytesMax / ROWS_SHARE)
    this.facts = new FactCache(tables)
    this.valueBytesMax = cacheBytesMax / VALUE_SHARE
    this.known = new KnownProjects(segments)
    this.counts = new SegmentCounts(segments)
  }

  /** The estimated number of bytes of the cached columns. */
  get cachedBytes(): number {
    return this.cache.bytes
  }

  get cachedSegments(): number {
    return this.cache.segmentCount
  }

  /**
   * The sizes of those caches that only this thread uses. Shared columns are not included, because the owner of their
   * memory reports them.
   */
  get caches(): CachesOfThread {
    const { ownBytes: bytes, bytesMax } = this.cache
    return { column_values: { bytes, bytesMax }, row_memory: this.rows.held }
  }

  /**
   * Releases the memory for the results of queries, and evicts all cached facts. Decoded columns stay cached. Do not
   * call it while a query runs.
   */
  release(): void {
    this.rows.release()
    this.facts.release()
  }

  /** Returns a scanner for one query. The results of earlier scanners become invalid. */
  scanner(limits: ScanLimits): EventScanner {
    this.rows.takeBack()
    this.#memory.begin()
    return new SegmentScanner(this, limits)
  }

  /**
   * Ends a query. The results of its scanner must not be used any more, because other threads may then use the memory.
   */
  rest(): void {
    this.#memory.end()
  }
}

class SegmentScanner implements EventScanner {
  readonly #store: ScanStore
  readonly #limits: ScanLimits
  looksAtPersons = false
  /**
   * The facts of the project that was scanned last. They stay valid as long as this scanner is used, because the
   * snapshot does not change.
   */
  #known: ProjectFacts | null = null
  readonly #wanted = new WantedOfPart()

  constructor(store: ScanStore, limits: ScanLimits) {
    this.#store = store
    this.#limits = limits
  }

  scan(request: EventScanRequest): EventColumns {
    if (request.areValuesLocal === true)
      throw new RangeError('the values of a whole scan cannot be local, only those of its chunks')
    const scan = this.#begin(request)
    this.#run(scan, request, () => undefined)
    return scan.finish()
  }

  scanChunks(request: EventScanRequest, visit: ChunkVisitor): void {
    if (request.order === undefined || request.order === 'time') {
      throw new RangeError('a scan by chunks cannot sort its rows by time')
    }
    const scan = this.#begin(request, true)
    this.#run(scan, request, (summary) => {
      scan.showChunks((chunk) => visit(chunk, clippedRange(summary, request)))
    })
  }

  extent(projectId: number): EventExtent {
    const { tables } = this.#store
    const { rows, generation, bytes } = loadCounters(tables.projects, projectId) ?? emptyCounters()
    const { position, owners } = this.#factsOf(projectId)
    const state = [position, rows, generation, bytes].join(' ')
    const { lastPerson, lastDistinctId } = owners
    return { state, lastPerson, lastDistinctId }
  }

  owners(projectId: number): DistinctIdOwners {
    return this.#factsOf(projectId).owners
  }

  eventsWithin(projectId: number, range: DateRange): number {
    let events = 0
    for (const summary of this.#store.segments.allSummaries(projectId)) {
      if (isTouched(summary, range)) events += summary.rows
    }
    return events
  }

  sessionBounds(projectId: number, range: DateRange, count: number): readonly number[] {
    const summaries = this.#store.segments.allSummaries(projectId)
    return sessionBounds(
      summaries.filter((summary) => isTouched(summary, range)),
      count,
    )
  }

  known(projectId: number): KnownEvents {
    const { owners, groupTypesVersion } = this.#factsOf(projectId)
    return this.#store.known.of(projectId, owners, groupTypesVersion)
  }

  movedBehind(projectId: number, moves: number): Uint32Array {
    return this.#store.known.movedBehind(projectId, moves)
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
    const { state } = this.extent(projectId)
    return this.#factsOf(projectId).kept(name, state, this.#store.valueBytesMax, make)
  }

  releaseResults(): void {
    this.#store.rows.takeBack()
  }

  startOver(projectId: number): void {
    this.#store.rows.release()
    this.#store.facts.forgetSessions(projectId)
    this.#known = null
  }

  firstEventMs(projectId: number, sinceMs = Number.NEGATIVE_INFINITY): number | null {
    const { segments } = this.#store
    const mixed: SegmentSummary[] = []
    let first = Number.POSITIVE_INFINITY
    for (const summary of segments.allSummaries(projectId)) {
      const { firstTimestampMs, lastTimestampMs } = summary
      if (lastTimestampMs < sinceMs) continue
      if (firstTimestampMs >= sinceMs) first = Math.min(first, firstTimestampMs)
      else mixed.push(summary)
    }
    if (mixed.length > 0) {
      // Some segments contain events from before and after `sinceMs`, so the times of all their events must be read.
      // The result stays cached until the events of the project change.
      const { value } = this.remembered(projectId, `first event since ${sinceMs}`, () => {
        return { bytes: FIRST_EVENT_BYTES, value: this.#firstSince(projectId, mixed, sinceMs) }
      })
      first = Math.min(first, value)
    }
    return Number.isFinite(first) ? first : null
  }

  /** Returns the earliest timestamp at or after `sinceMs` in these segments, or infinity if there is none. */
  #firstSince(projectId: number, summaries: readonly SegmentSummary[], sinceMs: number): number {
    let first = Number.POSITIVE_INFINITY
    for (const { firstSequence, rows } of summaries) {
      this.checkLimits()
      const { timestamps } = this.#store.segments.segmentAt(projectId, firstSequence)
      for (let row = 0; row < rows; row++) {
        const timeMs = timestamps[row] ?? 0
        if (timeMs >= sinceMs && timeMs < first) first = timeMs
      }
    }
    return first
  }

  personUuid(projectId: number, person: number): string {
    return this.#factsOf(projectId).uuidOf(person)
  }

  personlessOf(projectId: number, uuid: string): number | null {
    return this.#factsOf(projectId).personlessOf(uuid)
  }

  firstPersonless(projectId: number): number {
    return this.#factsOf(projectId).owners.firstPersonless
  }

  personlessId(projectId: number, number: number): string {
    const facts = this.#factsOf(projectId)
    return facts.textOf(number - facts.owners.firstPersonless)
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

  #begin(request: EventScanRequest, isInChunks = false): Scan {
    const { projectId, part } = request
    const facts = this.#factsOf(projectId)
    this.looksAtPersons ||= needsPersons(request)
    const { known, rows } = this.#store
    const owners =
      part?.ownersAt === undefined
        ? facts.owners
        : known.ownersAt(projectId, facts.owners, part.ownersAt)
    const wanted = this.#wanted.of(request, owners)
    const target = rows.lend(request.values.length)
    const rowsMax = this.#limits.rowsMax ?? SCAN_ROWS_MAX
    return new Scan(request, { facts, owners, wanted }, target, { rowsMax, isInChunks })
  }

  /** Runs a scan. Calls `onSegment` after each segment that may have added rows. */
  #run(
    scan: Scan,
    { projectId, part }: EventScanRequest,
    onSegment: (summary: SegmentSummary) => void,
  ): void {
    const { segments, cache, counts } = this.#store
    const summaries = segments.allSummaries(projectId)
    cache.beginScan(projectId, summaries)
    const first = segmentIndexAfter(summaries, part?.sequences?.after ?? 0)
    for (let index = first; index < summaries.length; index++) {
      const summary = summaries[index]
      if (summary === undefined || !scan.mayMatch(summary) || !isInPart(summary, part)) continue
      this.checkLimits()
      if (!scan.addCounted(summary, counts.of(summary)))
        cache.use(summary, (segment) => scan.add(segment))
      onSegment(summary)
    }
  }

  checkLimits(): void {
    const { deadlineMs, isCanceled, checkMemory } = this.#limits
    if (isCanceled())
      throw new ServiceError('query_timeout', 'The client no longer waits for the answer.')
    const nowMs = performance.now()
    checkMemory?.(nowMs)
    if (nowMs > deadlineMs) {
      const detail =
        'The query took too long. Choose a shorter time range or fewer events, or raise the setting `query_timeout_ms`.'
      throw new ServiceError('query_timeout', detail)
    }
  }
}

/**
 * Returns the values of the events with these sequence numbers, as one column for each reader. The sequence numbers
 * must be ascending. For each segment that contains at least one of them, `use` is called once. It opens the segment
 * and passes it to `read`.
 */
function readAt(
  sequences: Uint32Array,
  readers: readonly ValueReader[],
  summaries: readonly SegmentSummary[],
  use: (summary: SegmentSummary, read: (segment: ScanSegment) => void) => void,
): readonly ValueColumn[] {
  const { length } = sequences
  const columns = readers.map((reader) => ({ reader, ids: new Uint32Array(length) }))
  let candidates: Candidates | null = null
  let next = 0
  for (const summary of summaries) {
    const start = next
    const end = summary.firstSequence + summary.rows
    while (next < length && (sequences[next] ?? 0) < end) next++
    if (next === start) continue
    use(summary, (segment) => {
      candidates ??= newCandidates(segment)
      candidates.segment = segment
      makeCandidates(candidates, sequences.subarray(start, next))
      for (const { reader, ids } of columns) reader.read(candidates, ids, start)
    })
  }
  return columns.map(({ reader, ids }) => valueColumn(ids, length, reader))
}

/** Makes the rows with these sequence numbers the candidates of a segment. */
function makeCandidates(candidates: Candidates, sequences: Uint32Array): void {
  const { segment, places } = candidates
  const placeOfRow = segment.places
  const { firstSequence } = segment.summary
  for (let index = 0; index < sequences.length; index++) {
    places[index] = placeOfRow[(sequences[index] ?? 0) - firstSequence] ?? 0
  }
  candidates.count = sequences.length
}
