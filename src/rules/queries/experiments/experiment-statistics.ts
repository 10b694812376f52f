/**
 * Compares the variants of an experiment in one metric: computes intervals, p-values, verdicts and plans from the sums
 * of each variant. Source: docs/EXPERIMENTS.md.
 */
import { adjustForBefore } from '../../experiments/adjust-for-before.ts'
import { type ConfidenceSequence, confidenceSequence } from '../../experiments/always-valid.ts'
import { type Contrast, differenceOf, liftOf } from '../../experiments/contrast.ts'
import { holmAdjusted } from '../../experiments/corrections.ts'
import { type FixedTest, welchTest } from '../../experiments/fixed-horizon.ts'
import {
  lacksData,
  type MissingReason,
  type NotEnoughData,
} from '../../experiments/not-enough-data.ts'
import { daysLeft, detectableChange, personsForMean } from '../../experiments/planning.ts'
import { sampleRatioTest } from '../../experiments/sample-ratio.ts'
import {
  estimateMean,
  estimateProportion,
  estimateRatio,
  type MaybeEstimate,
} from '../../experiments/variant-estimate.ts'
import {
  winProbabilityOfMeans,
  winProbabilityOfProportions,
} from '../../experiments/win-probability.ts'
import type { ExperimentFacts, MetricPlan } from './experiment-plan.ts'
import type { VariantSums } from './variant-sums.ts'

/**
 * The number of persons, in both variants together, at which always-valid intervals are narrowest if the experiment has
 * no planned size.
 */
const HORIZON_PERSONS = 10_000
const POWER = 0.8
/** The probability that one evaluation of the sample ratio check reports a mismatch although there is none. */
const SAMPLE_RATIO_ALPHA = 0.001
/** The smallest number of persons for which PostHog shows statistics. Tenrec does the same. */
const PERSONS_MIN = 50
const CONVERSIONS_MIN = 5
const DAY_MS = 86_400_000
const HOUR_SHARE_OF_DAY = 1 / 24

/** The reasons why PostHog's clients show no statistics. */
export type ValidationFailure =
  | 'not-enough-exposures'
  | 'not-enough-metric-data'
  | 'baseline-mean-is-zero'

/** The reasons why a variant has no statistics. */
export type ResultReason = MissingReason | 'too_few_conversions'

/** The comparison of one variant with the baseline, or the reason why they cannot be compared. */
export interface VariantComparison {
  readonly sums: VariantSums
  readonly failures: readonly ValidationFailure[]
  readonly reason: ResultReason | null
  readonly lift: StatisticsOf
  readonly difference: StatisticsOf
  /** The probability that the mean of the variant is higher than that of the baseline. */
  readonly winProbability: number | null
  /** The smallest relative change that can be detected with the persons so far, with a power of 80 %. */
  readonly detectableLift: number | null
  readonly daysLeft: number | null
  /** The number of persons that are needed in both variants together. Null without a plan. */
  readonly neededPersons: number | null
}

/**
 * The statistics of one scale, which is the lift or the difference. `alwaysValid` stays right however often the results
 * are looked at. `fixed` is only right if they are looked at once.
 */
export interface StatisticsOf {
  readonly alwaysValid: ConfidenceSequence | null
  readonly fixed: FixedTest | null
}

/** A metric with the comparisons of all its variants. */
export interface MetricStatistics {
  readonly baseline: VariantSums
  readonly baselineFailures: readonly ValidationFailure[]
  readonly means: readonly (number | null)[]
  readonly comparisons: readonly VariantComparison[]
  /**
   * The result of CUPED: the share of the variance that remains, or the reason why the values before the exposure were
   * not used. Null if the metric does not use CUPED.
   */
  readonly adjustment: { readonly remainingVariance: number } | NotEnoughData | null
}

/** The times from which a plan estimates how fast persons arrive and how long the experiment will take. */
export interface ExposurePace {
  /** The start of the experiment, in milliseconds since 1970. */
  readonly startMs: number
  readonly latestMs: number
  readonly isRunning: boolean
}

const NOTHING: StatisticsOf = { alwaysValid: null, fixed: null }

