/**
 * Tests the statistics of experiments against published examples, and against values that were computed in Python from
 * the same formulas or from the single values behind the sums (mpmath 1.3.0, SciPy 1.17.1, NumPy).
 *
 * @lane quick
 */
import t from 'tap'
import { adjustForBefore } from '../../../src/rules/experiments/adjust-for-before.ts'
import {
  boundaryAtHorizon,
  confidenceSequence,
  guardBound,
} from '../../../src/rules/experiments/always-valid.ts'
import { differenceOf, liftOf } from '../../../src/rules/experiments/contrast.ts'
import {
  benjaminiHochbergAdjusted,
  holmAdjusted,
} from '../../../src/rules/experiments/corrections.ts'
import { twoProportionTest, welchTest } from '../../../src/rules/experiments/fixed-horizon.ts'
import {
  type Design,
  daysLeft,
  detectableChange,
  personsForMean,
  personsForProportion,
} from '../../../src/rules/experiments/planning.ts'
import { sampleRatioTest } from '../../../src/rules/experiments/sample-ratio.ts'
import {
  estimateMean,
  estimateProportion,
  estimateRatio,
  type MeanSample,
} from '../../../src/rules/experiments/variant-estimate.ts'
import {
  winProbabilityOfMeans,
  winProbabilityOfProportions,
} from '../../../src/rules/experiments/win-probability.ts'
import { winsorBounds, winsorizedSample } from '../../../src/rules/experiments/winsorize.ts'
import { Differences } from '../../fixtures/differences.ts'

/** Returns the answer with its numbers rounded, so that rounding errors of sums do not matter. */
function rounded(answer: object, digits = 11): Record<string, unknown> {
  const round = (value: unknown): unknown => {
    if (typeof value === 'number') return Number(value.toPrecision(digits))
    return Array.isArray(value) ? value.map(round) : value
  }
  return Object.fromEntries(Object.entries(answer).map(([key, value]) => [key, round(value)]))
}

function sampleOf(values: readonly number[]): MeanSample {
  return {
    persons: values.length,
    sum: values.reduce((sum, value) => sum + value, 0),
    squares: values.reduce((sum, value) => sum + value * value, 0),
  }
}

/** 12 % of 1,000 and 13.6 % of 1,100. */
const CONTROL = { persons: 1000, converted: 120 }
const TREATMENT = { persons: 1100, converted: 150 }
const OPTIONS = { alpha: 0.05, horizonPersons: 10_000 }

