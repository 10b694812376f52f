/**
 * Tests the audit log: every change through the private API and the command line leaves an entry.
 *
 * @lane quick
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { ServiceError } from '../../src/base/errors.ts'
import { AuditTrail } from '../../src/engine/front/audit-trail.ts'
import { buildDocument } from '../../src/http/openapi/document.ts'
import { audited } from '../../src/http/server/audit.ts'
import type { Answer } from '../../src/http/server/respond.ts'
import type { ApiRequest } from '../../src/http/server/router.ts'
import { TrustedProxies } from '../../src/http/server/url.ts'
import type { AuditEntry } from '../../src/rules/access/audit-entry.ts'
import { AuditLog } from '../../src/store/catalog/audit-log.ts'
import { DirectoryEnvironment } from '../../src/store/catalog/directory-environment.ts'
import { linesOf, runCommand } from '../fixtures/command-line.ts'
import { Differences } from '../fixtures/differences.ts'
import { send } from '../fixtures/exact-client.ts'
import { type JsonAnswer, PERSONAL_KEY } from '../fixtures/flags/decision-daemon.ts'
import { resultsOf, startOrganization } from '../fixtures/organization-daemon.ts'

const daemon = await startOrganization(t)
const LOG = 'organizations/@current/audit_log/'
const READ_ONLY = [
  'funnel/',
  'funnel/correlation/',
  'path/',
  'user_blast_radius/',
  'rehearse/',
  'rehearse_copy/',
  '/feature_flags/plan/',
  '/scheduled_changes/preview/',
  '/query/',
  '/query/{id}/',
]
/** Ids of objects that do not exist, so that the walk changes nothing. */
const SEGMENTS: Readonly<Record<string, string>> = { org_id: '@current', project_id: '2' }

/** The parts of a request that an entry is made of. */
const REQUEST = {
  peerAddress: '192.0.2.1',
  head: { forwardedFor: '' },
  caller: { source: 'api', userId: 1, keyId: 1 },
  parameters: [],
  projectId: null,
  objectId: null,
}

interface DescribedOperation {
  readonly security?: readonly object[]
}

const DOCUMENT = buildDocument() as unknown as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DescribedOperation>>>>
}

/** Every described operation for personal keys with a method that can change data. */
function changingOperations(): readonly { readonly method: string; readonly path: string }[] {
  return Object.entries(DOCUMENT.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => !['get', 'head', 'options'].includes(method))
      .filter(([, { security = [] }]) => security.some((door) => 'personalKey' in door))
      .map(([method]) => ({ method: method.toUpperCase(), path })),
  )
}

async function newest(): Promise<Readonly<Record<string, unknown>>> {
  const [entry = {}] = resultsOf(await daemon.ask('GET', `${LOG}?limit=1`))
  return entry
}

function entryOf(n: number): AuditEntry {
  return {
    atMs: n,
    source: 'api',
    userId: 1,
    keyId: 1,
    account: null,
    address: '192.0.2.1',
    projectId: null,
    method: 'PATCH',
    route: '/api/x/',
    objectId: String(n),
    status: 200,
  }
}

t.test('every operation that can change data leaves an entry', async (t) => {
  const operations = changingOperations()
  t.ok(operations.length > 30, `there are ${operations.length} operations`)
  let lastId = 0
  const differences = new Differences()
  for (const { method, path } of operations) {
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => SEGMENTS[name] ?? '987654')
    const answer = await daemon.ask(method, filled.replace('/api/', ''), {})
    const entry = await newest()
    const what = `${method} ${path}`
    if (READ_ONLY.some((end) => path.endsWith(end))) {
      differences.equal(entry['id'] ?? 0, lastId, `${what} only reads`)
      continue
    }
    differences.match(
      entry,
      {
        id: lastId + 1,
        source: 'api',
        user: { email: 'owner@localhost' },
        personal_api_key_id: 1,
        account: null,
        address: '127.0.0.1',
        project_id: path.includes('{project_id}') ? 2 : null,
        method,
        route: path.replace(/\{(\w+)\}/g, ':$1'),
        status: answer.status,
      },
      what,
    )
    differences.ok(answer.status < 500, `${what} answers ${answer.status}`)
    lastId = Number(entry['id'])
  }
  t.strictSame(differences.list(), [], 'every operation leaves its entry, and no other one does')
})

