/**
 * Experiments in words: who is ahead, how sure that is, what to do, when it ends, and what is wrong.
 *
 * @lane quick
 */
import t from 'tap'
import {
  chanceText,
  changeText,
  type Experiment,
  endText,
  equalVariants,
  fieldsOf,
  findingsOf,
  guardOf,
  type MetricResult,
  metricName,
  metricOf,
  metricsIn,
  stateOf,
  type VariantResult,
  valueText,
  verdictOf,
} from '../../src/console/pages/experiment/words.ts'

const FUNNEL = { metric_type: 'funnel', series: [{ kind: 'EventsNode', event: 'paid' }] }
const ALPHA = 0.05
const label = (event: string) => event.toUpperCase()

/** Returns the result of a variant whose relative change is between two ends. */
function variant(
  key: string,
  [low, high]: readonly [number, number],
  more: object = {},
): VariantResult {
  const lift = { estimate: (low + high) / 2, low, high }
  const isSure = low > 0 || high < 0
  return {
    key,
    number_of_samples: 1000,
    mean: 0.12,
    verdict: !isSure ? 'open' : low > 0 ? 'better' : 'worse',
    always_valid: {
      lift,
      difference: null,
      p_value: 0.5,
      corrected_p_value: 0.5,
      significant: isSure,
    },
    chance_to_be_better: 0.71,
    minimum_detectable_effect: 0.08,
    needed_persons: 5000,
    days_left: 3.2,
    ...more,
  } as unknown as VariantResult
}

function result(variants: readonly VariantResult[], metric: object = FUNNEL): MetricResult {
  const baseline = { key: 'control', number_of_samples: 1000, mean: 0.1 }
  return { metric, baseline, variant_results: variants } as unknown as MetricResult
}

const EXPERIMENT = {
  status: 'running',
  start_date: '2026-11-01T00:00:00Z',
  feature_flag: { active: true },
  metrics: [FUNNEL],
  metrics_secondary: [],
  metrics_guard: [],
  saved_metrics: [],
  changed_while_running: [],
} as unknown as Experiment

t.test('a better variant is named with its change, and may be shipped', async (t) => {
  const verdict = verdictOf(
    result([variant('b', [-0.1, 0.2]), variant('c', [0.05, 0.35])]),
    ALPHA,
    false,
  )
  t.match(verdict, {
    mood: 'good',
    headline: '“c” is better than “control”',
    howMuch:
      /“c” has 12.0 % and “control” has 10.0 %, a change of \+20.0 %.*between \+5.0 % and \+35.0 %/,
    howSure: /rely on it. At most 5 of 100/,
    whatToDo: /Ship “c”/,
  })
})

t.test('if all variants are worse, the control is shipped', async (t) => {
  const worse = variant('b', [-0.3, -0.1])
  t.match(verdictOf(result([worse]), ALPHA, false), {
    mood: 'bad',
    headline: '“control” is better',
    howMuch: /between −30.0 % and −10.0 %/,
    whatToDo: /Ship “control”. It ends/,
  })
  t.match(verdictOf(result([worse]), ALPHA, true).whatToDo, /if you have not/)
})

t.test('for a metric that should fall, a fall is good', async (t) => {
  const metric = { ...FUNNEL, goal: 'decrease' }
  const fallen = variant('b', [-0.3, -0.1], { verdict: 'better' })
  const more = variant('c', [-0.5, -0.2], { verdict: 'better' })
  const verdict = verdictOf(result([fallen, more], metric), ALPHA, false)
  t.match(verdict, { mood: 'good', headline: '“c” is better than “control”' })
})

t.test('without a decision nobody is told to stop', async (t) => {
  const verdict = verdictOf(result([variant('b', [-0.1, 0.2])]), ALPHA, false)
  t.match(verdict, {
    mood: 'open',
    headline: 'No decision yet',
    howSure: /chance that “b” is better is 71 %.*no reason to stop/,
    whatToDo: /^Wait.*a change of 8.0 %/,
  })
  t.match(
    verdictOf(result([variant('b', [-0.1, 0.2])]), ALPHA, true).whatToDo,
    /ended without a change/,
  )
})

