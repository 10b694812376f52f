/**
 * Tests person filters as pure rules: trees, cohorts, display names, and date ranges.
 *
 * @lane quick
 */
import t from 'tap'
import { type DateRange, dateRange, isoInZone } from '../../../src/rules/analytics/date-range.ts'
import { parseInterval } from '../../../src/rules/analytics/periods.ts'
import type { FilterGroup } from '../../../src/rules/filters/filter-group.ts'
import { readCohortFilters, readListFilters } from '../../../src/rules/filters/filter-tree.ts'
import {
  type CohortLookup,
  cohortTest,
  personTest,
} from '../../../src/rules/filters/person-filter.ts'
import {
  chosenIdsFirst,
  isAnonymousId,
  personName,
} from '../../../src/rules/persons/person-name.ts'

const NO_COHORTS: CohortLookup = () => null

function candidate(properties: Readonly<Record<string, unknown>>, number = 1) {
  const property = (key: string): unknown =>
    Object.hasOwn(properties, key) ? properties[key] : undefined
  return { number, property }
}

function holds(tree: unknown, properties: Readonly<Record<string, unknown>>): boolean | 'all' {
  const filters = readListFilters(tree)
  return filters === null ? 'all' : personTest(filters, NO_COHORTS)(candidate(properties))
}

t.test('a list is joined by AND, a tree by its own operators', async (t) => {
  const plan = { key: 'plan', value: 'pro' }
  const age = { key: 'age', value: 30, operator: 'gt', type: 'person' }
  const cases: readonly (readonly [unknown, object, boolean | 'all'])[] = [
    [[plan, age], { plan: 'pro', age: 31 }, true],
    [[plan, age], { plan: 'pro', age: 30 }, false],
    [{ type: 'OR', values: [plan, age] }, { plan: 'x', age: '31' }, true],
    [{ type: 'OR', values: [plan, age] }, { plan: 'x', age: 'x' }, false],
    [{ values: [plan, age] }, { plan: 'pro' }, false],
    [plan, { plan: 'pro' }, true],
    [{ plan: 'pro', age__gte: '30' }, { plan: 'pro', age: 30 }, true],
    [{ plan__is_not: 'pro' }, {}, true],
    [{ odd__name: 'x' }, { odd__name: 'x' }, true],
    [{ key: 'plan', value: 'pro', negation: true }, { plan: 'pro' }, false],
    [{ key: 'plan', operator: 'is_set' }, { plan: null }, true],
    [[], {}, 'all'],
    [{}, {}, 'all'],
    [null, {}, 'all'],
    ['', {}, 'all'],
  ]
  for (const [tree, properties, expected] of cases) {
    const given = properties as Readonly<Record<string, unknown>>
    t.equal(holds(tree, given), expected, JSON.stringify(tree))
  }
  const deep = {
    type: 'AND',
    values: [
      { type: 'OR', values: [plan, { key: 'plan', value: 'max' }] },
      { type: 'AND', values: [age] },
    ],
  }
  t.equal(holds(deep, { plan: 'max', age: 40 }), true)
  t.equal(holds(deep, { plan: 'free', age: 40 }), false)
})

t.test('a list skips filters that are not about persons or cannot be built', async (t) => {
  const ignored = [
    ...['event', 'group', 'element', 'session', 'behavioral', 'banana'].map((type) => ({
      key: 'a',
      value: 1,
      type,
    })),
    { value: 1 },
    { key: '', value: 1 },
    { key: 5, value: 1 },
    { key: 'a' },
    { key: 'a', value: null },
    { key: 'a', value: 1, type: 9 },
    { key: 'a', value: 1, type: 'event', operator: 'like' },
    { type: 'cohort', key: 'id' },
  ]
  for (const filter of ignored) t.equal(readListFilters([filter]), null, JSON.stringify(filter))
  const mixed = { type: 'OR', values: [{ key: 'a', value: 1 }, ...ignored] }
  t.equal(holds(mixed, { a: 2 }), false, 'the remaining part of an OR still counts')
  t.equal(holds(mixed, { a: 1 }), true)
})

