/**
 * Tests that the micro-benchmark of merges runs, and that it merges all persons.
 *
 * @lane quick
 */
import t from 'tap'
import { run } from '../../bench/micro/merges.ts'

for (const kind of ['plain', 'browser'] as const) {
  t.test(`merges are measured: ${kind}`, async (t) => {
    const options = { persons: 1200, merges: 600, kind, seed: 1, isShuffled: true }
    const figures = await run({ ...options, dataDir: t.testdir() })
    t.equal(figures.personCount, 600)
    t.ok(figures.perSecond > 0 && figures.cpuUs > 0 && figures.commits > 0)
  })
}
