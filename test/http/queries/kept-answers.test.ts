/**
 * A repeated query: its answer comes from the cache and includes everything that was written.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const TIMES = 4
const EXPERIMENT: Json = {
  feature_flag_key: 'checkout',
  parameters: {
    feature_flag_variants: [
      { key: 'control', rollout_percentage: 50 },
      { key: 'test', rollout_percentage: 50 },
    ],
  },
  start_date: '2020-01-01T00:00:00Z',
  exposure_criteria: {
    exposure_config: { kind: 'ExperimentEventExposureConfig', event: 'view', properties: [] },
  },
  metrics: [
    { metric_type: 'mean', source: { kind: 'EventsNode', event: 'view' } },
    { metric_type: 'funnel', series: [{ kind: 'EventsNode', event: 'view' }] },
  ],
}

t.test('every change appears in the next answer', async (t) => {
  const daemon = await shareDecisions()
  const view = (distinct_id: string, properties: Json = {}) => ({
    event: 'view',
    distinct_id,
    properties: { '$feature/checkout': distinct_id === 'bob' ? 'test' : 'control', ...properties },
  })
  const step = (event: string) => ({ name: 'a', steps: [{ event }] })
  const { body: action } = await daemon.api('POST', 'actions/', 1, step('view'))
  const members = { name: 'some', is_static: true, distinct_ids: ['ann'] }
  await daemon.capture([view('ann', { $set: { plan: 'rich' } }), view('bob'), view('bob')])
  const { body: cohort } = await daemon.api('POST', 'cohorts/', 1, members)
  const inCohort = { key: 'id', type: 'cohort', value: cohort['id'] }
  const rich = { key: 'plan', type: 'person', value: 'rich', operator: 'exact' }
  const dau = { kind: 'EventsNode', event: 'view', math: 'dau' }
  const queries: readonly Json[] = [
    { kind: 'TrendsQuery', series: [{ kind: 'EventsNode', event: 'view' }, dau] },
    { kind: 'TrendsQuery', series: [{ kind: 'ActionsNode', id: action['id'] }] },
    { kind: 'TrendsQuery', series: [dau], properties: [inCohort] },
    { kind: 'TrendsQuery', series: [dau], properties: [rich] },
    {
      kind: 'TrendsQuery',
      series: [dau],
      breakdownFilter: { breakdown: 'plan', breakdown_type: 'person' },
    },
    { kind: 'TrendsQuery', series: [dau], filterTestAccounts: true },
    { kind: 'LifecycleQuery', series: [{ kind: 'EventsNode', event: 'view' }] },
    { kind: 'FunnelsQuery', series: [dau, { kind: 'EventsNode', event: 'buy' }] },
    { kind: 'WebOverviewQuery', properties: [] },
    { kind: 'EventsQuery', select: ['event', 'distinct_id'], orderBy: ['timestamp ASC'] },
    { kind: 'ExperimentQuery', experiment: EXPERIMENT },
    { kind: 'ExperimentExposureQuery', experiment: EXPERIMENT },
  ]
  /** Returns an answer without the time at which it was made. */
  const ask = async (query: Json): Promise<string> => {
    const { status, body } = await daemon.api('POST', 'query/', 1, { query })
    statuses.add(status)
    const { last_refresh: _, next_allowed_client_refresh: __, cache_key: ___, ...rest } = body
    return JSON.stringify([status, rest])
  }
  let asked = 0
  const statuses = new Set<number>()
  const differences = new Differences()
  const expectSame = async (what: string): Promise<void> => {
    for (const query of queries) {
      const kept = await ask(query)
      // This query was not sent before.
      const anew = await ask({ ...query, tags: { name: `${++asked}` } })
      const name = `after ${what}: ${JSON.stringify(query)}`
      differences.equal(kept, anew, name)
      for (let time = 1; time <= TIMES; time++) {
        differences.equal(await ask(query), anew, `${name}, repetition ${time}`)
      }
    }
  }
  const { body: persons } = await daemon.api('GET', 'persons/?distinct_id=ann', 1)
  const [ann] = persons['results'] as readonly [Json]
  const changes: Readonly<Record<string, () => Promise<unknown>>> = {
    nothing: async () => undefined,
    'an event': () => daemon.capture([view('cid')]),
    'an action': () => daemon.api('PATCH', `actions/${String(action['id'])}/`, 1, step('buy')),
    'a property of a person': () => daemon.capture([view('bob', { $set: { plan: 'rich' } })]),
    'a merge': () =>
      daemon.capture([
        { event: '$identify', distinct_id: 'cid', properties: { $anon_distinct_id: 'dan' } },
        { event: '$merge_dangerously', distinct_id: 'bob', properties: { alias: 'cid' } },
      ]),
    'a cohort': () => daemon.api('DELETE', `cohorts/${String(cohort['id'])}/`, 1),
    'a time zone': () => daemon.api('PATCH', '', 1, { timezone: 'Pacific/Apia' }),
    'test accounts': () =>
      daemon.api('PATCH', '', 1, { test_account_filters: [{ ...rich, operator: 'is_not' }] }),
    'a person who is deleted': async () => {
      await daemon.api('DELETE', `persons/${String(ann['uuid'])}/?delete_events=true`, 1)
      // Its events are deleted some moments after the answer, which could be between two queries.
      await daemon.until(async () => {
        const { body } = await daemon.api('GET', 'events/?distinct_id=ann', 1)
        return (body['results'] as readonly Json[]).length === 0
      })
    },
  }
  for (const [what, change] of Object.entries(changes)) {
    await change()
    await expectSame(what)
  }
  t.strictSame(
    differences.list(),
    [],
    'every answer equals that of a query that was not sent before',
  )
  t.strictSame([...statuses], [200, 400], 'a deleted cohort is refused')
})

t.test('a cached answer needs no thread', async (t) => {
  const daemon = await shareDecisions()
  await daemon.capture([{ event: 'view', distinct_id: 'ann' }])
  const query = { kind: 'TrendsQuery', series: [{ kind: 'EventsNode', event: 'view' }] }
  const ask = () => daemon.api('POST', 'query/', 1, { query })
  const busySeconds = async (): Promise<number> => {
    const text = await (await fetch(`${daemon.url}/metrics`)).text()
    return Number(/worker_busy_seconds_total\{threads="analytics"\} (\S+)/u.exec(text)?.[1])
  }
  for (let time = 0; time < TIMES; time++) await ask()
  await daemon.until(async () => {
    const before = await busySeconds()
    const { status } = await ask()
    t.equal(status, 200)
    return (await busySeconds()) === before
  })
})
