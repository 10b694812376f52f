/**
 * Tests invariants of all flags and requests: property lookups, reuse of compiled flags, malformed filters.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { compileFlags } from '../../../src/rules/flags/compile.ts'
import { decide } from '../../../src/rules/flags/decide.ts'
import { Evaluation } from '../../../src/rules/flags/evaluation.ts'
import { explainFlag } from '../../../src/rules/flags/explain.ts'
import { standInFor } from '../../../src/rules/flags/initial-properties.ts'
import { lookupIn } from '../../../src/rules/flags/property-lookup.ts'
import type { DecisionRequest, FlagCohort, FlagSet } from '../../../src/rules/flags/types.ts'
import {
  makeRequest,
  makeSet,
  makeSources,
  type StoredFlag,
} from '../../fixtures/flags/flag-set.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const personKey = fc.constantFrom(
  '$browser',
  '$initial_browser',
  'utm_source',
  '$initial_utm_source',
  '$initial__kx',
  '_kx',
  'distinct_id',
  'plan',
  '__proto__',
  'constructor',
)
const value = fc.constantFrom<unknown>('a', 'b', 1, null, true, ['a'], {})
const properties = fc
  .array(fc.tuple(personKey, value), { maxLength: 5 })
  .map(
    (entries) =>
      JSON.parse(
        `{${entries.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`).join()}}`,
      ) as JsonObject,
  )

/** All properties of a person in one map, as the rule describes it. */
function eagerMap(stored: JsonObject | null, request: DecisionRequest): Map<string, unknown> {
  const map = new Map(Object.entries(stored ?? {}))
  map.set('distinct_id', request.distinctId)
  for (const [key, given] of Object.entries(request.personProperties)) map.set(key, given)
  for (const [key, current] of [...map]) {
    const initial = `$initial_${key.replace(/^\$/, '')}`
    if (standInFor(initial) === key && !map.has(initial)) map.set(initial, current)
  }
  return map
}

t.test('a property lookup equals a lookup in the merged map of the person', async (t) => {
  fc.assert(
    fc.property(fc.option(properties), properties, personKey, (stored, personProperties, key) => {
      const request = makeRequest({ personProperties })
      const sources = makeSources({ personProperties: () => stored && lookupIn(stored) })
      const rules = { groupTypes: new Map(), cohortTests: new Map() }
      const got = new Evaluation(request, sources, rules).personValue(key, standInFor(key))
      const expected = eagerMap(stored, request).get(key)
      if (JSON.stringify(got) !== JSON.stringify(expected))
        throw new Error(`${key}: ${String(got)}`)
    }),
    runsOf(2000),
  )
  t.equal(standInFor('$initial_browser'), '$browser')
  t.equal(standInFor('$initial_utm_source'), 'utm_source')
  t.equal(standInFor('$initial_plan'), null)
})

t.test(
  'group properties come from the request, then the store; the key wins over both',
  async (t) => {
    const sources = makeSources({
      groupProperties: () => lookupIn({ tier: 'stored', seats: 5, $group_key: 'x' }),
    })
    const request = makeRequest({
      groups: { company: 'acme', project: 7 },
      groupProperties: {
        company: { tier: 'given', $group_key: 'y' },
        project: 'none',
        constructor: {},
      },
    })
    const groupTypes = new Map([
      [0, 'company'],
      [1, 'project'],
      [2, 'constructor'],
    ])
    const evaluation = new Evaluation(request, sources, { groupTypes, cohortTests: new Map() })
    t.equal(evaluation.groupValue(0, 'tier'), 'given')
    t.equal(evaluation.groupValue(0, 'seats'), 5)
    t.equal(evaluation.groupValue(0, '$group_key'), 'acme')
    t.equal(evaluation.groupValue(1, 'tier'), 'stored')
    t.equal(evaluation.groupValue(1, '$group_key'), 7)
    t.equal(evaluation.groupKey(1), '7')
    t.equal(evaluation.groupKey(2), null)
    t.equal(evaluation.groupValue(3, 'tier'), undefined)
  },
)

