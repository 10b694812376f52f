/**
 * Tests the organization, projects and personal keys: which changes are stored or refused, and when other threads see
 * them.
 *
 * @lane quick
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Clock } from '../../src/base/clock.ts'
import { ServiceError } from '../../src/base/errors.ts'
import { generatePersonalKey, generateProjectKey } from '../../src/store/catalog/key-store.ts'
import { ProjectDirectory } from '../../src/store/catalog/organization-store.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { DamagedRecordError } from '../../src/store/faults.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { numberKey } from '../../src/store/lmdb/keys.ts'

const NOW_MS = Date.UTC(2026, 0, 2)

function clockAt(state: { nowMs: number }): Clock {
  return { now: () => state.nowMs, monotonic: () => state.nowMs }
}

async function openStore(t: Tap, state = { nowMs: NOW_MS }) {
  const path = t.testdir()
  const dir = await DataDir.open(path)
  const store = new ProjectStore(path, clockAt(state))
  t.teardown(async () => {
    await store.close()
    dir.release()
  })
  return { path, store, state }
}
type Tap = { testdir(): string; teardown(action: () => unknown): void }

function openDirectory(t: Tap, path: string, state = { nowMs: NOW_MS }): ProjectDirectory {
  const directory = new ProjectDirectory(path, clockAt(state))
  t.teardown(() => directory.close())
  return directory
}

t.test('the first start creates an organization, project 1 and a key, once', async (t) => {
  const { path, store } = await openStore(t)
  t.equal(store.organization(), null)
  const first = store.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_b' })
  t.strictSame(first, { projectId: 1, projectKey: 'phc_a', personalKey: 'phx_b' })
  t.equal(store.bootstrap({ projectKey: 'phc_c', personalKey: 'phx_d' }), null)
  t.strictSame(
    store.listProjects().map(({ id, apiKey, timezone }) => [id, apiKey, timezone]),
    [[1, 'phc_a', 'UTC']],
  )
  t.match(store.organization()?.id, /^[0-9a-f-]{36}$/)
  const directory = openDirectory(t, path)
  t.equal(directory.projectByKey('phc_a')?.id, 1)
  t.equal(directory.projectByKey('phc_c'), null)
  t.equal(directory.projectById(1)?.name, 'Default project')
  t.match(directory.personalKeyByText('phx_b'), { scopes: ['*'], projectIds: 'all', userId: 1 })
  t.strictSame(directory.personalKey('phx_d'), null)
})

t.test('a change is visible after refreshIfChanged, and not before', async (t) => {
  const { path, store } = await openStore(t)
  store.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_a' })
  const directory = openDirectory(t, path)
  t.equal(directory.refreshIfChanged(), false, 'nothing changed')
  const project = store.createProject({ name: 'Second', isIpAnonymized: true })
  t.equal(directory.projectByKey(project.apiKey), null)
  t.equal(directory.refreshIfChanged(), true)
  t.strictSame(directory.projectByKey(project.apiKey), project)
  t.strictSame(
    directory.projects().map(({ id }) => id),
    [1, 2],
  )
  const filters = [{ key: 'email', value: '@example.com', operator: 'not_icontains' }]
  store.setProject(2, { apiKey: 'phc_new', timezone: 'Europe/Berlin', testAccountFilters: filters })
  t.equal(directory.refreshIfChanged(), true)
  t.equal(directory.projectByKey(project.apiKey), null, 'the old key is not valid any more')
  t.match(directory.projectById(2), {
    apiKey: 'phc_new',
    name: 'Second',
    isIpAnonymized: true,
    timezone: 'Europe/Berlin',
    testAccountFilters: filters,
  })
})

t.test('personal keys are limited in number, expire and can be revoked', async (t) => {
  const { path, store, state } = await openStore(t)
  store.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_a' })
  const { text, key } = store.keys.create({
    label: 'CI',
    scopes: ['event:read'],
    projectIds: [1],
    expiresAtMs: NOW_MS + 1000,
  })
  t.match(text, /^phx_[0-9A-Za-z]{43}$/)
  t.equal(key.lastFour, text.slice(-4))
  const directory = openDirectory(t, path, state)
  t.match(directory.personalKeyByText(text), { scopes: ['event:read'], projectIds: [1] })
  state.nowMs += 1000
  t.equal(directory.personalKeyByText(text), null, 'the key has expired')
  t.not(directory.personalKeyByText('phx_a'), null)
  t.equal(store.keys.revoke(1).revokedAtMs, state.nowMs)
  state.nowMs += 5
  t.equal(store.keys.revoke(1).revokedAtMs, state.nowMs - 5, 'the first revocation is kept')
  directory.refreshIfChanged()
  t.equal(directory.personalKeyByText('phx_a'), null)
  t.strictSame(
    store.keys.list().map(({ id, label }) => [id, label]),
    [
      [1, 'First start'],
      [2, 'CI'],
    ],
  )
})

t.test('the store holds the hash of a personal key, not the key', async (t) => {
  const { path, store } = await openStore(t)
  store.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_a' })
  const { text } = store.keys.create({ text: 'phx_secretsecretsecretsecret' })
  const bytes = readFileSync(join(path, 'flags', 'data.mdb'))
  t.equal(bytes.includes(text), false)
  t.equal(bytes.includes(createHash('sha256').update(text).digest()), true)
})

t.test('malformed texts are unknown keys', async (t) => {
  const { path, store } = await openStore(t)
  store.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_a' })
  const directory = openDirectory(t, path)
  for (const text of [
    '',
    '__proto__',
    'constructor',
    'phc_A',
    'phx_a ',
    '\0',
    'phx_a'.repeat(50),
  ]) {
    t.equal(directory.projectByKey(text), null)
    t.equal(directory.personalKeyByText(text), null)
  }
  t.equal(directory.personalKeyByText('phc_a'), null, 'a project key is not a personal key')
  t.equal(directory.projectById(Number.NaN), null)
})

t.test('a forbidden change is refused and changes nothing', async (t) => {
  const { store } = await openStore(t)
  store.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_a' })
  const refused = (action: () => unknown, message: RegExp) => {
    t.throws(action, ServiceError)
    t.throws(action, { message })
  }
  refused(() => store.createProject({ name: 'x', apiKey: 'phc_a' }), /already in use/)
  refused(() => store.createProject({ name: 'x', apiKey: 'phx_a' }), /already in use/)
  refused(() => store.createProject({ name: 'x', apiKey: 'a b' }), /printable ASCII/)
  refused(() => store.createProject({ name: 'x', apiKey: 'k'.repeat(65) }), /1 to 64/)
  refused(() => store.createProject({ name: ' ' }), /1 to 200 characters/)
  refused(() => store.createProject({ name: 'x', timezone: 'Mars/Olympus' }), /not a time zone/)
  refused(() => store.setProject(7, { name: 'x' }), /no project 7/)
  refused(() => store.keys.create({ text: 'phx_a' }), /already in use/)
  refused(() => store.keys.create({ text: 'phc_a' }), /already in use/)
  refused(() => store.keys.create({ projectIds: [1, 9] }), /no project 9/)
  refused(() => store.keys.create({ scopes: ['everything'] }), /"everything" is not a scope/)
  refused(() => store.keys.create({ scopes: [] }), /must have 1 to 100 scopes/)
  refused(() => store.keys.revoke(9), /no personal key 9/)
  t.equal(store.listProjects().length, 1)
  t.equal(store.keys.list().length, 1)
})

t.test('generated keys have the form of SDK keys and are unique', async (t) => {
  t.match(generateProjectKey(), /^phc_[0-9A-Za-z]{43}$/)
  t.match(generatePersonalKey(), /^phx_[0-9A-Za-z]{43}$/)
  t.not(generateProjectKey(), generateProjectKey())
})

t.test('a damaged record is detected, and the directory keeps its last state', async (t) => {
  const { path, store } = await openStore(t)
  store.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_a' })
  const directory = openDirectory(t, path)
  store.createProject({ name: 'Second' })
  const environment = new Environment({ dataDir: path, name: 'flags', tables: ['projects'] })
  const projects = environment.table('projects')
  const bytes = Buffer.from(projects.get(numberKey(2)) ?? '')
  bytes[5] = (bytes[5] ?? 0) ^ 1
  environment.write(() => {
    projects.putSync(numberKey(2), bytes)
  })
  await environment.close()
  t.throws(() => directory.refreshIfChanged(), DamagedRecordError)
  t.equal(directory.projectByKey('phc_a')?.id, 1)
})
