/**
 * Tests that the micro-benchmark of large persons runs: it stores them and decides about each.
 *
 * @lane all
 */
import t from 'tap'
import { run } from '../../bench/micro/large-persons.ts'

t.test('decisions about large persons are measured beside those about small ones', async (t) => {
  const figures = await run({ persons: 5, properties: 2000, rounds: 2, dataDir: t.testdir() })
  t.strictSame(
    figures.map(({ kind }) => kind),
    ['first', 'again'],
  )
  for (const { small, large } of figures) {
    t.ok(small.medianUs > 0 && large.medianUs > 0)
    t.ok(large.p99Us >= large.medianUs)
  }
})
