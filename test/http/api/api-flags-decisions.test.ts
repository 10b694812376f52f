/**
 * The decisions of flags over HTTP: reasons, the flags of one person, definitions, payloads, and the reach of a
 * condition.
 *
 * @lane quick
 */
import { PostHog } from 'posthog-node'
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { OrganizationStore } from '../../../src/store/catalog/organization-store.ts'
import { send } from '../../fixtures/exact-client.ts'
import { type JsonAnswer, PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'

const daemon = await shareDecisions(4)
const FLAGS = 'feature_flags/'
const EVERYONE = [{ properties: [], rollout_percentage: 100 }]

type Api = (method: string, path: string, json?: unknown) => Promise<JsonAnswer>

function apiOf(projectId: number): Api {
  return (method, path, json) => daemon.api(method, path, projectId, json)
}

async function create(api: Api, key: string, more: JsonObject = {}): Promise<number> {
  const answer = await api('POST', FLAGS, { key, ...more })
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return Number(answer.body['id'])
}

async function createCohort(api: Api, filters: unknown): Promise<number> {
  const { body } = await api('POST', 'cohorts/', { name: 'Pro users', filters })
  return Number(body['id'])
}

function person(key: string, value: unknown, operator = 'exact'): JsonObject {
  return { key, type: 'person', value, operator }
}

function onProperties(...properties: readonly JsonObject[]): JsonObject {
  return { groups: [{ properties, rollout_percentage: 100 }] }
}

function onFlag(id: number, value: unknown = true): JsonObject {
  return onProperties({ key: String(id), type: 'flag', operator: 'flag_evaluates_to', value })
}

t.test('reasons and the flags of one person are returned', async (t) => {
  const api = apiOf(1)
  t.match((await api('GET', `${FLAGS}my_flags`)).body, [])
  await daemon.capture([
    { event: 'e', distinct_id: 'ann', properties: { $set: { plan: 'pro' } } },
    {
      event: '$groupidentify',
      distinct_id: 'ann',
      properties: { $group_type: 'company', $group_key: 'acme', $group_set: { size: 'big' } },
    },
  ])
  const all = await create(api, 'all')
  const pro = await create(api, 'pro', { filters: onProperties(person('plan', 'pro')) })
  const variants = [{ key: 'test', rollout_percentage: 100 }]
  const many = await create(api, 'many', {
    filters: { groups: EVERYONE, multivariate: { variants } },
  })
  const off = await create(api, 'off', { active: false })
  const size = { key: 'size', type: 'group', group_type_index: 0, value: 'big', operator: 'exact' }
  const byCompany = { ...onProperties(size), aggregation_group_type_index: 0 }
  const company = await create(api, 'company', { filters: byCompany })
  const server = await create(api, 'server', {
    evaluation_runtime: 'server',
    evaluation_contexts: ['web'],
  })
  const matched = { reason: 'condition_match', condition_index: 0 }
  const path = `${FLAGS}evaluation_reasons`
  t.strictSame((await api('GET', `${path}?distinct_id=ann`)).body, {
    all: { id: all, value: true, evaluation: matched },
    pro: { id: pro, value: true, evaluation: matched },
    many: { id: many, value: 'test', evaluation: matched },
    company: {
      id: company,
      value: false,
      evaluation: { reason: 'no_group_type', condition_index: 0 },
    },
    server: { id: server, value: true, evaluation: matched },
    off: { id: off, value: false, evaluation: { reason: 'disabled', condition_index: null } },
  })
  const groups = encodeURIComponent('{"company":"acme"}')
  const other = await api('GET', `${path}/?distinct_id=bob&groups=${groups}`)
  t.match(other.body, {
    pro: { value: false, evaluation: { reason: 'no_condition_match', condition_index: 0 } },
    company: { value: true, evaluation: matched },
  })
  t.match(await api('GET', path), { status: 400, body: { code: 'required', attr: 'distinct_id' } })
  for (const wrong of ['[]', '5', '{', 'null']) {
    const answer = await api('GET', `${path}?distinct_id=a&groups=${encodeURIComponent(wrong)}`)
    t.match(answer, { status: 400, body: { code: 'invalid_input', attr: 'groups' } })
  }
  const mine = (await api('GET', `${FLAGS}my_flags?groups=${groups}`)).body
  const shown = Object.values(mine) as { feature_flag: { key: string }; value: unknown }[]
  t.strictSame(
    shown.map(({ feature_flag: { key }, value }) => [key, value]),
    [
      ['server', true],
      ['company', true],
      ['off', false],
      ['many', 'test'],
      ['pro', false],
      ['all', true],
    ],
    'newest first, including inactive flags',
  )
  t.match(shown[0]?.feature_flag, {
    team_id: daemon.idOf(1),
    deleted: false,
    active: true,
    version: 1,
  })
})

t.test('a change applies to the next decision', async (t) => {
  const api = apiOf(2)
  const id = await create(api, 'beta')
  for (let round = 0; round < 10; round++) {
    const active = round % 2 === 0
    await api('PATCH', `${FLAGS}${id}/`, { active })
    const { body } = await daemon.decide('/flags/?v=2', { distinct_id: 'a' }, 2)
    t.strictSame(Object.keys(body['flags'] as object), active ? ['beta'] : [])
  }
})

t.test('definitions for local evaluation are returned', async (t) => {
  const api = apiOf(3)
  await daemon.capture(
    [
      {
        event: '$groupidentify',
        distinct_id: 'a',
        properties: { $group_type: 'company', $group_key: 'acme' },
      },
    ],
    3,
  )
  const path = `${FLAGS}local_evaluation`
  t.match((await api('GET', path)).body, {
    flags: [],
    cohorts: {},
    group_type_mapping: { 0: 'company' },
  })
  const inner = await createCohort(api, { type: 'OR', values: [person('plan', 'pro')] })
  const outer = await createCohort(api, {
    type: 'OR',
    values: [{ type: 'AND', values: [{ key: 'id', type: 'cohort', value: inner }] }],
  })
  const fixed = await api('POST', 'cohorts/', { name: 'Fixed', is_static: true })
  const a = await create(api, 'a')
  const b = await create(api, 'b', { filters: onFlag(a) })
  await create(api, 'c', { filters: onFlag(b, false) })
  const cohortFilter = (id: unknown) => ({ key: 'id', type: 'cohort', value: id })
  const inCohorts = onProperties(cohortFilter(outer), cohortFilter(fixed.body['id']))
  const flag = await api('POST', FLAGS, { key: 'd', filters: inCohorts })
  t.match(flag.body['filters'], {
    groups: [{ properties: [{ cohort_name: 'Pro users' }, { cohort_name: 'Fixed' }] }],
  })
  const d = Number(flag.body['id'])
  await api('PATCH', `${FLAGS}${d}/`, { active: false })
  await api('PATCH', `${FLAGS}${await create(api, 'e')}/`, { deleted: true })
  await create(api, 'f', { is_remote_configuration: true })
  const plain = await api('GET', path)
  const listed = plain.body['flags'] as { key: string; filters: JsonObject }[]
  t.strictSame(
    listed.map(({ key }) => key),
    ['a', 'b', 'c', 'd'],
  )
  t.strictSame(listed[0], {
    id: a,
    team_id: daemon.idOf(3),
    name: '',
    key: 'a',
    filters: { groups: [{ properties: [], rollout_percentage: null }] },
    deleted: false,
    active: true,
    ensure_experience_continuity: false,
    has_encrypted_payloads: false,
    has_experiment: false,
    version: 1,
    evaluation_runtime: 'all',
    bucketing_identifier: null,
    evaluation_tags: [],
    evaluation_contexts: [],
  })
  const chain = (index: number) => {
    const { groups } = listed[index]?.filters ?? {}
    return (groups as { properties: JsonObject[] }[])[0]?.properties[0]
  }
  t.match(chain(1), { key: 'a', dependency_chain: ['a'], value: true })
  t.match(chain(2), { key: 'b', dependency_chain: ['a', 'b'], value: false })
  t.strictSame(plain.body['cohorts'], {})
  t.notOk(JSON.stringify(plain.body).includes('cohort_name'))
  for (const query of ['send_cohorts', 'send_cohorts=true', 'send_cohorts=1']) {
    const { cohorts } = (await api('GET', `${path}?${query}`)).body
    t.strictSame(Object.keys(cohorts as object), [String(inner), String(outer)], query)
  }
  t.strictSame((await api('GET', `${path}?send_cohorts=false`)).body['cohorts'], {})
  const { etag } = plain.headers
  t.match(etag, /^W\/"[0-9a-f]{16}"$/)
  t.equal(plain.headers['cache-control'], 'private, must-revalidate')
  const conditional = (ifNoneMatch: string) =>
    send(`${daemon.url}${daemon.path(3, path)}/`, {
      headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'If-None-Match': ifNoneMatch },
    })
  for (const known of [String(etag), String(etag).slice(2), `"x", ${String(etag)}`]) {
    const answer = await conditional(known)
    t.equal(answer.status, 304, known)
    t.equal(answer.body.length, 0)
    t.equal(answer.headers.etag, etag)
  }
  t.equal((await conditional('W/"0123456789abcdef"')).status, 200)
  await api('PATCH', `${FLAGS}${a}/`, { name: 'changed' })
  t.equal((await conditional(String(etag))).status, 200, 'a change gives another ETag')
})

