/**
 * Tests that no statistic returns NaN, an infinite number or a number without meaning. If a statistic has no value, the
 * result says why.
 *
 * @lane quick
 */
import t from 'tap'
import { adjustForBefore } from '../../../src/rules/experiments/adjust-for-before.ts'
import { confidenceSequence, guardBound } from '../../../src/rules/experiments/always-valid.ts'
import { type Contrast, differenceOf, liftOf } from '../../../src/rules/experiments/contrast.ts'
import {
  benjaminiHochbergAdjusted,
  holmAdjusted,
} from '../../../src/rules/experiments/corrections.ts'
import { twoProportionTest, welchTest } from '../../../src/rules/experiments/fixed-horizon.ts'
import { notEnough } from '../../../src/rules/experiments/not-enough-data.ts'
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
} from '../../../src/rules/experiments/variant-estimate.ts'
import {
  winProbabilityOfMeans,
  winProbabilityOfProportions,
} from '../../../src/rules/experiments/win-probability.ts'
import { winsorBounds, winsorizedSample } from '../../../src/rules/experiments/winsorize.ts'
import { Differences } from '../../fixtures/differences.ts'

const ODD_NUMBERS = [
  0,
  -0,
  1,
  -1,
  2,
  0.5,
  -1e308,
  1e308,
  5e-324,
  1e-200,
  1e200,
  2 ** 53,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
]

const ESTIMATE = { persons: 100, mean: 10, variance: 4 }
const CONTRAST = differenceOf(ESTIMATE, { persons: 100, mean: 11, variance: 4 }) as Contrast
const OPTIONS = { alpha: 0.05, horizonPersons: 1000 }
const GUARD = { worse: 'lower', tolerance: 0.02 } as const
const DESIGN: Design = { alpha: 0.05, power: 0.8, treatmentShare: 0.5, looks: 'fixed' }
const PROPORTION = { persons: 100, converted: 10 }
const MEAN = { persons: 10, sum: 30, squares: 173 }
const RATIO = {
  persons: 8,
  numeratorSum: 26,
  numeratorSquares: 120,
  denominatorSum: 17,
  denominatorSquares: 45,
  products: 72,
}
const BEFORE = {
  persons: 8,
  sum: 31,
  squares: 173,
  beforeSum: 26,
  beforeSquares: 112,
  products: 138,
}

/** Calls a function with each member of an object replaced by each odd number. */
function* replacing<T extends object>(valid: T): Generator<readonly [T, string]> {
  for (const key of Object.keys(valid)) {
    if (typeof (valid as Record<string, unknown>)[key] !== 'number') continue
    for (const number of ODD_NUMBERS) {
      yield [{ ...valid, [key]: number }, `${key} ${number}`]
    }
  }
}

/** Returns true if all numbers of an answer are finite. */
function isFiniteAnswer(answer: unknown): boolean {
  if (typeof answer === 'number') return Number.isFinite(answer)
  if (typeof answer !== 'object' || answer === null) return true
  return Object.values(answer).every(isFiniteAnswer)
}

