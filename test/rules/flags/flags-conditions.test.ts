/**
 * Tests which flags take part in a decision, which data conditions read, and how a decision is explained.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { compileFlags } from '../../../src/rules/flags/compile.ts'
import { decide } from '../../../src/rules/flags/decide.ts'
import { explainFlag } from '../../../src/rules/flags/explain.ts'
import type { DecisionRequest } from '../../../src/rules/flags/types.ts'
import {
  cohort,
  dependency,
  flag,
  inCohort,
  makeRequest,
  makeSet,
  makeSources,
  person,
  type StoredFlag,
  values,
} from '../../fixtures/flags/flag-set.ts'

t.test('request parameters narrow the list of flags', async (t) => {
  const flags = [
    flag(1, [dependency(2, true)]),
    flag(2, []),
    flag(3, [], { evaluation_runtime: 'server' }),
    flag(4, [], { evaluation_runtime: 'client' }),
    flag(5, [], { evaluation_contexts: ['web', 'app'] }),
    flag(6, [], { key: 'survey-targeting-6' }),
    flag(7, [dependency(3, true)]),
  ]
  const keys = (request: Partial<DecisionRequest>) =>
    Object.keys(values(flags, request))
      .filter((key) => key !== 'hasErrors')
      .join(' ')
  t.equal(keys({ flagKeys: ['flag-1'] }), 'flag-1 flag-2')
  t.equal(keys({ flagKeys: [] }), '')
  t.equal(keys({ flagKeys: ['nobody', 'flag-3'], evaluationRuntime: 'client' }), '')
  t.equal(keys({ isSurveyFlagsOnly: true }), 'survey-targeting-6')
  const common = 'flag-5 survey-targeting-6 flag-7'
  t.equal(keys({ evaluationRuntime: 'client' }), `flag-1 flag-2 flag-4 ${common}`)
  t.equal(keys({ evaluationRuntime: 'server' }), `flag-1 flag-2 flag-3 ${common}`)
  t.equal(keys({ evaluationRuntime: null }), `flag-1 flag-2 ${common}`)
  t.equal(keys({ evaluationRuntime: 'all' }), `flag-1 flag-2 flag-3 flag-4 ${common}`)
  t.match(keys({ evaluationContexts: ['app'] }), 'flag-5')
  t.notMatch(keys({ evaluationContexts: ['App', 'api'] }), 'flag-5')
  t.equal(values(flags, { evaluationRuntime: 'client' })['flag-7'], false, 'a hidden flag is off')
  t.equal(values(flags, { evaluationRuntime: 'server' })['flag-7'], true)
})

t.test('enrollment in an older condition needs the device id that the flag uses', async (t) => {
  const filters = (rollout: number) => ({
    groups: [{ properties: [], rollout_percentage: 100 }],
    super_groups: [{ properties: [person('beta', 'yes')], rollout_percentage: rollout }],
  })
  const flags: StoredFlag[] = [
    { id: 1, key: 'all', filters: filters(100), bucketing_identifier: 'device_id' },
    { id: 2, key: 'none', filters: filters(0), bucketing_identifier: 'device_id' },
    { id: 3, key: 'by-person', filters: filters(100) },
  ]
  const decided = (personProperties: JsonObject, deviceId: string | null = null) => {
    const { all, none, 'by-person': byPerson } = values(flags, { personProperties, deviceId })
    return [all, none, byPerson]
  }
  t.strictSame(decided({ beta: 'yes' }), [false, false, true], 'no device')
  t.strictSame(decided({ beta: 'yes' }, 'phone'), [true, false, true])
  t.strictSame(decided({ beta: 'yes', $device_id: 'phone' }), [true, false, true])
  t.strictSame(decided({ beta: 'no' }, 'phone'), [false, false, false])
  t.strictSame(decided({}, 'phone'), [true, true, true], 'who has not decided gets the conditions')
  t.strictSame(decided({}), [false, false, true])
})

t.test(
  'cohorts: trees, negation, nested cohorts, and cohorts that cannot be computed',
  async (t) => {
    const tree = (type: string, ...values: unknown[]) => ({ properties: { type, values } })
    const pro = person('plan', 'pro')
    const cohorts = [
      cohort(
        1,
        tree('AND', tree('OR', pro).properties, { ...person('spam', true), negation: true }),
      ),
      cohort(2, tree('OR', tree('AND', inCohort(1, 'not_in')).properties)),
      cohort(3, tree('OR', tree('AND', inCohort(4)).properties)),
      cohort(4, tree('OR', tree('AND', inCohort(3)).properties)),
      cohort(5, tree('OR', tree('AND', { type: 'behavioral', key: 'x', value: 'y' }).properties)),
      cohort(6, tree('OR', tree('AND', tree('AND', pro).properties).properties)),
      cohort(7, {}),
      cohort(8, tree('OR', { ...inCohort('1'), negation: true })),
      cohort(9, tree('AND')),
    ]
    const flags = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((id) => flag(id, [inCohort(id)]))
    flags.push(flag(11, [inCohort(1, 'exact')]), flag(12, [inCohort('one')]))
    flags.push(flag(13, [inCohort(77), person('plan', 'none')]))
    const failed = 'failed: cohort_unavailable'
    t.strictSame(values(flags, { personProperties: { plan: 'pro' } }, {}, cohorts), {
      'flag-1': true,
      'flag-2': false,
      'flag-3': failed,
      'flag-4': failed,
      'flag-5': failed,
      'flag-6': failed,
      'flag-7': failed,
      'flag-8': false,
      'flag-9': true,
      'flag-10': failed,
      'flag-11': false,
      'flag-12': false,
      'flag-13': false,
      hasErrors: true,
    })
  },
)

t.test('holdouts: older form, groups, limits', async (t) => {
  const everybody = [{ rollout_percentage: 100 }]
  const make = (id: number, filters: JsonObject) => ({
    id,
    key: `flag-${id}`,
    filters: { groups: everybody, ...filters },
  })
  const flags = [
    make(1, { holdout_groups: [{ properties: [], rollout_percentage: 20, variant: 'out' }] }),
    make(2, { holdout_groups: [{ properties: [], rollout_percentage: 10, variant: 'out' }] }),
    make(3, {
      holdout_groups: [{ properties: [person('a', 1)], rollout_percentage: 100, variant: 'out' }],
    }),
    make(4, { holdout_groups: [{ variant: 'out' }] }),
    make(5, { holdout: { id: 3, exclusion_percentage: 250 } }),
    make(6, { holdout: { id: 3, exclusion_percentage: -1 } }),
    make(7, { holdout: { id: null, exclusion_percentage: 100 } }),
    make(8, { holdout: { id: 3, exclusion_percentage: '100' } }),
    make(9, { aggregation_group_type_index: 0, holdout: { id: 3, exclusion_percentage: 41 } }),
  ]
  t.strictSame(values(flags, { groups: { company: 'company:acme' } }), {
    'flag-1': 'out',
    'flag-2': true,
    'flag-3': true,
    'flag-4': 'out',
    'flag-5': 'holdout-3',
    'flag-6': true,
    'flag-7': true,
    'flag-8': true,
    'flag-9': 'holdout-3',
    hasErrors: false,
  })
})

t.test('a condition without an identifier is skipped', async (t) => {
  const filters = {
    early_exit: true,
    groups: [
      { rollout_percentage: 100 },
      { rollout_percentage: 100, aggregation_group_type_index: 0 },
    ],
  }
  const flags: StoredFlag[] = [{ id: 1, key: 'd', filters, bucketing_identifier: 'device_id' }]
  t.equal(values(flags)['d'], false)
  t.equal(
    values(flags, { groups: { company: 'acme' } })['d'],
    true,
    'without a device there is no early exit',
  )
  t.equal(values(flags, { personProperties: { $device_id: 'x' } })['d'], true)
})

t.test('descriptions name the condition and report missing groups', async (t) => {
  const filters = {
    groups: [
      { rollout_percentage: 100, aggregation_group_type_index: 0 },
      { properties: [person('plan', 'pro')] },
    ],
  }
  const compiled = compileFlags(makeSet([{ id: 1, key: 'm', filters }]))
  const describe = (request: Partial<DecisionRequest>) =>
    decide(compiled, makeRequest(request), makeSources()).decisions[0]
  const missed = describe({})
  t.equal(missed?.reason, 'no_condition_match')
  t.match(missed?.description, /no group type was provided/)
  t.equal(describe({ personProperties: { plan: 'pro' } })?.description, 'Matched condition set 2')
  const before = describe({ groups: { company: 'a' } })
  t.equal(describe({ groups: { company: 'b' } }), before, 'equal decisions are the same object')
})

t.test('an explanation names the filter or the hash that decided', async (t) => {
  const groups = [
    { properties: [inCohort(1), person('plan', 'pro')] },
    { rollout_percentage: 10 },
    { rollout_percentage: 90, variant: 'b' },
    { rollout_percentage: 100 },
  ]
  const filters = { groups, multivariate: { variants: [{ key: 'b', rollout_percentage: 100 }] } }
  const compiled = compileFlags(
    makeSet([
      { id: 1, key: 'beta-feature', filters },
      flag(2, [dependency(1, 'b')]),
      flag(3, [inCohort(77)]),
      { id: 4, key: 'flag-4', filters: { ...filters, feature_enrollment: true } },
      { id: 5, key: 'flag-5', filters: { groups: [{ aggregation_group_type_index: 1 }] } },
      { id: 6, key: 'flag-6', filters: { groups: [{}] }, bucketing_identifier: 'device_id' },
    ]),
  )
  const explain = (key: string, request: Partial<DecisionRequest> = {}) =>
    explainFlag(compiled, key, makeRequest(request), makeSources())
  const story = explain('beta-feature')
  t.equal(story?.decision.variant, 'b')
  t.match(story?.conditions, [
    { outcome: 'filter_failed', failedFilter: { index: 1, filter: person('plan', 'pro') } },
    { outcome: 'rollout_excluded', rolloutPercentage: 10, hash: /^0\.726/ },
    { outcome: 'matched', rolloutPercentage: 90, hash: /^0\.726/ },
    { outcome: 'not_reached', hash: null },
  ])
  t.equal(explain('flag-2')?.conditions[0]?.outcome, 'matched')
  t.match(explain('flag-3')?.conditions[0], { outcome: 'failed', failure: 'cohort_unavailable' })
  const enrolled = explain('flag-4', { personProperties: { '$feature_enrollment/flag-4': 'true' } })
  t.equal(enrolled?.decision.reason, 'super_condition_value')
  t.ok(enrolled?.conditions.every(({ outcome }) => outcome === 'not_reached'))
  t.equal(explain('flag-5')?.conditions[0]?.outcome, 'no_group')
  t.equal(explain('flag-6')?.conditions[0]?.outcome, 'no_device')
  t.equal(explain('unknown'), null)
})
