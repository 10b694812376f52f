/**
 * Tests decisions about persons and groups with thousands of properties. They equal decisions about persons that have
 * only the needed properties, and the data read for them does not grow with the other properties.
 *
 * @lane all
 */
import t, { type Test } from 'tap'
import { compileFlags } from '../../src/rules/flags/compile.ts'
import { decide } from '../../src/rules/flags/decide.ts'
import type { DecisionSources } from '../../src/rules/flags/types.ts'
import { DamagedRecordError } from '../../src/store/faults.ts'
import { DecisionSourceReader } from '../../src/store/identity/decision-sources.ts'
import { PAGED_BYTES_MIN } from '../../src/store/identity/limits.ts'
import {
  encodePerson,
  loadPerson,
  propertiesOfRecord,
  RecordSlab,
} from '../../src/store/identity/person-records.ts'
import {
  findInPage,
  isAlone,
  joinPages,
  pageOfName,
  pagesOf,
} from '../../src/store/identity/properties/property-pages.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES, type EventTables, pairKey } from '../../src/store/lmdb/keys.ts'
import { Dice } from '../fixtures/dice.ts'
import { Differences } from '../fixtures/differences.ts'
import { flag, makeRequest, makeSet, person, type StoredFlag } from '../fixtures/flags/flag-set.ts'
import { PersonLog, type SentEvent } from '../fixtures/persons/person-log.ts'

const PROJECT = 1
const SEED = 20_260_129
/** Names that flags read. JavaScript objects treat some of them specially. */
const WANTED = ['plan', 'email', '7', '__proto__', 'constructor', 'größe "x"\\', '$initial_browser']
const VALUES = ['pro', 'free', 7, true, null, ['a', 'b'], { b: 1, a: [2] }, 'x'.repeat(3000)]
/** The bytes of a person that a decision may parse, whatever else the person has: pages, changes and deltas. */
const PARSED_UNITS_MAX = 64 * 1024

t.setTimeout(300_000)

function others(count: number, prefix = 'other'): Record<string, unknown> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`${prefix} ${index}`, `value ${index}`]),
  )
}

function some(dice: Dice): Record<string, unknown> {
  return Object.fromEntries(dice.some(WANTED, 0.3).map((name) => [name, dice.pick(VALUES)]))
}

/** An event that changes the needed properties in every possible way. */
function change(dice: Dice): Readonly<Record<string, unknown>> {
  return {
    $browser: dice.pick(['Firefox', 'Safari']),
    $set: some(dice),
    ...(dice.chance(0.4) ? { $set_once: some(dice) } : {}),
    ...(dice.chance(0.3) ? { $unset: dice.some(WANTED, 0.3) } : {}),
  }
}

function reading(t: Test, log: PersonLog): DecisionSourceReader {
  const stored = new DecisionSourceReader(log.dataDir)
  t.teardown(() => stored.close())
  return stored
}

async function edit<T>(log: PersonLog, action: (tables: EventTables) => T): Promise<T> {
  const environment = new Environment({
    dataDir: log.dataDir,
    name: 'events',
    tables: EVENTS_TABLES,
  })
  try {
    return environment.write(() => action(environment.tables)) as T
  } finally {
    await environment.close()
  }
}

const FLAGS: readonly StoredFlag[] = [
  ...WANTED.flatMap((name, index) => [
    flag(index * 3 + 1, [person(name, 'pro')]),
    flag(index * 3 + 2, [person(name, null, 'is_set')]),
    flag(index * 3 + 3, [person(name, '["a"', 'icontains')]),
  ]),
  flag(100, [{ ...person('plan', 'pro'), type: 'group', group_type_index: 0 }]),
]
const COMPILED = compileFlags(makeSet(FLAGS, { groupTypes: new Map([[0, 'company']]) }))

function decisionsOf(stored: DecisionSourceReader, distinctId: string, group: string): unknown {
  const sources: DecisionSources = {
    personProperties: () => stored.person(PROJECT, distinctId).properties,
    groupProperties: (index, key) => stored.groupProperties(PROJECT, index, key),
    isInStaticCohort: () => false,
    continuityOverrides: () => new Map(),
  }
  const request = makeRequest({ distinctId: 'same', groups: { company: group } })
  const { decisions, hasErrors } = decide(COMPILED, request, sources)
  const shown = decisions.map(({ flag: { key }, isEnabled, reason }) => [key, isEnabled, reason])
  return [shown, hasErrors]
}

