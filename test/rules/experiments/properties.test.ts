/**
 * Tests properties that statistics have for any data: symmetry, scaling, intervals that shrink with more data, and the
 * agreement of intervals, p-values and tests.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { adjustForBefore } from '../../../src/rules/experiments/adjust-for-before.ts'
import {
  boundaryAtHorizon,
  type ConfidenceSequence,
  confidenceSequence,
  guardBound,
} from '../../../src/rules/experiments/always-valid.ts'
import {
  type Contrast,
  differenceOf,
  type Interval,
  intervalOf,
  liftOf,
} from '../../../src/rules/experiments/contrast.ts'
import {
  benjaminiHochbergAdjusted,
  holmAdjusted,
} from '../../../src/rules/experiments/corrections.ts'
import { type FixedTest, welchTest } from '../../../src/rules/experiments/fixed-horizon.ts'
import { lacksData, type NotEnoughData } from '../../../src/rules/experiments/not-enough-data.ts'
import {
  type Design,
  detectableChange,
  personsForMean,
} from '../../../src/rules/experiments/planning.ts'
import { sampleRatioTest } from '../../../src/rules/experiments/sample-ratio.ts'
import {
  estimateMean,
  estimateProportion,
  estimateRatio,
  type VariantEstimate,
} from '../../../src/rules/experiments/variant-estimate.ts'
import {
  winProbabilityOfMeans,
  winProbabilityOfProportions,
} from '../../../src/rules/experiments/win-probability.ts'
import { winsorBounds, winsorizedSample } from '../../../src/rules/experiments/winsorize.ts'
import { Differences } from '../../fixtures/differences.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const ALPHA = fc.double({ min: 0.001, max: 0.3, noNaN: true })
const HORIZON = fc.integer({ min: 100, max: 10_000_000 })
/** A mean that is many standard errors away from zero, so that a relative change has a meaning. */
const ESTIMATE: fc.Arbitrary<VariantEstimate> = fc.record({
  persons: fc.integer({ min: 100, max: 1_000_000 }),
  mean: fc.double({ min: 1, max: 100, noNaN: true }),
  variance: fc.double({ min: 0.01, max: 5, noNaN: true }),
})
const PROPORTION = fc
  .tuple(fc.integer({ min: 2, max: 5000 }), fc.double({ min: 0, max: 1, noNaN: true }))
  .map(([persons, share]) => ({ persons, converted: Math.round(persons * share) }))
const P_VALUES = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 })

/** Checks a property of random data, and lists the cases in which it does not hold. */
function check<T>(data: fc.Arbitrary<T>, property: (value: T, found: Differences) => void): string {
  const differences = new Differences()
  fc.assert(
    fc.property(data, (value) => property(value, differences)),
    runsOf(1000),
  )
  return differences.list().join('\n')
}

function answerOf<T extends object>(answer: T | NotEnoughData | undefined): T {
  if (answer === undefined || lacksData(answer)) throw new Error(JSON.stringify(answer))
  return answer
}

/** The answer of a relative change long before the horizon, when the boundary is still wide. */
const EARLY = { notEnoughData: 'zero_baseline' } as const

function isEarlyLift(
  contrast: Contrast | NotEnoughData,
  answer: ConfidenceSequence | NotEnoughData,
): answer is NotEnoughData {
  if (!lacksData(answer)) return false
  if (answerOf(contrast).scale === 'absolute') throw new Error(JSON.stringify(answer))
  return answer.notEnoughData === EARLY.notEnoughData
}

function isNear(found: number, wanted: number, error = 1e-9): boolean {
  return Math.abs(found - wanted) <= error * Math.max(1, Math.abs(wanted))
}