t.test('an invalid tree is refused', async (t) => {
  const filter = { key: 'a', value: 1 }
  const nested = (depth: number): unknown =>
    depth === 0 ? filter : { type: 'AND', values: [nested(depth - 1)] }
  t.not(readListFilters(nested(5)), null)
  for (const tree of [
    'text',
    5,
    true,
    [1],
    [null],
    [[filter]],
    { values: 5 },
    { type: 'XOR', values: [filter] },
    { type: 'AND', values: [filter, { type: 'OR', values: [filter] }] },
    nested(6),
    Array(101).fill(filter),
    [filter, { ...filter, operator: 'like' }],
    [{ ...filter, operator: 7 }],
    [{ type: 'cohort', key: 'id', value: 1, operator: 'like' }],
  ]) {
    t.throws(() => readListFilters(tree), { code: 'invalid_input', attr: 'properties' })
  }
})

t.test('a cohort refuses filters that a list skips', async (t) => {
  const filter = { key: 'a', value: 1, type: 'person' }
  const two = { type: 'OR', values: [{ type: 'AND', values: [filter] }] }
  t.strictSame(readCohortFilters(two), two)
  t.strictSame(readCohortFilters([{ key: 'x', type: 'cohort', value: 3, operator: 'not_in' }]), {
    type: 'AND',
    values: [{ key: 'id', type: 'cohort', value: 3, operator: 'not_in' }],
  })
  for (const tree of [
    null,
    [],
    {},
    { type: 'AND', values: [] },
    { type: 'AND', values: [two] },
    [{ key: 'a', value: 1, type: 'event' }],
    [{ key: 'a', value: 1, type: 'behavioral' }],
    [{ value: 1, type: 'behavioral' }],
    [{ key: 'a', type: 'person' }],
    [{ key: 'a', value: 1, operator: 'like' }],
    [filter, { type: 'cohort' }],
  ]) {
    t.throws(() => readCohortFilters(tree), { code: 'invalid_input', attr: 'filters' })
  }
})

t.test('membership of static, dynamic and nested cohorts', async (t) => {
  const inCohort = (id: unknown, operator?: string, negation?: boolean): FilterGroup => ({
    type: 'AND',
    values: [
      {
        key: 'id',
        type: 'cohort',
        value: id,
        ...(operator === undefined ? {} : { operator }),
        ...(negation === undefined ? {} : { negation }),
      },
    ],
  })
  const pro: FilterGroup = { type: 'AND', values: [{ key: 'plan', value: 'pro', type: 'person' }] }
  let lookups = 0
  const cohorts: CohortLookup = (id) => {
    lookups++
    if (id === 1) return { kind: 'static', hasMember: (number) => number === 5 }
    if (id === 2) return { kind: 'dynamic', filters: pro }
    if (id === 3) return { kind: 'dynamic', filters: inCohort(2) }
    if (id === 4) return { kind: 'dynamic', filters: inCohort(4) }
    if (id === 6) return { kind: 'dynamic', filters: inCohort(4, 'not_in') }
    return null
  }
  const passes = (tree: FilterGroup, number: number, plan: string): boolean =>
    personTest(tree, cohorts)(candidate({ plan }, number))
  t.equal(passes(inCohort(1), 5, ''), true)
  t.equal(passes(inCohort('1'), 5, ''), true)
  t.equal(passes(inCohort([1], 'in'), 6, ''), false)
  t.equal(passes(inCohort(1, 'not_in'), 6, ''), true)
  t.equal(passes(inCohort(1, 'in', true), 6, ''), true)
  t.equal(passes(inCohort(1, 'not_in', true), 5, ''), true)
  t.equal(passes(inCohort(1, 'gt'), 5, ''), false)
  t.equal(passes(inCohort(3), 1, 'pro'), true)
  t.equal(passes(inCohort(3), 1, 'free'), false)
  t.equal(passes(inCohort(99), 1, 'pro'), false)
  t.equal(passes(inCohort(99, 'not_in'), 1, 'pro'), true)
  t.equal(passes(inCohort('x'), 1, 'pro'), false)
  t.equal(passes(inCohort(4), 1, 'pro'), false, 'a circle of cohorts has no members')
  t.equal(passes(inCohort(6), 1, 'pro'), true)
  t.equal(cohortTest(3, cohorts)(candidate({ plan: 'pro' })), true)
  const test = cohortTest(3, cohorts)
  t.equal(test(candidate({ plan: 'free' })), false)
  t.equal(test(candidate({ plan: 'pro' })), true, 'results are not reused for the next person')
  lookups = 0
  const many: FilterGroup = { type: 'AND', values: Array(50).fill(inCohort(3).values[0]) }
  t.equal(passes(many, 1, 'pro'), true)
  t.equal(lookups, 2, 'each cohort is looked up once')
})

