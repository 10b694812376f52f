/**
 * Question: how often do the statistics of experiments find a difference that does not exist, and how often one that
 * does?
 * Workload: 2,000 simulated A/A tests for each of six metrics, with 100 looks each, and a quarter as many tests with a
 * change. The sizes are planned for a change of 10 % and a power of 90 % with a single look.
 * Baseline: a test for a single look, which is what most people compute: with the same looks in A/A tests, and at the
 * last look in tests with a change.
 */

import { benjaminiHochbergAdjusted, holmAdjusted } from '../../src/rules/experiments/corrections.ts'
import { twoProportionTest } from '../../src/rules/experiments/fixed-horizon.ts'
import { lacksData, type NotEnoughData } from '../../src/rules/experiments/not-enough-data.ts'
import {
  type Baseline,
  type Design,
  daysLeft,
  detectableChange,
  personsForMean,
  personsForProportion,
} from '../../src/rules/experiments/planning.ts'
import { estimateMean } from '../../src/rules/experiments/variant-estimate.ts'
import { winsorBounds, winsorizedSample } from '../../src/rules/experiments/winsorize.ts'
import type { Bench, BenchContext } from '../harness.ts'
import { Random } from './random.ts'
import {
  ADJUSTED,
  CLICKS,
  conversionMetric,
  drawRevenue,
  MINUTES,
  REVENUE,
  type SimulatedMetric,
  Sums,
} from './simulated-metrics.ts'
import { type Simulation, simulate } from './simulation.ts'

export const EXPERIMENTS: Bench = {
  name: 'experiments',
  group: 'experiments',
  question: 'How often do the statistics of experiments find differences, false and real ones?',
  workload: '2,000 A/A tests with 100 looks for each of six metrics, 500 with a change; not timed',
  isOnlyByName: true,
  needsDaemon: false,
  run: measure,
}

const ALPHA = 0.05
const LIFT = 0.1
const TOLERANCE = 0.02
const LOOKS = 100
const PERSONS_PER_DAY = 2000
const SMALL_CONVERSION = conversionMetric(0.1, 0.5)
const METRICS: readonly SimulatedMetric[] = [
  SMALL_CONVERSION,
  conversionMetric(0.2, 0.2),
  MINUTES,
  REVENUE,
  ADJUSTED,
  CLICKS,
]
/** The number of persons from whom the mean and the variance of a metric are estimated before its experiment. */
const PILOT_PERSONS = 100_000

async function measure(context: BenchContext): Promise<void> {
  const experiments = context.rounds(2000, 50)
  const changed = Math.ceil(experiments / 4)
  for (const metric of METRICS) {
    const baseline = pilot(metric, context.seed)
    const persons = plan(metric, baseline, { power: 0.9, looks: 'fixed' })
    const simulation: Simulation = {
      metric,
      lift: 0,
      experiments,
      looks: LOOKS,
      persons,
      alpha: ALPHA,
      tolerance: TOLERANCE,
      seed: context.seed,
    }
    reportFalseWinners(context, simulation)
    reportPower(context, {
      ...simulation,
      lift: LIFT,
      experiments: changed,
      seed: context.seed + 2,
    })
  }
  reportPlans(context, changed)
  reportGuard(context, changed)
  reportMismatch(context, changed)
  reportCorrections(context, changed)
  reportWinsorizing(context)
}

/** Estimates a metric from persons before the experiment. All of them get the control. */
function pilot(metric: SimulatedMetric, seed: number): Baseline {
  const random = new Random(seed + 1)
  const [control, treatment] = [new Sums(), new Sums()]
  for (let person = 0; person < PILOT_PERSONS; person++) {
    metric.draw(random, 1, random.uniform() < 0.5 ? control : treatment)
  }
  const [estimate] = metric.estimates(control, treatment)
  if (estimate === undefined) throw new Error(`${metric.name} has no estimate`)
  return answerOf(estimate, metric.name)
}

/** Returns a statistic. Throws if it has no value, because the bench would then mean nothing. */
function answerOf<T extends object>(answer: T | NotEnoughData, name: string): T {
  if (lacksData(answer)) throw new Error(`${name}: ${answer.notEnoughData}`)
  return answer
}

function plan(
  metric: SimulatedMetric,
  baseline: Baseline,
  { power, looks }: Pick<Design, 'power' | 'looks'>,
): number {
  const design: Design = { alpha: ALPHA, power, looks, treatmentShare: metric.treatmentShare }
  const needed = metric.isProportion
    ? personsForProportion(baseline.mean, LIFT, design)
    : personsForMean(baseline, LIFT, design)
  return answerOf(needed, metric.name).persons
}

