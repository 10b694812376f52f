/**
 * The micro bench of names runs, and a list of what is known takes no time that depends on events.
 *
 * @lane all
 */
import t from 'tap'
import { run } from '../../bench/micro/names.ts'

t.test('names are listed in some milliseconds', async (t) => {
  const figures = await run({ events: 20_000, properties: 2000, dataDir: t.testdir() })
  t.equal(figures.events, 24_576)
  t.ok(figures.listMs < 200, `${figures.listMs} ms for a list`)
  t.ok(figures.firstMs > 0 && figures.nextMs > 0 && figures.parseMs > 0)
})
