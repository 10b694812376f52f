/**
 * Reads the events of a project one after the other in order of arrival, a segment at a time. Properties
 * are given as they were sent: what only follows from them (rules/persons/automatic-properties.ts) is left out, and
 * made again by an import.
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
  // All at once: later the store may have been read anew.
  const personIds = Array.from(rows, (row) =>
    personIdOf(distinctIds[row] ?? 0, summary.firstSequence + row),
  )
  for (const [place, personId] of personIds.entries()) {
    yield { ...lines.eventAt(place), personId }
  }
}
