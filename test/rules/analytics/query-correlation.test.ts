/**
 * Tests correlations: the events between the steps of a funnel, and their persons.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { runQuestion } from '../../../src/rules/analytics/analytics.ts'
import { isCorrelationRequest, readQuestion } from '../../../src/rules/analytics/questions.ts'
import { casesOf, worldOf } from '../../fixtures/analytics/analytic-cases.ts'
import {
  contextOf,
  type MemoryScanner,
  parametersOf,
  type ShortEvent,
  scannerOf,
} from '../../fixtures/analytics/memory-scanner.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

type Query = Readonly<Record<string, unknown>>

/** Names of the persons, or keys of the groups, of a page in order. */
function correlation(scanner: MemoryScanner, query: Query, changes = {}) {
  const question = readQuestion('correlation', parametersOf(query))
  const { actors, isFull } = runQuestion(question, contextOf(changes), scanner)
  const names = actors.map((actor) =>
    actor.kind === 'person' ? scanner.nameOf(actor.person) : actor.key,
  )
  return { names: names.join(' '), isFull }
}

const STEPS = [
  { id: 'A', type: 'events', order: 0 },
  { id: 'B', type: 'events', order: 1 },
]
const BASE = { events: STEPS, date_from: '2023-01-01', date_to: '2023-01-31' }
const WATCH = { funnel_correlation_person_entity: { id: 'watch', type: 'events' } }

function at(who: string, time: string, name: string, properties: Query = {}): ShortEvent {
  return [who, `2023-01-${time}Z`, name, properties]
}

for (const one of casesOf('persons/funnel/correlation')) {
  t.test(`${one.id}: ${one.title}`, async (t) => {
    const { scanner, context } = worldOf(one)
    const query = { ...one.request.query, ...one.request.body }
    const { error, people, count } = one.expect
    if (error !== undefined) {
      t.throws(() => correlation(scanner, query, context), { code: error.code, attr: error.attr })
      return
    }
    const names = correlation(scanner, query, context).names.split(' ').filter(Boolean)
    const wanted = people?.map((ids) => [...ids].sort()[0] ?? '') ?? []
    t.strictSame(names.sort(), [...wanted].sort())
    t.equal(names.length, count)
  })
}

t.test('the event lies strictly between the first and the last step', async (t) => {
  const scanner = scannerOf([
    at('a', '02T10:00:00', 'A'),
    at('a', '02T10:00:00', 'watch'),
    at('a', '02T12:00:00', 'B'),
    at('a', '02T12:00:00', 'watch'),
    at('b', '02T10:00:00', 'A'),
    at('b', '02T11:59:59.999', 'watch'),
    at('b', '02T12:00:00', 'B'),
    at('c', '02T10:00:00', 'A'),
    at('c', '02T11:00:00', 'watch'),
    at('d', '02T10:00:00', 'A'),
    at('d', '02T11:00:00.001', 'watch'),
    at('e', '02T10:00:00', 'A'),
    at('e', '02T10:59:59.999', 'watch'),
  ])
  const query = {
    ...BASE,
    ...WATCH,
    funnel_window_interval: 1,
    funnel_window_interval_unit: 'hour',
  }
  const day = { ...query, funnel_window_interval_unit: 'day' }
  t.equal(correlation(scanner, { ...day, funnel_correlation_person_converted: 'TRUE' }).names, 'b')
  t.equal(correlation(scanner, { ...query, funnel_correlation_person_converted: false }).names, 'e')
  t.equal(correlation(scanner, day).names, 'b c d e')
})

t.test('the end of the range is excluded', async (t) => {
  const scanner = scannerOf([
    at('a', '02T10:00:00', 'A'),
    at('a', '02T12:00:00', 'watch'),
    at('b', '02T10:00:00', 'A'),
    at('b', '02T11:59:59.999', 'watch'),
    at('c', '02T10:00:00', 'A'),
    at('c', '02T23:59:59.999', 'watch'),
  ])
  const query = { ...BASE, ...WATCH, interval: 'hour' }
  const names = (date_to: string): string => correlation(scanner, { ...query, date_to }).names
  t.equal(names('2023-01-02T12:00:00'), 'b')
  t.equal(names('2023-01-02T23:59:59.999999'), 'a b c')
})

