/**
 * Tests cached flag decisions: an identical request is answered from memory, and never with a result that a fresh
 * decision would not give.
 *
 * @lane all
 */
import t from 'tap'
import type { JsonObject } from '../../src/base/json.ts'
import { type DecisionDaemon, startDecisions } from '../fixtures/flags/decision-daemon.ts'

/** The number of requests answered from the cache since the last call. */
function repeats(daemon: DecisionDaemon): () => Promise<number> {
  let seen = 0
  return async () => {
    const page = await (await fetch(`${daemon.url}/metrics`)).text()
    const count = Number(/^flag_decisions_total\{outcome="repeated"\} (\d+)$/m.exec(page)?.[1] ?? 0)
    const since = count - seen
    seen = count
    return since
  }
}

const onFor = (key: string, value: unknown, more: object = {}): JsonObject => ({
  groups: [{ properties: [{ key, value, operator: 'exact', type: 'person', ...more }] }],
})

async function flagValue(daemon: DecisionDaemon, body: object, key: string): Promise<unknown> {
  const { status, body: answer } = await daemon.decide('/decide/?v=3', body)
  if (status !== 200) throw new Error(`a decision was answered ${status}`)
  const flags = answer['featureFlags']
  return typeof flags === 'object' && flags !== null ? Reflect.get(flags, key) : undefined
}

t.test('a repeated request is answered from the cache, with its own request id', async (t) => {
  const daemon = await startDecisions(t)
  const count = repeats(daemon)
  await daemon.putFlags([
    { key: 'plain' },
    { key: 'half', filters: { groups: [{ rollout_percentage: 50 }] } },
  ])
  const first = await daemon.decide('/flags/?v=2', { distinct_id: 'ann' })
  t.equal(await count(), 0)
  const second = await daemon.decide('/flags/?v=2', { distinct_id: 'ann' })
  t.equal(await count(), 1)
  t.strictSame(second.body['flags'], first.body['flags'])
  t.not(second.body['requestId'], first.body['requestId'])
  t.match(second.body['requestId'], /^[0-9a-f-]{36}$/)
  t.match(second.body['evaluatedAt'], Number)
  // The same body in another encoding is the same request. A request about another person is not.
  const old = await daemon.decide('/decide/?v=3', { distinct_id: 'ann' })
  t.match(old.body, { featureFlags: { plain: true } })
  t.notOk('flags' in old.body)
  t.equal(await count(), 1)
  await daemon.decide('/flags/?v=2', { distinct_id: 'bob' })
  t.equal(await count(), 0)
})

t.test('a change of any source of a decision takes effect', async (t) => {
  const daemon = await startDecisions(t)
  const count = repeats(daemon)
  const ann = { distinct_id: 'ann' }
  const [flag] = await daemon.putFlags([{ key: 'paying', filters: onFor('plan', 'paid') }])

  await t.test('a property of the person changes', async (t) => {
    t.equal(await flagValue(daemon, ann, 'paying'), false)
    await daemon.capture([
      { event: '$set', distinct_id: 'ann', properties: { $set: { plan: 'paid' } } },
    ])
    t.equal(await flagValue(daemon, ann, 'paying'), true, 'an unknown person appears')
    await daemon.capture([
      { event: '$set', distinct_id: 'ann', properties: { $set: { plan: 'free' } } },
    ])
    t.equal(await flagValue(daemon, ann, 'paying'), false)
    await count()
    await daemon.capture([
      { event: '$set', distinct_id: 'zoe', properties: { $set: { plan: 'paid' } } },
    ])
    t.equal(await flagValue(daemon, ann, 'paying'), false)
    t.equal(await count(), 1, 'another person does not matter')
  })

  await t.test('the owner of the distinct_id changes', async (t) => {
    await daemon.capture([
      { event: '$set', distinct_id: 'paula', properties: { $set: { plan: 'paid' } } },
    ])
    t.equal(await flagValue(daemon, { distinct_id: 'visitor' }, 'paying'), false)
    await daemon.capture([
      { event: '$identify', distinct_id: 'paula', properties: { $anon_distinct_id: 'visitor' } },
    ])
    t.equal(await flagValue(daemon, { distinct_id: 'visitor' }, 'paying'), true)
  })

  await t.test('the flag changes', async (t) => {
    await flagValue(daemon, ann, 'paying')
    const changed = { ...flag, key: 'paying', filters: onFor('plan', 'free'), version: 2 }
    await daemon.putFlags([changed])
    t.equal(await flagValue(daemon, ann, 'paying'), true)
    await daemon.putFlags([{ ...changed, active: false, version: 3 }])
    t.equal(await flagValue(daemon, ann, 'paying'), undefined)
  })
})

t.test('groups, lists and overrides are read again after every processing step', async (t) => {
  const daemon = await startDecisions(t)
  const groupEvent = (plan: string): object => ({
    event: '$groupidentify',
    distinct_id: 'ann',
    properties: { $group_type: 'company', $group_key: 'acme', $group_set: { plan } },
  })
  await daemon.capture([groupEvent('free')])
  await daemon.putFlags([
    {
      key: 'grouped',
      filters: {
        aggregation_group_type_index: 0,
        groups: [
          {
            properties: [
              { key: 'plan', value: 'paid', operator: 'exact', type: 'group', group_type_index: 0 },
            ],
          },
        ],
      },
    },
  ])
  const body = { distinct_id: 'ann', groups: { company: 'acme' } }
  t.equal(await flagValue(daemon, body, 'grouped'), false)
  await daemon.capture([groupEvent('paid')])
  t.equal(await flagValue(daemon, body, 'grouped'), true)

  const made = await daemon.api('POST', 'cohorts/', 1, { name: 'chosen', is_static: true })
  t.equal(made.status, 201)
  await daemon.putFlags([
    { key: 'listed', filters: onFor('id', made.body['id'], { type: 'cohort', operator: 'in' }) },
  ])
  await daemon.capture([{ event: '$set', distinct_id: 'ann', properties: { $set: { a: 1 } } }])
  t.equal(await flagValue(daemon, body, 'listed'), false)
  const person = await daemon.api('GET', 'persons/?distinct_id=ann')
  const [found] = person.body['results'] as readonly { uuid: string }[]
  const added = await daemon.api('PATCH', `cohorts/${String(made.body['id'])}/`, 1, {
    person_uuids: [found?.uuid],
  })
  t.equal(added.status, 200)
  await daemon.until(async () => (await flagValue(daemon, body, 'listed')) === true)
})

