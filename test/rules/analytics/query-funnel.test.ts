/**
 * Tests which persons a funnel request selects, for every parameter except breakdowns.
 *
 * @lane quick
 */
import t from 'tap'
import { windowEnd } from '../../../src/rules/analytics/funnel/conversion-window.ts'
import { casesOf, worldOf } from '../../fixtures/analytics/analytic-cases.ts'
import { at, funnel, JANUARY, type Query, steps } from '../../fixtures/analytics/funnels.ts'
import { type ShortEvent, scannerOf } from '../../fixtures/analytics/memory-scanner.ts'

for (const one of casesOf('persons/funnel')) {
  t.test(`${one.id}: ${one.title}`, async (t) => {
    const { scanner, context } = worldOf(one)
    const query = { ...one.request.query, ...one.request.body }
    const { error, people, count } = one.expect
    if (error !== undefined) {
      t.throws(() => funnel(scanner, query, context), { code: error.code, attr: error.attr })
      return
    }
    const { names } = funnel(scanner, query, context)
    const wanted = people?.map((ids) => [...ids].sort()[0] ?? '') ?? []
    t.strictSame(names.split(' ').filter(Boolean).sort(), [...wanted].sort())
    t.equal(names.split(' ').filter(Boolean).length, count)
  })
}

const ABC: readonly ShortEvent[] = [
  at('a', 2, 'A'),
  at('a', 3, 'B'),
  at('a', 4, 'C'),
  at('b', 2, 'A'),
  at('b', 3, 'B'),
  at('c', 2, 'A'),
  at('d', 2, 'B'),
  at('d', 3, 'A'),
]

t.test('every form of funnel_step is accepted', async (t) => {
  const scanner = scannerOf(ABC)
  const wanted: Readonly<Record<string, string>> = {
    0: 'a b c d',
    1: 'a b c d',
    2: 'a b',
    3: 'a',
    4: '',
    '-1': '',
    '-2': 'c d',
    '-3': 'b',
    '-4': 'a',
    '-5': '',
  }
  for (const [funnel_step, names] of Object.entries(wanted)) {
    const query = { events: steps('A', 'B', 'C'), ...JANUARY, funnel_step }
    t.equal(funnel(scanner, query).names, names, funnel_step)
  }
  const custom = { events: steps('A', 'B', 'C'), ...JANUARY, funnel_step: 3 }
  t.equal(funnel(scanner, { ...custom, funnel_custom_steps: [2, '1'] }).names, 'b c d')
  t.equal(funnel(scanner, { ...custom, funnel_custom_steps: [] }).names, 'a')
})

t.test('pages are in uuid order, and a full page says so', async (t) => {
  const scanner = scannerOf(ABC)
  const query = { events: steps('A'), ...JANUARY, funnel_step: 1, limit: 3 }
  t.strictSame(funnel(scanner, query), { names: 'a b c', isFull: true })
  t.strictSame(funnel(scanner, { ...query, offset: 3 }), { names: 'd', isFull: false })
  t.strictSame(funnel(scanner, { ...query, offset: 9 }), { names: '', isFull: false })
})

t.test(
  'one event completes two steps if the second is narrower, not if it is broader',
  async (t) => {
    const pro = [{ key: 'plan', value: 'pro', type: 'event' }]
    const scanner = scannerOf([at('a', 2, 'A', { plan: 'pro' })])
    const plain = { id: 'A', type: 'events' }
    const narrow = { id: 'A', type: 'events', properties: pro }
    const both = (first: Query, second: Query): Query => ({
      events: [
        { ...first, order: 0 },
        { ...second, order: 1 },
      ],
      ...JANUARY,
      funnel_step: 2,
    })
    t.equal(funnel(scanner, both(plain, narrow)).names, 'a')
    t.equal(funnel(scanner, both(narrow, plain)).names, '')
    t.equal(funnel(scanner, both(plain, plain)).names, '')
    t.equal(funnel(scanner, both(narrow, narrow)).names, '')
    t.equal(funnel(scanner, both({ id: null, type: 'events' }, plain)).names, 'a')
  },
)

t.test('the window in every unit includes its end', async (t) => {
  const lengths: Readonly<Record<string, number>> = {
    minute: 1 / 1440,
    hour: 1 / 24,
    day: 1,
    week: 7,
    month: 28,
  }
  // One month after 31 January 2023 is 28 February. Within January the month has 31 days.
  for (const [unit, days] of Object.entries(lengths)) {
    const length = unit === 'month' ? 31 : days
    const scanner = scannerOf([
      at('a', 2, 'A'),
      at('a', 2 + length, 'B'),
      at('b', 2, 'A'),
      at('b', 2 + length + 1e-7, 'B'),
    ])
    const query = {
      events: steps('A', 'B'),
      date_from: '2023-01-01',
      date_to: '2023-03-01',
      funnel_step: 2,
      funnel_window_interval: 1,
      funnel_window_interval_unit: unit,
    }
    t.equal(funnel(scanner, query, { nowMs: Date.UTC(2023, 3, 1) }).names, 'a', unit)
  }
  const february = windowEnd({ count: 1, unit: 'month' })(Date.UTC(2023, 0, 31, 5))
  t.equal(new Date(february).toISOString(), '2023-02-28T05:00:00.000Z')
})

