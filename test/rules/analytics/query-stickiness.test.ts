/**
 * Tests stickiness: persons with events in exactly a given number of periods.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { runQuestion } from '../../../src/rules/analytics/analytics.ts'
import { distinctPeriodCounts } from '../../../src/rules/analytics/distinct-periods.ts'
import { Periods } from '../../../src/rules/analytics/periods.ts'
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

/** Names of persons in order. */
function sticky(scanner: MemoryScanner, query: Query, changes = {}): readonly string[] {
  const question = readQuestion('stickiness', parametersOf(query))
  const { actors } = runQuestion(question, contextOf(changes), scanner)
  return actors.map((actor) => {
    const { kind, value } = actor
    t.strictSame([kind, value], ['person', null])
    return kind === 'person' ? scanner.nameOf(actor.person) : ''
  })
}

for (const one of casesOf('persons/stickiness')) {
  t.test(`${one.id}: ${one.title}`, async (t) => {
    const { scanner, context } = worldOf(one)
    const query = one.request.query ?? {}
    const { error, people = [] } = one.expect
    if (error === undefined) {
      const wanted = people.map((ids) => [...ids].sort()[0] ?? '').sort()
      t.strictSame([...sticky(scanner, query, context)].sort(), wanted)
    } else t.throws(() => sticky(scanner, query, context), { code: error.code, attr: error.attr })
  })
}

const WEEK = { entity_id: 'view', date_from: '2023-01-01', date_to: '2023-01-07' }

t.test('parameters are read and checked', async (t) => {
  const scanner = scannerOf([
    ['a', '2023-01-02T10:00:00Z', 'view'],
    ['a', '2023-01-03T10:00:00Z', 'view'],
    ['b', '2023-01-02T10:00:00Z', 'view'],
    ['b', '2023-01-09T10:00:00Z', 'view'],
    ['c', '2023-01-03T10:00:00Z', 'view'],
  ])
  t.strictSame(sticky(scanner, { ...WEEK, stickiness_days: 1 }), ['b', 'c'])
  t.strictSame(sticky(scanner, { ...WEEK, stickiness_days: 0 }), [])
  t.strictSame(sticky(scanner, { ...WEEK, stickiness_days: 1, limit: 1, offset: 1 }), ['c'])
  const weeks = { ...WEEK, date_from: '2023-01-04', date_to: '2023-01-10', interval: 'week' }
  t.strictSame(sticky(scanner, { ...weeks, stickiness_days: 2 }), ['b'])
  t.strictSame(sticky(scanner, { ...weeks, stickiness_days: 1 }), ['a', 'c'], 'from Sunday on')
  const equal = { ...weeks, date_from: '2023-01-02', date_to: '2023-01-02' }
  t.strictSame(sticky(scanner, { ...equal, stickiness_days: 1 }), ['a', 'b'])
  t.strictSame(sticky(scanner, { ...WEEK, date_to: '2022-01-01', stickiness_days: 1 }), [])
  for (const value of ['-1', 'many']) {
    const asked = () => sticky(scanner, { ...WEEK, stickiness_days: value })
    t.throws(asked, { code: 'invalid_input', attr: 'stickiness_days' })
  }
  const math = { ...WEEK, stickiness_days: 1, entity_math: 'sum' }
  t.throws(() => sticky(scanner, math), { code: 'required', attr: 'math_property' })
  t.throws(() => sticky(scanner, { ...WEEK, interval: 'year' }), {
    code: 'invalid_input',
    attr: 'interval',
  })
})

t.test('many persons and hours agree with sets of local hours', async (t) => {
  const hours = fc.array(
    fc.record({ who: fc.integer({ min: 1, max: 9 }), hour: fc.integer({ min: 0, max: 99 }) }),
    { maxLength: 60 },
  )
  // Clocks are set back in this range.
  const baseMs = Date.parse('2023-11-04T00:00:00Z')
  const differences = new Differences()
  fc.assert(
    fc.property(hours, fc.integer({ min: 1, max: 5 }), (list, wanted) => {
      const events = list.map(
        ({ who, hour }): ShortEvent => [
          `p${who}`,
          new Date(baseMs + hour * 3_600_000).toISOString(),
          'view',
        ],
      )
      const query = {
        entity_id: 'view',
        date_from: '2023-11-01T00:00:00',
        date_to: '2023-11-30T00:00:00',
        interval: 'hour',
        stickiness_days: wanted,
      }
      const seen = new Map<number, Set<number>>()
      for (const { who, hour } of list) seen.set(who, (seen.get(who) ?? new Set()).add(hour))
      const expected = [...seen].filter(([, set]) => set.size === wanted).map(([who]) => `p${who}`)
      const found = sticky(scannerOf(events), query, { timezone: 'America/New_York' })
      differences.same([...found].sort(), expected.sort(), JSON.stringify([query, list]))
    }),
    runsOf(100),
  )
  t.strictSame(differences.list(), [], 'the same persons')
})

t.test('persons are counted in turns if there are more periods than bits at a time', async (t) => {
  const fromMs = Date.parse('2003-01-01T00:00:00Z')
  const rules = { interval: 'hour', timezone: 'UTC', weekStart: 'sunday' } as const
  const periods = Periods.covering(fromMs, Date.parse('2022-12-31T23:00:00Z'), rules)
  // 938 and 4000 use the same bits, one after the other.
  const all: readonly (readonly [person: number, timeMs: number])[] = [
    [938, fromMs],
    [4000, fromMs],
    [9000, fromMs],
    [4000, fromMs + 3_600_000],
    [4000, fromMs + 1],
    [9000, Date.parse('2022-12-31T23:30:00Z')],
    [938, fromMs - 1],
  ]
  const columns = {
    count: all.length,
    timesMs: Float64Array.from(all, ([, timeMs]) => timeMs),
    persons: Uint32Array.from(all, ([person]) => person),
    sequences: new Uint32Array(),
    seriesMasks: new Uint32Array(all.length).fill(1),
    values: [],
  }
  const { byPerson: counts } = distinctPeriodCounts(columns, periods, 9000, {
    checkLimits: () => undefined,
  })
  t.strictSame([counts[938], counts[4000], counts[9000]], [1, 2, 2])
  t.equal(
    counts.reduce((sum, count) => sum + count, 0),
    5,
  )
})