/** Compares every variant with the baseline, which is the first variant. */
export function metricStatistics(
  metric: MetricPlan,
  variants: readonly VariantSums[],
  facts: ExperimentFacts,
  pace: ExposurePace,
): MetricStatistics | null {
  const [baseline, ...others] = variants
  if (baseline === undefined) return null
  const isProportion = isProportionMetric(metric)
  const isAdjustable = metric.type === 'mean' || metric.type === 'funnel'
  const adjusted = isAdjustable && baseline.second !== null ? adjust(variants) : null
  const estimates =
    adjusted === null || lacksData(adjusted)
      ? variants.map((sums) => estimateOf(metric, sums))
      : adjusted.estimates
  const isPlain = isProportion && (adjusted === null || lacksData(adjusted))
  const baselineFailures = failuresOf(metric, baseline, true)
  const shares = sharesOf(facts)
  const comparisons = others.map((sums, index): VariantComparison => {
    const failures = failuresOf(metric, sums, false)
    const [control, treatment] = [estimates[0], estimates[index + 1]]
    const reason = reasonOf([...baselineFailures, ...failures], baseline, sums)
    const plan = { sums, failures, reason }
    if (reason !== null) return { ...plan, ...NO_COMPARISON }
    const lift = liftOf(control, treatment)
    const difference = differenceOf(control, treatment)
    if (lacksData(difference)) {
      return { ...plan, ...NO_COMPARISON, reason: difference.notEnoughData }
    }
    const share = shares[index + 1] ?? 0
    const treatmentShare = share / (share + (shares[0] ?? 0))
    const ofPair = share + (shares[0] ?? 0)
    const options = {
      alpha: facts.stats.alpha,
      horizonPersons: Math.max(1, (facts.stats.horizonPersons ?? HORIZON_PERSONS) * ofPair),
    }
    return {
      ...plan,
      lift: statisticsOf(lift, options),
      difference: statisticsOf(difference, options),
      winProbability: winProbability(isPlain, baseline, sums, difference),
      ...planOf(control, baseline.persons + sums.persons, treatmentShare, ofPair, facts, pace),
    }
  })
  return {
    baseline,
    baselineFailures,
    means: variants.map((sums) => meanOf(metric, sums)),
    comparisons,
    adjustment: adjusted,
  }
}

const NO_COMPARISON = {
  lift: NOTHING,
  difference: NOTHING,
  winProbability: null,
  detectableLift: null,
  daysLeft: null,
  neededPersons: null,
} as const

/** Returns the p-values after Holm's correction, in the order of the list. Null entries do not count as comparisons. */
export function correctedPValues(pValues: readonly (number | null)[]): readonly (number | null)[] {
  const given = pValues.filter((pValue) => pValue !== null)
  const adjusted = holmAdjusted(given)
  if (lacksData(adjusted)) return pValues.map(() => null)
  let next = 0
  return pValues.map((pValue) => (pValue === null ? null : (adjusted[next++] ?? null)))
}

/**
 * The result of the sample ratio check. `expected` is the expected number of persons in each variant, by the key of the
 * variant.
 */
export interface SampleRatio {
  readonly expected: Readonly<Record<string, number>>
  readonly pValue: number
  readonly isMismatch: boolean
}

/** Compares the number of persons in each variant, and in a holdout, with the share that the experiment gives it. */
export function sampleRatioOf(
  keys: readonly string[],
  persons: Float64Array,
  facts: ExperimentFacts,
): SampleRatio | NotEnoughData {
  const shares = sharesOf(facts)
  const chosen = [...keys.keys()].filter((variant) => (shares[variant] ?? 0) > 0)
  const variants = chosen.map((variant) => {
    return { persons: persons[variant] ?? 0, share: shares[variant] ?? 0 }
  })
  const test = sampleRatioTest(variants, SAMPLE_RATIO_ALPHA)
  if (lacksData(test)) return test
  const total = variants.reduce((sum, one) => sum + one.persons, 0)
  const all = variants.reduce((sum, { share }) => sum + share, 0)
  const expected = chosen.map((variant): [string, number] => {
    return [keys[variant] ?? '', (total * (shares[variant] ?? 0)) / all]
  })
  return {
    expected: Object.fromEntries(expected),
    pValue: test.pValue,
    isMismatch: test.isMismatch,
  }
}

/**
 * Returns the share of all exposed persons that each variant should get according to the flag. If the experiment has a
 * holdout that is no variant, the share of the holdout comes last. The shares add up to 1, unless the flag gives no
 * variant to anybody.
 */
function sharesOf({ variants, holdout }: ExperimentFacts): readonly number[] {
  const all = variants.reduce((sum, { rolloutPercentage }) => sum + rolloutPercentage, 0)
  const held = holdout === null ? 0 : holdout.percentage / 100
  const shares = variants.map(({ rolloutPercentage }) => {
    return all > 0 ? (rolloutPercentage / all) * (1 - held) : 0
  })
  const isOwn = holdout !== null && variants.every(({ key }) => key !== holdout.variant)
  return isOwn ? [...shares, held] : shares
}