t.test(
  'remote configuration is read by number or key, with a personal or a secret key',
  async (t) => {
    const api = apiOf(2)
    const store = new OrganizationStore(daemon.dataDir)
    t.teardown(() => store.close())
    const secret = store.projects.keys.createSecret({ projectId: daemon.idOf(2) }).text
    await daemon.settled()
    const payloads = { true: { a: [1, 'x'] } }
    const remote = { is_remote_configuration: true }
    const id = await create(api, 'remote', { ...remote, filters: { groups: EVERYONE, payloads } })
    await create(api, 'bare', remote)
    await create(api, 'plain', { filters: { groups: EVERYONE, payloads } })
    for (const name of [id, 'remote']) {
      const answer = await api('GET', `${FLAGS}${name}/remote_config`)
      t.equal(answer.status, 200)
      t.equal(answer.body, '{"a":[1,"x"]}', 'its JSON as text')
    }
    t.equal((await api('GET', `${FLAGS}bare/remote_config/`)).body, null)
    const missing = ['plain', 'unknown', '999999']
    for (const name of missing) {
      const answer = await api('GET', `${FLAGS}${name}/remote_config/`)
      t.equal(answer.status, 404)
      t.equal(answer.headers['content-length'], '0')
    }
    const ask = (project: number | '@current', path: string) =>
      daemon.ask(`/api/projects/${project}/${FLAGS}${path}`, {
        headers: { Authorization: `Bearer ${secret}` },
      })
    t.equal((await ask(daemon.idOf(2), 'remote/remote_config/')).body, '{"a":[1,"x"]}')
    t.strictSame((await ask('@current', `remote/remote_config?token=${daemon.key(2)}`)).status, 200)
    t.equal((await ask(daemon.idOf(2), 'local_evaluation/')).status, 200)
    t.match(
      await ask(daemon.idOf(3), 'local_evaluation/'),
      { status: 403 },
      'a flag of another project',
    )
    t.match(await ask(daemon.idOf(2), ''), { status: 401 }, 'a secret key reads nothing else')
    t.match(await ask(daemon.idOf(2), `remote/remote_config?token=phc_unknown`), {
      status: 401,
      body: { code: 'authentication_failed' },
    })
  },
)