/** Returns the UTF-16 units of all JSON that is parsed meanwhile. */
function parsedUnits(action: () => void): number {
  const { parse } = JSON
  let units = 0
  JSON.parse = (text: string, ...rest: []) => {
    units += text.length
    return parse(text, ...rest) as unknown
  }
  try {
    action()
  } finally {
    JSON.parse = parse
  }
  return units
}

t.test('other properties change no decision, whatever happens to the person', async (t) => {
  const dice = new Dice(SEED)
  const log = new PersonLog(t, t.testdir())
  // The second person is small enough to have pending events.
  const people = { small: 0, middle: 800, large: 5000 }
  const everybody = (make: (id: string, count: number) => SentEvent): void => {
    // One request each, because the size of a log block is limited.
    for (const [id, count] of Object.entries(people)) log.send(PROJECT, [make(id, count)])
    log.process()
  }
  everybody((id, count) => ({
    event: 'seen',
    distinct_id: id,
    properties: { $set: others(count) },
  }))
  everybody((id, count) => ({
    event: '$groupidentify',
    distinct_id: id,
    properties: { $group_type: 'company', $group_key: id, $group_set: others(count) },
  }))
  const stored = reading(t, log)
  const differences = new Differences()
  let parsed = 0
  for (let round = 0; round < 30; round++) {
    const properties = change(dice)
    everybody((id) => ({ event: 'seen', distinct_id: id, properties }))
    const $group_set = some(dice)
    everybody((id) => ({
      event: '$groupidentify',
      distinct_id: id,
      properties: { $group_type: 'company', $group_key: id, $group_set },
    }))
    if (dice.chance(0.1)) {
      const more = others(300, `round ${round}`)
      for (const id of ['middle', 'large']) {
        log.send(PROJECT, [{ event: 'seen', distinct_id: id, properties: { $set: more } }])
      }
      log.process()
    }
    // A person that is not in memory gets deltas.
    if (dice.chance(0.7)) await log.reopen()
    if (dice.chance(0.2)) log.fold()
    stored.refresh()
    const small = stored.person(PROJECT, 'small').properties
    const expected = WANTED.map((name) => small?.get(name))
    const decided = decisionsOf(stored, 'small', 'small')
    const ofGroup = stored.groupProperties(PROJECT, 0, 'small')?.get('plan')
    for (const id of ['middle', 'large']) {
      const units = parsedUnits(() => {
        differences.same(decisionsOf(stored, id, id), decided, `round ${round}, ${id}: decisions`)
      })
      parsed = Math.max(parsed, units)
      const { properties: found } = stored.person(PROJECT, id)
      differences.same(
        WANTED.map((name) => found?.get(name)),
        expected,
        `round ${round}, ${id}: values`,
      )
      const all = found?.all() ?? {}
      differences.same(
        WANTED.map((name) => (Object.hasOwn(all, name) ? all[name] : undefined)),
        expected,
        `round ${round}, ${id}: values among all`,
      )
      const group = stored.groupProperties(PROJECT, 0, id)
      differences.same(group?.get('plan'), ofGroup, `round ${round}, ${id}: group`)
      differences.same(group?.all()['other 5'], 'value 5', `round ${round}, ${id}: rest of a group`)
    }
  }
  t.strictSame(differences.list(), [])
  t.ok(parsed > 0 && parsed < PARSED_UNITS_MAX, `at most ${parsed} units of JSON were parsed`)
})

t.test('the amount parsed for a decision does not grow with the properties', (t) => {
  const log = new PersonLog(t, t.testdir())
  const units = [1000, 15_000].map((count) => {
    const id = `u${count}`
    const $set = { ...others(count), plan: 'pro' }
    log.send(PROJECT, [{ event: 'seen', distinct_id: id, properties: { $set } }])
    log.process()
    const stored = reading(t, log)
    return parsedUnits(() => {
      stored.refresh()
      const { properties } = stored.person(PROJECT, id)
      t.equal(properties?.get('plan'), 'pro')
      t.equal(properties?.get('nothing of that name'), undefined)
    })
  })
  for (const parsed of units) t.ok(parsed < PAGED_BYTES_MIN, `${parsed} units were parsed`)
  t.end()
})