t.test('too few persons are no result', async (t) => {
  const none = { verdict: 'not_enough_data', always_valid: null, not_enough_data: 'no_exposures' }
  const empty = verdictOf(
    result([variant('b', [0, 0], { ...none, number_of_samples: 0 })]),
    ALPHA,
    false,
  )
  t.match(empty, { mood: 'open', headline: 'Nobody is counted yet' })
  const few = { ...none, not_enough_data: 'too_few_persons' }
  t.match(verdictOf(result([variant('b', [0, 0], few)]), ALPHA, false), {
    headline: 'Too few persons to tell',
    howMuch: /at least 50 persons/,
  })
})

t.test('the end is said in days', async (t) => {
  const one = variant('b', [-0.1, 0.2])
  t.match(endText([one], 'Running', false), /needs 5,000 persons.*takes about 4 more days/)
  t.match(endText([{ ...one, days_left: 0 }], 'Running', false), /This number is reached/)
  t.match(
    endText([{ ...one, days_left: null }], 'Running', false),
    /known once persons are counted/,
  )
  t.match(endText([{ ...one, needed_persons: null }], 'Running', false), /No size is planned/)
  t.match(endText([one], 'Running', true), /need not wait for the planned 5,000/)
  t.equal(endText([one], 'Ended', true), 'The experiment has ended.')
})

t.test('a guard says whether a metric is worse than accepted', async (t) => {
  const guard = (ends: readonly [number, number], metric: object) =>
    guardOf(result([variant('b', ends)], { ...FUNNEL, tolerance: 0.05, ...metric }))
  t.match(guard([-0.3, -0.1], {}), { mood: 'bad', headline: 'Worse than accepted with “b”' })
  t.match(guard([-0.3, -0.02], {}), { mood: 'open', headline: 'No harm is shown so far' })
  t.match(guard([-0.04, 0.2], {}), { mood: 'good', howMuch: /at most 5.0 %/ })
  t.match(guard([0.1, 0.3], { goal: 'decrease' }), { mood: 'bad' })
  t.match(guard([-0.3, 0.01], { goal: 'decrease' }), { mood: 'good' })
  t.match(guardOf(result([], FUNNEL)), { mood: 'open' })
})

t.test('the check list names what is wrong', async (t) => {
  const day = (at: string) => at.slice(0, 10)
  const words = (experiment: object, answer: object | undefined) =>
    findingsOf({ ...EXPERIMENT, ...experiment } as Experiment, answer as never, [], day).map(
      ({ mood, words: text }) => `${mood} ${text}`,
    )
  const answer = {
    exposed_persons: { control: 500, test: 500 },
    persons_in_several_variants: 0,
    sample_ratio: { is_mismatch: false },
  }
  t.strictSame(words({}, answer), [
    'good Each variant has its share of the persons.',
    'good Nobody had several variants.',
    'good Nothing was changed while the experiment ran.',
  ])
  const wrong = {
    exposed_persons: { control: 800, test: 200 },
    persons_in_several_variants: 50,
    persons_set_aside: 50,
    sample_ratio: { is_mismatch: true },
    sample_ratio_mismatch: { expected: { control: 500, test: 500 }, p_value: 0 },
  }
  const changed = {
    metrics: [],
    feature_flag: { active: false },
    changed_while_running: [{ at: '2026-11-05T00:00:00Z', change: 'conditions', by: null }],
  }
  t.strictSame(words(changed, wrong), [
    'bad There is no primary metric, so nothing decides about the experiment.',
    'open The flag is off. Nobody gets a variant, and nobody new is counted.',
    'bad The variants do not have their shares of persons: “control” has 800 persons instead of 500, “test” has 200 persons instead of 500. Do not trust the result before you know why.',
    'bad 50 persons (4.8 %) had several variants and do not count. Check that persons keep their ID.',
    'bad On 2026-11-05, the conditions of the flag were changed while the experiment ran.',
  ])
  t.match(
    words({}, { exposed_persons: {}, persons_in_several_variants: 0 })[0],
    /open Nobody is counted/,
  )
})

