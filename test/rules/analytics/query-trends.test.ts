/**
 * Tests the actors of a trends data point, their values and their order.
 *
 * @lane quick
 */
import t from 'tap'
import { runQuestion } from '../../../src/rules/analytics/analytics.ts'
import { readQuestion } from '../../../src/rules/analytics/questions.ts'
import { casesOf, worldOf } from '../../fixtures/analytics/analytic-cases.ts'
import {
  contextOf,
  MemoryScanner,
  parametersOf,
  type ShortEvent,
  scannerOf,
} from '../../fixtures/analytics/memory-scanner.ts'
import { Differences } from '../../fixtures/differences.ts'

type Query = Readonly<Record<string, unknown>>

const DAY = { date_from: '2023-01-02', date_to: '2023-01-02' }
const VIEW = { entity_id: 'view', entity_type: 'events', ...DAY }

/** Persons or groups with their values, in order. */
function trend(scanner: MemoryScanner, query: Query, changes = {}) {
  const question = readQuestion('trends', parametersOf(query))
  const { actors, isFull } = runQuestion(question, contextOf(changes), scanner)
  const rows = actors.map((actor) => [
    actor.kind === 'person' ? scanner.nameOf(actor.person) : actor.key,
    actor.value,
  ])
  return { rows, names: rows.map(([name]) => name).join(' '), isFull }
}

for (const one of casesOf('persons/trends')) {
  t.test(`${one.id}: ${one.title}`, async (t) => {
    const { scanner, context } = worldOf(one)
    const query = one.request.query ?? {}
    const { error, values, people, groups, has_next, count } = one.expect
    if (error !== undefined) {
      t.throws(() => trend(scanner, query, context), { code: error.code, attr: error.attr })
      return
    }
    const { rows, names, isFull } = trend(scanner, query, context)
    const wanted = groups ?? people?.map((ids) => [...ids].sort()[0] ?? '') ?? []
    if (!one.id.match(/trends-2[56]/)) {
      t.strictSame(names.split(' ').filter(Boolean).sort(), [...wanted].sort())
    }
    t.equal(rows.length, count)
    if (values !== undefined) t.strictSame(Object.fromEntries(rows), values)
    if (has_next !== undefined) t.equal(isFull, has_next)
  })
}

const AMOUNTS: readonly ShortEvent[] = [
  ...[4, 1, '3', 2, true, null, 'x', [5]].map(
    (amount): ShortEvent => ['a', '2023-01-02T10:00:00Z', 'view', { amount }],
  ),
  ['b', '2023-01-02T10:00:00Z', 'view', { amount: ' 1e1 ' }],
  ['b', '2023-01-02T10:00:00Z', 'view', { amount: -5 }],
  ['c', '2023-01-02T10:00:00Z', 'view'],
  ['d', '2023-01-02T10:00:00Z', 'view', { amount: '1e999' }],
]

t.test('math on a property reads numbers from text and skips other values', async (t) => {
  const expected: Readonly<Record<string, readonly (readonly [string, number | null])[]>> = {
    sum: [
      ['a', 10],
      ['b', 5],
      ['c', null],
      ['d', null],
    ],
    avg: [
      ['a', 2.5],
      ['b', 2.5],
      ['c', null],
      ['d', null],
    ],
    min: [
      ['a', 1],
      ['b', -5],
      ['c', null],
      ['d', null],
    ],
    max: [
      ['b', 10],
      ['a', 4],
      ['c', null],
      ['d', null],
    ],
    median: [
      ['a', 2.5],
      ['b', 2.5],
      ['c', null],
      ['d', null],
    ],
    p75: [
      ['b', 6.25],
      ['a', 3.25],
      ['c', null],
      ['d', null],
    ],
    p90: [
      ['b', 8.5],
      ['a', 3.7],
      ['c', null],
      ['d', null],
    ],
    p95: [
      ['b', 9.25],
      ['a', 3.85],
      ['c', null],
      ['d', null],
    ],
    p99: [
      ['b', 9.85],
      ['a', 3.97],
      ['c', null],
      ['d', null],
    ],
    total: [
      ['a', 8],
      ['b', 2],
      ['c', 1],
      ['d', 1],
    ],
    dau: [
      ['a', 8],
      ['b', 2],
      ['c', 1],
      ['d', 1],
    ],
    unique_session: [
      ['a', 8],
      ['b', 2],
      ['c', 1],
      ['d', 1],
    ],
    avg_count_per_actor: [
      ['a', 8],
      ['b', 2],
      ['c', 1],
      ['d', 1],
    ],
  }
  for (const [math, rows] of Object.entries(expected)) {
    const events = [{ id: 'view', math, math_property: 'amount' }]
    const found = trend(scannerOf(AMOUNTS), { ...VIEW, entity_math: math, events }).rows
    const rounded = found.map(([who, value]) => [
      who,
      typeof value === 'number' ? Math.round(value * 1e6) / 1e6 : value,
    ])
    t.strictSame(rounded, rows, math)
  }
})

