/**
 * The definition of an experiment on the wire: defaults, the baseline, the holdout and the plan.
 *
 * @lane quick
 */
import t from 'tap'
import { definitionOf } from '../../../src/rules/experiments/edit/definition-of.ts'
import type { ExperimentView } from '../../../src/rules/experiments/edit/stored-experiment.ts'
import type { Flag } from '../../../src/rules/flags/types.ts'
import { readExperiment } from '../../../src/rules/queries/experiments/read-experiment.ts'
import { QueryFields } from '../../../src/rules/queries/query-fields.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'

const CONTEXT = { timezone: 'Europe/Berlin', nowMs: Date.UTC(2024, 5, 1) }
const read = (json: Json) => readExperiment(new QueryFields(json), CONTEXT)
const VARIANTS = [
  { key: 'a', rollout_percentage: 30 },
  { key: 'control', split_percent: 70 },
]
const LEAST: Json = {
  feature_flag_key: 'checkout',
  parameters: { feature_flag_variants: VARIANTS },
}

t.test('an experiment needs a flag and variants', async (t) => {
  t.strictSame(read(LEAST), {
    id: null,
    name: '',
    flagKey: 'checkout',
    variants: [
      { key: 'control', rolloutPercentage: 70 },
      { key: 'a', rolloutPercentage: 30 },
    ],
    holdout: null,
    groupTypeIndex: null,
    exposure: { event: null, multipleVariantHandling: 'exclude', filterTestAccounts: true },
    startMs: null,
    endMs: null,
    stats: {
      method: 'bayesian',
      alpha: 0.05,
      horizonPersons: null,
      lookbackDays: null,
      minimumDetectableEffect: null,
    },
    metrics: [],
    secondaryMetrics: [],
  })
})

t.test('the baseline comes first', async (t) => {
  const withBaseline = (baseline_variant_key: string) =>
    read({ ...LEAST, stats_config: { baseline_variant_key } }).variants.map(({ key }) => key)
  t.strictSame(withBaseline('a'), ['a', 'control'])
  t.throws(() => withBaseline('b'), { code: 'invalid_query', message: /must be one of a, control/ })
})

t.test('times are moments, or those of the project', async (t) => {
  const dates = { start_date: '2024-03-31', end_date: '2024-04-01T10:00:00Z' }
  const { startMs, endMs } = read({ ...LEAST, ...dates })
  t.equal(startMs, Date.UTC(2024, 2, 30, 23), 'midnight in Berlin')
  t.equal(endMs, Date.UTC(2024, 3, 1, 10))
})

t.test('a holdout is that of the experiment, or that of its flag', async (t) => {
  const filters = { holdout: { id: 4, exclusion_percentage: 5 } }
  const flag = { ...LEAST, feature_flag: { key: 'checkout', filters } }
  t.strictSame(read(flag).holdout, { variant: 'holdout-4', percentage: 5 })
  const own = { id: 9, filters: [{ properties: [], rollout_percentage: 12 }] }
  t.strictSame(read({ ...flag, holdout: own }).holdout, { variant: 'holdout-9', percentage: 12 })
  t.throws(() => read({ ...LEAST, holdout: { id: 9 } }), { code: 'invalid_query' })
  // Such an object cannot be converted to a text.
  const odd = { toString: 1, valueOf: 1 }
  const filter = { rollout_percentage: 12 }
  for (const holdout of [
    { id: odd, filters: [filter] },
    { id: 9, filters: [{ ...filter, variant: odd }] },
  ]) {
    t.throws(() => read({ ...LEAST, holdout }), { code: 'invalid_query' })
  }
})

t.test('the group type is that of all conditions', async (t) => {
  const withFilters = (filters: Json) =>
    read({ ...LEAST, feature_flag: { key: 'checkout', filters } }).groupTypeIndex
  const own = (index: unknown) => ({ properties: [], aggregation_group_type_index: index })
  t.equal(withFilters({ groups: [{ properties: [] }], aggregation_group_type_index: 2 }), 2)
  t.equal(withFilters({ aggregation_group_type_index: 0 }), 0, 'without conditions')
  t.equal(withFilters({ groups: [own(1), own(1)] }), 1, 'of the conditions')
  t.equal(withFilters({ groups: [own(null)], aggregation_group_type_index: 1 }), null)
  for (const filters of [
    { groups: [own(1), { properties: [] }] },
    { groups: [own(null), own(1)], aggregation_group_type_index: 1 },
    { aggregation_group_type_index: 5 },
    { aggregation_group_type_index: -1 },
    { aggregation_group_type_index: 0.5 },
    { aggregation_group_type_index: '1' },
    { aggregation_group_type_index: {} },
  ]) {
    t.throws(() => withFilters(filters), { code: 'invalid_query', message: /same group type/ })
  }
})

