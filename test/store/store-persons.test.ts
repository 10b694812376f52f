/**
 * Tests persons in the store: owners of events, deletions, splits, cohorts, lists, timelines, many distinct_ids.
 *
 * @lane quick
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { RECORD_HISTORICAL } from '../../src/rules/capture/log-block.ts'
import type { FilterGroup } from '../../src/rules/filters/filter-group.ts'
import { personBody } from '../../src/rules/persons/person-answer.ts'
import type { PersonListQuery } from '../../src/rules/persons/person-queries.ts'
import { personUuid } from '../../src/rules/persons/person-uuid.ts'
import { DecisionSourceReader } from '../../src/store/identity/decision-sources.ts'
import { Differences } from '../fixtures/differences.ts'
import { PersonLog, personDigest } from '../fixtures/persons/person-log.ts'

const NOW_MS = Date.UTC(2024, 0, 20)
const QUERY: PersonListQuery = { projectId: 1, limit: 100, offset: 0, nowMs: NOW_MS }

function at(minute: number): string {
  return new Date(Date.UTC(2024, 0, 1, 0, minute)).toISOString()
}

function sent(distinctId: string, event: string, minute: number, properties: object = {}) {
  return { event, distinct_id: distinctId, timestamp: at(minute), properties }
}

function merged(into: string, from: string, minute: number) {
  return sent(into, '$merge_dangerously', minute, { alias: from })
}

t.test('an event belongs to the current owner of its distinct_id', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, [sent('anon', 'seen', 0), sent('user', 'seen', 1, { $set: { plan: 'pro' } })])
  log.process()
  const personOf = (distinctId: string): string | undefined =>
    log.reader.listEvents({ projectId: 1, distinctId, limit: 1 }).results[0]?.person?.uuid
  t.equal(personOf('anon'), personUuid(1, 'anon'))
  log.send(1, [sent('user', '$identify', 2, { $anon_distinct_id: 'anon' })])
  log.process()
  t.equal(personOf('anon'), personUuid(1, 'user'))
  const personId = personUuid(1, 'user')
  t.equal(log.reader.listEvents({ projectId: 1, personId, limit: 10 }).results.length, 3)
  const gone = personUuid(1, 'anon')
  t.equal(log.reader.persons().person(1, gone), null, 'the merged person is gone')
  t.equal(log.reader.listEvents({ projectId: 1, personId: gone, limit: 10 }).results.length, 0)
  const properties = [{ key: 'plan', value: 'pro', type: 'person' }]
  t.equal(log.reader.listEvents({ projectId: 1, properties, limit: 10 }).results.length, 3)
})

t.test('a deleted person stays deleted, and its events never get an owner again', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, [sent('a', 'old', 0, { $set: { email: 'a@x.io' } }), sent('b', 'other', 1)])
  log.process()
  const uuid = personUuid(1, 'a')
  t.same(log.run(1, { kind: 'delete_person', person: uuid, deletesEvents: false }), {
    kind: 'done',
  })
  t.equal(log.reader.persons().person(1, 1), null)
  t.same(log.run(1, { kind: 'delete_person', person: uuid, deletesEvents: false }), {
    kind: 'not_found',
  })
  await log.reopen()
  log.send(1, [sent('a', 'new', 5)])
  log.process()
  const events = log.reader.listEvents({ projectId: 1, distinctId: 'a', limit: 10 }).results
  t.strictSame(
    events.map(({ event, person }) => [event, person === null]),
    [
      ['new', false],
      ['old', true],
    ],
  )
  const [born] = log.reader.persons().list({ ...QUERY, distinctId: 'a' }).results
  t.equal(born?.id, 3)
  t.not(born?.uuid, uuid, 'its uuid is a new one')
  t.same(born?.properties, {})
  t.equal(log.reader.persons().list(QUERY).count, 2)
  t.equal(log.reader.persons().list({ ...QUERY, email: 'a@x.io' }).count, 0)
  const activity = log.reader.persons().activity(1, null, 1, 10)
  t.match(activity, { totalCount: 1, results: [{ activity: 'deleted', item_id: '1' }] })
  t.equal(log.reader.persons().activity(1, uuid, 1, 10), null)
})

t.test('a deletion with events removes exactly the events of the person', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const events = Array.from({ length: 600 }, (_, index) =>
    sent(index % 3 === 0 ? 'a' : 'b', 'seen', index, { text: `text of event ${index}` }),
  )
  log.send(1, events)
  log.process()
  log.run(1, { kind: 'delete_person', person: 1, deletesEvents: true })
  log.send(1, [sent('a', 'later', 1000)])
  log.process()
  await log.reopen()
  log.process()
  const { results } = log.reader.listEvents({ projectId: 1, limit: 1000 })
  t.equal(results.length, 401)
  t.strictSame(
    results.filter(({ distinct_id: id }) => id === 'a').map(({ event }) => event),
    ['later'],
  )
  const rest = results.find(({ properties }) => properties['text'] === 'text of event 1')
  t.equal(rest?.distinct_id, 'b')
  t.equal(rest?.id, 2, 'sequence numbers stay')
  const zero = '00000000-0000-0000-0000-000000000000'
  t.equal(log.reader.getEvent(1, zero), null, 'an empty uuid does not find a removed event')
})

t.test('a split gives every distinct_id its own person, with the full history', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, [sent('a', 'one', 0, { $set: { plan: 'pro' } }), sent('b', 'two', 1)])
  log.send(1, [sent('c', 'three', 2), merged('a', 'b', 3), merged('a', 'c', 4)])
  log.process()
  t.same(log.run(1, { kind: 'split_person', person: 1, mainDistinctId: 'x' }), {
    kind: 'unknown_distinct_id',
  })
  const result = log.run(1, { kind: 'split_person', person: 1, mainDistinctId: 'b' })
  t.match(result, { kind: 'done', person: { id: 1, distinct_ids: ['b'] } })
  t.match(result, { person: { properties: { plan: 'pro' } } })
  const { count, results } = log.reader.persons().list(QUERY)
  t.equal(count, 3)
  const others = results.filter(({ id }) => id !== 1)
  t.strictSame(others.flatMap(({ distinct_ids: ids }) => ids).sort(), ['a', 'c'])
  t.ok(others.every(({ is_identified: is, properties }) => !is && !Object.keys(properties).length))
  const a = others.find(({ distinct_ids: [id] }) => id === 'a')
  const personId = a?.uuid ?? ''
  const own = log.reader.listEvents({ projectId: 1, personId, limit: 10 }).results
  t.strictSame(own.map(({ event }) => event).sort(), [
    '$merge_dangerously',
    '$merge_dangerously',
    'one',
  ])
  const emptied = log.run(1, { kind: 'split_person', person: 1, mainDistinctId: null })
  t.match(emptied, { person: { distinct_ids: ['b'] } })
  t.same(emptied.kind === 'done' ? emptied.person?.properties : null, {})
})

t.test('a person with many distinct_ids keeps them in order of linking', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const ids = Array.from({ length: 40 }, (_, index) => `id ${index}`)
  for (const [index, id] of ids.entries()) {
    if (index > 0) log.send(1, [merged('id 0', id, index)])
    if (index % 7 === 0) log.process()
  }
  log.process()
  await log.reopen()
  log.send(1, [sent('z', 'seen', 50), sent('z', 'seen', 51), merged('z', 'id 5', 52)])
  log.process()
  const [person] = log.reader.persons().list(QUERY).results
  t.strictSame(person?.distinct_ids, ['z', ...ids])
  t.equal(log.reader.persons().list(QUERY).count, 1)
  t.match(log.run(1, { kind: 'split_person', person: person?.id ?? 0, mainDistinctId: 'id 9' }), {
    person: { distinct_ids: ['id 9'] },
  })
  t.equal(log.reader.persons().list(QUERY).count, 41)
})

t.test('properties set by hand are an event, a log entry, and visible immediately', async (t) => {
  const log = new PersonLog(t, t.testdir())
  log.send(1, [sent('a', 'seen', 0, { $set: { plan: 'free', seats: 1 } })])
  log.process()
  const set = { plan: 'pro', email: 'A@x.io' }
  const result = log.run(1, { kind: 'set_properties', person: 1, set })
  t.match(result, { person: { name: 'A@x.io', properties: { ...set, seats: 1 } } })
  log.run(1, { kind: 'delete_property', person: personUuid(1, 'a'), key: 'seats' })
  const person = log.reader.persons().person(1, 1)
  t.strictSame({ ...person?.properties }, set)
  const events = log.reader.listEvents({ projectId: 1, limit: 10 }).results
  t.strictSame(
    events.map(({ event }) => event),
    ['$delete_person_property', '$set', 'seen'],
  )
  const activity = log.reader.persons().activity(1, 1, 1, 10)
  t.strictSame(
    activity?.results.map((entry) => entry.activity),
    ['delete_property', 'updated'],
  )
  const large = { text: 'x'.repeat(600_000) }
  t.match(log.run(1, { kind: 'set_properties', person: 1, set: large }), { kind: 'too_large' })
  t.equal(log.reader.listEvents({ projectId: 1, limit: 10 }).results.length, 3)
})

t.test('lists find persons by id, e-mail, search, properties and cohort', async (t) => {
  const log = new PersonLog(t, t.testdir())
  for (let index = 0; index < 30; index++) {
    const email = `Person.${index}@Example.com`
    const name = index === 8 ? 'Ada Example' : index
    log.send(1, [sent(`user-${index}`, 'seen', index, { $set: { email, name, n: index % 3 } })])
  }
  log.process()
  const ids = (query: Partial<PersonListQuery>): readonly number[] =>
    log.reader
      .persons()
      .list({ ...QUERY, ...query })
      .results.map(({ id }) => id)
  t.strictSame(ids({ limit: 3 }), [30, 29, 28], 'newest first')
  t.strictSame(ids({ limit: 2, offset: 28 }), [2, 1])
  t.strictSame(ids({ distinctId: 'user-4' }), [5])
  t.strictSame(ids({ email: 'Person.4@Example.com' }), [5])
  t.strictSame(ids({ email: 'person.4@example.com' }), [], 'upper and lower case differ')
  t.strictSame(ids({ email: 'Person.' }), [], 'the beginning is not enough')
  t.strictSame(ids({ search: 'PERSON.1' }).length, 11)
  t.strictSame(ids({ search: 'user-7' }), [8])
  t.strictSame(ids({ search: personUuid(1, 'user-7') }), [8])
  t.strictSame(ids({ search: '%' }), [])
  t.strictSame(ids({ search: 'ADA EX' }), [9], 'a part of the name')
  const properties = { type: 'AND', values: [{ key: 'n', value: 1, type: 'person' }] } as const
  t.equal(ids({ properties }).length, 10)
  t.strictSame(ids({ properties, search: 'person.1@' }), [2])
  t.same(log.reader.persons().values(1, 'n', null)[0], { name: '0', count: 10 })
  const draft = { name: 'c', description: '', filters: null, personUuids: [], distinctIds: [] }
  const distinctIds = ['user-3', 'user-4', 'nobody']
  log.run(1, { kind: 'create_cohort', cohort: { ...draft, isStatic: true, distinctIds } })
  const filters = properties
  log.run(1, { kind: 'create_cohort', cohort: { ...draft, isStatic: false, filters } })
  t.strictSame(ids({ cohortId: 1 }), [5, 4])
  t.equal(ids({ cohortId: 2 }).length, 10)
  t.strictSame(ids({ cohortId: 3 }), [])
  t.match(log.reader.persons().cohort(1, 1), { count: 2, is_static: true })
  t.match(log.reader.persons().cohort(1, 2), { count: 10, is_static: false })
  t.strictSame(
    log.reader
      .persons()
      .cohortsOfPerson(1, 5)
      ?.map(({ id }) => id),
    [1, 2],
  )
  log.run(1, { kind: 'delete_person', person: 5, deletesEvents: false })
  log.send(1, [merged('user-20', 'user-3', 60)])
  log.process()
  t.strictSame(ids({ cohortId: 1 }), [21], 'a merge takes the membership along')
  const gone = log.run(1, { kind: 'update_cohort', id: 1, changes: { deleted: true } })
  t.match(gone, { cohort: { deleted: true } })
  t.equal(log.reader.persons().cohort(1, 1), null)
})

t.test('cohorts that change at the same time cannot refer to each other in a circle', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const plan = { key: 'plan', value: 'pro', type: 'person' }
  const rule = (...values: readonly object[]) => ({ type: 'AND', values }) as FilterGroup
  const refersTo = (value: number) => ({ key: 'id', type: 'cohort', value })
  const draft = { name: 'c', description: '', isStatic: false, personUuids: [], distinctIds: [] }
  for (let count = 0; count < 3; count++) {
    log.run(1, { kind: 'create_cohort', cohort: { ...draft, filters: rule(plan) } })
  }
  const change = (id: number, filters: FilterGroup) =>
    log.run(1, { kind: 'update_cohort', id, changes: { filters } })
  t.match(change(1, rule(refersTo(2))), { kind: 'done' })
  t.match(change(2, rule(plan, refersTo(3))), { kind: 'done' })
  t.strictSame(change(3, rule(refersTo(1))), { kind: 'circle' })
  t.strictSame(change(2, rule(refersTo(2))), { kind: 'circle' })
  t.match(log.reader.persons().cohort(1, 3), { filters: { properties: rule(plan) } })
  t.match(log.reader.persons().cohort(1, 2), { filters: { properties: rule(plan, refersTo(3)) } })
  log.run(1, { kind: 'update_cohort', id: 2, changes: { deleted: true } })
  t.match(change(3, rule(refersTo(1))), { kind: 'done' }, 'a deleted cohort ends the way')
})

t.test('a timeline shows the properties at each event, through merges and splits', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const timeline = (person: number | string) =>
    log.reader
      .propertiesTimeline({
        projectId: 1,
        person,
        eventNames: ['seen'],
        crucialKeys: ['plan'],
        fromMs: 0,
        toMs: NOW_MS,
      })
      ?.map(({ properties, relevant_event_count: count }) => [properties['plan'] ?? '', count])
  log.send(1, [
    sent('a', 'seen', 0, { $set: { plan: 'free' } }),
    sent('a', 'seen', 1),
    sent('b', 'seen', 2, { $set: { plan: 'pro' } }),
    sent('a', 'seen', 3),
    merged('a', 'b', 4),
    sent('b', 'seen', 5),
    sent('b', 'seen', 6, { $set: { plan: 'team' } }),
  ])
  log.process()
  t.strictSame(timeline(1), [
    ['free', 2],
    ['pro', 1],
    ['free', 2],
    ['team', 1],
  ])
  log.run(1, { kind: 'split_person', person: 1, mainDistinctId: 'a' })
  log.send(1, [sent('b', 'seen', 20)])
  log.process()
  t.strictSame(timeline(1), [['free', 3]])
  const [b] = log.reader.persons().list({ ...QUERY, distinctId: 'b' }).results
  t.strictSame(timeline(b?.uuid ?? ''), [
    ['pro', 1],
    ['free', 1],
    ['team', 1],
    ['', 1],
  ])
  t.equal(timeline(99), undefined)
})

t.test('lists write persons byte for byte as a single person is shown', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const sets: readonly object[] = [
    {},
    { email: 'a@x.io', plan: 'pro' },
    { plan: 'pro', email: '' },
    { email: 'with "quotes" \\ and \n lines' },
    { email: 7 },
    { email: null, other: 'x' },
    { email: ['a', 'b'] },
    { email: { home: 'a@x.io' } },
    { home: { email: 'nested@x.io' } },
    { homes: [{ email: 'nested@x.io' }], email: 'own@x.io' },
    { 'my"email': 'not@x.io' },
    { text: '","email":"not@x.io"' },
    { $email: 'not@x.io', 'größe 💻': 1.5e-7 },
    { b: 1, 10: 'ten', 9: 'nine', email: 'numbers@x.io' },
    { text: ',"1', a: -0 },
    { brace: '{', email: 'brace@x.io' },
    { when: 1.0, big: 1e300, no: false, list: [] },
  ]
  log.send(
    1,
    sets.map(($set, index) => sent(`user ${index}`, 'seen', index, { $set })),
  )
  const anonymous = Array.from({ length: 120 }, (_, index) => `a-b-c-d-${index}`)
  const links = [...anonymous, 'chosen'].map((id, index) => merged('a-b-c-d-e', id, 60 + index))
  log.send(1, [sent('a-b-c-d-e', 'seen', 59), ...links])
  log.process()
  const compare = (what: string): void => {
    const persons = log.reader.persons()
    const { numbers } = persons.find(QUERY)
    t.equal(numbers.length, sets.length + 1)
    const shown = numbers.flatMap((number) => persons.listed(1, number) ?? [])
    t.strictSame(
      [...persons.listedTexts(1, numbers)],
      shown.map((person) => JSON.stringify(personBody(person))),
      what,
    )
  }
  compare('stored as a whole')
  log.send(
    1,
    sets.map((_, index) => sent(`user ${index}`, 'seen', 300 + index, { $set: { later: index } })),
  )
  log.send(1, [sent('user 1', 'seen', 400, { $set: { email: 'changed@x.io' } })])
  log.process()
  compare('with changes')
  t.strictSame([...log.reader.persons().listedTexts(1, [9999])], [], 'nobody')
})

t.test('a decision reads one state of a person, whenever the store changes', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const ids = Array.from({ length: 20 }, (_, index) => `user ${index}`)
  const seen = (round: number): void => {
    log.send(
      1,
      ids.map((id) => sent(id, 'seen', round, { $set: { round, text: `${round} `.repeat(20) } })),
    )
    log.process()
  }
  seen(0)
  const sources = new DecisionSourceReader(log.dataDir)
  t.teardown(() => sources.close())
  sources.freshen()
  t.match(sources.person(1, 'user 0').properties?.all(), { round: 0 })
  for (let round = 1; round < ids.length; round++) {
    seen(round)
    // LMDB advances its snapshot with the event loop. No test code asks for it.
    await sleep(1)
    t.match(sources.person(1, `user ${round}`).properties?.all(), { round })
  }
  log.send(1, [merged('user 1', 'user 2', 100)])
  log.process()
  sources.refresh()
  t.equal(sources.person(1, 'user 2').number, sources.person(1, 'user 1').number)
  t.equal(sources.person(1, 'nobody').number, 0)
})

t.test(
  'changes to a person that is not in memory are visible immediately, and counted',
  async (t) => {
    const log = new PersonLog(t, t.testdir())
    const automatic = { $browser: 'Firefox', $os_name: 'Linux', $current_url: '/0' }
    log.send(1, [sent('u', 'seen', 0, { ...automatic, $set: { email: 'u@x.io', n: 0, m: 0 } })])
    log.process()
    const sources = new DecisionSourceReader(log.dataDir)
    t.teardown(() => sources.close())
    const known = () => {
      sources.refresh()
      return sources.person(1, 'u')
    }
    let { version } = known()
    const tagged = [{ key: '$initial_utm_source', value: 'mail', type: 'person' }]
    const differences = new Differences()
    for (let round = 1; round <= 20; round++) {
      await log.reopen()
      const properties = { ...automatic, $current_url: `/${round}`, $set_once: { first: round } }
      const more =
        round === 3 ? { utm_source: 'mail', $unset: ['m', 'email'] } : { $set: { n: round } }
      log.send(1, [sent('u', 'seen', round, { ...properties, ...more })])
      log.send(1, [sent('u', 'again', round, { $current_url: `/${round}` })])
      log.process()
      const person = known()
      differences.ok(person.version !== version, `round ${round}: the version has changed`)
      version = person.version
      differences.equal(
        known().version,
        version,
        `round ${round}: the version is the same when read again`,
      )
      differences.same(
        { ...person.properties?.all() },
        {
          $os: 'Linux',
          $initial_os: 'Linux',
          $browser: 'Firefox',
          $initial_browser: 'Firefox',
          $current_url: `/${round}`,
          $initial_current_url: '/0',
          first: 1,
          n: round === 3 ? 2 : round,
          ...(round < 3 ? { email: 'u@x.io', m: 0 } : { utm_source: 'mail' }),
          ...(round < 3 ? {} : { $initial_utm_source: 'mail' }),
        },
        `round ${round}: the properties`,
      )
      const listed = log.reader.persons().list({ ...QUERY, email: 'u@x.io' }).results
      differences.equal(
        listed.length,
        round < 3 ? 1 : 0,
        `round ${round}: persons are found by address`,
      )
      const found = log.reader.listEvents({ projectId: 1, properties: tagged, limit: 100 }).results
      differences.equal(
        found.length,
        round < 3 ? 0 : round * 2 + 1,
        `round ${round}: the events are right`,
      )
    }
    t.strictSame(differences.list(), [], 'every change is seen at once')
    const before = await personDigest(log.dataDir)
    await log.reopen()
    log.send(1, [sent('u', 'again', 30, { $current_url: '/20' })])
    log.process()
    t.equal(await personDigest(log.dataDir), before, 'an event without changes is stored')
  },
)

t.test('the store records whether live events changed a person', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const see = (minute: number, id: string, $set: object, flags = 0): void => {
    log.send(1, [sent(id, 'seen', minute, { $set })], undefined, flags)
  }
  const reopen = async (): Promise<void> => {
    log.process()
    await log.reopen()
  }
  const personOf = (distinctId: string) =>
    log.reader.persons().list({ ...QUERY, distinctId }).results[0]
  see(20, 'live', { plan: 'pro' })
  for (const id of ['past', 'later']) see(10, id, { plan: 'free' }, RECORD_HISTORICAL)
  await reopen()
  see(20, 'later', { plan: 'pro' })
  await reopen()
  for (const id of ['live', 'past', 'later']) {
    see(5, id, { plan: 'basic', city: 'Bern' }, RECORD_HISTORICAL)
  }
  await reopen()
  for (const [id, plan] of [
    ['live', 'pro'],
    ['past', 'basic'],
    ['later', 'pro'],
  ] as const) {
    t.match(personOf(id), { properties: { plan, city: 'Bern' }, created_at: /T00:05:00/ }, id)
  }
})

t.test('the store records whether live events described a group', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const identify = (minute: number, key: string, $group_set: object, flags = 0): void => {
    const properties = { $group_type: 'company', $group_key: key, $group_set }
    log.send(1, [sent('ann', '$groupidentify', minute, properties)], undefined, flags)
  }
  const groupOf = (key: string) => log.reader.persons().group(1, 0, key)
  identify(20, 'live', { plan: 'pro' })
  identify(10, 'past', { plan: 'free' }, RECORD_HISTORICAL)
  identify(10, 'both', { plan: 'free', size: 1 }, RECORD_HISTORICAL)
  identify(20, 'both', { plan: 'pro' })
  log.process()
  await log.reopen()
  for (const key of ['live', 'past', 'both']) {
    identify(11, key, { plan: 'basic', city: 'Bern' }, RECORD_HISTORICAL)
  }
  log.process()
  const past = { plan: 'basic', city: 'Bern' }
  t.match(groupOf('past'), { group_properties: past, created_at: /T00:10:00/ })
  t.match(groupOf('live'), {
    group_properties: { plan: 'pro', city: 'Bern' },
    created_at: /T00:11:00/,
  })
  const both = { plan: 'pro', size: 1, city: 'Bern' }
  t.match(groupOf('both'), { group_properties: both, created_at: /T00:10:00/ })
  const page = log.reader.persons().groups(1, 0, null, 10, null)
  t.strictSame(
    page.results.map(({ group_key }) => group_key),
    ['both', 'live', 'past'],
  )
})
