/**
 * Tests backups that are made while the daemon writes. A restored backup holds every event that was acknowledged before
 * it, exactly once. A second backup writes only new data. Damaged or foreign backups are refused.
 *
 * @lane quick
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { createBackup, restoreBackup } from '../../src/store/maintenance/backup/backups.ts'
import {
  backupNames,
  encodeManifest,
  readManifest,
} from '../../src/store/maintenance/backup/manifest.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { PERSONAL_KEY, PROJECT_KEY, spawnDaemon } from '../fixtures/daemon.ts'
import { Differences } from '../fixtures/differences.ts'
import { EventLedger, seededRandom } from '../fixtures/event-ledger.ts'
import { readEvents, untilVisible } from '../fixtures/event-pages.ts'
import { closeConnections, postJson } from '../fixtures/exact-client.ts'
import { refusal } from '../fixtures/refusal.ts'

const CLIENTS = 4
const NOW_MS = Date.UTC(2026, 0, 31, 12)
const MARKER = '01890a5d-ac96-774b-bcce-b302099a8057'

t.teardown(closeConnections)
t.setTimeout(300_000)

function nothing(): void {}

/** A store with one organization, closed. */
async function smallStore(path: string): Promise<void> {
  const dir = await DataDir.open(path)
  const store = new ProjectStore(path)
  store.bootstrap({
    projectKey: PROJECT_KEY,
    personalKey: 'phx_backup_test_key_of_the_first_owner',
  })
  await store.close()
  dir.release()
}

function backupOf(dataDir: string, folder: string, keep: number | null = null) {
  return createBackup({ dataDir, folder, nowMs: NOW_MS, keep, onProgress: nothing })
}

function restoreTo(dataDir: string, folder: string, isForced = false) {
  return restoreBackup({ folder, name: null, dataDir, isForced, onProgress: nothing })
}

t.test('a backup under load restores every earlier acknowledged event, each once', async (t) => {
  const root = t.testdir({ data: {}, backups: {}, restored: {} })
  const daemon = await spawnDaemon({ dataDir: join(root, 'data') })
  const ledger = new EventLedger(seededRandom(7))
  let isOver = false
  const clients = Array.from({ length: CLIENTS }, () =>
    ledger.drive(daemon.url, PROJECT_KEY, () => isOver, nothing),
  )
  await new Promise((resolve) => setTimeout(resolve, 1500))
  const acknowledged = new Set(ledger.acknowledgedUuids)
  const backup = await backupOf(join(root, 'data'), join(root, 'backups'))
  isOver = true
  await Promise.all(clients)
  const live = await verifyStore(join(root, 'data'), nothing)
  await daemon.stop()
  t.ok(acknowledged.size > 100, `${acknowledged.size} events were acknowledged before the backup`)
  t.ok(backup.entries > 0)
  t.same(live.findings, [], 'the live store is sound')
  const restored = join(root, 'restored')
  await restoreTo(restored, join(root, 'backups'))
  t.same((await verifyStore(restored, nothing)).findings, [], 'the restored store is sound')
  const second = await spawnDaemon({ dataDir: restored })
  await postJson(`${second.url}/capture/`, {
    api_key: PROJECT_KEY,
    uuid: MARKER,
    event: 'marker',
    distinct_id: 'marker',
  })
  await untilVisible({ url: second.url, personalKey: PERSONAL_KEY }, MARKER)
  const seen = new Map<string, number>()
  for (const { uuid } of await readEvents({
    url: second.url,
    personalKey: PERSONAL_KEY,
  }))
    seen.set(uuid, (seen.get(uuid) ?? 0) + 1)
  await second.stop()
  t.same(
    [...acknowledged].filter((uuid) => !seen.has(uuid)),
    [],
    'nothing is lost',
  )
  t.same(
    [...seen].filter(([, count]) => count !== 1),
    [],
    'nothing is doubled',
  )
})

t.test('a second backup writes only new data, and old ones can be removed', async (t) => {
  const root = t.testdir({ data: {}, backups: {} })
  const data = join(root, 'data')
  const folder = join(root, 'backups')
  await smallStore(data)
  const first = await backupOf(data, folder)
  t.equal(first.newChunks, first.chunks)
  const same = await backupOf(data, folder)
  t.equal(same.newChunks, 0, 'without changes nothing is written')
  const store = new ProjectStore(data)
  store.createProject({ name: 'Another' })
  await store.close()
  const third = await backupOf(data, folder, 1)
  t.ok(third.newChunks > 0 && third.newChunks < third.chunks, 'only changed data is written')
  t.same(third.removed, [first.name, same.name])
  t.same(backupNames(folder), [third.name])
  const restored = join(root, 'restored')
  await restoreTo(restored, folder)
  const copy = new ProjectStore(restored)
  t.same(
    copy.listProjects().map(({ name }) => name),
    ['Default project', 'Another'],
  )
  await copy.close()
})

