/**
 * Computes sessions from their events: the start and end of each session, its views, and its counts. A session consists
 * of all events with the same session ID, whatever the query asks for. The events may be added in any order, because
 * the table only stores counts and which event was the first or last. Late and erased events therefore change only the
 * sessions that they belong to. Source: docs/compatibility/queries.md, "Sessions".
 */

import { largestPerson } from '../../analytics/actor-page.ts'
import type { DateRange } from '../../analytics/date-range.ts'
import type {
  ChunkVisitor,
  EventColumns,
  SeriesMatch,
  ValueColumn,
} from '../../analytics/event-columns.ts'
import { grown } from '../../analytics/growing-arrays.ts'
import { type QueryScan, type QueryShard, scanShardChunks } from '../query-kind.ts'

const VIEW_NAMES = ['$pageview', '$screen'] as const
const PAGEVIEW = 1
const SCREEN = 2
/** The bits of the series of `collectSessions` whose events are views. */
export const VIEW = PAGEVIEW | SCREEN
/** The bit of the series of autocaptured events. A session with such an event, or with several views, is no bounce. */
export const AUTOCAPTURE = 4
/**
 * Event properties that dashboards usually request after they have requested sessions. They are read together with the
 * sessions, because that is cheaper while a segment is open.
 */
const USUAL_KEYS = [
  '$pathname',
  '$current_url',
  '$referring_domain',
  '$browser',
  '$os',
  '$device_type',
  '$geoip_country_code',
  '$browser_language',
  'utm_source',
  'utm_medium',
  'utm_campaign',
]
/** A session that lasts at least this number of seconds is no bounce. */
export const ENGAGED_S = 10
/** The estimated memory of a session with some of its properties, in bytes. */
const SESSION_BYTES = 100
/** The number of sessions for which a new table has capacity. */
const SESSIONS_START = 1024

/** One event for each session. */
export interface SessionEvents {
  /** The time of the event. NaN if there is no event. */
  readonly timesMs: Float64Array
  /** The sequence number of the event. 0 if there is no event. */
  readonly sequences: Uint32Array
}

/** Which event describes a session. */
export type SessionEdge = 'entry' | 'end' | 'last'

/** A list with one event for each session. */
export interface EdgeEvents {
  /** The sequence numbers, ascending. */
  readonly sequences: Uint32Array
  /** The number of the session of each event. */
  readonly sessions: Uint32Array
}

/** Sessions as parallel lists. The index is the number that a scan gives to each session. */
export interface SessionTable {
  /** The length of the lists: one more than the largest session number. */
  readonly size: number
  /** The text of each session id. */
  readonly ids: readonly unknown[]
  /** 1 for each session that is in the table. */
  readonly marks: Uint8Array
  readonly first: SessionEvents
  readonly last: SessionEvents
  readonly firstView: SessionEvents
  readonly lastView: SessionEvents
  /** The person number of the owner of the last event. */
  readonly lastPersons: Uint32Array
  readonly pageviews: Uint32Array
  readonly screens: Uint32Array
  readonly autocaptures: Uint32Array
  /** 1 for a bounce, otherwise 0. NaN for a session without a view, which counts as neither. */
  readonly bounces: Float64Array
  /** The seconds from the first to the last event. Both times are first truncated to full seconds. */
  readonly durations: Float64Array
  /** The properties that were read so far, by name. */
  readonly columns: Map<string, ValueColumn>
  /** The entry, end and last events that were read so far. */
  readonly edges: Map<SessionEdge, EdgeEvents>
  readonly bytes: number
}

/** Returns a series of the events with these names. Null means all events. */
export function namedSeries(names: readonly string[] | null): SeriesMatch {
  return { names, filter: null, steps: [] }
}

/** The series of the events that count as views. */
export const VIEW_SERIES: SeriesMatch = namedSeries(VIEW_NAMES)

/** A set of sessions to which events are added. */
export interface GrowingSessions {
  /** One more than the largest session number. */
  readonly size: number
  /** 1 for each session with an event. */
  readonly marks: Uint8Array
  /** Adds those events of a scan whose times `isNew` accepts. The scan must come from `collectSessions`. */
  add(events: EventColumns, isNew: (timeMs: number) => boolean): void
}

