/**
 * Personal keys, scopes and projects on private routes, over HTTP.
 *
 * @lane quick
 */
import t from 'tap'
import { authenticate, authoriseAs, type KeyGrant } from '../../../src/http/server/auth.ts'
import { type ApiRequest, json } from '../../../src/http/server/router.ts'
import { hasScope, type Scope } from '../../../src/rules/access/scopes.ts'
import { jsonOf, startServer, talk } from '../../fixtures/http-client.ts'

const project = (id: number) => ({ id, apiKey: `phc_${id}`, isIpAnonymized: false })
const PROJECTS = new Map([1, 2, 3].map((id) => [id, project(id)]))
const KEYS = new Map<string, KeyGrant>([
  ['phx_all', { scopes: ['*'], projectIds: 'all' }],
  ['phx_read', { scopes: ['event:read'], projectIds: 'all' }],
  ['phx_write', { scopes: ['event:write'], projectIds: 'all' }],
  ['phx_other', { scopes: ['feature_flag:write'], projectIds: 'all' }],
  ['phx_limited', { scopes: ['*'], projectIds: [3, 2] }],
])
const DIRECTORY = {
  personalKeyByText: (text: string) => KEYS.get(text) ?? null,
  projectById: (id: number) => PROJECTS.get(id) ?? null,
  projectByKey: (key: string) =>
    [...PROJECTS.values()].find(({ apiKey }) => apiKey === key) ?? null,
  projects: () => [...PROJECTS.values()],
}

function authorise(request: ApiRequest, scope: Scope) {
  const segment = request.parameter('project_id')
  return authoriseAs(authenticate(request, DIRECTORY), request, DIRECTORY, scope, segment)
}

const { port } = await startServer(t, (server) => {
  const path = '/api/projects/:project_id/things/'
  server.routes([
    {
      method: 'GET',
      path,
      handler: (request) => json({ project: authorise(request, 'event:read').id }),
    },
    {
      method: 'POST',
      path,
      handler: (request) => {
        const { id } = authorise(request, 'event:write')
        request.json()
        return json({ project: id })
      },
    },
  ])
})

interface Ask {
  readonly project?: string
  readonly authorization?: string
  readonly query?: string
  readonly body?: string
  /** The header X-PostHog-Project-Api-Key. */
  readonly projectKey?: string
}

/** `200 <project>` or `<status> <code>`. */
async function ask(asked: Ask): Promise<string> {
  const { project = '1', authorization, query = '', body, projectKey } = asked
  const named = projectKey === undefined ? '' : `X-PostHog-Project-Api-Key: ${projectKey}\r\n`
  const headers = named + (authorization === undefined ? '' : `Authorization: ${authorization}\r\n`)
  const start = `${body === undefined ? 'GET' : 'POST'} /api/projects/${project}/things/${query}`
  const length = body === undefined ? '' : `Content-Length: ${body.length}\r\n`
  const bytes = `${start} HTTP/1.1\r\nHost: a\r\n${headers}${length}\r\n${body ?? ''}`
  const received = await talk(port, bytes, { answers: 1 })
  const answer = jsonOf(received) as { project?: number; code?: string; type?: string }
  return `${received.statuses[0]} ${answer.project ?? answer.code}`
}

t.test('only a Bearer header with a known key authenticates a request', async (t) => {
  const cases: Record<string, string> = {
    'Bearer phx_all': '200 1',
    'Bearer   phx_all': '200 1',
    'Bearer\tphx_all': '200 1',
    '': '401 not_authenticated',
    Bearer: '401 not_authenticated',
    'Bearer x': '401 not_authenticated',
    'bearer phx_all': '401 not_authenticated',
    'BEARER phx_all': '401 not_authenticated',
    'Basic cGh4X2FsbDo=': '401 not_authenticated',
    phx_all: '401 not_authenticated',
    'Bearer phx_al': '401 authentication_failed',
    'Bearer phx_all phx_all': '401 authentication_failed',
    'Bearer PHX_ALL': '401 authentication_failed',
    'Bearer phc_1': '401 authentication_failed',
    'Bearer __proto__': '401 authentication_failed',
    'Bearer constructor': '401 authentication_failed',
    'Bearer ["phx_all"]': '401 authentication_failed',
    [`Bearer ${'k'.repeat(10_000)}`]: '401 authentication_failed',
  }
  for (const [authorization, expected] of Object.entries(cases)) {
    t.equal(await ask({ authorization }), expected, authorization.slice(0, 40))
  }
})