t.test('an entry describes the change, without bodies, queries and keys', async (t) => {
  const path = 'personal_api_keys/?personal_api_key=phx_not_looked_at'
  const made = await daemon.ask('POST', path, { label: 'deep secret', scopes: ['event:read'] })
  t.equal(made.status, 201)
  const entry = await newest()
  t.match(entry, { object_id: String(made.body['id']), status: 201, project_id: null })
  const text = JSON.stringify((await daemon.ask('GET', `${LOG}?limit=1000`)).body)
  for (const secret of [PERSONAL_KEY, String(made.body['value']), 'deep secret', 'not_looked_at']) {
    t.notOk(text.includes(secret))
  }
  await daemon.ask('DELETE', `personal_api_keys/${PERSONAL_KEY}/`)
  t.match(await newest(), { method: 'DELETE', object_id: null, status: 404 })
})

t.test('a change leaves one entry, with the status and the object of its answer', async (t) => {
  const idOf = (answer: JsonAnswer): string => String(answer.body['id'])
  const entryCount = async () => Number((await daemon.ask('GET', `${LOG}?limit=1`)).body['count'])
  const change = async (
    [method, path, body]: readonly [string, string, object?],
    object?: string | null,
  ): Promise<JsonAnswer> => {
    const before = await entryCount()
    const answer = await daemon.ask(method, path, body)
    t.ok(answer.status < 300, `${method} ${path} answers ${answer.status}`)
    t.equal(await entryCount(), before + 1, `${method} ${path} leaves one entry`)
    const objectId = object === undefined ? idOf(answer) : object
    t.match(await newest(), { method, status: answer.status, object_id: objectId }, path)
    return answer
  }
  const roles = 'organizations/@current/roles/'
  const access = 'organizations/@current/resource_access/'
  const flags = 'projects/1/feature_flags/'
  const role = idOf(await change(['POST', roles, { name: 'Noted' }]))
  await change(['PATCH', `${roles}${role}/`, { name: 'Noted again' }])
  const { user } = daemon.somebody({ email: 'noted@x.example' })
  await daemon.settled()
  const member = { user_uuid: user.uuid }
  const membership = idOf(await change(['POST', `${roles}${role}/role_memberships/`, member]))
  const flag = idOf(await change(['POST', flags, { key: 'noted' }]))
  await change(['PATCH', `${flags}${flag}/`, { name: 'x' }])
  await change(['POST', `${flags}${flag}/dashboard/`], flag)
  const opened = idOf(await change(['POST', `${flags}${flag}/role_access/`, { role_id: role }]))
  await change(['DELETE', `${flags}${flag}/role_access/${opened}/`], opened)
  await change(['DELETE', `${roles}${role}/role_memberships/${membership}/`], membership)
  await change(['DELETE', `${roles}${role}/`], role)
  const rule = { resource: 'feature flags', access_level: 37 }
  await change(['POST', access, rule], '1')
  await change(['PATCH', `${access}1/`, { access_level: 21 }], '1')
  await change(['DELETE', `${access}1/`], '1')
  const userPath = `organizations/@current/members/${user.uuid}/`
  await change(['PATCH', userPath, { level: 8 }], user.uuid)
  await change(['DELETE', userPath], user.uuid)
  const scopes = ['event:read']
  const key = idOf(await change(['POST', 'personal_api_keys/', { label: 'noted', scopes }]))
  await change(['PATCH', `personal_api_keys/${key}/`, { label: 'again' }])
  await change(['POST', `personal_api_keys/${key}/roll/`])
  await change(['DELETE', `personal_api_keys/${key}/`], key)
  const secret = idOf(await change(['POST', 'projects/1/secret_keys/', { label: 'noted' }]))
  await change(['POST', `projects/1/secret_keys/${secret}/roll/`])
  await change(['DELETE', `projects/1/secret_keys/${secret}/`], secret)
  await change(['PATCH', 'projects/1/', { name: 'Noted' }], null)
  await change(['POST', 'projects/', { name: 'Made' }])
  const action = idOf(await change(['POST', 'projects/1/actions/', { name: 'noted', steps: [] }]))
  await change(['PATCH', `projects/1/actions/${action}/`, { name: 'again' }], action)
})

