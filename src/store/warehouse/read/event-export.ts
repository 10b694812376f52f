/**
 * Reads the events of a project one after the other in order of arrival, a segment at a time. Properties
 * are given as they were sent: what only follows from them (rules/persons/automatic-properties.ts) is left out, and
 * made again by an import.
 */
import type { ExportedEvent, ExportedSegment } from '../../../rules/events/exported-event.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { DistinctTexts, SegmentLines } from './export-lines.ts'

const NO_ROWS = new Uint16Array(0)
const NOTHING = { count: 0, events: [], writeLine: () => undefined }

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

/** What an export reads from. */
export interface ExportSource {
  readonly segments: SegmentTables
  readonly textOf: (distinctId: number) => string
  /** As `PersonReader.uuidOf`, at the time of the segment. */
  readonly personIdOf: (distinctId: number, sequence: number) => string
  /** S of the newest event of the project; 0: there is none. */
  readonly lastSequence: () => number
  /** Lets the next segment be read as it is then. */
  refresh(): void
}

/**
 * All segments, also those without wanted events. Throws `DamagedRecordError`. Cost: some
 * 6 us an event of 25 properties, with its line.
 */
export function* exportSegments(
  query: ExportQuery,
  source: ExportSource,
): Generator<ExportedSegment> {
  let next = query.afterId + 1
  let arenaBytes: number | undefined
  const distinctTexts = new DistinctTexts(source.textOf)
  for (;;) {
    source.refresh()
    if (next > source.lastSequence()) return
    const view = source.segments.segmentOf(query.projectId, next)
    const { firstSequence, rows } = view.summary
    const lastId = firstSequence + rows - 1
    const wanted = wantedRows(view, query, next - firstSequence)
    if (wanted.length === 0) yield { ...NOTHING, lastId }
    else {
      const lines = new SegmentLines(view, wanted, distinctTexts, arenaBytes)
      arenaBytes = lines.arenaBytes
      yield {
        count: lines.count,
        events: eventsOf(lines, view, wanted, source),
        writeLine: (place, target) => lines.writeLine(place, target),
        lastId,
      }
    }
    next = lastId + 1
  }
}

function wantedRows(view: SegmentView, query: ExportQuery, firstRow: number): Uint16Array {
  const { summary } = view
  const after = query.afterMs ?? Number.NEGATIVE_INFINITY
  const before = query.beforeMs ?? Number.POSITIVE_INFINITY
  if (summary.lastTimestampMs <= after || summary.firstTimestampMs >= before) return NO_ROWS
  const { ids, values } = view.names
  const name = query.event === undefined ? -1 : values.indexOf(query.event)
  if (query.event !== undefined && name < 0) return NO_ROWS
  const { timestamps, distinctIds } = view
  const rows = new Uint16Array(summary.rows)
  let count = 0
  for (let row = firstRow; row < summary.rows; row++) {
    const distinctId = distinctIds[row] ?? 0
    // Deleted rows belong to no distinct_id.
    if (distinctId === 0) continue
    if (query.distinctId !== undefined && distinctId !== query.distinctId) continue
    if (name >= 0 && ids[row] !== name) continue
    const time = timestamps[row] ?? 0
    if (time > after && time < before) rows[count++] = row
  }
  return rows.subarray(0, count)
}

function* eventsOf(
  lines: SegmentLines,
  { summary, distinctIds }: SegmentView,
  rows: Uint16Array,
  { personIdOf }: ExportSource,
): Generator<ExportedEvent> {
  // All at once: later the store may have been read anew.
  const personIds = Array.from(rows, (row) =>
    personIdOf(distinctIds[row] ?? 0, summary.firstSequence + row),
  )
  for (const [place, personId] of personIds.entries()) {
    yield { ...lines.eventAt(place), personId }
  }
}
