/**
 * Builds the answers of queries about experiments: the members of PostHog's answers, and the members that Tenrec adds.
 * Source: docs/compatibility/queries.md, "ExperimentQuery" and "ExperimentExposureQuery".
 */
import type { JsonObject } from '../../../base/json.ts'
import { timeText } from '../../../base/time.ts'
import { lacksData } from '../../experiments/not-enough-data.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import { bucketDays, bucketsOf, resolvedRange } from '../query-buckets.ts'
import type { QueryPage } from '../query-kind.ts'
import type {
  ExperimentFacts,
  ExperimentPlan,
  ExposureQueryPlan,
  MetricPlan,
} from './experiment-plan.ts'
import {
  correctedPValues,
  type ExposurePace,
  type MetricStatistics,
  metricStatistics,
  type SampleRatio,
  type StatisticsOf,
  sampleRatioOf,
  type VariantComparison,
} from './experiment-statistics.ts'
import type { Numbers, PersonRows } from './person-rows.ts'
import {
  type MetricSums,
  metricSums,
  personsOfSeveral,
  personsOfVariants,
  type VariantSums,
  variantsOfRows,
} from './variant-sums.ts'

/** The key under which PostHog's clients expect the persons who saw several variants. */
const MULTIPLE = '$multiple'

/** A metric with its statistics, before its p-values are corrected for multiple comparisons. */
interface ComputedMetric {
  readonly metric: MetricPlan
  readonly sums: MetricSums
  readonly statistics: MetricStatistics
}

/** Builds the answer of an `ExperimentQuery`. Throws the same errors as `EventScanner.checkLimits`. */
export function experimentPage(
  { exposure, facts, metrics, primaryCount, isSingle }: ExperimentPlan,
  rows: PersonRows,
  limits: QueryLimits,
): QueryPage {
  const keys = exposure.variants
  const numbers = variantsOfRows(rows, facts.isFirstSeen)
  const pace = { startMs: facts.startMs, latestMs: rows.latestMs, isRunning: facts.isRunning }
  const computed: ComputedMetric[] = []
  let next = 0
  for (const metric of metrics) {
    const columns = rows.columns.slice(next, next + columnCount(metric))
    next += columnCount(metric)
    const one = computedMetric(metric, columns, numbers, keys, facts, pace, limits)
    if (one !== null) computed.push(one)
  }
  const items = [
    ...familyItems(computed.slice(0, primaryCount), facts),
    ...familyItems(computed.slice(primaryCount), facts),
  ]
  const persons = personsOfVariants(numbers, keys.length)
  const members: JsonObject = {
    ...exposureMembers(keys, persons, rows, facts),
    alpha: facts.stats.alpha,
    start_date: timeText(facts.startMs),
    end_date: facts.endMs === null ? null : timeText(facts.endMs),
    ...resolvedRange(exposure.range),
  }
  const results = items.flatMap(({ rows: table }) => table)
  const answers = items.map(({ answer }) => answer)
  if (isSingle) {
    return { results, members: { kind: 'ExperimentQuery', ...answers[0], ...members } }
  }
  const lists = {
    primary_metrics: answers.slice(0, primaryCount),
    secondary_metrics: answers.slice(primaryCount),
  }
  return { results, members: { kind: 'ExperimentQuery', ...lists, ...members } }
}

/** Returns the number of columns in `PersonRows` that a metric needs. */
function columnCount({ counted }: MetricPlan): number {
  if (counted.of === 'returns') return 1
  const before = counted.lookbackMs === null ? 0 : 1
  return before + (counted.of === 'values' ? counted.sources.length : 1)
}