t.test('every change leaves an entry, whatever form its answer has', async (t) => {
  const { decisions } = daemon
  const project = 'projects/2/'
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const names = Array.from({ length: 30 }, (_, index) => `person-${index}`)
  await decisions.capture(
    names.map((name) => ({ event: 'e', distinct_id: name, properties: { $set: { plan: 'a' } } })),
    2,
  )
  const persons = resultsOf(await daemon.ask('GET', `${project}persons/?limit=100`))
  let personCount = 0
  const takePerson = (): string => String(persons[personCount++]?.['uuid'])
  const things: Record<string, string> = {
    person: String(persons.at(-1)?.['uuid']),
    action: '',
    cohort: '',
  }
  /** Routes that answer with a table on request, with the objects that they create or change. */
  const changes: readonly (readonly [method: string, path: () => string, json: unknown])[] = [
    ['POST', () => `persons/${takePerson()}/split/`, {}],
    ['POST', () => `persons/${takePerson()}/delete_property/`, { $unset: 'plan' }],
    ['POST', () => `persons/${takePerson()}/update_property/`, { key: 'plan', value: 'b' }],
    ['POST', () => `persons/${things['person']}/merge/`, null],
    ['PATCH', () => `persons/${takePerson()}/`, { properties: { plan: 'c' } }],
    ['PUT', () => `persons/${takePerson()}/`, { properties: { plan: 'd' } }],
    ['DELETE', () => `persons/${takePerson()}/`, undefined],
    ['POST', () => 'cohorts/', { name: 'c', filters: { properties: [] } }],
    ['POST', () => 'cohorts/', { name: 'c', is_static: true }],
    ['POST', () => 'actions/', { name: 'a', steps: [] }],
    ['PATCH', () => `cohorts/${things['cohort']}/`, { name: 'd' }],
    ['PATCH', () => `actions/${things['action']}/`, { name: 'b' }],
    ['POST', () => 'feature_flags/', { key: 'not a key' }],
    ['DELETE', () => 'feature_flags/1/', undefined],
  ]
  const cohort = { name: 'c', is_static: true }
  things['cohort'] = String((await daemon.ask('POST', `${project}cohorts/`, cohort)).body['id'])
  const action = { name: 'a', steps: [] }
  things['action'] = String((await daemon.ask('POST', `${project}actions/`, action)).body['id'])
  const forms: readonly (readonly [query: string, headers: Readonly<Record<string, string>>])[] = [
    ['', {}],
    ['?format=csv', {}],
    ['?format=json', {}],
    ['?format=xml', {}],
    ['', { Accept: 'text/csv' }],
    ['', { Accept: 'text/csv, application/json;q=0.5' }],
  ]
  const differences = new Differences()
  for (const [method, path, json] of changes) {
    for (const [query, form] of forms) {
      const { id: lastId } = await newest()
      const url = `${decisions.url}/api/${project}${path()}${query}`
      const sent = json === null ? { ids: [takePerson()] } : json
      const answer = await send(url, {
        method,
        headers: { ...headers, ...form, 'Content-Type': 'application/json' },
        ...(sent === undefined ? {} : { body: JSON.stringify(sent) }),
      })
      const what = `${method} ${url} ${JSON.stringify(form)}: ${answer.body.toString().slice(0, 200)}`
      differences.ok(answer.status < 500, `${what} answers ${answer.status}`)
      const wanted = { id: Number(lastId) + 1, method, status: answer.status, project_id: 2 }
      const entry = await newest()
      differences.match(entry, wanted, what)
      if (answer.status === 201) differences.match(entry['object_id'], /^[0-9]+$/, what)
    }
  }
  t.strictSame(differences.list(), [], 'every request leaves the entry of its status')
})

