/**
 * Tests that the micro-benchmark of processing runs, and that its figures for size and recognized events hold.
 *
 * @lane quick
 */
import t from 'tap'
import { run } from '../../bench/micro/processing.ts'

t.test('ordinary traffic is recognized and stays small', async (t) => {
  const figures = await run({ commits: 3, commitEvents: 3200, seed: 1, dataDir: t.testdir() })
  t.ok(figures.events >= 6400, `there are ${figures.events} events`)
  t.ok(figures.recognized > 0.9, `${figures.recognized} events are recognized`)
  t.ok(figures.jsonBytes > 700, `there are ${figures.jsonBytes} bytes of JSON`)
  t.ok(figures.processUs > 0 && figures.parseUs > 0 && figures.commitUs > 0)
})
