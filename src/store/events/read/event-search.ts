/**
 * Finds the events of one page. They are ordered by timestamp, newest first. If timestamps are equal, the event that
 * arrived last comes first. Segments are visited in the order of their newest timestamps. The search ends when no
 * further segment can contain an event of the page.
 */
import type { EventListQuery } from '../../../rules/events/event-queries.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import type { SegmentView } from '../format/segment-view.ts'
import { EventFilter, type EventFilterOptions } from './event-filter.ts'

/** What an `EventSearch` needs, in addition to its filter. */
export interface EventSearchOptions extends EventFilterOptions {
  readonly query: EventListQuery
  /** All segments of the project. */
  readonly summaries: readonly SegmentSummary[]
  readonly open: (firstSequence: number) => SegmentView
}

/** An event that was found, as a candidate for the page. */
export interface FoundEvent {
  readonly timestampMs: number
  readonly sequence: number
  /**
   * The sequence number with which the event's segment begins. The decoded segment itself is not kept here, because it
   * may be large.
   */
  readonly firstSequence: number
}

/** Finds one page of the events that a query wants. */
export class EventSearch {
  readonly #options: EventSearchOptions
  readonly #filter: EventFilter
  /**
   * The largest number of events on the page, plus one. By the additional event, the caller learns that another page
   * follows.
   */
  readonly #limit: number
  #found: FoundEvent[] = []

  constructor(options: EventSearchOptions) {
    this.#options = options
    this.#filter = new EventFilter(options)
    this.#limit = options.query.limit + 1
  }

  /**
   * Returns the events of the page in order, and if there are more, also the first event after them. Throws
   * `DamagedRecordError`.
   */
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
   * Returns the last of the found events if there are `#limit` of them, otherwise null. If it is not null, further
   * events matter only if they come before it.
   */
  #worst(): FoundEvent | null {
    return this.#found.length < this.#limit ? null : (this.#found.at(-1) ?? null)
  }

  #searchSegment(summary: SegmentSummary): void {
    const view = this.#options.open(summary.firstSequence)
    const { cursor } = this.#options.query
    const worst = this.#worst()
    const { firstSequence } = summary
    // Test only rows that come after the cursor and, if enough events were found, before the last of them.
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

/** Returns whether an event comes after another event on the page, which begins with the newest event. */
function isBehind(time: number, sequence: number, otherTime: number, other: number): boolean {
  return time < otherTime || (time === otherTime && sequence < other)
}