/** Builds the answer of an `ExperimentExposureQuery`. Throws the same errors as `EventScanner.checkLimits`. */
export function exposurePage(
  { exposure, facts, variants }: ExposureQueryPlan,
  rows: PersonRows,
  limits: QueryLimits,
): QueryPage {
  if (exposure === null || facts === null) return notStarted(variants)
  const { range } = exposure
  const periods = bucketsOf(range)
  const days = range.fromMs > range.toMs ? [] : bucketDays(range, periods)
  const numbers = variantsOfRows(rows, facts.isFirstSeen)
  const [firstMs] = rows.columns
  // One list for each variant. The last list counts the persons who saw several variants.
  const counts = Array.from({ length: variants.length + 1 }, () => new Float64Array(days.length))
  new PacedLimits(limits).count(rows.persons.length)
  for (let row = 0; row < rows.persons.length; row++) {
    const number = numbers[row] ?? -1
    const own = counts[number < 0 ? variants.length : number]
    const day = periods.indexOf(firstMs?.[row] ?? 0)
    if (own !== undefined && day >= 0) own[day] = (own[day] ?? 0) + 1
  }
  const several = facts.isFirstSeen ? 0 : personsOfSeveral(rows)
  const keys = several > 0 ? [...variants, MULTIPLE] : variants
  const timeseries = keys.map((variant, index) => {
    return { variant, days, exposure_counts: runningTotals(counts[index] ?? new Float64Array(0)) }
  })
  const persons = personsOfVariants(numbers, variants.length)
  const totals = keys.map((key, index): [string, number] => {
    return [key, key === MULTIPLE ? several : (persons[index] ?? 0)]
  })
  const results = timeseries.map(({ variant, exposure_counts }) => {
    return { label: variant, days, data: exposure_counts }
  })
  const members = {
    kind: 'ExperimentExposureQuery',
    timeseries,
    total_exposures: Object.fromEntries(totals),
    date_range: {
      date_from: timeText(facts.startMs),
      date_to: facts.endMs === null ? null : timeText(facts.endMs),
    },
    ...exposureMembers(variants, persons, rows, facts),
    ...resolvedRange(range),
  }
  return { results, members }
}

function notStarted(variants: readonly string[]): QueryPage {
  const timeseries = variants.map((variant) => ({ variant, days: [], exposure_counts: [] }))
  const members = {
    kind: 'ExperimentExposureQuery',
    timeseries,
    total_exposures: Object.fromEntries(variants.map((variant) => [variant, 0])),
    date_range: { date_from: null, date_to: null },
    persons_set_aside: 0,
    persons_in_several_variants: 0,
    sample_ratio: { not_enough_data: 'no_exposures' },
  }
  return { results: [], members }
}

function runningTotals(counts: Float64Array): readonly number[] {
  let total = 0
  return Array.from(counts, (count) => {
    total += count
    return total
  })
}

/** Returns the members that count exposed persons and excluded persons, and the result of the sample ratio check. */
function exposureMembers(
  keys: readonly string[],
  persons: Float64Array,
  rows: PersonRows,
  facts: ExperimentFacts,
): JsonObject {
  const several = personsOfSeveral(rows)
  const ratio = sampleRatioOf(keys, persons, facts)
  return {
    exposed_persons: Object.fromEntries(keys.map((key, index) => [key, persons[index] ?? 0])),
    persons_set_aside: facts.isFirstSeen ? 0 : several,
    persons_in_several_variants: several,
    ...(facts.groupTypeIndex === null
      ? {}
      : {
          aggregation_group_type_index: facts.groupTypeIndex,
          exposures_without_group: rows.ungrouped,
        }),
    // PostHog leaves this member out if there are too few persons.
    ...(lacksData(ratio) ? {} : { sample_ratio_mismatch: mismatchOf(ratio) }),
    sample_ratio: lacksData(ratio)
      ? { not_enough_data: ratio.notEnoughData }
      : { is_mismatch: ratio.isMismatch },
  }
}

function mismatchOf({ expected, pValue }: SampleRatio): JsonObject {
  return { expected, p_value: pValue }
}

