/**
 * Reads stored data: event lists, single events, warnings and statistics. Any thread and process may have a reader.
 * Every method reads one snapshot and blocks its thread, so use a reader only in worker threads and commands.
 */
import { parseUuid } from '../../../base/ids.ts'
import type { JsonObject } from '../../../base/json.ts'
import { SCAN_CACHE_BYTES_DEFAULT } from '../../../base/limits.ts'
import { getOrAdd } from '../../../base/maps.ts'
import type { CachesOfThread } from '../../../base/memory/memory-board.ts'
import type { Page, PageRequest } from '../../../base/pages.ts'
import type { RowsWriter } from '../../../base/rows-writer.ts'
import type { ScanLimits, Warehouse } from '../../../ports/warehouse.ts'
import type { EventScanner } from '../../../rules/analytics/event-columns.ts'
import type { StoredDeadLetter } from '../../../rules/events/dead-letter.ts'
import type {
  DroppedCount,
  DroppedEventPage,
  DroppedEventsQuery,
  DroppedEventView,
} from '../../../rules/events/dropped-events.ts'
import type {
  EventCriteria,
  EventCursor,
  EventExportQuery,
  EventListQuery,
  EventPage,
  EventRows,
  EventView,
  WarningView,
} from '../../../rules/events/event-queries.ts'
import type { EventValueQuery, ValueCounts } from '../../../rules/events/event-values.ts'
import type { ExportedSegment } from '../../../rules/events/exported-event.ts'
import { expandProperties } from '../../../rules/persons/automatic-properties.ts'
import type { TimelinePoint, TimelineQuery } from '../../../rules/persons/person-queries.ts'
import { ReferredTexts } from '../../catalog/referred-texts.ts'
import type { DamageListener } from '../../faults.ts'
import { ActorTexts } from '../../identity/actor-views.ts'
import { loadDistinctId, loadDistinctText } from '../../identity/distinct-ids.ts'
import { PersonReader } from '../../identity/person-reader.ts'
import { loadSeparations } from '../../identity/person-separations.ts'
import { groupProperties, personProperties } from '../../identity/properties/property-names.ts'
import { Environment } from '../../lmdb/environment.ts'
import { readNumber } from '../../lmdb/event-state.ts'
import {
  EVENTS_ENVIRONMENT,
  EVENTS_TABLES,
  type EventsTable,
  type EventTables,
} from '../../lmdb/keys.ts'
import {
  countDeadLetters,
  newestDeadLetters,
  readDeadLetters,
} from '../../rejected/dead-letter-store.ts'
import { countDropped } from '../../rejected/dropped-counts.ts'
import { findDropped, listDropped } from '../../rejected/dropped-events.ts'
import { listWarningLines } from '../../rejected/warning-log.ts'
import { ErasureReader } from '../erase/erasure-reader.ts'
import { loadAllCounters, loadCounters, type ProjectCounters } from '../format/event-projects.ts'
import { SegmentReader } from '../format/segment-reader.ts'
import { SegmentTables } from '../format/segment-tables.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { DECODED_ROWS_MAX } from '../limits.ts'
import { NameReader } from '../names/name-reader.ts'
import type { ProjectNames } from '../names/project-names.ts'
import { ScanStore } from '../scan/event-scan.ts'
import { countValues } from '../scan/event-value-counts.ts'
import { UuidLookup } from '../uuid/uuid-lookup.ts'
import { exportSegments } from './event-export.ts'
import { EventFilter } from './event-filter.ts'
import { EventSearch, type FoundEvent } from './event-search.ts'
import { EventViews } from './event-views.ts'
import { timelinePoints } from './person-timeline.ts'

