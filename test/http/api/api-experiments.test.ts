/**
 * Experiments and holdouts over HTTP: their life from a draft to a shipped variant, their flags, and clear refusals.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { resultsOf, shareOrganization } from '../../fixtures/organization-daemon.ts'

const daemon = await shareOrganization(t)
const EXPERIMENTS = daemon.projectPath(1, 'experiments/')
const HOLDOUTS = daemon.projectPath(1, 'experiment_holdouts/')
const FLAGS = daemon.projectPath(1, 'feature_flags/')
const VARIANTS = [
  { key: 'control', rollout_percentage: 50 },
  { key: 'test', rollout_percentage: 50 },
]
const METRIC = {
  metric_type: 'funnel',
  series: [{ kind: 'EventsNode', event: 'signed_up' }],
}
const EVERYBODY = [{ properties: [], rollout_percentage: 100 }]
const OF_GROUPS = { properties: [], rollout_percentage: 100, aggregation_group_type_index: 0 }

type Body = Readonly<Record<string, unknown>>

const KEYS: readonly unknown[] = ['control', 'test']

let made = 0

/** Creates an experiment with a flag of its own. */
async function create(body: Body = {}): Promise<Body> {
  made++
  const draft = { name: `Experiment ${made}`, feature_flag_key: `experiment-${made}`, ...body }
  const answer = await daemon.ask('POST', EXPERIMENTS, draft)
  t.equal(answer.status, 201, JSON.stringify(answer.body))
  return answer.body
}

function step(experiment: Body, name: string, body?: Body) {
  return daemon.ask('POST', `${EXPERIMENTS}${String(experiment['id'])}/${name}/`, body)
}

function change(experiment: Body, body: Body) {
  return daemon.ask('PATCH', `${EXPERIMENTS}${String(experiment['id'])}/`, body)
}

/** Returns the flag of an experiment, as the routes of flags show it. */
async function flagOf(experiment: Body): Promise<Body> {
  const { id } = experiment['feature_flag'] as { readonly id: number }
  return (await daemon.ask('GET', `${FLAGS}${id}/`)).body
}

function changeFlag(experiment: Body, body: Body) {
  const { id } = experiment['feature_flag'] as { readonly id: number }
  return daemon.ask('PATCH', `${FLAGS}${id}/`, body)
}

/** Returns the plan that changes one flag to the state in a file. */
async function planFor(flag: Body): Promise<Body> {
  return (await daemon.ask('POST', `${FLAGS}plan/`, { flags: [flag], sample: 0 })).body
}

/** Returns the variant that the flag of an experiment has for a distinct ID, or false. */
async function variantOf(experiment: Body, distinctId: string): Promise<unknown> {
  const { body } = await daemon.decisions.decide('/flags/?v=2', { distinct_id: distinctId })
  const flags = body['flags'] as Readonly<Record<string, Body>>
  const flag = flags[String(experiment['feature_flag_key'])]
  return flag?.['enabled'] === true ? flag['variant'] : false
}

function refusal(code: string, attr: string | null, detail: RegExp) {
  return { status: 400, body: { type: 'validation_error', code, attr, detail } }
}

t.test('a draft has a flag that is off, with its variants', async (t) => {
  const experiment = await create({
    description: 'Shorter form',
    parameters: { feature_flag_variants: VARIANTS, minimum_detectable_effect: 10 },
    metrics: [METRIC],
  })
  t.match(experiment, {
    description: 'Shorter form',
    type: 'product',
    status: 'draft',
    start_date: null,
    end_date: null,
    archived: false,
    deleted: false,
    conclusion: null,
    holdout: null,
    holdout_id: null,
    exposure_cohort: null,
    exposure_criteria: { filterTestAccounts: true },
    parameters: { feature_flag_variants: VARIANTS, minimum_detectable_effect: 10 },
    metrics: [{ ...METRIC, kind: 'ExperimentMetric', uuid: /^[0-9a-f-]{36}$/ }],
    metrics_secondary: [],
    metrics_guard: [],
    saved_metrics: [],
    changed_while_running: [],
    created_by: { email: String },
    feature_flag: { key: experiment['feature_flag_key'], active: false, has_experiment: true },
  })
  t.match(await flagOf(experiment), {
    active: false,
    experiment_set: [experiment['id']],
    filters: { groups: EVERYBODY, multivariate: { variants: VARIANTS } },
  })
  const read = await daemon.ask('GET', `${EXPERIMENTS}${String(experiment['id'])}/`)
  t.strictSame(read.body, experiment)
})

t.test('without variants, a new flag has control and test', async (t) => {
  const experiment = await create()
  t.strictSame(experiment['parameters'], { feature_flag_variants: VARIANTS })
})

t.test('split_percent is another name of rollout_percentage', async (t) => {
  const variants = [
    { key: 'control', split_percent: 20 },
    { key: 'b', split_percent: 80 },
  ]
  const experiment = await create({ parameters: { feature_flag_variants: variants } })
  t.strictSame(experiment['parameters'], {
    feature_flag_variants: [
      { key: 'control', rollout_percentage: 20 },
      { key: 'b', rollout_percentage: 80 },
    ],
  })
})

t.test('an experiment adopts a flag with variants, and not any other flag', async (t) => {
  const filters = { groups: EVERYBODY, multivariate: { variants: VARIANTS } }
  const flag = await daemon.ask('POST', FLAGS, { key: 'adopted', filters, active: false })
  const experiment = await create({ feature_flag_key: 'adopted' })
  t.match(experiment['feature_flag'], { id: flag.body['id'], active: false })
  await daemon.ask('POST', FLAGS, { key: 'plain' })
  const others = {
    groups: EVERYBODY,
    multivariate: {
      variants: [
        { key: 'a', rollout_percentage: 50 },
        { key: 'b', rollout_percentage: 50 },
      ],
    },
  }
  await daemon.ask('POST', FLAGS, { key: 'without-control', filters: others })
  const group = { ...filters, groups: [...EVERYBODY, OF_GROUPS] }
  await daemon.ask('POST', FLAGS, { key: 'by-both', filters: group })
  const attempt = (key: string, body: Body = {}) =>
    daemon.ask('POST', EXPERIMENTS, { name: 'x', feature_flag_key: key, ...body })
  t.match(await attempt('plain'), refusal('invalid_input', 'feature_flag_key', /has no variants/))
  t.match(
    await attempt('without-control'),
    refusal('invalid_input', 'feature_flag_key', /a variant with the key `control`.*are a, b/),
  )
  t.match(
    await attempt('by-both'),
    refusal('invalid_input', 'feature_flag_key', /different group types/),
  )
  t.match(
    await attempt('adopted', { parameters: { aggregation_group_type_index: 0 } }),
    refusal('invalid_input', 'parameters', /is decided for persons/),
  )
  const wanted = [
    { key: 'control', rollout_percentage: 10 },
    { key: 'c', rollout_percentage: 90 },
  ]
  t.match(
    await attempt('adopted', { parameters: { feature_flag_variants: wanted } }),
    refusal('invalid_input', 'parameters', /other variants.*control, test/),
  )
})

