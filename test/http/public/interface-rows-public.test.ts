/**
 * Keys, errors and versions, for each row of the interface description, sections 5, 7 and 9.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { ERROR_CODES } from '../../../src/base/errors.ts'
import type { JsonObject } from '../../../src/base/json.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { FLAGS, shareInterface } from '../../fixtures/interface-daemon.ts'
import { testRows } from '../../fixtures/interface-rows.ts'

const VARIANTS = [
  { key: 'red', rollout_percentage: 100 },
  { key: 'blue', rollout_percentage: 0 },
]

const server = await shareInterface(t)
const { daemon } = server
const EVENT = { event: 'bought', distinct_id: 'ann' }
/** Each public path with a body that is valid except for the key. */
const PUBLIC: readonly (readonly [string, JsonObject])[] = [
  ['/capture/', EVENT],
  ['/batch/', { batch: [EVENT] }],
  ['/decide/?v=3', { distinct_id: 'ann' }],
]

async function refusals(t: Test, body: JsonObject, expected: JsonObject): Promise<void> {
  for (const [path, rest] of PUBLIC) {
    const answer = await daemon.ask(path, { json: { ...rest, ...body } })
    const { status, ...members } = expected
    t.equal(answer.status, status, path)
    t.match(answer.body, { ...members, detail: /\S/ }, path)
  }
}

t.test('authentication', (t) =>
  testRows(
    t,
    ['5'],
    [
      [
        '5 Private endpoints',
        async (t) => {
          const path = daemon.path(1, FLAGS)
          const ask = async (authorization: string): Promise<number> =>
            (await daemon.ask(path, { headers: { Authorization: authorization } })).status
          t.equal(await ask(`Bearer ${PERSONAL_KEY}`), 200)
          t.equal(
            await ask(`Bearer ${daemon.key()}`),
            401,
            'a project key gives no access to private routes',
          )
          t.equal(await ask(PERSONAL_KEY), 401)
          t.match(await daemon.ask(path), { status: 401, body: { code: 'not_authenticated' } })
        },
      ],
      [
        '5 Public endpoints',
        async (t) => {
          for (const [path, body] of PUBLIC) {
            const answer = await daemon.ask(path, { json: { ...body, api_key: daemon.key() } })
            t.equal(answer.status, 200, path)
          }
        },
      ],
      [
        '5 rule 1: project key or personal key',
        async (t) => {
          const named = { api_key: PERSONAL_KEY, project_id: daemon.idOf(2) }
          for (const [path, body] of PUBLIC) {
            const answer = await daemon.ask(path, { json: { ...body, ...named } })
            t.equal(answer.status, 200, path)
          }
        },
      ],
      [
        '5 rule 2: invalid keys',
        async (t) => {
          await refusals(t, { api_key: 'phc_unknown' }, { status: 401, code: 'invalid_api_key' })
          const personal = { api_key: 'phx_unknown', project_id: daemon.idOf() }
          await refusals(t, personal, { status: 401, code: 'invalid_personal_api_key' })
        },
      ],
      [
        '5 rule 3: scopes',
        async (t) => {
          const made = await server.organization('POST', '/api/personal_api_keys/', {
            label: 'reader',
            scopes: ['feature_flag:read'],
          })
          t.equal(made.status, 201)
          const headers = { Authorization: `Bearer ${String(made.body['value'])}` }
          const path = daemon.path(1, FLAGS)
          t.equal((await daemon.ask(path, { headers })).status, 200)
          const refused = await daemon.ask(path, { method: 'POST', headers, json: { key: 'x' } })
          t.match(refused, { status: 403, body: { code: 'permission_denied' } })
        },
      ],
    ],
  ),
)