/**
 * Returns all sessions with an event in a range. Each session is complete from its first to its last event, even if
 * these are outside the range. The scanner caches the result. Scans the range, and reads the session IDs in all
 * segments outside the range. Throws the same errors as `EventScanner.scan`.
 */
export function sessionsWithin(shard: QueryShard, range: DateRange): SessionTable {
  const { context, scanner, part } = shard
  const name = JSON.stringify(['sessions', part, range.fromMs, range.toMs])
  return scanner.remembered(context.projectId, name, () => {
    const table = new TableBuilder()
    collectSessions(shard, range, table)
    if (table.size === 1) return table
    noteWhole(table)
    table.trim()
    return table
  })
}

/**
 * Finds the sessions with an event in a range, and adds all events of these sessions to `sessions`, including events
 * outside the range. The series of the scan are `VIEW` and `AUTOCAPTURE`. The cost is the same as for `sessionsWithin`.
 */
export function collectSessions(
  shard: QueryShard,
  { fromMs, toMs }: DateRange,
  sessions: GrowingSessions,
): void {
  const isAny = () => true
  scanSessions(shard, { fromMs, toMs }, (chunk) => sessions.add(chunk, isAny))
  if (sessions.size === 1) return
  const { marks } = sessions
  const [before, after] = [
    { fromMs: Number.NEGATIVE_INFINITY, toMs: fromMs },
    { fromMs: toMs, toMs: Number.POSITIVE_INFINITY },
  ]
  const isOutside = (timeMs: number) => timeMs < fromMs || timeMs > toMs
  scanSessions(shard, before, (chunk) => sessions.add(chunk, isOutside), marks)
  scanSessions(shard, after, (chunk) => sessions.add(chunk, isOutside), marks)
}

/**
 * Returns the sequence number of the entry, end or last event of a session. The entry is the first view and the end is
 * the last view. In a session without views, they are the first and the last event.
 */
export function edgeOf(table: SessionTable, edge: SessionEdge, session: number): number {
  const { first, last, firstView, lastView } = table
  const view = { entry: firstView, end: lastView, last }[edge].sequences[session] ?? 0
  return view || ((edge === 'entry' ? first : last).sequences[session] ?? 0)
}

function scanSessions(
  shard: QueryShard,
  range: DateRange,
  visit: ChunkVisitor,
  sessions?: Uint8Array,
): void {
  const [pageview, screen] = VIEW_NAMES
  const hasSoon = sessions === undefined && shard.part?.isPiece !== true
  const scan: QueryScan = {
    ...range,
    ...(sessions === undefined ? {} : { sessions }),
    series: [[pageview], [screen], ['$autocapture'], null].map(namedSeries),
    values: [{ kind: 'session' }],
    order: 'unsorted',
    ...(hasSoon ? { soon: USUAL_KEYS } : {}),
  }
  scanShardChunks(shard, scan, visit)
}

/** A session table to which events are added. */
class TableBuilder implements SessionTable, GrowingSessions {
  size = 1
  marks = new Uint8Array(SESSIONS_START)
  first = noEvents(SESSIONS_START)
  last = noEvents(SESSIONS_START)
  firstView = noEvents(SESSIONS_START)
  lastView = noEvents(SESSIONS_START)
  lastPersons = new Uint32Array(SESSIONS_START)
  pageviews = new Uint32Array(SESSIONS_START)
  screens = new Uint32Array(SESSIONS_START)
  autocaptures = new Uint32Array(SESSIONS_START)
  bounces = new Float64Array(0)
  durations = new Float64Array(0)
  readonly columns = new Map<string, ValueColumn>()
  readonly edges = new Map<SessionEdge, EdgeEvents>()
  #column: ValueColumn | null = null

  get ids(): readonly unknown[] {
    return this.#column?.values ?? []
  }

  get bytes(): number {
    return this.marks.length * SESSION_BYTES
  }

