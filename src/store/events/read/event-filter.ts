/**
 * Selects the events of a segment that a list or an export wants. The cheapest tests run first, and only the columns
 * that a test needs are decoded.
 */
import { getOrAdd } from '../../../base/maps.ts'
import type { EventCriteria } from '../../../rules/events/event-queries.ts'
import type { PropertyFilter } from '../../../rules/filters/filter-group.ts'
import type { PropertyTest } from '../../../rules/filters/operator-tests.ts'
import { propertyTest } from '../../../rules/filters/property-filter.ts'
import { passesStored, type StoredTest, storedTest } from '../../../rules/filters/stored-text.ts'
import type { PersonReader } from '../../identity/person-reader.ts'
import type { SegmentSummary } from '../format/segment-format.ts'
import { propertyColumn, storedColumn } from '../format/segment-properties.ts'
import type { SegmentView } from '../format/segment-view.ts'

/** What an `EventFilter` needs. */
export interface EventFilterOptions {
  readonly query: EventCriteria
  /** The distinct ID number of the requested distinct_id. Null: any distinct_id is wanted. */
  readonly distinctId: number | null
  /**
   * Returns whether an event belongs to the requested person. The event is given by its distinct ID number and its
   * sequence number. Null: any person is wanted.
   */
  readonly isPersonWanted: ((distinctId: number, sequence: number) => boolean) | null
  readonly persons: PersonReader
  readonly textOf: (distinctId: number) => string
}

interface NamedTest {
  readonly key: string
  readonly test: PropertyTest
  /** Tests a long text without decoding it. Null: this filter cannot do so, and each text is decoded and tested. */
  readonly stored: StoredTest | null
}

/** Tests the rows of segments. It is valid for one snapshot. */
export class EventFilter {
  readonly #options: EventFilterOptions
  readonly #eventTests: readonly NamedTest[]
  readonly #personTests: readonly NamedTest[]
  /** For each person number that was tested: whether the person passes the filters on persons. */
  readonly #persons = new Map<number, boolean>()

  constructor(options: EventFilterOptions) {
    this.#options = options
    const filters = options.query.properties ?? []
    this.#eventTests = buildTests(filters, 'event')
    this.#personTests = buildTests(filters, 'person')
  }

  /** Returns whether a segment may have events in the requested range of time. */
  mayMatch({ firstTimestampMs, lastTimestampMs }: SegmentSummary): boolean {
    const { afterMs, beforeMs } = this.#options.query
    if (afterMs !== undefined && lastTimestampMs <= afterMs) return false
    return beforeMs === undefined || firstTimestampMs < beforeMs
  }

  /**
   * Returns the numbers of the wanted rows, in ascending order. Only rows for which `isPlaced` returns true are tested
   * further. `isPlaced` is called for every row, so it must be cheap. Throws `DamagedRecordError`.
   */
  rowsOf(view: SegmentView, isPlaced: (row: number, timestampMs: number) => boolean): number[] {
    const { query, distinctId, textOf } = this.#options
    const { event } = query
    if (event !== undefined) {
      const hasName = view.directory.names.some(([name, count]) => name === event && count > 0)
      if (!hasName) return []
    }
    let rows = this.#rowsInTime(view, isPlaced)
    if (distinctId !== null) rows = rows.filter((row) => view.distinctIds[row] === distinctId)
    if (event !== undefined && rows.length > 0) {
      const { ids, values } = view.names
      const wanted = values.indexOf(event)
      rows = rows.filter((row) => ids[row] === wanted)
    }
    if (rows.length > 0) rows = this.#rowsOfPersons(view, rows)
    for (const eventTest of this.#eventTests) {
      if (rows.length === 0) return rows
      rows = rows.filter(longTextRows(view, eventTest) ?? propertyRows(view, eventTest, textOf))
    }
    return rows
  }

  #rowsInTime(view: SegmentView, isPlaced: (row: number, timestampMs: number) => boolean) {
    const { afterMs, beforeMs } = this.#options.query
    const { timestamps, distinctIds } = view
    const after = afterMs ?? Number.NEGATIVE_INFINITY
    const before = beforeMs ?? Number.POSITIVE_INFINITY
    const rows: number[] = []
    for (let row = 0; row < timestamps.length; row++) {
      // Skip erased rows. Their distinct ID number is 0.
      if (distinctIds[row] === 0) continue
      const time = timestamps[row] ?? 0
      if (time > after && time < before && isPlaced(row, time)) rows.push(row)
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
}

/**
 * Returns the tests of the filters of one type. Filters of other types are left out, and so are filters that cannot be
 * built.
 */
function buildTests(filters: readonly PropertyFilter[], type: string): readonly NamedTest[] {
  return filters.flatMap((filter) => {
    const test = (filter.type ?? 'event') === type ? propertyTest(filter) : null
    return test === null ? [] : { key: filter.key, test, stored: storedTest(filter) }
  })
}

/**
 * Returns a function that tells whether a row passes a test on a property. Each distinct value of the property is
 * tested only once.
 */
function propertyRows(
  view: SegmentView,
  { key, test }: NamedTest,
  textOf: (distinctId: number) => string,
): (row: number) => boolean {
  const { ids, values } = propertyColumn(view, key, textOf)
  const passes = Uint8Array.from(values, (value) => (test(value) ? 1 : 0))
  return (row) => passes[ids[row] ?? 0] === 1
}

/**
 * Returns a function that tells whether a row passes a test on a property with long texts. Returns null if the property
 * has no long texts. Each text is tested once, in its stored form, when its first row is examined.
 */
function longTextRows(
  view: SegmentView,
  { key, test, stored }: NamedTest,
): ((row: number) => boolean) | null {
  const texts = storedColumn(view, key)
  if (texts === null) return null
  const { ids, entry, places, others } = texts
  const json = view.storedJson(entry)
  const storedCount = places.length - 1
  const verdicts = new Map<number, boolean>()
  const verdictOf = (id: number): boolean => {
    if (id === 0) return test(undefined)
    if (id > storedCount) return test(others[id - storedCount - 1])
    return passesStored(stored, test, json, places[id - 1] ?? 0, (places[id] ?? 0) - 1)
  }
  return (row) => getOrAdd(verdicts, ids[row] ?? 0, verdictOf)
}