t.test('an experiment counts the groups for which its flag is decided', async (t) => {
  const draft = await create({
    parameters: { aggregation_group_type_index: 0 },
    metrics: [{ metric_type: 'mean', source: { kind: 'EventsNode', event: 'paid' } }],
  })
  t.match(draft['parameters'], { aggregation_group_type_index: 0 })
  t.match((await flagOf(draft))['filters'], { aggregation_group_type_index: 0 })
  const persons = await change(draft, { parameters: { aggregation_group_type_index: null } })
  t.notOk('aggregation_group_type_index' in (persons.body['parameters'] as Body))
  t.equal((await change(draft, { parameters: { aggregation_group_type_index: 0 } })).status, 200)
  const start_date = new Date(Date.now() - 60_000).toISOString()
  const running = (await change(draft, { start_date })).body
  t.equal((await change(running, { parameters: running['parameters'] })).status, 200, 'sent back')
  t.match(
    await change(running, { parameters: { aggregation_group_type_index: 1 } }),
    refusal('invalid_input', 'parameters', /for the groups of type 0/),
  )
  const timestamp = new Date().toISOString()
  const key = running['feature_flag_key']
  const called = (company: string | null, variant: string) => ({
    event: '$feature_flag_called',
    distinct_id: `person-${variant}-${company}`,
    timestamp,
    properties: {
      $feature_flag: key,
      $feature_flag_response: variant,
      ...(company === null ? {} : { $groups: { company } }),
    },
  })
  const paid = (company: string) => ({
    event: 'paid',
    distinct_id: 'nobody-exposed',
    timestamp,
    properties: { $groups: { company } },
  })
  await daemon.decisions.capture([
    called('a', 'control'),
    called('b', 'test'),
    called('c', 'test'),
    called(null, 'test'),
    called('', 'control'),
    paid('b'),
    paid('b'),
    paid('unknown'),
  ])
  const ask = async (query: Body, id = running['id']) =>
    (
      await daemon.ask('POST', daemon.projectPath(1, 'query/'), {
        query: { experiment_id: id, ...query },
      })
    ).body
  const counted = {
    aggregation_group_type_index: 0,
    exposures_without_group: 2,
    exposed_persons: { control: 1, test: 2 },
  }
  const numbers = { baseline: { sum: 0 }, variant_results: [{ number_of_samples: 2, sum: 2 }] }
  t.match(await ask({ kind: 'ExperimentQuery' }), { ...counted, primary_metrics: [numbers] })
  t.match(await ask({ kind: 'ExperimentExposureQuery' }), {
    ...counted,
    total_exposures: { control: 1, test: 2 },
  })
  await changeFlag(running, {
    filters: { groups: EVERYBODY, multivariate: { variants: VARIANTS } },
  })
  t.match(await ask({ kind: 'ExperimentQuery' }), counted, 'as at the launch')
  t.match(
    await step(running, 'create_exposure_cohort_for_experiment'),
    refusal('invalid_input', null, /counts groups/),
  )
  const copy = await step(running, 'duplicate', { feature_flag_key: 'copy-by-group' })
  t.match(copy.body['parameters'], { aggregation_group_type_index: 0 })
  const reset = (await step(running, 'reset')).body
  t.notOk('aggregation_group_type_index' in (reset['parameters'] as Body), 'that of the flag')
  const unseen = { parameters: { aggregation_group_type_index: 4 }, start_date }
  const nobody = await ask({ kind: 'ExperimentExposureQuery' }, (await create(unseen))['id'])
  t.match(nobody, { exposures_without_group: 0, sample_ratio: { not_enough_data: 'no_exposures' } })
})

t.test('the group type of a flag may be that of its conditions', async (t) => {
  const key = 'by-condition'
  const filters = { groups: [OF_GROUPS, OF_GROUPS], multivariate: { variants: VARIANTS } }
  t.equal((await daemon.ask('POST', FLAGS, { key, filters })).status, 201)
  const draft = await create({ feature_flag_key: key })
  const typesOf = async () =>
    ((await flagOf(draft))['filters'] as { readonly groups: readonly Body[] }).groups.map(
      (one) => one['aggregation_group_type_index'],
    )
  for (const index of [1, null, 0]) {
    const parameters = { aggregation_group_type_index: index }
    const { status, body } = await change(draft, { parameters })
    t.equal(status, 200)
    const { aggregation_group_type_index: shown = null } = body['parameters'] as Body
    t.equal(shown, index)
    t.strictSame(await typesOf(), [index, index])
  }
  await changeFlag(draft, { filters })
  await step(draft, 'launch')
  for (const variant_key of ['test', 'control']) {
    t.equal((await step(draft, 'ship_variant', { variant_key })).status, 200, variant_key)
    t.strictSame(await typesOf(), [0, 0, 0], 'the condition for all has the group type, too')
  }
  const copy = await step(draft, 'duplicate', {})
  t.equal(copy.status, 201, 'the flag still has one group type')
  t.match(copy.body['parameters'], { aggregation_group_type_index: 0 })
})

