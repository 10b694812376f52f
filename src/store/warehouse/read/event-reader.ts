/**
 * The reading end of stored events: lists, single events, warnings, figures. Any thread and process may have
 * one. Every method runs on one snapshot and blocks its thread: it belongs into the pool or a command.
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
import { countDeadLetters, newestDeadLetters, readDeadLetters } from '../../aside/dead-letters.ts'
import { countDropped } from '../../aside/dropped-counts.ts'
import { findDropped, listDropped } from '../../aside/dropped-events.ts'
import { listWarningLines } from '../../aside/warning-log.ts'
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
import { ErasureReader } from '../erase/erasure-reader.ts'
import { loadAllCounters, loadCounters, type ProjectCounters } from '../format/event-projects.ts'
import { SegmentReader } from '../format/segment-reader.ts'
import { SegmentTables } from '../format/segment-tables.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { STRETCH_ROWS_MAX } from '../limits.ts'
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

/** How to open the reader. */
export interface EventReaderOptions {
  readonly dataDir: string
  /** True: the environment must exist; nothing is ever written, not even empty tables. */
  readonly isReadOnly?: boolean
  /** Adds what the stored form of properties leaves out. */
  readonly expand?: (
    properties: Readonly<JsonObject>,
    eventName: string,
    isPersonless: boolean,
  ) => Readonly<JsonObject>
  /** Told of damage that a plan of retention passes over; without it the plan throws. */
  readonly onDamage?: DamageListener
  /** Memory for decoded columns that scans keep. Default `SCAN_CACHE_BYTES_DEFAULT`. */
  readonly scanCache?: ConstructorParameters<typeof ScanStore>[2]
  /** Memory for segments that stay open. Default `SEGMENT_VIEWS_BYTES_MAX`. */
  readonly segmentViewsBytesMax?: number | undefined
  /** Memory for the names of events and properties. Default `NAMES_BYTES_MAX`. */
  readonly namesBytesMax?: number | undefined
}

/** Figures of one project; `bytes`: of the segments, without indexes. */
export interface ProjectStatistics
  extends Readonly<Pick<ProjectCounters, 'rows' | 'distinctIds' | 'segments' | 'bytes'>> {
  readonly projectId: number
}

/** Figures of the environment. */
export interface EventStatistics {
  readonly projects: readonly ProjectStatistics[]
  readonly uuidRuns: number
  readonly uuidRunEntries: number
  readonly deadLetters: number
  readonly position: number
}

/** Asked before a segment is read whose groups have so many bytes; throws to give up. */
type ReadCheck = (groupBytes?: number) => void

/** What answers analytic queries beside their scanner, on the same snapshot. */
interface AnalyticReads {
  readonly persons: PersonReader
  readonly actors: ActorTexts
  /** Log position of the snapshot. */
  readonly position: number
}