t.test('cohorts that refer to many others are tested in linear time', async (t) => {
  let tests = 0
  const cohorts: CohortLookup = (id) => {
    if (id === 9) {
      return { kind: 'static', hasMember: () => ++tests > 0 }
    }
    const next = { key: 'id', type: 'cohort', value: id + 1 }
    return { kind: 'dynamic', filters: { type: 'AND', values: Array(60).fill(next) } }
  }
  t.equal(cohortTest(1, cohorts)(candidate({})), true)
  t.equal(tests, 1)
})

t.test('the display name is the e-mail, else the first identified distinct_id', async (t) => {
  const cookie = '18a1b2c3d4e5f6-0a1b2c3d4e5f67-1f2e3d4c-1fa400-18a1b2c3d4e600'
  t.ok(isAnonymousId('0190a5e0-0000-7000-8000-00000000000f'))
  t.ok(isAnonymousId(cookie))
  for (const id of [
    'user-1',
    'a-b-c-d',
    'a-b-c-d-E',
    'a-b-c-d-e-f',
    '',
    'a-b-c--e',
    'a-b-c-d-e\n',
  ]) {
    t.notOk(isAnonymousId(id), id)
  }
  t.equal(personName('a@b.c', [cookie, 'x'], 7), 'a@b.c')
  t.equal(personName(undefined, [cookie, 'x', 'y'], 7), 'x')
  t.equal(personName('', [cookie], 7), cookie)
  t.equal(personName(null, [], 7), '7')
  t.equal(personName(0, ['x'], 7), 'x')
  t.equal(personName({}, ['x'], 7), 'x')
  t.equal(personName(12, ['x'], 7), '12')
  t.equal(personName(['a'], ['x'], 7), '["a"]')
  t.strictSame(chosenIdsFirst([cookie, 'x', 'a-b-c-d-e', 'y']), ['x', 'y', cookie, 'a-b-c-d-e'])
  t.strictSame(chosenIdsFirst([]), [])
})

const NOW_MS = Date.parse('2023-03-31T14:25:36.500Z')

function range(from: string | null, to: string | null, interval = 'day', timezone = 'UTC') {
  const asked = { dateFrom: from, dateTo: to, interval: parseInterval(interval), timezone }
  return dateRange({ ...asked, nowMs: NOW_MS, firstEventMs: Date.parse('2020-02-03T04:05:06Z') })
}

function texts({ fromMs, toMs }: DateRange, timezone = 'UTC'): readonly string[] {
  return [isoInZone(fromMs, timezone), isoInZone(toMs, timezone)].map((text) =>
    text.replace('+00:00', '').replace('T00:00:00', '').replace('T23:59:59.999999', ' end'),
  )
}

