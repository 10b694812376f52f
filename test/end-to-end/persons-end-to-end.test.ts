/**
 * Persons, groups and cohorts against the built daemon: events are sent, and every route returns the persons.
 *
 * @lane quick
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { type Answer, send } from '../fixtures/exact-client.ts'
import { parseCsv } from '../fixtures/persons/persons-port.ts'

interface Person {
  readonly id: number
  readonly uuid: string
  readonly name: string
  readonly distinct_ids: readonly string[]
  readonly properties: Readonly<Record<string, unknown>>
  readonly created_at: string
}

interface Page<T> {
  readonly count: number
  readonly next: string | null
  readonly previous: string | null
  readonly results: readonly T[]
}

/** A daemon and the requests of a client. */
class Client {
  readonly daemon: SpawnedDaemon

  constructor(daemon: SpawnedDaemon) {
    this.daemon = daemon
  }

  async ask(method: string, path: string, body?: unknown): Promise<Answer> {
    return send(`${this.daemon.url}/api/projects/1/${path}`, {
      method,
      headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }

  async read<T>(path: string): Promise<T> {
    const answer = await this.ask('GET', path)
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${String(answer.body)}`)
    return JSON.parse(answer.body.toString()) as T
  }

  /** Sends events and waits until all events of the project are processed. */
  async capture(...events: readonly object[]): Promise<void> {
    const body = JSON.stringify({ api_key: PROJECT_KEY, batch: events })
    const { status } = await send(`${this.daemon.url}/batch/`, { method: 'POST', body })
    if (status !== 200) throw new Error(`the batch was refused with ${status}`)
    const last = events.at(-1) as { event: string; distinct_id: string }
    const query = new URLSearchParams({ event: last.event, distinct_id: last.distinct_id })
    for (let attempt = 0; attempt < 3000; attempt++) {
      const page = await this.read<Page<unknown>>(`events/?${query.toString()}`)
      if (page.results.length > 0) return
      await sleep(20)
    }
    throw new Error('the last event never appeared')
  }

  async persons(query = ''): Promise<readonly Person[]> {
    return (await this.read<Page<Person>>(`persons/${query}`)).results
  }

  async personOf(distinctId: string): Promise<Person> {
    const [person] = await this.persons(`?distinct_id=${encodeURIComponent(distinctId)}`)
    if (person === undefined) throw new Error(`nobody has the id ${distinctId}`)
    return person
  }
}

async function start(t: Test): Promise<Client> {
  const daemon = await spawnDaemon({ dataDir: t.testdir() })
  t.teardown(() => daemon.stop())
  return new Client(daemon)
}

function jsonOf(answer: Answer): Record<string, unknown> {
  return JSON.parse(answer.body.toString()) as Record<string, unknown>
}

function event(distinctId: string, properties: object = {}, name = 'seen', day = 1): object {
  const timestamp = `2023-01-0${day}T10:00:00Z`
  return { event: name, distinct_id: distinctId, timestamp, properties }
}

const client = await start(t)

t.test('events create persons that appear in lists', async (t) => {
  await client.capture(
    event('ann', { $set: { email: 'Ann@x.example', plan: 'pro', n: 1 } }, 'seen', 1),
    event(
      'bob',
      { $set: { email: 'bob@y.example', plan: 'free', tags: ['a,b', '=1'] } },
      'seen',
      2,
    ),
    event('0190a5e0-0000-7000-8000-00000000000f', {}, 'seen', 3),
    event('ann', {}, 'end of part one', 4),
  )
  const all = await client.persons()
  t.strictSame(
    all.map(({ name }) => name),
    ['0190a5e0-0000-7000-8000-00000000000f', 'bob@y.example', 'Ann@x.example'],
  )
  const ann = await client.personOf('ann')
  t.equal(ann.created_at, '2023-01-01T10:00:00Z')
  t.match(ann.properties, { email: 'Ann@x.example', plan: 'pro', n: 1 })
  const names = async (query: string) => (await client.persons(query)).map(({ name }) => name)
  t.strictSame(await names('?email=Ann@x.example'), ['Ann@x.example'])
  t.strictSame(await names('?email=ann@x.example'), [], 'upper and lower case are distinct')
  t.strictSame(await names('?search=ANN@'), ['Ann@x.example'])
  t.strictSame(await names('?search=bob'), ['bob@y.example'])
  t.strictSame(await names('?search=bo%25'), [], 'no wildcards')
  t.strictSame(await names(`?search=${ann.uuid}`), ['Ann@x.example'])
  const filter = encodeURIComponent('[{"key":"plan","value":"pro","operator":"is_not"}]')
  t.equal((await names(`?properties=${filter}`)).length, 2)
  t.strictSame(await client.persons(`?limit=1&offset=2`), [ann])
  t.strictSame(await client.read(`persons/${ann.id}`), ann)
  t.strictSame(await client.read(`persons/${ann.uuid}/`), ann)
  const values = await client.read('persons/values?key=plan')
  t.strictSame(values, [
    { name: 'free', count: 1 },
    { name: 'pro', count: 1 },
  ])
})

t.test('a table export holds the same rows as the list', async (t) => {
  const { body, headers } = await client.ask('GET', 'persons/?format=csv')
  t.equal(headers['content-type'], 'text/csv; charset=utf-8')
  const [columns = [], ...rows] = parseCsv(body.toString())
  t.equal(rows.length, 3)
  const bob = rows.find((row) => row.includes('bob@y.example')) ?? []
  t.equal(bob[columns.indexOf('properties.tags.0')], 'a,b')
  t.equal(bob[columns.indexOf('properties.tags.1')], "'=1")
})

t.test(
  'changes are visible as soon as they are answered, and appear in the activity log',
  async (t) => {
    const { id, uuid } = await client.personOf('bob')
    const patched = await client.ask('PATCH', `persons/${id}`, {
      properties: { plan: 'max', gone: null },
    })
    t.equal(patched.status, 202)
    t.match(jsonOf(patched), { id, uuid, properties: { plan: 'max', gone: null } })
    t.match(await client.read(`persons/${id}`), { properties: { plan: 'max', gone: null } })
    const updated = await client.ask('POST', `persons/${id}/update_property?key=age&value=5`)
    t.match(jsonOf(updated), { properties: { age: '5' } })
    const removed = await client.ask('POST', `persons/${id}/delete_property`, { $unset: 'gone' })
    t.equal(removed.status, 201)
    t.notOk('gone' in (await client.personOf('bob')).properties)
    const activity = await client.read<Page<Record<string, unknown>>>(`persons/${id}/activity`)
    t.strictSame(
      activity.results.map((entry) => [entry['activity'], entry['item_id']]),
      [
        ['delete_property', String(id)],
        ['updated', String(id)],
        ['updated', String(id)],
      ],
    )
    t.match(activity.results[0], { user: { first_name: 'Owner' }, scope: 'Person' })
    const sent = await client.read<Page<{ distinct_id: string }>>('events/?event=%24set')
    t.strictSame(
      sent.results.map(({ distinct_id }) => distinct_id),
      ['bob', 'bob'],
    )
  },
)

t.test('a merge applies to the whole history, and a split undoes it', async (t) => {
  await client.capture(
    event('anon', { $set: { from: 'anon' } }, 'before'),
    event('ann', { $anon_distinct_id: 'anon' }, '$identify', 5),
  )
  const merged = await client.personOf('anon')
  t.strictSame([...merged.distinct_ids].sort(), ['ann', 'anon'])
  t.match(merged.properties, { plan: 'pro', from: 'anon' })
  const owners = async () =>
    (await client.read<Page<{ person: Person | null }>>('events/?event=before')).results.map(
      ({ person }) => person?.uuid,
    )
  t.strictSame(await owners(), [merged.uuid])
  const unknown = await client.ask('POST', `persons/${merged.id}/split`, { main_distinct_id: 'z' })
  t.match(jsonOf(unknown), { code: 'invalid_input', attr: 'main_distinct_id' })
  const split = await client.ask('POST', `persons/${merged.id}/split`, { main_distinct_id: 'ann' })
  t.equal(split.status, 201)
  t.match(jsonOf(split), { id: merged.id, distinct_ids: ['ann'], success: true })
  const other = await client.personOf('anon')
  t.not(other.uuid, merged.uuid)
  t.strictSame(other.properties, {})
  t.strictSame(await owners(), [other.uuid])
  const joined = await client.ask('POST', `persons/${merged.id}/merge`, { ids: [other.id] })
  t.equal(joined.status, 201)
  t.strictSame(await owners(), [merged.uuid])
  t.equal((await client.ask('GET', `persons/${other.uuid}`)).status, 404)
})

t.test('a timeline shows the properties at the time of each event', async (t) => {
  await client.capture(
    event('tim', { $set: { plan: 'free', n: 1 } }, '$pageview', 1),
    event('tim', { $set: { n: 2 } }, '$pageview', 2),
    event('tim', { $set: { plan: 'pro' } }, '$pageview', 3),
    event('tim', {}, '$pageview', 4),
    event('tim', {}, 'click', 5),
    event('tim', { $set: { plan: 'free' } }, '$pageview', 6),
    event('tim', {}, 'end of the timeline', 9),
  )
  const query = new URLSearchParams({
    events: '[{"id":"$pageview","type":"events","order":0}]',
    date_from: '2023-01-01',
    date_to: '2023-01-07',
    properties: '[{"key":"plan","value":"pro","type":"person"}]',
  })
  const { id } = await client.personOf('tim')
  t.match(await client.read(`persons/${id}/properties_timeline?${query.toString()}`), {
    points: [
      {
        timestamp: '2023-01-01T10:00:00Z',
        properties: { plan: 'free', n: 1 },
        relevant_event_count: 2,
      },
      {
        timestamp: '2023-01-03T10:00:00Z',
        properties: { plan: 'pro', n: 2 },
        relevant_event_count: 2,
      },
      {
        timestamp: '2023-01-06T10:00:00Z',
        properties: { plan: 'free', n: 2 },
        relevant_event_count: 1,
      },
    ],
    crucial_property_keys: ['plan'],
    effective_date_from: '2023-01-01T00:00:00+00:00',
    effective_date_to: '2023-01-07T23:59:59.999999+00:00',
  })
})

t.test('groups can be found, and their properties can be changed', async (t) => {
  const properties = { $group_type: 'company', $group_key: 'acme', $group_set: { size: 5 } }
  await client.capture(event('ann', properties, '$groupidentify', 6))
  t.match(await client.read('groups_types'), [{ group_type: 'company', group_type_index: 0 }])
  const page = await client.read<Page<object>>('groups/?group_type_index=0')
  t.match(page.results, [{ group_key: 'acme', group_properties: { size: 5 } }])
  const path = 'groups/update_property/?group_type_index=0&group_key=acme'
  t.equal((await client.ask('POST', path, { key: 'size', value: 6 })).status, 200)
  t.match(await client.read('groups/find?group_type_index=0&group_key=acme'), {
    group_properties: { size: 6 },
  })
  const unknown = await client.ask('GET', 'groups/find?group_type_index=0&group_key=other')
  t.equal(unknown.status, 404)
})

t.test('cohorts have the members that match their filters or lists', async (t) => {
  const filters = { properties: { type: 'OR', values: [{ key: 'plan', value: 'pro' }] } }
  const dynamic = await client.ask('POST', 'cohorts/', { name: 'Pro', filters })
  t.equal(dynamic.status, 201)
  const { id } = jsonOf(dynamic)
  const ann = await client.personOf('ann')
  const uuids = async (cohort: unknown) =>
    (await client.persons(`?cohort=${String(cohort)}`)).map(({ uuid }) => uuid)
  t.strictSame(await uuids(id), [ann.uuid])
  const fixed = await client.ask('POST', 'cohorts/', {
    name: 'Fixed',
    is_static: true,
    distinct_ids: ['bob', 'nobody'],
  })
  const fixedId = jsonOf(fixed)['id']
  const bob = await client.personOf('bob')
  t.strictSame(await uuids(fixedId), [bob.uuid])
  const own = await client.read<Page<{ id: number }>>(`persons/cohorts?person_id=${bob.id}`)
  t.strictSame(
    own.results.map((cohort) => cohort.id),
    [fixedId],
  )
  const inverse = [{ type: 'cohort', key: 'id', value: id, operator: 'not_in' }]
  const query = `?properties=${encodeURIComponent(JSON.stringify(inverse))}`
  t.equal(
    (await client.persons(query)).some(({ uuid }) => uuid === ann.uuid),
    false,
  )
  t.ok((await client.persons(query)).length > 1)
  t.equal((await client.ask('PATCH', `cohorts/${String(id)}`, { deleted: true })).status, 200)
  t.equal((await client.read<Page<object>>('cohorts/')).count, 1)
  t.strictSame(await uuids(id), [])
})

t.test(
  'a deleted person is gone, its id creates a new person, and its events have no person',
  async (t) => {
    const bob = await client.personOf('bob')
    t.equal((await client.ask('DELETE', `persons/${bob.id}`)).status, 202)
    t.equal((await client.ask('GET', `persons/${bob.uuid}`)).status, 404)
    t.equal((await client.ask('DELETE', `persons/${bob.id}`)).status, 404)
    t.equal((await client.ask('GET', `persons/${bob.id}/activity`)).status, 404)
    const activity = await client.read<Page<object>>('persons/activity?limit=1')
    t.match(activity.results, [{ activity: 'deleted', item_id: String(bob.id) }])
    const events = async () =>
      (await client.read<Page<{ person: Person | null }>>('events/?distinct_id=bob')).results
    const before = await events()
    t.ok(before.length > 0)
    t.ok(before.every(({ person }) => person === null))
    await client.capture(event('bob', {}, 'back again', 7))
    const again = await client.personOf('bob')
    t.not(again.uuid, bob.uuid)
    t.ok(again.id > bob.id)
    t.equal((await events()).filter(({ person }) => person !== null).length, 1)
  },
)

t.test('events are deleted with their person on request', async (t) => {
  await client.capture(event('eve', {}, 'once', 2), event('eve', {}, 'twice', 3))
  const eve = await client.personOf('eve')
  t.equal((await client.ask('DELETE', `persons/${eve.id}?delete_events=true`)).status, 202)
  let rest = -1
  for (let attempt = 0; attempt < 3000 && rest !== 0; attempt++) {
    rest = (await client.read<Page<object>>('events/?distinct_id=eve')).results.length
    if (rest !== 0) await sleep(20)
  }
  t.equal(rest, 0)
})

t.test('simultaneous changes of one person are applied in one order', async (t) => {
  await client.capture(event('cat', {}, 'here', 2), event('dog', {}, 'there', 2))
  const cat = await client.personOf('cat')
  const dog = await client.personOf('dog')
  const path = `persons/${cat.id}`
  const answers = await Promise.all([
    ...Array.from({ length: 10 }, (_, n) => client.ask('PATCH', path, { properties: { n } })),
    client.ask('POST', `${path}/merge`, { ids: [dog.id] }),
    client.ask('POST', `${path}/split`, { main_distinct_id: 'cat' }),
    client.ask('DELETE', path),
    ...Array.from({ length: 10 }, (_, n) => client.ask('PATCH', path, { properties: { n } })),
    client.ask('DELETE', path),
    client.ask('POST', `${path}/split`),
  ])
  const statuses = answers.map(({ status }) => status)
  t.strictSame(
    statuses.filter((status) => ![201, 202, 404].includes(status)),
    [],
  )
  const deletions = [answers[12], answers[23]].map((answer) => answer?.status)
  t.strictSame(deletions.sort(), [202, 404], 'one deletion finds the person')
  t.equal((await client.ask('GET', path)).status, 404)
  t.strictSame(await client.persons('?distinct_id=cat'), [])
})

t.test('all data is there after a crash', async (t) => {
  const dataDir = t.testdir()
  const first = new Client(await spawnDaemon({ dataDir }))
  await first.capture(event('a', { $set: { n: 1 } }), event('b', {}, 'last'))
  const { id } = await first.personOf('a')
  t.equal((await first.ask('PATCH', `persons/${id}`, { properties: { n: 2 } })).status, 202)
  await first.daemon.kill()
  const second = new Client(await spawnDaemon({ dataDir }))
  t.teardown(() => second.daemon.stop())
  t.match(await second.personOf('a'), { id, properties: { n: 2 } })
  const activity = await second.read<Page<object>>('persons/activity')
  t.equal(activity.results.length, 1)
})