t.test('an answer of any form and status leaves its entry', async (t) => {
  const entries: AuditEntry[] = []
  const noted = (answer: () => Answer | Promise<Answer>) =>
    audited(
      { method: 'POST', path: '/api/x/', handler: async () => answer() },
      {
        record: async (entry) => {
          entries.push(entry)
        },
        clock: SYSTEM_CLOCK,
        trustedProxies: new TrustedProxies([]),
      },
    )
  const differences = new Differences()
  const bodies = ['', 'id\r\n1\r\n', '{', 'null', '[]', '{"id":{}}', '{"id":5}', '"x"', '\ufeff{}']
  for (const status of [200, 201, 202, 204, 301, 400, 409, 500, 503]) {
    for (const text of bodies) {
      for (const contentType of ['', 'application/json', 'text/csv; charset=utf-8', 'text/html']) {
        for (const body of [text, Buffer.from(text), [Buffer.from(text)]]) {
          const answer = { status, contentType, body }
          const what = `${status} ${contentType} ${text}`
          const result = await noted(() => answer)(REQUEST as unknown as ApiRequest)
          differences.equal(result, answer, what)
          differences.equal(entries.length, 1, what)
          differences.match(entries.pop(), { status, route: '/api/x/' }, what)
        }
      }
    }
  }
  t.strictSame(differences.list(), [], 'one entry with the status of the answer')
  for (const error of [new TypeError('x'), new ServiceError('not_found', 'x')]) {
    const failing = noted(() => Promise.reject(error))
    await t.rejects(async () => failing(REQUEST as unknown as ApiRequest), error)
    t.match(entries.pop(), { status: error instanceof ServiceError ? 404 : 500 })
  }
})

t.test('an answer is sent when its entry is stored, not before', async (t) => {
  for (const handler of [
    () => ({ status: 200, contentType: '', body: '' }),
    () => Promise.reject(new ServiceError('not_found', 'x')),
  ]) {
    let store: () => void = () => undefined
    const stored = new Promise<void>((resolve) => {
      store = resolve
    })
    const order: string[] = []
    const handle = audited(
      { method: 'POST', path: '/api/x/', handler },
      { record: () => stored, clock: SYSTEM_CLOCK, trustedProxies: new TrustedProxies([]) },
    )
    const answered = (async () => {
      try {
        await handle(REQUEST as unknown as ApiRequest)
      } finally {
        order.push('answer')
      }
    })().catch(() => undefined)
    await nextTurn()
    order.push('entry')
    store()
    await answered
    t.strictSame(order, ['entry', 'answer'])
  }
})

t.test('reads and unauthenticated requests leave no entry', async (t) => {
  const before = await newest()
  await daemon.ask('GET', 'projects/')
  t.equal((await daemon.ask('POST', 'projects/', {}, 'phx_stranger')).status, 401)
  t.equal((await daemon.ask('POST', 'projects/', {}, null)).status, 401)
  t.strictSame(await newest(), before)
})

t.test('behind a proxy on the machine, the entry has the address of the client', async (t) => {
  const { decisions } = daemon
  const headers = {
    Authorization: `Bearer ${PERSONAL_KEY}`,
    'X-Forwarded-For': '1.1.1.1, 192.0.2.7',
  }
  await decisions.ask('/api/projects/2/', { method: 'PATCH', headers, json: { name: 'Renamed' } })
  t.match(await newest(), { address: '192.0.2.7', project_id: 2, status: 200 })
})

t.test('only administrators of the whole organization read the log, page by page', async (t) => {
  const member = daemon.somebody({ email: 'member@x.example' })
  const limited = daemon.keyOf({ projectIds: [1] })
  await daemon.settled()
  for (const key of [member.key, limited]) {
    t.match(await daemon.ask('GET', LOG, undefined, key), { status: 403 })
  }
  t.match(await daemon.ask('GET', LOG, undefined, null), { status: 401 })
  const all = await daemon.ask('GET', `${LOG}?limit=1000`)
  const entries = resultsOf(all)
  t.equal(all.body['count'], entries.length)
  const ids = entries.map(({ id }) => Number(id))
  t.strictSame(
    ids,
    [...ids].sort((left, right) => right - left),
    'newest first',
  )
  const page = await daemon.ask('GET', `${LOG}?limit=2&offset=3`)
  t.strictSame(resultsOf(page), entries.slice(3, 5))
  t.match(page.body, { next: /offset=5/, previous: /offset=1/ })
  t.strictSame(resultsOf(await daemon.ask('GET', `${LOG}?offset=100000`)), [])
})