t.test('posthog-node reads the stored payload, of any type', async (t) => {
  const api = apiOf(3)
  const client = new PostHog(daemon.key(3), { host: daemon.url, personalApiKey: PERSONAL_KEY })
  t.teardown(() => client.shutdown())
  // The JSON text of the flag, the bytes of the answer, and the value that the SDK returns. posthog-python returns the
  // JSON value of the answer, which is the text.
  for (const [index, [text, bytes, value]] of [
    ['"42"', String.raw`"\"42\""`, '42'],
    ['42', '"42"', 42],
    ['{"a":1}', String.raw`"{\"a\":1}"`, { a: 1 }],
    ['true', '"true"', true],
    ['null', '"null"', null],
    ['"größe \u2028"', JSON.stringify('"größe \u2028"'), 'größe \u2028'],
  ].entries()) {
    const key = `config-${index}`
    const filters = { groups: EVERYONE, payloads: { true: text } }
    await create(api, key, { is_remote_configuration: true, filters })
    const answer = await send(`${daemon.url}${daemon.path(3, FLAGS)}${key}/remote_config`, {
      headers: { Authorization: `Bearer ${PERSONAL_KEY}` },
    })
    t.equal(answer.body.toString(), bytes)
    t.match(answer.headers, { 'content-type': 'application/json' })
    t.strictSame(await client.getRemoteConfigPayload(key), value)
  }
})

