/**
 * Levels of users in projects: private projects, members of projects, and what users without access find out.
 *
 * @lane quick
 */
import t from 'tap'
import type { ProjectLevel, UserLevel } from '../../../src/rules/access/levels.ts'
import { SetClock, startConsole } from '../../fixtures/console-client.ts'
import type { JsonAnswer } from '../../fixtures/flags/decision-daemon.ts'

const { daemon, store, browser } = await startConsole(t, {}, new SetClock())
let people = 0

/** Creates a user with a key for everything, and returns requests with that key. */
async function newUser(level: UserLevel) {
  const user = store.users.create({ email: `user-${++people}@example.com`, level })
  const { text: key } = store.projects.keys.create({ userId: user.id, label: 'all' })
  await daemon.settled()
  const ask = (method: string, path: string, json?: unknown): Promise<JsonAnswer> =>
    daemon.ask(`/api/${path}`, {
      method,
      headers: { Authorization: `Bearer ${key}` },
      ...(json === undefined ? {} : { json }),
    })
  return { ...user, key, ask }
}

/** Makes project 2 private or open, and a user its member with a level. Null removes the member. */
async function arrange(isPrivate: boolean, userId: number, level: ProjectLevel | null) {
  store.projects.setProject(2, { isPrivate })
  const place = { projectId: 2, userId }
  if (level === null) store.projectMembers.remove(place)
  else store.projectMembers.add(place, level)
  await daemon.settled()
}

t.teardown(() => store.projects.setProject(2, { isPrivate: false }))

const FLAG = {
  key: 'secret-flag',
  filters: { groups: [{ properties: [], rollout_percentage: 100 }] },
}
const owner = await newUser(15)

t.test('a user without access to a private project sees none of it', async (t) => {
  const user = await newUser(1)
  t.equal((await user.ask('GET', 'projects/2/')).status, 200)
  const made = await owner.ask('POST', 'projects/2/feature_flags/', FLAG)
  const flag = String(made.body['id'])
  const { body: role } = await owner.ask('POST', 'organizations/@current/roles/', { name: 'Ops' })
  const access = `projects/2/feature_flags/${flag}/role_access/`
  t.equal((await owner.ask('POST', access, { role_id: role['id'] })).status, 201)
  store.projects.setProject(2, { isPrivate: true })
  await daemon.settled()
  const unknown = await user.ask('GET', 'projects/99/')
  for (const path of [
    'projects/2/',
    'projects/2/events/',
    'projects/2/persons/',
    'projects/2/feature_flags/',
    `projects/2/feature_flags/${flag}/`,
    'projects/2/insights/',
    'projects/2/explicit_members/',
    'environments/2/feature_flags/',
    'feature_flag/local_evaluation/?token=phc_project_2',
  ]) {
    const answer = await user.ask('GET', path)
    t.match(answer, { status: 403, body: { code: 'permission_denied' } }, path)
  }
  t.strictSame(
    (await user.ask('GET', 'projects/2/')).body,
    unknown.body,
    'as one that is not there',
  )
  const query = { query: { kind: 'TrendsQuery', series: [{ event: '$pageview' }] } }
  t.equal((await user.ask('POST', 'projects/2/query/', query)).status, 403)
  const names = ['projects/', 'organizations/@current/projects/']
  for (const path of names) {
    const { results } = (await user.ask('GET', path)).body as { results: readonly { id: number }[] }
    t.strictSame(
      results.map(({ id }) => id),
      [1],
      path,
    )
  }
  t.match((await user.ask('GET', 'organizations/@current/')).body, { projects: [{ id: 1 }] })
  t.notMatch((await user.ask('GET', 'organizations/@current/')).body, { projects: [{}, {}] })
  const roles = await user.ask('GET', 'organizations/@current/roles/')
  t.match(roles.body, { results: [{ name: 'Ops', associated_flags: '' }] })
  const seen = await owner.ask('GET', 'organizations/@current/roles/')
  t.match(seen.body, { results: [{ name: 'Ops', associated_flags: 'secret-flag' }] })
  t.match(await user.ask('GET', 'users/@me/'), { status: 200, body: { team: { id: 1 } } })
  const sent = await daemon.ask('/capture/', {
    json: { api_key: user.key, project_id: 2, event: 'x', distinct_id: 'y' },
  })
  t.equal(sent.status, 400, 'the key captures no events there')
  const session = browser()
  await session.logIn({ key: user.key })
  const { body } = await session.ask('GET', 'console/session/')
  t.match(body['projects'], [{ id: 1 }])
  t.equal((body['projects'] as readonly unknown[]).length, 1)
  t.equal((await owner.ask('GET', 'projects/2/')).status, 200)
})