t.test('a step is never correlated, whatever the filters', async (t) => {
  const scanner = scannerOf([
    at('a', '02T10:00:00', 'A'),
    at('a', '02T11:00:00', 'A', { k: 1 }),
    at('a', '02T12:00:00', 'B'),
    at('b', '02T10:00:00', 'A'),
    at('b', '02T11:00:00', 'watch'),
    at('b', '02T12:00:00', 'B'),
  ])
  const names = (entity: Query): string =>
    correlation(scanner, { ...BASE, funnel_correlation_person_entity: entity }).names
  t.equal(names({ id: 'A', type: 'events', properties: [{ key: 'k', value: 1 }] }), '')
  // All events except those with the name of a step.
  t.equal(names({ id: null, type: 'events' }), 'b')
})

t.test('global filters restrict the funnel but not the event', async (t) => {
  const web = { app: 'web' }
  const scanner = scannerOf([
    at('a', '02T10:00:00', 'A', web),
    at('a', '02T11:00:00', 'watch'),
    at('a', '02T12:00:00', 'B', web),
    at('b', '02T10:00:00', 'A'),
    at('b', '02T11:00:00', 'watch', web),
    at('b', '02T12:00:00', 'B', web),
  ])
  const query = { ...BASE, ...WATCH, properties: [{ key: 'app', value: 'web' }] }
  t.equal(correlation(scanner, query).names, 'a')
})

t.test(
  'among several successful attempts the earliest counts, in every order of steps',
  async (t) => {
    const scanner = scannerOf([
      at('a', '02T10:00:00', 'A'),
      at('a', '02T11:00:00', 'B'),
      at('a', '03T10:00:00', 'A'),
      at('a', '03T11:00:00', 'watch'),
      at('a', '03T12:00:00', 'B'),
      at('b', '02T10:00:00', 'B'),
      at('b', '02T11:00:00', 'watch'),
      at('b', '02T12:00:00', 'A'),
    ])
    const query = { ...BASE, ...WATCH, funnel_correlation_person_converted: 'true' }
    const day = { funnel_window_interval: 1, funnel_window_interval_unit: 'day' }
    t.equal(correlation(scanner, query).names, '')
    t.equal(correlation(scanner, { ...query, ...day, funnel_order_type: 'unordered' }).names, 'b')
  },
)

t.test('groups are correlated by the events of all their members', async (t) => {
  const acme = { $group_0: 'acme' }
  const scanner = scannerOf([
    at('z', '01T10:00:00', 'other', { $group_0: 'zeta' }),
    at('a', '02T10:00:00', 'A', acme),
    at('b', '02T11:00:00', 'watch', { $group_0: 'zeta' }),
    at('b', '02T11:00:00', 'watch', acme),
    at('c', '02T12:00:00', 'B', acme),
    at('a', '02T10:00:00', 'A', { $group_0: 'beta' }),
  ])
  const query = { ...BASE, ...WATCH, aggregation_group_type_index: 0 }
  t.equal(correlation(scanner, query).names, 'acme')
})

t.test('funnel_step selects the persons, and pages have their own parameters', async (t) => {
  const scanner = scannerOf([
    ...['a', 'b', 'c'].flatMap((who) => [
      at(who, '02T10:00:00', 'A'),
      at(who, '02T11:00:00', 'watch'),
    ]),
    at('a', '02T12:00:00', 'B'),
    at('b', '02T12:00:00', 'B'),
  ])
  const query = { ...BASE, ...WATCH }
  t.equal(correlation(scanner, { ...query, funnel_step: 2 }).names, 'a b')
  const page = { funnel_correlation_person_limit: 2, limit: 1, offset: 5 }
  t.strictSame(correlation(scanner, { ...query, ...page }), { names: 'a b', isFull: true })
  const next = { ...page, funnel_correlation_person_offset: 2 }
  t.strictSame(correlation(scanner, { ...query, ...next }), { names: 'c', isFull: false })
})

