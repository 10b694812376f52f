/**
 * Insights and dashboards with their results: the query that runs, the values that replace a missing result, and
 * results of shared pages, which are computed once and cached as bytes.
 *
 * @lane quick
 */
import t from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import {
  DASHBOARD_RESULTS_MS_MAX,
  SHARED_RESULT_AGE_MS_MAX,
  SHARED_RESULTS_BYTES_MAX,
  SHARED_RESULTS_MAX,
} from '../../src/http/routes/limits.ts'
import { filledParts } from '../../src/http/routes/saved/filled-text.ts'
import type { ComputeInsight } from '../../src/http/routes/saved/saved-services.ts'
import { keptResults, sharedRuns } from '../../src/http/routes/saved/shared-results.ts'
import { type Insight, NEW_DASHBOARD, NEW_INSIGHT } from '../../src/rules/saved/saved.ts'
import { shownDashboard, shownInsight, shownShared } from '../../src/rules/saved/shown-text.ts'

const SAVED = {
  projectId: 1,
  isDeleted: false,
  createdById: 1,
  createdAtMs: 0,
  updatedAtMs: 0,
  sharing: null,
}
const SHOWING = { userById: () => null, timezoneOf: () => 'UTC' }
const MEMBERS = Buffer.from('"result":[1],"columns":["n"],"hasMore":false')

function insightOf(id: number, query: Insight['fields']['query']): Insight {
  return { id, ...SAVED, fields: { ...NEW_INSIGHT, name: `<${id}>`, short_id: 'x', query } }
}

function boardOf(queries: readonly Insight['fields']['query'][], filters = {}) {
  const tiles = queries.map((query, index) => ({
    id: index + 1,
    dashboardId: 1,
    insightId: index + 1,
    text: null,
    layouts: {},
    color: null,
    insight: { insight: insightOf(index + 1, query), tiles: [] },
  }))
  return { dashboard: { id: 1, ...SAVED, fields: { ...NEW_DASHBOARD, filters } }, tiles }
}

function clockAt(time: { ms: number }) {
  return { now: () => time.ms, monotonic: () => time.ms }
}

const CLOCK = clockAt({ ms: 0 })

async function textOf(...input: Parameters<typeof filledParts>): Promise<string> {
  return Buffer.concat(await filledParts(...input)).toString()
}

t.test('the innermost query runs; a refusal is shown, and a failure is an error', async (t) => {
  const asked: unknown[] = []
  const compute: ComputeInsight = async (projectId, question) => {
    const query = JSON.parse(question) as { readonly kind?: string }
    asked.push([projectId, query])
    if (query.kind === 'Refused') throw new ServiceError('query_timeout', 'too long')
    if (query.kind === 'Broken') throw new TypeError('broken')
    return MEMBERS
  }
  const show = async (query: Insight['fields']['query']) => {
    const shown = shownInsight(SHOWING, { insight: insightOf(1, query), tiles: [] })
    return JSON.parse(await textOf(shown, { compute, clock: CLOCK })) as object
  }
  const source = { kind: 'Known', source: { kind: 'Inner' } }
  const viz = { kind: 'InsightVizNode', source: { kind: 'DataTableNode', source } }
  t.match(await show(viz), { id: 1, query: viz, result: [1], columns: ['n'], error: null })
  t.same(asked, [[1, source]])
  for (const query of [null, { kind: 'InsightVizNode' }]) {
    t.match(await show(query), { query, result: null, last_refresh: null, error: null })
  }
  t.match(await show({ kind: 'Refused' }), {
    result: null,
    columns: null,
    hasMore: null,
    last_refresh: null,
    error: { type: 'query_timeout', message: 'too long' },
  })
  await t.rejects(show({ kind: 'Broken' }), { message: 'broken' })
})