t.test('pages hold every property once, and list the page of each', (t) => {
  const dice = new Dice(SEED + 1)
  const differences = new Differences()
  for (let round = 0; round < 40; round++) {
    const members: [string, unknown][] = dice.list(dice.between(0, 400), (index) => [
      dice.pick([
        `name ${index}`,
        ',',
        `:${index}`,
        '}',
        '],',
        'a',
        '',
        `"${index}\\`,
        `ä${index}\\"`,
        `\ud800${index}`,
        String(index),
      ]),
      dice.pick<unknown>([
        index,
        null,
        '}{",\\',
        'ends with ,',
        ['x,', ':y', ','],
        '\\\\"',
        { a: ['"', { '}': ']' }], b: index },
        'long '.repeat(dice.below(2000)),
        [[[]]],
      ]),
    ])
    const object = Object.fromEntries([...members, ['__proto__', 1]])
    const json = JSON.stringify(object)
    const { directory, pages } = pagesOf(json)
    const joined = joinPages(directory, (page) => pages[page] ?? Buffer.alloc(0))
    differences.same(
      Object.entries(JSON.parse(joined) as object).sort(),
      Object.entries(JSON.parse(json) as object).sort(),
      `round ${round}: joined`,
    )
    differences.equal(
      directory.readUInt32LE(),
      Buffer.byteLength(joined),
      `round ${round}: the bytes are equal`,
    )
    for (const name of Object.keys(object)) {
      const page = JSON.parse(pages[pageOfName(directory, name)]?.toString() ?? '{}') as object
      differences.ok(Object.hasOwn(page, name), `round ${round}: ${name} is found`)
    }
    const names = [...Object.keys(object), 'none', '', ',', ':', '}', 'a', 'b', '"']
    for (const name of names) {
      const page = pageOfName(directory, name)
      const bytes = pages[page] ?? Buffer.from('{}')
      const place = page < 0 ? null : findInPage(bytes, name, isAlone(directory, page))
      differences.same(
        place && JSON.parse(bytes.toString('utf8', place.start, place.end)),
        Object.hasOwn(object, name) ? JSON.parse(JSON.stringify(object[name])) : null,
        `round ${round}: the value of ${name}`,
      )
    }
    const reversed = JSON.stringify(Object.fromEntries(Object.entries(object).reverse()))
    differences.ok(
      pagesOf(reversed).directory.equals(directory),
      `round ${round}: the order does not matter`,
    )
  }
  t.strictSame(differences.list(), [])
  t.end()
})

t.test('unused pages are removed', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const pagesLeft = (): Promise<readonly number[]> =>
    edit(log, (tables) => [
      tables.person_pages.getKeysCount({}),
      tables.group_pages.getKeysCount({}),
    ])
  const set = (id: string, $set: object): void => {
    log.send(PROJECT, [{ event: 'seen', distinct_id: id, properties: { $set } }])
    log.process()
  }
  const identify = ($group_set: object): void => {
    const properties = { $group_type: 'company', $group_key: 'acme', $group_set }
    log.send(PROJECT, [{ event: '$groupidentify', distinct_id: 'a', properties }])
    log.process()
  }
  set('a', others(2000))
  set('b', others(2000))
  identify({ text: 'x'.repeat(20_000), list: others(100) })
  const [persons = 0, groups = 0] = await pagesLeft()
  t.ok(persons > 40 && groups > 1, 'large persons have pages')
  identify({ text: '', list: '' })
  t.strictSame((await pagesLeft())[1], 0, 'of a group that has become small')
  const person = log.reader.persons().person(PROJECT, 1)
  const $unset = Object.keys(person?.properties ?? {})
  log.send(PROJECT, [{ event: 'seen', distinct_id: 'a', properties: { $unset } }])
  log.process()
  t.equal((await pagesLeft())[0], persons / 2, 'a person that became small has none')
  log.run(PROJECT, { kind: 'delete_person', person: 2, deletesEvents: false })
  t.strictSame(await pagesLeft(), [0, 0], 'of a person who was deleted')
  set('c', others(2000))
  log.send(PROJECT, [
    { event: '$identify', distinct_id: 'd', properties: { $set: { plan: 'pro' } } },
    { event: '$merge_dangerously', distinct_id: 'd', properties: { alias: 'c' } },
  ])
  log.process()
  const stored = reading(t, log)
  stored.refresh()
  const { properties } = stored.person(PROJECT, 'c')
  t.strictSame([properties?.get('plan'), properties?.get('other 7')], ['pro', 'value 7'])
  t.equal((await pagesLeft())[0], persons / 2, 'a merged person has none')
})