t.test('commands that write to the store leave entries, too', async (t) => {
  const { dataDir } = daemon.decisions
  const run = (...words: readonly string[]) => runCommand(...words, '--data-dir', dataDir)
  const commands = [
    ['project', 'create', '--name', 'From the shell'],
    ['project', 'set', '1', '--timezone', 'Europe/Berlin'],
    ['user', 'create', '--email', 'shell@x.example'],
    ['role', 'create', '--name', 'Shell'],
    ['role', 'add', 'Shell', 'shell@x.example'],
    ['role', 'delete', 'Shell'],
    ['flag', 'create', 'from-the-shell'],
    ['flag', 'set', 'from-the-shell', '--active', 'false'],
    ['key', 'create', '--label', 'x'],
  ]
  for (const words of commands) {
    const outcome = await run(...words)
    t.equal(outcome.exitCode, 0, outcome.err)
  }
  const reading = ['project list', 'user list', 'flag list', 'key list', 'role list']
  for (const words of reading) t.equal((await run(...words.split(' '))).exitCode, 0)
  const limit = String(commands.length)
  const entries = linesOf(await run('audit', 'list', '--limit', limit, '--json')).toReversed()
  t.match(
    entries,
    commands.map(([noun, verb, operand]) => ({
      source: 'command_line',
      route: `tenrec ${noun} ${verb}`,
      object: operand?.startsWith('--') === false ? operand : null,
      user: /./,
      key: null,
      address: null,
      status: null,
    })),
  )
  t.match(await newest(), { source: 'command_line', user: null, account: /./, method: null })
  t.match((await run('audit', 'list')).out, /tenrec flag set +from-the-shell/)
})

t.test('the oldest entries make room, and entries outlive the process', async (t) => {
  const dataDir = t.testdir()
  const environment = new DirectoryEnvironment(dataDir, SYSTEM_CLOCK)
  const { version } = environment
  const log = new AuditLog(environment, 10)
  t.strictSame(log.list({ limit: 10, offset: 0 }), { count: 0, results: [] })
  for (let n = 1; n <= 25; n += 3) log.append([entryOf(n), entryOf(n + 1), entryOf(n + 2)])
  t.equal(environment.version, version, 'users and keys are not read again for the entry')
  await environment.close()
  const opened = new DirectoryEnvironment(dataDir, SYSTEM_CLOCK)
  const { count, results } = new AuditLog(opened, 10).list({ limit: 100, offset: 0 })
  t.equal(count, 10)
  t.strictSame(
    results.map(({ id, objectId }) => [id, objectId]),
    Array.from({ length: 10 }, (_, index) => [27 - index, String(27 - index)]),
  )
  await opened.close()
})

t.test(
  'entries that arrive during a write share the next write; failures are reported',
  async (t) => {
    const stored: (readonly AuditEntry[])[] = []
    const logged: object[] = []
    const failures = { value: 0 }
    let release: () => void = () => {}
    const trail = new AuditTrail({
      store: (entries) => {
        stored.push(entries)
        if (stored.length === 2) return Promise.reject(new Error('no space'))
        return new Promise((resolve) => {
          release = resolve
        })
      },
      log: { error: (fields) => logged.push(fields) },
      failures,
    })
    const first = trail.record(entryOf(1))
    await new Promise((resolve) => setImmediate(resolve))
    const others = [2, 3, 4].map((n) => trail.record(entryOf(n)))
    release()
    await Promise.all([first, ...others])
    t.strictSame(
      stored.map((entries) => entries.map(({ atMs }) => atMs)),
      [[1], [2, 3, 4]],
    )
    t.equal(failures.value, 3)
    t.match(logged, [{ err: { message: 'no space' }, entries: [{ atMs: 2 }, {}, {}] }])
  },
)
