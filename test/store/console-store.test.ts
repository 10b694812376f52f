/**
 * Tests sessions and login codes in the store: in a store from before sessions existed, in backups, and after damage.
 *
 * @lane quick
 */
import { join } from 'node:path'
import t from 'tap'
import { OrganizationStore, ProjectDirectory } from '../../src/store/catalog/organization-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, FLAGS_TABLES } from '../../src/store/lmdb/keys.ts'
import { createBackup, restoreBackup } from '../../src/store/maintenance/backup/backups.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'

const TABLES = ['console_sessions', 'login_codes'] as const
const FROM = { address: '192.0.2.1', userAgent: 'Browser' }

function nothing(): void {}

/** A store after its first start, closed. */
async function newStore(path: string): Promise<void> {
  const directory = await DataDir.open(path)
  const store = new OrganizationStore(path)
  store.projects.bootstrap({ projectKey: 'phc_console', personalKey: 'phx_console_test_key' })
  await store.close()
  directory.release()
}

/** Begins a session with a code. */
function begin({ console }: OrganizationStore, token: string, code = console.createCode(1)) {
  return console.begin({ token, proof: { code }, atMs: Date.now(), ...FROM })
}

t.test(
  'a store from before sessions existed opens, keeps its data and accepts sessions',
  async (t) => {
    const path = t.testdir()
    await newStore(path)
    const old = new Environment({
      dataDir: path,
      name: FLAGS_ENVIRONMENT,
      tables: FLAGS_TABLES.filter((name) => !TABLES.some((one) => one === name)),
    })
    for (const name of TABLES) t.ok(old.openAll().includes(name))
    old.write(() => {
      for (const name of TABLES) old.table(name).dropSync()
    })
    t.notOk(old.openAll().some((name) => TABLES.some((one) => one === name)))
    await old.close()
    const directory = new ProjectDirectory(path)
    t.equal(directory.consoleSession('a'), null)
    const store = new OrganizationStore(path)
    t.match(store.users.list(), [{ id: 1 }])
    t.equal(begin(store, 'a'), true)
    t.match(directory.consoleSession('a'), { userId: 1, session: { id: 1, startedWith: 'link' } })
    t.equal(directory.consoleSession('b'), null)
    await store.close()
    await directory.close()
  },
)

t.test('sessions and codes are in backups', async (t) => {
  const root = t.testdir({ data: {} })
  const [data, restored, folder] = ['data', 'restored', 'backups'].map((name) => join(root, name))
  if (data === undefined || restored === undefined || folder === undefined) throw new Error(root)
  await newStore(data)
  const store = new OrganizationStore(data)
  begin(store, 'a')
  const code = store.console.createCode(1)
  await store.close()
  await createBackup({ dataDir: data, folder, nowMs: Date.now(), keep: null, onProgress: nothing })
  const wanted = { folder, name: null, dataDir: restored, isForced: false, onProgress: nothing }
  await restoreBackup(wanted)
  t.same((await verifyStore(restored, nothing)).findings, [])
  const again = new OrganizationStore(restored)
  t.equal(again.console.list(1, Date.now()).length, 1)
  t.equal(begin(again, 'b', code), true)
  t.equal(begin(again, 'c', code), false)
  await again.close()
})

/** Flips a bit of each record. */
async function damageAll(path: string): Promise<void> {
  const raw = new Environment({ dataDir: path, name: FLAGS_ENVIRONMENT, tables: TABLES })
  raw.write(() => {
    for (const name of TABLES) {
      const table = raw.table(name)
      for (const { key, value } of [...table.getRange({})]) {
        const damaged = Buffer.from(value)
        damaged[0] = (damaged[0] ?? 0) ^ 1
        table.putSync(Buffer.from(key), damaged)
      }
    }
  })
  await raw.close()
}

t.test('a session can be ended despite a damaged record', async (t) => {
  const path = t.testdir()
  await newStore(path)
  const store = new OrganizationStore(path)
  begin(store, 'a')
  store.console.createCode(1)
  const good = store.console.find('a')
  await damageAll(path)
  store.refresh()
  store.console.end(good?.id ?? 0)
  t.equal(store.console.find('a'), null)
  t.equal(begin(store, 'b'), true)
  await store.close()
})

t.test('damaged records lock nobody out: a new login works', async (t) => {
  const path = t.testdir()
  await newStore(path)
  const store = new OrganizationStore(path)
  begin(store, 'a')
  store.console.createCode(1)
  await damageAll(path)
  store.refresh()
  t.equal(store.console.find('a'), null)
  t.equal(begin(store, 'b'), true)
  t.match(store.console.list(1, Date.now()), [{ userId: 1, key: null }])
  await store.close()
})
