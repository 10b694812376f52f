/**
 * Tests how the number at a given position of the sorted order is found without sorting the list.
 *
 * @lane quick
 */
import t from 'tap'
import { selectPlace } from '../../../src/rules/analytics/selection.ts'
import { Differences } from '../../fixtures/differences.ts'
import { randomNumbers } from '../../fixtures/stored-events.ts'

const LISTS = 300

t.test(
  'the number at a position is that of the sorted list, which is partitioned there',
  async (t) => {
    const differences = new Differences()
    for (let seed = 1; seed <= LISTS; seed++) {
      const random = randomNumbers(seed)
      const length = 1 + Math.floor(random() * 200)
      // From all equal to all different.
      const values = 1 + Math.floor(random() * length)
      const numbers = Float64Array.from(
        { length },
        () => Math.floor(random() * values) - values / 2,
      )
      const sorted = numbers.slice().sort()
      const place = Math.floor(random() * length)
      const found = selectPlace(numbers, place)
      const isDivided =
        numbers.subarray(0, place).every((one) => one <= found) &&
        numbers.subarray(place).every((one) => one >= found)
      differences.equal(
        found,
        sorted[place],
        `seed ${seed}: the number at position ${place} is right`,
      )
      differences.ok(isDivided, `seed ${seed}: the list is partitioned at position ${place}`)
      differences.same(numbers.sort(), sorted, `seed ${seed}: all numbers`)
    }
    t.strictSame(differences.list(), [], 'every list has the number of the sorted one')
  },
)

t.test('numbers in the worst order take a linear number of steps', async (t) => {
  // The middle number is always the least of the rest.
  const numbers = new Float64Array(1000).fill(Number.NaN)
  const order = Array.from(numbers.keys())
  for (let low = 0; low < numbers.length; low++) {
    const middle = (low + numbers.length - 1) >>> 1
    numbers[order[middle] ?? 0] = low
    order[middle] = order[low] ?? 0
  }
  t.equal(selectPlace(numbers, 900), 900)
})

t.test('a position outside the list has no number', async (t) => {
  t.ok(Number.isNaN(selectPlace(new Float64Array(0), 0)))
  t.ok(Number.isNaN(selectPlace(Float64Array.of(1), 1)))
})
