/**
 * Results of insights: which query is computed, what a shared page shows of them, and what is kept.
 *
 * @lane quick
 */
import t from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import { DASHBOARD_RESULTS_MS_MAX } from '../../src/http/routes/limits.ts'
import { dashboardWithResults } from '../../src/http/routes/saved/dashboards.ts'
import { type ComputeInsight, resultOf } from '../../src/http/routes/saved/saved-services.ts'
import { renderShared } from '../../src/http/routes/saved/shared-page.ts'
import { keptResults } from '../../src/http/routes/saved/shared-results.ts'
import { type Insight, NEW_DASHBOARD, NEW_INSIGHT } from '../../src/rules/saved/saved.ts'

const SAVED = {
  ...{ projectId: 1, isDeleted: false, createdById: 1, createdAtMs: 0, updatedAtMs: 0 },
  sharing: null,
}

function insightOf(id: number, query: Insight['fields']['query']): Insight {
  return { id, ...SAVED, fields: { ...NEW_INSIGHT, name: `<${id}>`, short_id: 'x', query } }
}

function clockAt(time: { ms: number }) {
  return { now: () => time.ms, monotonic: () => time.ms }
}

t.test('the innermost query is computed; a refusal is no result, a fault is a fault', async (t) => {
  const asked: unknown[] = []
  const compute: ComputeInsight = async (projectId, query) => {
    asked.push([projectId, query])
    if (query['kind'] === 'Refused') throw new ServiceError('query_timeout', 'too long')
    if (query['kind'] === 'Broken') throw new TypeError('broken')
    return query['kind'] === 'Known' ? { results: [1] } : null
  }
  const source = { kind: 'Known', source: { kind: 'Inner' } }
  const viz = { kind: 'InsightVizNode', source: { kind: 'DataTableNode', source } }
  t.same(await resultOf({ compute }, insightOf(1, viz)), { results: [1] })
  t.same(asked, [[1, source]])
  for (const query of [null, { kind: 'InsightVizNode' }, { kind: 'Refused' }, {}]) {
    t.equal(await resultOf({ compute }, insightOf(1, query)), null)
  }
  await t.rejects(resultOf({ compute }, insightOf(1, { kind: 'Broken' })), { message: 'broken' })
})

t.test('a dashboard has the results that come in time, and its page shows them', async (t) => {
  const time = { ms: 0 }
  const clock = clockAt(time)
  const compute: ComputeInsight = async (_, query) => {
    time.ms += DASHBOARD_RESULTS_MS_MAX / 2 + 1
    t.same(query['dateRange'], { date_from: '-7d', date_to: null })
    return { results: [['<i>', query['n']]], columns: ['what', 'n'], hasMore: false }
  }
  const directory = { userById: () => null, projectById: () => null }
  const tiles = [1, 2, 3].map((n) => ({
    ...{ id: n, dashboardId: 1, insightId: n, text: null, layouts: {}, color: null },
    insight: { insight: insightOf(n, { kind: 'K', n: n * 111 }), tiles: [] },
  }))
  const filters = { date_from: '-7d' }
  const dashboard = { id: 1, ...SAVED, fields: { ...NEW_DASHBOARD, name: 'All', filters } }
  const showing = { directory, compute, clock }
  const body = await dashboardWithResults(showing, { dashboard, tiles })
  t.match(body.tiles, [
    { insight: { result: [['<i>', 111]], columns: ['what', 'n'], hasMore: false } },
    { insight: { result: [['<i>', 222]] } },
    { insight: { result: null, last_refresh: null } },
  ])
  const page = renderShared({ dashboard: body }, {})
  t.match(page, '<th>what</th><th>n</th></tr><tr><td>&lt;i&gt;</td><td>111</td></tr></table>')
  t.match(page, '<h2>&lt;2&gt;</h2><table>')
  t.match(page, '<h2>&lt;3&gt;</h2><p><small>There are no numbers.</small></p>')
  t.match(page, '<h1>All</h1>')
  t.match(page, '<footer>')
  const bare = renderShared({ dashboard: body }, { noHeader: true, whitelabel: true })
  t.notMatch(bare, /<h1>|<footer>/)
})

t.test('a dashboard has as many results as fit into an answer', async (t) => {
  let count = 0
  const compute: ComputeInsight = async () => {
    count++
    return { results: 'x'.repeat(5 * 1024 * 1024) }
  }
  const tiles = [1, 2, 3].map((n) => ({
    ...{ id: n, dashboardId: 1, insightId: n, text: null, layouts: {}, color: null },
    insight: { insight: insightOf(n, { kind: 'K' }), tiles: [] },
  }))
  const directory = { userById: () => null, projectById: () => null }
  const dashboard = { id: 1, ...SAVED, fields: NEW_DASHBOARD }
  const showing = { directory, compute, clock: clockAt({ ms: 0 }) }
  const body = await dashboardWithResults(showing, { dashboard, tiles })
  t.same(
    body.tiles.map(({ insight }) => insight?.result !== null),
    [true, true, false],
  )
  t.equal(count, 2)
})

t.test('results of shared pages are computed once for all who ask, for a while', async (t) => {
  const time = { ms: 0 }
  let count = 0
  let results: unknown = 'small'
  const compute = keptResults(async (_, query) => {
    count++
    await Promise.resolve()
    if (query['fails'] === true) throw new Error('once')
    return { results }
  }, clockAt(time))
  const query = { kind: 'K' }
  await Promise.all([compute(1, query), compute(1, { ...query })])
  t.equal(count, 1)
  await compute(2, query)
  t.equal(count, 2, 'another project is another question')
  time.ms = 29_999
  await compute(1, query)
  t.equal(count, 2)
  time.ms = 30_000
  await compute(1, query)
  t.equal(count, 3)
  for (const expected of [4, 5]) {
    await t.rejects(compute(1, { fails: true }))
    t.equal(count, expected, 'a failure is not kept')
  }
  results = 'x'.repeat(256 * 1024)
  for (const expected of [6, 7]) {
    await compute(1, { large: true })
    await new Promise(setImmediate)
    t.equal(count, expected, 'what is large is not kept')
  }
  results = null
  for (let i = 0; i < 100; i++) await compute(3, { i })
  await compute(3, { i: 0 })
  t.equal(count, 107)
  await compute(1, query)
  t.equal(count, 108, 'the oldest were forgotten')
})
