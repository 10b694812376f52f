/**
 * The metrics of simulated experiments. Each metric draws the values of a person, and estimates its mean from their
 * sums.
 */
import { adjustForBefore } from '../../src/rules/experiments/adjust-for-before.ts'
import { differenceOf } from '../../src/rules/experiments/contrast.ts'
import {
  type FixedTest,
  twoProportionTest,
  welchTest,
} from '../../src/rules/experiments/fixed-horizon.ts'
import { lacksData, type NotEnoughData } from '../../src/rules/experiments/not-enough-data.ts'
import {
  estimateMean,
  estimateProportion,
  estimateRatio,
  type MaybeEstimate,
} from '../../src/rules/experiments/variant-estimate.ts'
import type { Random } from './random.ts'

/** The sums of one variant. `other` is the value before the experiment, or the denominator of a ratio. */
export class Sums {
  persons = 0
  sum = 0
  squares = 0
  otherSum = 0
  otherSquares = 0
  products = 0

  add(value: number, other: number): void {
    this.persons++
    this.sum += value
    this.squares += value * value
    this.otherSum += other
    this.otherSquares += other * other
    this.products += value * other
  }
}

/** A metric, and how its persons behave. */
export interface SimulatedMetric {
  readonly name: string
  readonly treatmentShare: number
  readonly isProportion: boolean
  /** Draws one person. `factor` multiplies the mean of the value. */
  draw(random: Random, factor: number, into: Sums): void
  estimates(control: Sums, treatment: Sums): readonly [MaybeEstimate, MaybeEstimate]
  /** Runs the test for a single look. */
  fixedTest(control: Sums, treatment: Sums, alpha: number): FixedTest | NotEnoughData
}

/** Returns a metric that counts persons who convert. */
export function conversionMetric(rate: number, treatmentShare: number): SimulatedMetric {
  const percent = `${rate * 100} %`
  return {
    name: `conversion rate ${percent}, ${sharesOf(treatmentShare)}`,
    treatmentShare,
    isProportion: true,
    draw(random, factor, into) {
      into.add(random.uniform() < rate * factor ? 1 : 0, 0)
    },
    estimates(control, treatment) {
      return [estimateProportion(converted(control)), estimateProportion(converted(treatment))]
    },
    fixedTest(control, treatment, alpha) {
      return twoProportionTest(converted(control), converted(treatment), alpha)
    },
  }
}

/** Returns the counts of a conversion metric. */
export function converted({ persons, sum }: Sums): { persons: number; converted: number } {
  return { persons, converted: sum }
}

function sharesOf(treatmentShare: number): string {
  const treated = Math.round(treatmentShare * 100)
  return `${100 - treated}:${treated}`
}

/** The parts that all metrics of means share. */
const OF_MEANS = {
  isProportion: false,
  estimates(control: Sums, treatment: Sums) {
    return [estimateMean(control), estimateMean(treatment)] as const
  },
  fixedTest(control: Sums, treatment: Sums, alpha: number) {
    return welchTest(differenceOf(estimateMean(control), estimateMean(treatment)), alpha)
  },
}

/** Minutes of use, with an exponential distribution. */
export const MINUTES: SimulatedMetric = {
  ...OF_MEANS,
  name: 'minutes per person, 50:50',
  treatmentShare: 0.5,
  draw(random, factor, into) {
    into.add(random.exponential() * factor, 0)
  },
}

const BUYERS = 0.2

/**
 * Draws the revenue of a person. Most persons buy nothing. The revenue of the others has a logarithm with a normal
 * distribution.
 */
export function drawRevenue(random: Random): number {
  return random.uniform() < BUYERS ? Math.exp(random.normal()) : 0
}

/** Revenue: most values are zero, and the distribution has a skewness of about 14. */
export const REVENUE: SimulatedMetric = {
  ...OF_MEANS,
  name: 'revenue per person (skewed), 70:30',
  treatmentShare: 0.3,
  draw(random, factor, into) {
    into.add(drawRevenue(random) * factor, 0)
  },
}

/**
 * The logarithm of a value is the sum of two parts: one that a person keeps, and one that differs between periods.
 * These are their variances.
 */
const KEPT = 0.64
const ADDED = 0.16

/** Usage that resembles the usage in the period before. The estimate uses that period (CUPED). */
export const ADJUSTED: SimulatedMetric = {
  name: 'usage with the period before (CUPED), 60:40',
  treatmentShare: 0.4,
  isProportion: false,
  draw(random, factor, into) {
    const person = random.normal() * Math.sqrt(KEPT)
    const now = Math.exp(person + random.normal() * Math.sqrt(ADDED))
    const before = Math.exp(person + random.normal() * Math.sqrt(ADDED))
    into.add(now * factor, before)
  },
  estimates: adjustedEstimates,
  fixedTest(control, treatment, alpha) {
    return welchTest(differenceOf(...adjustedEstimates(control, treatment)), alpha)
  },
}

function adjustedEstimates(
  control: Sums,
  treatment: Sums,
): readonly [MaybeEstimate, MaybeEstimate] {
  const [from, to] = [control, treatment].map((sums) => {
    const { persons, sum, squares, otherSum, otherSquares, products } = sums
    return { persons, sum, squares, beforeSum: otherSum, beforeSquares: otherSquares, products }
  })
  const adjusted = adjustForBefore([from, to])
  if (lacksData(adjusted)) return [adjusted, adjusted]
  return [adjusted.estimates[0], adjusted.estimates[1]]
}

/** The clicks in all sessions of a person, divided by the number of sessions. */
export const CLICKS: SimulatedMetric = {
  name: 'clicks per session (ratio of sums), 50:50',
  treatmentShare: 0.5,
  isProportion: false,
  draw(random, factor, into) {
    const sessions = 1 + Math.floor(2 * random.exponential())
    const probability = random.uniform() * 0.5 * factor
    let clicks = 0
    for (let session = 0; session < sessions; session++) {
      if (random.uniform() < probability) clicks++
    }
    into.add(clicks, sessions)
  },
  estimates: ratioEstimates,
  fixedTest(control, treatment, alpha) {
    return welchTest(differenceOf(...ratioEstimates(control, treatment)), alpha)
  },
}

function ratioEstimates(control: Sums, treatment: Sums): readonly [MaybeEstimate, MaybeEstimate] {
  const [from, to] = [control, treatment].map((sums) => ({
    persons: sums.persons,
    numeratorSum: sums.sum,
    numeratorSquares: sums.squares,
    denominatorSum: sums.otherSum,
    denominatorSquares: sums.otherSquares,
    products: sums.products,
  }))
  return [estimateRatio(from), estimateRatio(to)]
}
