/**
 * Results of an experiment over HTTP: the shapes of PostHog, what Tenrec adds, and what is refused.
 *
 * @lane quick
 */
import t from 'tap'
import { Differences } from '../../fixtures/differences.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const FLAG = 'new-checkout'
const DAY_MS = 86_400_000
const START_MS = Date.now() - 5 * DAY_MS
const PERSONS = 400
const at = (offsetMs: number): string => new Date(START_MS + offsetMs).toISOString()
const source = (event: string, more: Json = {}): Json => ({ kind: 'EventsNode', event, ...more })
const FUNNEL = { metric_type: 'funnel', uuid: 'm1', name: 'Bought', series: [source('buy')] }
const REVENUE = {
  metric_type: 'mean',
  uuid: 'm2',
  name: 'Revenue',
  source: source('buy', { math: 'sum', math_property: 'amount' }),
}
const RATIO = {
  metric_type: 'ratio',
  name: 'Value of a purchase',
  numerator: source('buy', { math: 'sum', math_property: 'amount' }),
  denominator: source('buy'),
}
const EXPERIMENT: Json = {
  name: 'Checkout',
  feature_flag_key: FLAG,
  feature_flag: {
    filters: {
      multivariate: {
        variants: [
          { key: 'control', rollout_percentage: 50 },
          { key: 'test', rollout_percentage: 50 },
        ],
      },
    },
  },
  start_date: at(0),
  end_date: null,
  stats_config: { method: 'frequentist' },
  running_time_calculation: { minimum_detectable_effect: 20 },
  metrics: [FUNNEL, REVENUE],
  metrics_secondary: [RATIO],
}

/** Every second person gets the variant. Of ten persons one or, with the variant, four buy something. */
function eventsOf(persons: number, name: string): readonly Json[] {
  return Array.from({ length: persons }, (_, person) => {
    const distinct_id = `${name}${person}`
    const isTest = person % 2 === 1
    const called = {
      event: '$feature_flag_called',
      distinct_id,
      timestamp: at(person * 60_000),
      properties: { $feature_flag: FLAG, $feature_flag_response: isTest ? 'test' : 'control' },
    }
    const hasBought = isTest ? person % 10 < 8 : person % 10 < 2
    if (!hasBought) return [called]
    const timestamp = at(person * 60_000 + 1000)
    const properties = { amount: 10 + (person % 7) }
    return [called, { event: 'buy', distinct_id, timestamp, properties }]
  }).flat()
}

t.test('an experiment has a result', async (t) => {
  const daemon = await shareDecisions()
  await daemon.capture(eventsOf(PERSONS, 'p'))
  const ask = async (query: Json): Promise<Json> => {
    const { status, body } = await daemon.api('POST', 'query/', 1, { query })
    t.equal(status, 200)
    return body
  }

  const funnel = await ask({ kind: 'ExperimentQuery', experiment: EXPERIMENT, metric: FUNNEL })
  t.match(funnel, {
    kind: 'ExperimentQuery',
    metric: FUNNEL,
    baseline: {
      key: 'control',
      number_of_samples: 200,
      sum: 40,
      sum_squares: 40,
      step_counts: [40],
      validation_failures: [],
      mean: 0.2,
    },
    variant_results: [
      {
        key: 'test',
        method: 'frequentist',
        number_of_samples: 200,
        sum: 160,
        step_counts: [160],
        significant: true,
        validation_failures: [],
        verdict: 'better',
        always_valid: { significant: true, lift: { estimate: Number } },
      },
    ],
    exposed_persons: { control: 200, test: 200 },
    persons_set_aside: 0,
    sample_ratio_mismatch: { expected: { control: 200, test: 200 }, p_value: Number },
    sample_ratio: { is_mismatch: false },
  })
  const [variant] = funnel['variant_results'] as readonly [Json]
  t.ok((variant['p_value'] as number) < 1e-9)
  t.ok((variant['chance_to_win'] as number) > 0.999)
  const [low, high] = variant['confidence_interval'] as readonly [number, number]
  const { lift } = variant['always_valid'] as {
    readonly lift: Record<'low' | 'high' | 'estimate', number>
  }
  t.ok(Math.abs(lift.estimate - 3) < 1e-9, 'four times as many, which is a lift of 300 %')
  t.ok(lift.low < low && low < 3 && 3 < high && high < lift.high, 'looking costs width')

  const all = await ask({ kind: 'ExperimentQuery', experiment: EXPERIMENT })
  t.match(all, {
    primary_metrics: [{ metric: FUNNEL }, { metric: REVENUE }],
    secondary_metrics: [{ metric: RATIO, baseline: { denominator_sum: 40 } }],
  })
  const [first] = all['primary_metrics'] as readonly [Json]
  const [corrected] = first['variant_results'] as readonly [Json]
  const { p_value, corrected_p_value } = corrected['always_valid'] as Record<string, number>
  t.ok((corrected_p_value ?? 0) > (p_value ?? 1), 'two metrics are corrected')
  t.equal((all['results'] as readonly unknown[]).length, 6, 'a table of both variants')

  const exposures = await ask({ kind: 'ExperimentExposureQuery', experiment: EXPERIMENT })
  t.match(exposures, {
    kind: 'ExperimentExposureQuery',
    total_exposures: { control: 200, test: 200 },
    date_range: { date_to: null },
    sample_ratio_mismatch: { p_value: Number },
  })
  const [control] = exposures['timeseries'] as readonly [
    { readonly days: readonly string[]; readonly exposure_counts: readonly number[] },
  ]
  t.equal(control.days.length, control.exposure_counts.length)
  t.equal(control.exposure_counts.at(-1), 200)
  const asPosthog = await ask({
    kind: 'ExperimentExposureQuery',
    experiment_id: 7,
    experiment_name: 'Checkout',
    feature_flag: { key: FLAG, ...(EXPERIMENT['feature_flag'] as object) },
    start_date: EXPERIMENT['start_date'],
    end_date: null,
    exposure_criteria: { filterTestAccounts: false },
  })
  t.strictSame(asPosthog['timeseries'], exposures['timeseries'])

  // A person who gets the other variant, and a merge of two persons of different variants.
  await daemon.capture([
    {
      event: '$feature_flag_called',
      distinct_id: 'p0',
      properties: { $feature_flag: FLAG, $feature_flag_response: 'test' },
    },
    { event: '$merge_dangerously', distinct_id: 'p2', properties: { alias: 'p3' } },
  ])
  const later = await ask({ kind: 'ExperimentQuery', experiment: EXPERIMENT, metric: FUNNEL })
  t.match(later, { persons_set_aside: 2, exposed_persons: { control: 198, test: 199 } })
  const firstSeen = {
    ...EXPERIMENT,
    exposure_criteria: { multiple_variant_handling: 'first_seen' },
  }
  const seen = await ask({ kind: 'ExperimentQuery', experiment: firstSeen, metric: FUNNEL })
  t.match(seen, {
    persons_set_aside: 0,
    persons_in_several_variants: 2,
    exposed_persons: { control: 200, test: 199 },
  })
})