t.test('the window is 14 days by default, and days in the older form win', async (t) => {
  const scanner = scannerOf([at('a', 1, 'A'), at('a', 15, 'B'), at('b', 1, 'A'), at('b', 16, 'B')])
  const query = { events: steps('A', 'B'), ...JANUARY, funnel_step: 2 }
  t.equal(funnel(scanner, query).names, 'a')
  const both = { funnel_window_days: 15, funnel_window_interval: 1 }
  t.equal(funnel(scanner, { ...query, ...both }).names, 'a b')
  const unit = { funnel_window_days: 15, funnel_window_interval_unit: 'minute' }
  t.equal(funnel(scanner, { ...query, ...unit }).names, 'a b')
})

t.test('exclusions are checked', async (t) => {
  const scanner = scannerOf(ABC)
  const refused = (exclusion: unknown, more: Query = {}): void => {
    const events = steps('A', 'B', 'C')
    const query = { events, ...JANUARY, funnel_step: 1, exclusions: [exclusion], ...more }
    t.throws(() => funnel(scanner, query), { code: 'invalid_input', attr: null })
  }
  const x = { id: 'X', type: 'events' }
  refused({ ...x, funnel_from_step: 0 })
  refused({ ...x, funnel_to_step: 1 })
  refused({ ...x, funnel_from_step: 1, funnel_to_step: 1 })
  refused({ ...x, funnel_from_step: 2, funnel_to_step: 1 })
  refused({ ...x, funnel_from_step: 2, funnel_to_step: 3 })
  refused({ id: 'B', type: 'events', funnel_from_step: 0, funnel_to_step: 1 })
  refused({ ...x, funnel_from_step: 0, funnel_to_step: 1 }, { funnel_order_type: 'unordered' })
  const allowed = (exclusion: unknown, more: Query = {}): string => {
    const events = steps('A', 'B', 'C')
    const query = { events, ...JANUARY, funnel_step: 1, exclusions: [exclusion], ...more }
    return funnel(scanner, query).names
  }
  t.equal(allowed({ id: 'C', type: 'events', funnel_from_step: 0, funnel_to_step: 1 }), 'a b c d')
  const narrower = {
    id: 'B',
    type: 'events',
    properties: [{ key: 'k', value: '1' }],
    funnel_from_step: '0',
    funnel_to_step: '1',
  }
  t.equal(allowed(narrower), 'a b c d')
  // A strict funnel cannot have exclusions.
  const between = { ...x, funnel_from_step: 0, funnel_to_step: 1 }
  t.equal(allowed(between, { funnel_order_type: 'strict' }), 'a b c d')
})

t.test('an exclusion cancels the attempt, including its first step', async (t) => {
  const scanner = scannerOf([
    at('a', 2, 'A'),
    at('a', 3, 'X'),
    at('a', 4, 'B'),
    at('b', 2, 'A'),
    at('b', 3, 'X'),
    at('b', 4, 'A'),
    at('b', 5, 'B'),
    at('c', 2, 'A'),
    at('c', 17, 'X'),
  ])
  const exclusions = [{ id: 'X', type: 'events', funnel_from_step: 0, funnel_to_step: 1 }]
  const query = { events: steps('A', 'B'), ...JANUARY, exclusions }
  t.equal(funnel(scanner, { ...query, funnel_step: 1 }).names, 'b c')
  t.equal(funnel(scanner, { ...query, funnel_step: 2 }).names, 'b')
  t.equal(funnel(scanner, { ...query, funnel_step: -2 }).names, 'c')
})

t.test('a funnel can count groups instead of persons', async (t) => {
  const scanner = scannerOf([
    at('a', 2, 'A', { $group_1: 'acme' }),
    at('b', 3, 'B', { $group_1: 'acme' }),
    at('a', 2, 'A', { $group_1: 'zeta' }),
    at('a', 3, 'B'),
    at('c', 3, 'A', { $group_1: '' }),
    at('c', 2, 'A', { $group_1: 'beta' }),
    at('c', 3, 'B', { $group_1: 'beta' }),
  ])
  const query = { events: steps('A', 'B'), ...JANUARY, aggregation_group_type_index: 1 }
  t.strictSame(funnel(scanner, { ...query, funnel_step: 1 }).names, 'acme beta zeta')
  t.equal(funnel(scanner, { ...query, funnel_step: 2 }).names, 'acme beta')
  const second = { ...query, funnel_step: 2, limit: 1, offset: 1 }
  t.strictSame(funnel(scanner, second), { names: 'beta', isFull: true })
})