const filter = fc.oneof(
  fc.record({
    key: fc.constantFrom('plan', 'age', '$initial_browser'),
    type: fc.constant('person'),
    operator: fc.constantFrom('exact', 'is_not', 'regex', 'gt', 'is_set', 'is_date_after'),
    value: fc.constantFrom<unknown>('pro', '5', ['a', 'b'], '-1d', '^p'),
  }),
  fc.record({
    key: fc.constant('id'),
    type: fc.constant('cohort'),
    value: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({
    key: fc.integer({ min: 1, max: 7 }).map(String),
    type: fc.constant('flag'),
    operator: fc.constant('flag_evaluates_to'),
    value: fc.constantFrom(true, false, 'b'),
  }),
)
const condition = fc.record(
  {
    properties: fc.array(filter, { maxLength: 3 }),
    rollout_percentage: fc.constantFrom(null, 0, 30, 60, 100),
    variant: fc.constantFrom(null, 'b'),
  },
  { requiredKeys: ['properties'] },
)
const filters = fc.record({
  groups: fc.array(condition, { maxLength: 3 }),
  multivariate: fc.constantFrom(null, {
    variants: [
      { key: 'a', rollout_percentage: 50 },
      { key: 'b', rollout_percentage: 50 },
    ],
  }),
})
const flags = fc
  .array(fc.tuple(filters, fc.boolean(), fc.integer({ min: 1, max: 3 })), { maxLength: 6 })
  .map((list) =>
    list.map(([stored, active, version], index): StoredFlag => {
      return { id: index + 1, key: `flag-${index + 1}`, filters: stored, active, version }
    }),
  )

function cohortsWith(plan: string): FlagSet['cohorts'] {
  const leaf = { key: 'plan', type: 'person', operator: 'exact', value: plan }
  const tree = { properties: { type: 'OR', values: [{ type: 'AND', values: [leaf] }] } }
  return new Map<number, FlagCohort>([
    [1, { id: 1, name: '', isStatic: false, filters: tree }],
    [2, { id: 2, name: '', isStatic: true, filters: {} }],
  ])
}

t.test('reused compiled flags decide like newly compiled flags', async (t) => {
  fc.assert(
    fc.property(flags, flags, properties, fc.boolean(), (before, now, personProperties, isSame) => {
      // The same record has the same version, so a changed record gets a higher version.
      const changed = now.map((item, index) => {
        const old = before[index]
        return isSame && old !== undefined && index % 2 === 0 ? old : { ...item, version: 9 }
      })
      const first = compileFlags(makeSet(before, { cohorts: cohortsWith('pro') }))
      const cohorts = isSame ? first.set.cohorts : cohortsWith('free')
      const set = makeSet(changed, { cohorts })
      const request = makeRequest({ personProperties })
      const taken = decide(compileFlags(set, first), request, makeSources())
      const fresh = decide(compileFlags(set), request, makeSources())
      if (JSON.stringify(taken) !== JSON.stringify(fresh)) throw new Error('they differ')
    }),
    runsOf(500),
  )
  const one = compileFlags(makeSet([{ id: 1, key: 'a', filters: {} }]))
  const two = compileFlags(makeSet([{ id: 1, key: 'a', filters: {} }]), one)
  t.equal(two.active[0], one.active[0], 'a flag of the same version is reused')
  const moved = compileFlags(
    makeSet([{ id: 1, key: 'a', filters: {} }], { timezone: 'Asia/Tokyo' }),
    two,
  )
  t.not(moved.active[0], one.active[0], 'another time zone is not')
})

t.test('an explanation gives the same result as the decision', async (t) => {
  fc.assert(
    fc.property(flags, properties, (stored, personProperties) => {
      const compiled = compileFlags(makeSet(stored, { cohorts: cohortsWith('a') }))
      const request = makeRequest({ personProperties })
      for (const decision of decide(compiled, request, makeSources()).decisions) {
        const story = explainFlag(compiled, decision.flag.key, request, makeSources())
        if (story?.decision !== decision) throw new Error('another decision')
        const matched = story.conditions.findIndex(({ outcome }) => outcome === 'matched')
        const index = decision.reason === 'condition_match' ? decision.conditionIndex : -1
        if (matched !== index) throw new Error(`condition ${matched} instead of ${index}`)
      }
    }),
    runsOf(500),
  )
  t.pass('compared')
})

t.test('malformed filters give a decision and never throw', async (t) => {
  const names = [
    'groups multivariate variants payloads aggregation_group_type_index early_exit super_groups',
    'feature_enrollment holdout holdout_groups properties rollout_percentage variant key value operator',
    'type negation group_type_index id exclusion_percentage values person group cohort flag regex between',
    'semver_wildcard is_date_before flag_evaluates_to true __proto__ constructor',
  ].flatMap((line) => line.split(' '))
  const { json } = fc.letrec<{ json: unknown }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 6, withCrossShrink: true },
      fc.constantFrom<unknown>(
        ...names,
        null,
        true,
        0,
        1,
        50,
        -1,
        1e300,
        '1',
        '[',
        '(a',
        'abc',
        '',
      ),
      fc.array(tie('json'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...names), tie('json'), { maxKeys: 6 }),
    ),
  }))
  const shaped = fc.record({
    groups: fc.oneof(json, fc.array(fc.record({ properties: fc.array(json, { maxLength: 3 }) }))),
    super_groups: json,
    holdout: json,
  })
  fc.assert(
    fc.property(fc.oneof(json, shaped), json, (malformed, tree) => {
      const stored = { id: 1, key: 'flag-1', filters: malformed as JsonObject }
      const cohort = { id: 1, name: '', isStatic: false, filters: { properties: tree } }
      const set = makeSet([stored], { cohorts: new Map([[1, cohort]]) })
      const compiled = compileFlags(set)
      const { decisions } = decide(
        compiled,
        makeRequest({ groups: { company: 'a' } }),
        makeSources(),
      )
      if (decisions.length !== 1) throw new Error('no decision')
      explainFlag(compiled, 'flag-1', makeRequest(), makeSources())
    }),
    runsOf(3000),
  )
  const off = [
    { groups: [null] },
    { groups: [{ properties: 'all' }] },
    { groups: [{ properties: [null] }] },
    { groups: [{ rollout_percentage: '100' }] },
    { groups: 5 },
  ]
  for (const malformed of off) {
    const compiled = compileFlags(makeSet([{ id: 1, key: 'a', filters: malformed }]))
    const { decisions } = decide(compiled, makeRequest(), makeSources())
    t.equal(decisions[0]?.isEnabled, false, JSON.stringify(malformed))
  }
})
