/**
 * Tests retention: cohorts, and the periods in which their persons returned.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { runQuestion } from '../../../src/rules/analytics/analytics.ts'
import { readQuestion } from '../../../src/rules/analytics/questions.ts'
import { casesOf, worldOf } from '../../fixtures/analytics/analytic-cases.ts'
import {
  contextOf,
  type MemoryScanner,
  parametersOf,
  type ShortEvent,
  scannerOf,
} from '../../fixtures/analytics/memory-scanner.ts'
import { Differences } from '../../fixtures/differences.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

type Query = Readonly<Record<string, unknown>>

/** Names with appearances as digits, in order. */
function cohort(scanner: MemoryScanner, query: Query, changes = {}) {
  const question = readQuestion('retention', parametersOf(query))
  const { actors, appearances, isFull } = runQuestion(question, contextOf(changes), scanner)
  const texts = actors.map((actor, index) => {
    if (actor.kind !== 'person' || actor.value !== null) {
      throw new Error(`no person without a value: ${JSON.stringify(actor)}`)
    }
    const name = scanner.nameOf(actor.person)
    return `${name} ${appearances?.[index]?.join('') ?? ''}`
  })
  return { texts, isFull }
}

for (const one of casesOf('persons/retention')) {
  t.test(`${one.id}: ${one.title}`, async (t) => {
    const { scanner, context } = worldOf(one)
    const query = one.request.query ?? {}
    const { error, retention = {} } = one.expect
    if (error !== undefined) {
      t.throws(() => cohort(scanner, query, context), { code: error.code, attr: error.attr })
      return
    }
    const wanted = Object.entries(retention).map(([who, list]) => `${who} ${list.join('')}`)
    const { texts } = cohort(scanner, query, context)
    t.strictSame([...texts].sort(), [...wanted].sort())
    const ones = texts.map((text) => [...text].filter((digit) => digit === '1').length)
    t.strictSame(
      ones,
      [...ones].sort((a, b) => b - a),
    )
  })
}

const SIGNUP = { target_entity: { id: 'signup', type: 'events' } }
const WEEK = { ...SIGNUP, total_intervals: 7, date_to: '2023-01-07' }
const EVENTS: readonly ShortEvent[] = [
  ['a', '2023-01-01T08:00:00Z', 'signup', { plan: 'pro' }],
  ['a', '2023-01-01T09:00:00Z', 'login'],
  ['a', '2023-01-03T09:00:00Z', 'login', { plan: 'pro' }],
  ['a', '2023-01-07T23:59:59.999Z', 'login'],
  ['a', '2023-01-08T00:00:00Z', 'login'],
  ['b', '2023-01-01T10:00:00Z', 'signup'],
  ['b', '2023-01-02T10:00:00Z', 'signup'],
  ['c', '2023-01-02T00:00:00Z', 'signup'],
  ['c', '2023-01-01T23:00:00Z', 'login'],
  ['c', '2023-01-04T23:00:00Z', 'login'],
]

t.test('entities select the events', async (t) => {
  const scanner = scannerOf(EVENTS)
  const login = { returning_entity: { id: 'login', type: 'events' } }
  t.strictSame(cohort(scanner, { ...WEEK, ...login }).texts, ['a 1010001', 'b 1000000'])
  t.strictSame(cohort(scanner, WEEK).texts, ['b 1100000', 'a 1000000'], 'back to the target')
  const events = {
    events: [
      { id: 'x', order: 2 },
      { id: 'login', order: 1 },
    ],
  }
  t.strictSame(cohort(scanner, { ...WEEK, ...events }).texts, ['a 1010001', 'b 1000000'])
  const properties = [{ key: 'plan', value: 'pro' }]
  const pro = { target_entity: { id: 'signup', type: 'events', properties } }
  t.strictSame(cohort(scanner, { ...WEEK, ...pro, ...login }).texts, ['a 1010001'])
  const all = { returning_entity: { type: 'events' } }
  t.strictSame(cohort(scanner, { ...WEEK, ...all }).texts, ['a 1010001', 'b 1100000'])
  t.strictSame(cohort(scanner, { ...WEEK, properties }).texts, ['a 1000000'])
  const second = { ...WEEK, ...login, selected_interval: 1 }
  t.strictSame(cohort(scanner, second).texts, ['c 101000', 'b 100000'])
  const first = { ...second, retention_type: 'retention_first_time' }
  t.strictSame(cohort(scanner, first).texts, ['c 101000'])
  t.strictSame(
    cohort(scanner, { ...WEEK, date_from: '2030-01-01' }).texts.length,
    2,
    'no date_from',
  )
  t.strictSame(cohort(scanner, { ...WEEK, date_to: '2020-01-01' }).texts, [])
})

t.test('pages continue each other', async (t) => {
  const scanner = scannerOf(EVENTS)
  const one = { ...WEEK, limit: 1 }
  t.strictSame(cohort(scanner, one), { texts: ['b 1100000'], isFull: true })
  t.strictSame(cohort(scanner, { ...one, offset: 1 }), { texts: ['a 1000000'], isFull: true })
  t.strictSame(cohort(scanner, { ...one, offset: 2 }), { texts: [], isFull: false })
})