/** The options of a reader. */
export interface EventReaderOptions {
  readonly dataDir: string
  /** If true, the environment must exist, and nothing is written: missing tables are not created. */
  readonly isReadOnly?: boolean
  /** Adds the derived properties (rules/persons/automatic-properties.ts) that the stored form omits. */
  readonly expand?: (
    properties: Readonly<JsonObject>,
    eventName: string,
    isPersonless: boolean,
  ) => Readonly<JsonObject>
  /**
   * Receives an error for each damaged record that a retention plan has to skip. Without this function, the plan
   * throws.
   */
  readonly onDamage?: DamageListener
  /** The memory in which scans cache decoded columns. Default: `SCAN_CACHE_BYTES_DEFAULT`. */
  readonly scanCache?: ConstructorParameters<typeof ScanStore>[2]
  /** The largest number of bytes that cached segments may have. Default: `SEGMENT_VIEWS_BYTES_MAX`. */
  readonly segmentViewsBytesMax?: number | undefined
  /** The largest number of bytes that cached names of events and properties may have. Default: `NAMES_BYTES_MAX`. */
  readonly namesBytesMax?: number | undefined
}

/** The statistics of one project. `bytes` is the size of its segments, without the indexes. */
export interface ProjectStatistics
  extends Readonly<Pick<ProjectCounters, 'rows' | 'distinctIds' | 'segments' | 'bytes'>> {
  readonly projectId: number
}

/** The statistics of the environment. */
export interface EventStatistics {
  readonly projects: readonly ProjectStatistics[]
  readonly uuidRuns: number
  readonly uuidRunEntries: number
  readonly deadLetters: number
  readonly position: number
}

/**
 * Called before a segment is read, with the number of bytes of its largest group of columns after decompression. To
 * stop the query, it throws.
 */
type ReadCheck = (groupBytes?: number) => void

/** What analytic queries need in addition to their scanner. All of it is read from the snapshot of the scanner. */
interface AnalyticReads {
  readonly persons: PersonReader
  readonly actors: ActorTexts
  /** The number of the last block of the log whose events the snapshot contains. */
  readonly position: number
}

/**
 * Reads stored events. Close it before its thread ends. Every method throws `DamagedRecordError` if it meets a damaged
 * record, so a result is either complete or absent.
 */
export class EventReader implements Warehouse {
  readonly #environment: Environment<EventsTable>
  readonly #tables: EventTables
  readonly #segments: SegmentReader
  readonly #views: EventViews
  readonly #persons: PersonReader
  readonly #uuids: UuidLookup
  readonly #options: EventReaderOptions
  #erasures: ErasureReader | null = null
  #names: NameReader | null = null
  readonly #referred: ReferredTexts
  #scans: ScanStore | null = null
  #actors: ActorTexts | null = null