t.test('only the first position that holds a key is tried: header, body, query', async (t) => {
  const good = '{"personal_api_key":"phx_all"}'
  const bad = '{"personal_api_key":"phx_no"}'
  const cases: readonly (readonly [Ask, string])[] = [
    [{ query: '?personal_api_key=phx_all' }, '200 1'],
    [{ query: '?personal_api_key=phx_no' }, '401 authentication_failed'],
    [{ query: '?personal_api_key=' }, '401 not_authenticated'],
    [{ body: good }, '200 1'],
    [{ body: bad, query: '?personal_api_key=phx_all' }, '401 authentication_failed'],
    [
      { body: '{"personal_api_key":7}', query: '?personal_api_key=phx_all' },
      '401 authentication_failed',
    ],
    [{ body: '{"personal_api_key":null}', query: '?personal_api_key=phx_all' }, '200 1'],
    [{ body: '{}', query: '?personal_api_key=phx_all' }, '200 1'],
    [{ body: good, authorization: 'Bearer phx_no' }, '401 authentication_failed'],
    [
      { authorization: 'Bearer phx_no', query: '?personal_api_key=phx_all' },
      '401 authentication_failed',
    ],
    [{ authorization: 'Basic x', query: '?personal_api_key=phx_all' }, '200 1'],
    [{ body: '{"__proto__":{"personal_api_key":"phx_all"}}' }, '401 not_authenticated'],
    [{ body: '{broken' }, '401 not_authenticated'],
    [{ body: '{broken', authorization: 'Bearer phx_all' }, '400 parse_error'],
  ]
  for (const [given, expected] of cases) t.equal(await ask(given), expected, JSON.stringify(given))
})

t.test('the project is a number or @current; any other value is not found', async (t) => {
  const authorization = 'Bearer phx_all'
  const cases: Record<string, string> = {
    '2': '200 2',
    '@current': '200 1',
    '%40current': '200 1',
  }
  for (const unknown of [
    '4',
    '0',
    '-1',
    '1e0',
    '0x1',
    '01',
    '1.0',
    '__proto__',
    '%20',
    '9'.repeat(2000),
  ]) {
    cases[unknown] = '404 not_found'
  }
  for (const [project, expected] of Object.entries(cases)) {
    t.equal(await ask({ project, authorization }), expected, project.slice(0, 20))
  }
})

t.test('a limited key gets the same answer for existing and unknown projects', async (t) => {
  const authorization = 'Bearer phx_limited'
  t.equal(await ask({ project: '2', authorization }), '200 2')
  t.equal(
    await ask({ project: '@current', authorization }),
    '200 2',
    'the first project that the key may use',
  )
  t.equal(await ask({ project: '1', authorization }), '403 permission_denied')
  t.equal(await ask({ project: '99', authorization }), '403 permission_denied')
  t.equal(await ask({ project: 'x', authorization }), '404 not_found')
})

t.test('a token in the query overrides the project of the path', async (t) => {
  const authorization = 'Bearer phx_all'
  t.equal(await ask({ authorization, query: '?token=phc_2' }), '200 2')
  t.equal(await ask({ project: '99', authorization, query: '?token=phc_2' }), '200 2')
  t.equal(await ask({ authorization, query: '?token=phc_9' }), '401 authentication_failed')
  t.equal(await ask({ authorization, query: '?token=' }), '401 authentication_failed')
  t.equal(
    await ask({ query: '?token=phc_2' }),
    '401 not_authenticated',
    'a token does not authenticate',
  )
  const limited = 'Bearer phx_limited'
  t.equal(await ask({ authorization: limited, query: '?token=phc_1' }), '403 permission_denied')
})

t.test('a project key in a header names the project of @current, and of no number', async (t) => {
  const asked = { authorization: 'Bearer phx_all', projectKey: 'phc_3' }
  t.equal(await ask({ ...asked, project: '@current' }), '200 3')
  t.equal(await ask({ ...asked, project: '@current', query: '?token=phc_2' }), '200 2')
  t.equal(await ask({ ...asked, project: '2' }), '200 2')
  const unknown = { ...asked, projectKey: 'phc_9' }
  t.equal(await ask({ ...unknown, project: '@current' }), '401 authentication_failed')
  t.equal(await ask({ ...unknown, project: '2' }), '200 2')
  const limited = { authorization: 'Bearer phx_limited', projectKey: 'phc_1' }
  t.equal(await ask({ ...limited, project: '@current' }), '403 permission_denied')
})

t.test('scopes: write includes read, and * includes all', async (t) => {
  t.equal(await ask({ authorization: 'Bearer phx_read' }), '200 1')
  t.equal(await ask({ authorization: 'Bearer phx_write' }), '200 1')
  t.equal(await ask({ authorization: 'Bearer phx_other' }), '403 permission_denied')
  t.equal(await ask({ authorization: 'Bearer phx_read', body: '{}' }), '403 permission_denied')
  t.equal(await ask({ authorization: 'Bearer phx_write', body: '{}' }), '200 1')
  t.notOk(hasScope([], 'event:read'))
  t.notOk(hasScope(['event:read'], 'event:write'))
  t.notOk(hasScope(['events:read', 'event'], 'event:read'))
})