t.test('a property or group type that math needs must be named', async (t) => {
  const scanner = scannerOf(AMOUNTS)
  const asked = (math: string, more = {}) => trend(scanner, { ...VIEW, entity_math: math, ...more })
  t.throws(() => asked('sum'), { code: 'required', attr: 'math_property' })
  t.throws(() => asked('p99', { events: [{ id: 'view', math: 'p99' }] }), {
    code: 'required',
    attr: 'math_property',
  })
  t.throws(() => asked('unique_group'), { code: 'required', attr: 'math_group_type_index' })
  t.same(asked('sum', { math_property: 'amount' }).rows[0], ['a', 10], 'of a bare series, too')
  const math = [{ id: 'view', math: 'sum', math_property: 'amount' }]
  t.same(asked('avg_count_per_actor', { events: math }).rows[0], ['a', 8])
})

t.test('equal values are ordered by the whole uuid, and pages continue each other', async (t) => {
  const persons = Array.from({ length: 40 }, (_, index) => ({
    number: index + 1,
    // The first half of the digits is equal, so only the second half orders them.
    uuid: `00000000-0000-4000-8000-0000000000${String((index * 17) % 40).padStart(2, '0')}`,
    createdMs: 0,
    properties: {},
    distinctIds: [`p${String((index * 17) % 40).padStart(2, '0')}`],
  }))
  const events = persons.flatMap(({ number, distinctIds: [distinctId = ''] }) =>
    Array.from({ length: 1 + (number % 3) }, () => ({
      timeMs: Date.parse('2023-01-02T10:00:00Z'),
      name: 'view',
      distinctId,
      properties: {},
    })),
  )
  const scanner = new MemoryScanner({ events, persons })
  const all = trend(scanner, VIEW).rows
  const sorted = [...all].sort(
    ([nameA, a], [nameB, b]) => Number(b) - Number(a) || (String(nameA) < String(nameB) ? -1 : 1),
  )
  t.equal(all.length, 40)
  t.strictSame(all, sorted)
  const differences = new Differences()
  for (const limit of [1, 3, 7, 39, 40, 41]) {
    const paged = []
    for (let offset = 0; ; offset += limit) {
      const page = trend(scanner, { ...VIEW, limit, offset })
      paged.push(...page.rows)
      differences.equal(page.isFull, page.rows.length === limit, `${limit} rows from ${offset}`)
      if (!page.isFull) break
    }
    differences.same(paged, all, `pages of ${limit}`)
  }
  t.strictSame(differences.list(), [], 'the pages have all rows, and say whether they are full')
})

t.test('groups are ordered by value, then key; events without a key have no group', async (t) => {
  const at = '2023-01-02T10:00:00Z'
  const scanner = scannerOf([
    ['a', at, 'view', { $group_1: 'z' }],
    ['a', at, 'view', { $group_1: 'b' }],
    ['b', at, 'view', { $group_1: 'a' }],
    ['b', at, 'view', { $group_1: 'z' }],
    ['b', at, 'view', { $group_0: 'other' }],
    ['c', at, 'view'],
  ])
  const asked = { ...VIEW, entity_math: 'unique_group', math_group_type_index: 1 }
  t.strictSame(trend(scanner, asked).rows, [
    ['z', 2],
    ['a', 1],
    ['b', 1],
  ])
  const second = trend(scanner, { ...asked, limit: 1, offset: 1 })
  t.strictSame(second, { rows: [['a', 1]], names: 'a', isFull: true })
  t.strictSame(trend(scanner, { ...asked, offset: 9 }).rows, [])
})

