/**
 * The micro bench of processing runs, and what it says about size and recognised events holds.
 *
 * @lane quick
 */
import t from 'tap'
import { run } from '../../bench/micro/processing.ts'

t.test('the usual traffic is recognised and stays small', async (t) => {
  const figures = await run({ commits: 3, commitEvents: 3200, seed: 1, dataDir: t.testdir() })
  t.ok(figures.events >= 6400, `${figures.events} events`)
  t.ok(figures.recognised > 0.9, `${figures.recognised} recognised`)
  t.ok(figures.jsonBytes > 700, `${figures.jsonBytes} bytes of JSON`)
  t.ok(figures.processUs > 0 && figures.parseUs > 0 && figures.commitUs > 0)
})