t.test('exchanging control and treatment mirrors the difference', async (t) => {
  const found = check(fc.tuple(ESTIMATE, ESTIMATE, ALPHA, HORIZON), (value, differences) => {
    const [from, to, alpha, horizonPersons] = value
    const options = { alpha, horizonPersons }
    const [there, back] = [differenceOf(from, to), differenceOf(to, from)]
    const one = answerOf(confidenceSequence(there, options))
    const other = answerOf(confidenceSequence(back, options))
    differences.ok(isNear(one.low, -other.high) && isNear(one.pValue, other.pValue), 'sequence')
    const [test, mirrored] = [answerOf(welchTest(there, alpha)), answerOf(welchTest(back, alpha))]
    differences.ok(isNear(test.low, -mirrored.high), 'test')
    differences.ok(isNear(test.pValue, mirrored.pValue), 'p-value of the test')
    const [wins, loses] = [winProbabilityOfMeans(there), winProbabilityOfMeans(back)].map(answerOf)
    differences.ok(isNear((wins?.probability ?? 0) + (loses?.probability ?? 0), 1), 'wins')
    const lower = answerOf(guardBound(there, options, { worse: 'lower', tolerance: 0 }))
    const higher = answerOf(guardBound(back, options, { worse: 'higher', tolerance: 0 }))
    differences.ok(isNear(lower.bound, -higher.bound), 'guard')
    differences.equal(lower.isWorse, higher.isWorse, 'verdict of the guard')
  })
  t.equal(found, '')
})

t.test('another unit of a metric scales the difference and leaves the lift', async (t) => {
  const factor = fc.double({ min: 0.001, max: 1000, noNaN: true })
  const data = fc.tuple(ESTIMATE, ESTIMATE, ALPHA, HORIZON, factor, fc.boolean())
  const found = check(data, ([from, to, alpha, horizonPersons, size, isNegative], differences) => {
    const scale = isNegative ? -size : size
    const scaled = ({ persons, mean, variance }: VariantEstimate): VariantEstimate => {
      return { persons, mean: mean * scale, variance: variance * scale * scale }
    }
    const options = { alpha, horizonPersons }
    const one = answerOf(confidenceSequence(differenceOf(from, to), options))
    const other = answerOf(confidenceSequence(differenceOf(scaled(from), scaled(to)), options))
    const end = isNegative ? one.high : one.low
    differences.ok(isNear(other.low / scale, end), 'difference')
    differences.ok(isNear(other.pValue, one.pValue, 1e-6), 'p-value')
    const lift = confidenceSequence(liftOf(from, to), options)
    const ofScaled = confidenceSequence(liftOf(scaled(from), scaled(to)), options)
    if (lacksData(lift) || lacksData(ofScaled)) {
      differences.same([lift, ofScaled], [EARLY, EARLY], 'both come too early')
      return
    }
    // A loss of a negative mean is a larger loss.
    differences.ok(isNear(ofScaled.low, isNegative ? -lift.high : lift.low), 'lift')
  })
  t.equal(found, '')
})

t.test('the always-valid interval contains the one for a single look', async (t) => {
  const found = check(fc.tuple(ESTIMATE, ESTIMATE, ALPHA, HORIZON), (value, differences) => {
    const [from, to, alpha, horizonPersons] = value
    for (const contrast of [differenceOf(from, to), liftOf(from, to)]) {
      const always = confidenceSequence(contrast, { alpha, horizonPersons })
      if (isEarlyLift(contrast, always)) continue
      const single = answerOf(welchTest(contrast, alpha))
      differences.ok(always.low < single.low && single.high < always.high, 'interval')
      // Far out, the tails of Student's t are heavier than those of the normal distribution.
      const isUsual = single.pValue > 1e-6
      differences.ok(!isUsual || always.pValue >= single.pValue, 'p-value')
      // The boundary at the horizon exceeds the smallest one by less than 0.002 %.
      const smallest = boundaryAtHorizon(alpha) / 1.00002
      const narrowest = answerOf(intervalOf(answerOf(contrast), smallest))
      differences.ok(always.low <= narrowest.low + 1e-9, 'narrowest at the horizon')
    }
  })
  t.equal(found, '')
})

t.test('an interval excludes zero exactly if its p-value is at most alpha', async (t) => {
  const found = check(fc.tuple(ESTIMATE, ESTIMATE, ALPHA, HORIZON), (value, differences) => {
    const [from, to, alpha, horizonPersons] = value
    const isOutside = ({ low, high }: ConfidenceSequence | FixedTest): boolean =>
      low > 0 || high < 0
    for (const contrast of [differenceOf(from, to), liftOf(from, to)]) {
      const always = confidenceSequence(contrast, { alpha, horizonPersons })
      if (isEarlyLift(contrast, always)) continue
      differences.equal(isOutside(always), always.pValue < alpha, 'always valid')
      const single = answerOf(welchTest(contrast, alpha))
      differences.equal(isOutside(single), single.pValue < alpha, 'single look')
    }
  })
  t.equal(found, '')
})

