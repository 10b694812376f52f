/**
 * Tests that the micro-benchmark of names runs, and that the time of a cached list does not depend on events.
 *
 * @lane all
 */
import t from 'tap'
import { run } from '../../bench/micro/names.ts'

t.test('names are listed in some milliseconds', async (t) => {
  const figures = await run({ events: 20_000, properties: 2000, dataDir: t.testdir() })
  t.equal(figures.events, 24_576)
  t.ok(figures.listMs < 200, `a list takes ${figures.listMs} ms`)
  t.ok(figures.firstMs > 0 && figures.nextMs > 0 && figures.parseMs > 0)
})
