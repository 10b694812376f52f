/**
 * `tenrec user`, `role`, `key` and the members of projects on a store while no daemon is running.
 *
 * @lane quick
 */
import { join } from 'node:path'
import t from 'tap'
import { ProjectDirectory } from '../../src/store/catalog/organization-store.ts'
import { linesOf, runCommand as run } from '../fixtures/command-line.ts'

/** Creates a store and returns a function that runs commands on it. No daemon serves the store. */
async function stopped(t: { testdir(): string }) {
  const path = join(t.testdir(), 'data')
  const flags = ['--data-dir', path]
  linesOf({ ...(await run('init', ...flags)), out: '' })
  return {
    path,
    plain: (...words: readonly string[]) => run(...words, ...flags),
    json: async (...words: readonly string[]) => linesOf(await run(...words, ...flags, '--json')),
  }
}

t.test('users are created, changed, listed and deactivated', async (t) => {
  const { plain, json } = await stopped(t)
  const [ann] = await json(
    'user',
    'create',
    '--email',
    'ann@x.example',
    '--first-name',
    'Ann',
    '--level',
    'admin',
  )
  t.match(ann, {
    id: 2,
    email: 'ann@x.example',
    first_name: 'Ann',
    level: 'admin',
    state: 'active',
    uuid: /^[0-9a-f-]{36}$/,
  })
  t.equal(ann?.['distinct_id'], ann?.['uuid'])
  const uuid = String(ann?.['uuid'])
  t.match(await json('user', 'set', 'ANN@x.example', '--distinct-id', 'a'), [{ distinct_id: 'a' }])
  t.match(await json('user', 'set', uuid, '--email', 'anna@x.example'), [
    { email: 'anna@x.example' },
  ])
  t.match(await json('user', 'deactivate', '2'), [{ state: 'inactive' }])
  t.match(await json('user', 'list'), [{ level: 'owner' }, { id: 2, state: 'inactive' }])
  t.match(await json('user', 'set', '2', '--active', 'true'), [{ state: 'active' }])
  t.match(await plain('user', 'list'), { out: /^id {2}email +first_name +level +state/ })
  const refused: readonly (readonly [readonly string[], number, RegExp])[] = [
    [['user', 'create'], 2, /--email is missing/],
    [['user', 'create', '--email', 'x'], 1, /`email` must be an address/],
    [['user', 'create', '--email', 'ANNA@x.example'], 1, /already/],
    [['user', 'create', '--email', 'b@x.example', '--level', 'king'], 2, /member, admin, owner/],
    [['user', 'create', '--email', 'b@x.example', '--first-name', 'x'.repeat(151)], 1, /150/],
    [['user', 'create', '--email', 'b@x.example', '--distinct-id', 'x'.repeat(201)], 1, /200/],
    [['user', 'set', '2'], 2, /nothing to change/],
    [['user', 'set', '2', '--active', 'maybe'], 2, /--active/],
    [['user', 'set', '9', '--level', 'admin'], 1, /no user "9"/],
    [['user', 'set', '1', '--level', 'member'], 1, /needs an active owner/],
    [['user', 'deactivate', '1'], 1, /needs an active owner/],
  ]
  for (const [words, exitCode, err] of refused) {
    t.match(await plain(...words), { exitCode, out: '', err }, words.join(' '))
  }
  await json('user', 'set', '2', '--level', 'owner')
  t.match(await json('user', 'deactivate', '1'), [{ state: 'inactive' }], 'another owner remains')
})

