/**
 * Tests the rules of persons and groups one by one: distinct_ids, size limits, hostile names, and the changes that are
 * reported.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { isSameJson, type JsonObject } from '../../../src/base/json.ts'
import type { NormalizedEvent } from '../../../src/rules/capture/types.ts'
import {
  applyEvent,
  type PersonOutcome,
  personIdOf,
} from '../../../src/rules/persons/apply-event.ts'
import { SLOT_NAMES } from '../../../src/rules/persons/automatic-properties.ts'
import { groupKeysOf, setGroupProperties } from '../../../src/rules/persons/group-rules.ts'
import { isIllegalId, otherIdOf } from '../../../src/rules/persons/joined-ids.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../../src/rules/persons/limits.ts'
import type { GroupState, PersonState } from '../../../src/rules/persons/person-repository.ts'
import { laterPersonUuid, personUuid } from '../../../src/rules/persons/person-uuid.ts'
import { PropertyTable } from '../../../src/rules/persons/property-table.ts'
import { mergeProperties } from '../../../src/rules/persons/property-updates.ts'
import { Differences } from '../../fixtures/differences.ts'
import { MemoryPersons } from '../../fixtures/persons/memory-persons.ts'
import { personUpdates } from '../../fixtures/persons/person-updates.ts'
import { runsOf } from '../../fixtures/random-depth.ts'

const NOW_MS = Date.UTC(2024, 0, 15, 12)
const HARMFUL_NAMES = ['__proto__', 'constructor', 'hasOwnProperty', 'toString', 'valueOf']

/** A repository that records the changes reported to it. */
class WatchedPersons extends MemoryPersons {
  readonly calls: string[] = []

  override update(person: PersonState): void {
    this.calls.push(`update ${person.number}`)
    super.update(person)
  }

  override updateGroup(group: GroupState): void {
    this.calls.push(`update group ${group.key}`)
    super.updateGroup(group)
  }

  override merge(into: PersonState, from: PersonState): void {
    this.calls.push(`merge ${from.number} into ${into.number}`)
    super.merge(into, from)
  }
}

t.test('placeholder ids of faulty clients are illegal, similar ids are not', async (t) => {
  const anyCase = ['anonymous', 'guest', 'distinctid', 'distinct_id', 'id', 'not_authenticated']
  anyCase.push('email', 'undefined', 'true', 'false')
  const exact = ['[object Object]', 'NaN', 'None', 'none', 'null', '0', 'undefined']
  const upper = anyCase.map((id) => id.toUpperCase())
  const differences = new Differences()
  const expect = (id: string, isIllegal: boolean): void =>
    differences.equal(isIllegalId(id), isIllegal, JSON.stringify(id))
  for (const id of [...anyCase, ...upper, ...exact]) {
    for (const written of [id, `'${id}'`, `"${id}"`]) expect(written, true)
    for (const written of [` ${id}`, `'${id}"`, `"${id}`, `''${id}''`, `' ${id}'`, `${id}1`]) {
      expect(written, false)
    }
  }
  for (const id of ['', ' ', '\t\n', '\u00a0', ' '.repeat(200)]) expect(id, true)
  for (const id of ['nan', 'NULL', 'Null', 'NONE', "'nan'", '00', "''", '"', 'user', 'ids']) {
    expect(id, false)
  }
  t.strictSame(differences.list(), [], 'exactly these ids are illegal')
})

t.test('the other id of an event is text, cut like a distinct_id', async (t) => {
  const anon = (id: unknown): string | null => otherIdOf('$identify', { $anon_distinct_id: id })
  t.equal(otherIdOf('$identify', {}), null)
  t.equal(otherIdOf('$identify', { alias: 'a' }), null)
  t.equal(otherIdOf('$create_alias', { $anon_distinct_id: 'a' }), null)
  t.equal(otherIdOf('$merge_dangerously', { alias: 'a' }), 'a')
  t.equal(otherIdOf('custom', { alias: 'a', $anon_distinct_id: 'a' }), null)
  for (const alias of [null, '', 0, false]) t.equal(otherIdOf('$create_alias', { alias }), null)
  t.strictSame([null, 0, false, 1e21, 7].map(anon), ['null', '0', 'false', '1e+21', '7'])
  t.strictSame([[], {}, ['a']].map(anon), Array(3).fill('[object Object]'))
  t.equal(anon('x'.repeat(201)), 'x'.repeat(200))
  t.equal(anon('💻'.repeat(201)), '💻'.repeat(200))
  t.equal(anon('💻'.repeat(150)), '💻'.repeat(150))
})