function percentOf(share: number): number {
  return 100 * share
}

function reportFalseWinners(context: BenchContext, simulation: Simulation): void {
  const shares = simulate(simulation)
  const { name } = simulation.metric
  context.report({
    figure: `A/A, ${name}: difference found in any of ${LOOKS} looks`,
    value: percentOf(shares.alwaysValid),
    unit: '%',
    baseline: percentOf(shares.peeking),
    target: { of: 'value', bound: 'at most', limit: percentOf(ALPHA) },
    note: `${simulation.persons} persons; baseline: a fixed 95 % interval with the same looks, ${percentOf(shares.fixed).toFixed(1)} % at the last look alone`,
  })
  context.report({
    figure: `A/A, ${name}: win probability above 97.5 % in any look`,
    value: percentOf(shares.winning),
    unit: '%',
    note: 'for either variant; shows that a win probability is no rule for stopping',
  })
  context.report({
    figure: `A/A, ${name}: sample ratio alarms`,
    value: percentOf(shares.mismatched),
    unit: '%',
    note: 'one check at the end, with false alarms at 0.1 %',
  })
}

function reportPower(context: BenchContext, simulation: Simulation): void {
  const shares = simulate(simulation)
  const { name } = simulation.metric
  context.report({
    figure: `+10 %, ${name}: difference found until the end`,
    value: percentOf(shares.alwaysValid),
    unit: '%',
    baseline: percentOf(shares.fixed),
    target: { of: 'ratio', bound: 'at least', limit: 0.7 },
    note: `baseline: the fixed test at the end; found after ${percentOf(shares.personsUntilFound).toFixed(0)} % of the persons on average`,
  })
  context.report({
    figure: `+10 %, ${name}: true change inside all intervals`,
    value: percentOf(shares.alwaysCovered),
    unit: '%',
    target: { of: 'value', bound: 'at least', limit: percentOf(1 - ALPHA) },
  })
}

/** Reports what looking at any time costs: the power at the usual size, and the size for the usual power. */
function reportPlans(context: BenchContext, experiments: number): void {
  const metric = SMALL_CONVERSION
  const baseline = pilot(metric, context.seed)
  const fixed = plan(metric, baseline, { power: 0.8, looks: 'fixed' })
  const always = plan(metric, baseline, { power: 0.8, looks: 'always_valid' })
  const common = {
    metric,
    lift: LIFT,
    experiments,
    looks: LOOKS,
    alpha: ALPHA,
    tolerance: TOLERANCE,
  }
  const atFixed = simulate({ ...common, persons: fixed, seed: context.seed + 3 })
  context.report({
    figure: `+10 %, ${metric.name}: found at a size for 80 % with one look`,
    value: percentOf(atFixed.alwaysValid),
    unit: '%',
    baseline: percentOf(atFixed.fixed),
    note: 'baseline: the fixed test at the end',
  })
  const atAlways = simulate({ ...common, persons: always, seed: context.seed + 4 })
  context.report({
    figure: `+10 %, ${metric.name}: found at a size for 80 % with always-valid looks`,
    value: percentOf(atAlways.alwaysValid),
    unit: '%',
    target: { of: 'value', bound: 'at least', limit: 80 },
    note: `found after ${percentOf(atAlways.personsUntilFound).toFixed(0)} % of the persons on average`,
  })
  context.report({
    figure: 'persons for a power of 80 % with always-valid looks',
    value: always,
    unit: 'persons',
    baseline: fixed,
    note: `baseline: with one look; ${daysOf(always)} and ${daysOf(fixed)} days with ${PERSONS_PER_DAY} persons a day`,
  })
  const design: Design = { alpha: ALPHA, power: 0.8, treatmentShare: 0.5, looks: 'fixed' }
  const detectable = answerOf(detectableChange(baseline, fixed, design), 'the detectable change')
  context.report({
    figure: 'relative change that the size for +10 % detects',
    value: percentOf(detectable.lift),
    unit: '%',
  })
}

function daysOf(persons: number): number {
  return answerOf(daysLeft(persons, 0, PERSONS_PER_DAY), 'the days').days
}

