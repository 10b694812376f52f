/**
 * Finds the events of a segment that an erasure removes. The header of the segment is checked first. For most segments,
 * the header shows that no event matches. Their columns are then not read.
 */
import {
  type ErasureMatch,
  mayMatch,
  overlaps,
  ruleOf,
} from '../../../rules/events/erasure-match.ts'
import type { SegmentView } from '../format/segment-view.ts'

/**
 * Returns an array with one element for each row of a segment: 1 if the erasure removes the row, otherwise 0. Returns
 * null if the erasure removes no row.
 */
export function matchedRows(match: ErasureMatch, view: SegmentView): Uint8Array | null {
  const { firstSequence, firstTimestampMs, lastTimestampMs } = view.summary
  if (!mayMatch(match, view.summary)) return null
  const hasName = ([name, count]: readonly [string, number]): boolean =>
    count > 0 && overlaps(ruleOf(match, name), firstTimestampMs, lastTimestampMs)
  if (firstSequence > match.oldestThrough && !view.directory.names.some(hasName)) return null
  const { distinctIds } = view
  if (distinctIds.every((id) => id === 0)) return null
  const { timestamps, names } = view
  const rules = names.values.map((name) => ruleOf(match, String(name)))
  const matched = new Uint8Array(distinctIds.length)
  let count = 0
  for (let row = 0; row < distinctIds.length; row++) {
    const distinctId = distinctIds[row] ?? 0
    const sequence = firstSequence + row
    // Skip erased rows, which have no distinct ID number.
    if (distinctId === 0 || sequence > match.through) continue
    if (match.spans !== null) {
      const span = match.spans.get(distinctId)
      if (span === undefined || sequence <= span[0] || sequence > span[1]) continue
    }
    const rule = rules[names.ids[row] ?? 0] ?? null
    const time = timestamps[row] ?? 0
    if (sequence > match.oldestThrough && !overlaps(rule, time, time)) continue
    matched[row] = 1
    count++
  }
  return count === 0 ? null : matched
}

/** Returns the number of rows that are marked with a 1. */
export function countRows(marked: Uint8Array): number {
  return marked.reduce((sum, each) => sum + each, 0)
}

/** Returns the number of events of a segment that are not erased. */
export function countLive(view: SegmentView): number {
  return view.distinctIds.reduce((sum, id) => (id === 0 ? sum : sum + 1), 0)
}
