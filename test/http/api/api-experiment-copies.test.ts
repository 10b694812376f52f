/**
 * Copies of experiments in other projects: their flags and saved metrics, and clear refusals that leave nothing behind.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { resultsOf, shareOrganization } from '../../fixtures/organization-daemon.ts'

type Body = Readonly<Record<string, unknown>>

const daemon = await shareOrganization(t, 3)
const TARGET = daemon.decisions.idOf(2)
const SOURCE = { kind: 'EventsNode', event: 'paid' }
const FUNNEL = { metric_type: 'funnel', series: [SOURCE] }
const VARIANTS = [
  { key: 'control', rollout_percentage: 30 },
  { key: 'test', rollout_percentage: 70 },
]

async function made(path: string, body: Body, project = 1): Promise<Body> {
  const answer = await daemon.ask('POST', daemon.projectPath(project, path), body)
  t.equal(answer.status, 201, JSON.stringify(answer.body))
  return answer.body
}

function copy(experiment: Body, body: Body = {}, key?: string) {
  const path = `experiments/${String(experiment['id'])}/copy_to_project/`
  const wish = { target_team_id: TARGET, ...body }
  return daemon.ask('POST', daemon.projectPath(1, path), wish, key)
}

function cohort(name: string, project: number): Promise<Body> {
  const plan = { type: 'person', key: 'plan', operator: 'exact', value: 'pro' }
  const filters = { properties: { type: 'OR', values: [{ type: 'AND', values: [plan] }] } }
  return made('cohorts/', { name, filters }, project)
}

function ofCohort({ id }: Body, variants: readonly Body[] = VARIANTS) {
  const properties = [{ type: 'cohort', key: 'id', value: id }]
  return { groups: [{ properties, rollout_percentage: 40 }], multivariate: { variants } }
}

async function flagIn(project: number, key: string): Promise<Body | undefined> {
  const flags = await daemon.ask('GET', daemon.projectPath(project, `feature_flags/?search=${key}`))
  return resultsOf(flags).find((flag) => flag['key'] === key)
}

async function countIn(project: number, path: string): Promise<unknown> {
  return (await daemon.ask('GET', daemon.projectPath(project, path))).body['count']
}

t.test('a copy has its own flag and saved metrics, found by name', async (t) => {
  await cohort('Others', 2)
  const [pro, own] = [await cohort('Pro', 1), await cohort('Pro', 2)]
  await made('feature_flags/', { key: 'short-form', filters: ofCohort(pro), active: false })
  const saved = await made('experiment_saved_metrics/', {
    name: 'Paid',
    description: 'In the shop',
    query: { ...FUNNEL, tolerance: 0.1 },
    tags: ['core'],
  })
  const holdout = await made('experiment_holdouts/', {
    name: 'Nobody',
    filters: [{ properties: [], rollout_percentage: 5 }],
  })
  const experiment = await made('experiments/', {
    name: 'Form',
    description: 'Shorter',
    feature_flag_key: 'short-form',
    metrics: [FUNNEL],
    saved_metrics_ids: [{ id: saved['id'], metadata: { type: 'guard' } }],
    holdout_id: holdout['id'],
    parameters: { minimum_detectable_effect: 5 },
    start_date: new Date(Date.now() - 60_000).toISOString(),
  })
  const path = `experiments/${String(experiment['id'])}/ship_variant/`
  await daemon.ask('POST', daemon.projectPath(1, path), { variant_key: 'test' })
  const { status, body } = await copy(experiment)
  t.equal(status, 201, JSON.stringify(body))
  t.match(body, {
    name: 'Form (copy)',
    description: 'Shorter',
    status: 'draft',
    feature_flag_key: 'short-form',
    feature_flag: { team_id: TARGET, active: false },
    holdout: null,
    parameters: { minimum_detectable_effect: 5, feature_flag_variants: VARIANTS },
    metrics: [FUNNEL],
    saved_metrics: [{ metadata: { type: 'guard' }, name: 'Paid', query: { tolerance: 0.1 } }],
  })
  const flag = (await flagIn(2, 'short-form')) ?? {}
  const { groups } = flag['filters'] as { readonly groups: readonly Body[] }
  t.match(groups, ofCohort(own).groups)
  t.equal(groups.length, 1, 'without the condition of the shipped variant')
  t.notOk('holdout' in (flag['filters'] as Body))
  const [link] = body['saved_metrics'] as readonly Body[]
  t.not(link?.['saved_metric'], saved['id'])
  const [metric] = resultsOf(
    await daemon.ask('GET', daemon.projectPath(2, 'experiment_saved_metrics/')),
  )
  t.match(metric, { id: link?.['saved_metric'], description: 'In the shop', tags: ['core'] })
  const again = await copy(experiment, { name: 'Again', feature_flag_key: 'other-form' })
  t.match(again.body, {
    name: 'Again',
    feature_flag_key: 'other-form',
    saved_metrics: [{ saved_metric: link?.['saved_metric'] }],
  })
  const same = await copy(experiment)
  t.match(same.body, {
    name: 'Form (copy 2)',
    feature_flag: { id: (body['feature_flag'] as Body)['id'] },
  })
  t.equal(await countIn(2, 'experiment_saved_metrics/'), 1, 'the saved metric is used again')
  const log = await daemon.ask('GET', 'organizations/@current/audit_log/?limit=1')
  t.match(resultsOf(log), [{ method: 'POST', project_id: TARGET, status: 201 }])
})

t.test('a group type is found by its name', async (t) => {
  const event = (type: string) => {
    return { event: 'seen', distinct_id: 'somebody', properties: { $groups: { [type]: 'x' } } }
  }
  await daemon.decisions.capture([event('company')], 1)
  await daemon.decisions.capture([event('team'), event('company')], 2)
  const experiment = await made('experiments/', {
    name: 'Companies',
    feature_flag_key: 'by-company',
    parameters: { aggregation_group_type_index: 0 },
  })
  // The daemon learns the names of group types a moment after it has stored the events.
  let copies = 0
  await daemon.decisions.until(async () => {
    const { body } = await copy(experiment, { feature_flag_key: `by-company-${copies++}` })
    return (body['parameters'] as Body | undefined)?.['aggregation_group_type_index'] === 1
  })
  const nowhere = { target_team_id: daemon.decisions.idOf(3) }
  t.match(await copy(experiment, nowhere), {
    status: 400,
    body: { code: 'invalid_input', detail: /no group type "company"/ },
  })
  const groups = [
    { type: 'group', key: 'name', operator: 'exact', value: 'x', group_type_index: 0 },
  ]
  const filtered = { metric_type: 'mean', source: { ...SOURCE, properties: groups } }
  const other = await made('experiments/', {
    name: 'Filtered',
    feature_flag_key: 'filtered',
    metrics: [filtered],
  })
  t.match(await copy(other), { status: 400, body: { detail: /the group type 0 by its number/ } })
  const keyed = [{ type: 'event', key: '$group_0', operator: 'exact', value: 'x' }]
  const byKey = await made('experiments/', {
    name: 'Of one company',
    feature_flag_key: 'of-one-company',
    metrics: [{ metric_type: 'mean', source: { ...SOURCE, properties: keyed } }],
  })
  t.match(await copy(byKey), { status: 400, body: { detail: /the group type 0 by its number/ } })
})

t.test('the group type of the flag is that of its conditions, or needs a name', async (t) => {
  const own = { properties: [], rollout_percentage: 100, aggregation_group_type_index: 0 }
  await daemon.decisions.capture(
    [
      {
        event: 'seen',
        distinct_id: 'somebody',
        properties: { $groups: { team: 'x', company: 'x', shop: 'x' } },
      },
    ],
    2,
  )
  const filters = { groups: [own], multivariate: { variants: VARIANTS } }
  const flag = await made('feature_flags/', { key: 'shipped-by-condition', filters })
  const experiment = await made('experiments/', {
    name: 'Shipped',
    feature_flag_key: 'shipped-by-condition',
    start_date: new Date(Date.now() - 60_000).toISOString(),
  })
  const path = `experiments/${String(experiment['id'])}/ship_variant/`
  await daemon.ask('POST', daemon.projectPath(1, path), { variant_key: 'test' })
  const flagPath = daemon.projectPath(1, `feature_flags/${String(flag['id'])}/`)
  const shipped = (await daemon.ask('GET', flagPath)).body['filters'] as {
    readonly groups: readonly Body[]
  }
  const onlyShipped = { ...shipped, groups: shipped.groups.slice(0, 1) }
  t.equal((await daemon.ask('PATCH', flagPath, { filters: onlyShipped })).status, 200)
  t.match(await copy(experiment), {
    status: 201,
    body: { parameters: { aggregation_group_type_index: 1 } },
  })
  const unnamed = await made('experiments/', {
    name: 'Unnamed',
    feature_flag_key: 'unnamed-type',
    parameters: { aggregation_group_type_index: 2 },
  })
  // The daemon learns the names of group types a moment after it has stored the events.
  let copies = 0
  let refused: Awaited<ReturnType<typeof copy>> | undefined
  await daemon.decisions.until(async () => {
    refused = await copy(unnamed, { feature_flag_key: `unnamed-type-${copies++}` })
    return refused.status !== 201
  })
  t.match(refused, {
    status: 400,
    body: { code: 'invalid_input', detail: /group type 2, which has no name yet.*"shop"/ },
  })
})

t.test('a copy that is not possible leaves nothing behind', async (t) => {
  const create = (name: string, body: Body = {}) =>
    made('experiments/', { name, feature_flag_key: name, ...body })
  const saved = await made('experiment_saved_metrics/', { name: 'Different', query: FUNNEL })
  await made(
    'experiment_saved_metrics/',
    { name: 'different', query: { metric_type: 'mean', source: SOURCE } },
    2,
  )
  const plain = await create('plain-copy')
  const links = [{ id: saved['id'] }]
  const clashing = await create('clashing', { saved_metrics_ids: links })
  const acting = { metric_type: 'funnel', series: [{ kind: 'ActionsNode', id: 1 }] }
  const action = await create('with-action', { metrics: [acting] })
  const exposure_config = {
    kind: 'ExperimentEventExposureConfig',
    event: 'seen',
    properties: [{ type: 'cohort', key: 'id', value: 1 }],
  }
  const exposed = await create('with-cohort', { exposure_criteria: { exposure_config } })
  const alone = ofCohort(await cohort('Only here', 1))
  await made('feature_flags/', { key: 'lacking', filters: alone })
  const lacking = await create('lacking')
  const gone = await create('gone')
  const { id } = gone['feature_flag'] as Body
  await daemon.ask('PATCH', daemon.projectPath(1, `feature_flags/${String(id)}/`), {
    deleted: true,
  })
  await made('feature_flags/', { key: 'no-variants' }, 2)
  const deleted = await create('deleted')
  const path = daemon.projectPath(1, `experiments/${String(deleted['id'])}/`)
  await daemon.ask('PATCH', path, { deleted: true })
  const counts = async () => [
    await countIn(2, 'experiments/'),
    await countIn(2, 'feature_flags/'),
    await countIn(2, 'experiment_saved_metrics/'),
  ]
  const before = await counts()
  const differences = new Differences()
  type Row = readonly [Body, Body, number, string, RegExp]
  const rows: readonly Row[] = [
    [plain, { target_team_id: undefined }, 400, 'required', /target_team_id/],
    [plain, { target_team_id: 'two' }, 400, 'invalid_input', /target_team_id/],
    [plain, { target_team_id: daemon.decisions.idOf(1) }, 400, 'invalid_input', /duplicate/],
    [plain, { target_team_id: 4_000_000 }, 404, 'not_found', /target project/],
    [plain, { feature_flag_key: 'no-variants' }, 400, 'invalid_input', /has no variants/],
    [plain, { feature_flag_key: 'a b' }, 400, 'invalid_key', /letters/],
    [plain, { name: 'x'.repeat(401) }, 400, 'max_length', /400/],
    [clashing, {}, 400, 'unique', /another saved metric with the name "Different"/],
    [action, {}, 400, 'invalid_input', /an action by its number/],
    [exposed, {}, 400, 'invalid_input', /a cohort by its number/],
    [lacking, {}, 400, 'invalid_input', /no cohort "Only here".*copy_flags/],
    [gone, {}, 400, 'invalid_input', /flag `gone` is deleted/],
    [deleted, {}, 404, 'not_found', /no such experiment/],
    [{ id: 4_000_000 }, {}, 404, 'not_found', /no such experiment/],
  ]
  for (const [experiment, body, status, code, detail] of rows) {
    const answer = await copy(experiment, body)
    const name = `${String(experiment['name'])} ${JSON.stringify(body)}`
    differences.same([answer.status, answer.body['code']], [status, code], name)
    differences.match(answer.body['detail'], detail, name)
  }
  t.strictSame(differences.list(), [])
  t.strictSame(await counts(), before)
})

t.test('the caller needs rights in both projects', async (t) => {
  const saved = await made('experiment_saved_metrics/', { name: 'Rights', query: FUNNEL })
  const plain = await made('experiments/', { name: 'Rights', feature_flag_key: 'rights' })
  const linked = await made('experiments/', {
    name: 'Linked',
    feature_flag_key: 'linked',
    saved_metrics_ids: [{ id: saved['id'] }],
  })
  const ann = daemon.somebody({ email: 'ann@copies.example', firstName: 'Ann' })
  const viewer = daemon.somebody({ email: 'viewer@copies.example', level: 0 })
  const keyOf = (scopes: readonly string[], projectIds?: readonly number[]) =>
    daemon.keyOf({
      userId: ann.user.id,
      scopes,
      ...(projectIds === undefined ? {} : { projectIds }),
    })
  const writer = keyOf(['experiment:write'])
  const ofSource = keyOf(['experiment:write'], [daemon.decisions.idOf(1)])
  const ofTarget = keyOf(['experiment:write'], [TARGET])
  await daemon.settled()
  const refused = { status: 403, body: { code: 'permission_denied' } }
  for (const [name, key] of [
    ['only the source', ofSource],
    ['only the target', ofTarget],
    ['a viewer', viewer.key],
  ] as const) {
    t.match(await copy(plain, {}, key), refused, name)
  }
  t.match(await copy(linked, {}, writer), refused, 'no right to the saved metrics')
  t.equal(await flagIn(2, 'linked'), undefined)
  t.match(await copy(plain, {}, writer), {
    status: 201,
    body: { created_by: { first_name: 'Ann' } },
  })
  t.equal((await copy(linked, {}, ann.key)).status, 201)
})