t.test('names of inherited object members are ordinary names', async (t) => {
  const repository = new MemoryPersons()
  const once = JSON.parse('{"__proto__":{"b":2},"constructor":2,"valueOf":null}') as JsonObject
  const set = JSON.parse('{"__proto__":{"a":1},"hasOwnProperty":1,"toString":"t"}') as JsonObject
  send(repository, 'first', 'u', { $set: set, $set_once: once })
  const expected = [
    ['__proto__', { a: 1 }],
    ['hasOwnProperty', 1],
    ['toString', 't'],
    ['constructor', 2],
    ['valueOf', null],
  ]
  t.strictSame([...personOf(repository, 'u').properties.entries()], expected)
  repository.settle()
  t.strictSame(
    [...personOf(repository, 'u').properties.entries()],
    expected,
    'also when read again',
  )
  const { version } = personOf(repository, 'u')
  send(repository, 'again', 'u', { $set: JSON.parse(JSON.stringify(set)), $set_once: once })
  t.equal(personOf(repository, 'u').version, version, 'the same values are set again')
  send(repository, 'gone', 'u', { $unset: HARMFUL_NAMES })
  t.equal(personOf(repository, 'u').properties.toJson(), '{}')
  send(repository, 'never there', 'u', { $unset: HARMFUL_NAMES })
  t.equal(personOf(repository, 'u').version, version + 1)
  for (const name of HARMFUL_NAMES) t.equal(new PropertyTable().get(name), undefined)
  t.notOk('a' in {}, 'nothing is polluted')
})

t.test('automatic properties are those that readers of the event see', async (t) => {
  const names = SLOT_NAMES.filter((name) => !name.startsWith('$initial_'))
  const value = fc.constantFrom<unknown>('a', 'b', null, 0, { a: 1 })
  const explicit = fc.dictionary(fc.constantFrom(...SLOT_NAMES, 'plan'), value, { maxKeys: 6 })
  const eventName = fc.constantFrom(...names, '$os_name', 'plan', '$initial_os')
  const properties = fc.record({
    event: fc.dictionary(eventName, value),
    isServer: fc.constantFrom<unknown>(true, 'true', false),
    set: explicit,
    setOnce: explicit,
  })
  const differences = new Differences()
  fc.assert(
    fc.property(properties, ({ event, isServer, set, setOnce }) => {
      const given = { ...event, $is_server: isServer, $set: set, $set_once: setOnce }
      const updates = personUpdates(given, 'e', false)
      const repository = new MemoryPersons()
      send(repository, 'e', 'u', given)
      const expected = { ...updates.setOnce, ...updates.set }
      const found = { ...personOf(repository, 'u').properties.toObject() }
      differences.ok(isSameJson(found, expected), () => JSON.stringify([given, found, expected]))
    }),
    runsOf(100),
  )
  t.strictSame(differences.list(), [], 'the same entries')
})

t.test('$set and $unset of one name: an existing property goes, a new one stays', async (t) => {
  const repository = new MemoryPersons()
  send(repository, 'a', 'u', { $set: { old: 1 } })
  const unset = ['old', 'new', 'never', 5]
  send(repository, 'b', 'u', { $set: { old: 2, new: 2 }, $set_once: { old: 3 }, $unset: unset })
  t.equal(personOf(repository, 'u').properties.toJson(), '{"new":2}')
})

