/**
 * Tests stickiness: persons with events in exactly a given number of periods.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { readQuestion } from '../../../src/rules/analytics/questions.ts'
import { runQuestion } from '../../../src/rules/queries/persons-questions.ts'
import { casesOf, worldOf } from '../../fixtures/analytics/analytic-cases.ts'
import {
  contextOf,
  type MemoryScanner,
  parametersOf,
  type ShortEvent,
  scannerOf,
} from '../../fixtures/analytics/memory-scanner.ts'
import { Differences } from '../../fixtures/differences.ts'

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
    { numRuns: 100 },
  )
  t.strictSame(differences.list(), [], 'the same persons')
})