t.test(
  'a relative change is found if the difference is, and is close to that of the delta method',
  async (t) => {
    const boundary = fc.double({ min: 1, max: 4, noNaN: true })
    const found = check(fc.tuple(ESTIMATE, ESTIMATE, boundary), (value, differences) => {
      const [from, to, standardErrors] = value
      const isOutside = ({ low, high }: Interval): boolean => low > 0 || high < 0
      const lift = answerOf(liftOf(from, to))
      const relative = answerOf(intervalOf(lift, standardErrors))
      const absolute = answerOf(intervalOf(answerOf(differenceOf(from, to)), standardErrors))
      differences.equal(isOutside(relative), isOutside(absolute), 'difference')
      // A. Deng, U. Knoblich and J. Lu, 2018, section 2.2.
      const ratio = to.mean / from.mean
      const [a, b] = [from.variance / from.persons, to.variance / to.persons]
      const squaredError = (b + ratio * ratio * a) / (from.mean * from.mean)
      const ofDelta = lift.estimate + standardErrors * Math.sqrt(squaredError)
      const distance = (relative.high - ofDelta) / (ofDelta - lift.estimate)
      const ofControl = Math.sqrt(a) / from.mean
      differences.ok(Math.abs(distance) <= 10 * standardErrors * ofControl, 'delta method')
    })
    t.equal(found, '')
  },
)

t.test('with more persons and the same means, intervals shrink', async (t) => {
  const more = fc.integer({ min: 2, max: 50 })
  const found = check(fc.tuple(ESTIMATE, ESTIMATE, ALPHA, HORIZON, more), (value, differences) => {
    const [from, to, alpha, horizonPersons, times] = value
    const grown = (of: VariantEstimate): VariantEstimate => {
      return { persons: of.persons * times, mean: of.mean, variance: of.variance }
    }
    const options = { alpha, horizonPersons }
    const widthOf = (a: VariantEstimate, b: VariantEstimate): number => {
      const { low, high } = answerOf(confidenceSequence(differenceOf(a, b), options))
      return high - low
    }
    differences.ok(widthOf(grown(from), grown(to)) < widthOf(from, to), 'width')
    const boundOf = (a: VariantEstimate, b: VariantEstimate): number => {
      const contrast = differenceOf(a, b)
      const { bound } = answerOf(guardBound(contrast, options, { worse: 'lower', tolerance: 0 }))
      return bound - (b.mean - a.mean)
    }
    differences.ok(boundOf(grown(from), grown(to)) < boundOf(from, to), 'distance of the bound')
  })
  t.equal(found, '')
})

t.test('a smaller alpha widens intervals and leaves the estimate', async (t) => {
  const found = check(fc.tuple(ESTIMATE, ESTIMATE, ALPHA, HORIZON), (value, differences) => {
    const [from, to, alpha, horizonPersons] = value
    const contrast = differenceOf(from, to)
    const usual = answerOf(confidenceSequence(contrast, { alpha, horizonPersons }))
    const strict = answerOf(confidenceSequence(contrast, { alpha: alpha / 2, horizonPersons }))
    // Rho depends on alpha, too, so only the boundary at the horizon is always wider.
    differences.ok(boundaryAtHorizon(alpha / 2) > boundaryAtHorizon(alpha), 'boundary')
    differences.equal(usual.estimate, strict.estimate, 'estimate')
    const [test, strictTest] = [
      answerOf(welchTest(contrast, alpha)),
      answerOf(welchTest(contrast, alpha / 2)),
    ]
    differences.ok(strictTest.low < test.low, 'single look')
  })
  t.equal(found, '')
})