function isProportionMetric({ type, threshold }: MetricPlan): boolean {
  return type === 'funnel' || type === 'retention' || threshold !== null
}

function estimateOf(metric: MetricPlan, sums: VariantSums): MaybeEstimate {
  const { persons, sum, squares, second } = sums
  if (isProportionMetric(metric)) return estimateProportion({ persons, converted: sum })
  if (metric.type !== 'ratio') return estimateMean({ persons, sum, squares })
  if (second === null) return undefined
  return estimateRatio({
    persons,
    numeratorSum: sum,
    numeratorSquares: squares,
    denominatorSum: second.sum,
    denominatorSquares: second.squares,
    products: second.products,
  })
}

function adjust(variants: readonly VariantSums[]) {
  return adjustForBefore(
    variants.map(({ persons, sum, squares, second }) => {
      if (second === null) return undefined
      const { sum: beforeSum, squares: beforeSquares, products } = second
      return { persons, sum, squares, beforeSum, beforeSquares, products }
    }),
  )
}

function meanOf({ type }: MetricPlan, { persons, sum, second }: VariantSums): number | null {
  const divisor = type === 'ratio' ? (second?.sum ?? 0) : persons
  const mean = sum / divisor
  return Number.isFinite(mean) ? mean : null
}

function failuresOf(
  { type }: MetricPlan,
  { persons, sum }: VariantSums,
  isBaseline: boolean,
): readonly ValidationFailure[] {
  const failures: ValidationFailure[] = []
  if (persons < PERSONS_MIN) failures.push('not-enough-exposures')
  if (type === 'funnel' && sum < CONVERSIONS_MIN) failures.push('not-enough-metric-data')
  if (isBaseline && sum === 0) failures.push('baseline-mean-is-zero')
  return failures
}

function reasonOf(
  failures: readonly ValidationFailure[],
  baseline: VariantSums,
  sums: VariantSums,
): ResultReason | null {
  if (failures.includes('not-enough-exposures')) {
    const fewest = Math.min(baseline.persons, sums.persons)
    if (fewest === 0) return 'no_exposures'
    return fewest === 1 ? 'one_person' : 'too_few_persons'
  }
  if (failures.includes('not-enough-metric-data')) return 'too_few_conversions'
  return failures.includes('baseline-mean-is-zero') ? 'zero_baseline' : null
}

function statisticsOf(
  contrast: Contrast | NotEnoughData,
  options: { readonly alpha: number; readonly horizonPersons: number },
): StatisticsOf {
  return {
    alwaysValid: valueOr(confidenceSequence(contrast, options)),
    fixed: valueOr(welchTest(contrast, options.alpha)),
  }
}

function valueOr<T extends object>(answer: T | NotEnoughData): T | null {
  return lacksData(answer) ? null : answer
}

function winProbability(
  isPlain: boolean,
  baseline: VariantSums,
  sums: VariantSums,
  difference: Contrast,
): number | null {
  const answer = isPlain
    ? winProbabilityOfProportions(
        { persons: baseline.persons, converted: baseline.sum },
        { persons: sums.persons, converted: sums.sum },
      )
    : winProbabilityOfMeans(difference)
  return lacksData(answer) ? null : answer.probability
}

/**
 * Returns the smallest change that can be detected so far, the days that the plan still takes, and the persons it
 * needs.
 */
function planOf(
  control: MaybeEstimate,
  persons: number,
  treatmentShare: number,
  ofPair: number,
  { stats }: ExperimentFacts,
  { startMs, latestMs, isRunning }: ExposurePace,
): Pick<VariantComparison, 'detectableLift' | 'daysLeft' | 'neededPersons'> {
  const { alpha, minimumDetectableEffect, horizonPersons } = stats
  if (control === undefined || lacksData(control)) {
    return { detectableLift: null, daysLeft: null, neededPersons: null }
  }
  const design = { alpha, power: POWER, treatmentShare, looks: 'always_valid' } as const
  const found = detectableChange(control, persons, design)
  const planned =
    minimumDetectableEffect === null
      ? null
      : valueOr(personsForMean(control, minimumDetectableEffect, design))
  const horizon = horizonPersons === null ? null : Math.ceil(horizonPersons * ofPair)
  const neededPersons = planned?.persons ?? horizon
  const days = Math.max((latestMs - startMs) / DAY_MS, HOUR_SHARE_OF_DAY)
  const left =
    neededPersons === null || !isRunning
      ? null
      : valueOr(daysLeft(neededPersons, persons, persons / days))
  return {
    detectableLift: valueOr(found)?.lift ?? null,
    daysLeft: left?.days ?? null,
    neededPersons,
  }
}
