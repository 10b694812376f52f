/**
 * Tests the summary of person properties: a count made in advance, plus the persons that changed since.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { PropertyCounts } from '../../src/store/identity/properties/property-counts.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES, numberKey } from '../../src/store/lmdb/keys.ts'
import { Dice } from '../fixtures/dice.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { seedOf } from '../fixtures/random-depth.ts'
import { openReader } from '../fixtures/stored-events.ts'

const PERSONS = 2500
const NO_CHECK = (): void => {}

t.setTimeout(120_000)

function manyPersons(t: Test, persons = PERSONS): PersonLog {
  const log = new PersonLog(t, t.testdir())
  for (let first = 0; first < persons; first += 500) {
    const events = Array.from({ length: 500 }, (_, index) => ({
      event: 'seen',
      distinct_id: `person-${first + index}`,
      properties: {
        $set: { plan: index % 5 === 0 ? 'pro' : 'free', own: first + index },
        ...(first + index === 7 ? { $set_once: { rare: 'secret' } } : {}),
      },
    }))
    log.send(1, events)
  }
  log.process()
  return log
}

/** Returns the answer of a new reader, and the number of persons it reads one by one. */
function ask(t: Test, { dataDir }: PersonLog) {
  let read = 0
  const reader = openReader(t, dataDir)
  const facts = reader.actorProperties(1, null, () => read++)
  const counts = new Map(facts.map(({ name, count, type }) => [name, [count, type]]))
  const valuesOf = (key: string, contains: string | null = null) =>
    reader.persons().values(1, key, contains, () => read++)
  return { counts, valuesOf, read: () => read }
}

function count(log: PersonLog): void {
  for (let calls = 0; calls < 1000 && log.fold() > 0; calls++);
}

t.test('persons are counted in advance, and the answer reads none of them', (t) => {
  const log = manyPersons(t)
  const before = ask(t, log)
  t.strictSame(before.counts.get('plan'), [PERSONS, 'String'])
  t.strictSame(before.counts.get('own'), [PERSONS, 'Numeric'])
  t.strictSame(before.counts.get('rare'), [1, 'String'])
  const plans = before.valuesOf('plan')
  t.strictSame(plans, [
    { name: 'free', count: PERSONS * 0.8 },
    { name: 'pro', count: PERSONS * 0.2 },
  ])
  t.ok(before.read() >= PERSONS, 'no summary is stored yet')
  count(log)
  const after = ask(t, log)
  t.strictSame(after.counts, before.counts)
  t.strictSame(after.valuesOf('plan'), plans)
  t.strictSame(after.valuesOf('plan', 'RO'), [{ name: 'pro', count: PERSONS * 0.2 }])
  t.strictSame(after.valuesOf('unknown'), [])
  t.equal(after.read(), 0)
  const own = after.valuesOf('own', '2499')
  t.strictSame(own, [{ name: '2499', count: 1 }], 'too many different values to be counted ahead')
  t.ok(after.read() >= PERSONS)
  t.end()
})

t.test('names that arrived since are listed immediately', (t) => {
  const log = manyPersons(t)
  count(log)
  const set = { $set: { late: 5 } }
  log.send(1, [
    { event: 'seen', distinct_id: 'person-12', properties: set },
    { event: 'seen', distinct_id: 'new', properties: { $set: { plan: 'pro', late: 6 } } },
  ])
  log.process()
  const { counts, valuesOf, read } = ask(t, log)
  t.strictSame(counts.get('late'), [2, 'Numeric'])
  t.strictSame(counts.get('plan'), [PERSONS + 1, 'String'])
  t.equal(read(), 0)
  t.strictSame(
    valuesOf('late').map(({ name }) => name),
    ['5', '6'],
  )
  t.end()
})

t.test('a deleted person is not counted any more', (t) => {
  const log = manyPersons(t)
  count(log)
  t.ok(ask(t, log).counts.has('rare'))
  // Persons are numbered in order of arrival.
  log.run(1, { kind: 'delete_person', person: 8, deletesEvents: false })
  const { counts, valuesOf } = ask(t, log)
  t.notOk(counts.has('rare'))
  t.strictSame(counts.get('plan'), [PERSONS - 1, 'String'])
  t.strictSame(valuesOf('rare'), [])
  t.end()
})

