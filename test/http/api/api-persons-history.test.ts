/**
 * Activity and timelines of persons over HTTP: pages, ranges, relevant property names, and errors.
 *
 * @lane quick
 */
import t from 'tap'
import type { ActivityView } from '../../../src/rules/persons/person-queries.ts'
import {
  cohort,
  parseCsv,
  person,
  startPersons,
  uuidOf,
} from '../../fixtures/persons/persons-port.ts'

function entry(id: number): ActivityView {
  return {
    user: { first_name: 'Ann', email: 'ann@x.example' },
    activity: 'deleted',
    scope: 'Person',
    item_id: String(id),
    detail: { changes: null, name: uuidOf(id), short_id: null, type: null, trigger: null },
    created_at: '2023-01-05T10:00:00.000Z',
  }
}

t.test('activity is returned in numbered pages', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  store.activity = Array.from({ length: 25 }, (_, index) => entry(index))
  const url = 'https://t.example/api/projects/1/persons/activity'
  const first = await ask('1/persons/activity')
  t.match(first.body, {
    next: `${url}?page=2&limit=10`,
    previous: null,
    total_count: 25,
    results: [{ ...entry(0), created_at: '2023-01-05T10:00:00Z' }],
  })
  t.strictSame(store.asked.pop(), { projectId: 1, reference: null, offset: 0, limit: 10 })
  const second = await ask('1/persons/activity?page=2&x=y')
  t.match(second.body, {
    next: `${url}?page=3&x=y&limit=10`,
    previous: `${url}?page=1&x=y&limit=10`,
  })
  t.match((await ask('1/persons/activity?page=3')).body, { next: null })
  const beyond = await ask('1/persons/activity?page=9&limit=5')
  t.match(beyond, { status: 200, body: { results: [], next: null, total_count: 25 } })
  t.match(
    (await ask('1/persons/activity?page=5&limit=5')).body,
    { next: null },
    'exactly the last page',
  )
  const one = await ask(`1/persons/${uuidOf(1)}/activity/?limit=3`)
  t.equal(one.status, 200)
  t.strictSame(store.asked.pop(), { projectId: 1, reference: uuidOf(1), offset: 0, limit: 3 })
  t.match(one.body, {
    next: `https://t.example/api/projects/1/persons/${uuidOf(1)}/activity/?limit=3&page=2`,
  })
  t.equal(parseCsv((await ask('1/persons/activity?format=csv')).text).length, 11)
})

t.test('invalid requests for activity are refused', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  for (const query of ['page=0', 'page=-1', 'page=x', 'limit=-1', 'limit=x']) {
    const attr = query.split('=')[0]
    for (const path of ['activity', '1/activity']) {
      const answer = await ask(`1/persons/${path}?${query}`)
      t.match(answer, { status: 400, body: { code: 'invalid_input', attr } })
    }
  }
  t.equal((await ask('1/persons/9/activity')).status, 404)
  t.equal((await ask('1/persons/9/activity?page=x')).status, 404)
  t.equal((await ask('1/persons/x/activity')).status, 400)
  for (const path of ['activity', '1/activity']) {
    t.equal((await ask(`1/persons/${path}`, { key: 'phx_read' })).status, 403)
    t.equal((await ask(`1/persons/${path}`, { key: 'phx_log' })).status, 200)
    t.equal((await ask(`1/persons/${path}`, { key: null })).status, 401)
  }
})

const JANUARY = 'date_from=2023-01-01&date_to=2023-01-07'

t.test('a timeline reads the events of a range and the relevant properties', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  store.points = [
    {
      timestamp: '2023-01-01T00:00:00.000Z',
      properties: { plan: 'free' },
      relevant_event_count: 2,
    },
  ]
  const parameters = new URLSearchParams({
    events: JSON.stringify([
      { id: '$pageview', type: 'events', properties: [{ key: 'z', value: 1, type: 'person' }] },
      { id: '$pageview' },
      'click',
    ]),
    properties: JSON.stringify({
      type: 'OR',
      values: [
        { type: 'AND', values: [{ key: 'plan', value: 'pro', type: 'person' }] },
        {
          type: 'AND',
          values: [
            { key: 'path', value: '/', type: 'event' },
            { key: 'q', value: 1 },
          ],
        },
      ],
    }),
    breakdown: 'age',
    breakdown_type: 'person',
  })
  const { status, body } = await ask(
    `1/persons/1/properties_timeline/?${parameters.toString()}&${JANUARY}`,
  )
  t.equal(status, 200)
  t.strictSame(body, {
    points: [
      { timestamp: '2023-01-01T00:00:00Z', properties: { plan: 'free' }, relevant_event_count: 2 },
    ],
    crucial_property_keys: ['age', 'plan', 'z'],
    effective_date_from: '2023-01-01T00:00:00+00:00',
    effective_date_to: '2023-01-07T23:59:59.999999+00:00',
  })
  t.strictSame(store.asked.pop(), {
    projectId: 1,
    person: 1,
    eventNames: ['$pageview', 'click'],
    crucialKeys: ['age', 'plan', 'z'],
    fromMs: Date.parse('2023-01-01T00:00:00Z'),
    toMs: Date.parse('2023-01-07T23:59:59.999Z'),
  })
  t.equal(parseCsv((await ask(`1/persons/1/properties_timeline/?format=csv`)).text).length, 2)
})