t.test('a strict funnel has no other event in between', async (t) => {
  const daemon = await shareDecisions()
  const series = ['a', 'b', 'c'].map((event) => source(event))
  const called = (flag: string): Json => {
    const properties = { $feature_flag: flag, $feature_flag_response: 'control' }
    return { event: '$feature_flag_called', properties }
  }
  const again = called(FLAG)
  const rows: Readonly<Record<string, readonly Json[]>> = {
    direct: series,
    repeated: [source('a'), source('a'), source('b'), source('b'), source('c')],
    'exposed again': [source('a'), again, source('b'), again, source('c')],
    'begun again': [source('a'), source('x'), ...series],
    'not at once': [source('x'), ...series, source('x')],
    'another event': [source('a'), source('x'), source('b'), source('c')],
    'another flag': [source('a'), called('another'), source('b'), source('c')],
    'another order': [source('b'), source('a'), source('c')],
  }
  const events = Object.entries(rows).flatMap(([distinct_id, own]) => {
    return [again, ...own].map(({ event, properties = {} }, place) => {
      return { event, properties, distinct_id, timestamp: at(place * 1000) }
    })
  })
  await daemon.capture(events)
  const countsOf = async (funnel_order_type: string): Promise<unknown> => {
    const metric = { ...FUNNEL, series, funnel_order_type }
    const query = { kind: 'ExperimentQuery', experiment: EXPERIMENT, metric }
    const { body } = await daemon.api('POST', 'query/', 1, { query })
    return (body['baseline'] as Json)['step_counts']
  }
  t.strictSame(await countsOf('strict'), [8, 5, 5])
  t.strictSame(await countsOf('ordered'), [8, 7, 7])
})

t.test('an experiment with few persons has reasons in place of numbers', async (t) => {
  const daemon = await shareDecisions()
  const query = { kind: 'ExperimentQuery', experiment: EXPERIMENT, metric: REVENUE }
  const resultOf = async (): Promise<Json> => {
    const { status, body } = await daemon.api('POST', 'query/', 1, { query })
    t.equal(status, 200)
    const [variant = {}] = body['variant_results'] as readonly Json[]
    for (const name of ['p_value', 'confidence_interval', 'chance_to_win', 'significant']) {
      t.notOk(name in variant, `no ${name}`)
    }
    t.match(variant, { always_valid: null, fixed_horizon: null, verdict: 'not_enough_data' })
    return variant
  }
  t.match(await resultOf(), { number_of_samples: 0, sum: 0, not_enough_data: 'no_exposures' })
  await daemon.capture(eventsOf(3, 'q'))
  t.match(await resultOf(), { not_enough_data: 'one_person' })
  await daemon.capture(eventsOf(60, 'r'))
  t.match(await resultOf(), {
    not_enough_data: 'too_few_persons',
    validation_failures: ['not-enough-exposures'],
  })
})

