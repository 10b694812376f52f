/**
 * Deletion of several persons at once: the persons that it finds, the data that is deleted with them, its refusals, and
 * the entries in the activity and audit logs.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { PERSONAL_KEY, startDecisions } from '../../fixtures/flags/decision-daemon.ts'
import { person, startPersons, uuidOf } from '../../fixtures/persons/persons-port.ts'

t.setTimeout(120_000)
const daemon = await startDecisions(t, 2)
const BULK_DELETE = 'persons/bulk_delete/'
const DELETED = {
  events_queued_for_deletion: false,
  recordings_queued_for_deletion: false,
  deletion_errors: [],
}

/** Creates a person for each id, with one event. */
async function makePersons(names: readonly string[]): Promise<void> {
  await daemon.capture(
    names.flatMap((name) => [
      { event: '$identify', distinct_id: name, properties: { $set: { name } } },
      { event: 'opened', distinct_id: name },
    ]),
  )
}

async function uuidOfPerson(name: string): Promise<string | undefined> {
  const { body } = await daemon.api('GET', `persons/?distinct_id=${encodeURIComponent(name)}`)
  const [found] = body['results'] as readonly { readonly uuid: string }[]
  return found?.uuid
}

async function eventCount(name: string): Promise<number> {
  const { body } = await daemon.api('GET', `events/?distinct_id=${encodeURIComponent(name)}`)
  return (body['results'] as readonly unknown[]).length
}

async function newestEntry(): Promise<JsonObject> {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const path = '/api/organizations/@current/audit_log/?limit=1'
  const { body } = await daemon.ask(path, { headers })
  const [entry = {}] = body['results'] as readonly JsonObject[]
  return entry
}

async function checkGone(t: Test, names: readonly string[]): Promise<void> {
  for (const name of names) t.equal(await uuidOfPerson(name), undefined, name)
}

t.test('persons are deleted by distinct_id, and each is counted once', async (t) => {
  await makePersons(['a1', 'a2', 'a3'])
  await daemon.capture([
    { event: '$identify', distinct_id: 'a1', properties: { $anon_distinct_id: 'a1-anon' } },
  ])
  const json = { distinct_ids: ['a1', 'a1-anon', 'a2', 'nobody'] }
  const answer = await daemon.api('POST', BULK_DELETE, 1, json)
  t.equal(answer.status, 202)
  t.strictSame(answer.body, { ...DELETED, persons_found: 2, persons_deleted: 2 })
  await checkGone(t, ['a1', 'a1-anon', 'a2'])
  t.ok(await uuidOfPerson('a3'))
  t.ok((await eventCount('a1')) > 0, 'the events remain')
  t.match(await newestEntry(), {
    method: 'POST',
    route: '/api/projects/:project_id/persons/bulk_delete/',
    status: 202,
    object_id: null,
  })
  const { body } = await daemon.api('GET', 'persons/activity/')
  const activities = (body['results'] as readonly JsonObject[]).map(({ activity }) => activity)
  t.strictSame(activities.slice(0, 2), ['deleted', 'deleted'])
})

t.test('persons are deleted by uuid or number, also through the alias of the route', async (t) => {
  await makePersons(['b1', 'b2'])
  const uuid = String(await uuidOfPerson('b1'))
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const path = `/api/environments/${daemon.idOf(1)}/${BULK_DELETE}`
  const answer = await daemon.ask(path, {
    headers,
    json: { ids: [uuid.toUpperCase(), uuid, 999_999, uuidOf(1)], delete_events: true },
  })
  t.equal(answer.status, 202)
  t.strictSame(answer.body, {
    ...DELETED,
    persons_found: 1,
    persons_deleted: 1,
    events_queued_for_deletion: true,
  })
  await checkGone(t, ['b1'])
  await daemon.until(async () => (await eventCount('b1')) === 0)
  t.ok((await eventCount('b2')) > 0)
  t.match(await newestEntry(), { status: 202, object_id: uuid })
})

