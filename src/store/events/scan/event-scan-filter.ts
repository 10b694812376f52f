/**
 * Applies trees of property filters to the rows of a segment. The rows that a scan still examines are its *candidates*.
 * A filter marks the candidates that pass, and `keepMarked` removes the others:
 *
 *   places   7   9  12  30     the candidates
 *   marks    1   0   1   1
 *   places   7  12  30         after `keepMarked`
 *
 * Cheap filters run first. Later filters test only the candidates that are still undecided. A filter on an event
 * property tests each distinct value of a segment once. A filter on persons, groups or distinct_ids tests each person,
 * group or distinct_id only once in a scan.
 */

import { getOrAdd } from '../../../base/maps.ts'
import { withRoom } from '../../../rules/analytics/growing-arrays.ts'
import { elementTest } from '../../../rules/filters/element-filter.ts'
import {
  type FilterGroup,
  isCohortFilterType,
  isGroup,
  type PropertyFilter,
} from '../../../rules/filters/filter-group.ts'
import type { PropertyTest } from '../../../rules/filters/operator-tests.ts'
import { propertyTest } from '../../../rules/filters/property-filter.ts'
import { passesStored, storedTest } from '../../../rules/filters/stored-text.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import { idAt, type PlacedColumn, valueAt } from './event-scan-columns.ts'
import type { PassingValues } from './event-scan-pairs.ts'
import type { ScanSegment, StoredTexts } from './event-scan-segment.ts'
import type { SessionNumbers } from './event-scan-sessions.ts'

/** What filters and values need besides the segment, in the snapshot of the scan. */
export interface ScanFacts {
  /** Returns the text of a distinct ID number. */
  readonly textOf: (distinctId: number) => string
  /** Returns a function that tells whether a person passes a tree of filters on persons and cohorts. */
  readonly personTest: (tree: FilterGroup) => (person: number) => boolean
  /** Returns the current value of a property of a person, or undefined if it is missing. */
  readonly personProperty: (person: number, key: string) => unknown
  /**
   * Returns the sequence number of the last event whose group key may belong to a deleted type with this index. The
   * group keys of all later events belong to the current type. Returns 0 if no earlier type had this index, and
   * infinity if there is no current type.
   */
  readonly groupTypeSince: (typeIndex: number) => number
  /** Returns the current value of a property of a group, or undefined if the property or the group does not exist. */
  readonly groupProperty: (typeIndex: number, groupKey: string, key: string) => unknown
  readonly sessions: SessionNumbers
  /** Throws if the query must end. A filter that tests many values calls it from time to time. */
  readonly checkLimits: () => void
}

/**
 * The rows of a segment that a scan is examining. Only the first `count` entries of the arrays are used. The entries
 * with the same index belong to the same row. Scans sort the rows of a segment by the names of their events
 * (event-scan-names.ts). An entry of `places` is the position of a row in this order. An entry of `owners` is the owner
 * number of the row's event, or 0 if the event has no owner. `owners` is valid only after the owners have been looked
 * up.
 */
export interface Candidates {
  segment: ScanSegment
  readonly places: Uint16Array
  readonly owners: Uint32Array
  /** The series to which each row may belong, as a bit mask: bit i stands for series i. */
  readonly masks: Uint32Array
  count: number
}

/** A filter, which decides for each candidate whether it passes. */
export interface RowFilter {
  /** True if the filter reads `owners`. If false, the filter may run before the owners are looked up. */
  readonly needsOwners: boolean
  /** Sets the mark of each candidate to 1 if it passes, and to 0 if not. */
  mark(candidates: Candidates, marks: Uint8Array): void
  /**
   * Does the same as `mark` and `keepMarked` together, in one pass. It may be called before the owners are looked up.
   * Undefined if that would not be faster.
   */
  readonly keep?: (candidates: Candidates) => void
  /**
   * Returns the column on which the filter depends, with a 1 for each value that passes. Returns null if testing all
   * values would not be worthwhile: if there are more values than `rows`, or if they are long texts. Undefined if the
   * filter depends on more than one column.
   */
  readonly passing?: (segment: ScanSegment, rows: number) => PassingValues | null
}

/**
 * The number of tested values after which the limits of the query are checked. It is small, because a pattern may take
 * long for a single value.
 */
const TESTS_BETWEEN_CHECKS = 64
/** Stands for a value that was not tested yet. */
const UNKNOWN = 0
/** For each column of group keys: the same column without the keys that belong to a deleted group type. */
const LATER_COLUMNS = new WeakMap<
  PlacedColumn,
  { readonly since: number; readonly column: PlacedColumn }
>()
/** The ids of a column in which no event has a value. */
const NO_IDS = new Uint16Array(0)
const REFUSED = 1
const PASSED = 2