t.test('only changes are reported and counted, one for each event', async (t) => {
  const repository = new WatchedPersons()
  send(repository, 'a', 'u', { $browser: 'Chrome', $os: [{}], $set: { o: { a: [1, 2] } } })
  send(repository, 'b', 'u', {
    $browser: 'Chrome',
    $set: { o: { a: [1, 2] } },
    $set_once: { o: 1 },
  })
  send(repository, 'c', 'u', { $os: [{}] })
  send(repository, '$exception', 'u', { $browser: 'Safari', $set: { o: 2 }, $unset: ['o'] })
  t.strictSame([repository.calls, personOf(repository, 'u').version], [[], 0])
  send(repository, '$identify', 'u', { $anon_distinct_id: 'v', $set: { o: 1, p: 1 } })
  t.strictSame([repository.calls, personOf(repository, 'u').version], [['update 1'], 1])
  send(repository, '$identify', 'u', { $anon_distinct_id: 'v', $set: { o: 1, p: 1 } })
  t.strictSame([repository.calls, personOf(repository, 'u').version], [['update 1'], 1])
  for (const plan of ['a', 'b', 'c']) send(repository, '$set', 'w', { $set: { plan } })
  repository.calls.length = 0
  send(repository, '$identify', 'u', { $anon_distinct_id: 'w', $set: { last: true } })
  t.strictSame(repository.calls, ['merge 2 into 1', 'update 1'])
  t.equal(
    personOf(repository, 'w').version,
    3,
    'the version is one more than the larger of 1 and 2',
  )
  t.equal(personOf(repository, 'w').properties.get('plan'), 'c')
})

t.test('an event may create a person whatever its name', async (t) => {
  const repository = new MemoryPersons()
  send(repository, '$exception', 'u', { $set: { a: 1 }, $browser: 'Chrome' })
  t.equal(personOf(repository, 'u').properties.get('$initial_browser'), 'Chrome')
  send(repository, '$groupidentify', 'g', { $browser: 'Chrome' })
  t.equal(personOf(repository, 'g').properties.toJson(), '{}')
})

t.test('properties may have exactly the maximum size, however they are set', async (t) => {
  const limit = PERSON_PROPERTIES_BYTES_MAX
  const fitting = 'é'.repeat((limit - '{"p":"xx"}'.length) / 2)
  const ways: Record<string, (repository: MemoryPersons, value: string) => PersonOutcome> = {
    creation: (repository, value) => send(repository, 'e', 'u', { $set: { p: value } }),
    update: (repository, value) => {
      send(repository, 'e', 'u', {})
      return send(repository, 'e', 'u', { $set: { p: value } })
    },
    merge: (repository, value) => {
      send(repository, 'e', 'u', {})
      send(repository, 'e', 'v', { $set: { p: value.slice(0, 7) } })
      return send(repository, '$identify', 'u', { $anon_distinct_id: 'v', $set: { p: value } })
    },
  }
  for (const [way, take] of Object.entries(ways)) {
    const repository = new MemoryPersons()
    t.strictSame(take(repository, `xx${fitting}`).warnings, [], way)
    t.equal(Buffer.byteLength(personOf(repository, 'u').properties.toJson()), limit, way)
    const { person, warnings } = take(new MemoryPersons(), `xxx${fitting}`)
    t.match(warnings, [{ type: 'person_properties_size_violation', details: { bytes_max: limit } }])
    t.equal(
      person?.properties.get('p'),
      way === 'merge' ? 'xxx\u00e9\u00e9\u00e9\u00e9' : undefined,
    )
  }
})

t.test('a person at the limit may change as long as it does not grow', async (t) => {
  const repository = new MemoryPersons()
  const half = 'x'.repeat(200_000)
  send(repository, 'e', 'u', { $set: { a: half, b: half, c: 'y' } })
  const grown = send(repository, 'e', 'u', { $set: { c: half }, $set_once: { d: 1 } })
  t.equal(grown.warnings.length, 1)
  t.equal(personOf(repository, 'u').properties.get('c'), 'y')
  t.equal(personOf(repository, 'u').properties.get('d'), undefined, 'the whole event is refused')
  t.strictSame(send(repository, 'e', 'u', { $set: { c: 'z' }, $unset: ['a'] }).warnings, [])
  t.strictSame(send(repository, 'e', 'u', { $set: { c: half } }).warnings, [])
  t.equal(personOf(repository, 'u').version, 2)
})

