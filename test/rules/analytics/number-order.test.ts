/**
 * Tests the sort of numbers: ascending and stable, whatever their size.
 *
 * @lane quick
 */
import t from 'tap'
import { ascendingOrder } from '../../../src/rules/analytics/number-order.ts'
import { Dice } from '../../fixtures/dice.ts'

t.test('the order is that of a stable sort', async (t) => {
  const dice = new Dice(4)
  for (const largest of [0, 1, 2047, 2048, 2 ** 22, 2 ** 32 - 1]) {
    const numbers = Uint32Array.from(dice.list(500, () => dice.below(largest + 1)))
    const expected = [...numbers.keys()].sort((a, b) => (numbers[a] ?? 0) - (numbers[b] ?? 0))
    t.strictSame([...ascendingOrder(numbers)], expected, `up to ${largest}`)
  }
  t.equal(ascendingOrder(new Uint32Array(0)).length, 0)
})
