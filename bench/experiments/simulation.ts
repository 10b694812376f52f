/** Simulates many experiments with one metric, each with many looks, and counts what each method says. */
import {
  type AlwaysValidOptions,
  confidenceSequence,
  guardBound,
} from '../../src/rules/experiments/always-valid.ts'
import { type Contrast, differenceOf, liftOf } from '../../src/rules/experiments/contrast.ts'
import { lacksData, type NotEnoughData } from '../../src/rules/experiments/not-enough-data.ts'
import { sampleRatioTest } from '../../src/rules/experiments/sample-ratio.ts'
import {
  winProbabilityOfMeans,
  winProbabilityOfProportions,
} from '../../src/rules/experiments/win-probability.ts'
import { Random } from './random.ts'
import { converted, type SimulatedMetric, Sums } from './simulated-metrics.ts'

/** The options of a simulation. */
export interface Simulation {
  readonly metric: SimulatedMetric
  /** The true relative change. It is 0 in an A/A test. */
  readonly lift: number
  readonly experiments: number
  /** The number of looks. They are evenly spaced over the persons. */
  readonly looks: number
  /** The number of exposed persons at the last look, which is the horizon. */
  readonly persons: number
  readonly alpha: number
  /** The relative loss that a guard tolerates. */
  readonly tolerance: number
  /** The share of persons who really get the treatment. The default is the share that is planned in the metric. */
  readonly treatedShare?: number
  readonly seed: number
}

/**
 * The results of all experiments. Except for the last member, they are shares of the experiments, from 0 to 1. A look
 * is one check of the results; each experiment has many.
 */
export interface SimulatedShares {
  /** The share in which the always-valid interval of the difference excludes zero at some look. */
  readonly alwaysValid: number
  /** The share in which the always-valid interval of the relative change contains the true change at every look. */
  readonly alwaysCovered: number
  /** The share in which the fixed-horizon test finds a difference at some look. */
  readonly peeking: number
  /** The share in which the fixed-horizon test finds a difference at the last look. */
  readonly fixed: number
  /** The share in which the win probability of one of the variants is above 1 − alpha / 2 at some look. */
  readonly winning: number
  /** The share in which the guard reports at some look that the metric is worse than tolerated. */
  readonly guarded: number
  /** The share in which the sample ratio check reports a mismatch at the last look. */
  readonly mismatched: number
  /** The persons at the first look with a difference, divided by the persons at the last look, on average. */
  readonly personsUntilFound: number
}

/** The probability that one sample ratio check reports a mismatch although there is none. */
const MISMATCH_ALPHA = 0.001

/** The statements that the methods have made about one experiment so far. */
class Verdicts {
  alwaysValid = false
  alwaysCovered = true
  peeking = false
  fixed = false
  winning = false
  guarded = false
  mismatched = false
  foundAt: number | null = null
}

/** Runs all experiments. The result is the same for the same seed. */
export function simulate(simulation: Simulation): SimulatedShares {
  const random = new Random(simulation.seed)
  const all: Verdicts[] = []
  for (let index = 0; index < simulation.experiments; index++) all.push(runOne(simulation, random))
  const share = (is: (one: Verdicts) => boolean): number => all.filter(is).length / all.length
  const found = all.flatMap(({ foundAt }) => (foundAt === null ? [] : [foundAt]))
  return {
    alwaysValid: share(({ alwaysValid }) => alwaysValid),
    alwaysCovered: share(({ alwaysCovered }) => alwaysCovered),
    peeking: share(({ peeking }) => peeking),
    fixed: share(({ fixed }) => fixed),
    winning: share(({ winning }) => winning),
    guarded: share(({ guarded }) => guarded),
    mismatched: share(({ mismatched }) => mismatched),
    personsUntilFound: found.reduce((sum, at) => sum + at, 0) / Math.max(1, found.length),
  }
}

function runOne(simulation: Simulation, random: Random): Verdicts {
  const { metric, lift, looks, persons } = simulation
  const treatedShare = simulation.treatedShare ?? metric.treatmentShare
  const control = new Sums()
  const treatment = new Sums()
  const verdicts = new Verdicts()
  let exposed = 0
  for (let look = 1; look <= looks; look++) {
    for (const end = Math.round((persons * look) / looks); exposed < end; exposed++) {
      const isTreated = random.uniform() < treatedShare
      metric.draw(random, isTreated ? 1 + lift : 1, isTreated ? treatment : control)
    }
    readLook(simulation, control, treatment, verdicts, look)
  }
  const share = metric.treatmentShare
  const ratio = sampleRatioTest(
    [
      { persons: control.persons, share: 1 - share },
      { persons: treatment.persons, share },
    ],
    MISMATCH_ALPHA,
  )
  verdicts.mismatched = !lacksData(ratio) && ratio.isMismatch
  return verdicts
}

function readLook(
  simulation: Simulation,
  control: Sums,
  treatment: Sums,
  verdicts: Verdicts,
  look: number,
): void {
  const { metric, lift, persons, alpha, tolerance } = simulation
  const options: AlwaysValidOptions = { alpha, horizonPersons: persons }
  const [from, to] = metric.estimates(control, treatment)
  const ofDifference = differenceOf(from, to)
  const ofLift = liftOf(from, to)
  const difference = confidenceSequence(ofDifference, options)
  if (!lacksData(difference) && difference.pValue <= alpha) {
    verdicts.alwaysValid = true
    verdicts.foundAt ??= look / simulation.looks
  }
  const relative = confidenceSequence(ofLift, options)
  if (!lacksData(relative) && (relative.low > lift || relative.high < lift)) {
    verdicts.alwaysCovered = false
  }
  const guard = guardBound(ofLift, options, { worse: 'lower', tolerance })
  if (!lacksData(guard) && guard.isWorse) verdicts.guarded = true
  const single = metric.fixedTest(control, treatment, alpha)
  verdicts.fixed = !lacksData(single) && single.pValue <= alpha
  if (verdicts.fixed) verdicts.peeking = true
  const probability = winProbability(metric, control, treatment, ofDifference)
  if (probability !== null && Math.max(probability, 1 - probability) > 1 - alpha / 2) {
    verdicts.winning = true
  }
}

function winProbability(
  metric: SimulatedMetric,
  control: Sums,
  treatment: Sums,
  difference: Contrast | NotEnoughData,
): number | null {
  const answer = metric.isProportion
    ? winProbabilityOfProportions(converted(control), converted(treatment))
    : winProbabilityOfMeans(difference)
  return lacksData(answer) ? null : answer.probability
}
