/**
 * Tests the guards of ramps: which counts violate them, what they say, and how often a harmless flag is stopped.
 *
 * @lane quick
 */
import t from 'tap'
import { breachText, isBreach, lookAtGuard } from '../../../src/rules/flags/schedule/ramp-guard.ts'
import { seededRandom } from '../../fixtures/event-ledger.ts'

/** A flag that is on or off, with this number of comparisons. */
const one = (count: number) => ({ values: ['true'], count })

const ERRORS = { event: '$exception', worse: 'higher', tolerance: 0 } as const
const PURCHASES = { event: 'purchase', worse: 'lower', tolerance: 0.01 } as const

function groups(off: [number, number], on: [number, number], value = 'true') {
  return [
    { value: 'false', persons: off[0], converted: off[1] },
    { value, persons: on[0], converted: on[1] },
  ]
}

t.test('more errors violate a guard, and the reason has numbers', async (t) => {
  const [look] = lookAtGuard(ERRORS, groups([5000, 10], [400, 60]), one(3))
  if (look === undefined) throw new Error('no look')
  t.equal(isBreach(look), true)
  t.match(
    breachText(look),
    /^15 % of 400 persons with the value true had \$exception, and 0\.2 % of 5,000 persons without the flag\. That is at least [\d.]+ percentage points more, and 0 are tolerated\.$/,
  )
})

t.test('errors are found if nobody without the flag has one', async (t) => {
  const [look] = lookAtGuard(ERRORS, groups([2000, 0], [300, 60]), one(3))
  t.equal(look && isBreach(look), true)
})

t.test('a guard accepts what it tolerates', async (t) => {
  const counts = groups([10_000, 1000], [10_000, 1150])
  const of = (tolerance: number) => lookAtGuard({ ...ERRORS, tolerance }, counts, one(1))[0]
  t.match(of(0), { bound: { isWorse: true } })
  t.match(of(0.02), { bound: { isWorse: false } })
})

t.test('a guard on fewer purchases', async (t) => {
  t.match(lookAtGuard(PURCHASES, groups([5000, 1000], [5000, 600]), one(1)), [
    { bound: { isWorse: true } },
  ])
  t.match(lookAtGuard(PURCHASES, groups([5000, 1000], [5000, 1400]), one(1)), [
    { bound: { isWorse: false } },
  ])
})

t.test('each variant is compared with false', async (t) => {
  const exposed = [
    ...groups([5000, 10], [500, 1], 'blue'),
    { value: 'green', persons: 500, converted: 100 },
  ]
  const looks = lookAtGuard(ERRORS, exposed, { values: ['blue', 'green'], count: 6 })
  t.strictSame(
    looks.map((look) => [look.value, isBreach(look)]),
    [
      ['blue', false],
      ['green', true],
    ],
  )
})

t.test('without enough persons there is no verdict', async (t) => {
  t.match(lookAtGuard(ERRORS, groups([5000, 0], [99, 99]), one(1)), [
    { bound: null, missing: 'too_few_persons' },
  ])
  t.match(lookAtGuard(ERRORS, [{ value: 'true', persons: 500, converted: 500 }], one(1)), [
    { bound: null, missing: 'too_few_persons' },
  ])
  t.strictSame(lookAtGuard(ERRORS, [], one(1)), [])
})

t.test('a harmless flag is hardly ever stopped, however often the guard looks', async (t) => {
  const random = seededRandom(7)
  const RAMPS = 200
  for (const rate of [0.002, 0.02, 0.3]) {
    let stopped = 0
    for (let ramp = 0; ramp < RAMPS; ramp++) {
      const counts = [
        { value: 'false', persons: 0, converted: 0 },
        { value: 'true', persons: 0, converted: 0 },
      ]
      let isStopped = false
      for (let person = 1; person <= 4000; person++) {
        const group = counts[random() < 0.2 ? 1 : 0]
        if (group === undefined) continue
        group.persons++
        if (random() < rate) group.converted++
        if (person % 200 === 0) {
          isStopped ||= lookAtGuard(ERRORS, counts, one(1)).some(isBreach)
        }
      }
      if (isStopped) stopped++
    }
    t.ok(stopped <= 0.05 * RAMPS, `${stopped} of ${RAMPS} with a share of ${rate}`)
  }
})