t.test('persons stored by an older version are read unchanged', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const $set = { ...others(500), plan: 'pro' }
  log.send(PROJECT, [{ event: 'seen', distinct_id: 'u', properties: { $set } }])
  log.process()
  await edit(log, (tables) => {
    const record = loadPerson(tables, PROJECT, 1)
    if (record === null) throw new Error('nobody is there')
    const { json, jsonBytes } = record
    const key = pairKey(PROJECT, 1)
    const recorded = { json, bytes: jsonBytes, jsonBytes, isPaged: false }
    tables.persons.putSync(key, encodePerson(new RecordSlab(), key, { ...record, recorded }))
    tables.person_pages.clearSync()
  })
  await log.reopen()
  const stored = reading(t, log)
  stored.refresh()
  t.equal(stored.person(PROJECT, 'u').properties?.get('plan'), 'pro')
  log.send(PROJECT, [{ event: 'seen', distinct_id: 'u', properties: { $set: others(500, 'new') } }])
  log.process()
  stored.refresh()
  const { properties } = stored.person(PROJECT, 'u')
  t.strictSame([properties?.get('plan'), properties?.get('new 3')], ['pro', 'value 3'])
  const count = await edit(log, (tables) => {
    const record = loadPerson(tables, PROJECT, 1)
    t.equal(Object.keys(record === null ? {} : propertiesOfRecord(record)).length, 1001)
    return tables.person_pages.getKeysCount({})
  })
  t.ok(count > 10, 'the person is stored in pages from then on')
})

t.test('a damaged page fails the flags that need it, and no others', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const $set = { ...others(500), plan: 'pro', email: 'pro' }
  log.send(PROJECT, [{ event: 'seen', distinct_id: 'u', properties: { $set } }])
  log.process()
  const { directory } = pagesOf(JSON.stringify($set))
  t.not(pageOfName(directory, 'plan'), pageOfName(directory, 'email'))
  await edit(log, ({ person_pages }) => {
    const entries = [...person_pages.getRange({})]
    for (const { key, value } of entries) {
      if (!value.includes('"plan"')) continue
      const damaged = Buffer.from(value)
      damaged[3] = (damaged[3] ?? 0) ^ 1
      person_pages.putSync(Buffer.from(key), damaged)
    }
  })
  const stored = reading(t, log)
  stored.refresh()
  const { properties } = stored.person(PROJECT, 'u')
  t.throws(() => properties?.get('plan'), DamagedRecordError)
  t.equal(properties?.get('email'), 'pro')
  const [shown] = decisionsOf(stored, 'u', 'none') as [[string, boolean, string][]]
  t.strictSame(shown[0], ['flag-1', false, 'person_unavailable'])
  t.strictSame(shown[3], ['flag-4', true, 'condition_match'])
})

t.test('a list or object that is too large is not compared', (t) => {
  const log = new PersonLog(t, t.testdir())
  const $set = { plan: others(5000), email: 'pro' }
  log.send(PROJECT, [{ event: 'seen', distinct_id: 'u', properties: { $set } }])
  log.process()
  const stored = reading(t, log)
  stored.refresh()
  const units = parsedUnits(() => {
    const [shown, hasErrors] = decisionsOf(stored, 'u', 'none') as [unknown[], boolean]
    t.equal(hasErrors, true)
    t.strictSame(shown.slice(0, 4), [
      ['flag-1', false, 'pattern_limit'],
      ['flag-2', true, 'condition_match'],
      ['flag-3', false, 'pattern_limit'],
      ['flag-4', true, 'condition_match'],
    ])
  })
  t.ok(units < PAGED_BYTES_MIN, `${units} units were parsed`)
  const given = makeRequest({ personProperties: { plan: others(5000), email: 'pro' } })
  const nothing: DecisionSources = {
    personProperties: () => null,
    groupProperties: () => null,
    isInStaticCohort: () => false,
    continuityOverrides: () => new Map(),
  }
  const { decisions } = decide(COMPILED, given, nothing)
  t.equal(decisions[0]?.reason, 'pattern_limit', 'the same holds for a value in the request')
  t.end()
})
