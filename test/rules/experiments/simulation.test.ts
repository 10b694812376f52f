/**
 * Tests the false winners of always-valid intervals in a small simulation. The bench `experiments` runs the large one.
 * The seed is fixed, so the result is the same in every run.
 *
 * @lane quick
 */
import t from 'tap'
import {
  conversionMetric,
  REVENUE,
  type SimulatedMetric,
} from '../../../bench/experiments/simulated-metrics.ts'
import { type SimulatedShares, simulate } from '../../../bench/experiments/simulation.ts'

const EXPERIMENTS = 200

function run(metric: SimulatedMetric, lift: number, persons: number): SimulatedShares {
  return simulate({
    metric,
    lift,
    persons,
    experiments: EXPERIMENTS,
    looks: 20,
    alpha: 0.05,
    tolerance: 0.02,
    seed: 1,
  })
}

t.test('looking often finds no false winners with always-valid intervals', async (t) => {
  for (const metric of [conversionMetric(0.1, 0.2), REVENUE]) {
    const shares = run(metric, 0, 2000)
    t.ok(shares.alwaysValid <= 0.05, `${metric.name}: ${shares.alwaysValid}`)
    t.ok(shares.alwaysCovered >= 0.95, `${metric.name}, covered: ${shares.alwaysCovered}`)
    t.ok(shares.guarded <= 0.05, `${metric.name}, guard: ${shares.guarded}`)
    t.ok(shares.peeking > 0.15, `${metric.name}, a fixed interval: ${shares.peeking}`)
    t.ok(shares.fixed < 0.1, `${metric.name}, at the last look alone: ${shares.fixed}`)
  }
})

t.test('a large change is found before the end, and a large loss by the guard', async (t) => {
  const metric = conversionMetric(0.1, 0.5)
  const gain = run(metric, 0.8, 2000)
  t.ok(gain.alwaysValid > 0.9, String(gain.alwaysValid))
  t.ok(gain.personsUntilFound < 0.7, String(gain.personsUntilFound))
  t.equal(gain.guarded, 0)
  const loss = run(metric, -0.6, 2000)
  t.ok(loss.guarded > 0.8, String(loss.guarded))
})
