/**
 * Which events of a segment an erasure means. What the header says comes first: most segments are
 * passed over without a look at their columns.
 */

import type { ErasureRule } from '../../../rules/events/erasure.ts'
import type { ErasureTarget } from '../../../rules/events/erasure-job.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import type { SegmentView } from '../format/segment-view.ts'

/** The same, ready for looking up. */
export interface ErasureMatch {
  readonly spans: ReadonlyMap<number, readonly [after: number, through: number]> | null
  readonly byName: ReadonlyMap<string, ErasureRule>
  readonly others: ErasureRule | null
  readonly oldestThrough: number
  readonly through: number
}

/** Prepares the search for what an erasure means. */
export function erasureMatch({ ids, rules, oldestThrough, through }: ErasureTarget): ErasureMatch {
  const byName = new Map<string, ErasureRule>()
  let others: ErasureRule | null = null
  for (const rule of rules) {
    if (rule.event === null) others = rule
    else byName.set(rule.event, rule)
  }
  const spans = ids?.map(([id, after, last]) => [id, [after, last] as const] as const)
  return {
    spans: spans === undefined ? null : new Map(spans),
    byName,
    others,
    oldestThrough,
    through,
  }
}

/** Whether the rules mean an event of that name and moment, whoever sent it. */
export function meansMoment(match: ErasureMatch, name: string, timestampMs: number): boolean {
  return includes(ruleOf(match, name), timestampMs)
}

/** The rows of a segment that are meant, marked with 1; null when there are none. */
export function matchedRows(match: ErasureMatch, view: SegmentView): Uint8Array | null {
  const { summary } = view
  const { firstSequence } = summary
  if (!mayMatch(match, summary)) return null
  const isOld = firstSequence <= match.oldestThrough
  const hasName = ([name, count]: readonly [string, number]): boolean =>
    count > 0 && overlaps(ruleOf(match, name), summary)
  if (!isOld && !view.directory.names.some(hasName)) return null
  const { distinctIds } = view
  if (distinctIds.every((id) => id === 0)) return null
  const { timestamps, names } = view
  const rules = names.values.map((name) => ruleOf(match, String(name)))
  const matched = new Uint8Array(distinctIds.length)
  let count = 0
  for (let row = 0; row < distinctIds.length; row++) {
    const distinctId = distinctIds[row] ?? 0
    const sequence = firstSequence + row
    // What is erased already belongs to no distinct_id.
    if (distinctId === 0 || sequence > match.through) continue
    if (match.spans !== null && !isWithin(match.spans.get(distinctId), sequence)) continue
    const rule = rules[names.ids[row] ?? 0] ?? null
    if (sequence > match.oldestThrough && !includes(rule, timestamps[row] ?? 0)) continue
    matched[row] = 1
    count++
  }
  return count === 0 ? null : matched
}

/** Whether a segment can hold events that are meant, judged by the fixed part of its header. */
export function mayMatch(match: ErasureMatch, summary: SegmentSummary): boolean {
  if (summary.firstSequence > match.through) return false
  if (summary.firstSequence <= match.oldestThrough) return true
  if (overlaps(match.others, summary)) return true
  for (const rule of match.byName.values()) if (overlaps(rule, summary)) return true
  return false
}

/** The number of rows that are marked. */
export function countRows(marked: Uint8Array): number {
  return marked.reduce((sum, each) => sum + each, 0)
}

/** The number of events of a segment that are not erased. */
export function countLive(view: SegmentView): number {
  return view.distinctIds.reduce((sum, id) => (id === 0 ? sum : sum + 1), 0)
}

function ruleOf({ byName, others }: ErasureMatch, name: string): ErasureRule | null {
  return byName.get(name) ?? others
}

function includes(rule: ErasureRule | null, timestampMs: number): boolean {
  if (rule === null) return false
  const { afterMs, beforeMs } = rule
  return (
    (afterMs === null || timestampMs >= afterMs) && (beforeMs === null || timestampMs < beforeMs)
  )
}

function overlaps(rule: ErasureRule | null, summary: SegmentSummary): boolean {
  if (rule === null) return false
  const { afterMs, beforeMs } = rule
  return (
    (afterMs === null || summary.lastTimestampMs >= afterMs) &&
    (beforeMs === null || summary.firstTimestampMs < beforeMs)
  )
}

function isWithin(
  span: readonly [after: number, through: number] | undefined,
  sequence: number,
): boolean {
  return span !== undefined && sequence > span[0] && sequence <= span[1]
}
