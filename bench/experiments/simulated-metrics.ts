/** The metrics of simulated experiments: how the values of a person are drawn, and how their sums are estimated. */
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

/** A metric with its traffic. */
export interface SimulatedMetric {
  readonly name: string
  readonly treatmentShare: number
  readonly isProportion: boolean
  /** Draws one person. `factor` multiplies the mean of the value. */
  draw(random: Random, factor: number, into: Sums): void
  estimates(control: Sums, treatment: Sums): readonly [MaybeEstimate, MaybeEstimate]
  /** The test for a single look. */
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

/** What all metrics of means have in common. */
const OF_MEANS = {
  isProportion: false,
  estimates(control: Sums, treatment: Sums) {
    return [estimateMean(control), estimateMean(treatment)] as const
  },
  fixedTest(control: Sums, treatment: Sums, alpha: number) {
    return welchTest(differenceOf(estimateMean(control), estimateMean(treatment)), alpha)
  },
}

/** Minutes of use: exponential. */
export const MINUTES: SimulatedMetric = {
  ...OF_MEANS,
  name: 'minutes per person, 50:50',
  treatmentShare: 0.5,
  draw(random, factor, into) {
    into.add(random.exponential() * factor, 0)
  },
}

const BUYERS = 0.2

/** Draws the revenue of a person: most buy nothing, and the logarithm of the others' revenue is normal. */
export function drawRevenue(random: Random): number {
  return random.uniform() < BUYERS ? Math.exp(random.normal()) : 0
}

/** Revenue: skewed, with a skewness of about 14 and mostly zeros. */
export const REVENUE: SimulatedMetric = {
  ...OF_MEANS,
  name: 'revenue per person (skewed), 70:30',
  treatmentShare: 0.3,
  draw(random, factor, into) {
    into.add(drawRevenue(random) * factor, 0)
  },
}

/** The variances of the logarithm that a person keeps, and that each period adds. */
const KEPT = 0.64
const ADDED = 0.16

/** Usage that resembles that of the period before, estimated with this period. */
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

/** Clicks of all sessions of a person, divided by the sessions. */
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
