/**
 * Tests lifecycle: new, returning, resurrecting and dormant persons of a period.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { ServiceError } from '../../../src/base/errors.ts'
import { runQuestion } from '../../../src/rules/analytics/analytics.ts'
import { lifecycleMessage, readQuestion } from '../../../src/rules/analytics/questions.ts'
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

const STATUSES = ['new', 'returning', 'resurrecting', 'dormant']

/** Names of persons in order. */
function lives(scanner: MemoryScanner, query: Query, changes = {}): readonly string[] {
  const question = readQuestion('lifecycle', parametersOf(query))
  const { actors } = runQuestion(question, contextOf(changes), scanner)
  return actors.map((actor) => (actor.kind === 'person' ? scanner.nameOf(actor.person) : '?'))
}

for (const one of casesOf('persons/lifecycle')) {
  t.test(`${one.id}: ${one.title}`, async (t) => {
    const { scanner, context } = worldOf(one)
    const query = one.request.query ?? {}
    const { body_keys, people = [] } = one.expect
    if (body_keys === undefined) {
      const wanted = people.map((ids) => [...ids].sort()[0] ?? '').sort()
      t.strictSame([...lives(scanner, query, context)].sort(), wanted)
    } else t.throws(() => lives(scanner, query, context), { code: 'required', attr: 'target_date' })
  })
}

const SERIES = { events: [{ id: 'view' }], date_from: '2023-01-01', date_to: '2023-01-07' }
const VIEWS: readonly ShortEvent[] = [2, 3, 5].map((day) => [
  'p',
  `2023-01-0${day}T10:00:00Z`,
  'view',
])

/** Returns the statuses of p on each of the given days. */
function statusesOf(scanner: MemoryScanner, days: readonly string[], query: Query, changes = {}) {
  return days.map((target_date) =>
    STATUSES.filter((lifecycle_type) => {
      const found = lives(scanner, { ...SERIES, ...query, target_date, lifecycle_type }, changes)
      return found.includes('p')
    }).join(' '),
  )
}

t.test('a person passes through every status', async (t) => {
  const days = [1, 2, 3, 4, 5, 6, 7, 8].map((day) => `2023-01-0${day}`)
  t.strictSame(statusesOf(scannerOf(VIEWS), days, {}), [
    '',
    'new',
    'returning',
    'dormant',
    'resurrecting',
    'dormant',
    '',
    '',
  ])
  const older = scannerOf(VIEWS, { p: { createdAt: '2022-06-01T00:00:00Z' } })
  t.strictSame(statusesOf(older, days.slice(1, 3), {}), ['resurrecting', 'returning'])
  const late = { date_from: '2023-01-05', date_to: '2023-01-05' }
  t.strictSame(
    statusesOf(scannerOf(VIEWS), days.slice(2), late),
    ['', '', 'resurrecting', 'dormant', '', ''],
    'what lies more than one period before the range is not seen, dormancy right after it is',
  )
  const empty = { date_from: '2023-01-06', date_to: '2023-01-05' }
  t.strictSame(
    statusesOf(scannerOf(VIEWS), days, empty),
    days.map(() => ''),
  )
})

t.test('weeks begin on Monday, target dates may be times', async (t) => {
  const scanner = scannerOf([
    ['p', '2023-01-01T10:00:00Z', 'view'],
    ['p', '2023-01-02T10:00:00Z', 'view'],
  ])
  const week = { interval: 'week', date_to: '2023-01-20' }
  const days = ['2023-01-01', '2023-01-02', '2023-01-08', '2023-01-09T10:00:00Z', '2023-01-16']
  const expected = ['new', 'returning', 'returning', 'dormant', '']
  t.strictSame(statusesOf(scanner, days, week), expected)
  const old = scannerOf([['p', '2022-12-21T10:00:00Z', 'view']])
  const midweek = { interval: 'week', date_from: '2023-01-04' }
  t.strictSame(statusesOf(old, ['2022-12-26'], midweek), [''], 'no Sunday moves the start')
  const hours = { interval: 'hour', date_from: '2023-01-01T00:00:00', date_to: '2023-01-03' }
  const moments = ['2023-01-02T10:30:00', '2023-01-02T11:00:00+00:00', '2023-01-02']
  t.strictSame(statusesOf(scanner, moments, hours), ['resurrecting', 'dormant', ''])
  const berlin = { timezone: 'Europe/Berlin', nowMs: Date.parse('2023-01-02T12:00:00Z') }
  t.strictSame(statusesOf(scanner, ['-1d', 'd', 'banana'], {}, berlin), [
    'new',
    'returning',
    'returning',
  ])
})