t.test('roles are created, changed, assigned, removed and deleted', async (t) => {
  const { path, plain, json } = await stopped(t)
  await json('user', 'create', '--email', 'ann@x.example')
  const [role] = await json('role', 'create', '--name', 'Viewers', '--level', 'view')
  t.match(role, { name: 'Viewers', level: 'view', members: [], flags: [] })
  const id = String(role?.['id'])
  t.match(await json('role', 'set', 'viewers', '--name', 'Readers'), [{ id, name: 'Readers' }])
  t.match(await json('role', 'set', id, '--level', 'edit'), [{ level: 'edit' }])
  t.match(await json('role', 'add', 'Readers', 'ann@x.example'), [{ members: ['ann@x.example'] }])
  t.match(await json('role', 'list'), [{ id, members: ['ann@x.example'] }])
  const directory = new ProjectDirectory(path)
  t.teardown(() => directory.close())
  t.strictSame(directory.flagEditor({ id: 2, level: 1 }).roleLevels, [37])
  t.match(await plain('role', 'add', id, '2'), { exitCode: 1, err: /already/ })
  t.strictSame((await json('role', 'remove', id, '2'))[0]?.['members'], [])
  t.match(await plain('role', 'remove', id, '2'), { exitCode: 1, err: /does not have the role/ })
  t.match(await json('role', 'default'), [{ level: 'unset' }])
  t.match(await json('role', 'default', '--level', 'view'), [{ level: 'view' }])
  t.match(await json('role', 'default'), [{ level: 'view' }])
  t.match(
    await json('role', 'create', '--name', 'Second'),
    [{ level: 'view' }],
    'the default applies',
  )
  t.match(await json('role', 'default', '--level', 'unset'), [{ level: 'unset' }])
  const refused: readonly (readonly [readonly string[], number, RegExp])[] = [
    [['role', 'create'], 2, /--name is missing/],
    [['role', 'create', '--name', 'READERS'], 1, /already/],
    [['role', 'create', '--name', ' '], 1, /must not be empty/],
    [['role', 'create', '--name', 'x', '--level', '5'], 2, /none of view, edit/],
    [['role', 'set', id], 2, /nothing to change/],
    [['role', 'set', 'Nobody', '--level', 'view'], 1, /no role "Nobody"/],
    [['role', 'add', id, 'nobody'], 1, /no user "nobody"/],
    [['role', 'add', id], 2, /USER is missing/],
    [['role', 'default', '--level', '5'], 2, /none of/],
  ]
  for (const [words, exitCode, err] of refused) {
    t.match(await plain(...words), { exitCode, out: '', err }, words.join(' '))
  }
  t.match(await plain('role', 'delete', 'Readers'), { exitCode: 0, out: '', err: /Deleted/ })
  t.match(await plain('role', 'delete', 'Readers'), { exitCode: 1, err: /no role/ })
  t.equal((await json('role', 'list')).length, 1)
})

t.test('members of a project get a level, another level, and lose it', async (t) => {
  const { path, plain, json } = await stopped(t)
  const directory = new ProjectDirectory(path)
  t.teardown(() => directory.close())
  const [ann] = await json('user', 'create', '--email', 'ann@x.example')
  await json('user', 'create', '--email', 'bob@x.example')
  await json('project', 'create', '--name', 'Second')
  const levels = () => {
    directory.refreshIfChanged()
    return directory.projectMembers(2).map(({ userId, level }) => [userId, level])
  }
  t.match(await json('project', 'set-member', '2', 'ANN@x.example', '--level', 'admin'), [
    { project: 2, email: 'ann@x.example', level: 'admin', organization_level: 'member' },
  ])
  await json('project', 'set-member', '2', '3', '--level', 'editor')
  t.strictSame(levels(), [
    [2, 8],
    [3, 1],
  ])
  t.match(await json('project', 'set-member', '2', '2', '--level', 'viewer'), [
    { email: 'ann@x.example', level: 'viewer' },
  ])
  t.match(await json('project', 'members', '2'), [
    { email: 'ann@x.example', level: 'viewer', uuid: ann?.['uuid'], joined_at: /T/ },
    { email: 'bob@x.example', level: 'editor' },
  ])
  t.strictSame(await json('project', 'members', '1'), [])
  t.match(await plain('project', 'remove-member', '2', 'bob@x.example'), {
    exitCode: 0,
    out: '',
    err: 'Removed the member bob@x.example from project 2.\n',
  })
  t.strictSame(levels(), [[2, 0]])
  const [latest, ...earlier] = await json('audit', 'list')
  t.match(latest, { source: 'command_line', route: 'tenrec project remove-member', project: 2 })
  t.match(earlier, [
    { route: 'tenrec project set-member', project: 2, object: ann?.['uuid'] },
    { route: 'tenrec project set-member', project: 2 },
    { route: 'tenrec project set-member', project: 2, object: ann?.['uuid'] },
  ])

  t.match(await json('project', 'set', '2', '--private', 'true'), [{ private: true }])
  directory.refreshIfChanged()
  const second = directory.projects().find(({ id }) => id === 2)
  t.equal(second?.isPrivate, true, 'the daemon sees the change')
  const refused: readonly (readonly [readonly string[], number, RegExp])[] = [
    [['project', 'members'], 2, /ID is missing/],
    [['project', 'members', '9'], 1, /no project 9/],
    [['project', 'set-member', '2', '3'], 2, /--level is missing/],
    [['project', 'set-member', '2', '3', '--level', 'owner'], 2, /none of viewer, editor, admin/],
    [['project', 'set-member', '9', '3', '--level', 'viewer'], 1, /no project 9/],
    [['project', 'set-member', '2', 'nobody', '--level', 'viewer'], 1, /no user "nobody"/],
    [['project', 'set-member', '2', '1', '--level', 'viewer'], 1, /Lower the level/],
    [['project', 'remove-member', '2', '3'], 1, /no such member/],
  ]
  for (const [words, exitCode, err] of refused) {
    t.match(await plain(...words), { exitCode, out: '', err }, words.join(' '))
  }
})