t.test('an existing store is replaced only with --force', async (t) => {
  const root = t.testdir({ data: {}, other: {}, backups: {} })
  const [data, other, folder] = [join(root, 'data'), join(root, 'other'), join(root, 'backups')]
  await smallStore(data)
  await backupOf(data, folder)
  await smallStore(other)
  const store = new ProjectStore(other)
  store.createProject({ name: 'Only here' })
  await store.close()
  t.match((await refusal(restoreTo(other, folder))).message, /--force/)
  const kept = new ProjectStore(other)
  t.equal(kept.listProjects().length, 2, 'a refused restore changes nothing')
  await kept.close()
  await restoreTo(other, folder, true)
  const replaced = new ProjectStore(other)
  t.equal(replaced.listProjects().length, 1)
  await replaced.close()
})

t.test('an interrupted restore is refused at the start until it is repeated', async (t) => {
  const root = t.testdir({ data: {}, backups: {} })
  const data = join(root, 'data')
  const folder = join(root, 'backups')
  await smallStore(data)
  await backupOf(data, folder)
  writeFileSync(join(data, 'restoring'), '')
  const error = await refusal(DataDir.open(data))
  t.equal(error.exitCode, 78)
  t.match(error.message, /Run `tenrec restore` again/)
  await restoreTo(data, folder)
  const dir = await DataDir.open(data)
  dir.release()
  t.notOk(existsSync(join(data, 'restoring')))
})

