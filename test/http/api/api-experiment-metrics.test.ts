/**
 * Saved metrics over HTTP: their own routes, their use by experiments, and what a change or a removal means for results.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { resultsOf, shareOrganization } from '../../fixtures/organization-daemon.ts'

type Body = Readonly<Record<string, unknown>>

const daemon = await shareOrganization(t)
const EXPERIMENTS = daemon.projectPath(1, 'experiments/')
const METRICS = daemon.projectPath(1, 'experiment_saved_metrics/')
const SOURCE = { kind: 'EventsNode', event: 'paid' }
const FUNNEL = { metric_type: 'funnel', series: [SOURCE] }
const PAYMENTS = { metric_type: 'mean', source: SOURCE }

let made = 0

async function save(body: Body = {}): Promise<Body> {
  made++
  const draft = { name: `Saved ${made}`, query: FUNNEL, ...body }
  const { status, body: metric } = await daemon.ask('POST', METRICS, draft)
  t.equal(status, 201, JSON.stringify(metric))
  return metric
}

/** Creates an experiment with a flag of its own. */
async function create(body: Body = {}): Promise<Body> {
  made++
  const draft = { name: `Experiment ${made}`, feature_flag_key: `with-saved-${made}`, ...body }
  const { status, body: experiment } = await daemon.ask('POST', EXPERIMENTS, draft)
  t.equal(status, 201, JSON.stringify(experiment))
  return experiment
}

function change(path: string, { id }: Body, body: Body) {
  return daemon.ask('PATCH', `${path}${String(id)}/`, body)
}

function remove({ id }: Body) {
  return daemon.ask('DELETE', `${METRICS}${String(id)}/`)
}

function link({ id }: Body, type = 'primary') {
  return { id, metadata: { type } }
}

t.test('a saved metric is created, listed, changed and removed', async (t) => {
  const metric = await save({ name: 'Signed up', description: 'The form was sent.' })
  t.match(metric, {
    name: 'Signed up',
    description: 'The form was sent.',
    query: { kind: 'ExperimentMetric', ...FUNNEL, uuid: /^[0-9a-f-]{36}$/ },
    tags: [],
    created_by: { email: String },
    user_access_level: 'editor',
  })
  await save({ name: 'activated' })
  const found = await daemon.ask('GET', `${METRICS}?search=SIGN`)
  t.match(found.body, { count: 1, results: [metric] })
  const names = resultsOf(await daemon.ask('GET', METRICS)).map(({ name }) => name)
  t.strictSame(names.slice(0, 2), ['activated', 'Signed up'], 'by name, ignoring case')
  const { uuid } = metric['query'] as Body
  const changed = await change(METRICS, metric, {
    description: null,
    query: PAYMENTS,
    tags: ['money', 'core'],
  })
  t.match(changed.body, {
    name: 'Signed up',
    description: null,
    query: { kind: 'ExperimentMetric', ...PAYMENTS, uuid },
    tags: ['money', 'core'],
  })
  t.strictSame((await daemon.ask('GET', `${METRICS}${String(metric['id'])}/`)).body, changed.body)
  t.equal((await remove(metric)).status, 204)
  t.equal((await remove(metric)).status, 404)
  t.equal((await change(METRICS, metric, { name: 'x' })).status, 404)
  t.equal((await daemon.ask('GET', `${METRICS}${String(metric['id'])}/`)).status, 404)
})

