/**
 * Tests that the micro-benchmark of the log runs and measures both sides.
 *
 * @lane quick
 */
import t from 'tap'
import { run } from '../../bench/micro/log.ts'

t.test('the benchmark commits blocks of each size to both logs', async (t) => {
  const sizes = [
    [9000, 20],
    [90_000, 10],
  ] as const
  const figures = await run({ dataDir: t.testdir(), rounds: 1, sizes })
  t.strictSame(
    figures.map(({ blockBytes }) => blockBytes),
    [9000, 90_000],
  )
  for (const { filesCpuUs, filesWallUs, lmdbCpuUs, lmdbWallUs } of figures) {
    t.ok(Math.min(filesCpuUs, filesWallUs, lmdbCpuUs, lmdbWallUs) > 0)
  }
})