t.test('few persons are read, and a damaged record is skipped', async (t) => {
  const few = manyPersons(t, 500)
  count(few)
  const { counts, read } = ask(t, few)
  t.strictSame(counts.get('plan'), [500, 'String'])
  t.ok(read() >= 500)
  const log = manyPersons(t)
  count(log)
  const environment = new Environment({
    dataDir: log.dataDir,
    name: 'events',
    tables: EVENTS_TABLES,
  })
  t.teardown(() => environment.close())
  const { kept_properties } = environment.tables
  const damaged = Buffer.from(kept_properties.get(numberKey(1)) ?? [])
  t.ok(damaged.length > 0, 'the persons were counted')
  damaged[9] = (damaged[9] ?? 0) ^ 1
  environment.write(() => void kept_properties.put(numberKey(1), damaged))
  t.strictSame(ask(t, log).counts.get('plan'), [PERSONS, 'String'])
  openReader(t, log.dataDir).actorProperties(1, null, NO_CHECK)
})

t.test('few persons with large properties are counted in advance, too', (t) => {
  const log = new PersonLog(t, t.testdir())
  const text = 'x'.repeat(480_000)
  for (let number = 0; number < 20; number++) {
    const $set = { text: `${number}${text}`, plan: 'pro' }
    log.send(1, [{ event: 'seen', distinct_id: `person-${number}`, properties: { $set } }])
  }
  log.process()
  t.ok(ask(t, log).read() < 20, 'a list reads only some of them')
  count(log)
  const { counts, read } = ask(t, log)
  t.strictSame(counts.get('plan'), [20, 'String'])
  t.equal(read(), 0)
  t.end()
})

t.test('names in stored JSON are counted as those of the object', (t) => {
  const dice = new Dice(seedOf(43))
  const names = [
    'plan',
    'a"b',
    'c\\',
    '{"x":1}',
    ',',
    '',
    '7',
    '__proto__',
    'lone \ud800',
    '人 name',
  ]
  const values = [
    null,
    1,
    -1e300,
    true,
    '',
    'a"},{"plan":1',
    '2026-11-30',
    [[], {}],
    { plan: ['\\"'] },
  ]
  const [objects, texts] = [new PropertyCounts(), new PropertyCounts()]
  const [newObjects, newTexts] = [new PropertyCounts(), new PropertyCounts()]
  const known = new PropertyCounts()
  known.add({ plan: 1, '': 2 })
  for (let round = 0; round < 300; round++) {
    const entries = dice.list(dice.below(8), () => [dice.pick(names), dice.pick(values)] as const)
    const properties = Object.fromEntries(entries)
    const json = JSON.stringify(properties)
    objects.add(properties)
    texts.addNames(json)
    newObjects.addNew(properties, known)
    newTexts.addNames(json, known)
  }
  t.strictSame(texts.facts, objects.facts)
  t.equal(texts.facts.length, names.length)
  t.strictSame(newTexts.facts, newObjects.facts)
  t.equal(newTexts.facts.length, names.length - 2)
  t.end()
})

t.test('changes of large persons and groups are listed', (t) => {
  const log = new PersonLog(t, t.testdir())
  const text = 'x'.repeat(6000)
  const identify = (key: string, $group_set: object) => ({
    event: '$groupidentify',
    distinct_id: 'person',
    properties: { $group_type: 'company', $group_key: key, $group_set },
  })
  const change = (properties: object) => ({ event: 'seen', distinct_id: 'person', properties })
  log.send(1, [
    change({ $set: { text, plan: null, old: 1, 'a"b': true } }),
    identify('Acme', { text, seats: 7, 'a"b': true }),
  ])
  log.process()
  const list = (groupType: number | null): object => {
    const facts = openReader(t, log.dataDir).actorProperties(1, groupType, NO_CHECK)
    return Object.fromEntries(facts.map(({ name, count, type }) => [name, [count, type]]))
  }
  const own = { text: [1, 'String'], 'a"b': [1, 'Boolean'] }
  t.match(list(null), { ...own, plan: [1, null], old: [1, 'Numeric'] })
  log.send(1, [change({ $set: { plan: 'pro', late: 5 }, $unset: ['old'] })])
  log.send(1, [identify('Acme', { seats: 8, city: 'Graz' })])
  log.process()
  const persons = list(null)
  t.match(persons, { ...own, plan: [1, 'String'], late: [1, 'Numeric'] })
  t.notOk(Object.hasOwn(persons, 'old'))
  t.strictSame(list(0), { ...own, seats: [1, 'Numeric'], city: [1, 'String'] })
  t.end()
})

t.test('rare names are replaced by common names', (t) => {
  const counts = new PropertyCounts()
  const filler = 'x'.repeat(300)
  for (let round = 0; round < 100; round++) {
    counts.add({ plan: 'pro' })
    const properties: Record<string, number> = {}
    for (let index = 0; index < 100; index++) properties[`${round} ${index} ${filler}`] = 1
    counts.add(properties)
  }
  const found = counts.facts
  t.strictSame(
    found.filter(({ name }) => name === 'plan'),
    [{ name: 'plan', count: 100, type: 'String' }],
  )
  t.ok(found.length < 100 * 100, 'not all other names are kept')
  t.end()
})