t.test('a damaged, newer or missing backup is refused, and nothing is changed', async (t) => {
  const root = t.testdir({ data: {}, backups: {}, full: { file: '' } })
  const data = join(root, 'data')
  const folder = join(root, 'backups')
  await smallStore(data)
  t.match((await refusal(restoreTo(join(root, 'new'), folder))).message, /no backup/)
  t.match((await refusal(backupOf(data, join(root, 'full')))).message, /not empty/)
  t.match((await refusal(backupOf(data, join(data, 'inside')))).message, /data directory/)
  const { name } = await backupOf(data, folder)
  const manifestFile = join(folder, 'backups', `${name}.json`)
  writeFileSync(join(root, `${name}.json`), readFileSync(manifestFile))
  const elsewhere = { folder, name: `../../${name}`, dataDir: join(root, 'new') }
  const outside = restoreBackup({ ...elsewhere, isForced: false, onProgress: nothing })
  t.match((await refusal(outside)).message, /There is no backup "\.\.\/\.\.\//)
  const manifest = readManifest(folder, name)
  const good = readFileSync(manifestFile)
  writeFileSync(manifestFile, encodeManifest({ ...manifest, version: 99 }))
  const newer = await refusal(restoreTo(join(root, 'new'), folder))
  t.equal(newer.exitCode, 78)
  t.match(newer.message, /newer version/)
  writeFileSync(manifestFile, good.subarray(0, good.length - 10))
  t.match((await refusal(restoreTo(join(root, 'new'), folder))).message, /checksum/)
  writeFileSync(manifestFile, good)
  const part = readdirSync(join(folder, 'chunks'))[0] ?? ''
  const chunk = join(folder, 'chunks', part, readdirSync(join(folder, 'chunks', part))[0] ?? '')
  const bytes = readFileSync(chunk)
  bytes[bytes.length - 1] = (bytes[bytes.length - 1] ?? 0) ^ 1
  writeFileSync(chunk, bytes)
  const damaged = await refusal(restoreTo(join(root, 'new'), folder))
  t.equal(damaged.exitCode, 78)
  t.ok(damaged.message.includes(`${chunk} is damaged`), 'the message names the file')
  t.notOk(existsSync(join(root, 'new', 'format')), 'no store was made')
})

t.test('stores that share a folder keep their backups apart', async (t) => {
  const root = t.testdir({ one: {}, two: {}, backups: {} })
  const [one, two, folder] = [join(root, 'one'), join(root, 'two'), join(root, 'backups')]
  await smallStore(one)
  await smallStore(two)
  const first = await backupOf(one, folder, 1)
  const other = await backupOf(two, folder, 1)
  t.strictSame(other.removed, [], 'the backup of the other store stays')
  const again = await backupOf(one, folder, 1)
  t.strictSame(again.removed, [first.name], 'an older one of the same store goes')
  t.strictSame(backupNames(folder), [other.name, again.name])
  const refused = await refusal(restoreTo(join(root, 'restored'), folder))
  t.ok(refused.message.includes(`${other.name}, ${again.name}`), 'the error asks for the store')
  t.notOk(existsSync(join(root, 'restored')))
  const named = { folder, name: other.name, dataDir: join(root, 'restored') }
  await restoreBackup({ ...named, isForced: false, onProgress: nothing })
  const [restored, original] = [new ProjectStore(join(root, 'restored')), new ProjectStore(two)]
  t.strictSame(restored.organization(), original.organization())
  await Promise.all([restored.close(), original.close()])
})

t.test('a damaged backup prevents neither new backups nor restores of others', async (t) => {
  const root = t.testdir({ data: {}, backups: {} })
  const [data, folder] = [join(root, 'data'), join(root, 'backups')]
  await smallStore(data)
  const names: string[] = []
  for (let count = 0; count < 4; count++) names.push((await backupOf(data, folder)).name)
  const [first = '', second = '', third = '', fourth = ''] = names
  writeFileSync(join(folder, 'backups', `${second}.json`), '{"sequence":2,')
  const { removed, name } = await backupOf(data, folder, 2)
  t.strictSame(removed, [first, third], 'the damaged one is neither counted nor removed')
  t.strictSame(backupNames(folder), [second, fourth, name])
  await restoreTo(join(root, 'restored'), folder)
  t.same((await verifyStore(join(root, 'restored'), nothing)).findings, [])
  writeFileSync(join(folder, 'backups', `${name}.json`), 'damaged')
  t.equal(backupNames(folder).at(-1), name, 'the newest backup stays the newest if it is damaged')
  const { exitCode, message } = await refusal(restoreTo(join(root, 'again'), folder))
  t.equal(exitCode, 78)
  t.match(message, `${name}.json is damaged`)
})

t.test('the order of backups does not depend on the clock', async (t) => {
  const root = t.testdir({ data: {}, backups: {} })
  const [data, folder] = [join(root, 'data'), join(root, 'backups')]
  await smallStore(data)
  const options = { dataDir: data, folder, onProgress: nothing }
  const nextYearMs = NOW_MS + 366 * 24 * 3_600_000
  const ahead = await createBackup({ ...options, nowMs: nextYearMs, keep: null })
  const store = new ProjectStore(data)
  store.createProject({ name: 'Later' })
  await store.close()
  const later = await createBackup({ ...options, nowMs: NOW_MS, keep: 1 })
  t.strictSame(later.removed, [ahead.name])
  t.strictSame(backupNames(folder), [later.name], 'the backup that was just made stays')
  const last = await createBackup({ ...options, nowMs: NOW_MS - 1000, keep: null })
  t.strictSame(backupNames(folder), [later.name, last.name])
})

t.test('a manifest is checked before anything is written', async (t) => {
  const root = t.testdir({ data: {}, backups: {} })
  const [data, folder] = [join(root, 'data'), join(root, 'backups')]
  await smallStore(data)
  const { name } = await backupOf(data, folder)
  const manifest = readManifest(folder, name)
  const { environments } = manifest
  const [table, ...others] = environments.flags
  if (table === undefined) throw new Error('a table was wanted')
  const withFlags = (flags: unknown): object => ({ environments: { ...environments, flags } })
  const broken: Readonly<Record<string, object>> = {
    'tables that are swapped': {
      environments: { ...environments, events: environments.flags, flags: environments.events },
    },
    'a table that is renamed': withFlags([{ ...table, name: 'other' }, ...others]),
    'a table that is missing': withFlags(others.filter((one) => one.name !== 'users')),
    'a table that is there twice': withFlags([table, ...environments.flags]),
    'a table of negative size': withFlags([{ ...table, bytes: -1 }, ...others]),
    'entries that are no number': withFlags([{ ...table, entries: '3' }, ...others]),
    'a chunk that is a path': withFlags([{ ...table, chunks: ['../../x'] }, ...others]),
    'chunks that are no list': withFlags([{ ...table, chunks: 'x' }, ...others]),
    'a part that is missing': { environments: { events: [], flags: [] } },
    'no environments': { environments: null },
    'no program': { program: 7 },
  }
  const file = join(folder, 'backups', `${name}.json`)
  const target = join(root, 'restored')
  const differences = new Differences()
  const tryWith = async (what: string, text: string): Promise<void> => {
    writeFileSync(file, text)
    const { exitCode, message } = await refusal(restoreTo(target, folder))
    differences.equal(exitCode, 78, what)
    differences.match(message, `${file} is damaged`, what)
    differences.equal(message.includes('\n'), false, `${what}: the error is one sentence`)
    differences.equal(existsSync(target), false, `${what}: nothing is written`)
  }
  for (const [what, changes] of Object.entries(broken)) {
    await tryWith(what, encodeManifest({ ...manifest, ...changes }))
  }
  for (const line of ['', '{', '[]', 'null', '7', '{"version":1}']) {
    const sum = createHash('sha256').update(line).digest('hex')
    await tryWith(`the line ${JSON.stringify(line)}`, `${line}\nsha256 ${sum}\n`)
  }
  t.strictSame(differences.list(), [], 'each of them is refused with a sentence')
})
