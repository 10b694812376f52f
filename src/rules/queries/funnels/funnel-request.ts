/**
 * Reads a `FunnelsQuery`: its steps, its exclusions, its breakdown, and the form of its result. The exclusions of the
 * persons routes are in rules/analytics/funnel/funnel-exclusions.ts. Source:
 * docs/compatibility/queries.md, "FunnelsQuery".
 */
import { SERIES_MAX, type SeriesMatch } from '../../analytics/event-columns.ts'
import type { FilterGroup } from '../../filters/filter-group.ts'
import { FUNNEL_BINS_MAX } from '../limits.ts'
import { type QueryBreakdown, readQueryBreakdown } from '../query-breakdown.ts'
import { bucketsOf } from '../query-buckets.ts'
import type { QueryFields } from '../query-fields.ts'
import { readGlobalFilter } from '../query-filters.ts'
import type { QueryContext } from '../query-kind.ts'
import { type QueryRange, readInterval, readRange, readWholeRange } from '../query-range.ts'
import { eventSeries, type QuerySeries, readSeriesList, readSeriesNode } from '../query-series.ts'

const SECOND_MS = 1000
const DAY_MS = 86_400 * SECOND_MS
const UNIT_MS = {
  day: DAY_MS,
  second: SECOND_MS,
  minute: 60 * SECOND_MS,
  hour: 3600 * SECOND_MS,
  week: 7 * DAY_MS,
  month: 31 * DAY_MS,
} as const
const WINDOW_UNITS = ['day', 'second', 'minute', 'hour', 'week', 'month'] as const
const WINDOW_COUNT = 14

/** The order in which an actor must do the steps. */
export type StepOrder = 'ordered' | 'strict' | 'unordered'

/** The rule that assigns an attempt in a funnel to a value of the breakdown. */
export type ValueAttribution = 'first_touch' | 'last_touch' | 'all_events' | 'step'

/** Events that invalidate an attempt in a funnel between two steps. */
export interface StepExclusion {
  /** The bit of the exclusion in the series masks of a scan. It is set for excluded events. */
  readonly bit: number
  /** The steps, counted from 0. Excluded events count from `fromStep` on, until `toStep` is reached. */
  readonly fromStep: number
  readonly toStep: number
}

/** The rules for attempts in a funnel. Bit k of the series masks belongs to step k. */
export interface StepRules {
  readonly order: StepOrder
  readonly stepCount: number
  /** The maximum time between the first and any other step, inclusive. */
  readonly windowMs: number
  readonly exclusions: readonly StepExclusion[]
}

/** A funnel query after it was read and checked. */
export interface FunnelsPlan {
  readonly visual: 'steps' | 'time_to_convert' | 'trends'
  readonly range: QueryRange
  readonly filter: FilterGroup | null
  readonly steps: readonly QuerySeries[]
  /** The series to scan for: the steps, then the exclusions, then, for strict funnels, every event. */
  readonly series: readonly SeriesMatch[]
  readonly rules: StepRules
  /** The steps, counted from 0, between which the conversion is measured. Not used if `visual` is `steps`. */
  readonly fromStep: number
  readonly toStep: number
  /**
   * The number of bins into which conversion times are grouped. Null means a number that suits the number of actors.
   */
  readonly binCount: number | null
  readonly breakdown: QueryBreakdown | null
  readonly attribution: ValueAttribution
  /** For the attribution `step`: the number of the step, from 0. */
  readonly attributionStep: number
  /** The type of the groups that pass through the funnel. Null means persons. */
  readonly groupTypeIndex: number | null
  readonly hasPersonsUrls: boolean
}