/** Returns memory for the candidates of one segment, without any candidates. */
export function newCandidates(segment: ScanSegment): Candidates {
  return {
    segment,
    places: new Uint16Array(SEGMENT_ROWS_MAX),
    owners: new Uint32Array(SEGMENT_ROWS_MAX),
    masks: new Uint32Array(SEGMENT_ROWS_MAX),
    count: 0,
  }
}

/** Removes the candidates that are not marked. */
export function keepMarked(candidates: Candidates, marks: Uint8Array): void {
  const { places, owners, masks, count } = candidates
  let kept = 0
  for (let index = 0; index < count; index++) {
    // The entry is always written, without a branch: it cannot be predicted which candidates are marked, and a
    // mispredicted branch costs more than the write.
    places[kept] = places[index] ?? 0
    masks[kept] = masks[index] ?? 0
    owners[kept] = owners[index] ?? 0
    kept += marks[index] ?? 0
  }
  candidates.count = kept
}

/** Returns the column with the group keys of a type, without keys that belong to a deleted type. */
export function groupColumn(
  segment: ScanSegment,
  typeIndex: number,
  facts: ScanFacts,
): PlacedColumn {
  const column = segment.property(`$group_${typeIndex}`, facts.textOf)
  const since = facts.groupTypeSince(typeIndex)
  const { firstSequence, rows } = segment.summary
  if (since < firstSequence) return column
  if (since >= firstSequence + rows - 1) return { ids: NO_IDS, first: 0, values: column.values }
  const known = LATER_COLUMNS.get(column)
  if (known?.since === since) return known.column
  // Leave out the keys in earlier events, because they belong to a deleted group type.
  const { rows: rowOf } = segment.nameRows
  const { first } = column
  const ids = column.ids.map((id, at) => {
    return firstSequence + (rowOf[first + at] ?? 0) > since ? id : 0
  })
  const later = { ...column, ids }
  LATER_COLUMNS.set(column, { since, column: later })
  return later
}

/**
 * Turns a tree of filters into one filter. Filters that cannot be built are left out. Returns null if every event
 * passes.
 */
export function compileFilter(tree: FilterGroup, facts: ScanFacts): RowFilter | null {
  const filters: RowFilter[] = []
  const onPersons: (FilterGroup | PropertyFilter)[] = []
  for (const value of tree.values) {
    if (isAboutPersons(value)) onPersons.push(value)
    else {
      const filter = isGroup(value) ? compileFilter(value, facts) : compileLeaf(value, facts)
      if (filter !== null) filters.push(filter)
    }
  }
  // Filters on persons run last, because persons must be read for them.
  if (onPersons.length > 0) {
    filters.push(personFilter(facts.personTest({ type: tree.type, values: onPersons })))
  }
  const [only] = filters
  if (only === undefined) return null
  return filters.length === 1 ? only : new TreeFilter(tree.type === 'AND', filters)
}

/** Returns a filter that tests an event property. */
export function propertyRowFilter(key: string, test: PropertyTest, facts: ScanFacts): RowFilter {
  return new ValueFilter((segment) => segment.property(key, facts.textOf), test, facts.checkLimits)
}

/**
 * Returns a filter that passes the events of some sessions. `wanted` has a 1 at the number of each of these sessions.
 */
export function sessionFilter(wanted: Uint8Array, facts: ScanFacts): RowFilter {
  const mark: RowFilter['mark'] = ({ segment, places, count }, marks) => {
    const { ids, numbers } = facts.sessions.ofSegment(segment, facts.textOf)
    const isWanted = Uint8Array.from(numbers, (number) => wanted[number] ?? 0)
    for (let index = 0; index < count; index++) {
      marks[index] = isWanted[ids[places[index] ?? 0] ?? 0] ?? 0
    }
  }
  return { needsOwners: false, mark }
}

/** Returns a filter that passes the events with one name. */
export function nameFilter(name: string, facts: ScanFacts): RowFilter {
  return new ValueFilter(
    (segment) => segment.names,
    (value) => value === name,
    facts.checkLimits,
  )
}

/** Returns a filter that passes if one of the filters passes. */
export function anyOf(filters: readonly RowFilter[]): RowFilter {
  return new TreeFilter(false, filters)
}

/** Returns a filter that passes if all filters pass. */
export function allOf(filters: readonly RowFilter[]): RowFilter {
  return new TreeFilter(true, filters)
}

function isAboutPersons(value: FilterGroup | PropertyFilter): boolean {
  if (isGroup(value)) return value.values.length > 0 && value.values.every(isAboutPersons)
  return value.type === 'person' || isCohortFilterType(value.type)
}

