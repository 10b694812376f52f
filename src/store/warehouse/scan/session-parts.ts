/**
 * Parts of the events by sessions, each a stretch of time in which sessions began, judged by their ids: a
 * thread decodes little more than its part, and has its sessions whole. Whether the time in an id is true does
 * not matter: an id is always in the same part.
 */
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { STRETCH_MS } from '../format/session-stretches.ts'
import { type Candidates, keepMarked, type ScanFacts } from './event-scan-filter.ts'
import type { ScanSegment } from './event-scan-segment.ts'

/** Where parts begin, but the first, so that each has about as many of the events of these segments. */
export function sessionBounds(
  summaries: readonly SegmentSummary[],
  count: number,
): readonly number[] {
  const sorted = summaries.toSorted((a, b) => a.firstTimestampMs - b.firstTimestampMs)
  const total = sorted.reduce((sum, { rows }) => sum + rows, 0)
  const bounds: number[] = []
  let before = 0
  for (const { rows, firstTimestampMs } of sorted) {
    while (bounds.length + 1 < count && before * count >= total * (bounds.length + 1)) {
      bounds.push(Math.floor(firstTimestampMs))
    }
    before += rows
  }
  return bounds
}

/** One part of all sessions. */
export class SessionPart {
  readonly #fromMs: number
  /** Exclusive. */
  readonly #untilMs: number

  constructor(fromMs: number, untilMs: number) {
    this.#fromMs = fromMs
    this.#untilMs = untilMs
  }

  /** Whether a segment may hold events of the part. */
  mayHold(segment: ScanSegment): boolean {
    const { sessionStretches } = segment
    return (
      sessionStretches === null ||
      this.#isHome(segment) ||
      sessionStretches.some((stretch) => {
        const startMs = stretch * STRETCH_MS
        return startMs < this.#untilMs && startMs + STRETCH_MS > this.#fromMs
      })
    )
  }

  /** Drops candidates that are not in the part. `marks` is memory for them. */
  keepOwn(candidates: Candidates, { sessions, textOf }: ScanFacts, marks: Uint8Array): void {
    const { segment, places, count } = candidates
    if (this.#holdsAll(segment)) return
    const { ids, numbers } = sessions.ofSegment(segment, textOf)
    const isHome = this.#isHome(segment)
    const beganMs = sessions.beganMs(numbers)
    const isOwn = Uint8Array.from(numbers, (number, index) =>
      (number === 0 ? isHome : this.#has(beganMs[index] ?? 0)) ? 1 : 0,
    )
    for (let index = 0; index < count; index++) {
      marks[index] = isOwn[ids[places[index] ?? 0] ?? 0] ?? 0
    }
    keepMarked(candidates, marks)
  }

  /** Whether all events of a segment are in the part. */
  #holdsAll(segment: ScanSegment): boolean {
    const { sessionStretches } = segment
    return (
      this.#isHome(segment) &&
      sessionStretches?.every((stretch) => {
        const startMs = stretch * STRETCH_MS
        return this.#has(startMs) && this.#has(startMs + STRETCH_MS - 1)
      }) === true
    )
  }

  /** Whether events of a segment that are in no session are in the part. */
  #isHome({ summary }: ScanSegment): boolean {
    return this.#has(summary.firstTimestampMs)
  }

  #has(timeMs: number): boolean {
    return timeMs >= this.#fromMs && timeMs < this.#untilMs
  }
}

/** The sessions of a part; null: all. */
export function sessionPart(part: EventPart | undefined): SessionPart | null {
  if (part?.by !== 'sessions' || part.count === 1) return null
  const { index, bounds = [] } = part
  const fromMs =
    index === 0 ? Number.NEGATIVE_INFINITY : (bounds[index - 1] ?? Number.POSITIVE_INFINITY)
  return new SessionPart(fromMs, bounds[index] ?? Number.POSITIVE_INFINITY)
}