  /** Adds the events whose times `isNew` accepts. */
  add(
    { count, timesMs, sequences, seriesMasks, persons, values: [column] }: EventColumns,
    isNew: (timeMs: number) => boolean,
  ): void {
    if (column === undefined) return
    this.#column = column
    this.#reserve(1 + largestPerson(column.ids, count))
    const { marks, first, last, firstView, lastView, lastPersons } = this
    const { pageviews, screens, autocaptures } = this
    for (let row = 0; row < count; row++) {
      const session = column.ids[row] ?? 0
      const timeMs = timesMs[row] ?? 0
      if (session === 0 || !isNew(timeMs)) continue
      const sequence = sequences[row] ?? 0
      const mask = seriesMasks[row] ?? 0
      marks[session] = 1
      if (noteEdges(first, last, session, timeMs, sequence)) {
        lastPersons[session] = persons[row] ?? 0
      }
      if ((mask & AUTOCAPTURE) !== 0) autocaptures[session] = (autocaptures[session] ?? 0) + 1
      if ((mask & VIEW) === 0) continue
      const counts = (mask & PAGEVIEW) === 0 ? screens : pageviews
      counts[session] = (counts[session] ?? 0) + 1
      noteEdges(firstView, lastView, session, timeMs, sequence)
    }
  }

  /** Cuts the lists to the number of sessions. */
  trim(): void {
    this.#resize(this.size)
  }

  #reserve(size: number): void {
    this.size = Math.max(this.size, size)
    if (size > this.marks.length) this.#resize(Math.max(size, 2 * this.marks.length))
  }

  #resize(length: number): void {
    const known = Math.min(length, this.marks.length)
    this.marks = grown(this.marks.subarray(0, known), length)
    for (const name of ['first', 'last', 'firstView', 'lastView'] as const) {
      const { timesMs, sequences } = this[name]
      this[name] = {
        timesMs: grown(timesMs.subarray(0, known), length).fill(Number.NaN, known),
        sequences: grown(sequences.subarray(0, known), length),
      }
    }
    for (const name of ['lastPersons', 'pageviews', 'screens', 'autocaptures'] as const) {
      this[name] = grown(this[name].subarray(0, known), length)
    }
  }
}

function noEvents(size: number): SessionEvents {
  return { timesMs: new Float64Array(size).fill(Number.NaN), sequences: new Uint32Array(size) }
}

/** Sets the bounces and durations. Call it after all events were added. */
function noteWhole(table: TableBuilder): void {
  const { size, pageviews, screens, autocaptures, first, last } = table
  const bounces = new Float64Array(size).fill(Number.NaN)
  const durations = new Float64Array(size)
  table.bounces = bounces
  table.durations = durations
  for (let session = 1; session < size; session++) {
    const startS = Math.floor((first.timesMs[session] ?? 0) / 1000)
    durations[session] = Math.floor((last.timesMs[session] ?? 0) / 1000) - startS
    const views = (pageviews[session] ?? 0) + (screens[session] ?? 0)
    if (views === 0) continue
    const isEngaged = views > 1 || (autocaptures[session] ?? 0) > 0
    bounces[session] = isEngaged || (durations[session] ?? 0) >= ENGAGED_S ? 0 : 1
  }
}

/** Updates the first and last event of a session. Returns true if the event is the last one so far. */
function noteEdges(
  first: SessionEvents,
  last: SessionEvents,
  session: number,
  timeMs: number,
  sequence: number,
): boolean {
  const isOnly = first.sequences[session] === 0
  if (isOnly || comesBefore(timeMs, sequence, first, session)) {
    note(first, session, timeMs, sequence)
    if (!isOnly) return false
  } else if (comesBefore(timeMs, sequence, last, session)) return false
  note(last, session, timeMs, sequence)
  return true
}

/** Returns whether an event comes before the stored one, by time and then by arrival. */
function comesBefore(
  timeMs: number,
  sequence: number,
  { timesMs, sequences }: SessionEvents,
  session: number,
): boolean {
  const notedMs = timesMs[session] ?? 0
  return timeMs < notedMs || (timeMs === notedMs && sequence < (sequences[session] ?? 0))
}

function note(
  { timesMs, sequences }: SessionEvents,
  session: number,
  timeMs: number,
  sequence: number,
): void {
  timesMs[session] = timeMs
  sequences[session] = sequence
}