t.test('a person above a lowered limit may shrink but not grow', async (t) => {
  const repository = new MemoryPersons()
  send(repository, 'e', 'u', { $set: { a: 'x'.repeat(500), b: 'x'.repeat(500) } })
  const lowered = { ...context(), propertiesBytesMax: 100 }
  const apply = (properties: JsonObject) =>
    applyEvent(event('e', 'u', properties), 600, repository, lowered).warnings.length
  t.equal(apply({ $unset: ['a'] }), 0)
  t.equal(apply({ $set: { c: 1 } }), 1)
  t.equal(apply({ $set: { b: 'y'.repeat(500) } }), 0)
  t.equal(personOf(repository, 'u').properties.toJson(), `{"b":"${'y'.repeat(500)}"}`)
})

t.test('a merge that exceeds the limit keeps the properties of the surviving person', async (t) => {
  const repository = new MemoryPersons()
  const half = 'x'.repeat(300_000)
  send(repository, 'e', 'u', { $set: { a: half } })
  send(repository, 'e', 'v', { $set: { b: half } }, NOW_MS - 5)
  const outcome = send(repository, '$create_alias', 'u', { alias: 'v', $set: { c: 1 } })
  t.strictSame(
    outcome.warnings.map(({ type }) => type),
    ['person_properties_size_violation'],
  )
  t.same(repository.ids(), ['u', 'v'])
  const { properties, createdAtMs, isIdentified } = personOf(repository, 'v')
  t.strictSame(Object.keys(properties.toObject()), ['a', 'c'])
  t.strictSame([createdAtMs, isIdentified], [NOW_MS - 5, true])
})

t.test(
  'a million small changes stay within the limit without a new measurement each',
  async (t) => {
    const table = PropertyTable.from({ a: 1, $browser: 'x' })
    t.equal(table.jsonBytesBound, Buffer.byteLength('{"$browser":"x","a":1}'))
    t.ok(table.hasRoom(1000, 10_000))
    table.addBytes(9990)
    t.notOk(table.hasRoom(1000, 10_000))
    table.setJsonBytes(22)
    t.ok(table.hasRoom(1000, 10_000))
    t.ok(PropertyTable.from({ a: 1 }, 9).hasRoom(1, 0), 'without a limit there is always room')
  },
)

t.test(
  'a merge that adds no property changes nothing, even if the other person is larger',
  async (t) => {
    const names = fc.constantFrom('a', 'b', 'c', 'd', '$browser', '$initial_browser', '$os')
    const members = fc.dictionary(names, fc.oneof(fc.string({ maxLength: 40 }), fc.nat()))
    const differences = new Differences()
    fc.assert(
      fc.property(members, members, (first, second) => {
        const stronger = PropertyTable.from(first)
        const merged = mergeProperties(stronger, PropertyTable.from(second), 0)
        const found = { ...merged?.toObject() }
        const name = (): string => JSON.stringify([first, second, found])
        differences.ok(isSameJson(found, { ...second, ...first }), name)
        const isAdding = Object.keys(second).some((key) => !Object.hasOwn(first, key))
        if (!isAdding) differences.ok(merged === stronger && stronger.isUnchanged, name)
      }),
      runsOf(300),
    )
    t.strictSame(differences.list(), [], 'the properties, and an unchanged table')
  },
)

t.test(
  'an event without a person has the uuid of the person that may be created later',
  async (t) => {
    const repository = new MemoryPersons()
    const first = event('e', 'u', {}, NOW_MS, true)
    const outcome = applyEvent(first, 100, repository, context())
    t.equal(outcome.person, null)
    t.equal(personIdOf(outcome, first, context()), personUuid(1, 'u'))
    t.equal(send(repository, 'e', 'u', {}).person?.uuid, personUuid(1, 'u'))
    for (const [ms, mode] of [
      [60_000, 'propertyless'],
      [60_001, 'force_upgrade'],
      [-1, 'propertyless'],
    ] as const) {
      const later = event('e', 'u', { $groups: { a: 'b' } }, NOW_MS + ms, true)
      t.match(applyEvent(later, 100, repository, context()), { personMode: mode, groupKeys: [] })
    }
    t.strictSame(repository.types, [], 'and registers no group type')
  },
)