t.test('invalid correlations are refused', async (t) => {
  const scanner = scannerOf([at('a', '02T10:00:00', 'A')])
  const refusals: readonly (readonly [Query, string, string | null])[] = [
    [{}, 'invalid_input', null],
    [{ funnel_correlation_type: 'event_with_properties' }, 'invalid_input', null],
    [{ funnel_correlation_type: 'properties' }, 'invalid_input', null],
    [{ funnel_correlation_type: 'all', ...WATCH }, 'invalid_input', 'funnel_correlation_type'],
    [
      { funnel_correlation_person_entity: 'watch' },
      'invalid_input',
      'funnel_correlation_person_entity',
    ],
    [{ ...WATCH, events: [] }, 'required', 'events'],
    [
      { ...WATCH, funnel_correlation_person_limit: 'x' },
      'invalid_input',
      'funnel_correlation_person_limit',
    ],
  ]
  for (const [changes, code, attr] of refusals) {
    const query = { ...BASE, ...changes }
    t.throws(() => correlation(scanner, query), { code, attr }, JSON.stringify(changes))
  }
})

t.test('a request with an entity is a correlation request', async (t) => {
  t.ok(isCorrelationRequest(parametersOf({ ...BASE, ...WATCH })))
  t.notOk(isCorrelationRequest(parametersOf(BASE)))
  t.notOk(isCorrelationRequest(parametersOf({ funnel_correlation_person_entity: '' })))
})

/** Events of one person, by hour of 2 January and name. */
const histories = fc.array(
  fc.array(fc.tuple(fc.integer({ min: 0, max: 23 }), fc.constantFrom('A', 'B', 'watch')), {
    maxLength: 8,
  }),
  { minLength: 1, maxLength: 4 },
)

/** The definition for two steps within a number of hours, taken literally. True means converted. */
function plainSpan(hours: readonly (readonly [number, string])[], windowHours: number) {
  const ordered = [...hours].sort((a, b) => a[0] - b[0])
  const attempts = ordered.flatMap(([first, name], index) => {
    if (name !== 'A') return []
    const final = ordered.find(([, other], later) => later >= index && other === 'B')?.[0]
    const isConverted = final !== undefined && final <= first + windowHours
    return [{ first, isConverted, end: isConverted ? final : first + windowHours }]
  })
  return attempts.find(({ isConverted }) => isConverted) ?? attempts[0]
}

t.test('the persons equal those of the plain definition', async () => {
  fc.assert(
    fc.property(histories, fc.integer({ min: 1, max: 6 }), (persons, windowHours) => {
      const names = ['a', 'b', 'c', 'd']
      const scanner = scannerOf(
        persons.flatMap((hours, index) =>
          hours.map(([hour, name]) =>
            at(names[index] ?? '', `02T${String(hour).padStart(2, '0')}:00:00`, name),
          ),
        ),
      )
      const found = [true, false].map((isConverted) => {
        const query = {
          ...BASE,
          ...WATCH,
          funnel_window_interval: windowHours,
          funnel_window_interval_unit: 'hour',
          funnel_correlation_person_converted: isConverted,
        }
        return correlation(scanner, query).names
      })
      const wanted = [true, false].map((isConverted) =>
        names
          .filter((_name, index) => {
            const hours = persons[index] ?? []
            const span = plainSpan(hours, windowHours)
            return (
              span?.isConverted === isConverted &&
              hours.some(([hour, name]) => {
                return name === 'watch' && hour > span.first && hour < span.end
              })
            )
          })
          .join(' '),
      )
      if (found.join('|') !== wanted.join('|'))
        throw new Error(`${found.join()} is not ${wanted.join()}`)
    }),
    runsOf(500),
  )
})
