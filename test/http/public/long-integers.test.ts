/**
 * Integers beyond 2^53, such as the ids of Discord, keep all their digits in group keys and in comparisons for flag
 * decisions, whether a client sends them as numbers or as texts.
 *
 * @lane quick
 */
import t from 'tap'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const world = await shareDecisions(1)
const FIRST = '1234567890123456789'
const SECOND = '1234567890123456790'
const JSON_HEADERS = { 'Content-Type': 'application/json' }

async function post(path: string, body: string, headers: Readonly<Record<string, string>> = {}) {
  const answer = await world.ask(path, {
    method: 'POST',
    headers: { ...JSON_HEADERS, ...headers },
    body,
  })
  if (answer.status > 299) throw new Error(JSON.stringify(answer.body))
  return answer.body
}

/** Numbers are written as texts here, because they must not be rounded on the way. */
async function makeFlag(key: string, filters: string): Promise<void> {
  await post(world.path(1, 'feature_flags/'), `{"key":"${key}","filters":${filters}}`, {
    Authorization: `Bearer ${PERSONAL_KEY}`,
  })
}

async function flagsFor(members: string): Promise<Readonly<Record<string, boolean>>> {
  const body = await post('/flags/?v=1', `{"token":"${world.key()}","distinct_id":"u",${members}}`)
  return body['featureFlags'] as Readonly<Record<string, boolean>>
}

t.test('groups with long keys stay distinct', async (t) => {
  const identify = (key: string, n: number) =>
    `{"event":"$groupidentify","distinct_id":"g","properties":{"$group_type":"guild","$group_key":${key},"$group_set":{"n":${n}}}}`
  const event = `{"event":"e","distinct_id":"g","properties":{"$groups":{"guild":${FIRST}}}}`
  const events = [identify(FIRST, 1), identify(SECOND, 2), event].join(',')
  await post('/batch/', `{"api_key":"${world.key()}","batch":[${events}]}`)
  let stored: readonly { event: string; properties: Record<string, unknown> }[] = []
  await world.until(async () => {
    const { body } = await world.api('GET', 'events/?distinct_id=g', 1)
    stored = body['results'] as typeof stored
    return stored.length === 3
  })
  t.equal(stored.find((one) => one.event === 'e')?.properties['$group_0'], FIRST)
  const { body } = await world.api('GET', 'groups/?group_type_index=0', 1)
  const groups = body['results'] as readonly { group_key: string; group_properties: object }[]
  t.strictSame(groups.map(({ group_key: key }) => key).sort(), [FIRST, SECOND])
})

t.test('decisions compare all digits in every position', async (t) => {
  const condition = (value: string, operator = 'exact', key = 'id') =>
    `{"groups":[{"properties":[{"key":"${key}","type":"person","operator":"${operator}","value":${value}}],"rollout_percentage":100}]}`
  await makeFlag('text', condition(`["${FIRST}"]`))
  await makeFlag('number', condition(FIRST))
  await makeFlag('list', condition(`[1,${FIRST}]`))
  await makeFlag('not', condition(FIRST, 'is_not'))
  await makeFlag('greater', condition(`"${Number(FIRST) - 1e6}"`, 'gt'))
  const asFirst = { text: true, number: true, list: true, not: false, greater: true }
  t.match(await flagsFor(`"person_properties":{"id":${FIRST}}`), asFirst)
  t.match(await flagsFor(`"person_properties":{"id":"${FIRST}"}`), asFirst)
  const asSecond = { text: false, number: false, list: false, not: true, greater: true }
  t.match(await flagsFor(`"person_properties":{"id":${SECOND}}`), asSecond)
  const bearer = { Authorization: `Bearer ${world.key()}` }
  for (const [id, value] of [
    [FIRST, true],
    [SECOND, false],
  ] as const) {
    const context = `{"context":{"targetingKey":"u","id":${id}}}`
    t.match(await post('/ofrep/v1/evaluate/flags/number', context, bearer), { value }, id)
  }
})