/** Reports a guard that tolerates a loss of 2 %: once with exactly this loss, and once with a loss of 10 %. */
function reportGuard(context: BenchContext, experiments: number): void {
  const metric = SMALL_CONVERSION
  const persons = plan(metric, pilot(metric, context.seed), { power: 0.9, looks: 'fixed' })
  const common = { metric, experiments, looks: LOOKS, persons, alpha: ALPHA, tolerance: TOLERANCE }
  const tolerated = simulate({ ...common, lift: -TOLERANCE, seed: context.seed + 5 })
  context.report({
    figure: 'guard with a tolerance of 2 %: alarms at a loss of 2 %',
    value: percentOf(tolerated.guarded),
    unit: '%',
    target: { of: 'value', bound: 'at most', limit: percentOf(ALPHA) },
  })
  const worse = simulate({ ...common, lift: -LIFT, seed: context.seed + 6 })
  context.report({
    figure: 'guard with a tolerance of 2 %: alarms at a loss of 10 %',
    value: percentOf(worse.guarded),
    unit: '%',
  })
}

/** Reports an experiment in which every 25th person of the control is lost before the exposure is recorded. */
function reportMismatch(context: BenchContext, experiments: number): void {
  const metric = SMALL_CONVERSION
  const shares = simulate({
    metric,
    lift: 0,
    experiments,
    looks: 1,
    persons: 39_000,
    alpha: ALPHA,
    tolerance: TOLERANCE,
    treatedShare: 0.5 / 0.98,
    seed: context.seed + 7,
  })
  context.report({
    figure: 'sample ratio alarms if 4 % of the control are lost, 39,000 persons',
    value: percentOf(shares.mismatched),
    unit: '%',
  })
}

const COMPARISONS = 10
const COMPARED_PERSONS = 2000

/** Reports experiments with ten metrics: without any change, and with changes in five metrics. */
function reportCorrections(context: BenchContext, experiments: number): void {
  const random = new Random(context.seed + 8)
  let uncorrected = 0
  let holm = 0
  let falseShare = 0
  for (let experiment = 0; experiment < experiments; experiment++) {
    const equal = Array.from({ length: COMPARISONS }, () => pValueOf(random, 0))
    if (Math.min(...equal) <= ALPHA) uncorrected++
    const adjusted = answerOf(holmAdjusted(equal), 'the correction of Holm')
    if (Math.min(...adjusted) <= ALPHA) holm++
    const half = equal.map((pValue, index) => (index % 2 === 0 ? pValue : pValueOf(random, 0.4)))
    const discovered = answerOf(benjaminiHochbergAdjusted(half), 'the false discovery rate')
    const found = discovered.flatMap((pValue, index) => (pValue <= ALPHA ? [index] : []))
    falseShare += found.filter((index) => index % 2 === 0).length / Math.max(1, found.length)
  }
  context.report({
    figure: 'A/A with 10 metrics: any difference found with the correction of Holm',
    value: percentOf(holm / experiments),
    unit: '%',
    baseline: percentOf(uncorrected / experiments),
    note: 'baseline: without correction; fixed tests with one look',
  })
  context.report({
    figure: '5 of 10 metrics changed: false part of the differences by Benjamini and Hochberg',
    value: percentOf(falseShare / experiments),
    unit: '%',
    target: { of: 'value', bound: 'at most', limit: percentOf(ALPHA) },
  })
}

function pValueOf(random: Random, lift: number): number {
  const metric = SMALL_CONVERSION
  const [control, treatment] = [new Sums(), new Sums()]
  for (let person = 0; person < COMPARED_PERSONS; person++) {
    metric.draw(random, 1, control)
    metric.draw(random, 1 + lift, treatment)
  }
  const [from, to] = [control, treatment].map(({ persons, sum }) => ({ persons, converted: sum }))
  return answerOf(twoProportionTest(from, to, ALPHA), metric.name).pValue
}

/** Reports how many persons are saved if values are cut off at the 99th percentile. */
function reportWinsorizing(context: BenchContext): void {
  const random = new Random(context.seed + 9)
  const values = Float64Array.from({ length: PILOT_PERSONS }, () => drawRevenue(random))
  const bounds = answerOf(winsorBounds(values, { low: 0, high: 0.99 }), 'the bounds')
  const all = { low: Number.MIN_SAFE_INTEGER, high: Number.MAX_SAFE_INTEGER }
  const [raw, capped] = [all, bounds].map((limits) => {
    const sample = answerOf(winsorizedSample(values, limits), 'the sums')
    const estimate = estimateMean(sample)
    if (estimate === undefined) throw new Error('the revenue has no estimate')
    return plan(REVENUE, answerOf(estimate, 'the revenue'), { power: 0.9, looks: 'fixed' })
  })
  context.report({
    figure: 'persons for +10 % of revenue, winsorized at the 99th percentile',
    value: capped ?? 0,
    unit: 'persons',
    baseline: raw ?? 0,
    note: 'baseline: all values as they are',
  })
}