t.test('periods follow the calendar', async (t) => {
  const scanner = scannerOf(EVENTS)
  const nowMs = Date.parse('2023-01-02T10:30:00Z')
  const hours = { ...SIGNUP, period: 'Hour', total_intervals: 3 }
  t.strictSame(cohort(scanner, { ...hours, date_to: '2023-01-01T10:59:00Z' }).texts, ['a 100'])
  t.strictSame(cohort(scanner, { ...hours, selected_interval: 2 }, { nowMs }).texts, ['b 1'])
  t.strictSame(
    cohort(scanner, { ...hours, date_to: '-24h', selected_interval: 2 }, { nowMs }).texts,
    ['b 1'],
  )
  t.strictSame(cohort(scanner, { ...hours, date_to: '2023-01-02', selected_interval: 2 }).texts, [
    'c 1',
  ])
  const days = { ...SIGNUP, total_intervals: 2 }
  t.strictSame(cohort(scanner, days, { nowMs }).texts, ['b 11', 'a 10'])
  t.strictSame(
    cohort(scanner, { ...days, date_to: '-1d', selected_interval: 1 }, { nowMs }).texts,
    ['a 1', 'b 1'],
  )
  const month = { ...SIGNUP, period: 'Month', total_intervals: 1, date_to: '2023-01-31' }
  t.strictSame(cohort(scanner, month).texts, ['a 1', 'b 1', 'c 1'])
  const zone = { timezone: 'Pacific/Honolulu' }
  t.strictSame(cohort(scanner, { ...WEEK, selected_interval: 0 }, zone).texts, [
    'b 1100000',
    'c 1000000',
  ])
})

t.test('invalid requests are refused', async (t) => {
  const scanner = scannerOf(EVENTS)
  const refused: readonly (readonly [Query, string | null])[] = [
    [{ period: 'day' }, null],
    [{ period: 'Year' }, null],
    [{ selected_interval: 7 }, null],
    [{ total_intervals: 0 }, null],
    [{ total_intervals: 1001 }, 'total_intervals'],
    [{ total_intervals: 'x' }, 'total_intervals'],
    [{ selected_interval: -1 }, 'selected_interval'],
    [{ target_entity: [] }, 'target_entity'],
    [{ target_entity: '{' }, 'target_entity'],
    [{ target_entity: { id: {} } }, 'target_entity'],
    [{ target_entity: { id: 'x', type: 'moon' } }, 'target_entity'],
    [{ returning_entity: { id: 1, type: 'actions' } }, 'returning_entity'],
    [{ returning_entity: '"x"' }, 'returning_entity'],
  ]
  for (const [query, attr] of refused) {
    const asked = () => cohort(scanner, { ...WEEK, ...query })
    t.throws(asked, { code: 'invalid_input', attr }, JSON.stringify(query))
  }
})

t.test('random visits agree with the definition', async (t) => {
  const visit = fc.record({
    who: fc.constantFrom('a', 'b', 'c', 'd'),
    hour: fc.integer({ min: 0, max: 20 * 24 }),
    name: fc.constantFrom('signup', 'login'),
  })
  const zoneShiftMs = 7 * 3_600_000
  const startMs = Date.parse('2023-01-01T00:00:00Z') + zoneShiftMs
  const dayOf = (hour: number): number => Math.floor(hour / 24)
  const options = fc.record({ total: fc.integer({ min: 1, max: 9 }), isFirst: fc.boolean() })
  const differences = new Differences()
  fc.assert(
    fc.property(fc.array(visit, { maxLength: 40 }), options, (visits, { total, isFirst }) => {
      const events = visits.map(
        ({ who, hour, name }): ShortEvent => [
          who,
          new Date(startMs + hour * 3_600_000).toISOString(),
          name,
        ],
      )
      const selected = Math.floor(total / 2)
      // The range begins on the sixth day.
      const firstDay = 5 + selected
      const query = {
        ...SIGNUP,
        returning_entity: { id: 'login', type: 'events' },
        retention_type: isFirst ? 'retention_first_time' : 'retention_recurring',
        total_intervals: total,
        selected_interval: selected,
        date_to: new Date(Date.parse('2023-01-05') + total * 86_400_000).toISOString().slice(0, 10),
      }
      const expected = ['a', 'b', 'c', 'd'].flatMap((who) => {
        const own = visits.filter((one) => one.who === who)
        const signups = own.filter(({ name }) => name === 'signup').map(({ hour }) => dayOf(hour))
        const logins = own.filter(({ name }) => name === 'login').map(({ hour }) => dayOf(hour))
        const isIn = isFirst ? Math.min(...signups) === firstDay : signups.includes(firstDay)
        const digits = Array.from({ length: total - selected }, (_, index) =>
          index === 0 || logins.includes(firstDay + index) ? 1 : 0,
        )
        return isIn ? [`${who} ${digits.join('')}`] : []
      })
      const found = cohort(scannerOf(events), query, { timezone: 'America/Phoenix' })
      differences.same([...found.texts].sort(), expected, JSON.stringify([query, visits]))
    }),
    runsOf(200),
  )
  t.strictSame(differences.list(), [], 'every cohort agrees with the definition')
})