t.test('a saved metric that is none is refused', async (t) => {
  const taken = await save({ name: 'Taken' })
  const differences = new Differences()
  const rows: readonly (readonly [string, Body, string, string, RegExp])[] = [
    ['no name', { name: undefined }, 'required', 'name', /missing/],
    ['no metric', { query: undefined }, 'required', 'query', /missing/],
    ['a taken name', { name: 'tAKEN' }, 'unique', 'name', /already has a saved metric/],
    ['a text', { query: 'mean' }, 'invalid_input', 'query', /`query` must be an object/],
    ['null', { query: null }, 'invalid_input', 'query', /`query` must be an object/],
    ['no type', { query: {} }, 'invalid_choice', 'query', /query.metric_type.*funnel, mean/],
    [
      'an older kind',
      { query: { kind: 'ExperimentTrendsQuery' } },
      'invalid_input',
      'query',
      /older kind/,
    ],
    [
      'a metric that no query computes',
      { query: { metric_type: 'mean', source: { ...SOURCE, math: 'sum' } } },
      'invalid_input',
      'query',
      /math_property/,
    ],
    [
      'a metric that is too long',
      { query: { ...FUNNEL, name: 'x'.repeat(70_000) } },
      'invalid_input',
      'query',
      /at most 65536 characters/,
    ],
    ['a tag that is no text', { tags: [1] }, 'invalid_input', 'tags', /tags/],
    ['a long name', { name: 'x'.repeat(401) }, 'max_length', 'name', /400/],
  ]
  for (const [name, body, code, attr, detail] of rows) {
    const answer = await daemon.ask('POST', METRICS, { name: 'never', query: FUNNEL, ...body })
    const { code: found, attr: field, detail: text } = answer.body
    differences.same([answer.status, found, field], [400, code, attr], name)
    differences.match(text, detail, name)
  }
  t.strictSame(differences.list(), [])
  t.strictSame(resultsOf(await daemon.ask('GET', `${METRICS}?search=never`)), [])
  const other = await change(METRICS, taken, { query: { ...FUNNEL, uuid: 'other' } })
  t.match(other, { status: 400, body: { code: 'invalid_input', attr: 'query', detail: /uuid/ } })
  t.equal((await change(METRICS, taken, { name: 'TAKEN' })).status, 200, 'its own name is free')
})

t.test('PUT needs the name and the metric, and keeps the other members', async (t) => {
  const metric = await save({ description: 'Kept', tags: ['core'] })
  const path = `${METRICS}${String(metric['id'])}/`
  for (const attr of ['name', 'query']) {
    const body = { name: 'Whole', query: PAYMENTS, [attr]: undefined }
    t.match(await daemon.ask('PUT', path, body), { status: 400, body: { code: 'required', attr } })
  }
  const { uuid } = metric['query'] as Body
  const put = await daemon.ask('PUT', path, { name: 'Whole', query: PAYMENTS })
  t.match(put, {
    status: 200,
    body: { name: 'Whole', description: 'Kept', tags: ['core'], query: { ...PAYMENTS, uuid } },
  })
  t.equal((await daemon.ask('PUT', `${METRICS}4000000/`, { name: 'x', query: {} })).status, 404)
  const taken = await save()
  const again = { name: taken['name'], query: PAYMENTS }
  t.match(await daemon.ask('PUT', path, again), { status: 400, body: { code: 'unique' } })
})

t.test('a saved metric can be a guard metric', async (t) => {
  const metric = await save({ query: { ...PAYMENTS, tolerance: 0.02 } })
  const links = [link(metric, 'guard')]
  const experiment = await create({ saved_metrics_ids: links })
  t.match(experiment['saved_metrics'], [
    { metadata: { type: 'guard' }, query: { tolerance: 0.02 }, name: metric['name'] },
  ])
  const metrics_guard = Array.from({ length: 20 }, () => FUNNEL)
  const full = await change(EXPERIMENTS, experiment, { metrics_guard })
  t.match(full, { status: 400, body: { detail: /at most 20 guard metrics/ } })
  const moved = { metrics_guard, saved_metrics_ids: [link(metric, 'secondary')] }
  t.equal((await change(EXPERIMENTS, experiment, moved)).status, 200)
})

t.test('an experiment uses saved metrics', async (t) => {
  const [first, second] = [await save(), await save({ query: PAYMENTS })]
  const experiment = await create({ saved_metrics_ids: [{ id: first['id'] }] })
  t.match(experiment['saved_metrics'], [
    {
      id: Number,
      experiment: experiment['id'],
      saved_metric: first['id'],
      metadata: { type: 'primary' },
      created_at: String,
      query: first['query'],
      name: first['name'],
    },
  ])
  t.strictSame(experiment['metrics'], [])
  t.notOk('saved_metrics_ids' in experiment)
  const links = [link(second, 'secondary'), link(first, 'secondary')]
  const changed = await change(EXPERIMENTS, experiment, { saved_metrics_ids: links })
  const [, kept] = changed.body['saved_metrics'] as readonly Body[]
  t.match(changed.body['saved_metrics'], [
    { saved_metric: second['id'], metadata: { type: 'secondary' } },
    { saved_metric: first['id'], metadata: { type: 'secondary' } },
  ])
  t.equal(kept?.['id'], (experiment['saved_metrics'] as readonly Body[])[0]?.['id'])
  const renamed = await change(EXPERIMENTS, experiment, { name: 'With others' })
  t.strictSame(renamed.body['saved_metrics'], changed.body['saved_metrics'], 'they stay')
  const path = `${EXPERIMENTS}${String(experiment['id'])}/`
  const copy = await daemon.ask('POST', `${path}duplicate/`, { feature_flag_key: 'copy-of-links' })
  const usesOf = ({ saved_metrics: uses }: Body) =>
    (uses as readonly Body[]).map(({ saved_metric, metadata }) => ({ saved_metric, metadata }))
  t.strictSame(usesOf(copy.body), usesOf(changed.body), 'a copy uses the same')
  const none = await change(EXPERIMENTS, experiment, { saved_metrics_ids: null })
  t.strictSame(none.body['saved_metrics'], [])
})

