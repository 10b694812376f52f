/**
 * Reads the events of a project one after the other in order of arrival, a segment at a time, and makes
 * one line of JSON of each. The text of a value is made once for each different value of a column. Properties are given as they were sent: what only follows from
 * them (ingest/person-properties.ts) is left out, and made again by an import.
 */
import { ByteWriter } from './byte-writer.ts'
import { personModeOf } from './segment-builder.ts'
import {
  type ColumnEntry,
  MODE_MIRROR,
  ROLE_ELEMENTS,
  ROLE_PROPERTY,
  ROLE_REST,
} from './segment-format.ts'
import type { SegmentTables, SegmentView } from './segment-view.ts'

const COMMA = 0x2c
/** Texts of at most so many bytes are copied byte by byte: a call costs more. */
const COPIED_BYTES_MAX = 48

/** Which events to export. */
export interface ExportQuery {
  readonly projectId: number
  /** Only events behind this id; 0: from the first. */
  readonly afterId: number
  readonly event?: string
  /** D of the only distinct_id wanted. */
  readonly distinctId?: number
  /** Only events with a later timestamp, milliseconds. */
  readonly afterMs?: number
  /** Only events with an earlier timestamp, milliseconds. */
  readonly beforeMs?: number
}

/** One event, ready to be written. */
export interface ExportedEvent {
  readonly id: number
  readonly uuid: string
  readonly event: string
  readonly distinctId: string
  readonly timestampMs: number
  readonly arrivedAtMs: number
  readonly personMode: string
  readonly elementsChain: string
  /** JSON of the properties. */
  readonly propertiesJson: string
}

/** The events of one segment that are wanted, and how far the project is read. */
export interface ExportedSegment {
  /** To be gone through once: each is made when it is asked for, and so is soon forgotten. */
  readonly events: Iterable<ExportedEvent>
  /** Id of the last event of the segment, wanted or not. */
  readonly lastId: number
}

/** What an export reads from. */
export interface ExportSource {
  readonly segments: SegmentTables
  readonly textOf: (distinctId: number) => string
  /** Lets the next segment be read as it is then. */
  refresh(): void
}

/**
 * All segments with wanted events. Throws `DamagedRecordError`, also while events are gone through. Cost:
 * some 12 us an event of 25 properties.
 */
export function* exportSegments(
  query: ExportQuery,
  source: ExportSource,
): Generator<ExportedSegment> {
  let next = query.afterId + 1
  for (;;) {
    source.refresh()
    const view = source.segments.segmentOf(query.projectId, next)
    if (view === null) return
    const { firstSequence, rows } = view.summary
    const lastId = firstSequence + rows - 1
    const wanted = wantedRows(view, query, next - firstSequence)
    yield { events: eventsOf(view, wanted, source.textOf), lastId }
    next = lastId + 1
  }
}

/** One event as a line of NDJSON, with the newline. */
export function exportLine(event: ExportedEvent): string {
  const elements =
    event.elementsChain === '' ? '' : `"elements_chain":${JSON.stringify(event.elementsChain)},`
  return (
    `{"id":${event.id},"uuid":"${event.uuid}","event":${JSON.stringify(event.event)},` +
    `"distinct_id":${JSON.stringify(event.distinctId)},"timestamp":"${new Date(event.timestampMs).toISOString()}",` +
    `"created_at":"${new Date(event.arrivedAtMs).toISOString()}","person_mode":"${event.personMode}",${elements}` +
    `"properties":${event.propertiesJson}}\n`
  )
}

function wantedRows(view: SegmentView, query: ExportQuery, firstRow: number): readonly number[] {
  const { summary } = view
  const after = query.afterMs ?? Number.NEGATIVE_INFINITY
  const before = query.beforeMs ?? Number.POSITIVE_INFINITY
  if (summary.lastTimestampMs <= after || summary.firstTimestampMs >= before) return []
  const { ids, values } = view.names
  const name = query.event === undefined ? -1 : values.indexOf(query.event)
  if (query.event !== undefined && name < 0) return []
  const { timestamps, distinctIds } = view
  const rows: number[] = []
  for (let row = firstRow; row < summary.rows; row++) {
    const distinctId = distinctIds[row] ?? 0
    // Deleted rows belong to no distinct_id.
    if (distinctId === 0) continue
    if (query.distinctId !== undefined && distinctId !== query.distinctId) continue
    if (name >= 0 && ids[row] !== name) continue
    const time = timestamps[row] ?? 0
    if (time > after && time < before) rows.push(row)
  }
  return rows
}

