/**
 * Reads the events of a project in order of arrival, one segment at a time. An exported event has the properties that
 * the client sent. It lacks derived properties (rules/persons/automatic-properties.ts), because an import derives them
 * again.
 */
import type { EventExportQuery } from '../../../rules/events/event-queries.ts'
import type { ExportedEvent, ExportedSegment } from '../../../rules/events/exported-event.ts'
import type { SegmentTables } from '../format/segment-tables.ts'
import type { SegmentView } from '../format/segment-view.ts'
import type { EventFilter } from './event-filter.ts'
import { DistinctTexts, SegmentLines } from './export-lines.ts'

const NOTHING = { count: 0, events: [], writeLine: () => undefined }

/** What an export reads from. */
export interface ExportSource {
  readonly segments: SegmentTables
  readonly filter: EventFilter
  readonly textOf: (distinctId: number) => string
  /** Returns the uuid of the person to whom an event belongs when its segment is read; see `PersonReader.uuidOf`. */
  readonly personIdOf: (distinctId: number, sequence: number) => string
  /** Returns the sequence number of the newest event of the project, or 0 if there is none. */
  readonly lastSequence: () => number
  /**
   * Moves to a newer snapshot. Called before each segment, so that a long export does not make the store keep an old
   * snapshot.
   */
  refresh(): void
}

/**
 * Yields the wanted events, one segment at a time. A segment without wanted events is yielded too, and a segment with
 * more than `rowsMax` wanted events is yielded in several chunks. Throws `DamagedRecordError`. It takes about 6 us for
 * each event with 25 properties, including the time for writing its line.
 */
export function* exportSegments(
  { projectId, afterId, rowsMax }: EventExportQuery,
  source: ExportSource,
): Generator<ExportedSegment> {
  let next = afterId + 1
  let arenaBytes: number | undefined
  const distinctTexts = new DistinctTexts(source.textOf)
  for (;;) {
    source.refresh()
    if (next > source.lastSequence()) return
    const view = source.segments.segmentOf(projectId, next)
    const { firstSequence, rows } = view.summary
    const firstRow = next - firstSequence
    const all = source.filter.mayMatch(view.summary)
      ? source.filter.rowsOf(view, (row) => row >= firstRow)
      : []
    const wanted = Uint16Array.from(all.slice(0, rowsMax))
    const lastRow = wanted.length < all.length ? (wanted.at(-1) ?? 0) : rows - 1
    const lastId = firstSequence + lastRow
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

function* eventsOf(
  lines: SegmentLines,
  { summary, distinctIds }: SegmentView,
  rows: Uint16Array,
  { personIdOf }: ExportSource,
): Generator<ExportedEvent> {
  // The persons must be looked up now, because the next segment is read from a newer snapshot.
  const personIds = Array.from(rows, (row) =>
    personIdOf(distinctIds[row] ?? 0, summary.firstSequence + row),
  )
  for (const [place, personId] of personIds.entries()) {
    yield { ...lines.eventAt(place), personId }
  }
}