/** Student's sleep data of 1908, of which R's manual page of `t.test` prints the result. */
const SLEEP = [
  [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0, 2],
  [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
] as const

t.test("Welch's test of Student's sleep data has the published result", async (t) => {
  const [first, second] = SLEEP.map((values) => estimateMean(sampleOf(values)))
  const contrast = differenceOf(first, second)
  t.match(rounded(contrast), { persons: 20, degreesOfFreedom: 17.776473516 })
  t.strictSame(rounded(welchTest(contrast, 0.05)), {
    estimate: 1.58,
    low: -0.20548323071,
    high: 3.3654832307,
    pValue: 0.079394140187,
  })
})

t.test('the test of two proportions agrees with a computation of high precision', async (t) => {
  t.strictSame(rounded(twoProportionTest(CONTROL, TREATMENT, 0.05)), {
    estimate: 0.016363636364,
    low: -0.012218415615,
    high: 0.044945688342,
    pValue: 0.26319697322,
  })
})

t.test('the boundary at the horizon agrees with a computation of high precision', async (t) => {
  t.equal(boundaryAtHorizon(0.5).toPrecision(13), (1.6931955253364).toPrecision(13))
  t.equal(boundaryAtHorizon(0.05).toPrecision(13), (2.7421214752877).toPrecision(13))
  t.equal(boundaryAtHorizon(0.01).toPrecision(13), (3.2785885606388).toPrecision(13))
  t.equal(boundaryAtHorizon(0.001).toPrecision(13), (3.9196468648042).toPrecision(13))
})

t.test('always-valid intervals and p-values agree with the equations', async (t) => {
  const [from, to] = [estimateProportion(CONTROL), estimateProportion(TREATMENT)]
  t.strictSame(rounded(confidenceSequence(differenceOf(from, to), OPTIONS)), {
    estimate: 0.016363636364,
    low: -0.03337571445,
    high: 0.066102987177,
    pValue: 1,
  })
  t.strictSame(rounded(confidenceSequence(liftOf(from, to), OPTIONS)), {
    estimate: 0.13636363636,
    low: -0.23328820381,
    high: 0.71800148656,
    pValue: 1,
  })
  const strong = estimateProportion({ persons: 1100, converted: 230 })
  t.strictSame(rounded(confidenceSequence(differenceOf(from, strong), OPTIONS)), {
    estimate: 0.089090909091,
    low: 0.034525099444,
    high: 0.14365671874,
    pValue: 4.2812634442e-5,
  })
})

t.test('a guard has the bound of the equation in both directions', async (t) => {
  const lift = liftOf(estimateProportion(CONTROL), estimateProportion(TREATMENT))
  t.strictSame(rounded(guardBound(lift, OPTIONS, { worse: 'lower', tolerance: 0.02 })), {
    estimate: 0.13636363636,
    bound: 0.65012849702,
    isWorse: false,
  })
  t.strictSame(rounded(guardBound(lift, OPTIONS, { worse: 'higher', tolerance: 0.02 })), {
    estimate: 0.13636363636,
    bound: -0.20465615792,
    isWorse: false,
  })
})

t.test('a guard reports a loss beyond the tolerance, and no gain', async (t) => {
  const control = estimateProportion({ persons: 5000, converted: 1000 })
  const half = estimateProportion({ persons: 5000, converted: 500 })
  const isWorse = (worse: 'lower' | 'higher', tolerance: number): unknown => {
    return rounded(guardBound(liftOf(control, half), OPTIONS, { worse, tolerance }))['isWorse']
  }
  t.equal(isWorse('lower', 0.02), true)
  t.equal(isWorse('lower', 0.6), false)
  t.equal(isWorse('higher', 0.02), false)
})

t.test('a ratio of sums has the variance of its linear form', async (t) => {
  // Numerators 3 0 5 2 7 1 4 4, denominators 2 1 3 1 4 1 2 3.
  const sample = {
    persons: 8,
    numeratorSum: 26,
    numeratorSquares: 120,
    denominatorSum: 17,
    denominatorSquares: 45,
    products: 72,
  }
  t.strictSame(rounded(estimateRatio(sample) ?? {}), {
    persons: 8,
    mean: 1.5294117647,
    variance: 0.15894719378,
  })
})

t.test('the period before adjusts means and variances with a pooled theta', async (t) => {
  const adjusted = adjustForBefore([
    // 3 1 4 1 5 9 2 6, before 2 1 3 2 4 7 2 5.
    { persons: 8, sum: 31, squares: 173, beforeSum: 26, beforeSquares: 112, products: 138 },
    // 5 3 5 8 9 7 9, before 3 2 3 6 6 5 8.
    { persons: 7, sum: 46, squares: 334, beforeSum: 33, beforeSquares: 183, products: 245 },
  ])
  t.match(rounded(adjusted), { theta: 1.1905071521, remainingVariance: 0.079662826439 })
  const { estimates = [] } = adjusted as { estimates?: readonly object[] }
  t.strictSame(
    estimates.map((estimate) => rounded(estimate)),
    [
      { persons: 8, mean: 4.6885132206, variance: 0.45116676374 },
      { persons: 7, mean: 5.6416991764, variance: 0.59674237338 },
    ],
  )
})

/** Persons and conversions of the control and the treatment, and the sum of Miller with 40 digits. */
const WIN_PROBABILITIES = [
  [10, 1, 10, 3, 0.8446115288220551],
  [100, 10, 100, 15, 0.8532837899339661],
  [2, 0, 2, 1, 4 / 5],
  [2, 1, 3, 3, 6 / 7],
  [1000, 100, 1000, 120, 0.9231834389735597],
  [40, 39, 60, 60, 0.8408076101727819],
  [5000, 3, 4000, 9, 0.9816426978561585],
  [10_000, 9990, 3000, 2995, 0.14220747528397037],
  [1000, 0, 1200, 5, 0.9738252481955486],
  [100, 50, 100, 50, 1 / 2],
  [20_000, 1000, 5000, 290, 0.9886814853446624],
  [200, 199, 10_000, 9960, 0.7996640354895201],
] as const

t.test('win probabilities of conversion rates are exact', async (t) => {
  const differences = new Differences()
  for (const [ofControl, a, ofTreatment, b, wanted] of WIN_PROBABILITIES) {
    const control = { persons: ofControl, converted: a }
    const treatment = { persons: ofTreatment, converted: b }
    const name = `${a} of ${ofControl}, ${b} of ${ofTreatment}`
    const found = winProbabilityOfProportions(control, treatment)
    const exact = { probability: wanted }
    differences.same(rounded(found, 13), rounded(exact, 13), name)
  }
  t.strictSame(differences.list(), [])
})

t.test('ten billion persons in each variant are still counted exactly', async (t) => {
  const persons = 10_000_000_000
  const found = winProbabilityOfProportions(
    { persons, converted: 1_000_000_000 },
    { persons, converted: 1_000_020_000 },
  )
  // The normal distribution is as good here: 0.0000020 / √(2 · 0.1 · 0.9 / 10^10) standard errors.
  t.strictSame(rounded(found, 5), { probability: 0.68132 })
})

t.test('the win probability of means is that of the normal distribution', async (t) => {
  const contrast = differenceOf(estimateProportion(CONTROL), estimateProportion(TREATMENT))
  t.strictSame(rounded(winProbabilityOfMeans(contrast)), { probability: 0.86897779039 })
})

t.test('the sample ratio is compared by chi-square', async (t) => {
  // G. Mendel's round and angular, yellow and green peas of 1866, expected as 9:3:3:1.
  const peas = [
    { persons: 315, share: 9 },
    { persons: 101, share: 3 },
    { persons: 108, share: 3 },
    { persons: 32, share: 1 },
  ]
  t.strictSame(rounded(sampleRatioTest(peas, 0.001)), {
    chiSquare: 0.47002398082,
    pValue: 0.9254258951,
    isMismatch: false,
  })
  const uneven = [
    { persons: 7000, share: 70 },
    { persons: 3300, share: 30 },
  ]
  t.strictSame(rounded(sampleRatioTest(uneven, 0.001)), {
    chiSquare: 20.388349515,
    pValue: 6.3213469782e-6,
    isMismatch: true,
  })
})

/** The example of Y. Benjamini and Y. Hochberg, 1995, section 3.1: 15 hypotheses of a medical trial. */
const TRIAL = [
  0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719,
  0.6528, 0.759, 1,
]

t.test('the corrections agree with the example of Benjamini and Hochberg', async (t) => {
  const discovered = benjaminiHochbergAdjusted(TRIAL) as readonly number[]
  t.strictSame(
    discovered.map((value) => Number(value.toPrecision(6))),
    [
      0.0015, 0.003, 0.0095, 0.035625, 0.0603, 0.0638571, 0.0638571, 0.0645, 0.0765, 0.486,
      0.581182, 0.714875, 0.753231, 0.813214, 1,
    ],
  )
  t.equal(discovered.filter((value) => value <= 0.05).length, 4, 'four, as in the paper')
  const holm = holmAdjusted(TRIAL) as readonly number[]
  t.equal(holm.filter((value) => value <= 0.05).length, 3, 'three with the stricter correction')
  t.strictSame(
    holm.slice(0, 5).map((value) => Number(value.toPrecision(6))),
    [0.0015, 0.0056, 0.0247, 0.114, 0.2211],
  )
  t.strictSame([holmAdjusted([]), benjaminiHochbergAdjusted([])], [[], []])
})

t.test('needed persons agree with a computation of high precision', async (t) => {
  const half: Design = { alpha: 0.05, power: 0.8, treatmentShare: 0.5, looks: 'fixed' }
  t.strictSame(personsForProportion(0.1, 0.1, half), { persons: 29_497 })
  const fifth: Design = { alpha: 0.05, power: 0.8, treatmentShare: 0.2, looks: 'fixed' }
  t.strictSame(personsForProportion(0.05, -0.2, fifth), { persons: 19_731 })
  const always: Design = { alpha: 0.05, power: 0.8, treatmentShare: 0.5, looks: 'always_valid' }
  t.strictSame(personsForProportion(0.1, 0.1, always), { persons: 48_265 })
  const baseline = { mean: 10, variance: 4 }
  t.strictSame(personsForMean(baseline, 0.02, half), { persons: 3140 })
  t.strictSame(rounded(detectableChange(baseline, 5000, half)), {
    difference: 0.15848159246,
    lift: 0.015848159246,
  })
})

t.test('days are counted until the last needed person', async (t) => {
  t.strictSame(daysLeft(1000, 0, 100), { days: 10 })
  t.strictSame(daysLeft(1001, 0, 100), { days: 11 })
  t.strictSame(daysLeft(1000, 999, 100), { days: 1 })
  t.strictSame(daysLeft(1000, 1000, 0), { days: 0 })
})

t.test('extreme values are replaced by the quantiles of all values', async (t) => {
  const values = Array.from({ length: 101 }, (_, index) => index)
  const bounds = winsorBounds(values, { low: 0.025, high: 0.9 })
  t.strictSame(bounds, { low: 2.5, high: 90 })
  const sample = winsorizedSample([0, 2, 3, 90, 91, 1000], { low: 2.5, high: 90 })
  t.strictSame(sample, sampleOf([2.5, 2.5, 3, 90, 90, 90]))
})
