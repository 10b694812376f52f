/**
 * Tests the counters of write transactions: all of them, and those that change data for readers.
 *
 * @lane quick
 */
import t from 'tap'
import { ALL_WRITES, CHANGING_WRITES, counted, countWrites } from '../../src/store/faults.ts'

t.test('a maintenance transaction is not counted as a change', async (t) => {
  const counter = new Int32Array(4)
  countWrites(counter)
  const during = (isRearranging: boolean): readonly number[] =>
    counted(() => [...counter], isRearranging)
  t.equal(ALL_WRITES, 0)
  t.equal(CHANGING_WRITES, 2)
  t.strictSame(during(false), [1, 1, 1, 1])
  t.strictSame([...counter], [0, 1, 0, 1])
  t.strictSame(during(true), [1, 2, 0, 1])
  t.throws(
    () =>
      counted(() => {
        throw new Error('full')
      }, false),
    { message: 'full' },
  )
  t.strictSame([...counter], [0, 3, 0, 2], 'also one that failed is over')
})
