/**
 * Finds the events of one page: newest timestamp first, equal timestamps by latest arrival. Segments are
 * visited in order of their newest timestamp, and the search ends when no further segment can hold an
 * event of the page. In a segment, cheap tests come first and only the columns that tests need are
 * decoded.
 */
import { getOrAdd } from '../../../base/maps.ts'
import type { EventListQuery } from '../../../rules/events/event-queries.ts'
import type { PropertyFilter } from '../../../rules/filters/filter-group.ts'
import type { PropertyTest } from '../../../rules/filters/operator-tests.ts'
import { propertyTest } from '../../../rules/filters/property-filter.ts'
import type { PersonReader } from '../../identity/person-reader.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { propertyColumn } from '../format/segment-properties.ts'
import type { SegmentView } from '../format/segment-view.ts'

/** What a search works on. */
export interface EventSearchOptions {
  readonly query: EventListQuery
  /** D of the distinct_id asked for, or null for any. */
  readonly distinctId: number | null
  /** Whether the person of the event S of D is the one asked for; null for any. */
  readonly isPersonWanted: ((distinctId: number, sequence: number) => boolean) | null
  readonly persons: PersonReader
  readonly textOf: (distinctId: number) => string
  /** All segments of the project. */
  readonly summaries: readonly SegmentSummary[]
  readonly open: (firstSequence: number) => SegmentView
}

/** An event that was found. */
export interface FoundEvent {
  readonly timestampMs: number
  readonly sequence: number
  /** The segment that holds it; not the segment itself, which may be large when decoded. */
  readonly firstSequence: number
}

interface NamedTest {
  readonly key: string
  readonly test: PropertyTest
}

/** One search. */
export class EventSearch {
  readonly #options: EventSearchOptions
  readonly #eventTests: readonly NamedTest[]
  readonly #personTests: readonly NamedTest[]
  /** Whether P passes the tests on persons. */
  readonly #persons = new Map<number, boolean>()
  /** One more than the page has, so that the caller knows whether another page follows. */
  readonly #limit: number
  #found: FoundEvent[] = []

  constructor(options: EventSearchOptions) {
    this.#options = options
    const filters = options.query.properties ?? []
    this.#eventTests = buildTests(filters, 'event')
    this.#personTests = buildTests(filters, 'person')
    this.#limit = options.query.limit + 1
  }

  /** Up to one event more than the page has, in order. Throws `DamagedRecordError`. */
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
    const { afterMs, beforeMs, cursor } = this.#options.query
    if (afterMs !== undefined && summary.lastTimestampMs <= afterMs) return false
    if (beforeMs !== undefined && summary.firstTimestampMs >= beforeMs) return false
    return cursor === undefined || summary.firstTimestampMs <= cursor.timestampMs
  }

  /** The last event of a full page, which a further one has to beat. */
  #worst(): FoundEvent | null {
    return this.#found.length < this.#limit ? null : (this.#found.at(-1) ?? null)
  }

  #searchSegment(summary: SegmentSummary): void {
    const { query, open, distinctId } = this.#options
    const view = open(summary.firstSequence)
    const { event } = query
    if (event !== undefined) {
      const hasName = view.directory.names.some(([name, count]) => name === event && count > 0)
      if (!hasName) return
    }
    let rows = this.#rowsInTime(view)
    if (distinctId !== null) rows = rows.filter((row) => view.distinctIds[row] === distinctId)
    if (event !== undefined && rows.length > 0) {
      const { ids, values } = view.names
      const wanted = values.indexOf(event)
      rows = rows.filter((row) => ids[row] === wanted)
    }
    if (rows.length > 0) rows = this.#rowsOfPersons(view, rows)
    for (const { key, test } of this.#eventTests) {
      if (rows.length === 0) return
      const passes = propertyRows(view, key, test, this.#options.textOf)
      rows = rows.filter(passes)
    }
    this.#take(view, rows)
  }

  /** Rows within the time asked for, behind the cursor, that could still get onto the page. */
  #rowsInTime(view: SegmentView): number[] {
    const { afterMs, beforeMs, cursor } = this.#options.query
    const { timestamps, distinctIds } = view
    const { firstSequence } = view.summary
    const after = afterMs ?? Number.NEGATIVE_INFINITY
    const before = beforeMs ?? Number.POSITIVE_INFINITY
    const worst = this.#worst()
    const rows: number[] = []
    for (let row = 0; row < timestamps.length; row++) {
      // The deleted rows of a segment belong to no distinct_id.
      if (distinctIds[row] === 0) continue
      const time = timestamps[row] ?? 0
      if (time <= after || time >= before) continue
      const sequence = firstSequence + row
      if (cursor !== undefined && !isBehind(time, sequence, cursor.timestampMs, cursor.id)) continue
      if (worst !== null && isBehind(time, sequence, worst.timestampMs, worst.sequence)) continue
      rows.push(row)
    }
    return rows
  }

  #rowsOfPersons(view: SegmentView, rows: number[]): number[] {
    const { isPersonWanted } = this.#options
    if (isPersonWanted === null && this.#personTests.length === 0) return rows
    const { distinctIds } = view
    const { firstSequence } = view.summary
    return rows.filter((row) => {
      const distinctId = distinctIds[row] ?? 0
      const sequence = firstSequence + row
      if (isPersonWanted !== null && !isPersonWanted(distinctId, sequence)) return false
      return this.#personTests.length === 0 || this.#passesAsPerson(distinctId, sequence)
    })
  }

  #passesAsPerson(distinctId: number, sequence: number): boolean {
    const { persons, query } = this.#options
    const { projectId } = query
    return getOrAdd(this.#persons, persons.ownerOf(projectId, distinctId, sequence), () => {
      const properties = persons.summaryOf(projectId, distinctId, sequence)?.properties ?? {}
      return this.#personTests.every(({ key, test }) =>
        test(Object.hasOwn(properties, key) ? properties[key] : undefined),
      )
    })
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

/** Whether an event comes behind another in a list. */
function isBehind(time: number, sequence: number, otherTime: number, other: number): boolean {
  return time < otherTime || (time === otherTime && sequence < other)
}

/** Tests of one type; filters of other types, or that cannot be built, are left out. */
function buildTests(filters: readonly PropertyFilter[], type: string): readonly NamedTest[] {
  return filters.flatMap((filter) => {
    const test = (filter.type ?? 'event') === type ? propertyTest(filter) : null
    return test === null ? [] : { key: filter.key, test }
  })
}

/** Which rows of a segment pass a test on a property. Each different value is tested once. */
function propertyRows(
  view: SegmentView,
  key: string,
  test: PropertyTest,
  textOf: (distinctId: number) => string,
): (row: number) => boolean {
  const { ids, values } = propertyColumn(view, key, textOf)
  const passes = Uint8Array.from(values, (value) => (test(value) ? 1 : 0))
  return (row) => passes[ids[row] ?? 0] === 1
}
