/** What an erasure means, prepared for looking at many events, and what it can mean at all within a range of time. */
import type { ErasureRule } from './erasure.ts'
import type { ErasureTarget } from './erasure-job.ts'

/** An `ErasureTarget`, ready for looking up. */
export interface ErasureMatch {
  readonly spans: ReadonlyMap<number, readonly [after: number, through: number]> | null
  readonly byName: ReadonlyMap<string, ErasureRule>
  readonly others: ErasureRule | null
  readonly oldestThrough: number
  readonly through: number
}

/** Neighbouring events: the S of the first, and their range of time, milliseconds. */
export interface EventSpan {
  readonly firstSequence: number
  readonly firstTimestampMs: number
  readonly lastTimestampMs: number
}

/** Prepares the search for what an erasure means. */
export function erasureMatch({ ids, rules, oldestThrough, through }: ErasureTarget): ErasureMatch {
  const named = rules.flatMap((rule) => (rule.event === null ? [] : [[rule.event, rule] as const]))
  const spans = ids?.map(([id, after, last]) => [id, [after, last] as const] as const)
  return {
    spans: spans === undefined ? null : new Map(spans),
    byName: new Map(named),
    others: rules.findLast(({ event }) => event === null) ?? null,
    oldestThrough,
    through,
  }
}

/** The rule for events of a name, or null. */
export function ruleOf({ byName, others }: ErasureMatch, name: string): ErasureRule | null {
  return byName.get(name) ?? others
}

/** Whether a rule means some moment between two, both included. */
export function overlaps(rule: ErasureRule | null, firstMs: number, lastMs: number): boolean {
  if (rule === null) return false
  const { afterMs, beforeMs } = rule
  return (afterMs === null || lastMs >= afterMs) && (beforeMs === null || firstMs < beforeMs)
}

/** Whether one event is meant: its S, D, name and time. */
export function isMeant(
  match: ErasureMatch,
  sequence: number,
  distinctId: number,
  name: string,
  timestampMs: number,
): boolean {
  if (sequence > match.through) return false
  if (match.spans !== null) {
    const span = match.spans.get(distinctId)
    if (span === undefined || sequence <= span[0] || sequence > span[1]) return false
  }
  if (sequence <= match.oldestThrough) return true
  return overlaps(ruleOf(match, name), timestampMs, timestampMs)
}

/** Whether some of these events may be meant. */
export function mayMatch(match: ErasureMatch, span: EventSpan): boolean {
  if (span.firstSequence > match.through) return false
  if (span.firstSequence <= match.oldestThrough) return true
  const { firstTimestampMs, lastTimestampMs } = span
  const rules = [match.others, ...match.byName.values()]
  return rules.some((rule) => overlaps(rule, firstTimestampMs, lastTimestampMs))
}
