/** Trends: the kind `TrendsQuery`. Source: docs/compatibility/queries.md, "TrendsQuery". */
import type { JsonObject } from '../../../base/json.ts'
import { checkDatedNumbers } from '../answer.ts'
import { resolvedRange } from '../query-buckets.ts'
import type { QueryKind } from '../query-kind.ts'
import { mergedTally, type Tally } from './tally.ts'
import { trendActors } from './trend-actors.ts'
import { tallyOf } from './trend-counts.ts'
import { formulaLines } from './trend-formulas.ts'
import { ItemMaker } from './trend-items.ts'
import { type Line, linesOf } from './trend-lines.ts'
import { actorKindOf, reducerOf } from './trend-measures.ts'
import { spanOf } from './trend-spans.ts'
import { isCountedBySeen, readTrends, type TrendsPlan } from './trends-plan.ts'

/** For each range, of each series. */
export type TrendsPart = readonly (readonly Tally[])[]

/** The kind. */
export const TRENDS_QUERY: QueryKind<TrendsPlan, TrendsPart> = {
  dividedBy(plan) {
    const { series, breakdown } = plan
    const kinds = series.map(({ measure }) =>
      isCountedBySeen(plan, measure) ? null : actorKindOf(measure),
    )
    const hasBins = breakdown?.properties.some(({ binCount }) => binCount !== null) ?? false
    if (hasBins || kinds.includes('others')) return 'nothing'
    return kinds.includes('persons') ? 'persons' : 'segments'
  },

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

  partial: (plan, shard) =>
    plan.ranges.map((range) => plan.series.map((series) => tallyOf(plan, series, range, shard))),

  merge: ({ series, ranges }, parts) =>
    ranges.map((_, range) =>
      series.map(({ measure }, index) => {
        const tallies = parts.map((part) => part[range]?.[index]).filter((one) => one !== undefined)
        return mergedTally(tallies, reducerOf(measure))
      }),
    ),

  page(plan, whole, { context, scanner }) {
    let numbers = 0
    const found = plan.ranges.map((range, rangeIndex) =>
      plan.series.map(({ measure }, index) => {
        const tally = whole[rangeIndex]?.[index]
        if (tally === undefined) return { lines: [], hasOther: false }
        const own = linesOf(plan, measure, range, tally, scanner)
        numbers += own.lines.length * (own.lines[0]?.data.length ?? 0)
        checkDatedNumbers(numbers)
        return own
      }),
    )
    const ranges = plan.ranges.map((range, index) => ({
      maker: new ItemMaker(plan, range, context),
      lines: (found[index] ?? []).map(({ lines }) => lines),
    }))
    const results =
      plan.formulas.length === 0
        ? ranges.flatMap(({ maker, lines }) => maker.ofSeries(lines))
        : formulaItems(plan, ranges)
    const hasMore = found.flat().some(({ hasOther }) => hasOther)
    const [range] = plan.ranges
    const dates = range === undefined ? {} : resolvedRange(range)
    return { results, members: { hasMore, ...dates } }
  },

  actors: trendActors,
}

/** The items of all formulas. Throws 400 `query_too_large`. */
function formulaItems(
  plan: TrendsPlan,
  ranges: readonly { readonly maker: ItemMaker; readonly lines: readonly (readonly Line[])[] }[],
): readonly JsonObject[] {
  let numbers = 0
  return plan.formulas.flatMap((formula) =>
    ranges.flatMap(({ maker, lines }) => {
      const own = formulaLines(plan, formula, lines)
      numbers += own.length * (own[0]?.data.length ?? 0)
      checkDatedNumbers(numbers)
      return maker.ofFormula(formula, own)
    }),
  )
}
