/**
 * Tests which definitions a query selects, in which order, and which type the values of a property suggest.
 *
 * @lane quick
 */
import t from 'tap'
import {
  definitionId,
  type EventDefinitionQuery,
  type EventFacts,
  findEvents,
  findProperties,
  type PropertyDefinitionQuery,
  type PropertyFacts,
  propertyType,
  searchWords,
} from '../../../src/rules/events/event-definitions.ts'
import { offeredEvents, ValueCounts } from '../../../src/rules/events/event-values.ts'
import { VALUES_COUNTED_MAX } from '../../../src/rules/events/limits.ts'
import { SESSION_PROPERTIES } from '../../../src/rules/events/session-property-names.ts'

const NOON = Date.UTC(2024, 4, 2, 12)
const HOUR = 3_600_000

function event(name: string, lastSeenMs = NOON, lastSequence = 5): EventFacts {
  const id = definitionId(1, 'event', name)
  const arrivals = { firstArrivalMs: NOON, lastArrivalMs: NOON }
  return { id, name, count: 1, firstSeenMs: 0, lastSeenMs, ...arrivals, lastSequence }
}

const ALL_EVENTS: EventDefinitionQuery = {
  projectId: 1,
  words: [],
  excluded: [],
  type: 'event',
  ordering: [],
}
const ALL_PROPERTIES: PropertyDefinitionQuery = {
  projectId: 1,
  of: 'event',
  groupType: 0,
  words: [],
  excluded: [],
  names: null,
  isNumerical: false,
  isFeatureFlag: null,
  eventNames: null,
  isSeenOnly: false,
}
const EVENTS = [
  event('b', NOON + HOUR),
  event('$a', NOON),
  event('Order Paid', NOON - 48 * HOUR),
  event('a', NOON - HOUR),
]
const NOTHING = new Map<string, number>()

t.test('a query selects and orders event definitions', (t) => {
  const found = (query: Partial<EventDefinitionQuery>, deleted = NOTHING) =>
    findEvents(EVENTS, deleted, { ...ALL_EVENTS, ...query }).map(({ name }) => name)
  t.strictSame(found({}), ['$a', 'a', 'b', 'Order Paid'], 'by day of the last, then by name')
  t.strictSame(found({ type: 'event_custom' }), ['a', 'b', 'Order Paid'])
  t.strictSame(found({ type: 'event_posthog' }), ['$a'])
  t.strictSame(found({ words: searchWords(' PAID  order ') }), ['Order Paid'])
  t.strictSame(found({ words: ['paid', 'x'] }), [])
  t.strictSame(found({ excluded: ['a', 'b'] }), ['$a', 'Order Paid'])
  t.strictSame(found({ ordering: ['name'] }), ['$a', 'Order Paid', 'a', 'b'])
  t.strictSame(found({ ordering: ['-name'] }), ['b', 'a', 'Order Paid', '$a'])
  t.strictSame(found({ ordering: ['last_seen_at'] }), ['Order Paid', 'a', '$a', 'b'])
  t.strictSame(found({ ordering: ['-last_seen_at'] }), ['b', '$a', 'a', 'Order Paid'])
  const twice = ['last_seen_at::date', '-name']
  t.strictSame(found({ ordering: twice }), ['Order Paid', 'b', 'a', '$a'])
  t.strictSame(found({ ordering: ['constructor', 'count'] }), found({}), 'unknown orders')
  const id = definitionId(1, 'event', 'a')
  t.strictSame(found({}, new Map([[id, 5]])), ['$a', 'b', 'Order Paid'], 'deleted')
  t.strictSame(found({}, new Map([[id, 4]])), found({}), 'brought back')
  t.end()
})