t.test(
  'a freed distinct_id creates another person, with the same new uuid every time',
  async (t) => {
    const repository = new MemoryPersons()
    send(repository, 'e', 'u', { $set: { a: 1 } })
    repository.deletePerson(1)
    const { person } = send(repository, 'e', 'u', {})
    t.match(person, { number: 2, uuid: laterPersonUuid(1, 'u', 2), version: 0 })
    t.not(person?.uuid, personUuid(1, 'u'))
    t.not(laterPersonUuid(1, 'u', 2), laterPersonUuid(1, 'u', 3))
  },
)

t.test(
  'groups: index by first appearance, keys as text, properties merged one by one',
  async (t) => {
    const repository = new WatchedPersons()
    const groups = { a: 'x', b: 5, c: true, none: null, empty: '', object: {}, list: [], '': 'k' }
    const outcome = send(repository, 'e', 'u', { $groups: groups })
    t.strictSame(repository.types, ['a', 'b', 'c'])
    const properties: JsonObject = { k: 1 }
    setGroupProperties(properties, outcome.groupKeys)
    t.strictSame(properties, { k: 1, $group_0: 'x', $group_1: '5', $group_2: 'true' })
    t.equal(repository.groups().length, 0, 'a reference to a group does not create it')
    for (const odd of ['acme', ['acme'], null, 5]) {
      t.strictSame(send(repository, 'e', 'u', { $groups: odd }).groupKeys, [])
    }
    identifyGroup(repository, { $group_set: { n: 1, o: { x: 1 } } }, NOW_MS + 9)
    identifyGroup(repository, { $group_set: [1] })
    repository.settle()
    t.strictSame(repository.calls, [])
    identifyGroup(repository, { $group_set: { n: '1', o: { y: 1 } } })
    identifyGroup(repository, {}, NOW_MS - 9)
    t.strictSame(repository.calls, ['update group k', 'update group k'])
    repository.settle()
    const [group, ...others] = repository.groups()
    t.match(group, { typeIndex: 1, key: 'k', createdAtMs: NOW_MS - 9 })
    t.equal(group?.properties.toJson(), '{"n":"1","o":{"y":1}}')
    for (const odd of [{ $group_type: '' }, { $group_type: 5 }, { $group_key: null }]) {
      identifyGroup(repository, odd)
    }
    t.strictSame([repository.types.length, others], [3, []])
    const huge = identifyGroup(repository, { $group_set: { huge: 'x'.repeat(600_000) } })
    t.match(huge.warnings, [{ type: 'message_size_too_large' }])
  },
)