t.test('with keep_person only the events are deleted', async (t) => {
  await makePersons(['c1'])
  const json = { distinct_ids: ['c1'], keep_person: true }
  const nothing = await daemon.api('POST', BULK_DELETE, 1, json)
  t.strictSame(nothing.body, { ...DELETED, persons_found: 1, persons_deleted: 0 })
  t.ok((await eventCount('c1')) > 0)
  const answer = await daemon.api('POST', BULK_DELETE, 1, { ...json, delete_events: true })
  t.match(answer, {
    status: 202,
    body: { persons_found: 1, persons_deleted: 0, events_queued_for_deletion: true },
  })
  await daemon.until(async () => (await eventCount('c1')) === 0)
  t.ok(await uuidOfPerson('c1'))
})

t.test('one request deletes many persons, and persons of another project remain', async (t) => {
  const names = Array.from({ length: 250 }, (_, index) => `d${index}`)
  await makePersons(names)
  const other = await daemon.api('POST', BULK_DELETE, 2, { distinct_ids: names })
  t.match(other, { status: 202, body: { persons_found: 0, persons_deleted: 0 } })
  const answer = await daemon.api('POST', BULK_DELETE, 1, { distinct_ids: names })
  t.match(answer, { status: 202, body: { persons_found: 250, persons_deleted: 250 } })
  await checkGone(t, ['d0', 'd99', 'd100', 'd249'])
})

t.test('an invalid request is refused, and no person is deleted', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  const path = '1/persons/bulk_delete/'
  const cases: readonly (readonly [unknown, string, string])[] = [
    [undefined, 'required', 'ids'],
    [{}, 'required', 'ids'],
    [{ ids: [], distinct_ids: [] }, 'required', 'ids'],
    [{ ids: [1], distinct_ids: ['p1'] }, 'invalid_input', 'distinct_ids'],
    [{ ids: 'p1' }, 'invalid_input', 'ids'],
    [{ ids: [1, 'p1'] }, 'invalid_input', 'ids'],
    [{ ids: [1, null] }, 'invalid_input', 'ids'],
    [{ distinct_ids: {} }, 'invalid_input', 'distinct_ids'],
    [{ distinct_ids: ['p1', {}] }, 'invalid_input', 'distinct_ids'],
    [{ distinct_ids: Array.from({ length: 1001 }, () => 'p1') }, 'invalid_input', 'distinct_ids'],
    [{ ids: Array.from({ length: 1001 }, () => 1) }, 'invalid_input', 'ids'],
  ]
  for (const [body, code, attr] of cases) {
    const answer = await ask(path, { method: 'POST', body })
    t.match(answer, { status: 400, body: { code, attr } }, JSON.stringify(body)?.slice(0, 60))
  }
  const body = { ids: [1] }
  t.match(await ask(path, { method: 'POST', body, key: 'phx_read' }), { status: 403 })
  t.match(await ask(path, { method: 'POST', body, key: null }), { status: 401 })
  t.match(await ask(path), { status: 405, headers: { allow: 'POST' } })
  t.strictSame(store.commands, [])
})

t.test(
  'a person that was deleted meanwhile is reported; if all fail, the request is refused',
  async (t) => {
    const { store, ask } = await startPersons(t)
    store.persons = [person(1), person(2)]
    const run = store.run.bind(store)
    store.run = async (projectId, actor, command) => {
      store.persons = store.persons.filter(({ id }) => id !== 2)
      return run(projectId, actor, command)
    }
    const query = '?distinct_ids=["p1","p2"]&delete_events=1'
    const answer = await ask(`1/persons/bulk_delete/${query}`, { method: 'POST' })
    t.match(answer, {
      status: 202,
      body: {
        persons_found: 2,
        persons_deleted: 1,
        events_queued_for_deletion: true,
        deletion_errors: [{ person_uuid: uuidOf(2) }],
      },
    })
    t.match(store.commands, [
      [1, {}, { kind: 'delete_person', person: uuidOf(1), deletesEvents: true }],
      [1, {}, { kind: 'delete_person', person: uuidOf(2), deletesEvents: true }],
    ])
    store.result = { kind: 'not_found' }
    const refused = await ask('1/persons/bulk_delete/', { method: 'POST', body: { ids: [1] } })
    t.match(refused, { status: 404, body: { code: 'not_found' } })
  },
)