t.test('win probabilities of both variants add up to one, and grow with conversions', async (t) => {
  const found = check(fc.tuple(PROPORTION, PROPORTION), ([control, treatment], differences) => {
    const wins = winProbabilityOfProportions(control, treatment)
    const loses = winProbabilityOfProportions(treatment, control)
    if (lacksData(wins) || lacksData(loses)) {
      differences.same(wins, loses, 'reason')
      return
    }
    differences.ok(isNear(wins.probability + loses.probability, 1, 1e-12), 'sum')
    differences.ok(wins.probability >= 0 && wins.probability <= 1 + 1e-12, 'range')
    const mirrored = winProbabilityOfProportions(
      { persons: control.persons, converted: control.persons - control.converted },
      { persons: treatment.persons, converted: treatment.persons - treatment.converted },
    )
    differences.ok(isNear(answerOf(mirrored).probability, loses.probability, 1e-11), 'mirrored')
    if (treatment.converted === treatment.persons) return
    const more = { persons: treatment.persons, converted: treatment.converted + 1 }
    const better = winProbabilityOfProportions(control, more)
    if (lacksData(better)) return
    differences.ok(better.probability >= wins.probability - 1e-12, 'one more conversion')
  })
  t.equal(found, '')
})

t.test(
  'a proportion is the mean of zeros and ones, and a ratio with one each is a mean',
  async (t) => {
    const found = check(PROPORTION, ({ persons, converted }, differences) => {
      const proportion = estimateProportion({ persons, converted })
      const mean = estimateMean({ persons, sum: converted, squares: converted })
      const ratio = estimateRatio({
        persons,
        numeratorSum: converted,
        numeratorSquares: converted,
        denominatorSum: persons,
        denominatorSquares: persons,
        products: converted,
      })
      if (proportion === undefined || lacksData(proportion)) {
        differences.same([mean, ratio], [proportion, proportion], 'reason')
        return
      }
      for (const other of [answerOf(mean), answerOf(ratio)]) {
        differences.ok(isNear(other.mean, proportion.mean), 'mean')
        differences.ok(isNear(other.variance, proportion.variance), 'variance')
      }
    })
    t.equal(found, '')
  },
)

t.test('the order of variants does not change the sample ratio', async (t) => {
  const variant = fc.record({
    persons: fc.integer({ min: 0, max: 100_000 }),
    share: fc.integer({ min: 1, max: 50 }),
  })
  const found = check(
    fc.array(variant, { minLength: 2, maxLength: 8 }),
    (variants, differences) => {
      const one = sampleRatioTest(variants, 0.001)
      const other = sampleRatioTest([...variants].reverse(), 0.001)
      if (lacksData(one) || lacksData(other)) {
        differences.same(one, other, 'reason')
        return
      }
      differences.ok(isNear(one.pValue, other.pValue, 1e-12), 'p-value')
      const percent = variants.map(({ persons, share }) => ({ persons, share: share / 7 }))
      const scaled = answerOf(sampleRatioTest(percent, 0.001))
      differences.ok(isNear(scaled.chiSquare, one.chiSquare), 'unit of the shares')
    },
  )
  t.equal(found, '')
})

t.test(
  'corrections keep the order, and Holm is between no correction and Bonferroni',
  async (t) => {
    const found = check(P_VALUES, (pValues, differences) => {
      const holm = holmAdjusted(pValues) as readonly number[]
      const discovered = benjaminiHochbergAdjusted(pValues) as readonly number[]
      for (const [index, pValue] of pValues.entries()) {
        const [ofHolm = 0, ofDiscovery = 0] = [holm[index], discovered[index]]
        differences.ok(pValue <= ofDiscovery + 1e-15 && ofDiscovery <= ofHolm + 1e-15, 'order')
        differences.ok(ofHolm <= Math.min(1, pValue * pValues.length) + 1e-15, 'Bonferroni')
        for (const [other, otherP] of pValues.entries()) {
          if (otherP < pValue) differences.ok((holm[other] ?? 0) <= ofHolm, 'monotone')
          if (otherP < pValue) differences.ok((discovered[other] ?? 0) <= ofDiscovery, 'monotone')
        }
      }
      differences.same(holmAdjusted([...pValues].reverse()), [...holm].reverse(), 'relabeled')
    })
    t.equal(found, '')
  },
)