function compileLeaf(filter: PropertyFilter, facts: ScanFacts): RowFilter | null {
  if (filter.type === 'element') {
    const test = elementTest(filter)
    if (test === null) return null
    return new ValueFilter(
      (segment) => segment.elements,
      (value) => test(typeof value === 'string' ? value : ''),
      facts.checkLimits,
    )
  }
  const test = propertyTest(filter)
  if (test === null) return null
  if (filter.type === 'group') {
    const typeIndex = filter.group_type_index ?? 0
    return new ValueFilter(
      (segment) => groupColumn(segment, typeIndex, facts),
      groupTest(filter.key, typeIndex, test, facts),
      facts.checkLimits,
    )
  }
  if ((filter.type ?? 'event') !== 'event') return null
  if (filter.key === 'distinct_id') return distinctIdFilter((id) => test(facts.textOf(id)))
  const column = (segment: ScanSegment): PlacedColumn => segment.property(filter.key, facts.textOf)
  const stored = storedTest(filter)
  return new ValueFilter(column, test, facts.checkLimits, {
    textsOf: (segment) => segment.stored(filter.key),
    test: (texts, id) => {
      const start = texts.places[id - 1] ?? 0
      const end = (texts.places[id] ?? 0) - 1
      return passesStored(stored, test, texts.json, start, end)
    },
  })
}

function groupTest(
  key: string,
  typeIndex: number,
  test: PropertyTest,
  facts: ScanFacts,
): PropertyTest {
  const known = new Map<unknown, boolean>()
  const read = (groupKey: unknown): boolean =>
    test(typeof groupKey === 'string' ? facts.groupProperty(typeIndex, groupKey, key) : undefined)
  return (groupKey) => getOrAdd(known, groupKey, read)
}

/** Tests the long texts of a property in their stored form. */
interface StoredTextTest {
  readonly textsOf: (segment: ScanSegment) => StoredTexts | null
  /** Returns whether a value passes. `id` is the index of the value, from 1. */
  readonly test: (texts: StoredTexts, id: number) => boolean
}

/** The id of the value of each event in a segment, and a function that tests the value with an id. */
interface ValueVerdicts extends Pick<PlacedColumn, 'ids' | 'first'> {
  readonly count: number
  readonly verdict: (id: number) => 0 | 1
}

class ValueFilter implements RowFilter {
  readonly needsOwners = false
  readonly #columnOf: (segment: ScanSegment) => PlacedColumn
  readonly #test: PropertyTest
  readonly #checkLimits: () => void
  readonly #stored: StoredTextTest | null
  #tests = 0

  constructor(
    columnOf: (segment: ScanSegment) => PlacedColumn,
    test: PropertyTest,
    checkLimits: () => void,
    stored: StoredTextTest | null = null,
  ) {
    this.#columnOf = columnOf
    this.#test = test
    this.#checkLimits = checkLimits
    this.#stored = stored
  }

  mark({ segment, places, count }: Candidates, marks: Uint8Array): void {
    const values = this.#verdictsOf(segment)
    const { ids, first } = values
    const isPassed = this.#passing(values, places, count)
    for (let index = 0; index < count; index++) {
      marks[index] = isPassed[idAt(ids, first, places[index] ?? 0)] ?? 0
    }
  }

  keep = (candidates: Candidates): void => {
    const { segment, places, masks, count } = candidates
    const values = this.#verdictsOf(segment)
    const { ids, first } = values
    const isPassed = this.#passing(values, places, count)
    let kept = 0
    for (let index = 0; index < count; index++) {
      const place = places[index] ?? 0
      // Always write, without a branch; `keepMarked` says why.
      places[kept] = place
      masks[kept] = masks[index] ?? 0
      kept += isPassed[idAt(ids, first, place)] ?? 0
    }
    candidates.count = kept
  }

  passing = (segment: ScanSegment, rows: number): PassingValues | null => {
    // Long texts rarely repeat, so counting pairs of names and texts would not be worthwhile.
    if (this.#stored?.textsOf(segment)) return null
    const column = this.#columnOf(segment)
    const { values } = column
    if (values.length > rows) return null
    const isPassed = new Uint8Array(values.length)
    for (let id = 0; id < values.length; id++) isPassed[id] = this.#verdict(valueAt(values, id))
    return { column, isPassed }
  }

  /**
   * Returns an array with a 1 for each value that passes. A value that no candidate has may have a 0 without being
   * tested.
   */
  #passing(
    { ids, first, count: valueCount, verdict }: ValueVerdicts,
    places: Uint16Array,
    count: number,
  ): Uint8Array {
    const isPassed = new Uint8Array(valueCount)
    if (valueCount > count) {
      const wanted = new Set<number>()
      for (let index = 0; index < count; index++) wanted.add(idAt(ids, first, places[index] ?? 0))
      for (const id of wanted) isPassed[id] = verdict(id)
    } else for (let id = 0; id < valueCount; id++) isPassed[id] = verdict(id)
    return isPassed
  }

