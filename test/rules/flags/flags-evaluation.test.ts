/**
 * Tests whole decisions: the reference cases, and rules that these cases do not cover.
 *
 * @lane quick
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { compileFlags } from '../../../src/rules/flags/compile.ts'
import { decide } from '../../../src/rules/flags/decide.ts'
import { lookupIn } from '../../../src/rules/flags/property-lookup.ts'
import type { DecisionSources, Decisions } from '../../../src/rules/flags/types.ts'
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

interface CaseFile {
  readonly cases: readonly {
    readonly id: number
    readonly name: string
    readonly flags: readonly StoredFlag[]
    readonly cohorts?: readonly { id: number; is_static: boolean; filters?: JsonObject }[]
    readonly group_type_mapping?: Readonly<Record<string, string>>
    readonly person?: {
      readonly properties?: JsonObject
      readonly static_cohorts?: readonly number[]
      readonly hash_key_overrides?: Readonly<Record<string, string>>
    } | null
    readonly stored_groups?: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>
    readonly request: {
      readonly distinct_id: string
      readonly groups?: JsonObject
      readonly person_properties?: JsonObject
      readonly group_properties?: JsonObject
      readonly $anon_distinct_id?: string
      readonly $device_id?: string
    }
    readonly expected: Readonly<Record<string, unknown>>
    readonly expected_errors: boolean
  }[]
}

const file = JSON.parse(
  readFileSync(new URL('../../fixtures/flags/flag-eval-vectors.json', import.meta.url), 'utf8'),
) as CaseFile

/** Decisions in the form of the cases. */
function sight({ decisions }: Decisions): Record<string, unknown> {
  return Object.fromEntries(
    decisions.map(({ flag, isEnabled, variant, reason, conditionIndex, payload, isFailed }) => [
      flag.key,
      {
        enabled: isEnabled,
        variant,
        code: reason,
        condition_index: conditionIndex,
        payload,
        ...(isFailed ? { failed: true } : {}),
      },
    ]),
  )
}

t.test('all vector cases hold', async (t) => {
  for (const item of file.cases) {
    const { person, stored_groups: groups, request } = item
    const compiled = compileFlags(
      makeSet(item.flags, {
        cohorts: new Map(
          (item.cohorts ?? []).map((entry) =>
            cohort(entry.id, entry.filters ?? null, entry.is_static),
          ),
        ),
        groupTypes: new Map(
          Object.entries(item.group_type_mapping ?? {}).map(([index, name]) => [
            Number(index),
            name,
          ]),
        ),
      }),
    )
    const decisions = decide(
      compiled,
      makeRequest({
        distinctId: request.distinct_id,
        groups: request.groups ?? {},
        personProperties: request.person_properties ?? {},
        groupProperties: request.group_properties ?? {},
        anonDistinctId: request.$anon_distinct_id ?? null,
        deviceId: request.$device_id ?? null,
      }),
      makeSources({
        personProperties: () => (person?.properties ? lookupIn(person.properties) : null),
        groupProperties: (typeIndex, key) => {
          const properties = groups?.[typeIndex]?.[key]
          return properties ? lookupIn(properties) : null
        },
        isInStaticCohort: (id) => person?.static_cohorts?.includes(id) ?? false,
        continuityOverrides: () => new Map(Object.entries(person?.hash_key_overrides ?? {})),
      }),
    )
    t.match(sight(decisions), item.expected, `${item.id}: ${item.name}`)
    t.strictSame(Object.keys(sight(decisions)).sort(), Object.keys(item.expected).sort())
    t.equal(decisions.hasErrors, item.expected_errors, `${item.id}: errors`)
  }
  t.ok(file.cases.length > 40)
})

const boom = (): never => {
  throw new Error('cannot read')
}

t.test('a failed read makes only the flags that need it fail', async (t) => {
  const flags = [
    flag(1, []),
    flag(2, [person('plan', 'pro')]),
    flag(3, [{ ...person('tier', 'gold'), type: 'group', group_type_index: 0 }]),
    flag(4, [inCohort(9)]),
    flag(5, [person('plan', 'pro')], {
      filters: {
        groups: [{ properties: [], rollout_percentage: 50 }],
      },
      ensure_experience_continuity: true,
    }),
    flag(6, [person('given', 'here')]),
    flag(7, [person('distinct_id', 'user-1')]),
    flag(8, [dependency(2, false)]),
    flag(9, [dependency(2, true)]),
  ]
  const request = {
    groups: { company: 'acme' },
    personProperties: { given: 'here' },
  }
  const sources = {
    personProperties: boom,
    groupProperties: boom,
    isInStaticCohort: boom,
    continuityOverrides: boom,
  }
  t.strictSame(values(flags, request, sources, [cohort(9, null, true)]), {
    'flag-1': true,
    'flag-2': 'failed: person_unavailable',
    'flag-3': 'failed: group_unavailable',
    'flag-4': 'failed: cohort_unavailable',
    'flag-5': 'failed: override_unavailable',
    'flag-6': true,
    'flag-7': true,
    'flag-8': false,
    'flag-9': false,
    hasErrors: true,
  })
})