t.test('a member of a private project has the level of the membership', async (t) => {
  const user = await newUser(1)
  await arrange(true, user.id, 0)
  t.match(await user.ask('GET', 'projects/2/'), {
    status: 200,
    body: { access_control: true, effective_membership_level: 0 },
  })
  t.equal((await user.ask('POST', 'projects/2/feature_flags/', FLAG)).status, 403)
  const other = { ...FLAG, key: 'in-project-1' }
  t.equal((await user.ask('POST', 'projects/1/feature_flags/', other)).status, 201)
  const event = { api_key: user.key, project_id: 2, event: 'x', distinct_id: 'y' }
  t.equal((await daemon.ask('/capture/', { json: event })).status, 401)
  const inFirst = { ...event, project_id: 1 }
  t.equal((await daemon.ask('/capture/', { json: inFirst })).status, 200)
  await arrange(true, user.id, null)
  t.equal((await user.ask('GET', 'projects/2/')).status, 403)
})

t.test('a viewer of the organization can be an editor of one project', async (t) => {
  const user = await newUser(0)
  t.equal((await user.ask('POST', 'projects/2/annotations/', note('before'))).status, 403)
  await arrange(false, user.id, 1)
  t.equal((await user.ask('POST', 'projects/2/annotations/', note('after'))).status, 201)
  t.equal((await user.ask('POST', 'projects/1/annotations/', note('elsewhere'))).status, 403)
  t.equal((await user.ask('PATCH', 'projects/2/', { name: 'Mine' })).status, 403)
  const session = browser()
  await session.logIn({ key: user.key })
  const { body } = await session.ask('GET', 'console/session/')
  t.match(body['projects'], [
    { id: 1, level: 0, scopes: null },
    { id: 2, level: 1, scopes: ['*'] },
  ])
})

t.test('an administrator of a project manages that project only', async (t) => {
  const user = await newUser(1)
  const guest = await newUser(1)
  await arrange(true, user.id, 8)
  const path = 'projects/2/explicit_members/'
  t.equal((await user.ask('PATCH', 'projects/2/', { name: 'Renamed' })).status, 200)
  t.equal((await user.ask('PATCH', 'projects/1/', { name: 'Renamed' })).status, 403)
  t.equal((await user.ask('POST', 'projects/', { name: 'New' })).status, 403)
  t.equal(
    (await user.ask('PATCH', `organizations/@current/members/${guest.uuid}/`, { level: 8 })).status,
    403,
  )
  t.equal((await user.ask('GET', 'organizations/@current/audit_log/')).status, 403)
  const added = await user.ask('POST', path, { user_uuid: guest.uuid, level: 0 })
  t.match(added, {
    status: 201,
    body: { id: guest.uuid, level: 0, parent_level: 1, effective_level: 0 },
  })
  t.equal((await guest.ask('GET', 'projects/2/')).status, 200)
  t.equal((await guest.ask('POST', path, { user_uuid: guest.uuid, level: 8 })).status, 403)
  t.match(await user.ask('POST', path, { user_uuid: guest.uuid, level: 1 }), {
    status: 400,
    body: { code: 'unique', attr: 'user_uuid' },
  })
  const own = `${path}${user.uuid}/`
  t.equal((await user.ask('PATCH', own, { level: 0 })).status, 403)
  t.equal((await user.ask('DELETE', own)).status, 403)
  const theirs = `${path}${guest.uuid}/`
  t.match(await user.ask('PATCH', theirs, { level: 8 }), { status: 200, body: { level: 8 } })
  t.match(await user.ask('PATCH', theirs, { level: 15 }), { status: 400 })
  const { results: members } = (await user.ask('GET', path)).body as {
    results: readonly { id: string; level: number }[]
  }
  t.match(
    members.find(({ id }) => id === guest.uuid),
    { level: 8 },
  )
  t.equal((await user.ask('DELETE', theirs)).status, 204)
  t.equal((await guest.ask('GET', 'projects/2/')).status, 403)
  t.match(await user.ask('POST', path, { user_uuid: owner.uuid, level: 0 }), {
    status: 400,
    body: { detail: /Administrators and owners/ },
  })
  const { results } = store.audit.list({ limit: 20, offset: 0 })
  t.match(
    results.find(({ route, status }) => route.endsWith('explicit_members/') && status === 201),
    { method: 'POST', userId: user.id, projectId: 2, objectId: guest.uuid },
  )
})