t.test('imported events fill only the group properties that live events left unset', async (t) => {
  const DAY_MS = 86_400_000
  const repository = new MemoryPersons()
  const historical = { ...context(), isHistorical: true }
  const old = (key: string, $group_set: JsonObject, daysAgo: number): void => {
    const all = { $group_type: 'b', $group_key: key, $group_set }
    const sent = event('$groupidentify', 'g', all, NOW_MS - daysAgo * DAY_MS)
    applyEvent(sent, Buffer.byteLength(JSON.stringify(sent)), repository, historical)
    repository.settle()
  }
  const live = (key: string, $group_set: JsonObject): void => {
    identifyGroup(repository, { $group_key: key, $group_set })
    repository.settle()
  }
  const stateOf = (key: string) => {
    const group = repository.group(0, key)
    const daysAgo = (NOW_MS - (group?.createdAtMs ?? 0)) / DAY_MS
    return { ...group?.properties.toObject(), daysAgo }
  }
  live('live', { plan: 'pro', seats: null })
  old('live', { plan: 'free', seats: 5, city: 'Bern' }, 30)
  t.same(stateOf('live'), { plan: 'pro', seats: null, city: 'Bern', daysAgo: 30 })
  old('live', { city: 'Rome' }, 40)
  t.same(stateOf('live'), { plan: 'pro', seats: null, city: 'Bern', daysAgo: 40 })
  live('live', { plan: 'max', city: 'Oslo' })
  t.match(stateOf('live'), { plan: 'max', city: 'Oslo', daysAgo: 40 })

  old('past', { plan: 'free', $initial_plan: 'a' }, 30)
  old('past', { plan: 'pro', $initial_plan: 'b' }, 20)
  t.same(stateOf('past'), { plan: 'pro', $initial_plan: 'b', daysAgo: 30 }, 'the last one counts')
  live('past', {})
  old('past', { plan: 'basic' }, 10)
  t.match(
    stateOf('past'),
    { plan: 'pro', daysAgo: 30 },
    'an import does not overwrite a live event',
  )

  const huge = { $group_type: 'b', $group_key: 'live', $group_set: { x: 'x'.repeat(600_000) } }
  const sent = event('$groupidentify', 'g', huge, NOW_MS)
  const bytes = Buffer.byteLength(JSON.stringify(sent))
  const { warnings } = applyEvent(sent, bytes, repository, historical)
  t.match(warnings, [{ type: 'message_size_too_large' }])
  t.match(stateOf('live'), { plan: 'max', x: undefined })
})

t.test('the group type of a $groupidentify event comes after those of its $groups', async (t) => {
  const repository = new MemoryPersons()
  identifyGroup(repository, { $groups: { second: 'k' }, $group_type: 'first' })
  t.strictSame(repository.types, ['second', 'first'])
  for (const type of ['c', 'd', 'e', 'f']) identifyGroup(repository, { $group_type: type })
  t.strictSame(repository.types, ['second', 'first', 'c', 'd', 'e'])
  t.equal(repository.groups().length, 4, 'a sixth group type is stored with the event only')
})

t.test('imported events fill only unset properties and never turn a person back', async (t) => {
  const DAY_MS = 86_400_000
  const repository = new MemoryPersons()
  const historical = { ...context(), isHistorical: true }
  const old = (name: string, id: string, properties: JsonObject, daysAgo: number): void => {
    const sent = event(name, id, properties, NOW_MS - daysAgo * DAY_MS)
    applyEvent(sent, Buffer.byteLength(JSON.stringify(sent)), repository, historical)
  }
  const stateOf = (id: string) => {
    const person = repository.personOf(id)
    return {
      ...person?.properties.toObject(),
      daysAgo: (NOW_MS - (person?.createdAtMs ?? 0)) / DAY_MS,
    }
  }
  send(repository, 'e', 'live', {
    $set: { plan: 'pro' },
    $set_once: { first: 'live' },
    $browser: 'Firefox',
  })
  old(
    'e',
    'live',
    {
      $set: { plan: 'free', city: 'Bern' },
      $set_once: { first: 'old' },
      $unset: ['plan'],
      $browser: 'Opera',
    },
    30,
  )
  const filled = {
    plan: 'pro',
    first: 'live',
    city: 'Bern',
    $browser: 'Firefox',
    $initial_browser: 'Opera',
  }
  t.same(stateOf('live'), { ...filled, daysAgo: 30 })
  old('e', 'live', { $browser: 'Safari', $set: { city: 'Rome' } }, 20)
  t.same(stateOf('live'), { ...filled, daysAgo: 30 }, 'the earlier one is the initial one')
  old('e', 'live', { $browser: 'Edge' }, 40)
  t.same(stateOf('live'), { ...filled, $initial_browser: 'Edge', daysAgo: 40 }, 'in any order')
  send(repository, 'e', 'live', { $set: { plan: 'max' } })
  t.match(stateOf('live'), { plan: 'max', city: 'Bern' })

  old('e', 'past', { $set: { plan: 'free' } }, 30)
  old('e', 'past', { $set: { plan: 'pro' } }, 20)
  t.match(stateOf('past'), { plan: 'pro', daysAgo: 30 }, 'among imported events the last one wins')
  send(repository, 'e', 'past', {})
  old('e', 'past', { $set: { plan: 'free' } }, 10)
  t.match(
    stateOf('past'),
    { plan: 'pro', daysAgo: 30 },
    'an import does not overwrite a live event',
  )

  old('e', 'user', { $set: { plan: 'free' } }, 30)
  send(repository, 'e', 'anon', { $set: { plan: 'pro' } })
  old('$identify', 'user', { $anon_distinct_id: 'anon', $set: { plan: 'basic' } }, 25)
  t.match(stateOf('user'), { plan: 'pro', daysAgo: 30 }, 'a merge keeps the live value')

  old('e', 'member', { $browser: 'Opera' }, 20)
  old('e', 'member', { $browser: 'Safari' }, 30)
  t.match(stateOf('member'), { $initial_browser: 'Safari', daysAgo: 30 }, 'no live event is needed')
  send(repository, 'e', 'visitor', {})
  old('$identify', 'member', { $anon_distinct_id: 'visitor' }, 50)
  t.match(stateOf('member'), { daysAgo: 50 }, 'a merge is an event of its time, too')
})

