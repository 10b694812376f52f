/**
 * The kind `TrendsQuery`: numbers of events or actors over time. Source: docs/compatibility/queries.md, "TrendsQuery".
 */
import { filtersOf, type PropertyFilter } from '../../filters/filter-group.ts'
import { checkPoints } from '../answer-formats.ts'
import { ownerBits, ownerCounts } from '../owner-bits.ts'
import {
  activeCounts,
  areBitsSmall,
  firstCounts,
  type IdBits,
  isOfBits,
  mergeBits,
} from '../person-bits.ts'
import { PersonsUrls } from '../persons-urls.ts'
import { resolvedRange } from '../query-buckets.ts'
import type { QueryKind, QueryWork } from '../query-kind.ts'
import type { QueryRange } from '../query-range.ts'
import { isFewPeriods } from './seen-periods.ts'
import { mergedTally, type Tally, TallyBuilder, tallyOfCounts } from './tally.ts'
import { trendActors } from './trend-actors.ts'
import { idBitsOf, tallyOf } from './trend-counts.ts'
import { formulaLines } from './trend-formulas.ts'
import { ItemMaker } from './trend-items.ts'
import { linesOf, sumOf } from './trend-lines.ts'
import { actorKindOf, type Measure, reducerOf } from './trend-measures.ts'
import { spanOf } from './trend-spans.ts'
import { readTrends, type TrendFormula, type TrendSeries, type TrendsPlan } from './trends-plan.ts'

/**
 * The result for a part of the events, for each range and each series. If the events are divided by segments, a series
 * that counts persons has the bits of the active distinct ids of each bucket instead of a tally.
 */
export type TrendsPart = readonly (readonly (Tally | IdBits)[])[]

const NO_TALLY = new TallyBuilder(0, 'count').finish()

/** The kind for trends. */
export const TRENDS_QUERY: QueryKind<TrendsPlan, TrendsPart> = {
  dividedBy(plan, lastDistinctId) {
    const { series, breakdown, ranges } = plan
    const kinds = series.map(({ measure }) => actorKindOf(measure))
    const hasBins = breakdown?.properties.some(({ binCount }) => binCount !== null) ?? false
    if (hasBins || kinds.includes('others')) return 'nothing'
    if (!kinds.includes('persons')) return 'segments'
    const all = series.filter(({ measure }) => actorKindOf(measure) === 'persons')
    const lists = ranges.flatMap((range) =>
      all.map(({ measure }) => spanOf(measure, range, plan.isTotal).periods?.count ?? 1),
    )
    const areBits =
      all.every((one) => isByBits(plan, one)) && areBitsSmall(sumOf(lists), lastDistinctId)
    return areBits ? 'segments' : 'persons'
  },

  // `page` reads the owners of distinct ids. They can change, but `page` must see them as they were for the parts.
  isOfOneState: (plan) => plan.series.some((series) => isByBits(plan, series)),

  plan: readTrends,

  rangeOf({ series, ranges, isTotal }) {
    if (series.some(({ measure }) => measure.of === 'first_events')) return null
    const spans = ranges.flatMap((range) =>
      series.map(({ measure }) => spanOf(measure, range, isTotal)),
    )
    return {
      fromMs: Math.min(...spans.map(({ fromMs }) => fromMs)),
      toMs: Math.max(...spans.map(({ toMs }) => toMs)),
    }
  },

  workOf,

  partial: (plan, shard) =>
    plan.ranges.map((range) =>
      plan.series.map((series) =>
        isOfBits(shard.part) && isByBits(plan, series)
          ? idBitsOf(plan, series, range, shard)
          : tallyOf(plan, series, range, shard),
      ),
    ),

  merge: ({ series, ranges }, parts, limits) =>
    ranges.map((_, range) =>
      series.map(({ measure }, index) => {
        const own = parts.map((part) => part[range]?.[index]).filter((one) => one !== undefined)
        const bits = own.filter(isBits)
        if (bits.length > 0) return mergeBits(bits)
        const tallies = own.filter((one): one is Tally => !isBits(one))
        return mergedTally(tallies, reducerOf(measure), limits)
      }),
    ),

  page(plan, whole, { context, scanner }) {
    checkNumbers(plan, whole)
    const tallyOfBits = (ids: IdBits, measure: Measure, range: QueryRange): Tally => {
      const owners = scanner.owners(context.projectId)
      const { window } = spanOf(measure, range, plan.isTotal)
      const isOnce = plan.isCumulative && !plan.isTotal
      if (window === null && !isOnce) return tallyOfCounts(ownerCounts(ids, owners, scanner))
      const bits = ownerBits(ids, owners, scanner)
      return tallyOfCounts(
        window === null ? firstCounts(bits) : activeCounts(bits, window, scanner),
      )
    }
    const ranges = plan.ranges.map((range, rangeIndex) => ({
      range,
      tallies: plan.series.map(({ measure }, index) => {
        const found = whole[rangeIndex]?.[index] ?? NO_TALLY
        return isBits(found) ? tallyOfBits(found, measure, range) : found
      }),
    }))
    const urls = plan.hasPersonsUrls ? new PersonsUrls(context) : null
    const makers = plan.ranges.map((range) => new ItemMaker(plan, range, context, urls))
    const ofSeries = () =>
      ranges.map(({ range, tallies }, index) => {
        const found = plan.series.map(({ measure }, series) =>
          linesOf(plan, measure, range, tallies[series] ?? NO_TALLY, scanner),
        )
        const hasOther = found.some((lines) => lines.hasOther)
        return { items: makers[index]?.ofSeries(found) ?? [], hasOther }
      })
    const ofFormula = (formula: TrendFormula) =>
      formulaLines(plan, formula, ranges, scanner).map(({ lines, hasOther }, index) => {
        return { items: makers[index]?.ofFormula(formula, lines) ?? [], hasOther }
      })
    const found = plan.formulas.length === 0 ? ofSeries() : plan.formulas.flatMap(ofFormula)
    const results = found.flatMap(({ items }) => items)
    const hasMore = found.some(({ hasOther }) => hasOther)
    const [range] = plan.ranges
    const dates = range === undefined ? {} : resolvedRange(range)
    return { results, members: { hasMore, ...dates } }
  },

  actors: trendActors,
}