t.test('no odd number leads to NaN or to an infinite number', async (t) => {
  const differences = new Differences()
  const see = (answer: unknown, name: string): void => {
    differences.ok(isFiniteAnswer(answer), `${name}: ${JSON.stringify(answer)}`)
  }
  const seeInferences = (contrast: ReturnType<typeof differenceOf>, name: string): void => {
    see(confidenceSequence(contrast, OPTIONS), `sequence ${name}`)
    see(guardBound(contrast, OPTIONS, GUARD), `guard ${name}`)
    see(welchTest(contrast, 0.05), `Welch ${name}`)
    see(winProbabilityOfMeans(contrast), `win ${name}`)
  }
  const seeContrast = (contrast: ReturnType<typeof differenceOf>, name: string): void => {
    see(contrast, name)
    seeInferences(contrast, name)
  }
  for (const [estimate, name] of replacing(ESTIMATE)) {
    seeContrast(differenceOf(estimate, ESTIMATE), `difference from ${name}`)
    seeContrast(differenceOf(ESTIMATE, estimate), `difference to ${name}`)
    seeContrast(liftOf(estimate, ESTIMATE), `lift from ${name}`)
    seeContrast(liftOf(ESTIMATE, estimate), `lift to ${name}`)
  }
  for (const [contrast, name] of replacing(CONTRAST)) seeInferences(contrast, `contrast ${name}`)
  for (const [options, name] of replacing(OPTIONS)) {
    see(confidenceSequence(CONTRAST, options), `sequence ${name}`)
    see(guardBound(CONTRAST, options, GUARD), `guard ${name}`)
    see(welchTest(CONTRAST, options.alpha), `Welch ${name}`)
    see(twoProportionTest(PROPORTION, PROPORTION, options.alpha), `proportions ${name}`)
  }
  for (const [guard, name] of replacing(GUARD)) see(guardBound(CONTRAST, OPTIONS, guard), name)
  for (const [sample, name] of replacing(PROPORTION)) {
    see(estimateProportion(sample), `proportion ${name}`)
    see(twoProportionTest(sample, PROPORTION, 0.05), `test from ${name}`)
    see(twoProportionTest(PROPORTION, sample, 0.05), `test to ${name}`)
    see(winProbabilityOfProportions(sample, PROPORTION), `win from ${name}`)
    see(winProbabilityOfProportions(PROPORTION, sample), `win to ${name}`)
    const variant = { persons: sample.persons, share: 1 }
    see(sampleRatioTest([variant, { persons: 50, share: 1 }], 0.001), `ratio ${name}`)
  }
  for (const [sample, name] of replacing(MEAN)) see(estimateMean(sample), `mean ${name}`)
  for (const [sample, name] of replacing(RATIO)) see(estimateRatio(sample), `ratio ${name}`)
  for (const [sample, name] of replacing(BEFORE)) see(adjustForBefore([sample, BEFORE]), name)
  for (const [variant, name] of replacing({ persons: 50, share: 1 })) {
    see(sampleRatioTest([variant, { persons: 50, share: 1 }], 0.001), `share ${name}`)
  }
  for (const looks of ['fixed', 'always_valid'] as const) {
    for (const [design, name] of replacing({ ...DESIGN, looks })) {
      see(personsForProportion(0.1, 0.1, design), `proportion, ${name}`)
      see(personsForMean(ESTIMATE, 0.1, design), `mean, ${name}`)
      see(detectableChange(ESTIMATE, 1000, design), `change, ${name}`)
    }
  }
  for (const number of ODD_NUMBERS) {
    see(sampleRatioTest([{ persons: 50, share: 1 }], number), `alpha ${number}`)
    see(personsForProportion(number, 0.1, DESIGN), `rate ${number}`)
    see(personsForProportion(0.1, number, DESIGN), `lift ${number}`)
    see(personsForMean({ mean: number, variance: 1 }, 0.1, DESIGN), `mean ${number}`)
    see(personsForMean({ mean: 1, variance: number }, 0.1, DESIGN), `variance ${number}`)
    see(personsForMean(ESTIMATE, number, DESIGN), `lift of a mean ${number}`)
    see(detectableChange({ mean: number, variance: 1 }, 1000, DESIGN), `mean ${number}`)
    see(detectableChange(ESTIMATE, number, DESIGN), `persons ${number}`)
    see(daysLeft(number, 10, 10), `needed ${number}`)
    see(daysLeft(100, number, 10), `exposed ${number}`)
    see(daysLeft(100, 10, number), `each day ${number}`)
    see(holmAdjusted([0.1, number]), `Holm ${number}`)
    see(benjaminiHochbergAdjusted([number, 0.1]), `discovery ${number}`)
    see(winsorBounds([1, number], { low: 0, high: 1 }), `value ${number}`)
    see(winsorBounds([1, 2], { low: number, high: 1 }), `low ${number}`)
    see(winsorBounds([1, 2], { low: 0, high: number }), `high ${number}`)
    see(winsorizedSample([1, number], { low: 0, high: 9 }), `winsorized ${number}`)
    see(winsorizedSample([1, 2], { low: number, high: number }), `bounds ${number}`)
  }
  t.strictSame(differences.list(), [])
})

t.test('a missing variant is named, and the reason passes through all steps', async (t) => {
  const missing = notEnough('missing_variant')
  t.strictSame(estimateProportion(undefined), missing)
  t.strictSame(estimateMean(undefined), missing)
  t.strictSame(estimateRatio(undefined), missing)
  t.strictSame(differenceOf(undefined, ESTIMATE), missing)
  t.strictSame(liftOf(ESTIMATE, undefined), missing)
  t.strictSame(twoProportionTest(undefined, PROPORTION, 0.05), missing)
  t.strictSame(winProbabilityOfProportions(PROPORTION, undefined), missing)
  t.strictSame(adjustForBefore([BEFORE, undefined]), missing)
  t.strictSame(adjustForBefore([BEFORE]), missing)
  t.strictSame(sampleRatioTest([{ persons: 10, share: 1 }], 0.001), missing)
  t.strictSame(confidenceSequence(missing, OPTIONS), missing)
  t.strictSame(guardBound(missing, OPTIONS, GUARD), missing)
  t.strictSame(welchTest(missing, 0.05), missing)
  t.strictSame(winProbabilityOfMeans(missing), missing)
  t.strictSame(differenceOf(estimateMean(undefined), ESTIMATE), missing)
})

