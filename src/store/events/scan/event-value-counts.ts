/** Counts the events with each value of one event property. It reads the columns that scans cache. */
import type { EventScanner } from '../../../rules/analytics/event-columns.ts'
import { type EventValueQuery, ValueCounts } from '../../../rules/events/event-values.ts'
import { loadDistinctText } from '../../identity/distinct-ids.ts'
import type { ScanStore } from './event-scan.ts'
import { heldRange, type PlacedColumn, valueAt } from './event-scan-columns.ts'
import type { ScanSegment } from './event-scan-segment.ts'

/**
 * Returns the counts of the requested values. Throws the errors of `scanner.checkLimits`, and `DamagedRecordError`. It
 * takes about 10 us for each segment in the range of time, and more if its columns are not cached.
 */
export function countValues(
  { tables, segments, cache, counts: known }: ScanStore,
  query: EventValueQuery,
  scanner: Pick<EventScanner, 'checkLimits'>,
): ValueCounts {
  const { projectId, key, contains, eventNames, fromMs, toMs } = query
  const counts = new ValueCounts(contains)
  const textOf = (distinctId: number): string => loadDistinctText(tables, projectId, distinctId)
  const summaries = segments.allSummaries(projectId)
  cache.beginScan(projectId, summaries)
  for (const summary of summaries) {
    if (summary.lastTimestampMs < fromMs || summary.firstTimestampMs > toMs) continue
    scanner.checkLimits()
    const names = known.of(summary).counts
    if (eventNames?.some((name) => names.has(name)) === false) continue
    cache.use(summary, (segment) => {
      const column = segment.property(key, textOf)
      const { values } = column
      // Index 0 stands for no value. So if there is only one index, no event of the segment has a value.
      if (values.length === 1) return
      const rows = new Uint32Array(values.length)
      countRows(segment, query, column, rows)
      for (let id = 1; id < values.length; id++) {
        const count = rows[id] ?? 0
        if (count > 0) counts.add(valueAt(values, id), count)
      }
    })
  }
  return counts
}

/** Adds, for each value, the number of rows in a segment that have it, to `rows`. */
function countRows(
  { nameRows, times, summary }: ScanSegment,
  { eventNames, fromMs, toMs }: EventValueQuery,
  column: PlacedColumn,
  rows: Uint32Array,
): void {
  const isWithin = summary.firstTimestampMs >= fromMs && summary.lastTimestampMs <= toMs
  const { values: names, starts } = nameRows
  const { base, offsets } = times
  for (let name = 0; name < names.length; name++) {
    if (eventNames?.includes(String(names[name])) === false) continue
    // Only positions that may have a value are counted.
    const { from, to } = heldRange(column, starts[name] ?? 0, starts[name + 1] ?? 0)
    for (let place = from; place < to; place++) {
      const time = base + (offsets[place] ?? 0)
      if (!isWithin && (time < fromMs || time > toMs)) continue
      const id = column.ids[place - column.first] ?? 0
      rows[id] = (rows[id] ?? 0) + 1
    }
  }
}
