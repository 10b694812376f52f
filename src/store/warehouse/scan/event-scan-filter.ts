/**
 * Trees of property filters over the rows of a segment. A filter marks the candidates that pass; what is
 * cheap comes first, and what follows sees only the candidates that are still open. Event properties are
 * tested once for each value that a segment holds, persons, groups and distinct_ids once for a scan.
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
import { storedTest } from '../../../rules/filters/stored-text.ts'
import type { DenseColumn } from '../format/segment-properties.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import type { PassingValues } from './event-scan-pairs.ts'
import type { ScanSegment, StoredTexts } from './event-scan-segment.ts'
import type { SessionNumbers } from './event-scan-sessions.ts'

/** What filters and values look up outside of a segment, as of the snapshot of the scan. */
export interface ScanFacts {
  /** The text of D. */
  readonly textOf: (distinctId: number) => string
  /** Whether the person P passes a tree of filters on persons and cohorts. */
  readonly personTest: (tree: FilterGroup) => (person: number) => boolean
  /** A property of P now; undefined when it is missing. */
  readonly personProperty: (person: number, key: string) => unknown
  /** S of the last event whose group of a type does not count; infinite: there is no such type. */
  readonly groupTypeSince: (typeIndex: number) => number
  /** A property of a group now; undefined when it, or the group, is missing. */
  readonly groupProperty: (typeIndex: number, groupKey: string, key: string) => unknown
  readonly sessions: SessionNumbers
  /** Throws when the query has to end; asked now and then by what tests many values. */
  readonly checkLimits: () => void
}

/** Rows of a segment that are looked at: the first `count` of `places`, with the P that own them. */
export interface Candidates {
  segment: ScanSegment
  readonly places: Uint16Array
  readonly owners: Uint32Array
  /** Bit i: it belongs to series i. */
  readonly masks: Uint32Array
  count: number
}

/** Decides about candidates. */
export interface RowFilter {
  /** False: it does not look at owners, and may come before they are known. */
  readonly needsOwners: boolean
  /** Writes 1 into `marks` for each candidate that passes, else 0. */
  mark(candidates: Candidates, marks: Uint8Array): void
  /** Drops the candidates that do not pass, before owners are known; absent where marks are as quick. */
  readonly keep?: (candidates: Candidates) => void
  /**
   * Where the value in one column alone decides: that column, with 1 for each value that passes. Null: it has
   * more values than `rows`. Absent where more decides.
   */
  readonly passing?: (segment: ScanSegment, rows: number) => PassingValues | null
}

/** A pattern may take long for each value. */
const TESTS_BETWEEN_CHECKS = 64
/** The verdict on a value that was not tested yet. */
const UNKNOWN = 0
/** Columns of group keys, without those of the types that had the same index before. */
const LATER_COLUMNS = new WeakMap<
  DenseColumn,
  { readonly since: number; readonly column: DenseColumn }
>()
/** Of a segment in which no event has a value. */
const NO_IDS = new Uint16Array(SEGMENT_ROWS_MAX)
const REFUSED = 1
const PASSED = 2

/** Memory for the candidates of one segment. */
export function newCandidates(segment: ScanSegment): Candidates {
  return {
    segment,
    places: new Uint16Array(SEGMENT_ROWS_MAX),
    owners: new Uint32Array(SEGMENT_ROWS_MAX),
    masks: new Uint32Array(SEGMENT_ROWS_MAX),
    count: 0,
  }
}

/** Keeps the candidates that are marked. */
export function keepMarked(candidates: Candidates, marks: Uint8Array): void {
  const { places, owners, masks, count } = candidates
  let kept = 0
  for (let index = 0; index < count; index++) {
    // Written in any case: nobody can foretell the marks, and a wrong guess costs more.
    places[kept] = places[index] ?? 0
    masks[kept] = masks[index] ?? 0
    owners[kept] = owners[index] ?? 0
    kept += marks[index] ?? 0
  }
  candidates.count = kept
}

/** The column of the group keys of a type. */
export function groupColumn(
  segment: ScanSegment,
  typeIndex: number,
  facts: ScanFacts,
): DenseColumn {
  const column = segment.property(`$group_${typeIndex}`, facts.textOf)
  const since = facts.groupTypeSince(typeIndex)
  const { firstSequence, rows } = segment.summary
  if (since < firstSequence) return column
  if (since >= firstSequence + rows - 1) return { ...column, ids: NO_IDS.subarray(0, rows) }
  const known = LATER_COLUMNS.get(column)
  if (known?.since === since) return known.column
  // Earlier events name groups of a type that was deleted.
  const { rows: rowOf } = segment.nameRows
  const ids = column.ids.map((id, place) => (firstSequence + (rowOf[place] ?? 0) > since ? id : 0))
  const later = { ...column, ids }
  LATER_COLUMNS.set(column, { since, column: later })
  return later
}

/** The filter of a tree; null when it holds for every event. Filters that cannot be built are left out. */
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
  // Last: a person has to be loaded.
  if (onPersons.length > 0) {
    filters.push(personFilter(facts.personTest({ type: tree.type, values: onPersons })))
  }
  const [only] = filters
  if (only === undefined) return null
  return filters.length === 1 ? only : new TreeFilter(tree.type === 'AND', filters)
}