t.test('invalid experiments are refused', async (t) => {
  const daemon = await shareDecisions()
  const differences = new Differences()
  const refused = async (query: Json, attr: string): Promise<void> => {
    const { status, body } = await daemon.api('POST', 'query/', 1, { query })
    const found = [status, body['code'], body['attr']]
    differences.same(found, [400, 'invalid_query', attr], JSON.stringify(query))
  }
  const kind = 'ExperimentQuery'
  const experiment = (changes: Json): Json => {
    return { kind, experiment: { ...EXPERIMENT, ...changes }, metric: FUNNEL }
  }
  const metric = (changes: Json): Json => ({ kind, experiment: EXPERIMENT, metric: changes })
  await refused({ kind, metric: FUNNEL }, 'experiment_id')
  await refused({ kind, experiment_id: 123_456, metric: FUNNEL }, 'experiment_id')
  await refused(experiment({ feature_flag_key: '' }), 'experiment.feature_flag_key')
  await refused(experiment({ feature_flag: {} }), 'experiment.parameters.feature_flag_variants')
  const one = [{ key: 'control', rollout_percentage: 100 }]
  const parameters = { feature_flag_variants: [...one, ...one] }
  await refused(
    experiment({ feature_flag: {}, parameters: { feature_flag_variants: one } }),
    'experiment.parameters.feature_flag_variants',
  )
  await refused(
    experiment({ feature_flag: {}, parameters }),
    'experiment.parameters.feature_flag_variants',
  )
  await refused(experiment({ end_date: at(-DAY_MS) }), 'experiment.end_date')
  await refused(experiment({ start_date: 'someday' }), 'experiment.start_date')
  await refused(experiment({ start_date: null }), 'experiment.start_date')
  const groups = { filters: { aggregation_group_type_index: 5 } }
  await refused(
    experiment({ feature_flag: groups }),
    'experiment.feature_flag.filters.aggregation_group_type_index',
  )
  const alpha = { frequentist: { alpha: 2 } }
  await refused(experiment({ stats_config: alpha }), 'experiment.stats_config.frequentist.alpha')
  await refused(
    { kind, experiment: { ...EXPERIMENT, metrics: [], metrics_secondary: [] } },
    'metric',
  )
  await refused(metric({}), 'metric.metric_type')
  await refused(metric({ metric_type: 'median' }), 'metric.metric_type')
  await refused(metric({ metric_type: 'mean' }), 'metric.source')
  await refused(metric({ metric_type: 'mean', source: {} }), 'metric.source.event')
  await refused(metric({ metric_type: 'funnel', series: [] }), 'metric.series')
  await refused(metric({ metric_type: 'funnel' }), 'metric.series')
  await refused(metric({ metric_type: 'ratio', numerator: source('a') }), 'metric.denominator')
  await refused(
    metric({ metric_type: 'mean', source: source('a', { math: 'sum' }) }),
    'metric.source.math_property',
  )
  await refused(
    metric({ metric_type: 'mean', source: source('a', { math: 'hogql' }) }),
    'metric.source.math',
  )
  await refused(
    metric({ metric_type: 'mean', source: { kind: 'ActionsNode', id: 99 } }),
    'metric.source.id',
  )
  await refused(metric({ ...FUNNEL, funnel_order_type: 'loose' }), 'metric.funnel_order_type')
  await refused(metric({ ...REVENUE, upper_bound_percentile: 99 }), 'metric.upper_bound_percentile')
  await refused(
    metric({ ...REVENUE, lower_bound_percentile: 0.9, upper_bound_percentile: 0.1 }),
    'metric.upper_bound_percentile',
  )
  await refused(metric({ ...REVENUE, conversion_window: -1 }), 'metric.conversion_window')
  const returns = {
    metric_type: 'retention',
    start_event: source('a'),
    completion_event: source('b'),
  }
  await refused(metric(returns), 'metric.retention_window_end')
  await refused(
    metric({ ...returns, retention_window_start: 3, retention_window_end: 1 }),
    'metric.retention_window_end',
  )
  t.strictSame(differences.list(), [])

  const ancient = { ...EXPERIMENT, start_date: '1900-01-01' }
  const tooLong = { kind: 'ExperimentExposureQuery', experiment: ancient }
  const refusal = await daemon.api('POST', 'query/', 1, { query: tooLong })
  t.strictSame([refusal.status, refusal.body['code']], [400, 'query_too_large'])
  const asked = { kind, experiment: ancient, metric: FUNNEL }
  t.equal((await daemon.api('POST', 'query/', 1, { query: asked })).status, 200)

  const draft = { ...EXPERIMENT, start_date: null }
  const query = { kind: 'ExperimentExposureQuery', experiment: draft }
  const { status, body } = await daemon.api('POST', 'query/', 1, { query })
  t.equal(status, 200, 'nobody is exposed to a draft')
  t.match(body, { total_exposures: { control: 0, test: 0 }, date_range: { date_from: null } })
})