t.test('an insight without a result does not affect the others of a dashboard', async (t) => {
  const compute: ComputeInsight = async (_, question, format) => {
    const { n, dateRange } = JSON.parse(question) as { n: number; dateRange: unknown }
    t.same(dateRange, { date_from: '-7d', date_to: null })
    if (n === 2) throw new ServiceError('query_too_large', 'Too <large>. Choose less.')
    return format === 'html' ? Buffer.from('<table></table>') : MEMBERS
  }
  const board = boardOf([{ n: 1 }, { n: 2 }, { n: 3 }], { date_from: '-7d' })
  const shown = shownDashboard(SHOWING, board)
  const { tiles } = JSON.parse(await textOf(shown, { compute, clock: CLOCK })) as {
    readonly tiles: readonly object[]
  }
  const refresh = { last_refresh: '1970-01-01T00:00:00Z', error: null }
  const error = { type: 'query_too_large', message: 'Too <large>. Choose less.' }
  t.match(tiles, [
    { id: 1, ...refresh, insight: { id: 1, name: '<1>', result: [1], ...refresh } },
    { id: 2, last_refresh: null, error, insight: { id: 2, result: null, error } },
    { id: 3, ...refresh, insight: { id: 3, result: [1] } },
  ])
  const sharing = { token: 't', isEnabled: true, settings: {}, createdAtMs: 0 }
  const page = shownShared(SHOWING, { sharing, ...board }, { format: 'html', type: 'scene' })
  const html = await textOf(page, { compute, clock: CLOCK })
  t.match(html, '<h2>&lt;1&gt;</h2><table></table></section>')
  t.match(html, '<h2>&lt;2&gt;</h2><p><small>Too &lt;large&gt;. Choose less.</small></p></section>')
  t.match(html, '<h2>&lt;3&gt;</h2><table></table></section>')
  t.match(html, '<h1>Dashboard</h1>')
  t.match(html, '<footer>')
  const settings = { noHeader: true, whitelabel: true }
  const bare = shownShared(
    SHOWING,
    { ...board, sharing: { ...sharing, settings } },
    { format: 'html', type: 'scene' },
  )
  t.notMatch(await textOf(bare, { compute, clock: CLOCK }), /<h1>|<footer>/)
})

t.test('a dashboard contains the results that arrive in time and fit', async (t) => {
  const time = { ms: 0 }
  const errorsOf = async (compute: ComputeInsight) => {
    const shown = shownDashboard(SHOWING, boardOf([{ n: 1 }, { n: 2 }, { n: 3 }]))
    const text = await textOf(shown, { compute, clock: clockAt(time) })
    const { tiles } = JSON.parse(text) as {
      readonly tiles: readonly { readonly error: { readonly type: string } | null }[]
    }
    return tiles.map(({ error }) => error?.type ?? null)
  }
  const slow: ComputeInsight = async () => {
    time.ms += DASHBOARD_RESULTS_MS_MAX / 2 + 1
    return MEMBERS
  }
  t.same(await errorsOf(slow), [null, null, 'query_timeout'])
  const large: ComputeInsight = async () => Buffer.from(`"result":"${'x'.repeat(5 * 1024 ** 2)}"`)
  t.same(await errorsOf(large), [null, null, 'query_too_large'])
})

t.test('bytes of a result are passed on unchanged', async (t) => {
  const result = Buffer.from(`"result":"${'x'.repeat(300 * 1024)}"`)
  const compute: ComputeInsight = async () => result
  const shown = shownInsight(SHOWING, { insight: insightOf(1, { kind: 'K' }), tiles: [] })
  const [one, other] = await Promise.all(
    [1, 2].map(() => filledParts(shown, { compute, clock: CLOCK })),
  )
  const parts = one as readonly Uint8Array[]
  t.ok(parts.includes(result), 'no copy is made')
  t.ok((other as readonly Uint8Array[]).includes(result), 'the same memory is in every answer')
  t.ok(parts.every((part) => part === result || part.length < 64 * 1024))
  const withoutResults = await filledParts(shown, { compute: null, clock: CLOCK })
  t.notOk(withoutResults.includes(result), 'the answer to a change asks nothing')
})