t.test('flags are copied only between projects in which the user may do that', async (t) => {
  const user = await newUser(1)
  const flag = { ...FLAG, key: 'copied' }
  t.equal((await owner.ask('POST', 'projects/1/feature_flags/', flag)).status, 201)
  const path = 'organizations/@current/feature_flags/'
  const copy = async (from: number, to: number, key = 'copied') => {
    const wish = { feature_flag_key: key, from_project: from, target_project_ids: [to] }
    return user.ask('POST', `${path}copy_flags/`, wish)
  }
  await arrange(true, user.id, 0)
  t.match((await copy(1, 2)).body, { success: [], failed: [{ project_id: 2 }] })
  await arrange(true, user.id, null)
  t.match((await copy(1, 2)).body, { success: [], failed: [{ project_id: 2 }] })
  t.equal((await copy(2, 1, 'secret-flag')).status, 400)
  t.strictSame((await user.ask('GET', `${path}secret-flag/`)).body, [])
  store.projectMembers.add({ projectId: 2, userId: user.id }, 1)
  await daemon.settled()
  t.match((await copy(1, 2)).body, { success: [{ key: 'copied' }], failed: [] })
})

t.test('a viewer of the organization copies flags between projects as their editor', async (t) => {
  const user = await newUser(0)
  const rule = { properties: [{ key: 'plan', value: 'pro', type: 'person' }] }
  const draft = { name: 'Pro of the first', filters: rule }
  const { body: cohort } = await owner.ask('POST', 'projects/1/cohorts/', draft)
  const groups = [{ properties: [{ type: 'cohort', key: 'id', value: cohort['id'] }] }]
  const flag = { key: 'by-an-editor', filters: { groups } }
  t.equal((await owner.ask('POST', 'projects/1/feature_flags/', flag)).status, 201)
  const ask = async (name: string, to: number) => {
    const wish = { feature_flag_key: flag.key, from_project: 1, target_project_ids: [to] }
    return user.ask('POST', `organizations/@current/feature_flags/${name}/`, wish)
  }
  await arrange(true, user.id, 0)
  t.equal((await ask('copy_flags', 2)).status, 403, 'a viewer in both')
  store.projectMembers.remove({ projectId: 2, userId: user.id })
  for (const projectId of [1, 2]) store.projectMembers.add({ projectId, userId: user.id }, 1)
  await daemon.settled()
  t.match(await ask('rehearse_copy', 2), { status: 200, body: { failed: [], results: [{}] } })
  t.match(await ask('copy_flags', 2), {
    status: 200,
    body: { failed: [], success: [{ key: flag.key, can_edit: true }] },
  })
  store.projectMembers.remove({ projectId: 1, userId: user.id })
  await daemon.settled()
  const back = { feature_flag_key: flag.key, from_project: 2, target_project_ids: [1] }
  t.match(await user.ask('POST', 'organizations/@current/feature_flags/copy_flags/', back), {
    status: 200,
    body: { success: [], failed: [{ project_id: 1 }] },
  })
})

t.test('a level in a project does not outlive the membership of the organization', async (t) => {
  const user = await newUser(1)
  await arrange(true, user.id, 8)
  store.users.change(user.id, { isActive: false })
  store.users.change(user.id, { isActive: true })
  await daemon.settled()
  t.equal((await user.ask('GET', 'projects/2/')).status, 403)
  t.strictSame(store.projects.keys.list().filter((key) => key.userId === user.id).length, 1)
})

t.test('a user can make keys for all projects that the user may use', async (t) => {
  const user = await newUser(1)
  store.projects.setProject(2, { isPrivate: true })
  await daemon.settled()
  const draft = { label: 'made', scopes: ['*'] }
  const made = await user.ask('POST', 'personal_api_keys/', draft)
  t.equal(made.status, 201)
  const headers = { Authorization: `Bearer ${String(made.body['value'])}` }
  t.equal((await daemon.ask('/api/projects/2/', { headers })).status, 403)
  store.projectMembers.add({ projectId: 2, userId: user.id }, 1)
  await daemon.settled()
  t.equal((await daemon.ask('/api/projects/2/', { headers })).status, 200)
})

function note(content: string) {
  return { content, date_marker: '2030-01-01T00:00:00Z', scope: 'project' }
}