t.test('a group has the same rollout bucket as a number and as a text', async (t) => {
  await makeFlag('half', '{"aggregation_group_type_index":0,"groups":[{"rollout_percentage":50}]}')
  const differences: string[] = []
  for (let index = 0; index < 40; index++) {
    const key = String(BigInt(FIRST) + BigInt(index * 7))
    const { half: ofNumber } = await flagsFor(`"groups":{"guild":${key}}`)
    const { half: ofText } = await flagsFor(`"groups":{"guild":"${key}"}`)
    if (ofNumber !== ofText) differences.push(key)
  }
  t.strictSame(differences, [])
})

t.test('a payload keeps the digits of an id', async (t) => {
  const filters = `{"groups":[{"rollout_percentage":100}],"payloads":{"true":{"id":${FIRST}}}}`
  await makeFlag('paid', filters)
  const flags = `[{"key":"filed","filters":${filters}}]`
  await change('feature_flags/apply/', `{"flags":${flags},"versions":{"filed":null}}`)
  const found = (await world.api('GET', 'feature_flags/?search=paid', 1)).body['results']
  const [{ id }] = found as readonly [{ readonly id: number }]
  const value = `{"variants":[{"key":"a","rollout_percentage":100}],"payloads":{"a":{"id":${FIRST}}}}`
  const scheduled = await change(
    'scheduled_changes/',
    `{"record_id":${id},"model_name":"FeatureFlag","scheduled_at":"2099-01-01T00:00:00Z","payload":{"operation":"update_variants","value":${value}}}`,
  )
  t.match(JSON.stringify(scheduled), FIRST, 'also in a scheduled change')
  const body = await post('/flags/?v=1', `{"token":"${world.key()}","distinct_id":"u"}`)
  const payloads = body['featureFlagPayloads'] as Readonly<Record<string, string>>
  t.match(payloads['paid'], FIRST)
  t.match(payloads['filed'], FIRST, 'also in a file')
})

const AUTHORIZATION = { Authorization: `Bearer ${PERSONAL_KEY}` }

/** Sends a request whose body contains numbers that must not be rounded on the way. */
function change(path: string, body: string): Promise<Readonly<Record<string, unknown>>> {
  return post(world.path(1, path), body, AUTHORIZATION)
}

async function personOf(distinctId: string): Promise<{ readonly uuid: string } | undefined> {
  const { body } = await world.api('GET', `persons/?distinct_id=${distinctId}`, 1)
  const [found] = body['results'] as readonly { readonly uuid: string }[]
  return found
}

async function capture(...events: readonly string[]): Promise<void> {
  await post('/batch/', `{"api_key":"${world.key()}","batch":[${events.join(',')}]}`)
  // The events were processed when a later one can be read.
  await world.capture([])
}

t.test('routes of persons and groups find exactly the one with the number', async (t) => {
  await capture(
    `{"event":"$identify","distinct_id":${FIRST},"properties":{"$anon_distinct_id":"anon","$set":{"n":1}}}`,
    `{"event":"$identify","distinct_id":${SECOND},"properties":{"$set":{"n":2}}}`,
  )
  const first = await personOf(FIRST)
  const split = await change(`persons/${first?.uuid}/split/`, `{"main_distinct_id":${FIRST}}`)
  t.match(split, { distinct_ids: [FIRST] })
  const deleted = await change('persons/bulk_delete/', `{"distinct_ids":[${FIRST}]}`)
  t.match(deleted, { persons_found: 1, persons_deleted: 1 })
  t.equal(await personOf(FIRST), undefined)
  t.ok(await personOf(SECOND))
  const list = `{"name":"a list","is_static":true,"distinct_ids":[${SECOND}]}`
  t.match(await change('cohorts/', list), { count: 1 })
  const group = `{"group_type_index":0,"group_key":${SECOND},"key":"level","value":7}`
  t.match(await change('groups/update_property/', group), {
    group_key: SECOND,
    group_properties: { n: 2, level: 7 },
  })
})