/** The filter of a test on an event property. */
export function propertyRowFilter(key: string, test: PropertyTest, facts: ScanFacts): RowFilter {
  return new ValueFilter((segment) => segment.property(key, facts.textOf), test, facts.checkLimits)
}

/** The filter of events whose session is marked, by its number. */
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

/** The filter of an event name. */
export function nameFilter(name: string, facts: ScanFacts): RowFilter {
  return new ValueFilter(
    (segment) => segment.names,
    (value) => value === name,
    facts.checkLimits,
  )
}

/** The filter that holds when one of them does. */
export function anyOf(filters: readonly RowFilter[]): RowFilter {
  return new TreeFilter(false, filters)
}

/** The filter that holds when all of them do. */
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
  const column = (segment: ScanSegment): DenseColumn => segment.property(filter.key, facts.textOf)
  const stored = storedTest(filter)
  return new ValueFilter(column, test, facts.checkLimits, {
    textsOf: (segment) => segment.stored(filter.key),
    test: (texts, id) => {
      const start = texts.places[id - 1] ?? 0
      const end = (texts.places[id] ?? 0) - 1
      const verdict = stored?.(texts.json, start, end) ?? null
      return verdict ?? test(JSON.parse(texts.json.toString('utf8', start, end)))
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

/** How long texts are tested where they are stored. */
interface StoredTextTest {
  readonly textsOf: (segment: ScanSegment) => StoredTexts | null
  /** `id`: the position of the value, from 1 on. */
  readonly test: (texts: StoredTexts, id: number) => boolean
}

/** The values of a segment, and the verdict on each by its position. */
interface ValueVerdicts {
  readonly ids: Uint16Array
  readonly count: number
  readonly verdict: (id: number) => 0 | 1
}

class ValueFilter implements RowFilter {
  readonly needsOwners = false
  readonly #columnOf: (segment: ScanSegment) => DenseColumn
  readonly #test: PropertyTest
  readonly #checkLimits: () => void
  readonly #stored: StoredTextTest | null
  #tests = 0

  constructor(
    columnOf: (segment: ScanSegment) => DenseColumn,
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
    const { ids } = values
    const isPassed = this.#passing(values, places, count)
    for (let index = 0; index < count; index++) {
      marks[index] = isPassed[ids[places[index] ?? 0] ?? 0] ?? 0
    }
  }

  keep = (candidates: Candidates): void => {
    const { segment, places, masks, count } = candidates
    const values = this.#verdictsOf(segment)
    const { ids } = values
    const isPassed = this.#passing(values, places, count)
    let kept = 0
    for (let index = 0; index < count; index++) {
      const place = places[index] ?? 0
      // Written in any case, as in `keepMarked`.
      places[kept] = place
      masks[kept] = masks[index] ?? 0
      kept += isPassed[ids[place] ?? 0] ?? 0
    }
    candidates.count = kept
  }

  passing = (segment: ScanSegment, rows: number): PassingValues | null => {
    // Long texts hardly repeat, so that pairs of them with names tell nothing.
    if (this.#stored?.textsOf(segment)) return null
    const column = this.#columnOf(segment)
    const { values } = column
    if (values.length > rows) return null
    const isPassed = new Uint8Array(values.length)
    for (let id = 0; id < values.length; id++) isPassed[id] = this.#verdict(values[id])
    return { column, isPassed }
  }

  /** For each value 1 when it passes; values that no candidate has may be left out. */
  #passing(
    { ids, count: valueCount, verdict }: ValueVerdicts,
    places: Uint16Array,
    count: number,
  ): Uint8Array {
    const isPassed = new Uint8Array(valueCount)
    if (valueCount > count) {
      const wanted = new Set<number>()
      for (let index = 0; index < count; index++) wanted.add(ids[places[index] ?? 0] ?? 0)
      for (const id of wanted) isPassed[id] = verdict(id)
    } else for (let id = 0; id < valueCount; id++) isPassed[id] = verdict(id)
    return isPassed
  }

  #verdictsOf(segment: ScanSegment): ValueVerdicts {
    const texts = this.#stored?.textsOf(segment) ?? null
    if (texts !== null) return this.#ofTexts(texts)
    const { ids, values } = this.#columnOf(segment)
    return { ids, count: values.length, verdict: (id) => this.#verdict(values[id]) }
  }

  #ofTexts(texts: StoredTexts): ValueVerdicts {
    const { ids, places, others } = texts
    // The last of the places is the end.
    const storedCount = places.length - 1
    const verdict = (id: number): 0 | 1 => {
      if (id === 0 || id > storedCount) {
        return this.#verdict(id === 0 ? undefined : others[id - storedCount - 1])
      }
      this.#countTest()
      return this.#stored?.test(texts, id) === true ? 1 : 0
    }
    return { ids, count: storedCount + 1 + others.length, verdict }
  }

  #verdict(value: unknown): 0 | 1 {
    this.#countTest()
    return this.#test(value) ? 1 : 0
  }

  #countTest(): void {
    if (++this.#tests % TESTS_BETWEEN_CHECKS === 0) this.#checkLimits()
  }
}

/** Remembers what was found out about numbers, which are dense from 1. */
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
  // Deleted events, which have no owner, have no distinct_id either.
  return { needsOwners: true, mark }
}

/** All filters, or one of them, in their order; each sees only candidates that are undecided. */
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