function computedMetric(
  metric: MetricPlan,
  columns: readonly Numbers[],
  numbers: Int8Array,
  keys: readonly string[],
  facts: ExperimentFacts,
  pace: ExposurePace,
  limits: QueryLimits,
): ComputedMetric | null {
  const sums = metricSums(metric, columns, numbers, keys, limits)
  const statistics = metricStatistics(metric, sums.variants, facts, pace)
  return statistics === null ? null : { metric, sums, statistics }
}

interface MetricItem {
  readonly answer: JsonObject
  /** The same counts as in `timeseries`, as the rows of a table. */
  readonly rows: readonly JsonObject[]
}

/** Returns the answers of a group of metrics whose p-values are corrected together. */
function familyItems(
  metrics: readonly ComputedMetric[],
  facts: ExperimentFacts,
): readonly MetricItem[] {
  const comparisons = metrics.flatMap(({ statistics }) => statistics.comparisons)
  const alwaysValid = correctedPValues(
    comparisons.map(({ lift, difference }) => {
      return (lift.alwaysValid ?? difference.alwaysValid)?.pValue ?? null
    }),
  )
  const fixed = correctedPValues(
    comparisons.map(({ lift, difference }) => (lift.fixed ?? difference.fixed)?.pValue ?? null),
  )
  let next = 0
  return metrics.map((computed) => {
    const items = computed.statistics.comparisons.map((comparison) => {
      const corrected = { alwaysValid: alwaysValid[next] ?? null, fixed: fixed[next] ?? null }
      next++
      return variantItem(computed, comparison, corrected, facts)
    })
    return metricItem(computed, items, facts)
  })
}

interface Corrected {
  readonly alwaysValid: number | null
  readonly fixed: number | null
}

interface VariantItem {
  readonly answer: JsonObject
  readonly row: JsonObject
}

function metricItem(
  { metric, sums, statistics }: ComputedMetric,
  items: readonly VariantItem[],
  { stats }: ExperimentFacts,
): MetricItem {
  const { baseline, baselineFailures, adjustment, means } = statistics
  const answer: JsonObject = {
    metric: metric.metric,
    baseline: {
      ...sumMembers(metric, baseline),
      validation_failures: baselineFailures,
      mean: means[0] ?? null,
    },
    variant_results: items.map((item) => item.answer),
    stats_method: stats.method,
    outlier_bounds: sums.bounds.map(
      (bounds) => bounds && [finite(bounds.low), finite(bounds.high)],
    ),
    ...(adjustment === null
      ? {}
      : {
          cuped: lacksData(adjustment)
            ? { not_enough_data: adjustment.notEnoughData }
            : { remaining_variance: adjustment.remainingVariance },
        }),
  }
  const first: JsonObject = {
    metric: metric.name,
    variant: baseline.key,
    persons: baseline.persons,
    mean: means[0] ?? null,
    lift: null,
    low: null,
    high: null,
    p_value: null,
    verdict: null,
  }
  return { answer, rows: [first, ...items.map(({ row }) => row)] }
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null
}

function sumMembers({ type, counted }: MetricPlan, sums: VariantSums): JsonObject {
  const { key, persons, sum, squares, second, stepCounts } = sums
  const isBefore = 'lookbackMs' in counted && counted.lookbackMs !== null
  return {
    key,
    number_of_samples: persons,
    sum,
    sum_squares: squares,
    ...(stepCounts === null ? {} : { step_counts: stepCounts }),
    // The denominator of a retention metric is 1 for each person who started, so its sum and its sum of squares both
    // equal the number of these persons.
    ...(type === 'retention' ? denominatorMembers(persons, persons, sum) : {}),
    ...(second !== null && type === 'ratio'
      ? denominatorMembers(second.sum, second.squares, second.products)
      : {}),
    ...(second !== null && isBefore
      ? {
          covariate_sum: second.sum,
          covariate_sum_squares: second.squares,
          covariate_sum_product: second.products,
        }
      : {}),
  }
}

function denominatorMembers(sum: number, squares: number, products: number): JsonObject {
  return {
    denominator_sum: sum,
    denominator_sum_squares: squares,
    numerator_denominator_sum_product: products,
  }
}

