/**
 * Prepares the target of an erasure for matching many events, and checks whether it can match anything within a time
 * range.
 */
import type { ErasureRule } from './erasure.ts'
import type { ErasureTarget } from './erasure-job.ts'

/** An `ErasureTarget` in a form for fast lookups. */
export interface ErasureMatch {
  readonly spans: ReadonlyMap<number, readonly [after: number, through: number]> | null
  readonly byName: ReadonlyMap<string, ErasureRule>
  readonly others: ErasureRule | null
  readonly oldestThrough: number
  readonly through: number
}

/** Consecutive events: the sequence number of the first one, and the range of their times in milliseconds. */
export interface EventSpan {
  readonly firstSequence: number
  readonly firstTimestampMs: number
  readonly lastTimestampMs: number
}

/** Prepares the target of an erasure for matching many events. */
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

/** Returns the rule for events with this name, or null if no rule applies to them. */
export function ruleOf({ byName, others }: ErasureMatch, name: string): ErasureRule | null {
  return byName.get(name) ?? others
}

/**
 * Returns whether a rule selects any time from `firstMs` to `lastMs`, both included. Returns false if `rule` is null.
 */
export function overlaps(rule: ErasureRule | null, firstMs: number, lastMs: number): boolean {
  if (rule === null) return false
  const { afterMs, beforeMs } = rule
  return (afterMs === null || lastMs >= afterMs) && (beforeMs === null || firstMs < beforeMs)
}

/**
 * Returns whether the erasure selects an event, given the event's sequence number, distinct ID number, name and time.
 */
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

/** Returns whether the erasure may select at least one of some consecutive events. */
export function mayMatch(match: ErasureMatch, span: EventSpan): boolean {
  if (span.firstSequence > match.through) return false
  if (span.firstSequence <= match.oldestThrough) return true
  const { firstTimestampMs, lastTimestampMs } = span
  const rules = [match.others, ...match.byName.values()]
  return rules.some((rule) => overlaps(rule, firstTimestampMs, lastTimestampMs))
}
