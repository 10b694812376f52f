/** Reads a query of trends. Source: docs/compatibility/queries.md, "TrendsQuery". */
import type { FilterGroup } from '../../filters/filter-group.ts'
import { checkPoints } from '../answer-formats.ts'
import {
  QUERY_FORMULA_UNITS_MAX,
  QUERY_FORMULAS_MAX,
  QUERY_MAP_VALUES,
  QUERY_SMOOTHING_MAX,
} from '../limits.ts'
import { type QueryBreakdown, readQueryBreakdown } from '../query-breakdown.ts'
import type { QueryFields } from '../query-fields.ts'
import { readGlobalFilter } from '../query-filters.ts'
import type { QueryContext } from '../query-kind.ts'
import { type QueryRange, readComparedRange, readInterval, readRange } from '../query-range.ts'
import { type QuerySeries, readSeriesList } from '../query-series.ts'
import { parseFormula } from './formula.ts'
import { type Measure, readMeasure } from './trend-measures.ts'
import { spanOf } from './trend-spans.ts'

const OVER_TIME = [
  'ActionsLineGraph',
  'ActionsBar',
  'ActionsUnstackedBar',
  'ActionsAreaGraph',
  'ActionsLineGraphCumulative',
] as const
const TOTALS = ['BoldNumber', 'ActionsPie', 'ActionsBarValue', 'ActionsTable', 'WorldMap'] as const

/** A series, its measure, and the request for it. */
export interface TrendSeries extends QuerySeries {
  readonly measure: Measure
  /** Members of the series that the answer repeats as they were sent. Null when absent. */
  readonly echo: {
    readonly math: unknown
    readonly math_property: unknown
    readonly math_group_type_index: unknown
  }
}

/** A formula and the label of its items. */
export interface TrendFormula {
  readonly text: string
  readonly label: string
}

/** A query after it was read. Plain data that may cross threads. */
export interface TrendsPlan {
  /** All series of the request, even if their action does not exist, because each series has a letter in formulas. */
  readonly series: readonly TrendSeries[]
  /** The requested range, and the comparison range if there is one. */
  readonly ranges: readonly QueryRange[]
  /** True if there is one number for the whole range. */
  readonly isTotal: boolean
  /** True if each number includes the numbers before it. */
  readonly isCumulative: boolean
  /** The number of values that are averaged. 1 means no smoothing. */
  readonly smoothing: number
  readonly filter: FilterGroup | null
  readonly breakdown: QueryBreakdown | null
  readonly formulas: readonly TrendFormula[]
  readonly hasPersonsUrls: boolean
}

/**
 * Returns whether an actor counts only in its first bucket. This is so in a cumulative chart, where each number
 * includes the numbers before it and would otherwise count the actor again.
 */
export function isCountedOnce(
  { isCumulative }: Pick<TrendsPlan, 'isCumulative'>,
  measure: Measure,
): boolean {
  if (measure.of !== 'actors' || measure.activeDays !== null) return false
  return isCumulative && measure.actor?.kind !== 'event_property'
}

/** Reads a query. Throws 400, see `invalidQuery`. */
export function readTrends(query: QueryFields, context: QueryContext): TrendsPlan {
  query.refuse('conversionGoal')
  const settings = query.within('trendsFilter')
  const display = settings.choice('display', [...OVER_TIME, ...TOTALS])
  const isTotal = TOTALS.some((one) => one === display)
  const asked = readInterval(query)
  const interval = isTotal ? 'day' : asked
  const series = readSeriesList(query, context, 1, (node) => ({
    measure: readMeasure(node, isTotal ? null : interval),
    echo: {
      math: node.value('math') ?? null,
      math_property: node.value('math_property') ?? null,
      math_group_type_index: node.value('math_group_type_index') ?? null,
    },
  })).map(({ series, more }) => ({ ...series, ...more }))
  const range = readRange(query, interval, context)
  const compared = readComparedRange(query, range)
  const breakdown = readQueryBreakdown(query)
  const plan: TrendsPlan = {
    series,
    ranges: compared === null ? [range] : [range, compared],
    isTotal,
    isCumulative: display === 'ActionsLineGraphCumulative',
    smoothing: settings.whole('smoothingIntervals', 1, QUERY_SMOOTHING_MAX) ?? 1,
    filter: readGlobalFilter(query, context),
    breakdown:
      breakdown !== null && display === 'WorldMap'
        ? { ...breakdown, limit: QUERY_MAP_VALUES }
        : breakdown,
    formulas: readFormulas(settings, series.length),
    hasPersonsUrls: query.boolean('persons_urls'),
  }
  // A chart with too many numbers is refused before any event is scanned.
  let numbers = 0
  for (const one of plan.ranges) {
    for (const { measure, exists } of series) {
      const { bucketCount } = spanOf(measure, one, isTotal)
      // With a breakdown, the number of lines is not known before the scan. `checkNumbers` in trends-query.ts checks
      // it.
      if (exists && breakdown === null) numbers += bucketCount
      checkPoints(numbers)
    }
  }
  return plan
}

/** Reads the formulas of `formulaNodes` or, if there are none, of `formulas` or `formula`. */
function readFormulas(settings: QueryFields, seriesCount: number): readonly TrendFormula[] {
  const plainly = (name: string, texts: readonly string[]) =>
    texts.map((text) => ({ fields: settings, name, text, customName: null }))
  const named = settings.objects('formulaNodes').map((node) => ({
    fields: node,
    name: 'formula',
    text: node.text('formula') ?? '',
    customName: node.text('custom_name'),
  }))
  const listed = plainly('formulas', settings.texts('formulas'))
  const single = settings.text('formula') || null
  const chosen =
    [named, listed].find((list) => list.length > 0) ??
    plainly('formula', single === null ? [] : [single])
  if (chosen.length > QUERY_FORMULAS_MAX) {
    throw settings.fault('formulas', `may have at most ${QUERY_FORMULAS_MAX} formulas`)
  }
  return chosen.map(({ fields, name, text, customName }) => {
    const isFormula =
      text.length <= QUERY_FORMULA_UNITS_MAX && parseFormula(text, seriesCount) !== null
    if (isFormula) return { text, label: customName || `Formula (${text})` }
    const what = `must combine series (A, B, ...) and numbers with + - * / % **, and may have at most ${QUERY_FORMULA_UNITS_MAX} characters`
    throw fields.fault(name, what)
  })
}