t.test('errors', (t) =>
  testRows(
    t,
    ['7'],
    [
      [
        '7 200',
        async (t) => {
          for (const [path, body] of PUBLIC.slice(0, 2)) {
            const { status, body: answer } = await daemon.ask(path, {
              json: { ...body, api_key: daemon.key() },
            })
            t.equal(status, 200)
            t.strictSame(answer, { status: 1 })
          }
        },
      ],
      [
        '7 400 invalid_project',
        (t) =>
          refusals(
            t,
            { api_key: PERSONAL_KEY, project_id: 99_999 },
            { status: 400, type: 'validation_error', code: 'invalid_project', attr: 'project_id' },
          ),
      ],
      [
        '7 401 invalid_api_key',
        (t) =>
          refusals(
            t,
            { api_key: 'phc_nobody' },
            { status: 401, type: 'authentication_error', code: 'invalid_api_key', attr: null },
          ),
      ],
      [
        '7 401 invalid_personal_api_key',
        (t) =>
          refusals(
            t,
            { api_key: 'phx_nobody', project_id: daemon.idOf() },
            {
              status: 401,
              type: 'authentication_error',
              code: 'invalid_personal_api_key',
              attr: null,
            },
          ),
      ],
      [
        '7 503 fetch_team_fail',
        async (t) => {
          t.notOk(Object.hasOwn(ERROR_CODES, 'fetch_team_fail'), 'projects are in memory')
          const schema = await fetch(`${daemon.url}/api/schema/`)
          t.notMatch(await schema.text(), 'fetch_team_fail')
        },
      ],
      [
        '7 Silent cases',
        async (t) => {
          for (const event of [
            { distinct_id: 'mute' },
            { event: '' },
            { event: 'a', distinct_id: '' },
          ]) {
            const answer = await daemon.ask('/capture/', {
              json: { ...event, api_key: daemon.key() },
            })
            t.match(answer, { status: 200, body: { status: 1 } })
          }
          await daemon.capture([{ event: 'loud', distinct_id: 'ann' }])
          const { body } = await server.api('GET', 'events/?distinct_id=mute')
          t.strictSame(body['results'], [])
        },
      ],
    ],
  ),
)

t.test('versions of /decide/', async (t) => {
  const on = await server.makeFlag({ key: 'plain' })
  await server.makeFlag({ key: 'nobody', filters: { groups: [{ rollout_percentage: 0 }] } })
  await server.makeFlag({
    key: 'coloured',
    filters: { groups: [{}], multivariate: { variants: VARIANTS }, payloads: { red: '{"a":1}' } },
  })
  const ask = async (query: string, more: JsonObject = {}): Promise<JsonObject> => {
    const { status, body } = await daemon.decide(`/decide/${query}`, {
      distinct_id: 'ann',
      ...more,
    })
    t.equal(status, 200)
    return body
  }
  await testRows(
    t,
    ['9'],
    [
      [
        '9 v=1',
        async (t) => {
          const expected = [on['key'], 'coloured']
          t.strictSame((await ask('?v=1'))['featureFlags'], expected)
          t.strictSame((await ask(''))['featureFlags'], expected, 'the default')
        },
      ],
      [
        '9 v=2',
        async (t) => {
          const { featureFlags, ...rest } = await ask('?v=2')
          t.strictSame(featureFlags, { plain: true, coloured: 'red' })
          t.notOk('featureFlagPayloads' in rest || 'errorComputingFlags' in rest)
        },
      ],
      [
        '9 v=3',
        async (t) => {
          const answer = await ask('?v=3')
          t.strictSame(answer['featureFlags'], { plain: true, nobody: false, coloured: 'red' })
          t.strictSame(answer['featureFlagPayloads'], { coloured: '{"a":1}' })
          t.equal(answer['errorComputingFlags'], false)
          const properties = [{ key: 'plan', type: 'person', value: 'paid', operator: 'exact' }]
          await server.makeFlag({ key: 'paying', filters: { groups: [{ properties }] } })
          const paid = await ask('?v=3', { person_properties: { plan: 'paid' } })
          t.match(paid['featureFlags'], { paying: true })
          t.match((await ask('?v=3'))['featureFlags'], { paying: false })
        },
      ],
    ],
  )
})