const MANY_DAYS: readonly ShortEvent[] = [
  ['a', '2022-12-25T12:00:00Z', 'view'],
  ['b', '2022-12-26T00:00:00Z', 'view'],
  ['c', '2023-01-01T23:59:59.999Z', 'view'],
  ['d', '2023-01-02T00:00:00Z', 'view'],
  ['e', '2023-01-02T23:59:59.999Z', 'view'],
  ['f', '2023-01-03T00:00:00Z', 'view'],
  ['g', '2023-01-31T00:00:00Z', 'view'],
]

t.test('date ranges select the events', async (t) => {
  const scanner = scannerOf(MANY_DAYS)
  const asked = (query: Query, changes = {}) =>
    trend(scanner, { entity_id: 'view', ...query }, changes).names
  t.equal(asked(DAY), 'd e')
  t.equal(asked({ ...DAY, entity_math: 'weekly_active' }), 'b c d e')
  t.equal(asked({ ...DAY, entity_math: 'weekly_active', interval: 'week' }), 'b c d e f')
  t.equal(asked({ ...DAY, date_from: '2023-01-03', entity_math: 'weekly_active' }), 'c d e')
  t.equal(asked({ ...DAY, entity_math: 'monthly_active' }), 'a b c d e')
  t.equal(
    asked({ date_from: '2023-01-03', date_to: '2023-01-02' }),
    '',
    'the end is before the start',
  )
  const all = { date_from: 'all', date_to: '2023-01-01' }
  t.equal(asked(all), 'a b c')
  const old: ShortEvent = ['y', '1970-01-01T00:00:00Z', 'view']
  const sinceOld = (events: readonly ShortEvent[]): string =>
    trend(scannerOf(events), { entity_id: 'view', ...all }).names
  t.equal(sinceOld([old, ...MANY_DAYS]), 'a b c', 'all begins with the first plausible event')
  t.equal(sinceOld([old]), 'y', 'there are only events of long ago')
  t.equal(
    asked({ ...DAY, date_from: '2023-01-04', date_to: '2023-01-20', interval: 'week' }),
    'c d e f',
  )
  t.equal(asked({ date_from: '-1d' }, { nowMs: Date.parse('2023-01-03T10:00:00Z') }), 'd e f')
  t.equal(asked({ ...DAY, interval: 'minute' }), 'd', 'minutes count as hours')
  t.equal(asked(DAY, { timezone: 'Asia/Tokyo' }), 'c d')
  t.equal(asked({ date_from: '2023-01-02T02:00:00+02:00', date_to: '2023-01-02' }), 'd e')
  t.throws(() => asked({ ...DAY, interval: 'decade' }), { code: 'invalid_input', attr: 'interval' })
})

