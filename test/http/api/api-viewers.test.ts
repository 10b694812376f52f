/**
 * Viewers read everything and change nothing, whatever the scopes of their keys.
 *
 * @lane quick
 */
import t from 'tap'
import { RESOURCES } from '../../../src/http/openapi/document.ts'
import { Differences } from '../../fixtures/differences.ts'
import { startOrganization } from '../../fixtures/organization-daemon.ts'

const daemon = await startOrganization(t)
const viewer = daemon.somebody({ email: 'viewer@x.example', level: 0 })
await daemon.settled()

const ROUTES = RESOURCES.flatMap(({ routes }) => routes).filter(
  ({ method, path, isRefusal }) =>
    !['GET', 'HEAD', 'OPTIONS'].includes(method) && path.startsWith('/api/') && !isRefusal,
)

function isChange({ who }: (typeof ROUTES)[number]): boolean {
  return who.scope?.endsWith(':write') === true && who.scope !== 'personal_api_key:write'
}

t.test('every route that changes something is refused', async (t) => {
  const differences = new Differences()
  const changes = ROUTES.filter(isChange)
  for (const { method, path } of changes) {
    const filled = path.replace(':org_id', '@current').replaceAll(/:\w+/g, '1')
    const answer = await daemon.ask(method, filled.slice('/api/'.length), {}, viewer.key)
    const found = { status: answer.status, code: answer.body['code'] }
    differences.match(found, { status: 403, code: 'permission_denied' }, `${method} ${path}`)
  }
  t.ok(changes.length > 50)
  t.strictSame(differences.list(), [])
})

t.test('pages of the console can be read', async (t) => {
  for (const path of [
    'users/@me/',
    'organizations/@current/members/',
    'projects/1/events/',
    'projects/1/persons/',
    'projects/1/feature_flags/',
    'projects/1/dashboards/',
    'projects/1/cohorts/',
  ]) {
    t.equal((await daemon.ask('GET', path, undefined, viewer.key)).status, 200, path)
  }
  const query = { query: { kind: 'TrendsQuery', series: [{ kind: 'EventsNode', event: 'a' }] } }
  t.equal((await daemon.ask('POST', 'projects/1/query/', query, viewer.key)).status, 200)
})

t.test('a viewer manages personal keys, which have no more rights', async (t) => {
  const made = await daemon.ask(
    'POST',
    'personal_api_keys/',
    { label: 'mine', scopes: ['*'] },
    viewer.key,
  )
  t.equal(made.status, 201)
  const key = String(made.body['value'])
  const flag = { key: 'by-a-viewer' }
  t.equal((await daemon.ask('POST', 'projects/1/feature_flags/', flag, key)).status, 403)
  const revoked = await daemon.ask(
    'DELETE',
    `personal_api_keys/${String(made.body['id'])}/`,
    undefined,
    viewer.key,
  )
  t.equal(revoked.status, 204)
})

t.test('rights follow the level at once', async (t) => {
  const member = daemon.somebody({ email: 'was-member@x.example' })
  await daemon.settled()
  const path = `organizations/@current/members/${member.user.uuid}/`
  const create = (key: string) =>
    daemon.ask('POST', 'projects/1/feature_flags/', { key }, member.key)
  t.equal((await create('first')).status, 201)
  t.equal((await daemon.ask('PATCH', path, { level: 0 })).status, 200)
  t.equal((await create('second')).status, 403)
  t.equal((await daemon.ask('PATCH', path, { level: 1 })).status, 200)
  t.equal((await create('third')).status, 201)
})
