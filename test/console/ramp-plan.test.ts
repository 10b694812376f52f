/**
 * How the console makes the plan of a ramp (a gradual rollout) from the fields of its form.
 *
 * @lane quick
 */
import t from 'tap'
import { hoursOf, percentagesOf, rampValue } from '../../src/console/pages/flag/ramp-plan.ts'

t.test('fields', async (t) => {
  t.strictSame(percentagesOf('5, 25 50;100 %'), [5, 25, 50, 100])
  for (const text of ['', ' , ', '5, x', '101', '-1', '5, NaN'])
    t.equal(percentagesOf(text), null, text)
  t.equal(hoursOf('0.5'), 0.5)
  for (const text of ['', '0', '-1', 'x', 'Infinity']) t.equal(hoursOf(text), null, text)
})

t.test('the plan', async (t) => {
  const fields = { percentages: [5, 100], hours: 2, condition: 1 }
  t.strictSame(rampValue({ ...fields, tolerance: 0.01 }), {
    steps: [{ rollout_percentage: 5 }, { rollout_percentage: 100, after_seconds: 7200 }],
    condition: 1,
    guards: [{ event: '$exception', worse: 'higher', tolerance: 0.01 }],
    on_breach: 'turn_back',
  })
  t.strictSame(rampValue({ ...fields, tolerance: null }).guards, [])
})