  constructor(options: EventReaderOptions) {
    this.#environment = new Environment({
      dataDir: options.dataDir,
      name: EVENTS_ENVIRONMENT,
      tables: EVENTS_TABLES,
      isReadOnly: options.isReadOnly === true,
    })
    this.#options = options
    this.#tables = this.#environment.tables
    const isReadOnly = options.isReadOnly === true
    this.#referred = new ReferredTexts(options.dataDir, this.#tables, isReadOnly)
    this.#segments = new SegmentReader(this.#tables, options.segmentViewsBytesMax)
    this.#uuids = new UuidLookup(this.#tables, this.#segments)
    this.#persons = new PersonReader(this.#tables)
    this.#views = new EventViews(this.#tables, this.#persons, options.expand ?? expandProperties)
  }

  /**
   * Returns a page of events. Reads the summaries of all segments of the project. From each segment that may match,
   * reads the columns that the query needs.
   */
  listEvents(query: EventListQuery): EventPage {
    this.#refresh()
    const search = this.#search(query)
    const found = search === null ? [] : search.run()
    const page = found.slice(0, query.limit)
    const views = this.#viewsOf(query.projectId, page)
    const results = page.flatMap((event) => views.get(event) ?? [])
    return { results, nextCursor: nextCursor(found, query.limit) }
  }

  /**
   * Returns the same page as `listEvents`, but as text with a limited number of bytes. `check` is called before each
   * segment and row. To stop the query, it throws. Only the rows of the page are decoded.
   */
  eventRows(query: EventListQuery, writer: RowsWriter, check: ReadCheck): EventRows {
    this.#refresh()
    const found = this.#search(query, check)?.run() ?? []
    const page = found.slice(0, query.limit)
    let start = 0
    // The page is written in blocks of rows. A block has about as many rows as will probably fit into the remaining
    // bytes. Within a block, rows are read segment by segment.
    for (let rows = 1; start < page.length; ) {
      const chunk = page.slice(start, start + rows)
      const views = this.#viewsOf(query.projectId, chunk, check)
      for (const event of chunk) {
        const view = views.get(event)
        if (view !== undefined && !writer.add(view)) {
          return { ...writer.finish(), nextCursor: cursorOf(page[start - 1] ?? event) }
        }
        start++
      }
      const fitting = Math.floor(writer.room / Math.max(1, writer.bytes / start))
      rows = Math.max(1, Math.min(fitting, DECODED_ROWS_MAX))
    }
    return { ...writer.finish(), nextCursor: nextCursor(found, query.limit) }
  }

  /** Returns the newest event with a uuid, or null. The uuid may have any common form. Throws `DamagedRecordError`. */
  getEvent(projectId: number, uuidText: string): EventView | null {
    const uuid = parseUuid(uuidText)
    if (uuid === null) return null
    this.#refresh()
    const newest = this.#uuids.newest(projectId, uuid)
    // The event is erased if its distinct ID number is 0.
    if (newest === null || newest.view.distinctIds[newest.row] === 0) return null
    return this.#views.viewOf(newest.view, newest.row)
  }

  /**
   * Returns whether an event with this uuid (16 bytes) was stored and then erased. Always returns false for the newest
   * events, because they are not in a run of the uuid index yet.
   */
  wasErased(projectId: number, uuid: Uint8Array): boolean {
    this.#refresh()
    return this.#uuids.wasErased(projectId, uuid)
  }

  /** Returns the current persons, groups and cohorts. The result is valid until the next call of any method. */
  persons(): PersonReader {
    this.#refresh()
    return this.#persons
  }

  /** Returns the names of the events and properties of a project. `NameReader` explains `check` and the cost. */
  names(projectId: number, check: () => void): ProjectNames {
    this.#refresh()
    this.#names ??= new NameReader(
      this.#tables,
      (id) => this.#referred.of(id),
      this.#options.namesBytesMax,
    )
    return this.#names.names(projectId, check)
  }

  /** Returns the properties that persons have, or that groups of a type have; see property-names.ts. */
  actorProperties(projectId: number, groupType: number | null, check: () => void) {
    this.#refresh()
    return groupType === null
      ? personProperties(this.#tables, projectId, check)
      : groupProperties(this.#tables, projectId, groupType, check)
  }

  /**
   * Returns the values of an event property as texts, each with the number of its events. `limits` can stop the query.
   * Decoded columns are cached, as in a scan.
   */
  eventValues(query: EventValueQuery, limits: ScanLimits): ValueCounts {
    return countValues(this.#openScans(), query, this.scanner(limits))
  }

  /**
   * Returns a scanner for one query. The scanner reads the current state, and is valid until the next call of any
   * method except `answers` and `eventsAt`. The first call in a thread creates the cache of scans.
   */
  scanner(limits: ScanLimits): EventScanner {
    this.#refresh()
    return this.#openScans().scanner(limits)
  }

  /**
   * Returns the events with these sequence numbers, in the given order, from the snapshot of the last scanner. Erased
   * events are left out. `check` is called before each event.
   */
  eventsAt(
    projectId: number,
    sequences: readonly number[],
    check: ReadCheck,
  ): readonly EventView[] {
    const starts = this.#segments.allSummaries(projectId).map(({ firstSequence }) => firstSequence)
    const page = sequences.map((sequence) => {
      const place = starts.findLastIndex((start) => start <= sequence)
      return { sequence, firstSequence: starts[place] ?? 0, timestampMs: 0 }
    })
    const views = this.#viewsOf(projectId, page, check)
    return page.flatMap((event) => views.get(event) ?? [])
  }

  /** Returns what is needed to answer analytic queries, from the snapshot of the last scanner. */
  answers(): AnalyticReads {
    this.#actors ??= new ActorTexts(this.#persons)
    const position = readNumber(this.#tables.state, 'position') ?? 0
    return { persons: this.#persons, actors: this.#actors, position }
  }

  /** The cache of scans. Null before the first scan. */
  get scans(): Pick<ScanStore, 'cachedBytes' | 'cachedSegments' | 'rest'> | null {
    return this.#scans
  }

  get caches(): CachesOfThread {
    return {
      segments: this.#segments.held,
      ...(this.#names === null ? {} : { names: this.#names.held }),
      ...this.#scans?.caches,
    }
  }

  /**
   * Evicts everything that is only cached, except the columns that scans have decoded. Do not call it while another
   * call uses the reader.
   */
  release(): void {
    this.#segments.release()
    this.#names = null
    this.#actors = null
    this.#scans?.release()
  }

  /** Returns the points of a timeline, or null if there is no such person. `timelinePoints` says what it costs. */
  propertiesTimeline(query: TimelineQuery): readonly TimelinePoint[] | null {
    this.#refresh()
    const { projectId } = query
    const record = this.#persons.record(projectId, query.person)
    const ids = record === null ? null : this.#persons.idsOfUuid(projectId, record.uuid)
    if (ids === null) return null
    return timelinePoints(query, {
      ids,
      segments: this.#segments,
      textOf: (id) => loadDistinctText(this.#tables, projectId, id),
      separationsOf: (id) => loadSeparations(this.#tables, projectId, id),
    })
  }

  /**
   * Yields the events of a project in order of arrival, one segment at a time. Each segment is read in the state that
   * it has when the caller asks for it. If the project has never received the requested distinct_id, nothing is
   * yielded.
   */
  *exportEvents(query: EventExportQuery): Generator<ExportedSegment> {
    const { projectId } = query
    this.#refresh()
    const wanted = this.#wanted(query)
    if (wanted === null) return
    yield* exportSegments(query, {
      segments: new SegmentTables(this.#tables),
      filter: new EventFilter({ ...wanted, query }),
      textOf: wanted.textOf,
      personIdOf: (id, sequence) => this.#persons.uuidOf(projectId, id, sequence),
      lastSequence: () => loadCounters(this.#tables.projects, projectId)?.rows ?? 0,
      refresh: () => this.#refresh(),
    })
  }

  /**
   * Returns an object that reads receipts and rules of erasures, and estimates erasures. It reads the current state,
   * and is valid until the next call of any method.
   */
  erasures(): ErasureReader {
    this.#refresh()
    const { onDamage } = this.#options
    this.#erasures ??= new ErasureReader(this.#tables, this.#segments, this.#persons, onDamage)
    return this.#erasures
  }

  /** Returns the newest warnings of a project, newest first. Throws `DamagedRecordError`. */
  listWarnings(projectId: number, limit: number): readonly WarningView[] {
    this.#refresh()
    return listWarningLines(this.#tables.warnings, projectId, limit)
  }

  /** Returns a page of events that were not stored. The cost grows with the number of such events in the project. */
  listDropped(query: DroppedEventsQuery): DroppedEventPage {
    this.#refresh()
    return listDropped(this.#tables.dropped_events, query)
  }

  /** Returns the number of events that were not stored, by hour and reason. */
  countDropped(projectId: number, afterMs: number): readonly DroppedCount[] {
    this.#refresh()
    return countDropped(this.#tables.dropped_counts, projectId, afterMs)
  }

  /**
   * Returns an event that was not stored, or null. Also returns null if the store was last written by an older version
   * of Tenrec and has no table for such events.
   */
  findDropped(projectId: number, uuid: string, afterMs: number): DroppedEventView | null {
    this.#refresh()
    if (this.#environment.find('dropped_events') === undefined) return null
    return findDropped(this.#tables.dropped_events, projectId, uuid, afterMs)
  }

  /** Returns the dead letters after number `after`, oldest first. */
  deadLetters(after = 0): Generator<StoredDeadLetter> {
    this.#refresh()
    return readDeadLetters(this.#tables.dead_letters, after)
  }

  /** Returns a page of dead letters, newest first, and their total number. */
  newestLetters(page: PageRequest): Page<StoredDeadLetter> {
    this.#refresh()
    const table = this.#tables.dead_letters
    return { count: countDeadLetters(table), results: newestDeadLetters(table, page) }
  }

  /**
   * Returns statistics for metrics and commands. Reads one record for each project and one for each run of the uuid
   * index.
   */
  statistics(): EventStatistics {
    this.#refresh()
    const runs = this.#uuids.runs()
    const counters = [...loadAllCounters(this.#tables.projects)]
    return {
      projects: counters.map(([projectId, { rows, distinctIds, segments, bytes }]) => {
        return { projectId, rows, distinctIds, segments, bytes }
      }),
      uuidRuns: runs.length,
      uuidRunEntries: runs.reduce((sum, run) => sum + run.entries, 0),
      deadLetters: countDeadLetters(this.#tables.dead_letters),
      position: readNumber(this.#tables.state, 'position') ?? 0,
    }
  }

  /** Closes the reader and what it has opened. */
  async close(): Promise<void> {
    await this.#referred.close()
    await this.#environment.close()
  }

  /**
   * Returns the events of a page. They are read segment by segment, so that only a few segments are decoded at the same
   * time.
   */
  #viewsOf(
    projectId: number,
    page: readonly FoundEvent[],
    check: ReadCheck = () => {},
  ): ReadonlyMap<FoundEvent, EventView> {
    const views = new Map<FoundEvent, EventView>()
    const bySegment = page.toSorted((a, b) => a.firstSequence - b.firstSequence)
    for (const event of bySegment) {
      const segment = this.#open(projectId, event.firstSequence, check)
      views.set(event, this.#views.viewOf(segment, event.sequence - event.firstSequence))
    }
    return views
  }

  /** Returns a search for the events that a query wants, or null if no event can match. */
  #search(query: EventListQuery, check: ReadCheck = () => {}): EventSearch | null {
    const wanted = this.#wanted(query)
    if (wanted === null) return null
    const { projectId } = query
    return new EventSearch({
      ...wanted,
      query,
      summaries: this.#segments.allSummaries(projectId),
      open: (firstSequence) => this.#open(projectId, firstSequence, check),
    })
  }

  /**
   * Returns the filter for the requested distinct_id and person. Returns null if the project has never received the
   * distinct_id.
   */
  #wanted({ projectId, distinctId, personId }: EventCriteria) {
    const number =
      distinctId === undefined ? null : loadDistinctId(this.#tables, projectId, distinctId)
    if (number === 0) return null
    return {
      distinctId: number,
      isPersonWanted: personId === undefined ? null : this.#personFilter(projectId, personId),
      persons: this.#persons,
      textOf: (id: number) => loadDistinctText(this.#tables, projectId, id),
    }
  }

  #open(projectId: number, firstSequence: number, check: ReadCheck): SegmentView {
    const segment = this.#segments.segmentAt(projectId, firstSequence)
    check(segment.largestGroupBytes)
    return segment
  }

  /**
   * Returns a function that tells whether an event belongs to a person now. If no person has the uuid `personId`, the
   * function compares it with the uuids that the API shows for distinct_ids without a person.
   */
  #personFilter(projectId: number, personId: string) {
    const ids = this.#persons.idsOfUuid(projectId, personId)
    if (ids !== null) {
      return (id: number, sequence: number) => {
        const since = ids.get(id)
        return since !== undefined && sequence > since
      }
    }
    const wanted = personId.toLowerCase()
    const known = new Map<number, boolean>()
    const isOfId = (id: number): boolean =>
      getOrAdd(known, id, () => this.#persons.uuidWithoutOwner(projectId, id) === wanted)
    return (id: number, sequence: number) =>
      isOfId(id) && this.#persons.ownerOf(projectId, id, sequence) === 0
  }

  #openScans(): ScanStore {
    const { scanCache = SCAN_CACHE_BYTES_DEFAULT } = this.#options
    this.#scans ??= new ScanStore(this.#tables, this.#segments, scanCache)
    return this.#scans
  }

  #refresh(): void {
    this.#environment.refresh()
    this.#persons.refresh()
  }
}

function cursorOf({ timestampMs, sequence }: FoundEvent): EventCursor {
  return { timestampMs, id: sequence }
}

/** Returns the cursor of the next page. Returns null if the events that were found fit on this page. */
function nextCursor(found: readonly FoundEvent[], limit: number): EventCursor | null {
  const last = found[limit - 1]
  return found.length > limit && last !== undefined ? cursorOf(last) : null
}
