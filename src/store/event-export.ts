/**
 * Reads the events of a project one after the other in order of arrival, a segment at a time, and makes
 * one line of JSON of each. The text of a value is made once for each different value of a column, so
 * that an event costs a few microseconds. Properties are given as they were sent: what only follows from
 * them (ingest/person-properties.ts) is left out, and made again by an import.
 */
import { personModeOf } from './segment-builder.ts'
import {
  type ColumnEntry,
  MODE_MIRROR,
  ROLE_ELEMENTS,
  ROLE_PROPERTY,
  ROLE_REST,
} from './segment-format.ts'
import type { SegmentTables, SegmentView } from './segment-view.ts'

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
  readonly events: readonly ExportedEvent[]
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

/** All segments with wanted events. Throws `DamagedRecordError`. Cost: about 5 us an event of 25 properties. */
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
    yield { events: wanted.length === 0 ? [] : eventsOf(view, wanted, source.textOf), lastId }
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

function eventsOf(
  view: SegmentView,
  rows: readonly number[],
  textOf: (distinctId: number) => string,
): readonly ExportedEvent[] {
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
  return rows.map((row, place) => ({
    id: firstSequence + row,
    uuid: view.uuidOf(row),
    event: String(values[ids[row] ?? 0]),
    distinctId: texts[place] ?? '',
    timestampMs: view.timestamps[row] ?? 0,
    arrivedAtMs: view.arrivals[row] ?? 0,
    personMode: personModeOf(view.modeOf(row)),
    elementsChain: elements[place] ?? '',
    propertiesJson: `{${properties[place] ?? ''}}`,
  }))
}

/** The members of each row's properties, column by column. `places`: row -> place in the result, or -1. */
function propertyTexts(
  view: SegmentView,
  places: Int32Array,
  distinctTexts: readonly string[],
): readonly string[] {
  const members = new Array<string>(distinctTexts.length).fill('')
  const add = (row: number, text: string): void => {
    const place = places[row] ?? -1
    if (place < 0 || text === '') return
    const before = members[place] ?? ''
    members[place] = before === '' ? text : `${before},${text}`
  }
  for (const entry of view.directory.columns) {
    if (entry.role !== ROLE_PROPERTY && entry.role !== ROLE_REST) continue
    const { present, ids, values } = view.column(entry)
    if (entry.mode === MODE_MIRROR) {
      for (const row of present) {
        add(row, memberText(entry, distinctTexts[places[row] ?? -1] ?? ''))
      }
      continue
    }
    const fragments = new Array<string | undefined>(values.length)
    for (let index = 0; index < present.length; index++) {
      const row = present[index] ?? 0
      if ((places[row] ?? -1) < 0) continue
      const id = ids[index] ?? 0
      let fragment = fragments[id]
      if (fragment === undefined) {
        fragment = memberText(entry, values[id])
        fragments[id] = fragment
      }
      add(row, fragment)
    }
  }
  return members
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