t.test('the planned size detects the planned change, and more persons a smaller one', async (t) => {
  const share = fc.double({ min: 0.05, max: 0.95, noNaN: true })
  const power = fc.double({ min: 0.5, max: 0.99, noNaN: true })
  const lift = fc.double({ min: 0.01, max: 0.5, noNaN: true })
  const looks = fc.constantFrom('fixed', 'always_valid')
  const data = fc.tuple(ESTIMATE, ALPHA, power, share, lift, looks)
  const found = check(
    data,
    ([{ mean, variance }, alpha, ofPower, treatmentShare, change, of], all) => {
      const design: Design = { alpha, power: ofPower, treatmentShare, looks: of as Design['looks'] }
      const { persons } = answerOf(personsForMean({ mean, variance }, change, design))
      if (persons < 2) return
      const detected = answerOf(detectableChange({ mean, variance }, persons, design))
      all.ok(detected.lift <= change * (1 + 1e-9), 'enough persons')
      if (persons < 3) return
      const fewer = answerOf(detectableChange({ mean, variance }, persons - 1, design))
      all.ok(fewer.lift > change * (1 - 1e-9), 'not too many persons')
      const single: Design = { alpha, power: ofPower, treatmentShare, looks: 'fixed' }
      const { persons: fewest } = answerOf(personsForMean({ mean, variance }, change, single))
      all.ok(fewest <= persons, 'always-valid looks need more')
    },
  )
  t.equal(found, '')
})

t.test('an unrelated period before changes little, and a constant one adds nothing', async (t) => {
  const value = fc.tuple(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 20 }))
  const values = fc.array(value, { minLength: 5, maxLength: 40 })
  const found = check(fc.tuple(values, values), (variants, differences) => {
    const samples = variants.map((pairs) => ({
      persons: pairs.length,
      sum: pairs.reduce((sum, [now]) => sum + now, 0),
      squares: pairs.reduce((sum, [now]) => sum + now * now, 0),
      beforeSum: pairs.reduce((sum, [, before]) => sum + before, 0),
      beforeSquares: pairs.reduce((sum, [, before]) => sum + before * before, 0),
      products: pairs.reduce((sum, [now, before]) => sum + now * before, 0),
    }))
    const adjusted = adjustForBefore(samples)
    const reversed = adjustForBefore([...samples].reverse())
    if (lacksData(adjusted) || lacksData(reversed)) {
      differences.ok(lacksData(adjusted) && lacksData(reversed), 'both orders lack data')
      return
    }
    differences.ok(adjusted.remainingVariance <= 1 + 1e-9, 'never more variance')
    differences.ok(isNear(adjusted.theta, reversed.theta), 'relabeled')
    // The weighted mean of all variants stays what it was.
    const total = (of: readonly VariantEstimate[]): number =>
      of.reduce((sum, { persons, mean }) => sum + persons * mean, 0)
    const before = samples.reduce((sum, of) => sum + of.sum, 0)
    differences.ok(isNear(total(adjusted.estimates), before), 'mean of all')
  })
  t.equal(found, '')
})

t.test('winsorized values keep their order and stay within the bounds', async (t) => {
  const values = fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), {
    minLength: 2,
    maxLength: 50,
  })
  const shares = fc.tuple(
    fc.double({ min: 0, max: 0.4, noNaN: true }),
    fc.double({ min: 0.6, max: 1, noNaN: true }),
  )
  const found = check(fc.tuple(values, shares), ([all, [low, high]], differences) => {
    const bounds = answerOf(winsorBounds(all, { low, high }))
    differences.ok(Math.min(...all) <= bounds.low && bounds.low <= bounds.high, 'low')
    differences.ok(bounds.high <= Math.max(...all), 'high')
    const { persons, sum } = answerOf(winsorizedSample(all, bounds))
    differences.equal(persons, all.length, 'persons')
    differences.ok(sum >= persons * bounds.low - 1e-3 && sum <= persons * bounds.high + 1e-3, 'sum')
    const whole = answerOf(winsorBounds(all, { low: 0, high: 1 }))
    differences.same(whole, { low: Math.min(...all), high: Math.max(...all) }, 'all values')
  })
  t.equal(found, '')
})
