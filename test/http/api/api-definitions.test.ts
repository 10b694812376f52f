/**
 * Names of events and properties, and values, over real HTTP against a complete daemon.
 *
 * @lane quick
 */
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { closeConnections } from '../../fixtures/exact-client.ts'
import { type DecisionDaemon, PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import { resultsOf, shareOrganization } from '../../fixtures/organization-daemon.ts'

const NOW_MS = Date.now()
const HOUR_MS = 3_600_000
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/
const HOSTILE = ['<img src=x onerror=alert(1)>', '__proto__', 'constructor', `"quoted" \u2028`]
/** The longest property name that lists contain, and one that is not listed. */
const LONG = 'k'.repeat(400)
const TOO_LONG = 'k'.repeat(401)

t.teardown(closeConnections)
t.setTimeout(300_000)

const at = (hoursAgo: number): string => new Date(NOW_MS - hoursAgo * HOUR_MS).toISOString()

const SHOP = [
  {
    event: '$pageview',
    distinct_id: 'a',
    timestamp: at(30),
    properties: { $current_url: 'https://x.io/a', $browser: 'Chrome', $set: { plan: 'pro' } },
  },
  {
    event: 'signup',
    distinct_id: 'a',
    timestamp: at(29),
    properties: { plan: 'pro', seats: 5, '$feature/new': true, $groups: { company: 'acme' } },
  },
  {
    event: 'order paid',
    distinct_id: 'b',
    timestamp: at(28),
    properties: { plan: 'free', amount: 12.5, at: '2024-05-02T10:00:00Z', tags: ['x', 'y'] },
  },
  { event: 'signup', distinct_id: 'c', timestamp: at(27), properties: { plan: 'pro' } },
  { event: 'signup', distinct_id: 'c', timestamp: at(240), properties: { plan: 'old' } },
  {
    event: '$groupidentify',
    distinct_id: 'a',
    timestamp: at(26),
    properties: { $group_type: 'company', $group_key: 'acme', $group_set: { size: 5 } },
  },
]

async function openShop(): Promise<DecisionDaemon> {
  const daemon = await shareDecisions(2)
  await daemon.capture(SHOP)
  return daemon
}

const isBoundary = (name: unknown): boolean => String(name).startsWith('boundary')

/** The results of a list, without the events that the test uses to wait. */
async function listed(daemon: DecisionDaemon, path: string): Promise<readonly JsonObject[]> {
  const answer = await daemon.api('GET', path)
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  return resultsOf(answer).filter(({ name }) => !isBoundary(name))
}

async function names(daemon: DecisionDaemon, path: string): Promise<readonly unknown[]> {
  return (await listed(daemon, path)).map(({ name }) => name)
}

const listOf = (...names: readonly string[]): string => encodeURIComponent(JSON.stringify(names))

t.test('definitions over HTTP', async (t) => {
  const daemon = await openShop()

  t.test('events are listed with their definitions', async (t) => {
    const [first] = await listed(daemon, 'event_definitions/?search=SIGN')
    t.match(first, {
      id: UUID,
      name: 'signup',
      last_seen_at: at(27).replace('Z', '000Z'),
      tags: [],
      is_action: false,
      action_id: null,
      is_calculating: false,
      last_calculated_at: null,
      created_by: null,
      post_to_slack: false,
      count: 3,
      first_seen_at: at(240).replace('Z', '000Z'),
    })
    const [createdAtMs = 0, seenAtMs = 0] = ['created_at', 'last_seen_at'].map((name) =>
      Date.parse(String(first?.[name])),
    )
    t.ok(createdAtMs > seenAtMs, 'created on arrival, which is later than the time of the event')
    const alone = await daemon.api('GET', `event_definitions/${String(first?.['id'])}`)
    t.strictSame(alone.body, first)
    t.strictSame(await names(daemon, 'event_definitions/?search=PAID%20order'), ['order paid'])
    const custom = 'event_definitions/?event_type=event_custom&ordering=name'
    t.strictSame(await names(daemon, custom), ['order paid', 'signup'])
    const posthog = 'event_definitions/?event_type=event_posthog&ordering=-name&exclude_hidden=true'
    t.strictSame(await names(daemon, posthog), ['$pageview', '$groupidentify'])
    const excluded = `${custom}&excluded_properties=${listOf('signup')}`
    t.strictSame(await names(daemon, excluded), ['order paid'])
    const twice = 'event_definitions/?ordering=last_seen_at::date&ordering=-name&search=e'
    t.strictSame(await names(daemon, twice), await names(daemon, `${twice}&ordering=whatever`))
  })

  t.test('definitions are listed in pages', async (t) => {
    const path = 'event_definitions/?ordering=name&limit=2'
    const { body } = await daemon.api('GET', path)
    t.match(body, { count: 5, previous: null })
    const seen: unknown[] = []
    let next: unknown = `${daemon.url}${daemon.path(1, path)}`
    for (; typeof next === 'string'; ) {
      const { pathname, search } = new URL(next)
      const page = await daemon.ask(`${pathname}${search}`, {
        headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
      })
      seen.push(...resultsOf(page).map(({ name }) => name))
      next = page.body['next']
    }
    t.equal(seen.length, 5)
    t.strictSame(
      seen.filter((name) => !isBoundary(name)),
      ['$groupidentify', '$pageview', 'order paid', 'signup'],
    )
  })

  t.test('properties of events are listed', async (t) => {
    const some = 'property_definitions/?properties=plan,seats,amount,at,$feature/new,none'
    const types = (await listed(daemon, some)).map((row) => [row['name'], row['property_type']])
    t.strictSame(types, [
      ['$feature/new', 'Boolean'],
      ['amount', 'Numeric'],
      ['at', 'DateTime'],
      ['plan', 'String'],
      ['seats', 'Numeric'],
    ])
    const [plan] = await listed(daemon, 'property_definitions/?properties=plan')
    t.match(plan, {
      id: UUID,
      is_numerical: false,
      tags: [],
      is_seen_on_filtered_events: null,
      count: 4,
      first_seen_at: at(240).replace('Z', '000Z'),
      last_seen_at: at(27).replace('Z', '000Z'),
    })
    const numbers = 'property_definitions/?is_numerical=true'
    t.strictSame(await names(daemon, numbers), ['amount', 'seats'])
    const flags = 'property_definitions/?is_feature_flag=true'
    t.strictSame(await names(daemon, flags), ['$feature/new'])
    const others = await names(daemon, 'property_definitions/?is_feature_flag=false')
    t.ok(others.includes('plan') && !others.includes('$feature/new'))
    for (const unlisted of ['$set', '$groups', '$group_0', '$group_set', 'distinct_id']) {
      t.notOk(others.includes(unlisted), unlisted)
    }
    const search = `property_definitions/?search=A%20n&excluded_properties=${listOf('plan')}`
    t.strictSame(await names(daemon, search), ['$feature/new', 'amount'])
  })

  t.test('properties are listed by the events that have them', async (t) => {
    const path = `property_definitions/?properties=plan,seats,amount&event_names=${listOf('signup')}`
    const marks = (await listed(daemon, path)).map((row) => [
      row['name'],
      row['is_seen_on_filtered_events'],
    ])
    t.strictSame(marks, [
      ['plan', true],
      ['seats', true],
      ['amount', false],
    ])
    t.strictSame(await names(daemon, `${path}&filter_by_event_names=true`), ['plan', 'seats'])
    const none = `property_definitions/?event_names=${listOf('never')}&filter_by_event_names=true`
    t.strictSame(await names(daemon, none), [])
  })

  t.test('properties of persons, groups and sessions are listed', async (t) => {
    const person = 'property_definitions/?type=person&properties=plan,$browser'
    const found = await listed(daemon, person)
    t.match(found, [
      { name: '$browser', property_type: 'String', count: 1, id: UUID },
      { name: 'plan', property_type: 'String', count: 1, is_seen_on_filtered_events: null },
    ])
    const group = 'property_definitions/?type=group&group_type_index=0'
    t.match(await listed(daemon, group), [{ name: 'size', property_type: 'Numeric', count: 1 }])
    t.strictSame(await names(daemon, 'property_definitions/?type=group&group_type_index=4'), [])
    const session = 'property_definitions/?type=session&search=duration'
    const duration = {
      id: '$session_duration',
      name: '$session_duration',
      is_numerical: true,
      property_type: 'Duration',
      tags: [],
      is_seen_on_filtered_events: null,
    }
    t.strictSame(await listed(daemon, session), [duration])
    const own = await daemon.api('GET', 'sessions/property_definitions?search=session%20dur')
    t.strictSame(own.body, { count: 1, next: null, previous: null, results: [duration] })
    const all = await daemon.api('GET', 'sessions/property_definitions/')
    t.ok(Number(all.body['count']) > 40)
    const page = await daemon.api('GET', 'property_definitions/?type=session&limit=3')
    t.equal(resultsOf(page).length, 3)
    t.equal(page.body['count'], all.body['count'])
  })

  t.test('values of a property are listed', async (t) => {
    const offered = async (query: string): Promise<unknown> =>
      (await daemon.api('GET', `events/values/?${query}`)).body
    t.strictSame(await offered('key=plan'), [{ name: 'pro' }, { name: 'free' }], 'of seven days')
    t.strictSame(await offered('key=plan&value=FR'), [{ name: 'free' }])
    t.strictSame(await offered('key=plan&event_name=signup'), [{ name: 'pro' }])
    const both = 'key=plan&event_name=signup&event_name=order%20paid'
    t.strictSame(await offered(both), [{ name: 'pro' }, { name: 'free' }])
    t.strictSame(await offered('key=tags'), [{ name: 'x' }, { name: 'y' }])
    t.strictSame(await offered('key=$feature/new'), [{ name: 'true' }])
    t.strictSame(await offered('key=never'), [])
    const own = (await offered('key=custom_event&value=S')) as readonly JsonObject[]
    t.strictSame(own, [{ name: 'signup' }])
    t.match(await daemon.api('GET', 'events/values/'), {
      status: 400,
      body: { code: 'required', attr: 'key' },
    })
  })

  t.test('invalid requests are refused', async (t) => {
    const rows: readonly (readonly [path: string, attr: string])[] = [
      ['event_definitions/?event_type=all', 'event_type'],
      ['event_definitions/?excluded_properties=plan', 'excluded_properties'],
      ['property_definitions/?type=element', 'type'],
      ['property_definitions/?type=group', 'group_type_index'],
      ['property_definitions/?type=group&group_type_index=5', 'group_type_index'],
      ['property_definitions/?type=group&group_type_index=-1', 'group_type_index'],
      ['property_definitions/?type=person&group_type_index=0', 'group_type_index'],
      [`property_definitions/?type=person&event_names=${listOf('a')}`, 'event_names'],
      ['property_definitions/?event_names=a', 'event_names'],
      ['property_definitions/?event_names=[1,{}]', 'event_names'],
      ['property_definitions/?is_feature_flag=maybe', 'is_feature_flag'],
    ]
    for (const [path, attr] of rows) {
      t.match(await daemon.api('GET', path), { status: 400, body: { attr } }, path)
    }
    const missing = '00000000-0000-5000-8000-000000000000'
    for (const method of ['GET', 'DELETE']) {
      for (const id of [missing, '7', 'signup']) {
        t.equal(
          (await daemon.api(method, `event_definitions/${id}/`)).status,
          404,
          `${method} ${id}`,
        )
      }
    }
    for (const method of ['POST', 'PUT', 'PATCH']) {
      t.equal((await daemon.api(method, 'event_definitions/', 1, {})).status, 405, method)
      const one = await daemon.api(method, `event_definitions/${missing}/`, 1, {})
      t.equal(one.status, 405, method)
    }
    t.equal((await daemon.api('POST', 'property_definitions/', 1, {})).status, 405)
  })

  t.test('another project does not see the definitions', async (t) => {
    for (const path of ['event_definitions/', 'property_definitions/']) {
      t.match((await daemon.api('GET', path, 2)).body, { count: 0, results: [] }, path)
    }
    const [one] = await listed(daemon, 'event_definitions/?search=signup')
    const path = `event_definitions/${String(one?.['id'])}/`
    t.equal((await daemon.api('DELETE', path, 2)).status, 404)
    t.equal((await daemon.api('GET', path)).status, 200)
  })
})

t.test('a deleted definition returns with the next event', async (t) => {
  const daemon = await openShop()
  const [one] = await listed(daemon, 'event_definitions/?search=signup')
  const path = `event_definitions/${String(one?.['id'])}/`
  t.equal((await daemon.api('DELETE', path)).status, 204)
  t.equal((await daemon.api('GET', path)).status, 404)
  t.equal((await daemon.api('DELETE', path)).status, 404)
  t.strictSame(await names(daemon, 'event_definitions/?search=signup'), [])
  const events = await daemon.api('GET', 'events/?event=signup')
  t.equal(resultsOf(events).length, 3, 'the events remain')
  await daemon.capture([{ event: 'other', distinct_id: 'a' }])
  t.strictSame(await names(daemon, 'event_definitions/?search=signup'), [])
  await daemon.capture([{ event: 'signup', distinct_id: 'a' }])
  const [back] = await listed(daemon, 'event_definitions/?search=signup')
  t.match(back, { id: String(one?.['id']), name: 'signup', count: 4 })
  const log = await daemon.ask('/api/organizations/@current/audit_log/', {
    headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
  })
  const noted = { method: 'DELETE', object_id: String(one?.['id']) }
  const ofProject = resultsOf(log).filter(({ project_id }) => project_id === daemon.idOf())
  t.match(ofProject, [
    { ...noted, status: 404 },
    { ...noted, status: 204 },
  ])
})

t.test('hostile names are ordinary data', async (t) => {
  const daemon = await shareDecisions()
  const properties = Object.fromEntries([...HOSTILE, LONG, TOO_LONG].map((name) => [name, 1]))
  await daemon.capture(HOSTILE.map((event) => ({ event, distinct_id: 'a', properties })))
  for (const name of HOSTILE) {
    const search = encodeURIComponent(name.split(' ')[0] ?? '')
    const [event] = await names(daemon, `event_definitions/?search=${search}`)
    t.equal(event, name)
  }
  const path = `property_definitions/?event_names=${listOf('constructor')}`
  const found = await listed(daemon, `${path}&filter_by_event_names=true`)
  const own = found.map(({ name }) => name)
  for (const name of [LONG, ...HOSTILE.filter((each) => each !== '__proto__')]) {
    t.ok(own.includes(name), name.slice(0, 40))
  }
  t.notOk(own.includes(TOO_LONG))
  const values = await daemon.api(
    'GET',
    `events/values/?key=${encodeURIComponent(HOSTILE[0] ?? '')}`,
  )
  t.strictSame(values.body, [{ name: '1' }])
})

t.test('each route requires its scope', async (t) => {
  const daemon = await shareOrganization(t)
  const scopes = ['event_definition:read', 'property_definition:read', 'event:read', 'query:read']
  const rows: readonly (readonly [path: string, scope: string])[] = [
    ['event_definitions/', 'event_definition:read'],
    ['property_definitions/', 'property_definition:read'],
    ['events/values/?key=plan', 'event:read'],
    ['sessions/property_definitions/', 'query:read'],
  ]
  const keys = scopes.map((scope) => [scope, daemon.keyOf({ userId: 1, scopes: [scope] })] as const)
  await daemon.settled()
  for (const [path, needed] of rows) {
    for (const [scope, key] of keys) {
      const { status } = await daemon.ask('GET', daemon.projectPath(1, path), undefined, key)
      t.equal(status, scope === needed ? 200 : 403, `${path} with ${scope}`)
    }
  }
  const [, reader] = keys[0] ?? []
  const one = daemon.projectPath(1, 'event_definitions/00000000-0000-5000-8000-000000000000/')
  t.equal((await daemon.ask('DELETE', one, undefined, reader)).status, 403)
})