t.test('decisions that depend on the time, fail or store data are never cached', async (t) => {
  const daemon = await startDecisions(t)
  const count = repeats(daemon)
  const askTwice = async (body: object): Promise<number> => {
    await daemon.decide('/flags/?v=2', body)
    await daemon.decide('/flags/?v=2', body)
    return count()
  }
  const [dated] = await daemon.putFlags([
    { key: 'dated', filters: onFor('seen', '-1h', { operator: 'is_date_before' }) },
  ])
  const now = Math.floor(Date.now() / 1000)
  t.equal(await askTwice({ distinct_id: 'ann', person_properties: { seen: now } }), 0)
  t.equal(await askTwice({ distinct_id: 'ann' }), 1, 'without the property, no date is compared')
  const [broken] = await daemon.putFlags([
    { ...dated, key: 'dated', active: false, version: 2 },
    { key: 'broken', filters: onFor('id', 999, { type: 'cohort', operator: 'in' }) },
  ])
  t.ok(broken)
  t.equal(await askTwice({ distinct_id: 'ann' }), 0)
})

t.test('a revoked key gets no cached decision', async (t) => {
  const daemon = await startDecisions(t, 2)
  const count = repeats(daemon)
  await daemon.putFlags([{ key: 'plain' }])
  const body = { personal_api_key: undefined, project_id: 1, distinct_id: 'ann' }
  const ask = (token: string): Promise<{ status: number }> =>
    daemon.ask('/flags/?v=2', { json: { ...body, token } })
  t.equal((await ask('phx_owner_of_everything')).status, 200)
  t.equal(await count(), 0)
  t.equal((await ask('phx_owner_of_everything')).status, 200)
  t.equal(await count(), 1, 'the decision is cached, but not the validity of the key')
  for (const key of ['phx_of_nobody', 'phc_of_nobody', '']) {
    t.equal((await ask(key)).status, 401, key)
  }
  t.equal(await count(), 0)
  t.equal((await ask(daemon.key())).status, 200)
  t.equal((await ask(daemon.key())).status, 200)
  t.equal(await count(), 2)
})

t.test('a request with the same meaning in other bytes is recognized, and no other', async (t) => {
  const daemon = await startDecisions(t)
  const count = repeats(daemon)
  await daemon.putFlags([{ key: 'old', filters: onFor('age', '30', { operator: 'gt' }) }])
  const ask = async (query: string, more: string, value: boolean): Promise<number> => {
    const body = `{"token":"${daemon.key()}","distinct_id":"ann"${more}}`
    const answer = await daemon.ask(`/decide/?v=3${query}`, { method: 'POST', body })
    t.strictSame(answer.body['featureFlags'], { old: value }, more)
    return await count()
  }
  const aged = (age: string): string => `,"person_properties":{"age":${age}}`
  t.equal(await ask('', aged('40'), true), 0)
  t.equal(await ask('&_=1790000000001', aged('40'), true), 1, 'the time of the client differs')
  t.equal(await ask('&_=1790000000002', `,"sent_at":"now"${aged('4e1')}`, true), 1)
  t.equal(await ask('', aged('"40"'), true), 0, 'a text is not a number')
  t.equal(await ask('', aged('20'), false), 0)
  t.equal(await ask('', aged('1e999'), false), 0)
  t.equal(await ask('&_=1', aged('null'), false), 1, 'a number beyond all bounds is read as this')
  t.equal(await ask('&_=1', '', false), 0)
  t.equal(await ask('&_=2', `${aged('40')},"groups":{"company":"acme"}`, true), 0)
  t.equal(await ask('&_=3', `${aged('40')},"$device_id":"d"`, true), 0)
  t.equal(await ask('&_=4', `${aged('40')},"$anon_distinct_id":"d"`, true), 0)
  t.equal(await ask('&_=5', `${aged('40')},"evaluation_runtime":"server"`, true), 0)
  t.equal(await ask('&_=6', `${aged('40')},"evaluation_contexts":["app"]`, true), 0)
  t.equal(await ask('&_=7', `${aged('40')},"flag_keys_to_evaluate":["old"]`, true), 0)
})

t.test(
  'compressed bodies are recognized by content, long ones are always decided again',
  async (t) => {
    const daemon = await startDecisions(t)
    const count = repeats(daemon)
    await daemon.putFlags([{ key: 'plain' }])
    const long = { distinct_id: 'ann', person_properties: { text: 'x'.repeat(5000) } }
    for (let time = 0; time < 2; time++) {
      t.equal(await flagValue(daemon, long, 'plain'), true)
      const data = Buffer.from(JSON.stringify({ token: daemon.key(), distinct_id: 'ann' }))
      const answer = await daemon.ask('/flags/?v=2&compression=base64', {
        method: 'POST',
        headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
        body: `data=${encodeURIComponent(data.toString('base64'))}`,
      })
      t.equal(answer.status, 200)
    }
    t.equal(await count(), 1)
  },
)