t.test('an own metric and a saved metric never share a UUID', async (t) => {
  const metric = await save()
  const { uuid } = metric['query'] as Body
  const own = { ...PAYMENTS, uuid }
  const experiment = await create({ metrics: [own] })
  t.match(experiment['metrics'], [{ uuid }])
  const linked = await change(EXPERIMENTS, experiment, { saved_metrics_ids: [link(metric)] })
  t.match(linked.body['saved_metrics'], [{ query: { uuid } }])
  t.match(linked.body['metrics'], [{ ...PAYMENTS, uuid: /^[0-9a-f-]{36}$/ }])
  t.not((linked.body['metrics'] as readonly Body[])[0]?.['uuid'], uuid)
})

t.test('saved metrics that cannot be used are refused', async (t) => {
  const metric = await save()
  const experiment = await create({ metrics: Array.from({ length: 20 }, () => FUNNEL) })
  const differences = new Differences()
  const rows: readonly (readonly [unknown, string, RegExp])[] = [
    ['a', 'not_a_list', /list/],
    [[7], 'invalid_input', /\{"id": 1\}/],
    [[{}], 'invalid_input', /number of a saved metric as `id`/],
    [[{ id: '1' }], 'invalid_input', /number of a saved metric as `id`/],
    [[{ id: 4_000_000 }], 'does_not_exist', /saved metric 4000000/],
    [[{ id: 1e300 }], 'does_not_exist', /saved metric 1e\+300/],
    [[link(metric), link(metric)], 'invalid_input', /twice/],
    [[{ id: metric['id'], metadata: {} }], 'invalid_input', /metadata.type/],
    [[{ id: metric['id'], metadata: [] }], 'invalid_input', /metadata.type/],
    [[link(metric, 'other')], 'invalid_input', /primary, secondary or guard/],
    [[link(metric)], 'invalid_input', /at most 20 primary metrics/],
    [Array.from({ length: 61 }, () => link(metric)), 'invalid_input', /at most 60/],
  ]
  for (const [links, code, detail] of rows) {
    const answer = await change(EXPERIMENTS, experiment, { saved_metrics_ids: links })
    const { status, body } = answer
    const name = JSON.stringify(links)
    differences.same([status, body['code'], body['attr']], [400, code, 'saved_metrics_ids'], name)
    differences.match(body['detail'], detail, name)
  }
  t.strictSame(differences.list(), [])
  const elsewhere = await daemon.ask('POST', daemon.projectPath(2, 'experiments/'), {
    name: 'x',
    feature_flag_key: 'elsewhere',
    saved_metrics_ids: [link(metric)],
  })
  t.match(elsewhere, { status: 400, body: { code: 'does_not_exist' } }, 'of another project')
  const links = [link(metric, 'secondary')]
  t.equal((await change(EXPERIMENTS, experiment, { saved_metrics_ids: links })).status, 200)
})

t.test('a saved metric counts in results like a metric of the experiment', async (t) => {
  const [funnel, payments] = [await save(), await save({ query: { ...PAYMENTS, name: 'Own' } })]
  const experiment = await create({
    metrics: [FUNNEL],
    metrics_secondary: [PAYMENTS],
    saved_metrics_ids: [link(funnel), link(payments, 'secondary')],
    start_date: new Date(Date.now() - 60_000).toISOString(),
  })
  const timestamp = new Date().toISOString()
  const events = ['test', 'control', 'test'].flatMap((variant, person) => {
    const distinct_id = `saved-${person}`
    const properties = {
      $feature_flag: experiment['feature_flag_key'],
      $feature_flag_response: variant,
    }
    const called = { event: '$feature_flag_called', distinct_id, timestamp, properties }
    return person === 1 ? [called] : [called, { event: 'paid', distinct_id, timestamp }]
  })
  await daemon.decisions.capture(events)
  const query = { kind: 'ExperimentQuery', experiment_id: experiment['id'] }
  const { status, body } = await daemon.ask('POST', daemon.projectPath(1, 'query/'), { query })
  t.equal(status, 200, JSON.stringify(body))
  const numbers = { baseline: { sum: 0 }, variant_results: [{ number_of_samples: 2, sum: 2 }] }
  t.match(body, {
    primary_metrics: [
      numbers,
      { ...numbers, metric: { uuid: (funnel['query'] as Body)['uuid'], name: funnel['name'] } },
    ],
    secondary_metrics: [numbers, { ...numbers, metric: { name: 'Own' } }],
  })
})