/**
 * Reads stored events. Close it before its thread ends. Every method throws `DamagedRecordError` when it
 * meets a damaged record: an answer is whole, or there is none.
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

  /** A page of events. Cost: the summaries of all segments, and the columns of those that may matter. */
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
   * The same page as text, ended by a limit of bytes, too. `check` is asked before each segment and row,
   * and throws to give up. Cost: as `listEvents`, but no more rows are decoded than the page has.
   */
  eventRows(query: EventListQuery, writer: RowsWriter, check: ReadCheck): EventRows {
    this.#refresh()
    const found = this.#search(query, check)?.run() ?? []
    const page = found.slice(0, query.limit)
    let start = 0
    // The page is made in stretches, each about as long as there is room, in order of segments within.
    for (let rows = 1; start < page.length; ) {
      const stretch = page.slice(start, start + rows)
      const views = this.#viewsOf(query.projectId, stretch, check)
      for (const event of stretch) {
        const view = views.get(event)
        if (view !== undefined && !writer.add(view)) {
          return { ...writer.finish(), nextCursor: cursorOf(page[start - 1] ?? event) }
        }
        start++
      }
      const fitting = Math.floor(writer.room / Math.max(1, writer.bytes / start))
      rows = Math.max(1, Math.min(fitting, STRETCH_ROWS_MAX))
    }
    return { ...writer.finish(), nextCursor: nextCursor(found, query.limit) }
  }

  /** The newest event with a uuid (any common form), or null. Throws `DamagedRecordError`. */
  getEvent(projectId: number, uuidText: string): EventView | null {
    const uuid = parseUuid(uuidText)
    if (uuid === null) return null
    this.#refresh()
    const newest = this.#uuids.newest(projectId, uuid)
    // Deleted events belong to no distinct_id.
    if (newest === null || newest.view.distinctIds[newest.row] === 0) return null
    return this.#views.viewOf(newest.view, newest.row)
  }

  /** Whether an event with a uuid of 16 bytes was stored and is erased; false for one of the newest. */
  wasErased(projectId: number, uuid: Uint8Array): boolean {
    this.#refresh()
    return this.#uuids.wasErased(projectId, uuid)
  }

  /** The persons, groups and cohorts as of now. Valid until the next call of any method. */
  persons(): PersonReader {
    this.#refresh()
    return this.#persons
  }

  /** The names of events and their properties; `check` as in `NameReader`, which says what it costs. */
  names(projectId: number, check: () => void): ProjectNames {
    this.#refresh()
    this.#names ??= new NameReader(
      this.#tables,
      (id) => this.#referred.of(id),
      this.#options.namesBytesMax,
    )
    return this.#names.names(projectId, check)
  }

  /** The properties of persons, or of the groups of a type; see property-names.ts. */
  actorProperties(projectId: number, groupType: number | null, check: () => void) {
    this.#refresh()
    return groupType === null
      ? personProperties(this.#tables, projectId, check)
      : groupProperties(this.#tables, projectId, groupType, check)
  }

  /** Values of a property of events, as texts; limited and kept as a scan. */
  eventValues(query: EventValueQuery, limits: ScanLimits): ValueCounts {
    return countValues(this.#openScans(), query, this.scanner(limits))
  }

  /**
   * Scans of the state of now for one query, whose scanner is valid until the next call of any method but
   * `answers`. The first call in a thread makes its cache.
   */
  scanner(limits: ScanLimits): EventScanner {
    this.#refresh()
    return this.#openScans().scanner(limits)
  }

  /**
   * Events by S, in the order asked for, of the snapshot of the scanner that was made last; those that were
   * erased are left out. `check` is asked before each.
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

  /** Of the snapshot of the scanner that was made last. */
  answers(): AnalyticReads {
    this.#actors ??= new ActorTexts(this.#persons)
    const position = readNumber(this.#tables.state, 'position') ?? 0
    return { persons: this.#persons, actors: this.#actors, position }
  }

  /** What scans keep between queries; null before the first. */
  get scans(): Pick<ScanStore, 'cachedBytes' | 'cachedSegments' | 'rest'> | null {
    return this.#scans
  }

  /** What its caches hold. */
  get caches(): CachesOfThread {
    return {
      segments: this.#segments.held,
      ...(this.#names === null ? {} : { names: this.#names.held }),
      ...this.#scans?.caches,
    }
  }

  /** Gives up what can be read again, but not what scans have decoded. Not while a call uses it. */
  release(): void {
    this.#segments.release()
    this.#names = null
    this.#actors = null
    this.#scans?.release()
  }

  /** The points of a timeline; null when there is no such person. Cost: person-timeline.ts. */
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
   * The events of a project in order of arrival, a segment at a time; each is read as it is when its
   * turn comes. Empty for a distinct_id that the project has never seen.
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

  /** Receipts, rules and estimates of erasures as of now. Valid until the next call of any method. */
  erasures(): ErasureReader {
    this.#refresh()
    const { onDamage } = this.#options
    this.#erasures ??= new ErasureReader(this.#tables, this.#segments, this.#persons, onDamage)
    return this.#erasures
  }

  /** The newest warnings of a project, newest first. Throws `DamagedRecordError`. */
  listWarnings(projectId: number, limit: number): readonly WarningView[] {
    this.#refresh()
    return listWarningLines(this.#tables.warnings, projectId, limit)
  }

  /** A page of events that were not stored. Cost: those of the project. */
  listDropped(query: DroppedEventsQuery): DroppedEventPage {
    this.#refresh()
    return listDropped(this.#tables.dropped_events, query)
  }

  /** How many events were not stored, by hour and reason. */
  countDropped(projectId: number, afterMs: number): readonly DroppedCount[] {
    this.#refresh()
    return countDropped(this.#tables.dropped_counts, projectId, afterMs)
  }

  /** An event that was not stored, or null; also in a store that an older version has left. */
  findDropped(projectId: number, uuid: string, afterMs: number): DroppedEventView | null {
    this.#refresh()
    if (this.#environment.find('dropped_events') === undefined) return null
    return findDropped(this.#tables.dropped_events, projectId, uuid, afterMs)
  }

  /** Dead letters behind number `after`, oldest first. */
  deadLetters(after = 0): Generator<StoredDeadLetter> {
    this.#refresh()
    return readDeadLetters(this.#tables.dead_letters, after)
  }

  /** A page of dead letters, newest first, and how many there are. */
  newestLetters(page: PageRequest): Page<StoredDeadLetter> {
    this.#refresh()
    const table = this.#tables.dead_letters
    return { count: countDeadLetters(table), results: newestDeadLetters(table, page) }
  }

  /** Figures for metrics and commands. Cost: one record for each project and run. */
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

  /** Ends the reader. */
  async close(): Promise<void> {
    await this.#referred.close()
    await this.#environment.close()
  }

  /** Events of a page; segment by segment, so that few are decoded at a time. */
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

  /** Null when no event can match. */
  #search(query: EventListQuery, check: ReadCheck = () => {}): EventSearch | null {
    const wanted = this.#wanted(query)
    if (wanted === null) return null
    const { projectId } = query
    return new EventSearch({
      ...{ ...wanted, query },
      summaries: this.#segments.allSummaries(projectId),
      open: (firstSequence) => this.#open(projectId, firstSequence, check),
    })
  }

  /** Who is asked for; null when that is nobody. */
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
   * Whether an event belongs to a person now. A uuid that no living person has is that of events
   * without an owner, of one distinct_id each.
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

/** Where the next page begins, when more were found than this one has. */
function nextCursor(found: readonly FoundEvent[], limit: number): EventCursor | null {
  const last = found[limit - 1]
  return found.length > limit && last !== undefined ? cursorOf(last) : null
}