t.test(
  'results of shared pages are computed once for all readers and cached for a while',
  async (t) => {
    const time = { ms: 0 }
    let count = 0
    let bytes = 10
    const compute = keptResults(async (_, question) => {
      count++
      await Promise.resolve()
      if (question === 'fault') throw new Error('once')
      if (question === 'busy') {
        throw new ServiceError('server_error', 'later', { retryAfterSeconds: 1 })
      }
      if (question === 'refused') throw new ServiceError('query_too_large', 'always')
      return new Uint8Array(bytes)
    }, clockAt(time))
    const settled = () => new Promise(setImmediate)
    const first = await Promise.all(Array.from({ length: 20 }, () => compute(1, 'q', 'insight')))
    t.equal(count, 1)
    t.ok(
      first.every((result) => result === first[0]),
      'all have the same memory',
    )
    await compute(2, 'q', 'insight')
    await compute(1, 'q', 'html')
    t.equal(count, 3, 'another project and another format are separate queries')
    time.ms = SHARED_RESULT_AGE_MS_MAX - 1
    await compute(1, 'q', 'insight')
    t.equal(count, 3)
    time.ms = SHARED_RESULT_AGE_MS_MAX
    await compute(1, 'q', 'insight')
    t.equal(count, 4)
    for (const question of ['fault', 'busy']) {
      count = 0
      for (const expected of [1, 2]) {
        await t.rejects(compute(1, question, 'insight'))
        await settled()
        t.equal(count, expected, `${question}: a temporary failure is not cached`)
      }
    }
    count = 0
    for (const _ of [1, 2]) await t.rejects(compute(1, 'refused', 'insight'), { message: 'always' })
    t.equal(count, 1, 'a permanent refusal is cached')
    bytes = SHARED_RESULTS_BYTES_MAX / 4
    count = 0
    const ask = async (question: string) => {
      await compute(1, question, 'insight')
      await settled()
      return count
    }
    for (const question of ['a', 'b', 'c']) await ask(question)
    t.equal(await ask('a'), 3)
    t.equal(await ask('d'), 4)
    t.equal(await ask('a'), 4, 'the most recently used entry stays')
    t.equal(await ask('b'), 5, 'the least recently used entry is evicted')
    bytes = SHARED_RESULTS_BYTES_MAX
    count = 0
    t.same(
      [await ask('large'), await ask('large')],
      [1, 2],
      'a result that does not fit is not cached',
    )
    bytes = 1
    count = 0
    for (let index = 0; index <= SHARED_RESULTS_MAX; index++)
      await compute(3, `${index}`, 'insight')
    await compute(3, '0', 'insight')
    t.equal(count, SHARED_RESULTS_MAX + 2, 'the number of entries is limited')
  },
)

t.test('a shared text is built once, and only after it was requested', async (t) => {
  const begun: (() => void)[] = []
  let state = 'old'
  const run = sharedRuns(async ({ token }: { readonly token: string }) => {
    const seen = state
    await new Promise<void>((resolve) => begun.push(resolve))
    if (token === 'broken') throw new Error('broken')
    return seen
  })
  const next = async () => {
    while (begun.length === 0) await new Promise(setImmediate)
    begun.shift()?.()
  }
  const first = run({ token: 'x' })
  state = 'new'
  const later = Array.from({ length: 20 }, () => run({ token: 'x' }))
  t.equal(begun.length, 1, 'one at a time')
  await next()
  t.equal(await first, 'old')
  await next()
  t.same(new Set(await Promise.all(later)), new Set(['new']))
  t.equal(begun.length, 0, 'twenty requests caused one run')
  const broken = [run({ token: 'broken' }), run({ token: 'broken' })]
  const outcomes = Promise.allSettled(broken)
  await next()
  await next()
  t.same(
    (await outcomes).map(({ status }) => status),
    ['rejected', 'rejected'],
  )
})