t.test('a funnel over time uses the period of the first step', async (t) => {
  const scanner = scannerOf([
    at('a', 2.4, 'A'),
    at('a', 3.3, 'B'),
    at('b', 2.4, 'A'),
    at('c', 9.4, 'A'),
    at('c', 10, 'B'),
    at('b', 9.4, 'A'),
    at('b', 10, 'B'),
  ])
  const names = (entrance_period_start: string, drop_off: string, more: Query = {}): string =>
    funnel(scanner, {
      events: steps('A', 'B'),
      ...JANUARY,
      funnel_viz_type: 'trends',
      funnel_window_interval: 1,
      entrance_period_start,
      drop_off,
      ...more,
    }).names
  t.equal(names('2023-01-02', 'false'), 'a')
  t.equal(names('2023-01-02 00:00:00', 'y'), 'b')
  t.equal(names('2023-01-09T00:00:00Z', '0'), 'b c')
  t.equal(names('2023-01-09', 'on'), '')
  t.equal(names('2023-01-08', 'false', { interval: 'week' }), 'b c')
  t.equal(names('2023-01-09', 'false', { interval: 'week' }), '')
  t.equal(names('2023-01-01', 'false', { interval: 'month' }), 'a b c')
  t.equal(names('2023-01-02 09:00:00', 'false', { interval: 'hour' }), 'a')
  t.equal(names('2023-02-30', 'false'), '')
  t.equal(names('today', 'false'), '')
  t.equal(names('2023-01-02', 'false', { funnel_viz_type: '', display: 'ActionsLineGraph' }), 'a')
  for (const missing of [{ entrance_period_start: '' }, { drop_off: '' }]) {
    const refused = { code: 'invalid_input', attr: null }
    t.throws(() => names('2023-01-02', 'false', missing), refused)
  }
})

t.test('a period follows the time zone of the project', async (t) => {
  const scanner = scannerOf([['a', '2023-01-02T02:00:00Z', 'A']])
  const query = {
    events: steps('A'),
    ...JANUARY,
    funnel_viz_type: 'trends',
    drop_off: 'false',
  }
  const names = (entrance_period_start: string): string =>
    funnel(scanner, { ...query, entrance_period_start }, { timezone: 'America/New_York' }).names
  t.equal(names('2023-01-01'), 'a')
  t.equal(names('2023-01-01T05:00:00Z'), 'a')
  t.equal(names('2023-01-02'), '')
})

t.test('invalid funnels are refused', async (t) => {
  const scanner = scannerOf(ABC)
  const good = { events: steps('A', 'B'), ...JANUARY, funnel_step: 1 }
  const refusals: readonly (readonly [Query, string, string | null])[] = [
    [{ funnel_step: '' }, 'required', 'funnel_step'],
    [{ funnel_step: 'x' }, 'invalid_input', 'funnel_step'],
    [{ events: [] }, 'required', 'events'],
    [
      { events: steps(...'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456'.split('')) },
      'invalid_input',
      'events',
    ],
    [{ funnel_order_type: 'random' }, 'invalid_input', 'funnel_order_type'],
    [{ funnel_window_interval_unit: 'year' }, 'invalid_input', 'funnel_window_interval_unit'],
    [{ funnel_window_interval: 'x' }, 'invalid_input', 'funnel_window_interval'],
    [{ funnel_window_interval: 1e9 }, 'invalid_input', 'funnel_window_interval'],
    [{ funnel_window_days: 1e9 }, 'invalid_input', 'funnel_window_days'],
    [{ funnel_custom_steps: ['x'] }, 'invalid_input', 'funnel_custom_steps'],
    [{ funnel_custom_steps: 5 }, 'invalid_input', 'funnel_custom_steps'],
    [{ exclusions: 5 }, 'invalid_input', null],
    [{ breakdown: 'x', breakdown_type: 'hogql' }, 'invalid_input', 'breakdown_type'],
    [
      { breakdown: 'x', breakdown_attribution_type: 'best' },
      'invalid_input',
      'breakdown_attribution_type',
    ],
    [
      { breakdown: 'x', breakdown_attribution_type: 'step', breakdown_attribution_value: 2 },
      'invalid_input',
      'breakdown_attribution_value',
    ],
  ]
  for (const [changes, code, attr] of refusals) {
    t.throws(
      () => funnel(scanner, { ...good, ...changes }),
      { code, attr },
      JSON.stringify(changes),
    )
  }
})

t.test('nothing is scanned if no person can match', async (t) => {
  const scanner = scannerOf(ABC)
  const query = { events: steps('A'), date_from: '2023-01-05', date_to: '2023-01-02' }
  t.equal(funnel(scanner, { ...query, funnel_step: 1 }).names, '')
  t.equal(funnel(scanner, { ...query, ...JANUARY, funnel_step: -1 }).names, '')
  t.equal(scanner.requests.length, 0)
})