function* eventsOf(
  view: SegmentView,
  rows: readonly number[],
  textOf: (distinctId: number) => string,
): Generator<ExportedEvent> {
  if (rows.length === 0) return
  const { firstSequence, rows: rowCount } = view.summary
  const distinctTexts = new Map<number, string>()
  const texts = rows.map((row) => {
    const distinctId = view.distinctIds[row] ?? 0
    let text = distinctTexts.get(distinctId)
    if (text === undefined) {
      text = textOf(distinctId)
      distinctTexts.set(distinctId, text)
    }
    return text
  })
  const places = new Int32Array(rowCount).fill(-1)
  for (const [place, row] of rows.entries()) places[row] = place
  const properties = propertyTexts(view, places, texts)
  const elements = elementTexts(view, places, rows.length)
  const { ids, values } = view.names
  for (const [place, row] of rows.entries()) {
    yield {
      id: firstSequence + row,
      uuid: view.uuidOf(row),
      event: String(values[ids[row] ?? 0]),
      distinctId: texts[place] ?? '',
      timestampMs: view.timestamps[row] ?? 0,
      arrivedAtMs: view.arrivals[row] ?? 0,
      personMode: personModeOf(view.modeOf(row)),
      elementsChain: elements[place] ?? '',
      propertiesJson: `{${properties(place)}}`,
    }
  }
}

/** The texts of a column's values, one behind the other in an arena, and which row has which. */
interface ColumnTexts {
  readonly rows: ArrayLike<number>
  /** The value of each of `rows`; null: each has its own. */
  readonly ids: ArrayLike<number> | null
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

/**
 * Gives the JSON of each row's properties, without braces. `places`: row -> place in the result, or -1. Values become bytes
 * column by column, and rows are put together from these: texts that grow piece by piece cost several
 * times as much.
 */
function propertyTexts(
  view: SegmentView,
  places: Int32Array,
  distinctTexts: readonly string[],
): (place: number) => string {
  const arena = new ByteWriter()
  const columns: ColumnTexts[] = []
  const ends = new Uint32Array(distinctTexts.length + 1)
  for (const entry of view.directory.columns) {
    if (entry.role !== ROLE_PROPERTY && entry.role !== ROLE_REST) continue
    const column = columnTexts(view, entry, places, distinctTexts, arena)
    columns.push(column)
    for (let index = 0; index < column.rows.length; index++) {
      const place = places[column.rows[index] ?? 0] ?? -1
      if (place < 0) continue
      const id = column.ids?.[index] ?? index
      const bytes = (column.ends[id] ?? 0) - (column.starts[id] ?? 0)
      // And a comma.
      if (bytes > 0) ends[place + 1] = (ends[place + 1] ?? 0) + bytes + 1
    }
  }
  for (let place = 0; place < distinctTexts.length; place++) {
    ends[place + 1] = (ends[place + 1] ?? 0) + (ends[place] ?? 0)
  }
  const next = ends.slice()
  const bytes = Buffer.allocUnsafe(ends[distinctTexts.length] ?? 0)
  for (const column of columns) copyTexts(column, places, arena.bytes, bytes, next)
  return (place) => {
    const start = ends[place] ?? 0
    return bytes.toString('utf8', start, Math.max(start, (ends[place + 1] ?? 0) - 1))
  }
}

function columnTexts(
  view: SegmentView,
  entry: ColumnEntry,
  places: Int32Array,
  distinctTexts: readonly string[],
  arena: ByteWriter,
): ColumnTexts {
  const { present: rows, ids: given, values } = view.column(entry)
  const isMirror = entry.mode === MODE_MIRROR
  const ids = isMirror ? null : given
  const count = isMirror ? rows.length : values.length
  const starts = new Uint32Array(count)
  const ends = new Uint32Array(count)
  for (let index = 0; index < rows.length; index++) {
    const place = places[rows[index] ?? 0] ?? -1
    const id = ids?.[index] ?? index
    if (place < 0 || ends[id] !== 0) continue
    const text = memberText(entry, isMirror ? distinctTexts[place] : values[id])
    starts[id] = arena.length
    arena.writeText(text)
    ends[id] = arena.length
  }
  return { rows, ids, starts, ends }
}

/** Puts the texts of a column where rows go on, each with a comma behind it. */
function copyTexts(
  { rows, ids, starts, ends }: ColumnTexts,
  places: Int32Array,
  source: Buffer,
  target: Buffer,
  next: Uint32Array,
): void {
  for (let index = 0; index < rows.length; index++) {
    const place = places[rows[index] ?? 0] ?? -1
    if (place < 0) continue
    const id = ids?.[index] ?? index
    const start = starts[id] ?? 0
    const end = ends[id] ?? 0
    if (start === end) continue
    let offset = next[place] ?? 0
    if (end - start > COPIED_BYTES_MAX) {
      source.copy(target, offset, start, end)
      offset += end - start
    } else {
      for (let from = start; from < end; from++) target[offset++] = source[from] ?? 0
    }
    target[offset++] = COMMA
    next[place] = offset
  }
}

/** `"key":value` of a property; the members of an object that shares a column, without its braces. */
function memberText(entry: ColumnEntry, value: unknown): string {
  const json = JSON.stringify(value) ?? 'null'
  return entry.role === ROLE_REST ? json.slice(1, -1) : `${JSON.stringify(entry.key)}:${json}`
}

function elementTexts(view: SegmentView, places: Int32Array, count: number): readonly string[] {
  const texts = new Array<string>(count).fill('')
  const entry = view.special(ROLE_ELEMENTS)
  if (entry === undefined) return texts
  const { present, ids, values } = view.column(entry)
  for (const [index, row] of present.entries()) {
    const place = places[row] ?? -1
    if (place >= 0) texts[place] = String(values[ids[index] ?? 0])
  }
  return texts
}
