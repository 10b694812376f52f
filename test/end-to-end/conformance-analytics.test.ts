/**
 * Every analytic case over real HTTP, against a complete daemon with a fixed clock.
 *
 * @lane quick
 */
import t from 'tap'
import {
  ANALYTICS_NOW_MS,
  checkAnalyticCases,
  createProjects,
} from '../fixtures/conformance/analytics.ts'
import { frozenAt, startFrozen } from '../fixtures/conformance/frozen-daemon.ts'
import { untilProcessed } from '../fixtures/conformance/processed.ts'

t.test('the analytic cases hold over HTTP', async (t) => {
  const dataDir = `${t.testdir()}/data`
  await createProjects(dataDir)
  const { url } = await startFrozen(t, dataDir, frozenAt(ANALYTICS_NOW_MS))
  await checkAnalyticCases(
    t,
    () => url,
    () => untilProcessed(url),
  )
})