t.test('date ranges have the expected ends', async (t) => {
  const end = '2023-03-31 end'
  const cases: readonly (readonly [string | null, string | null, string, string, string])[] = [
    [null, null, 'day', '2023-03-24', end],
    ['all', null, 'day', '2020-02-03T04:05:06', end],
    ['-7d', null, 'day', '2023-03-24', end],
    ['-2w', null, 'day', '2023-03-17', end],
    ['-1m', null, 'day', '2023-02-28', end],
    ['-1y', null, 'day', '2022-03-31', end],
    ['-1q', null, 'day', '2022-12-30', end],
    ['mStart', null, 'day', '2023-03-01', end],
    ['-1mStart', '-1mEnd', 'day', '2023-02-01', '2023-02-28 end'],
    ['yStart', 'yEnd', 'day', '2023-01-01', '2023-12-31 end'],
    ['dStart', null, 'day', '2023-03-31', end],
    ['d', 'banana', 'day', '2023-03-31', end],
    ['banana', null, 'day', '2023-03-31', end],
    ['2023-02-30', null, 'day', '2023-03-31', end],
    ['2023-01-01', '2023-01-07', 'day', '2023-01-01', '2023-01-07 end'],
    ['2023-01-02T10:11:12', '2023-01-03T04:05', 'day', '2023-01-02', '2023-01-03 end'],
    ['2023-01-02T23:00:00-02:00', '2023-01-03', 'day', '2023-01-03', '2023-01-03 end'],
    ['2023-01-05', '2023-01-01', 'day', '2023-01-05', '2023-01-01 end'],
    ['-24h', null, 'day', '2023-03-30T14:00:00', end],
    ['-99999y', null, 'day', '2023-03-31', end],
    [null, null, 'hour', '2023-03-24', '2023-03-31T14:59:59.999999'],
    ['2023-01-01T10:20:30', '2023-01-02', 'hour', '2023-01-01T10:00:00', '2023-01-02'],
    ['2023-01-02', '2023-01-02', 'day', '2023-01-02', '2023-01-02 end'],
    ['2023-01-02', '2023-01-02', 'hour', '2023-01-02', '2023-01-02T01:00:00'],
    ['2023-01-04', '2023-01-04', 'week', '2023-01-01', '2023-01-10 end'],
    ['2023-01-31', '2023-01-31', 'month', '2023-01-01', '2023-02-27 end'],
    ['2023-01-04', '2023-01-20', 'week', '2023-01-01', '2023-01-20 end'],
  ]
  for (const [from, to, interval, ...expected] of cases) {
    t.strictSame(texts(range(from, to, interval)), expected, `${from} ${to} ${interval}`)
  }
  t.equal(parseInterval('minute'), 'hour')
  t.throws(() => parseInterval('decade'), { code: 'invalid_input', attr: 'interval' })
})

t.test('days follow the time zone', async (t) => {
  const berlin = range('2023-03-26', '2023-03-26', 'day', 'Europe/Berlin')
  t.equal(new Date(berlin.fromMs).toISOString(), '2023-03-25T23:00:00.000Z')
  t.equal(new Date(berlin.toMs).toISOString(), '2023-03-26T21:59:59.999Z', 'the day has 23 hours')
  t.equal(isoInZone(berlin.toMs, 'Europe/Berlin'), '2023-03-26T23:59:59.999999+02:00')
  t.equal(isoInZone(berlin.fromMs, 'America/St_Johns'), '2023-03-25T20:30:00-02:30')
  const auckland = range(null, null, 'day', 'Pacific/Auckland')
  t.equal(isoInZone(auckland.toMs, 'Pacific/Auckland'), '2023-04-01T23:59:59.999999+13:00')
  const gap = range('2023-03-26T02:30:00', null, 'hour', 'Europe/Berlin')
  t.equal(isoInZone(gap.fromMs, 'Europe/Berlin'), '2023-03-26T03:00:00+02:00')
})