t.test('every source is read once, and only when a flag needs it', async (t) => {
  const asked: string[] = []
  const sources: DecisionSources = {
    personProperties: () => {
      asked.push('person')
      return lookupIn({ plan: 'pro' })
    },
    groupProperties: (typeIndex, key) => {
      asked.push(`group ${typeIndex} ${key}`)
      return null
    },
    isInStaticCohort: (id) => {
      asked.push(`cohort ${id}`)
      if (id === 8) throw new Error('cannot read')
      return true
    },
    continuityOverrides: () => {
      asked.push('overrides')
      return new Map()
    },
  }
  const plain = [flag(1, []), flag(2, [person('x', 1)])]
  values(plain, { personProperties: { x: 1 } }, sources)
  t.strictSame(asked, [])
  const group = { key: 'tier', value: 'gold', type: 'group', group_type_index: 0 }
  const busy = [1, 2, 3].map((id) => flag(id, [person('plan', 'pro'), group]))
  busy.push(
    flag(4, [inCohort(7)]),
    flag(5, [inCohort(7)]),
    flag(6, [inCohort(8)]),
    flag(7, [inCohort(8)]),
  )
  const rollout = { groups: [{ rollout_percentage: 50 }] }
  for (const id of [10, 11]) {
    busy.push({ id, key: `flag-${id}`, filters: rollout, ensure_experience_continuity: true })
  }
  const cohorts = [cohort(7, null, true), cohort(8, null, true)]
  values(busy, { groups: { company: 5 } }, sources, cohorts)
  t.strictSame(asked, ['person', 'group 0 5', 'cohort 7', 'cohort 8', 'overrides'])
})

t.test(
  'overrides are read when an anonymous id is present, even if nothing is hashed',
  async (t) => {
    let count = 0
    const continuityOverrides = () => {
      count++
      return new Map()
    }
    const flags = [flag(1, [], { ensure_experience_continuity: true })]
    values(flags, {}, { continuityOverrides })
    t.equal(count, 0)
    values(flags, { anonDistinctId: 'anon' }, { continuityOverrides })
    t.equal(count, 1)
  },
)

t.test('a flag with continuity uses the stored identifier, else the anonymous one', async (t) => {
  const half = { groups: [{ rollout_percentage: 72 }] }
  const flags: StoredFlag[] = [
    { id: 1, key: 'beta-feature', filters: half, ensure_experience_continuity: true },
  ]
  const at = (anonDistinctId: string | null, overrides: [string, string][] = []) =>
    values(flags, { anonDistinctId }, { continuityOverrides: () => new Map(overrides) })[
      'beta-feature'
    ]
  t.equal(at(null), false, 'the hash of user-1 is 0.726')
  t.equal(at(''), false, 'there is no anonymous id')
  t.equal(at('user-2'), true, 'the hash of user-2 is 0.697')
  t.equal(at('user-2', [['beta-feature', 'user-1']]), false)
  t.equal(at('user-1', [['beta-feature', 'user-2']]), true)
  t.equal(at('user-1', [['other', 'user-2']]), false)
})

t.test('circular dependencies raise the error flag, missing flags do not', async (t) => {
  const missing = [flag(1, [dependency(99, false)]), flag(2, [dependency(1, false)])]
  t.strictSame(values(missing), { 'flag-1': false, 'flag-2': false, hasErrors: false })
  const circle = [
    flag(1, [dependency(2, false)]),
    flag(2, [dependency(1, false)]),
    flag(3, [dependency(2, false)]),
    flag(4, [dependency(4, false)]),
    flag(5, [dependency(6, true)]),
    flag(6, []),
  ]
  t.strictSame(values(circle), {
    'flag-1': false,
    'flag-2': false,
    'flag-3': false,
    'flag-4': false,
    'flag-5': true,
    'flag-6': true,
    hasErrors: true,
  })
  t.equal(
    values(circle, { flagKeys: ['flag-5'] })['hasErrors'],
    false,
    'the circle was not requested',
  )
  const through = [
    flag(1, [dependency(2, false)]),
    flag(2, [dependency(1, true)], { active: false }),
  ]
  t.strictSame(
    values(through),
    { 'flag-1': true, hasErrors: false },
    'an inactive flag is just off',
  )
})

t.test('a chain of thousands of dependencies is evaluated', async (t) => {
  const count = 5000
  const chain = Array.from({ length: count }, (_, index) =>
    flag(index + 1, index + 1 === count ? [] : [dependency(index + 2, true)]),
  )
  const result = values(chain)
  t.equal(result['flag-1'], true)
  t.equal(result['hasErrors'], false)
})