t.test('values are compared at any depth', async (t) => {
  const nested = (inner: string): unknown =>
    JSON.parse(`${'[{"a":'.repeat(1000)}${inner}${'}]'.repeat(1000)}`)
  t.ok(isSameJson(nested('1'), nested('1')))
  t.notOk(isSameJson(nested('1'), nested('"1"')))
  let left: unknown = 1
  let right: unknown = 1
  for (let depth = 0; depth < 100_000; depth++) {
    left = [left]
    right = [right]
  }
  t.ok(isSameJson(left, right))
  t.notOk(isSameJson(JSON.parse('{"__proto__":1}'), JSON.parse('{"constructor":1}')))
  t.notOk(isSameJson(JSON.parse('{"__proto__":{}}'), { x: {} }))
  t.notOk(isSameJson([], {}))
  t.notOk(isSameJson(null, {}))
})

function context() {
  return {
    projectId: 1,
    arrivedAtMs: NOW_MS,
    propertiesBytesMax: PERSON_PROPERTIES_BYTES_MAX,
  }
}

function event(
  name: string,
  distinctId: string,
  properties: JsonObject,
  timestampMs = NOW_MS,
  isPersonless = false,
): NormalizedEvent {
  return { name, distinctId, properties, timestampMs, isPersonless, elementsChain: '' }
}

function send(
  repository: MemoryPersons,
  name: string,
  distinctId: string,
  properties: JsonObject,
  timestampMs = NOW_MS,
): PersonOutcome {
  const sent = event(name, distinctId, properties, timestampMs)
  return applyEvent(sent, Buffer.byteLength(JSON.stringify(sent)), repository, context())
}

/** Sends `$groupidentify` for the group k of type b, unless the properties override them. */
function identifyGroup(
  repository: MemoryPersons,
  properties: JsonObject,
  timestampMs = NOW_MS,
): PersonOutcome {
  const all = { $group_type: 'b', $group_key: 'k', ...properties }
  return send(repository, '$groupidentify', 'g', all, timestampMs)
}

function personOf(repository: MemoryPersons, distinctId: string): PersonState {
  const person = repository.personOf(distinctId)
  if (person === null) throw new Error('nobody has that id')
  return person
}

t.test('only valid groups are used', async (t) => {
  const $groups = { a: 'x', b: 5, c: false, d: '', e: null, f: {}, g: [], '': 'x' }
  const groupsOf = (value: unknown): readonly unknown[] => {
    const repository = new MemoryPersons()
    return groupKeysOf({ $groups: value }, repository, {}).map(({ typeIndex, key }) => {
      return { type: repository.groupTypes()[typeIndex], key }
    })
  }
  t.same(groupsOf($groups), [
    { type: 'a', key: 'x' },
    { type: 'b', key: '5' },
    { type: 'c', key: 'false' },
  ])
  for (const value of [undefined, null, 'acme', ['a']]) t.same(groupsOf(value), [])
})