t.test('bad input is refused with a reason, and nothing is created', async (t) => {
  const count = async () => (await daemon.ask('GET', EXPERIMENTS)).body['count']
  const before = await count()
  const metric = (one: Body) => ({ metrics: [one] })
  const variants = (list: unknown) => ({ parameters: { feature_flag_variants: list } })
  type Row = readonly [string, Body, string, string, RegExp]
  const rows: readonly Row[] = [
    ['no name', { name: undefined }, 'required', 'name', /missing/],
    ['no key', { feature_flag_key: undefined }, 'required', 'feature_flag_key', /missing/],
    ['a key with spaces', { feature_flag_key: 'a b' }, 'invalid_key', 'key', /letters, digits/],
    ['no variants', variants([]), 'invalid_input', 'parameters', /control` and at least one more/],
    [
      'one variant',
      variants([{ key: 'control', rollout_percentage: 100 }]),
      'invalid_input',
      'parameters',
      /besides `control`/,
    ],
    [
      'no control',
      variants([
        { key: 'a', rollout_percentage: 50 },
        { key: 'b', rollout_percentage: 50 },
      ]),
      'invalid_input',
      'parameters',
      /key `control`/,
    ],
    [
      'shares below 100',
      variants([
        { key: 'control', rollout_percentage: 10 },
        { key: 'b', rollout_percentage: 50 },
      ]),
      'invalid_input',
      'parameters',
      /adds up to 100, not 60/,
    ],
    [
      'the same variant twice',
      variants([VARIANTS[0], VARIANTS[0]]),
      'invalid_input',
      'parameters',
      /twice|besides/,
    ],
    [
      'a variant without a share',
      variants([{ key: 'control' }, { key: 'b', rollout_percentage: 50 }]),
      'invalid_input',
      'parameters',
      /feature_flag_variants.0/,
    ],
    ['variants that are no list', variants('a'), 'invalid_input', 'parameters', /a list/],
    [
      'an unknown group type',
      { parameters: { aggregation_group_type_index: 5 } },
      'invalid_input',
      'parameters',
      /whole number from 0 to 4, or null/,
    ],
    [
      'a group type that is a text',
      { parameters: { aggregation_group_type_index: 'company' } },
      'invalid_input',
      'parameters',
      /whole number from 0 to 4, or null/,
    ],
    [
      'an unknown type of metric',
      metric({ metric_type: 'sum' }),
      'invalid_choice',
      'metrics',
      /metrics.0.metric_type.*funnel, mean, ratio, retention/,
    ],
    [
      'an older kind of metric',
      metric({ kind: 'ExperimentTrendsQuery' }),
      'invalid_input',
      'metrics',
      /older kind/,
    ],
    [
      'a funnel without events',
      metric({ metric_type: 'funnel', series: [] }),
      'invalid_input',
      'metrics',
      /at least one event/,
    ],
    [
      'a mean without an event',
      metric({ metric_type: 'mean' }),
      'invalid_input',
      'metrics',
      /metrics.0.source. is missing/,
    ],
    [
      'an event without a name',
      metric({ metric_type: 'mean', source: { kind: 'EventsNode' } }),
      'invalid_input',
      'metrics',
      /metrics.0.source.event. is missing/,
    ],
    [
      'an action without a number',
      metric({ metric_type: 'mean', source: { kind: 'ActionsNode' } }),
      'invalid_input',
      'metrics',
      /number of an action/,
    ],
    [
      'a sum without a property',
      metric({ metric_type: 'mean', source: { kind: 'EventsNode', event: 'a', math: 'sum' } }),
      'invalid_input',
      'metrics',
      /math_property/,
    ],
    [
      'a window without a unit',
      metric({ ...METRIC, conversion_window: 3 }),
      'invalid_input',
      'metrics',
      /conversion_window_unit/,
    ],
    [
      'an unknown goal',
      metric({ ...METRIC, goal: 'more' }),
      'invalid_choice',
      'metrics',
      /increase, decrease/,
    ],
    [
      'an unknown order of a funnel',
      metric({ ...METRIC, funnel_order_type: 'loose' }),
      'invalid_choice',
      'metrics',
      /ordered, unordered, strict/,
    ],
    [
      'a window of ages',
      metric({ ...METRIC, conversion_window: 1e15, conversion_window_unit: 'month' }),
      'invalid_input',
      'metrics',
      /metrics.0.conversion_window. must be a whole number from 0 to 1217/,
    ],
    [
      'a retention of ages',
      {
        metrics_guard: [
          {
            metric_type: 'retention',
            start_event: { kind: 'EventsNode', event: 'a' },
            completion_event: { kind: 'EventsNode', event: 'a' },
            retention_window_start: 1,
            retention_window_end: 1e12,
            retention_window_unit: 'day',
            start_handling: 'first_seen',
          },
        ],
      },
      'invalid_input',
      'metrics_guard',
      /metrics_guard.0.retention_window_end. must be a whole number/,
    ],
    ...[{ math_hogql: 'count()' }, { properties: [{ type: 'hogql', key: 'true' }] }].map(
      (more): Row => [
        `${Object.keys(more).join()} that no query computes`,
        metric({ metric_type: 'mean', source: { kind: 'EventsNode', event: 'a', ...more } }),
        'invalid_input',
        'metrics',
        /metrics.0.source.(math_hogql|properties.0)/,
      ],
    ),
    [
      'a threshold of a mean without extreme values',
      metric({
        metric_type: 'mean',
        source: { kind: 'EventsNode', event: 'a' },
        threshold: 2,
        upper_bound_percentile: 0.9,
      }),
      'invalid_input',
      'metrics',
      /metrics.0.threshold. must be left out/,
    ],
    [
      'a metric that is no object',
      { metrics: ['a'] },
      'invalid_input',
      'metrics',
      /metrics.0. must be an object/,
    ],
    ['metrics that are no list', { metrics: 'a' }, 'not_a_list', 'metrics', /list/],
    [
      'an unknown saved metric',
      { saved_metrics_ids: [{ id: 4_000_000 }] },
      'does_not_exist',
      'saved_metrics_ids',
      /saved metric 4000000/,
    ],
    [
      'an unknown holdout',
      { holdout_id: 4_000_000 },
      'does_not_exist',
      'holdout_id',
      /holdouts of the project/,
    ],
    [
      'dates reversed',
      { start_date: '2026-01-02T00:00:00Z', end_date: '2026-01-01T00:00:00Z' },
      'invalid_input',
      'end_date',
      /after `start_date`/,
    ],
    [
      'an end without a start',
      { end_date: '2026-01-01T00:00:00Z' },
      'invalid_input',
      'end_date',
      /needs a `start_date`/,
    ],
    [
      'a start in the future',
      { start_date: '2999-01-01T00:00:00Z' },
      'invalid_input',
      'start_date',
      /future/,
    ],
    [
      'a date that is none',
      { start_date: 'soon' },
      'invalid_input',
      'start_date',
      /a time such as/,
    ],
    [
      'an exposure without an event',
      { exposure_criteria: { exposure_config: {} } },
      'invalid_input',
      'exposure_criteria',
      /name of an event/,
    ],
    [
      'an unknown exposure',
      { exposure_criteria: { exposure_config: { kind: 'x' } } },
      'invalid_input',
      'exposure_criteria',
      /exposure_config.kind/,
    ],
    [
      'an unknown method',
      { stats_config: { method: 'x' } },
      'invalid_input',
      'stats_config',
      /stats_config.method. must be one of bayesian, frequentist/,
    ],
    ...[1e-320, 0.000_09, 0.6, '0.05'].map(
      (alpha): Row => [
        `${alpha} as alpha`,
        { stats_config: { frequentist: { alpha } } },
        'invalid_input',
        'stats_config',
        /stats_config.frequentist.alpha. must be a number/,
      ],
    ),
    [
      'a level of nearly 1',
      { stats_config: { bayesian: { ci_level: 1 - 1e-12 } } },
      'invalid_input',
      'stats_config',
      /stats_config.bayesian.ci_level. must be a number from 0.5 to 0.9999/,
    ],
    [
      'CUPED that is neither on nor off',
      { stats_config: { cuped: { enabled: 'yes' } } },
      'invalid_input',
      'stats_config',
      /stats_config.cuped.enabled. must be true or false/,
    ],
    [
      'an unknown baseline',
      { stats_config: { baseline_variant_key: 'x' } },
      'invalid_input',
      'stats_config',
      /control, test/,
    ],
    ['an archived draft', { archived: true }, 'invalid_input', 'archived', /End the experiment/],
    ['an unknown conclusion', { conclusion: 'great' }, 'invalid_choice', 'conclusion', /won, lost/],
    [
      'an effect that is no number',
      { parameters: { minimum_detectable_effect: '5' } },
      'invalid_input',
      'parameters',
      /minimum_detectable_effect/,
    ],
    ['parameters as a text', { parameters: 'x' }, 'invalid_input', 'parameters', /an object/],
    ['parameters as a list', { parameters: [] }, 'invalid_input', 'parameters', /an object/],
    [
      'criteria as a number',
      { exposure_criteria: 5 },
      'invalid_input',
      'exposure_criteria',
      /an object/,
    ],
    ...[{ toString: 1, valueOf: 1 }, ['exclude']].map(
      (handling): Row => [
        `${Array.isArray(handling) ? 'a list' : 'an odd object'} as the handling of variants`,
        { exposure_criteria: { multiple_variant_handling: handling } },
        'invalid_input',
        'exposure_criteria',
        /multiple_variant_handling. must be one of exclude, first_seen/,
      ],
    ),
    ...[{ toString: 1, valueOf: 1 }, ['bayesian']].map(
      (method): Row => [
        `${Array.isArray(method) ? 'a list' : 'an odd object'} as the method`,
        { stats_config: { method } },
        'invalid_input',
        'stats_config',
        /stats_config.method. must be one of bayesian, frequentist/,
      ],
    ),
    ...[{ toString: 1, valueOf: 1 }, ['test']].map(
      (baseline): Row => [
        `${Array.isArray(baseline) ? 'a list' : 'an odd object'} as the baseline`,
        { stats_config: { baseline_variant_key: baseline } },
        'invalid_input',
        'stats_config',
        /control, test/,
      ],
    ),
  ]
  const differences = new Differences()
  for (const [name, body, code, attr, detail] of rows) {
    const draft = { name: 'x', feature_flag_key: 'never-created', ...body }
    const answer = await daemon.ask('POST', EXPERIMENTS, draft)
    const { code: found, attr: field, detail: text } = answer.body
    differences.same([answer.status, found, field], [400, code, attr], name)
    differences.match(text, detail, name)
  }
  t.strictSame(differences.list(), [])
  t.equal(await count(), before)
  const flags = await daemon.ask('GET', `${FLAGS}?search=never-created`)
  t.strictSame(resultsOf(flags), [])
})

t.test('a launch switches the flag on, once', async (t) => {
  const experiment = await create({ metrics: [METRIC] })
  t.equal(await variantOf(experiment, 'somebody'), false)
  const launched = await step(experiment, 'launch')
  t.match(launched, {
    status: 200,
    body: { status: 'running', start_date: String, feature_flag: { active: true } },
  })
  t.ok(KEYS.includes(await variantOf(experiment, 'somebody')))
  t.match(await step(experiment, 'launch'), refusal('invalid_input', null, /already launched/))
  t.match((await flagOf(experiment))['status'], 'ACTIVE')
})

t.test('a start launches a draft, and an end stops it', async (t) => {
  const experiment = await create()
  const launched = await change(experiment, { start_date: '2026-01-01T00:00:00Z' })
  t.match(launched.body, { status: 'running', start_date: '2026-01-01T00:00:00Z' })
  t.equal((await flagOf(experiment))['active'], true)
  const reversed = await change(experiment, { end_date: '2025-01-01T00:00:00Z' })
  t.match(reversed, refusal('invalid_input', 'end_date', /after `start_date`/))
  const removed = await change(experiment, { start_date: null })
  t.match(removed, refusal('invalid_input', 'start_date', /reset/))
  const ended = await change(experiment, { end_date: '2026-02-01T00:00:00Z', conclusion: 'lost' })
  t.match(ended.body, { status: 'stopped', conclusion: 'lost' })
  t.equal((await flagOf(experiment))['active'], true, 'the flag stays on')
})

t.test('a new experiment with a start is launched at once', async (t) => {
  const experiment = await create({ start_date: '2026-01-01T00:00:00Z' })
  t.match(experiment, { status: 'running', feature_flag: { active: true } })
})

t.test('a pause switches the flag off, and is listed as a change', async (t) => {
  const experiment = await create()
  t.match(await step(experiment, 'pause'), refusal('invalid_input', null, /not launched/))
  await step(experiment, 'launch')
  const before = await variantOf(experiment, 'somebody')
  t.match(await step(experiment, 'resume'), refusal('invalid_input', null, /not paused/))
  t.match((await step(experiment, 'pause')).body, { status: 'running' })
  t.equal(await variantOf(experiment, 'somebody'), false)
  t.match(await step(experiment, 'pause'), refusal('invalid_input', null, /paused already/))
  const listed = (status: string) => daemon.ask('GET', `${EXPERIMENTS}?status=${status}&limit=100`)
  const idsOf = async (status: string) => resultsOf(await listed(status)).map(({ id }) => id)
  t.ok((await idsOf('paused')).includes(experiment['id']))
  t.notOk((await idsOf('running')).includes(experiment['id']))
  const resumed = await step(experiment, 'resume')
  t.equal(await variantOf(experiment, 'somebody'), before)
  t.match(resumed.body['changed_while_running'], [
    { change: 'paused', by: { email: String } },
    { change: 'resumed' },
  ])
})

t.test('a running experiment keeps its variants and its holdout', async (t) => {
  const holdout = await daemon.ask('POST', HOLDOUTS, {
    name: 'h',
    filters: [{ properties: [], rollout_percentage: 5 }],
  })
  const experiment = await create({ metrics: [METRIC] })
  const draft = [
    { key: 'control', rollout_percentage: 30 },
    { key: 'test', rollout_percentage: 70 },
  ]
  const redrawn = await change(experiment, { parameters: { feature_flag_variants: draft } })
  t.match(redrawn.body['parameters'], { feature_flag_variants: draft })
  t.match((await flagOf(experiment))['filters'], { multivariate: { variants: draft } })
  await step(experiment, 'launch')
  const same = { feature_flag_variants: draft, minimum_detectable_effect: 5 }
  t.match((await change(experiment, { parameters: same })).body['parameters'], same)
  t.match(
    await change(experiment, { parameters: { feature_flag_variants: VARIANTS } }),
    refusal('invalid_input', 'parameters', /after the launch/),
  )
  t.match(
    await change(experiment, { holdout_id: holdout.body['id'] }),
    refusal('invalid_input', 'holdout_id', /after the launch/),
  )
  t.match(
    await change(experiment, { feature_flag_key: 'another' }),
    refusal('invalid_input', 'feature_flag_key', /may not change/),
  )
  const renamed = await change(experiment, {
    name: 'New name',
    feature_flag_key: experiment['feature_flag_key'],
  })
  t.match(renamed.body, { name: 'New name', changed_while_running: [] })
})

t.test('changes of the flag and the metrics while an experiment runs are listed', async (t) => {
  const experiment = await create({ metrics: [METRIC] })
  await changeFlag(experiment, {
    filters: { groups: EVERYBODY, multivariate: { variants: VARIANTS } },
  })
  await step(experiment, 'launch')
  const filters = {
    groups: [{ properties: [], rollout_percentage: 50 }],
    multivariate: {
      variants: [
        { key: 'control', rollout_percentage: 90 },
        { key: 'test', rollout_percentage: 10 },
      ],
    },
  }
  await changeFlag(experiment, { filters })
  await changeFlag(experiment, { active: false })
  await changeFlag(experiment, { name: 'A description does not matter' })
  await change(experiment, { metrics: [], exposure_criteria: { filterTestAccounts: false } })
  const { body } = await daemon.ask('GET', `${EXPERIMENTS}${String(experiment['id'])}/`)
  const changes = body['changed_while_running'] as readonly { readonly change: string }[]
  t.strictSame(
    changes.map(({ change: one }) => one),
    ['variants', 'conditions', 'paused', 'metrics', 'exposure_criteria'],
  )
  t.match(body['parameters'], { feature_flag_variants: VARIANTS }, 'those at the launch')
})

t.test('a running experiment keeps its flag', async (t) => {
  const experiment = await create()
  await step(experiment, 'launch')
  t.match(
    await changeFlag(experiment, { deleted: true }),
    refusal('invalid_input', 'deleted', /is running. End the experiment first/),
  )
  t.match(
    await changeFlag(experiment, { key: 'renamed' }),
    refusal('invalid_input', 'key', /counted under this key/),
  )
  const key = String(experiment['feature_flag_key'])
  t.match(await planFor({ key, deleted: true }), {
    flags: [],
    faults: [{ key, detail: /is running. End the experiment first/ }],
  })
  await step(experiment, 'end', { conclusion: 'inconclusive', conclusion_comment: 'No difference' })
  t.match(await daemon.ask('GET', `${EXPERIMENTS}${String(experiment['id'])}/`), {
    body: { status: 'stopped', conclusion: 'inconclusive', conclusion_comment: 'No difference' },
  })
  t.match(await planFor({ key, deleted: true }), { flags: [{ action: 'delete' }], faults: [] })
  t.equal((await changeFlag(experiment, { deleted: true })).status, 200)
  const again = await daemon.ask('POST', FLAGS, { key })
  t.match(again, refusal('unique', 'key', /deleted flag .* experiment/))
  t.match(await planFor({ key }), {
    flags: [],
    faults: [{ key, detail: /deleted flag .* experiment/ }],
  })
  t.match((await step(experiment, 'reset')).body, { status: 'draft', conclusion: null })
  t.match(await step(experiment, 'launch'), refusal('invalid_input', null, /is deleted/))
  await change(experiment, { deleted: true })
  t.equal((await daemon.ask('POST', FLAGS, { key })).status, 201)
  t.match(
    await change(experiment, { deleted: false }),
    refusal('invalid_input', 'feature_flag_key', /was removed/),
  )
})

t.test(
  'a shipped variant is served to everybody, and the flag keeps its old conditions',
  async (t) => {
    const condition = { properties: [], rollout_percentage: 10 }
    const filters = { groups: [condition], multivariate: { variants: VARIANTS } }
    await daemon.ask('POST', FLAGS, { key: 'shipped', filters })
    const experiment = await create({ feature_flag_key: 'shipped' })
    t.match(
      await step(experiment, 'ship_variant', { variant_key: 'test' }),
      refusal('invalid_input', null, /not launched/),
    )
    await step(experiment, 'launch')
    t.match(
      await step(experiment, 'ship_variant', { variant_key: 'none' }),
      refusal('invalid_input', 'variant_key', /no variant "none".*control, test/),
    )
    t.match(
      await step(experiment, 'ship_variant', {}),
      refusal('required', 'variant_key', /missing/),
    )
    const shipped = await step(experiment, 'ship_variant', {
      variant_key: 'test',
      conclusion: 'won',
    })
    t.match(shipped.body, {
      status: 'stopped',
      conclusion: 'won',
      changed_while_running: [],
      parameters: { feature_flag_variants: VARIANTS },
    })
    const people = Array.from({ length: 20 }, (_, index) => `person ${index}`)
    const values = await Promise.all(people.map((person) => variantOf(experiment, person)))
    t.strictSame([...new Set(values)], ['test'])
    const flag = await flagOf(experiment)
    const { groups } = flag['filters'] as { readonly groups: readonly Body[] }
    t.match(groups, [{ rollout_percentage: 100 }, condition])
    t.equal(groups.length, 2)
    const log = await daemon.ask('GET', `${FLAGS}${String(flag['id'])}/activity/?limit=1`)
    t.match(resultsOf(log)[0], {
      activity: 'updated',
      detail: {
        note: /^Variant test of experiment /,
        changes: [{ field: 'filters', before: { groups: [condition] }, after: { groups } }],
      },
    })
    await Promise.all([
      step(experiment, 'ship_variant', { variant_key: 'test' }),
      step(experiment, 'ship_variant', { variant_key: 'test' }),
    ])
    await step(experiment, 'ship_variant', { variant_key: 'control' })
    const { groups: later } = (await flagOf(experiment))['filters'] as {
      readonly groups: readonly Body[]
    }
    t.match(later, [{ description: /^Serves control / }, condition])
    t.equal(later.length, 2, 'another variant replaces the condition of the first one')
  },
)

t.test('a variant can be shipped to those who have the flag already', async (t) => {
  const experiment = await create({ parameters: { rollout_percentage: 40 } })
  await step(experiment, 'launch')
  await step(experiment, 'end')
  const shipped = await step(experiment, 'ship_variant', {
    variant_key: 'control',
    release_to_everyone: false,
  })
  t.equal(shipped.status, 200)
  t.match((await flagOf(experiment))['filters'], {
    groups: [{ rollout_percentage: 40 }],
    multivariate: {
      variants: [
        { key: 'control', rollout_percentage: 100 },
        { key: 'test', rollout_percentage: 0 },
      ],
    },
  })
})

t.test('an experiment that has ended can be archived, and disappears from the list', async (t) => {
  const experiment = await create()
  t.match(
    await step(experiment, 'archive'),
    refusal('invalid_input', 'archived', /End the experiment/),
  )
  await step(experiment, 'launch')
  await step(experiment, 'end')
  t.match(await step(experiment, 'end'), refusal('invalid_input', null, /already ended/))
  t.equal((await step(experiment, 'archive')).body['archived'], true)
  const name = encodeURIComponent(String(experiment['name']))
  const found = async (query: string) =>
    resultsOf(await daemon.ask('GET', `${EXPERIMENTS}?search=${name}${query}`)).map(({ id }) => id)
  t.notOk((await found('')).includes(experiment['id']))
  t.ok((await found('&archived=true')).includes(experiment['id']))
  t.equal((await step(experiment, 'unarchive')).body['archived'], false)
  t.match(await step(experiment, 'unarchive'), refusal('invalid_input', null, /not archived/))
  t.match((await step(experiment, 'reset')).body, { status: 'draft', start_date: null })
  t.match(await step(experiment, 'reset'), refusal('invalid_input', null, /draft already/))
})

t.test('an experiment that has ended runs again only with its flag, and in the list', async (t) => {
  const archived = await create()
  await step(archived, 'launch')
  await step(archived, 'end')
  await step(archived, 'archive')
  t.match(
    await change(archived, { end_date: null }),
    refusal('invalid_input', 'archived', /before you archive/),
  )
  t.match((await change(archived, { end_date: null, archived: false })).body, {
    status: 'running',
    archived: false,
  })
  const withoutFlag = await create()
  await step(withoutFlag, 'launch')
  await step(withoutFlag, 'end')
  t.equal((await changeFlag(withoutFlag, { deleted: true })).status, 200)
  t.match(
    await change(withoutFlag, { end_date: null }),
    refusal('invalid_input', null, /is deleted\. Restore it/),
  )
})

t.test('a draft whose flag has lost its variants can be renamed and deleted', async (t) => {
  const experiment = await create()
  await changeFlag(experiment, { filters: { groups: EVERYBODY } })
  t.match(await step(experiment, 'launch'), refusal('invalid_input', 'feature_flag_key', /no vari/))
  t.match(
    await change(experiment, { start_date: '2026-01-01T00:00:00Z' }),
    refusal('invalid_input', 'feature_flag_key', /no variants/),
  )
  t.match(
    await change(experiment, { stats_config: { baseline_variant_key: 'test' } }),
    refusal('invalid_input', 'feature_flag_key', /no variants/),
  )
  t.equal((await change(experiment, { name: 'Renamed' })).body['name'], 'Renamed')
  t.equal((await change(experiment, { deleted: true })).body['deleted'], true)
})

t.test('a draft whose flag has lost the baseline is not launched', async (t) => {
  const third = { key: 'test-2', rollout_percentage: 0 }
  const experiment = await create({
    parameters: { feature_flag_variants: [...VARIANTS, third] },
    stats_config: { baseline_variant_key: 'test-2' },
  })
  await changeFlag(experiment, {
    filters: { groups: EVERYBODY, multivariate: { variants: VARIANTS } },
  })
  t.match(
    await step(experiment, 'launch'),
    refusal('invalid_input', 'stats_config', /needs one of control, test/),
  )
  t.equal((await change(experiment, { stats_config: null })).status, 200)
  t.equal((await step(experiment, 'launch')).status, 200)
})

t.test('the name of a copy is not longer than names may be', async (t) => {
  const source = await create({ name: 'n'.repeat(400) })
  const copy = await step(source, 'duplicate')
  const name = String(copy.body['name'])
  t.match(name, /^n+ \(copy\)$/)
  t.equal(name.length, 400)
  t.equal((await change(copy.body, { name })).status, 200)
})

t.test('a copy is a draft with metrics of its own', async (t) => {
  const parameters = { feature_flag_variants: VARIANTS, minimum_detectable_effect: 3 }
  const source = await create({ metrics: [METRIC], parameters })
  await step(source, 'launch')
  const copy = await step(source, 'duplicate', { feature_flag_key: 'copied' })
  t.match(copy, {
    status: 201,
    body: {
      name: `${String(source['name'])} (copy)`,
      feature_flag_key: 'copied',
      status: 'draft',
      parameters,
      metrics: [METRIC],
      feature_flag: { active: false },
    },
  })
  const uuidOf = (one: Body) => (one['metrics'] as readonly Body[])[0]?.['uuid']
  t.not(uuidOf(copy.body), uuidOf(source))
  const shared = await step(source, 'duplicate')
  t.match(shared.body, {
    name: `${String(source['name'])} (copy 2)`,
    feature_flag: source['feature_flag'] && { key: source['feature_flag_key'] },
  })
  t.strictSame((await flagOf(source))['experiment_set'], [source['id'], shared.body['id']])
})

t.test('a deleted experiment is gone, can be restored, and frees its flag', async (t) => {
  const experiment = await create()
  const path = `${EXPERIMENTS}${String(experiment['id'])}/`
  const refused = await daemon.ask('DELETE', path)
  t.match(refused, { status: 405, headers: { allow: 'GET, PATCH' } })
  t.equal((await change(experiment, { deleted: true })).body['deleted'], true)
  t.equal((await daemon.ask('GET', path)).status, 404)
  t.equal((await step(experiment, 'launch')).status, 404)
  t.strictSame((await flagOf(experiment))['experiment_set'], [])
  t.equal((await change(experiment, { deleted: false })).body['deleted'], false)
  t.strictSame((await flagOf(experiment))['experiment_set'], [experiment['id']])
  const other = daemon.projectPath(2, `experiments/${String(experiment['id'])}/`)
  t.equal((await daemon.ask('GET', other)).status, 404)
  t.equal((await daemon.ask('GET', `${EXPERIMENTS}x/`)).status, 404)
})

t.test('a restored experiment is counted under the key that its flag had', async (t) => {
  const experiment = await create()
  const key = String(experiment['feature_flag_key'])
  const ask = async () => {
    const query = { kind: 'ExperimentExposureQuery', experiment_id: experiment['id'] }
    return (await daemon.ask('POST', daemon.projectPath(1, 'query/'), { query })).body
  }
  await step(experiment, 'launch')
  await daemon.decisions.capture([
    {
      distinct_id: 'before-the-rename',
      timestamp: new Date().toISOString(),
      event: '$feature_flag_called',
      properties: { $feature_flag: key, $feature_flag_response: 'test' },
    },
  ])
  t.equal((await changeFlag(experiment, { key: `${key}-new` })).status, 400)
  await change(experiment, { deleted: true })
  t.equal((await changeFlag(experiment, { key: `${key}-new` })).status, 200)
  t.match(
    await change(experiment, { deleted: false }),
    refusal('invalid_input', 'feature_flag_key', /counted under `experiment-[0-9]+`/),
  )
  const end = new Date().toISOString()
  t.match(await change(experiment, { deleted: false, end_date: end }), {
    status: 200,
    body: { feature_flag_key: key, feature_flag: { key: `${key}-new` }, status: 'stopped' },
  })
  t.match(await ask(), { total_exposures: { control: 0, test: 1 } })
  t.match(
    await change(experiment, { end_date: null }),
    refusal('invalid_input', 'feature_flag_key', /Rename the flag back/),
  )
  t.equal((await change(experiment, { feature_flag_key: key, name: 'Kept' })).status, 200)
  t.equal((await changeFlag(experiment, { key })).status, 200, 'the flag can be renamed back')
  t.match((await change(experiment, { end_date: null })).body, { status: 'running' })
  await change(experiment, { deleted: true })
  await changeFlag(experiment, { key: `${key}-new` })
  await change(experiment, { deleted: false, end_date: end })
  t.match((await step(experiment, 'reset')).body, { feature_flag_key: `${key}-new` })
})

t.test('the list is searched, filtered, ordered and paged', async (t) => {
  const path = daemon.projectPath(2, 'experiments/')
  const add = (name: string, body: Body = {}) =>
    daemon.ask('POST', path, { name, feature_flag_key: name, ...body })
  await add('beta', { start_date: '2026-01-01T00:00:00Z', end_date: '2026-01-03T00:00:00Z' })
  await add('alpha')
  await add('gamma', { start_date: '2026-01-02T00:00:00Z' })
  const names = async (query: string) => {
    const answer = await daemon.ask('GET', `${path}${query}`)
    return resultsOf(answer).map(({ name }) => name)
  }
  t.strictSame(await names(''), ['gamma', 'alpha', 'beta'])
  t.strictSame(await names('?order=name'), ['alpha', 'beta', 'gamma'])
  t.strictSame(await names('?order=-duration'), ['gamma', 'beta', 'alpha'])
  t.strictSame(await names('?status=draft'), ['alpha'])
  t.strictSame(await names('?status=running'), ['gamma'])
  t.strictSame(await names('?status=complete'), ['beta'])
  t.strictSame(await names('?search=MM'), ['gamma'])
  t.strictSame(await names('?limit=1&offset=1'), ['alpha'])
  t.match(await daemon.ask('GET', `${path}?order=size`), refusal('invalid_choice', 'order', /name/))
  t.match(await daemon.ask('GET', `${path}?status=x`), refusal('invalid_choice', 'status', /draft/))
  const { body } = await daemon.ask('GET', `${path}?limit=2`)
  t.match(body, { count: 3, next: String, previous: null })
  const flags = await daemon.ask('GET', daemon.projectPath(2, 'feature_flags/?type=experiment'))
  t.equal(resultsOf(flags).length, 3)
})

t.test('a holdout keeps a share of the persons out of its experiments', async (t) => {
  const filters = [{ properties: [], rollout_percentage: 100 }]
  const holdout = await daemon.ask('POST', HOLDOUTS, { name: 'Everybody', filters })
  const id = Number(holdout.body['id'])
  t.match(holdout, {
    status: 201,
    body: {
      name: 'Everybody',
      description: null,
      filters: [{ properties: [], rollout_percentage: 100, variant: `holdout-${id}` }],
      created_by: { email: String },
    },
  })
  const experiment = await create({ holdout_id: id })
  t.match(experiment, { holdout_id: id, holdout: { id, name: 'Everybody' } })
  await step(experiment, 'launch')
  t.equal(await variantOf(experiment, 'somebody'), `holdout-${id}`)
  const less = [{ properties: [], rollout_percentage: 0 }]
  const changed = await daemon.ask('PATCH', `${HOLDOUTS}${id}/`, { filters: less, name: 'Nobody' })
  t.match(changed.body, { name: 'Nobody', filters: [{ rollout_percentage: 0 }] })
  t.ok(KEYS.includes(await variantOf(experiment, 'somebody')))
  const read = await daemon.ask('GET', `${EXPERIMENTS}${String(experiment['id'])}/`)
  t.match(read.body['changed_while_running'], [{ change: 'holdout' }])
  t.equal((await daemon.ask('DELETE', `${HOLDOUTS}${id}/`)).status, 204)
  t.equal((await daemon.ask('GET', `${HOLDOUTS}${id}/`)).status, 404)
  t.match((await flagOf(experiment))['filters'], { holdout: null })
  const after = await daemon.ask('GET', `${EXPERIMENTS}${String(experiment['id'])}/`)
  t.match(after.body, { holdout_id: null, holdout: null })
})

t.test('a holdout without one share of all persons is refused', async (t) => {
  const attempt = (filters: unknown) => daemon.ask('POST', HOLDOUTS, { name: 'h', filters })
  const property = { key: 'plan', value: 'pro', type: 'person' }
  t.match(await attempt([]), refusal('invalid_input', 'filters', /exactly one/))
  t.match(
    await attempt([{ properties: [] }]),
    refusal('invalid_input', 'filters', /rollout_percentage/),
  )
  t.match(
    await attempt([{ properties: [property], rollout_percentage: 5 }]),
    refusal('invalid_input', 'filters', /share of all persons/),
  )
  t.match(
    await attempt([{ rollout_percentage: 101 }]),
    refusal('invalid_input', 'filters', /0 to 100/),
  )
  t.match(
    await daemon.ask('POST', HOLDOUTS, { name: 'h' }),
    refusal('required', 'filters', /missing/),
  )
})

t.test('a key needs the scope, and its user the right to change the flag', async (t) => {
  const ann = daemon.somebody({ email: 'ann@experiments.example', firstName: 'Ann' })
  const reader = daemon.keyOf({ userId: ann.user.id, scopes: ['experiment:read'] })
  const writer = daemon.keyOf({ userId: ann.user.id, scopes: ['experiment:write'] })
  await daemon.settled()
  const body = { name: 'x', feature_flag_key: 'scoped' }
  t.equal((await daemon.ask('GET', EXPERIMENTS, undefined, reader)).status, 200)
  t.equal((await daemon.ask('POST', EXPERIMENTS, body, reader)).status, 403)
  t.equal((await daemon.ask('GET', HOLDOUTS, undefined, reader)).status, 403)
  t.equal((await daemon.ask('POST', EXPERIMENTS, body, writer)).status, 201)
})

t.test('every change has an entry in the audit log', async (t) => {
  const experiment = await create()
  await step(experiment, 'launch')
  await step(experiment, 'launch')
  await step(experiment, 'ship_variant', { variant_key: 'test' })
  const log = await daemon.ask('GET', 'organizations/@current/audit_log/?limit=4')
  const entries = resultsOf(log).map(({ method, route, object_id, status }) => {
    return [method, String(route).replace('/api/projects/:project_id/', ''), object_id, status]
  })
  const id = String(experiment['id'])
  t.strictSame(entries, [
    ['POST', 'experiments/:id/ship_variant/', id, 200],
    ['POST', 'experiments/:id/launch/', id, 400],
    ['POST', 'experiments/:id/launch/', id, 200],
    ['POST', 'experiments/', id, 201],
  ])
})

t.test('a query names an experiment by its number', async (t) => {
  const experiment = await create({ metrics: [METRIC] })
  const ask = (query: Body) => daemon.ask('POST', daemon.projectPath(1, 'query/'), { query })
  const query = { kind: 'ExperimentExposureQuery', experiment_id: experiment['id'] }
  t.match((await ask(query)).body, { total_exposures: { control: 0, test: 0 } })
  await step(experiment, 'launch')
  const person = { distinct_id: 'exposed', timestamp: new Date().toISOString() }
  const properties = {
    $feature_flag: experiment['feature_flag_key'],
    $feature_flag_response: 'test',
  }
  await daemon.decisions.capture([
    { ...person, event: '$feature_flag_called', properties },
    { ...person, event: 'signed_up' },
  ])
  t.match((await ask(query)).body, { total_exposures: { control: 0, test: 1 } })
  const result = await ask({ kind: 'ExperimentQuery', experiment_id: experiment['id'] })
  t.match(result.body, {
    exposed_persons: { control: 0, test: 1 },
    primary_metrics: [{ variant_results: [{ key: 'test', number_of_samples: 1, sum: 1 }] }],
  })
  await change(experiment, { metrics: [] })
  t.match(await ask({ kind: 'ExperimentQuery', experiment_id: experiment['id'] }), { status: 400 })
  t.match(await ask({ ...query, experiment_id: 4_000_000 }), { status: 400 })
  const elsewhere = await daemon.ask('POST', daemon.projectPath(2, 'query/'), { query })
  t.match(elsewhere, { status: 400, body: { detail: /does not exist/ } })
})