t.test('nobody and one person have no statistics', async (t) => {
  for (const [persons, reason] of [
    [0, 'no_exposures'],
    [1, 'one_person'],
  ] as const) {
    const wanted = notEnough(reason)
    const proportion = { persons, converted: persons }
    t.strictSame(estimateProportion(proportion), wanted)
    t.strictSame(estimateMean({ persons, sum: persons, squares: persons }), wanted)
    t.strictSame(estimateRatio({ ...RATIO, persons }), wanted)
    t.strictSame(adjustForBefore([BEFORE, { ...BEFORE, persons }]), wanted)
    t.strictSame(differenceOf(ESTIMATE, { persons, mean: 1, variance: 1 }), wanted)
    t.strictSame(twoProportionTest(PROPORTION, proportion, 0.05), wanted)
    t.strictSame(winProbabilityOfProportions(proportion, PROPORTION), wanted)
    t.strictSame(detectableChange(ESTIMATE, persons, DESIGN), wanted)
    const variants = [
      { persons, share: 1 },
      { persons: 0, share: 1 },
    ]
    t.strictSame(sampleRatioTest(variants, 0.001), wanted)
    t.strictSame(winsorBounds(persons === 0 ? [] : [1], { low: 0, high: 1 }), wanted)
  }
  t.strictSame(daysLeft(100, 10, 0), notEnough('no_exposures'))
})

t.test('equal values have no variance, also if the sums are rounded', async (t) => {
  const none = notEnough('no_variance')
  t.strictSame(estimateProportion({ persons: 10, converted: 0 }), none)
  t.strictSame(estimateProportion({ persons: 10, converted: 10 }), none)
  let [sum, squares] = [0, 0]
  for (let person = 0; person < 1000; person++) {
    sum += 0.1
    squares += 0.1 * 0.1
  }
  t.strictSame(estimateMean({ persons: 1000, sum, squares }), none)
  t.strictSame(estimateMean({ persons: 10, sum: 0, squares: 0 }), none)
  t.strictSame(differenceOf(ESTIMATE, { persons: 10, mean: 1, variance: 0 }), none)
  const nobody = { persons: 10, converted: 0 }
  t.strictSame(twoProportionTest(nobody, nobody, 0.05), none)
  t.strictSame(winProbabilityOfProportions(nobody, nobody), none)
  t.strictSame(personsForMean({ mean: 1, variance: 0 }, 0.1, DESIGN), none)
  // Each person has the same clicks per session.
  const equal = { ...RATIO, numeratorSum: 34, numeratorSquares: 180, products: 90 }
  t.strictSame(estimateRatio(equal), none)
  // The period before predicts the experiment exactly.
  const copied = { ...BEFORE, sum: 26, squares: 112, products: 112 }
  t.strictSame(adjustForBefore([copied, copied]), none)
  t.strictSame(
    adjustForBefore([{ ...BEFORE, beforeSum: 0, beforeSquares: 0, products: 0 }, BEFORE]),
    none,
  )
})

t.test('a control near zero has no relative change', async (t) => {
  const zero = notEnough('zero_baseline')
  t.strictSame(liftOf({ persons: 100, mean: 0, variance: 1 }, ESTIMATE), zero)
  // The mean of the control is 3 standard errors away from zero. The boundary of the sequence is wider than that.
  const close = liftOf({ persons: 100, mean: 0.3, variance: 1 }, ESTIMATE)
  t.strictSame(confidenceSequence(close, OPTIONS), zero)
  t.strictSame(guardBound(close, OPTIONS, GUARD), zero)
  t.match(welchTest(close, 0.05), { estimate: 32.333333333333336 })
  t.strictSame(welchTest(close, 0.001), zero)
  t.strictSame(personsForMean({ mean: 0, variance: 1 }, 0.1, DESIGN), zero)
  t.strictSame(detectableChange({ mean: 0, variance: 1 }, 100, DESIGN), zero)
  t.strictSame(estimateRatio({ ...RATIO, denominatorSum: 0 }), zero)
})

t.test('counts and sums that contradict each other are refused', async (t) => {
  const invalid = notEnough('invalid_input')
  t.strictSame(estimateProportion({ persons: 10, converted: 11 }), invalid)
  t.strictSame(estimateProportion({ persons: 10.5, converted: 1 }), invalid)
  t.strictSame(estimateProportion({ persons: 1e11, converted: 1 }), invalid)
  t.strictSame(estimateMean({ persons: 10, sum: 100, squares: 10 }), invalid)
  t.strictSame(estimateMean({ persons: 10, sum: 0, squares: -1 }), invalid)
  t.strictSame(estimateRatio({ ...RATIO, products: 1000 }), invalid)
  t.strictSame(adjustForBefore([BEFORE, { ...BEFORE, products: 1000 }]), invalid)
  t.strictSame(winsorBounds([1, 2], { low: 0.9, high: 0.1 }), invalid)
  t.strictSame(personsForProportion(0.6, 1, DESIGN), invalid, 'no rate is above 1')
  t.strictSame(personsForProportion(0.1, 0, DESIGN), invalid, 'no size finds no change')
  const many = Array.from({ length: 101 }, () => ({ persons: 100, share: 1 }))
  t.strictSame(sampleRatioTest(many, 0.001), invalid)
})

t.test('too few expected persons have no sample ratio', async (t) => {
  const variants = [
    { persons: 100, share: 99 },
    { persons: 4, share: 1 },
  ]
  t.strictSame(sampleRatioTest(variants, 0.001), notEnough('too_few_persons'))
})