t.test('routes that explain a decision compare all digits', async (t) => {
  const differences: string[] = []
  for (let index = 0; index < 20; index++) {
    const key = String(BigInt(FIRST) + BigInt(index * 7))
    const values = await Promise.all(
      [key, `"${key}"`].map(async (guild) => {
        const groups = encodeURIComponent(`{"guild":${guild}}`)
        const path = `feature_flags/evaluation_reasons/?distinct_id=u&groups=${groups}`
        const { half } = (await world.api('GET', path, 1)).body as Record<string, object>
        return JSON.stringify(half)
      }),
    )
    if (values[0] !== values[1]) differences.push(key)
  }
  t.strictSame(differences, [])
  const flags = (await world.api('GET', 'feature_flags/?search=text', 1)).body['results']
  const [flag] = flags as readonly { readonly id: number }[]
  for (const [id, enabled] of [
    [FIRST, true],
    [SECOND, false],
  ] as const) {
    const properties = encodeURIComponent(`{"id":${id}}`)
    const path = `feature_flags/${flag?.id}/explain/?distinct_id=u&person_properties=${properties}`
    t.match((await world.api('GET', path, 1)).body, { enabled }, id)
  }
})

t.test('a property that is named like a part of a filter stays a number', async (t) => {
  await capture('{"event":"e","distinct_id":"named","properties":{"$set":{"n":1}}}')
  const person = await personOf('named')
  const sent = `{"value":${FIRST},"payloads":{"true":${FIRST}},"in":{"value":[${FIRST}]}}`
  const { status, body } = await world.ask(world.path(1, `persons/${person?.uuid}/`), {
    method: 'PATCH',
    headers: { ...JSON_HEADERS, ...AUTHORIZATION },
    body: `{"properties":${sent}}`,
  })
  const rounded = Number(FIRST)
  t.match({ status, body }, { status: 202 })
  await world.until(async () => {
    const { body: read } = await world.api('GET', `persons/${person?.uuid}/`, 1)
    return 'value' in (read['properties'] as object)
  })
  const { body: read } = await world.api('GET', `persons/${person?.uuid}/`, 1)
  t.strictSame(read['properties'], {
    n: 1,
    value: rounded,
    payloads: { true: rounded },
    in: { value: [rounded] },
  })
})

t.test('filters of cohorts and lists keep all digits, and find rounded numbers too', async (t) => {
  await capture(
    ...[`"${FIRST}"`, FIRST, `"${SECOND}"`].map(
      (id, index) =>
        `{"event":"filtered","distinct_id":"f${index}","properties":{"id":${id},"$set":{"id":${id}}}}`,
    ),
  )
  const filter = `{"key":"id","type":"person","operator":"exact","value":${FIRST}}`
  const tree = `{"properties":{"type":"AND","values":[${filter}]}}`
  const { id, filters } = await change('cohorts/', `{"name":"by id","filters":${tree}}`)
  t.match(filters, { properties: { values: [{ value: FIRST }] } })
  const members = await world.api('GET', `persons/?cohort=${String(id)}`, 1)
  const ids = (members.body['results'] as readonly { distinct_ids: readonly string[] }[]).flatMap(
    ({ distinct_ids: own }) => own,
  )
  t.strictSame(ids.sort(), ['f0', 'f1'])
  const inCohort = `{"key":"id","type":"cohort","value":${String(id)}}`
  await makeFlag('in-cohort', `{"groups":[{"properties":[${inCohort}],"rollout_percentage":100}]}`)
  t.match(await flagsFor(`"person_properties":{"id":${FIRST}}`), { 'in-cohort': true })
  t.match(await flagsFor(`"person_properties":{"id":${SECOND}}`), { 'in-cohort': false })
  const listed = encodeURIComponent(`[{"key":"id","value":[1,${FIRST}],"type":"event"}]`)
  const { body } = await world.api('GET', `events/?event=filtered&properties=${listed}`, 1)
  const events = body['results'] as readonly { readonly distinct_id: string }[]
  t.strictSame(events.map(({ distinct_id: own }) => own).sort(), ['f0', 'f1'])
  const query = `{"query":{"kind":"EventsQuery","select":["distinct_id"],"event":"filtered","properties":[{"key":"id","value":${FIRST},"type":"event","operator":"exact"}]}}`
  const rows = (await change('query/', query))['results'] as readonly (readonly [string])[]
  t.strictSame(rows.map(([own]) => own).sort(), ['f0', 'f1'])
})