t.test('the plan of an experiment', async (t) => {
  const planned = {
    ...LEAST,
    stats_config: {
      method: 'frequentist',
      bayesian: { ci_level: 0.9 },
      cuped: { enabled: true },
    },
    parameters: { feature_flag_variants: VARIANTS, minimum_detectable_effect: 30 },
    running_time_calculation: { minimum_detectable_effect: 20, recommended_sample_size: 5000 },
  }
  const { stats } = read(planned)
  t.match(stats, {
    method: 'frequentist',
    horizonPersons: 5000,
    lookbackDays: 14,
    minimumDetectableEffect: 0.2,
  })
  t.ok(Math.abs(stats.alpha - 0.1) < 1e-12)
  for (const [stats_config, message] of [
    [{ frequentist: { alpha: 1e-320 } }, /frequentist.alpha.*from 0.0001 to 0.5/],
    [{ frequentist: { alpha: 0.51 } }, /frequentist.alpha.*from 0.0001 to 0.5/],
    [{ bayesian: { ci_level: 0.999_999 } }, /bayesian.ci_level.*from 0.5 to 0.9999/],
    [{ horizon_persons: 0 }, /horizon_persons.*at least 1/],
  ] as const)
    t.throws(() => read({ ...LEAST, stats_config }), { code: 'invalid_query', message })
  for (const stats_config of [
    { frequentist: { alpha: 0.0001 } },
    { bayesian: { ci_level: 0.9999 } },
  ])
    t.ok(read({ ...LEAST, stats_config }).stats.alpha > 0)
})

t.test('exposures by an event or an action', async (t) => {
  const withConfig = (exposure_config: Json) =>
    read({ ...LEAST, exposure_criteria: { exposure_config, filterTestAccounts: false } }).exposure
  t.strictSame(withConfig({ kind: 'ExperimentEventExposureConfig', event: 'seen' }), {
    event: { kind: 'EventsNode', event: 'seen', properties: [] },
    multipleVariantHandling: 'exclude',
    filterTestAccounts: false,
  })
  t.match(withConfig({ kind: 'ActionsNode', id: 3 }), { event: { kind: 'ActionsNode', id: 3 } })
  t.throws(() => withConfig({ event: '' }), { code: 'invalid_query' })
})

t.test('stored settings that cannot be read are left out', async (t) => {
  const fields = {
    name: 'Old',
    flag_key: 'checkout',
    variants: VARIANTS,
    metrics: [],
    metrics_secondary: [],
    start_date: null,
    end_date: null,
    parameters: { minimum_detectable_effect: 'five', recommended_sample_size: 50 },
    exposure_criteria: {
      exposure_config: { kind: 'ActionsNode', id: 0 },
      multiple_variant_handling: 'first_seen',
    },
    stats_config: {
      method: 'frequentist',
      cuped: true,
      bayesian: 'x',
      baseline_variant_key: 'removed',
    },
  }
  const stored = (changes: Json = {}) =>
    definitionOf(
      {
        experiment: { id: 1, fields: { ...fields, ...changes } },
        holdout: null,
        savedMetrics: [],
      } as unknown as ExperimentView,
      { key: 'checkout' } as Flag,
    )
  const { variants, exposure, stats } = stored()
  const keysOf = (list: typeof variants) => list.map(({ key }) => key)
  t.strictSame(keysOf(variants), ['control', 'a'])
  t.match(exposure, { event: null, multipleVariantHandling: 'first_seen' })
  t.match(stats, { method: 'frequentist', lookbackDays: null, horizonPersons: 50 })
  const cuped = { cuped: { enabled: 'true' } }
  t.equal(stored({ stats_config: cuped }).stats.lookbackDays, null)
  const baseline = stored({ stats_config: { baseline_variant_key: 'a' } })
  t.strictSame(keysOf(baseline.variants), ['a', 'control'], 'a valid baseline stays')
})
