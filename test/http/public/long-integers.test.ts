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
  const body = await post('/flags/?v=1', `{"token":"${world.key()}","distinct_id":"u"}`)
  const payloads = body['featureFlagPayloads'] as Readonly<Record<string, string>>
  t.match(payloads['paid'], FIRST)
})