t.test('keys belong to users, can be rotated, and give servers access to projects', async (t) => {
  const { path, plain, json } = await stopped(t)
  const directory = new ProjectDirectory(path)
  t.teardown(() => directory.close())
  await json('user', 'create', '--email', 'ann@x.example')
  const [key] = await json('key', 'create', '--user', 'ann@x.example', '--scopes', 'event:read')
  t.match(key, { id: 2, user: 2, scopes: ['event:read'] })
  directory.refreshIfChanged()
  t.match(directory.personalKeyByText(String(key?.['key'])), { user: { email: 'ann@x.example' } })
  const [rotated] = await json('key', 'rotate', '2')
  t.match(rotated, { id: 2, key: /^phx_/, scopes: ['event:read'], rotated_at: /T/ })
  directory.refreshIfChanged()
  t.equal(directory.personalKeyByText(String(key?.['key'])), null)
  t.not(directory.personalKeyByText(String(rotated?.['key'])), null)
  const [secret] = await json('key', 'create', '--secret', '--projects', '1', '--label', 'server')
  t.match(secret, { id: 1, key: /^phs_\w{43}$/, project: 1, label: 'server', state: 'active' })
  directory.refreshIfChanged()
  t.equal(directory.projectBySecretKey(String(secret?.['key']))?.id, 1)
  t.equal(directory.personalKeyByText(String(secret?.['key'])), null)
  const [fresh] = await json('key', 'rotate', '1', '--secret')
  directory.refreshIfChanged()
  t.equal(directory.projectBySecretKey(String(secret?.['key'])), null)
  t.equal(directory.projectBySecretKey(String(fresh?.['key']))?.id, 1)
  const listed = await json('key', 'list', '--secret')
  t.match(listed, [{ id: 1, last_four: String(fresh?.['key']).slice(-4), state: 'active' }])
  t.equal(JSON.stringify(listed).includes(String(fresh?.['key'])), false)
  t.match(await json('key', 'revoke', '1', '--secret'), [{ state: 'revoked' }])
  directory.refreshIfChanged()
  t.equal(directory.projectBySecretKey(String(fresh?.['key'])), null)
  const refused: readonly (readonly [readonly string[], number, RegExp])[] = [
    [['key', 'create', '--user', 'nobody'], 1, /no user/],
    [['key', 'create', '--secret'], 2, /requires --projects with one number/],
    [['key', 'create', '--secret', '--projects', '1,2'], 2, /one number/],
    [['key', 'create', '--secret', '--projects', '9'], 1, /no project 9/],
    [['key', 'create', '--secret', '--projects', '1', '--scopes', '*'], 2, /cannot be combined/],
    [['key', 'rotate', '9'], 1, /no personal key 9/],
    [['key', 'rotate', '1', '--secret'], 1, /revoked/],
    [['key', 'rotate', '9', '--secret'], 1, /no project secret key 9/],
    [['key', 'revoke', '9', '--secret'], 1, /no project secret key 9/],
  ]
  for (const [words, exitCode, err] of refused) {
    t.match(await plain(...words), { exitCode, out: '', err }, words.join(' '))
  }
  await json('key', 'revoke', '2')
  t.match(await plain('key', 'rotate', '2'), { exitCode: 1, err: /revoked/ })
  await json('user', 'deactivate', '2')
  t.match(await plain('key', 'create', '--user', '2'), { exitCode: 1, err: /no active user 2/ })
})

t.test('every command has a help text', async (t) => {
  for (const name of ['user', 'role', 'key', 'project']) {
    const group = await run('help', name)
    t.match(group, { exitCode: 0, err: '' })
    for (const [, words = ''] of group.out.matchAll(/^ {2}(\w+ [\w-]+)/gm)) {
      const help = await run(...words.split(' '), '--help')
      t.match(help, { exitCode: 0, err: '', out: `Usage: tenrec ${words}` })
    }
  }
})