t.test('the reach of a condition is counted', async (t) => {
  const api = apiOf(4)
  const people = Array.from({ length: 12 }, (_, index) => ({
    event: 'e',
    distinct_id: `p${index}`,
    properties: { $set: { plan: index < 3 ? 'Pro' : 'free', n: index } },
  }))
  const companies = ['acme', 'zeta'].map((key) => ({
    event: '$groupidentify',
    distinct_id: 'p0',
    properties: { $group_type: 'company', $group_key: key, $group_set: { size: key.length } },
  }))
  await daemon.capture([...people, ...companies], 4)
  const cohort = await createCohort(api, { type: 'OR', values: [person('plan', 'free')] })
  const reach = async (condition: unknown, more: JsonObject = {}) => {
    const body = { condition, ...more }
    const answer = await api('POST', `${FLAGS}user_blast_radius`, body)
    return answer.status === 200
      ? [answer.body['users_affected'], answer.body['total_users']]
      : [answer.status, answer.body['code'], answer.body['attr']]
  }
  t.strictSame(
    await reach({ properties: [person('plan', 'pro')] }),
    [3, 12],
    'by the rules of flags',
  )
  t.strictSame(
    await reach({ properties: [person('n', '8', 'gt')], rollout_percentage: 1 }),
    [3, 12],
  )
  t.strictSame(await reach({ properties: [person('x', 'y', 'is_not')] }), [12, 12])
  for (const everyone of [null, {}, { properties: [] }, { rollout_percentage: 50 }]) {
    t.strictSame(await reach(everyone), [12, 12])
  }
  const inCohort = { key: 'id', type: 'cohort', value: cohort }
  t.strictSame(await reach({ properties: [inCohort] }), [9, 12])
  const size = { key: '$group_key', type: 'group', group_type_index: 0, value: 'acme' }
  const byGroup = { group_type_index: 0 }
  t.strictSame(await reach({ properties: [size] }, byGroup), [1, 2])
  t.strictSame(await reach({}, byGroup), [2, 2])
  t.strictSame(await reach({}, { group_type_index: 3 }), [0, 0], 'there is no such group type')
  t.strictSame(await reach({ properties: [size] }), [400, 'invalid_input', null])
  t.strictSame(await reach({ properties: [size] }, { group_type_index: 1 }), [
    400,
    'invalid_input',
    null,
  ])
  t.strictSame(await reach({}, { group_type_index: 'x' }), [400, 'invalid_input', null])
  t.strictSame(await reach([]), [400, 'invalid_input', null])
  t.strictSame(await reach({ properties: 'x' }), [400, 'invalid_input', null])
  t.match(await api('POST', `${FLAGS}user_blast_radius/`, {}), {
    status: 400,
    body: { code: 'invalid_input', attr: null },
  })
  const hostile = person('plan', '(a+)+$', 'regex')
  t.strictSame(await reach({ properties: [hostile] }), [0, 12])
})
