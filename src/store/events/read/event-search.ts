/**
 * Finds the events of one page: newest timestamp first, and latest arrival first among equal timestamps. Segments are
 * visited in the order of their newest timestamps. The search ends when no further segment can contain an event of the
 * page.
 */
import type { EventListQuery } from '../../../rules/events/event-queries.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { EventFilter, type EventFilterOptions } from './event-filter.ts'

/** The options of a search. */
export interface EventSearchOptions extends EventFilterOptions {
  readonly query: EventListQuery
  /** All segments of the project. */
  readonly summaries: readonly SegmentSummary[]
  readonly open: (firstSequence: number) => SegmentView
}

/** An event that was found. */
export interface FoundEvent {
  readonly timestampMs: number
  readonly sequence: number
  /**
   * The first sequence number of the segment that contains the event. Only the number is stored, not the decoded
   * segment, because a segment may be large.
   */
  readonly firstSequence: number
}

/** Finds one page of the events that match a query. */
export class EventSearch {
  readonly #options: EventSearchOptions
  readonly #filter: EventFilter
  /** The size of the page plus one, so that the caller learns whether another page follows. */
  readonly #limit: number
  #found: FoundEvent[] = []

  constructor(options: EventSearchOptions) {
    this.#options = options
    this.#filter = new EventFilter(options)
    this.#limit = options.query.limit + 1
  }

  /** Returns the events of the page in order, and one more if there is one. Throws `DamagedRecordError`. */
  run(): readonly FoundEvent[] {
    const candidates = this.#options.summaries
      .filter((summary) => this.#mayMatch(summary))
      .sort((a, b) => b.lastTimestampMs - a.lastTimestampMs)
    for (const summary of candidates) {
      const worst = this.#worst()
      if (worst !== null && summary.lastTimestampMs < worst.timestampMs) break
      this.#searchSegment(summary)
    }
    return this.#found
  }

  #mayMatch(summary: SegmentSummary): boolean {
    const { cursor } = this.#options.query
    if (!this.#filter.mayMatch(summary)) return false
    return cursor === undefined || summary.firstTimestampMs <= cursor.timestampMs
  }

  /**
   * Returns the last event of the page if the page is full, otherwise null. Further events are only of interest if they
   * come before this event.
   */
  #worst(): FoundEvent | null {
    return this.#found.length < this.#limit ? null : (this.#found.at(-1) ?? null)
  }

  #searchSegment(summary: SegmentSummary): void {
    const view = this.#options.open(summary.firstSequence)
    const { cursor } = this.#options.query
    const worst = this.#worst()
    const { firstSequence } = summary
    // Test only rows that are after the cursor and that still fit onto the page.
    const rows = this.#filter.rowsOf(view, (row, time) => {
      const sequence = firstSequence + row
      if (cursor !== undefined && !isBehind(time, sequence, cursor.timestampMs, cursor.id)) {
        return false
      }
      return worst === null || !isBehind(time, sequence, worst.timestampMs, worst.sequence)
    })
    this.#take(view, rows)
  }

  #take(view: SegmentView, rows: readonly number[]): void {
    const { firstSequence } = view.summary
    for (const row of rows) {
      const timestampMs = view.timestamps[row] ?? 0
      this.#found.push({ timestampMs, sequence: firstSequence + row, firstSequence })
    }
    this.#found.sort((a, b) => b.timestampMs - a.timestampMs || b.sequence - a.sequence)
    this.#found = this.#found.slice(0, this.#limit)
  }
}

/** Returns whether an event comes after another one in a list that begins with the newest event. */
function isBehind(time: number, sequence: number, otherTime: number, other: number): boolean {
  return time < otherTime || (time === otherTime && sequence < other)
}
