/** Reads values of single events by their sequence numbers. */
import type { ValueColumn } from '../../../rules/analytics/event-columns.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { type Candidates, newCandidates } from './event-scan-filter.ts'
import type { ScanSegment } from './event-scan-segment.ts'
import { type ValueReader, valueColumn } from './event-scan-values.ts'

/**
 * Returns the values at ascending sequence numbers, one column for each reader. `use` opens a segment and passes it on.
 * The cost is linear in the number of sequence numbers, and in the rows of the segments that contain them.
 */
export function readAt(
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
      place(candidates, sequences.subarray(start, next))
      for (const { reader, ids } of columns) reader.read(candidates, ids, start)
    })
  }
  return columns.map(({ reader, ids }) => valueColumn(ids, length, reader))
}

/** Makes the rows with these sequence numbers the candidates of the segment. */
function place(candidates: Candidates, sequences: Uint32Array): void {
  const { segment, places } = candidates
  const placeOfRow = segment.places
  const { firstSequence } = segment.summary
  for (let index = 0; index < sequences.length; index++) {
    places[index] = placeOfRow[(sequences[index] ?? 0) - firstSequence] ?? 0
  }
  candidates.count = sequences.length
}
