/**
 * Builds the URLs that list the actors behind the numbers of a trend, for measures that count persons or groups.
 * Source: docs/compatibility/queries.md, "Who is behind a number".
 */
import type { DateRange } from '../../analytics/date-range.ts'
import { allOf } from '../../filters/filter-group.ts'
import {
  breakdownFilter,
  type PersonsUrl,
  type PersonsUrls,
  rangeParameters,
  targetParameters,
} from '../persons-urls.ts'
import { NULL_LABEL } from '../query-breakdown.ts'
import type { QueryRange } from '../query-range.ts'
import type { Line } from './trend-lines.ts'
import { spanOf } from './trend-spans.ts'
import { isCountedOnce, type TrendSeries, type TrendsPlan } from './trends-plan.ts'

/**
 * Returns, for each number of a line, the URL of the persons behind the number. Throws the same errors as `UrlMaker`.
 */
export function trendUrls(
  urls: PersonsUrls,
  plan: TrendsPlan,
  series: TrendSeries,
  range: QueryRange,
  { value: { texts, rank }, data }: Line,
  hasNullText: boolean,
): readonly PersonsUrl[] {
  const ranges = countedRanges(plan, series, range)
  const own = rank === 'null' ? texts.map((text) => (text === NULL_LABEL ? null : text)) : texts
  const value = rank === 'other' ? undefined : breakdownFilter(plan.breakdown, own, hasNullText)
  if (value === undefined) return data.map(() => null)
  const urlOf = urls.of({
    route: 'trends',
    filter: allOf([plan.filter, value]),
    series: [series],
    parameters: targetParameters(series, mathOf(series)),
  })
  return data.map((_, bucket) => {
    const counted = ranges[bucket]
    return counted === undefined ? null : urlOf(rangeParameters(counted))
  })
}

/**
 * Returns, for each bucket, the time range of the events whose actors are counted. The list is empty if a number does
 * not count the persons or groups of one time range, for example if it is an average of several buckets.
 */
function countedRanges(
  plan: TrendsPlan,
  { measure }: TrendSeries,
  range: QueryRange,
): readonly DateRange[] {
  const { isTotal, isCumulative, smoothing } = plan
  const isCount = measure.of === 'actors' && measure.actor?.kind !== 'event_property'
  if (!isCount || range.fromMs > range.toMs) return []
  const { fromMs, toMs, periods, window, bucketCount } = spanOf(measure, range, isTotal)
  if (periods === null) return [{ fromMs, toMs }]
  if (smoothing > 1 || (isCumulative && !isCountedOnce(plan, measure))) return []
  return Array.from({ length: bucketCount }, (_, bucket) => {
    const last = window?.lastPeriods[bucket] ?? bucket
    const first = isCumulative ? 0 : last + 1 - (window?.length ?? 1)
    return {
      fromMs: Math.max(fromMs, periods.startMs(first)),
      toMs: Math.min(toMs, periods.startMs(last + 1) - 1),
    }
  })
}

/**
 * Returns the math for the persons routes. Weekly and monthly active persons become `dau`, because the range of the URL
 * already contains the days before the bucket.
 */
function mathOf({ measure }: TrendSeries) {
  const actor = measure.of === 'actors' ? measure.actor : null
  if (actor?.kind !== 'group_key') return { math: 'dau' }
  return { math: 'unique_group', math_group_type_index: actor.typeIndex }
}