t.test('a change of a saved metric is a change of the running experiments', async (t) => {
  const metric = await save()
  const draft = await create({ saved_metrics_ids: [link(metric)] })
  const running = await create({ saved_metrics_ids: [link(metric)] })
  const other = await create()
  for (const one of [running, other]) {
    await daemon.ask('POST', `${EXPERIMENTS}${String(one['id'])}/launch/`)
  }
  const changesOf = async ({ id }: Body) =>
    (await daemon.ask('GET', `${EXPERIMENTS}${String(id)}/`)).body['changed_while_running']
  await change(METRICS, metric, { name: 'Another name', query: metric['query'] })
  t.strictSame(await changesOf(running), [], 'the metric is the same')
  await change(METRICS, metric, { query: PAYMENTS })
  t.match(await changesOf(running), [{ change: 'metrics', by: { email: String } }])
  t.strictSame([await changesOf(draft), await changesOf(other)], [[], []])
  await change(EXPERIMENTS, running, { saved_metrics_ids: [link(metric)] })
  t.equal(((await changesOf(running)) as readonly unknown[]).length, 1, 'the same links')
  await change(EXPERIMENTS, running, { saved_metrics_ids: [link(metric, 'secondary')] })
  t.match(await changesOf(running), [{ change: 'metrics' }, { change: 'metrics' }])
})

t.test('a saved metric in use is not removed', async (t) => {
  const metric = await save()
  const experiment = await create({ name: 'User', saved_metrics_ids: [link(metric)] })
  const second = await create({ saved_metrics_ids: [link(metric)] })
  const detail = new RegExp(`experiment ${String(experiment['id'])} \\("User"\\) and 1 more`)
  t.match(await remove(metric), {
    status: 400,
    body: { type: 'validation_error', code: 'invalid_input', attr: null, detail },
  })
  t.equal((await daemon.ask('GET', `${METRICS}${String(metric['id'])}/`)).status, 200)
  await change(EXPERIMENTS, experiment, { saved_metrics_ids: [] })
  await change(EXPERIMENTS, second, { deleted: true })
  t.equal((await remove(metric)).status, 204, 'a deleted experiment does not count')
  const restored = await change(EXPERIMENTS, second, { deleted: false })
  t.match(restored, { status: 200, body: { saved_metrics: [] } })
})

t.test('routes of saved metrics need their scope, and changes are in the audit log', async (t) => {
  const ann = daemon.somebody({ email: 'ann@metrics.example', firstName: 'Ann' })
  const key = daemon.keyOf({ userId: ann.user.id, scopes: ['experiment:write'] })
  const reader = daemon.keyOf({ userId: ann.user.id, scopes: ['experiment_saved_metric:read'] })
  await daemon.settled()
  t.equal((await daemon.ask('GET', METRICS, undefined, key)).status, 403)
  t.equal((await daemon.ask('GET', METRICS, undefined, reader)).status, 200)
  t.equal((await daemon.ask('POST', METRICS, { name: 'x', query: FUNNEL }, reader)).status, 403)
  const metric = await save()
  await change(METRICS, metric, { name: 'Renamed' })
  await change(METRICS, metric, { query: {} })
  await remove(metric)
  const log = await daemon.ask('GET', 'organizations/@current/audit_log/?limit=4')
  const entries = resultsOf(log).map(({ method, route, object_id, status }) => {
    return [method, String(route).replace('/api/projects/:project_id/', ''), object_id, status]
  })
  const id = String(metric['id'])
  t.strictSame(entries, [
    ['DELETE', 'experiment_saved_metrics/:id/', id, 204],
    ['PATCH', 'experiment_saved_metrics/:id/', id, 400],
    ['PATCH', 'experiment_saved_metrics/:id/', id, 200],
    ['POST', 'experiment_saved_metrics/', id, 201],
  ])
})