t.test('saved metrics count like those of the experiment itself', async (t) => {
  const link = (id: number, type: string, query: object) => ({
    saved_metric: id,
    name: `saved ${id}`,
    metadata: { type },
    query,
  })
  const experiment = {
    ...EXPERIMENT,
    metrics: [],
    saved_metrics: [
      link(3, 'secondary', { ...FUNNEL, uuid: 'c' }),
      link(4, 'primary', { ...FUNNEL, uuid: 'd', name: 'own name' }),
      link(5, 'primary', FUNNEL),
    ],
    metrics_guard: [FUNNEL],
  } as unknown as Experiment
  t.strictSame(metricsIn(experiment, 'metrics'), [
    { metric: { ...FUNNEL, uuid: 'd', name: 'own name' }, savedId: 4 },
    { metric: { ...FUNNEL, name: 'saved 5' }, savedId: 5 },
  ])
  t.match(metricsIn(experiment, 'metrics_secondary'), [{ metric: { uuid: 'c' }, savedId: 3 }])
  t.strictSame(metricsIn(experiment, 'metrics_guard'), [{ metric: FUNNEL, savedId: null }])
  const findings = findingsOf(experiment, undefined, [], () => '')
  t.notOk(findings.some(({ words }) => words.includes('no primary metric')))
})

t.test('a form shows a stored metric, or nothing if it lacks one of its options', async (t) => {
  for (const kind of ['conversion', 'count', 'sum']) {
    const property = kind === 'sum' ? 'price' : ''
    const fields = { kind, event: 'paid', property, goal: 'decrease' }
    const { goal, ...others } = metricOf(fields)
    const stored = { kind: 'ExperimentMetric', uuid: 'u', goal, ...others }
    t.strictSame(fieldsOf(stored), fields, `${kind}, with members in another order`)
    for (const more of [{ conversion_window: 3 }, { name: 'n' }, { threshold: 1 }])
      t.equal(fieldsOf({ ...stored, ...more }), null, JSON.stringify(more))
  }
  t.match(fieldsOf(FUNNEL), { kind: 'conversion', event: 'paid', goal: 'increase' })
  const [step] = FUNNEL.series
  for (const other of [
    { ...FUNNEL, series: [step, step] },
    { ...FUNNEL, series: [{ ...step, properties: [] }] },
    { ...FUNNEL, series: [{ kind: 'EventsNode', event: null }] },
    { ...FUNNEL, series: [{ kind: 'ActionsNode', id: 1 }] },
    { metric_type: 'mean', source: { ...step, math: 'avg', math_property: 'price' } },
    { metric_type: 'ratio', numerator: step, denominator: step },
    { metric_type: 'retention', start_event: step, completion_event: step },
  ])
    t.equal(fieldsOf(other), null, JSON.stringify(other))
})

t.test('metrics have names, values and forms', async (t) => {
  const fields = { event: 'paid', property: 'price', goal: 'increase' }
  const conversion = metricOf({ ...fields, kind: 'conversion' })
  t.equal(metricName(conversion, label), 'Conversion to PAID')
  t.equal(metricName(metricOf({ ...fields, kind: 'count' }), label), 'PAID per person')
  const sum = metricOf({ ...fields, kind: 'sum', tolerance: '2' })
  t.equal(metricName(sum, label), 'sum of price of PAID per person')
  t.match(sum, { tolerance: 0.02, source: { math: 'sum', math_property: 'price' } })
  t.equal(metricName({ ...conversion, name: 'Paying' }, label), 'Paying')
  const ratio = {
    metric_type: 'ratio',
    numerator: { event: 'click' },
    denominator: { event: 'view' },
  }
  t.equal(metricName(ratio, label), 'CLICK per VIEW')
  t.equal(valueText(conversion, 0.123), '12.3 %')
  t.equal(valueText(sum, 12.345), '12.35')
  t.equal(valueText(sum, null), '–')
  t.strictSame([0.999, 0.42, 0.001, null].map(chanceText), ['> 99 %', '42 %', '< 1 %', '–'])
  t.strictSame(
    [changeText(0.1), changeText(-0.1), changeText(0.0001)],
    ['+10.0 %', '−10.0 %', '±0.0 %'],
  )
})

t.test('new variants share the persons equally', async (t) => {
  const shares = (count: number) =>
    equalVariants(Array.from({ length: count }, (_, at) => `v${at}`)).map(
      (one) => one.rollout_percentage,
    )
  t.strictSame(shares(2), [50, 50])
  t.strictSame(shares(3), [34, 33, 33])
})

t.test('a running experiment whose flag is off is paused', async (t) => {
  const state = (status: string, active: boolean) =>
    stateOf({ status, feature_flag: { active } } as unknown as Experiment)
  t.strictSame(
    [
      state('draft', false),
      state('running', true),
      state('running', false),
      state('stopped', true),
    ],
    ['Draft', 'Running', 'Paused', 'Ended'],
  )
})
