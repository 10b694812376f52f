/**
 * Divides the events of a query into parts by their sessions, so that several threads can work on it. A part contains
 * all sessions whose ids begin with a time in a certain range. So each session is complete in its part, and a thread
 * decodes hardly more than the segments of its own part. The time in an id need not be right: what matters is only that
 * an id always belongs to the same part.
 */
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { START_RANGE_MS } from '../format/session-starts.ts'
import { type Candidates, keepMarked, type ScanFacts } from './event-scan-filter.ts'
import type { ScanSegment } from './event-scan-segment.ts'

/**
 * Returns the times at which the parts begin, without the first part. They are chosen so that each part has about the
 * same number of the events in these segments.
 */
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

/** One part of the sessions of a project, given by a range of time. */
export class SessionPart {
  readonly #fromMs: number
  /** The end of the range of time. It does not belong to the part. */
  readonly #untilMs: number

  constructor(fromMs: number, untilMs: number) {
    this.#fromMs = fromMs
    this.#untilMs = untilMs
  }

  /** Returns whether a segment may contain events of the part. */
  mayHold(segment: ScanSegment): boolean {
    const { sessionStarts } = segment
    return (
      sessionStarts === null ||
      this.#isHome(segment) ||
      sessionStarts.some((range) => {
        const startMs = range * START_RANGE_MS
        return startMs < this.#untilMs && startMs + START_RANGE_MS > this.#fromMs
      })
    )
  }

  /**
   * Removes the candidates (rows that the scan still examines) that do not belong to the part. `marks` is memory for
   * temporary use.
   */
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

  /** Returns whether all events of a segment belong to the part. */
  #holdsAll(segment: ScanSegment): boolean {
    const { sessionStarts } = segment
    return (
      this.#isHome(segment) &&
      sessionStarts?.every((range) => {
        const startMs = range * START_RANGE_MS
        return this.#has(startMs) && this.#has(startMs + START_RANGE_MS - 1)
      }) === true
    )
  }

  /** Returns whether the events of a segment that have no session belong to the part. */
  #isHome({ summary }: ScanSegment): boolean {
    return this.#has(summary.firstTimestampMs)
  }

  #has(timeMs: number): boolean {
    return timeMs >= this.#fromMs && timeMs < this.#untilMs
  }
}

/** Returns the sessions to which a part of a query is limited, or null if there is no such limit. */
export function sessionPart(part: EventPart | undefined): SessionPart | null {
  if (part?.by !== 'sessions' || part.count === 1) return null
  const { index, bounds = [] } = part
  const fromMs =
    index === 0 ? Number.NEGATIVE_INFINITY : (bounds[index - 1] ?? Number.POSITIVE_INFINITY)
  return new SessionPart(fromMs, bounds[index] ?? Number.POSITIVE_INFINITY)
}