t.test('a query selects and orders property definitions', (t) => {
  const facts = (name: string, type: PropertyFacts['type'] = 'String') => ({ name, type })
  const all = [
    facts('plan'),
    facts('amount', 'Numeric'),
    facts('$feature/x', 'Boolean'),
    facts('distinct_id', 'Numeric'),
    facts('timestamp', 'Numeric'),
    facts('$set'),
    facts('$group_4'),
  ]
  const isSeen = ({ name }: PropertyFacts): boolean => name === 'plan'
  const found = (query: Partial<PropertyDefinitionQuery>, seen: typeof isSeen | null = null) =>
    findProperties(all, seen, { ...ALL_PROPERTIES, ...query }).map(({ facts }) => facts.name)
  t.strictSame(found({}), ['$feature/x', 'amount', 'plan', 'timestamp'])
  t.strictSame(found({ of: 'person' }).length, 7, 'names that only events reserve')
  t.strictSame(found({ isNumerical: true, of: 'person' }), ['amount'])
  t.strictSame(found({ isFeatureFlag: true }), ['$feature/x'])
  t.strictSame(found({ isFeatureFlag: false }), ['amount', 'plan', 'timestamp'])
  t.strictSame(found({ names: ['plan', 'none'] }), ['plan'])
  t.strictSame(found({ words: ['pl'], excluded: ['amount'] }), ['plan'])
  t.strictSame(found({}, isSeen), ['plan', '$feature/x', 'amount', 'timestamp'], 'seen ones first')
  t.strictSame(found({ isSeenOnly: true }, isSeen), ['plan'])
  t.strictSame(found({ isSeenOnly: true }).length, 4, 'nobody said on what')
  t.end()
})

t.test('the type of a property is the type of its value', (t) => {
  const rows: readonly (readonly [unknown, ReturnType<typeof propertyType>])[] = [
    [null, null],
    [undefined, null],
    [0, 'Numeric'],
    [false, 'Boolean'],
    ['', 'String'],
    ['12', 'String'],
    ['true', 'String'],
    [[1], 'String'],
    [{}, 'String'],
    ['2024-05-02', 'DateTime'],
    ['2024-05-02T10:00:00Z', 'DateTime'],
    ['2024-05-02 10:00:00.123456+02:00', 'DateTime'],
    ['2024-05-02T10:00', 'DateTime'],
    ['2024-13-02', 'String'],
    ['2024-05-02x', 'String'],
    ['20240502', 'String'],
  ]
  for (const [value, type] of rows) t.equal(propertyType(value), type, JSON.stringify(value))
  t.end()
})

t.test('session properties are listed', (t) => {
  const types = new Map(SESSION_PROPERTIES.map(({ name, type }) => [name, type]))
  t.equal(types.size, SESSION_PROPERTIES.length, 'each property appears once')
  t.equal(types.get('$session_duration'), 'Duration')
  t.equal(types.get('$entry_has_gclid'), 'Boolean')
  t.equal(types.get('$start_timestamp'), 'DateTime')
  for (const name of ['session_id', 'duration', '$urls', '$num_uniq_urls', '$exit_pathname']) {
    t.notOk(types.has(name), name)
  }
  t.end()
})

t.test('values are suggested in order', (t) => {
  const counts = new ValueCounts('')
  counts.add('pro', 2)
  counts.add(['free', ['pro', null]], 3)
  counts.add(true, 1)
  counts.add(12.5, 1)
  counts.add({ b: 1, a: [2] }, 1)
  counts.add('', 9)
  counts.add('x'.repeat(501), 9)
  const names = ['pro', 'free', '12.5', 'true', '{"b":1,"a":[2]}']
  t.strictSame(
    counts.offered().map(({ name }) => name),
    names,
  )
  const some = new ValueCounts('fr')
  for (const value of ['FRee', 'pro', ['free']]) some.add(value, 1)
  t.strictSame(some.offered(), [{ name: 'FRee' }, { name: 'free' }])
  const many = new ValueCounts('')
  for (let value = 0; value <= VALUES_COUNTED_MAX; value++) many.add(value, 1)
  many.add(VALUES_COUNTED_MAX, 10)
  many.add(7, 2)
  t.equal(many.offered().length, 50)
  t.equal(many.offered()[0]?.name, '7', 'values that arrive when the table is full are not counted')
  const events = [
    { name: 'Paid', count: 1 },
    { name: '$pageview', count: 9 },
    { name: 'a', count: 1 },
    { name: 'b', count: 2 },
  ]
  t.strictSame(offeredEvents(events, ''), [{ name: 'b' }, { name: 'Paid' }, { name: 'a' }])
  t.strictSame(offeredEvents(events, 'pa'), [{ name: 'Paid' }])
  t.end()
})
