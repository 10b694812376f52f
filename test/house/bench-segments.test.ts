/**
 * Tests that the micro-benchmark of segments runs, and that its claim about size holds.
 *
 * @lane quick
 */
import t from 'tap'
import { run } from '../../bench/micro/segments.ts'

t.test('segments take at most an eighth of the JSON', async (t) => {
  const figures = await run({ events: 6000, seed: 1, batch: 2000, dataDir: t.testdir() })
  t.equal(figures.events, 4000)
  t.ok(figures.jsonBytes > 700, `there are ${figures.jsonBytes} bytes of JSON`)
  t.ok(figures.segmentBytes < 110, `there are ${figures.segmentBytes} bytes in segments`)
  t.ok(figures.addUs > 0 && figures.parseUs > 0)
})
