/**
 * Tests funnel breakdowns: the breakdown value of each person.
 *
 * @lane quick
 */
import t from 'tap'
import { at, funnel, JANUARY, type Query, steps } from '../../fixtures/analytics/funnels.ts'
import { type ShortEvent, scannerOf } from '../../fixtures/analytics/memory-scanner.ts'

const BROWSERS: readonly ShortEvent[] = [
  at('a', 2, 'A', { br: 'Chrome' }),
  at('a', 3, 'B', { br: 'Safari' }),
  at('b', 2, 'A', { br: 'Safari' }),
  at('b', 3, 'B', { br: 'Safari' }),
  at('c', 2, 'A'),
  at('c', 3, 'B', { br: 'Chrome' }),
  at('d', 2, 'A'),
  at('d', 3, 'B', { br: '' }),
  at('e', 2, 'A', { br: 7 }),
]

t.test('each attribution of a breakdown selects its value', async (t) => {
  const scanner = scannerOf(BROWSERS)
  const names = (type: string, value: unknown, funnel_step: number, more: Query = {}): string =>
    funnel(scanner, {
      events: steps('A', 'B'),
      ...JANUARY,
      breakdown: 'br',
      breakdown_attribution_type: type,
      ...(value === undefined ? {} : { funnel_step_breakdown: value }),
      funnel_step,
      ...more,
    }).names
  t.equal(names('first_touch', 'Chrome', 1), 'a c')
  t.equal(names('first_touch', '', 1), 'd')
  t.equal(names('first_touch', [''], 1), 'd')
  t.equal(names('first_touch', 7, 1), 'e')
  t.equal(names('first_touch', '"7"', 1), 'e')
  t.equal(names('first_touch', undefined, 1), 'a b c d e')
  t.equal(names('last_touch', 'Safari', 1), 'a b')
  t.equal(names('last_touch', 'Chrome', 2), 'c')
  t.equal(names('all_events', 'Safari', 1), 'b')
  t.equal(names('all_events', 'Chrome', 1), 'a')
  t.equal(names('all_events', 'Chrome', 2), '')
  t.equal(names('all_events', '', 1), 'c d')
  t.equal(names('all_events', '', 2), 'd')
  t.equal(names('all_events', undefined, 2), 'b d')
  t.equal(names('all_events', undefined, -2), 'a c e')
  t.equal(names('step', 'Safari', 2, { breakdown_attribution_value: 1 }), 'a b')
  t.equal(names('step', 'Safari', 2, { breakdown_attribution_value: 0 }), 'b')
  t.equal(names('step', undefined, 1, { breakdown_attribution_value: 1 }), 'a b c d')
  t.equal(names('step', '', 1), 'c d')
})

t.test('several properties form one value', async (t) => {
  const scanner = scannerOf([
    at('a', 2, 'A', { br: 'Chrome', os: 'Mac' }),
    at('b', 2, 'A', { br: 'Chrome', os: 'Linux' }),
    at('c', 2, 'A', { os: 'Mac' }),
  ])
  const names = (value: unknown, more: Query): string =>
    funnel(scanner, {
      events: steps('A'),
      ...JANUARY,
      funnel_step: 1,
      funnel_step_breakdown: value,
      ...more,
    }).names
  const both = { breakdown: ['br', 'os'], breakdown_type: 'event' }
  t.equal(names(['Chrome', 'Mac'], both), 'a')
  t.equal(names(['', 'Mac'], both), 'c')
  t.equal(names(['Chrome'], both), '')
  const objects = { breakdowns: [{ property: 'os', type: 'event' }] }
  t.equal(names('Mac', objects), 'a c')
})

t.test('rare values are combined into one value called Other', async (t) => {
  const events: ShortEvent[] = []
  for (let value = 0; value < 30; value++) {
    const name = String(value).padStart(2, '0')
    events.push(at(`p${name}`, 2, 'A', { v: name }))
    // The first 24 occur twice, and so does one that is called Other.
    if (value < 24) events.push(at(`p${name}`, 3, 'A', { v: name }))
  }
  events.push(at('q', 2, 'A', { v: 'Other' }), at('q', 3, 'A', { v: 'Other' }))
  const scanner = scannerOf(events)
  for (const breakdown_attribution_type of ['first_touch', 'last_touch', 'all_events', 'step']) {
    const names = (value: string): string =>
      funnel(scanner, {
        events: steps('A'),
        ...JANUARY,
        funnel_step: 1,
        breakdown: 'v',
        breakdown_attribution_type,
        funnel_step_breakdown: JSON.stringify([value]),
      }).names
    t.equal(names('23'), 'p23')
    t.equal(names('24'), '')
    t.equal(names('Other'), 'p24 p25 p26 p27 p28 p29 q')
  }
})

t.test('with all_events, all events in Other pass through one funnel', async (t) => {
  const events = Array.from({ length: 26 }, (_, value) => [
    at(`p${value}`, 2, 'A', { v: `v${value}` }),
    at(`p${value}`, 3, 'A', { v: `v${value}` }),
  ]).flat()
  events.push(at('q', 2, 'A', { v: 'x' }), at('q', 3, 'B', { v: 'y' }))
  const query = {
    events: steps('A', 'B'),
    ...JANUARY,
    funnel_step: 2,
    breakdown: 'v',
    breakdown_attribution_type: 'all_events',
  }
  t.equal(funnel(scannerOf(events), query).names, 'q')
  t.equal(funnel(scannerOf(events), { ...query, funnel_step_breakdown: 'Other' }).names, 'q')
})

t.test('a breakdown by person, by group and by cohort', async (t) => {
  const scanner = scannerOf(
    [
      at('a', 2, 'A', { $group_0: 'x' }),
      at('a', 3, 'B', { $group_0: 'y' }),
      at('b', 2, 'A', { $group_0: 'y' }),
      at('c', 2, 'A'),
    ],
    { a: { properties: { plan: 'pro' } }, b: { properties: { plan: 'free' } } },
    {
      groups: new Map([
        ['0 x', { size: 5 }],
        ['0 y', { size: 6 }],
      ]),
      cohorts: new Map([
        [3, new Set([1, 2])],
        [4, new Set([2])],
      ]),
    },
  )
  const names = (more: Query): string =>
    funnel(scanner, { events: steps('A', 'B'), ...JANUARY, funnel_step: 1, ...more }).names
  const person = { breakdown: 'plan', breakdown_type: 'person' }
  t.equal(names({ ...person, funnel_step_breakdown: 'pro' }), 'a')
  t.equal(names({ ...person, funnel_step_breakdown: '' }), 'c')
  const group = { breakdown: 'size', breakdown_type: 'group', breakdown_group_type_index: 0 }
  t.equal(names({ ...group, funnel_step_breakdown: 6 }), 'b')
  t.equal(names({ ...group, funnel_step_breakdown: '5' }), 'a')
  t.throws(() => names({ breakdown: 'size', breakdown_type: 'group' }), { code: 'required' })
  const cohort = { breakdown: [3, 4], breakdown_type: 'cohort' }
  t.equal(names(cohort), 'a b')
  t.equal(names({ ...cohort, funnel_step_breakdown: 4 }), 'b')
  t.equal(names({ ...cohort, funnel_step_breakdown: [3] }), 'a b')
  t.equal(names({ ...cohort, funnel_step_breakdown: 9 }), '')
  t.equal(names({ breakdown: [3, 'all'], breakdown_type: 'cohort' }), 'a b c')
  t.equal(names({ ...cohort, funnel_step_breakdown: 'all' }), '')
})