function variantItem(
  { metric, statistics }: ComputedMetric,
  comparison: VariantComparison,
  corrected: Corrected,
  { stats }: ExperimentFacts,
): VariantItem {
  const { sums, failures, reason, lift, difference, winProbability } = comparison
  const place = statistics.comparisons.indexOf(comparison)
  const mean = statistics.means[place + 1] ?? null
  const alwaysValid = lift.alwaysValid ?? difference.alwaysValid
  const fixed = lift.fixed ?? difference.fixed
  const isHigherBetter = metric.goal === 'increase'
  const verdict = verdictOf(reason, alwaysValid, isHigherBetter)
  const answer: JsonObject = {
    ...sumMembers(metric, sums),
    method: stats.method,
    ...(fixed === null || reason !== null
      ? {}
      : posthogMembers(stats.method, lift, fixed.pValue, stats.alpha)),
    ...(winProbability === null ? {} : { chance_to_win: winProbability }),
    validation_failures: failures,
    mean,
    verdict,
    ...(reason === null ? {} : { not_enough_data: reason }),
    always_valid: intervals(
      lift.alwaysValid,
      difference.alwaysValid,
      corrected.alwaysValid,
      stats.alpha,
    ),
    fixed_horizon: intervals(lift.fixed, difference.fixed, corrected.fixed, stats.alpha),
    chance_to_be_better:
      winProbability === null ? null : isHigherBetter ? winProbability : 1 - winProbability,
    minimum_detectable_effect: comparison.detectableLift,
    needed_persons: comparison.neededPersons,
    days_left: comparison.daysLeft,
  }
  const row: JsonObject = {
    metric: metric.name,
    variant: sums.key,
    persons: sums.persons,
    mean,
    lift: lift.alwaysValid?.estimate ?? null,
    low: lift.alwaysValid?.low ?? null,
    high: lift.alwaysValid?.high ?? null,
    p_value: corrected.alwaysValid,
    verdict,
  }
  return { answer, row }
}

/**
 * Returns the members that PostHog's clients read. Their statistics are only right if the results are looked at once,
 * at the end of the experiment.
 */
function posthogMembers(
  method: 'bayesian' | 'frequentist',
  { fixed }: StatisticsOf,
  pValue: number,
  alpha: number,
): JsonObject {
  const interval = fixed === null ? {} : { confidence_interval: [fixed.low, fixed.high] }
  const credible = fixed === null ? {} : { credible_interval: [fixed.low, fixed.high] }
  return {
    significant: pValue < alpha,
    p_value: pValue,
    ...interval,
    // With a flat prior and many persons, the credible interval equals the confidence interval.
    ...(method === 'bayesian' ? credible : {}),
  }
}

interface Interval {
  readonly estimate: number
  readonly low: number
  readonly high: number
  readonly pValue: number
}

/**
 * Returns the intervals of one comparison. They are null if there are no statistics. A lift is also null if the mean of
 * the baseline is too close to zero.
 */
function intervals(
  lift: Interval | null,
  difference: Interval | null,
  corrected: number | null,
  alpha: number,
): JsonObject | null {
  const known = lift ?? difference
  if (known === null) return null
  return {
    lift: ends(lift),
    difference: ends(difference),
    p_value: known.pValue,
    corrected_p_value: corrected,
    significant: known.pValue < alpha,
  }
}

function ends(interval: Interval | null): JsonObject | null {
  if (interval === null) return null
  const { estimate, low, high } = interval
  return { estimate, low, high }
}

/** Returns the conclusion. It stays valid however often somebody looks at the results. */
function verdictOf(
  reason: string | null,
  interval: Interval | null,
  isHigherBetter: boolean,
): 'better' | 'worse' | 'open' | 'not_enough_data' {
  if (reason !== null || interval === null) return 'not_enough_data'
  if (interval.low > 0) return isHigherBetter ? 'better' : 'worse'
  if (interval.high < 0) return isHigherBetter ? 'worse' : 'better'
  return 'open'
}