t.test('breakdown parameters select the events', async (t) => {
  const at = '2023-01-02T10:00:00Z'
  const groups = new Map([['2 acme', { size: 'big' }]])
  const cohorts = new Map([[5, new Set([2, 3])]])
  const scanner = scannerOf(
    [
      ['a', at, 'view', { n: 10, m: 'x' }],
      ['b', at, 'view', { n: '15', m: 'y' }],
      ['c', at, 'view', { n: 20, $group_2: 'acme' }],
      ['d', at, 'view', { n: 'many' }],
      ['e', at, 'view'],
    ],
    { d: { properties: { plan: 'pro' } } },
    { groups, cohorts },
  )
  const asked = (query: Query) => trend(scanner, { ...VIEW, ...query }).names
  t.equal(
    asked({ breakdown: 'n', breakdown_value: '10' }),
    'a',
    'a breakdown is on event properties by default',
  )
  t.equal(asked({ breakdown: 'n', breakdown_value: '' }), 'e')
  t.equal(asked({ breakdown: 'n' }), 'a b c d e', 'without a value there is no restriction')
  t.equal(
    asked({ breakdown_value: 'x' }),
    'a b c d e',
    'without a breakdown there is no restriction',
  )
  const bins = { breakdown: 'n', breakdown_histogram_bin_count: 2 }
  t.equal(asked({ ...bins, breakdown_value: '[10,20]' }), 'a b')
  t.equal(asked({ ...bins, breakdown_value: [15, 20.5] }), 'b c')
  t.equal(asked({ breakdown: 'plan', breakdown_type: 'person', breakdown_value: 'pro' }), 'd')
  const size = { breakdown: 'size', breakdown_type: 'group', breakdown_value: 'big' }
  t.equal(asked({ ...size, breakdown_group_type_index: 2 }), 'c')
  t.equal(asked({ ...size, breakdown_group_type_index: 1 }), '')
  const cohort = { breakdown: [5], breakdown_type: 'cohort' }
  t.equal(asked({ ...cohort, breakdown_value: '5' }), 'b c')
  t.equal(asked({ ...cohort, breakdown_value: 'all' }), 'a b c d e')
  t.equal(asked({ ...cohort, breakdown_value: '6' }), '')
  t.equal(asked({ breakdown: ['n', 'm'], breakdown_value: ['10', 'x'] }), 'a')
  t.equal(asked({ breakdowns: [{ property: 'm', type: 'event' }], breakdown_value: 'y' }), 'b')
  const refused: readonly (readonly [Query, string])[] = [
    [{ ...bins, breakdown_value: 'x' }, 'breakdown_value'],
    [{ ...bins, breakdown_value: '[1]' }, 'breakdown_value'],
    [{ ...bins, breakdown_value: '[1,"x"]' }, 'breakdown_value'],
    [{ breakdown: ['n', 'm'], breakdown_value: 'x' }, 'breakdown_value'],
    [{ breakdown: 'n', breakdown_type: 'moon', breakdown_value: 'x' }, 'breakdown_type'],
    [{ breakdown: [{}], breakdown_value: 'x' }, 'breakdown'],
    [{ breakdown: Array(11).fill('k'), breakdown_value: 'x' }, 'breakdown'],
    [{ breakdowns: '{}', breakdown_value: 'x' }, 'breakdowns'],
    [{ breakdowns: [{ type: 'event' }], breakdown_value: 'x' }, 'breakdowns'],
  ]
  for (const [query, attr] of refused) {
    t.throws(() => asked(query), { code: 'invalid_input', attr }, JSON.stringify(query))
  }
  t.throws(() => asked(size), { code: 'required', attr: 'breakdown_group_type_index' })
})

t.test('search restricts the events', async (t) => {
  const at = '2023-01-02T10:00:00Z'
  const scanner = scannerOf(
    [
      ['ann-1', at, 'view'],
      ['b', at, 'view'],
      ['c', at, 'view'],
      ['d', at, 'view', { email: 'ann' }],
    ],
    { b: { properties: { email: 'x@ANN.io' } }, c: { properties: { name: 'Joanna' } } },
  )
  t.equal(trend(scanner, { ...VIEW, search: 'Ann' }).names, 'ann-1 b c')
  t.equal(trend(scanner, { ...VIEW, search: '' }).names, 'ann-1 b c d')
})

t.test('invalid pages and numbers are refused', async (t) => {
  const scanner = scannerOf(MANY_DAYS)
  for (const name of ['limit', 'offset', 'entity_order', 'math_group_type_index']) {
    for (const value of ['-1', 'x', '1.5']) {
      const asked = () => trend(scanner, { ...VIEW, [name]: value })
      t.throws(asked, { code: 'invalid_input', attr: name }, `${name}=${value}`)
    }
  }
  t.equal(trend(scanner, { ...VIEW, limit: 0 }).rows.length, 2)
  t.equal(trend(scanner, { ...VIEW, offset: '99999999999999999999' }).rows.length, 0)
})