t.test(
  'a timeline without parameters covers the last week, all events and no properties',
  async (t) => {
    const { store, ask } = await startPersons(t)
    store.persons = [person(1)]
    const { body } = await ask('1/persons/1/properties_timeline')
    t.match(body, {
      points: [],
      crucial_property_keys: [],
      effective_date_from: '2023-01-03T00:00:00+00:00',
      effective_date_to: '2023-01-10T23:59:59.999999+00:00',
    })
    t.match(store.asked.pop(), { eventNames: [], crucialKeys: [] })
    const all = encodeURIComponent('[{"id":null},{"id":"a"}]')
    await ask(`1/persons/1/properties_timeline?events=${all}&breakdown=x&breakdown_type=event`)
    t.match(store.asked.pop(), { eventNames: [], crucialKeys: [] }, 'one series of all events')
    store.points = [
      { timestamp: '2021-05-06T07:08:09.000Z', properties: {}, relevant_event_count: 1 },
    ]
    const whole = await ask('1/persons/1/properties_timeline?date_from=all')
    t.match(whole.body, { effective_date_from: '2021-05-06T07:08:09+00:00' })
    t.ok((store.asked.pop() as { fromMs: number }).fromMs < Date.parse('1900-01-01'))
  },
)

t.test('invalid requests for a timeline are refused', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  const refused: readonly (readonly [string, string])[] = [
    ['events', '{'],
    ['events', '{"id":"a"}'],
    ['events', '[5]'],
    ['events', '[{}]'],
    ['events', '[{"id":5}]'],
    ['events', JSON.stringify(Array(101).fill('a'))],
    ['actions', '[{"id":1}]'],
    ['properties', '{'],
    ['interval', 'decade'],
  ]
  for (const [attr, text] of refused) {
    const path = `1/persons/1/properties_timeline?${attr}=${encodeURIComponent(text)}`
    t.match(await ask(path), { status: 400, body: { code: 'invalid_input', attr } }, text)
  }
  t.strictSame(store.asked, [])
  t.equal((await ask('1/persons/9/properties_timeline?interval=x')).status, 404)
  t.equal((await ask('1/persons/9/properties_timeline')).status, 404)
  t.equal((await ask('1/persons/x/properties_timeline')).status, 400)
  t.equal((await ask('1/persons/1/properties_timeline?actions=[]')).status, 200)
  t.equal((await ask('1/persons/1/properties_timeline', { key: 'phx_log' })).status, 403)
})

t.test('the cohorts of a person are listed', async (t) => {
  const { store, ask } = await startPersons(t)
  store.persons = [person(1)]
  store.cohorts = [cohort(3)]
  const { status, body } = await ask('1/persons/cohorts?person_id=1')
  t.equal(status, 200)
  t.strictSame(body, { results: [{ ...cohort(3), created_at: '2023-01-02T10:00:00Z' }] })
  t.strictSame((await ask(`1/persons/cohorts?person_id=${uuidOf(1)}`)).body, body)
  for (const [query, expected, code] of [
    ['', 400, 'required'],
    ['?person_id=', 400, 'required'],
    ['?person_id=x', 400, 'invalid_input'],
    ['?person_id=9', 404, 'not_found'],
  ] as const) {
    const attr = expected === 404 ? null : 'person_id'
    t.match(await ask(`1/persons/cohorts${query}`), { status: expected, body: { code, attr } })
  }
  t.equal(parseCsv((await ask('1/persons/cohorts?person_id=1&format=csv')).text).length, 2)
})