  #verdictsOf(segment: ScanSegment): ValueVerdicts {
    const texts = this.#stored?.textsOf(segment) ?? null
    if (texts !== null) return this.#ofTexts(texts)
    const { ids, first, values } = this.#columnOf(segment)
    return { ids, first, count: values.length, verdict: (id) => this.#verdict(valueAt(values, id)) }
  }

  #ofTexts(texts: StoredTexts): ValueVerdicts {
    const { ids, places, others } = texts
    // The last offset is not the start of a text, but the end of the last text.
    const storedCount = places.length - 1
    const verdict = (id: number): 0 | 1 => {
      if (id === 0 || id > storedCount) {
        return this.#verdict(id === 0 ? undefined : others[id - storedCount - 1])
      }
      this.#countTest()
      return this.#stored?.test(texts, id) === true ? 1 : 0
    }
    return { ids, first: 0, count: storedCount + 1 + others.length, verdict }
  }

  #verdict(value: unknown): 0 | 1 {
    this.#countTest()
    return this.#test(value) ? 1 : 0
  }

  #countTest(): void {
    if (++this.#tests % TESTS_BETWEEN_CHECKS === 0) this.#checkLimits()
  }
}

/** Caches whether each number passes a test. The numbers are consecutive from 1, such as person numbers. */
class Verdicts {
  readonly #test: (number: number) => boolean
  #verdicts = new Uint8Array(1024)

  constructor(test: (number: number) => boolean) {
    this.#test = test
  }

  isPassed(number: number): boolean {
    if (number >= this.#verdicts.length) this.#verdicts = withRoom(this.#verdicts, number)
    let verdict = this.#verdicts[number]
    if (verdict === UNKNOWN) {
      verdict = this.#test(number) ? PASSED : REFUSED
      this.#verdicts[number] = verdict
    }
    return verdict === PASSED
  }
}

function personFilter(test: (person: number) => boolean): RowFilter {
  const verdicts = new Verdicts(test)
  const mark: RowFilter['mark'] = ({ owners, count }, marks) => {
    for (let index = 0; index < count; index++) {
      marks[index] = verdicts.isPassed(owners[index] ?? 0) ? 1 : 0
    }
  }
  return { needsOwners: true, mark }
}

function distinctIdFilter(test: (distinctId: number) => boolean): RowFilter {
  const verdicts = new Verdicts(test)
  const mark: RowFilter['mark'] = ({ segment: { distinctIds }, places, count }, marks) => {
    for (let index = 0; index < count; index++) {
      marks[index] = verdicts.isPassed(distinctIds[places[index] ?? 0] ?? 0) ? 1 : 0
    }
  }
  // Owners are looked up before this filter runs, because the look-up removes erased events. An erased event has
  // neither a distinct_id nor an owner.
  return { needsOwners: true, mark }
}

/**
 * Combines filters with AND or OR. Each filter tests only the candidates that the filters before it have left
 * undecided.
 */
class TreeFilter implements RowFilter {
  readonly needsOwners: boolean
  readonly keep?: (candidates: Candidates) => void
  readonly #decidedBy: 0 | 1
  readonly #filters: readonly RowFilter[]
  readonly #marks = new Uint8Array(SEGMENT_ROWS_MAX)
  #open: Candidates | null = null

  constructor(isAll: boolean, filters: readonly RowFilter[]) {
    this.needsOwners = filters.some((filter) => filter.needsOwners)
    this.#decidedBy = isAll ? 0 : 1
    this.#filters = filters
    const quick = filters.flatMap(({ keep }) => keep ?? [])
    if (isAll && quick.length === filters.length) {
      this.keep = (candidates) => {
        for (const keep of quick) keep(candidates)
      }
    }
  }

  mark(candidates: Candidates, marks: Uint8Array): void {
    const [first, ...others] = this.#filters
    first?.mark(candidates, marks)
    for (const filter of others) {
      const open = this.#undecided(candidates, marks)
      if (open.count === 0) return
      filter.mark(open, this.#marks)
      let next = 0
      for (let index = 0; index < candidates.count; index++) {
        if (marks[index] !== this.#decidedBy) marks[index] = this.#marks[next++] ?? 0
      }
    }
  }

  #undecided({ segment, places, owners, count }: Candidates, marks: Uint8Array): Candidates {
    this.#open ??= newCandidates(segment)
    const open = this.#open
    open.segment = segment
    let kept = 0
    for (let index = 0; index < count; index++) {
      if (marks[index] === this.#decidedBy) continue
      open.places[kept] = places[index] ?? 0
      open.owners[kept++] = owners[index] ?? 0
    }
    open.count = kept
    return open
  }
}