t.test('missing and invalid parameters are refused', async (t) => {
  const scanner = scannerOf(VIEWS)
  const full = { ...SERIES, target_date: '2023-01-02', lifecycle_type: 'new' }
  const refusal = (query: Query): ServiceError | null => {
    try {
      lives(scanner, query)
      return null
    } catch (error) {
      return error instanceof ServiceError ? error : null
    }
  }
  for (const name of ['target_date', 'lifecycle_type']) {
    const error = refusal({ ...full, [name]: '' })
    t.match(error, { code: 'required', attr: name })
    t.type(error === null ? null : lifecycleMessage(error), 'string')
  }
  const nothing = refusal({ ...full, events: [] })
  t.match(nothing, { code: 'invalid_input', attr: null })
  t.equal(nothing === null ? '' : lifecycleMessage(nothing), null)
  t.match(refusal({ ...full, interval: 'x' }), { code: 'invalid_input', attr: 'interval' })
  t.strictSame(lives(scanner, { ...full, lifecycle_type: 'undead' }), [])
  t.strictSame(lives(scanner, { ...full, properties: [{ key: 'x', value: 1 }] }), [])
  const other = [
    { id: 'other', order: 2 },
    { id: 'view', order: 1 },
  ]
  t.strictSame(lives(scanner, { ...full, events: other }), ['p'], 'the first series by order')
})

t.test('random histories agree with the definition', async (t) => {
  const life = fc.record({
    days: fc.uniqueArray(fc.integer({ min: 0, max: 11 }), { minLength: 1, maxLength: 6 }),
    createdDay: fc.integer({ min: 0, max: 11 }),
    from: fc.integer({ min: 0, max: 11 }),
    to: fc.integer({ min: 0, max: 11 }),
    target: fc.integer({ min: 0, max: 11 }),
  })
  // Clocks change on the 12th.
  const noon = (day: number): string => `2023-03-${String(day + 8).padStart(2, '0')}T20:00:00Z`
  const differences = new Differences()
  fc.assert(
    fc.property(
      life,
      fc.constantFrom(...STATUSES),
      ({ days, createdDay, from, to, target }, status) => {
        const events = days.map((day): ShortEvent => ['p', noon(day), 'view'])
        const scanner = scannerOf(events, { p: { createdAt: noon(createdDay) } })
        const query = {
          events: [{ id: 'view' }],
          date_from: noon(from).slice(0, 10),
          date_to: noon(to).slice(0, 10),
          target_date: noon(target).slice(0, 10),
          lifecycle_type: status,
        }
        const seen = from > to ? [] : days.filter((day) => day >= from - 1 && day <= to)
        const isActive = seen.includes(target)
        const wasActive = seen.includes(target - 1)
        const isFirst = target === Math.min(...seen)
        let expected = ''
        if (isActive && isFirst) expected = createdDay === target ? 'new' : 'resurrecting'
        else if (isActive) expected = wasActive ? 'returning' : 'resurrecting'
        else if (wasActive) expected = 'dormant'
        const found = lives(scanner, query, { timezone: 'America/Los_Angeles' })
        differences.same(found, expected === status ? ['p'] : [], JSON.stringify(query))
      },
    ),
    runsOf(300),
  )
  t.strictSame(differences.list(), [], 'every life agrees with the definition')
})