/**
 * Throws 400 `query_too_large` if there would be too many numbers, before lines are computed. A line has a number for
 * each bucket, however few events there are.
 */
function checkNumbers(
  { series, ranges, isTotal, breakdown, formulas }: TrendsPlan,
  whole: TrendsPart,
) {
  const linesMax = (breakdown?.limit ?? 0) + Math.max(1, breakdown?.cohorts.length ?? 0)
  let numbers = 0
  for (const [rangeIndex, range] of ranges.entries()) {
    let values = 0
    let longest = 0
    for (const [index, { measure }] of series.entries()) {
      const { bucketCount } = spanOf(measure, range, isTotal)
      const cells = cellsOf(whole[rangeIndex]?.[index])
      values += cells
      longest = Math.max(longest, bucketCount)
      // If there are formulas, only they are shown, not the series.
      if (formulas.length === 0) numbers += Math.max(1, Math.min(cells, linesMax)) * bucketCount
    }
    numbers += Math.max(1, Math.min(values, linesMax)) * longest * formulas.length
  }
  checkPoints(numbers)
}

/**
 * Returns whether a series can be computed from bits. It must count different persons without a breakdown. If it has a
 * window of active days, the buckets must need few periods.
 */
function isByBits(plan: TrendsPlan, { measure }: TrendSeries): boolean {
  if (plan.breakdown !== null || measure.of !== 'actors' || measure.actor !== null) return false
  if (measure.activeDays === null) return true
  return plan.ranges.every((range) => {
    return isFewPeriods(spanOf(measure, range, plan.isTotal).periods?.count ?? 1)
  })
}

function workOf(plan: TrendsPlan): QueryWork {
  const { series, filter, breakdown } = plan
  const isOfEvents = series.every(({ measure }) => measure.of === 'events')
  const filters = [filter, ...series.map(({ match }) => match.filter)].filter((one) => one !== null)
  const isByNames = series.every(({ match }) => match.steps.length === 0)
  if (isOfEvents && isByNames && filters.length === 0 && breakdown === null) return 'counts'
  const isByValues = filters.flatMap(filtersOf).every(isOfOneValue)
  const [property, ...others] = breakdown?.properties ?? []
  const isSplitByOne = property?.value.kind === 'event_property' && others.length === 0
  const isSimple = isOfEvents
    ? breakdown === null || isSplitByOne
    : series.every((one) => one.measure.of === 'events' || isByBits(plan, one))
  return isByNames && isByValues && isSimple ? 'simple' : 'much'
}

/** Returns whether a filter only compares one value of the event, which takes a few nanoseconds. */
function isOfOneValue({ type = 'event', operator = 'exact' }: PropertyFilter): boolean {
  return type === 'event' && ['exact', 'is_not', 'is_set', 'is_not_set'].includes(operator)
}

function isBits(found: Tally | IdBits): found is IdBits {
  return Array.isArray(found)
}

function cellsOf(found: Tally | IdBits | undefined): number {
  return found === undefined || isBits(found) ? 0 : found.cells.length
}
