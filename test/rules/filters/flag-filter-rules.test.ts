/**
 * Tests the rules that flag filters must meet to be stored, each with its error code.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { draftFlag } from '../../../src/rules/flags/edit/flag-changes.ts'
import { on, onFlag, refusal, taken } from '../../fixtures/flags/flag-repository.ts'

function person(more: JsonObject = {}): JsonObject {
  return { key: 'plan', type: 'person', value: 'pro', operator: 'exact', ...more }
}

function variants(...percentages: readonly unknown[]): JsonObject {
  const list = percentages.map((rollout, index) => ({
    key: `v${index}`,
    ...(rollout === undefined ? {} : { rollout_percentage: rollout }),
  }))
  return { variants: list }
}

function patterns(count: number): readonly JsonObject[] {
  return Array.from({ length: count }, (_, index) =>
    person({ operator: 'regex', value: `a${index}` }),
  )
}

function longPattern(units: number): JsonObject {
  return person({ operator: 'regex', value: 'a'.repeat(units) })
}

const EVERYONE = [{ properties: [], rollout_percentage: 100 }]
/** Filters of a new flag, the code of their refusal, and the objects that the project holds. */
const FILTER_ROWS: readonly (readonly [string, JsonObject, string | null])[] = [
  ['groups missing', {}, 'invalid_input'],
  ['groups empty', { groups: [] }, 'invalid_input'],
  ['groups no list', { groups: {} }, 'invalid_input'],
  ['groups no objects', { groups: [1] }, 'invalid_input'],
  ['properties no list', { groups: [{ properties: {} }] }, 'invalid_input'],
  ['properties no objects', { groups: [{ properties: ['x'] }] }, 'invalid_input'],
  ['property without a key', on({ type: 'person', value: 1 }), 'invalid_input'],
  ['rollout above 100', { groups: [{ rollout_percentage: 100.5 }] }, 'invalid_input'],
  ['rollout below 0', { groups: [{ rollout_percentage: -1 }] }, 'invalid_input'],
  ['rollout a text', { groups: [{ rollout_percentage: '50' }] }, 'invalid_input'],
  ['rollout fractional', { groups: [{ rollout_percentage: 12.5 }] }, null],
  ['aggregation 5', { groups: EVERYONE, aggregation_group_type_index: 5 }, 'invalid_input'],
  ['aggregation a text', { groups: EVERYONE, aggregation_group_type_index: '0' }, 'invalid_input'],
  ['aggregation 4', { groups: EVERYONE, aggregation_group_type_index: 4 }, null],
  ['super_groups no list', { groups: EVERYONE, super_groups: {} }, 'invalid_input'],
  ['holdout no object', { groups: EVERYONE, holdout: 3 }, 'invalid_input'],
  [
    'person flag: group property',
    on({ key: 'a', type: 'group', group_type_index: 0 }),
    'invalid_input',
  ],
  ['person flag: property without a type', on({ key: 'a', value: 1 }), 'invalid_input'],
  ['person flag: event property', on(person({ type: 'event' })), 'invalid_input'],
  [
    'group flag: person property',
    { ...on(person()), aggregation_group_type_index: 0 },
    'invalid_input',
  ],
  [
    'group flag: cohort',
    { ...on({ key: 'id', type: 'cohort', value: 1 }), aggregation_group_type_index: 0 },
    'invalid_input',
  ],
  [
    'group flag: property of another type',
    {
      ...on({ key: 'a', type: 'group', group_type_index: 1, value: 'x' }),
      aggregation_group_type_index: 0,
    },
    'invalid_input',
  ],
  [
    'group flag: its property',
    {
      ...on({ key: 'a', type: 'group', group_type_index: 1, value: 'x' }),
      aggregation_group_type_index: 1,
    },
    null,
  ],
  [
    'group condition: person property',
    { groups: [{ properties: [person()], aggregation_group_type_index: 0 }] },
    null,
  ],
  [
    'group condition: property of another type',
    {
      groups: [
        {
          properties: [{ key: 'a', type: 'group', group_type_index: 2 }],
          aggregation_group_type_index: 0,
        },
      ],
    },
    'invalid_input',
  ],
  [
    'person condition of a group flag',
    {
      groups: [
        {
          properties: [{ key: 'a', type: 'group', group_type_index: 0 }],
          aggregation_group_type_index: null,
        },
      ],
      aggregation_group_type_index: 0,
    },
    'invalid_input',
  ],
  ['flag filter with another operator', onFlag(1, { operator: 'exact' }), 'invalid_input'],
  ['flag filter without operator', onFlag(1, { operator: undefined }), 'invalid_input'],
  ['flag reference by key', onFlag('taken'), 'invalid_input'],
  ['flag reference unknown', onFlag(99), 'invalid_input'],
  ['flag reference deleted', onFlag(3), 'invalid_input'],
  ['flag reference disabled', onFlag(2), 'invalid_input'],
  ['flag reference', onFlag(1), null],
  ['variants below 100', { groups: EVERYONE, multivariate: variants(50, 49) }, 'invalid_input'],
  [
    'variants: a missing percentage counts 0',
    { groups: EVERYONE, multivariate: variants(50, undefined) },
    'invalid_input',
  ],
  [
    'variants: the sum is exact',
    { groups: EVERYONE, multivariate: variants(33.33, 33.33, 33.33) },
    'invalid_input',
  ],
  ['variants of 100', { groups: EVERYONE, multivariate: variants(50, undefined, 50) }, null],
  [
    'variants twice the same',
    {
      groups: EVERYONE,
      multivariate: {
        variants: [
          { key: 'a', rollout_percentage: 50 },
          { key: 'a', rollout_percentage: 50 },
        ],
      },
    },
    'invalid_input',
  ],
  [
    'variant without a key',
    { groups: EVERYONE, multivariate: { variants: [{ rollout_percentage: 100 }] } },
    'invalid_input',
  ],
  [
    'variant __proto__',
    {
      groups: EVERYONE,
      multivariate: { variants: [{ key: '__proto__', rollout_percentage: 100 }] },
    },
    'invalid_input',
  ],
  ['multivariate no object', { groups: EVERYONE, multivariate: [] }, 'invalid_input'],
  ['multivariate null', { groups: EVERYONE, multivariate: null }, null],
  [
    'condition variant unknown',
    { groups: [{ variant: 'v9' }], multivariate: variants(100) },
    'invalid_input',
  ],
  ['condition variant', { groups: [{ variant: 'v0' }], multivariate: variants(100) }, null],
  [
    'list value of 1001',
    on(person({ value: Array.from({ length: 1001 }, String) })),
    'invalid_input',
  ],
  ['list value of 1000', on(person({ value: Array.from({ length: 1000 }, String) })), null],
  ['regex 200 times', { groups: [{ properties: patterns(200) }] }, null],
  ['regex 201 times', { groups: [{ properties: patterns(201) }] }, 'invalid_input'],
  [
    'regex 201 times with enrollment',
    { groups: [{ properties: patterns(200) }], super_groups: [{ properties: patterns(1) }] },
    'invalid_input',
  ],
  [
    'regex of 5000 characters together',
    { groups: [{ properties: Array.from({ length: 10 }, () => longPattern(500)) }] },
    null,
  ],
  [
    'regex of 5001 characters together',
    {
      groups: [
        { properties: [...Array.from({ length: 10 }, () => longPattern(500)), longPattern(1)] },
      ],
    },
    'invalid_input',
  ],
  ['cohort unknown', on({ key: 'id', type: 'cohort', value: 99 }), 'cohort_does_not_exist'],
  ['cohort list', on({ key: 'id', type: 'cohort', value: [1] }), 'cohort_does_not_exist'],
  ['cohort no number', on({ key: 'id', type: 'cohort', value: 'x' }), 'cohort_does_not_exist'],
  ['cohort with event filters', on({ key: 'id', type: 'cohort', value: 2 }), null],
  ['cohort of a cohort with event filters', on({ key: 'id', type: 'cohort', value: 3 }), null],
  ['cohort', on({ key: 'id', type: 'cohort', value: 1, operator: 'not_in' }), null],
  ['is_date_before', on(person({ operator: 'is_date_before', value: 'soon' })), 'invalid_date'],
  ['is_date_after', on(person({ operator: 'is_date_after', value: '2024-13-01' })), 'invalid_date'],
  ['is_date_exact', on(person({ operator: 'is_date_exact', value: 5 })), 'invalid_date'],
  ['a relative date', on(person({ operator: 'is_date_after', value: '-7d' })), null],
  [
    'a date with time',
    on(person({ operator: 'is_date_exact', value: '2024-02-29T10:00:00Z' })),
    null,
  ],
  ...['regex', 'not_regex', 'icontains', 'not_icontains', 'gt', 'gte', 'lt', 'lte'].map(
    (operator): readonly [string, JsonObject, string] => [
      `${operator} with a number`,
      on(person({ operator, value: 5 })),
      'invalid_value',
    ],
  ),
  ['gt with a text', on(person({ operator: 'gt', value: '5' })), null],
  ['in on a person property', on(person({ operator: 'in' })), 'invalid_operator'],
  ['not_in on a person property', on(person({ operator: 'not_in' })), 'invalid_operator'],
  ['an operator that nobody knows', on(person({ operator: 'resembles' })), 'invalid_operator'],
  ['the operator of flags', on(person({ operator: 'flag_evaluates_to' })), 'invalid_operator'],
  [
    'an operator of properties on a cohort',
    on({ key: 'id', type: 'cohort', value: 1, operator: 'exact' }),
    'invalid_operator',
  ],
  ['no operator', on(person({ operator: null })), null],
  ['a pattern that is none', on(person({ operator: 'regex', value: '(' })), 'invalid_value'],
  ['an empty pattern', on(person({ operator: 'regex', value: '' })), null],
  ['payloads no object', { groups: EVERYONE, payloads: [] }, 'invalid_input'],
  ['payload no JSON', { groups: EVERYONE, payloads: { true: '{a' } }, 'invalid_input'],
  [
    'payload of no variant',
    { groups: EVERYONE, multivariate: variants(100), payloads: { true: '1' } },
    'invalid_input',
  ],
  [
    'payload of a variant',
    { groups: EVERYONE, multivariate: variants(100), payloads: { v0: '1' } },
    null,
  ],
  [
    'boolean flag with another payload',
    { groups: EVERYONE, payloads: { v0: '1' } },
    'invalid_input',
  ],
  [
    'boolean flag with two payloads',
    { groups: EVERYONE, payloads: { true: '1', false: '2' } },
    'invalid_input',
  ],
  [
    'filters beyond 1 MB',
    { groups: [{ properties: [person({ value: 'x'.repeat(1024 * 1024) })] }] },
    'invalid_input',
  ],
  [
    'filters of almost 1 MB',
    { groups: [{ properties: [person({ value: 'x'.repeat(1024 * 1000) })] }] },
    null,
  ],
]

t.test('each invalid filter is refused with its code', (t) => {
  for (const [name, filters, code] of FILTER_ROWS) {
    const expected = code === null ? null : [code, 'filters']
    t.strictSame(
      refusal(() => draftFlag({ key: 'a', filters }, taken)),
      expected,
      name,
    )
  }
  t.end()
})

t.test('filters are stored in normal form', (t) => {
  const stored = (filters: JsonObject) => draftFlag({ key: 'a', filters }, taken).filters
  const payloads = { true: { a: [1] } }
  t.strictSame(stored({ groups: EVERYONE, payloads }), {
    groups: EVERYONE,
    payloads: { true: '{"a":[1]}' },
  })
  t.strictSame(stored({ groups: EVERYONE, payloads: { true: null } })['payloads'], {})
  const cohort = { key: 'id', type: 'cohort', value: 1 }
  t.strictSame(stored(on({ ...cohort, cohort_name: 'plain' })), on(cohort))
  const kept = { groups: [{ ...EVERYONE[0], sort_key: 'x' }], note: { deep: [null] } }
  t.strictSame(stored(kept), kept, 'unknown members are kept')
  t.end()
})
