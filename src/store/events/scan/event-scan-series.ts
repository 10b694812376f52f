/**
 * Finds the series of a query to which each row of a segment belongs. The name of an event decides to which series it
 * may belong. Then the filters of these series decide to which of them it does belong.
 */
import {
  type ActionStepMatch,
  SERIES_MAX,
  type SeriesMatch,
} from '../../../rules/analytics/event-columns.ts'
import { propertyTest } from '../../../rules/filters/property-filter.ts'
import { propertyText } from '../../../rules/filters/property-text.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import {
  allOf,
  anyOf,
  type Candidates,
  compileFilter,
  nameFilter,
  newCandidates,
  propertyRowFilter,
  type RowFilter,
  type ScanFacts,
} from './event-scan-filter.ts'
import type { NameRows } from './event-scan-names.ts'
import type { NameCounts } from './segment-counts.ts'

interface CompiledSeries {
  readonly bit: number
  /** The event names of a series. Null: the series has events with any name. */
  readonly names: ReadonlySet<string> | null
  readonly filter: RowFilter | null
}

/** The series of one scan, with their names and filters. */
export class ScanSeries {
  readonly #series: readonly CompiledSeries[]
  /** The event names of all series together. Null: at least one series has events with any name. */
  readonly #names: ReadonlySet<string> | null
  readonly #marks = new Uint8Array(SEGMENT_ROWS_MAX)
  /**
   * The array that `masksOf` returns. One array is reused, because creating a short array for each segment would cost
   * more than filling it.
   */
  readonly #masks: number[] = []
  #part: Candidates | null = null

  /** Throws RangeError if there are more than `SERIES_MAX` series. */
  constructor(series: readonly SeriesMatch[], facts: ScanFacts) {
    if (series.length > SERIES_MAX) throw new RangeError('too many series')
    this.#series = series.map((match, index) => compileSeries(match, 1 << index, facts))
    const names = this.#series.map((one) => one.names)
    this.#names = names.includes(null) ? null : new Set(names.flatMap((own) => [...(own ?? [])]))
  }

  /**
   * Returns the number of events in a segment that may belong to a series because of their names. Filters are not
   * considered; they can only make the number smaller.
   */
  countOf({ counts }: NameCounts, rows: number): number {
    if (this.#names === null) return rows
    let count = 0
    for (const name of this.#names) count += counts.get(name) ?? 0
    return count
  }

  /**
   * Returns, for each name in a segment, a bit mask of the series to which events with this name may belong. The result
   * is valid until the next call.
   */
  masksOf({ values, ids }: NameRows): readonly number[] {
    const masks = this.#masks
    while (masks.length < values.length) masks.push(0)
    masks.length = values.length
    masks.fill(0)
    for (const { bit, names } of this.#series) {
      if (names === null) {
        for (let id = 0; id < masks.length; id++) masks[id] = (masks[id] ?? 0) | bit
      } else {
        for (const name of names) {
          const id = ids.get(name)
          if (id !== undefined) masks[id] = (masks[id] ?? 0) | bit
        }
      }
    }
    return masks
  }

  /**
   * Removes each candidate, that is, each row that the scan still examines, from those series whose filters it does not
   * pass.
   */
  restrict(candidates: Candidates): void {
    const { masks } = candidates
    for (const { bit, filter } of this.#series) {
      if (filter === null) continue
      const part = this.#partOf(candidates, bit)
      filter.mark(part, this.#marks)
      let next = 0
      for (let index = 0; index < candidates.count; index++) {
        const mask = masks[index] ?? 0
        if ((mask & bit) !== 0 && this.#marks[next++] !== 1) masks[index] = mask & ~bit
      }
    }
  }

  get haveFilters(): boolean {
    return this.#series.some(({ filter }) => filter !== null)
  }

  /**
   * If there is only one series: a function that removes the candidates that do not pass its filter, before the owners
   * are known. Undefined if there are several series, or if `restrict` is as fast.
   */
  get keepOfOnly(): RowFilter['keep'] {
    return this.#series.length === 1 ? this.#series[0]?.filter?.keep : undefined
  }

  #partOf({ segment, places, owners, masks, count }: Candidates, bit: number) {
    this.#part ??= newCandidates(segment)
    const part = this.#part
    part.segment = segment
    let kept = 0
    for (let index = 0; index < count; index++) {
      if (((masks[index] ?? 0) & bit) === 0) continue
      part.places[kept] = places[index] ?? 0
      part.owners[kept++] = owners[index] ?? 0
    }
    part.count = kept
    return part
  }
}

function compileSeries(match: SeriesMatch, bit: number, facts: ScanFacts): CompiledSeries {
  const { steps } = match
  const filters: RowFilter[] = []
  const own = match.filter === null ? null : compileFilter(match.filter, facts)
  if (own !== null) filters.push(own)
  let names = match.names === null ? null : new Set(match.names)
  const stepNames = steps.flatMap(({ name }) => name ?? [])
  if (steps.length > 0 && stepNames.length === steps.length) {
    names = new Set(stepNames.filter((name) => names === null || names.has(name)))
  }
  const stepFilters = steps.map((step) => compileStep(step, steps.length === 1, facts))
  // If the name is the only condition of all steps, no filter is needed.
  const isOnlyNames = steps.every(({ url, filter }) => url === null && filter === null)
  const areNamesAlike = isOnlyNames && stepNames.length === steps.length
  const needed = stepFilters.filter((filter) => filter !== null)
  if (needed.length === steps.length && steps.length > 0 && !areNamesAlike) {
    filters.push(anyOf(needed))
  }
  const [only] = filters
  return { bit, names, filter: filters.length > 1 ? allOf(filters) : (only ?? null) }
}

/**
 * Returns the filter for the conditions of a step, or null if every event passes. `isAlone` is true if the series has
 * no other step. The filter then does not test the name of the step, because rows are picked by this name before.
 */
function compileStep(step: ActionStepMatch, isAlone: boolean, facts: ScanFacts): RowFilter | null {
  const filters: RowFilter[] = []
  if (step.name !== null && !isAlone) filters.push(nameFilter(step.name, facts))
  const url = urlFilter(step, facts)
  if (url !== null) filters.push(url)
  const own = step.filter === null ? null : compileFilter(step.filter, facts)
  if (own !== null) filters.push(own)
  const [only] = filters
  return filters.length > 1 ? allOf(filters) : (only ?? null)
}

function urlFilter({ url, urlMatching }: ActionStepMatch, facts: ScanFacts): RowFilter | null {
  if (url === null) return null
  const key = '$current_url'
  if (urlMatching === 'contains') {
    return propertyRowFilter(key, (value) => propertyText(value).includes(url), facts)
  }
  const test = propertyTest({ key, value: url, operator: urlMatching })
  return test === null ? null : propertyRowFilter(key, test, facts)
}