/** Reads a `FunnelsQuery`. Throws 400 `invalid_query`. */
export function planFunnels(query: QueryFields, context: QueryContext): FunnelsPlan {
  query.within('compareFilter').refuse('compare')
  const filter = query.within('funnelsFilter')
  const aggregation = filter.text('funnelAggregateByHogQL') ?? ''
  if (aggregation !== '' && aggregation !== 'person_id') {
    throw filter.fault('funnelAggregateByHogQL', 'must be person_id, or left out')
  }
  const visual = filter.choice('funnelVizType', ['steps', 'time_to_convert', 'trends'])
  const order = filter.choice('funnelOrderType', ['ordered', 'strict', 'unordered'])
  if (visual === 'trends' && order === 'unordered') {
    throw filter.fault('funnelVizType', 'must not be `trends` for an unordered funnel')
  }
  const steps = readSteps(query, context)
  const { series, exclusions } = readExclusions(filter, steps, order, context)
  const range =
    visual === 'trends'
      ? readRange(query, readInterval(query), context)
      : readWholeRange(query, context)
  if (visual === 'trends') bucketsOf(range)
  const unit = filter.choice('funnelWindowIntervalUnit', WINDOW_UNITS)
  const binCount = filter.number('binCount')
  return {
    visual,
    range,
    steps,
    series,
    filter: readGlobalFilter(query, context),
    rules: {
      order,
      stepCount: steps.length,
      windowMs: (filter.whole('funnelWindowInterval', 1) ?? WINDOW_COUNT) * UNIT_MS[unit],
      exclusions,
    },
    ...readMeasured(filter, steps.length),
    binCount:
      binCount === null ? null : Math.min(FUNNEL_BINS_MAX, Math.max(1, Math.trunc(binCount))),
    breakdown: readQueryBreakdown(query),
    ...readAttribution(filter, steps.length, order),
    groupTypeIndex: query.whole('aggregation_group_type_index', 0, 4),
    hasPersonsUrls: query.boolean('persons_urls'),
  }
}

function readSteps(query: QueryFields, context: QueryContext): readonly QuerySeries[] {
  const read = readSeriesList(query, context, 2, (node) => {
    node.refuse('optionalInFunnel')
    node.choice('math', ['total'])
    return node
  })
  return read.map(({ series, more }) => demandAction(series, more))
}

/** Throws if the series is an action that does not exist, because it cannot be a step. */
function demandAction(series: QuerySeries, node: QueryFields): QuerySeries {
  if (series.exists) return series
  throw node.fault(
    'id',
    'refers to an action that does not exist. Take its number from the list of actions',
  )
}

function readExclusions(
  filter: QueryFields,
  steps: readonly QuerySeries[],
  order: StepOrder,
  context: QueryContext,
): { readonly series: readonly SeriesMatch[]; readonly exclusions: readonly StepExclusion[] } {
  const series = steps.map(({ match }) => match)
  const exclusions = filter.objects('exclusions').map((node) => {
    const exclusion = demandAction(readSeriesNode(node, 0, context), node)
    const last = steps.length - 1
    const fromStep = node.whole('funnelFromStep', 0, last - 1)
    const toStep = node.whole('funnelToStep', 1, last)
    if (fromStep === null || toStep === null || fromStep >= toStep) {
      throw node.fault('funnelToStep', 'must be the number of a step after `funnelFromStep`')
    }
    if (order === 'unordered' && toStep - fromStep < last) {
      throw node.fault(
        'funnelToStep',
        'must be the last step, and `funnelFromStep` the first step, because the funnel is unordered',
      )
    }
    if (steps.slice(fromStep, toStep + 1).some((step) => isSame(step, exclusion))) {
      throw node.fault(
        'event',
        'must not be one of the steps from `funnelFromStep` to `funnelToStep`',
      )
    }
    return { bit: series.push(exclusion.match) - 1, fromStep, toStep }
  })
  if (order === 'strict') series.push(eventSeries(null, null).match)
  if (series.length <= SERIES_MAX) return { series, exclusions }
  const what = `and the steps together may be at most ${SERIES_MAX - 1}`
  throw filter.fault('exclusions', what)
}

function isSame(left: QuerySeries, right: QuerySeries): boolean {
  const textOf = ({ type, id, filter }: QuerySeries): string => JSON.stringify([type, id, filter])
  return textOf(left) === textOf(right)
}

function readMeasured(
  filter: QueryFields,
  stepCount: number,
): Pick<FunnelsPlan, 'fromStep' | 'toStep'> {
  const fromStep = filter.whole('funnelFromStep', 0, stepCount - 2) ?? 0
  const toStep = filter.whole('funnelToStep', 1, stepCount - 1) ?? stepCount - 1
  if (fromStep < toStep) return { fromStep, toStep }
  throw filter.fault('funnelToStep', 'must be the number of a step after `funnelFromStep`')
}

function readAttribution(
  filter: QueryFields,
  stepCount: number,
  order: StepOrder,
): Pick<FunnelsPlan, 'attribution' | 'attributionStep'> {
  const attribution = filter.choice('breakdownAttributionType', [
    'first_touch',
    'last_touch',
    'all_events',
    'step',
  ])
  const last = attribution === 'step' ? stepCount - 1 : Number.MAX_SAFE_INTEGER
  const attributionStep = filter.whole('breakdownAttributionValue', 0, last) ?? 0
  if (attribution === 'step' && order === 'unordered' && attributionStep > 0) {
    throw filter.fault('breakdownAttributionValue', 'must be 0 for an unordered funnel')
  }
  return { attribution, attributionStep }
}
