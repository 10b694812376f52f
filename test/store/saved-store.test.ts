/**
 * Tests saved objects in the store: a restart and a backup keep them, and a full project deletes the oldest.
 *
 * @lane quick
 */
import { join } from 'node:path'
import t from 'tap'
import { PAGE_SAVED_UNITS_MAX } from '../../src/rules/saved/limits.ts'
import type { InsightRequest } from '../../src/rules/saved/saved.ts'
import { DirectoryEnvironment } from '../../src/store/catalog/directory-environment.ts'
import { OrganizationStore } from '../../src/store/catalog/organization-store.ts'
import { SavedTable } from '../../src/store/catalog/saved-table.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, FLAGS_TABLES, numberKey } from '../../src/store/lmdb/keys.ts'
import { putRecord } from '../../src/store/lmdb/records.ts'
import { createBackup, restoreBackup } from '../../src/store/maintenance/backup/backups.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'

const OWNER = { projectId: 1, userId: 1, tiles: [] }
const FIRST_PAGE = { limit: 100, offset: 0 }
const QUERY = { kind: 'TrendsQuery', series: [{ event: 'ä\u0000€😀' }] }

function nothing(): void {}

function insight(fields: InsightRequest['fields'], dashboards: readonly number[] = []) {
  return { projectId: 1, userId: 1, fields, dashboards }
}

/** A store after its first start in a new folder, closed. */
async function newStore(path: string): Promise<void> {
  const directory = await DataDir.open(path)
  const store = new OrganizationStore(path)
  store.projects.bootstrap({ projectKey: 'phc_saved', personalKey: 'phx_saved_test_key' })
  await store.close()
  directory.release()
}

/** Returns all saved objects that can be read. */
function contentOf({ saved }: OrganizationStore, token: string) {
  const list = { projectId: 1, filter: {}, page: FIRST_PAGE }
  const dashboards = saved.listDashboards(list)
  return {
    insights: saved.listInsights(list),
    annotations: saved.listAnnotations(list),
    dashboards: dashboards.results.map(({ id }) => saved.getDashboard({ projectId: 1, id })),
    shared: saved.findShared(token),
  }
}

t.test('a list page ends at its limit of units, and the next one continues', async (t) => {
  const data = join(t.testdir({ data: {} }), 'data')
  await newStore(data)
  const store = new OrganizationStore(data)
  const { saved } = store
  const tags = Array.from({ length: 50 }, (_, index) => `${index}`.padEnd(200, 'x'))
  const content = 'x'.repeat(8000)
  for (let index = 0; index < 60; index++) {
    saved.createAnnotation({ ...OWNER, fields: { content, scope: 'project' } })
    saved.createDashboard({ ...OWNER, fields: { name: `${index}`, tags } })
    saved.createInsight(insight({ name: `${index}`, query: { kind: content } }, []))
  }
  const lists = {
    annotations: (page: typeof FIRST_PAGE) =>
      saved.listAnnotations({ projectId: 1, filter: {}, page }),
    dashboards: (page: typeof FIRST_PAGE) =>
      saved.listDashboards({ projectId: 1, filter: {}, page }),
    insights: (page: typeof FIRST_PAGE) => saved.listInsights({ projectId: 1, filter: {}, page }),
  }
  for (const [name, list] of Object.entries(lists)) {
    const first = list({ limit: 1000, offset: 0 })
    const second = list({ limit: 1000, offset: first.results.length })
    t.equal(first.count, 60)
    t.ok(first.results.length < 40, `${name}: ${first.results.length} on the first page`)
    t.ok(JSON.stringify(first.results).length <= PAGE_SAVED_UNITS_MAX + 10_000)
    const third = list({ limit: 1000, offset: first.results.length + second.results.length })
    const shown = first.results.length + second.results.length + third.results.length
    t.equal(shown, 60, `${name}: three pages hold all objects`)
  }
  await store.close()
})

t.test('a restart, a backup and a restore keep all saved objects', async (t) => {
  const root = t.testdir({ data: {}, backups: {}, restored: {} })
  const [data, restored] = [join(root, 'data'), join(root, 'restored')]
  await newStore(data)
  const store = new OrganizationStore(data)
  const { dashboard } = store.saved.createDashboard({
    ...OWNER,
    fields: { name: 'd', filters: { a: [1] } },
  })
  const place = { kind: 'dashboards', projectId: 1, id: dashboard.id } as const
  store.saved.createInsight(insight({ name: 'i', query: QUERY }, [dashboard.id]))
  store.saved.changeDashboard({ ...OWNER, id: dashboard.id, fields: {}, tiles: [{ body: 'text' }] })
  store.saved.createAnnotation({ ...OWNER, fields: { content: 'a', scope: 'organization' } })
  const sharing = store.saved.changeSharing({ ...place, enabled: true, settings: { legend: true } })
  const token = sharing?.token ?? ''
  const before = contentOf(store, token)
  await store.close()
  t.match(before, {
    insights: { count: 1, results: [{ insight: { fields: { query: QUERY } } }] },
    annotations: { count: 1 },
    dashboards: [
      { tiles: [{ insight: { insight: { fields: { name: 'i' } } } }, { text: { body: 'text' } }] },
    ],
    shared: { sharing: { settings: { legend: true } }, dashboard: { fields: { name: 'd' } } },
  })
  const folder = join(root, 'backups')
  const backup = { dataDir: data, folder, nowMs: Date.now(), keep: null, onProgress: nothing }
  await createBackup(backup)
  const wanted = { folder, name: null, dataDir: restored, isForced: false, onProgress: nothing }
  await restoreBackup(wanted)
  for (const path of [data, restored]) {
    const again = new OrganizationStore(path)
    t.same(contentOf(again, token), before, path === data ? 'restarted' : 'restored')
    await again.close()
    t.same((await verifyStore(path, nothing)).findings, [])
  }
})

t.test(
  'a store from before saved objects existed opens, keeps its data and accepts them',
  async (t) => {
    const path = t.testdir()
    const isNew = (name: string) => /insight|dashboards$|dashboard_tiles|annot|share/.test(name)
    const tables = FLAGS_TABLES.filter((name) => name === 'flag_dashboards' || !isNew(name))
    t.equal(FLAGS_TABLES.length - tables.length, 7)
    const old = new Environment({ dataDir: path, name: FLAGS_ENVIRONMENT, tables })
    const user = { id: 1, email: 'ann@x.example' }
    old.write(() => putRecord(old.table('users'), numberKey(1), user))
    await old.close()
    const store = new OrganizationStore(path)
    t.match(store.users.list(), [user])
    t.equal(store.saved.createInsight(insight({ name: 'x' })).insight.id, 1)
    await store.close()
  },
)

t.test('the objects deleted first make room, together with references to them', async (t) => {
  const path = t.testdir()
  await newStore(path)
  const environment = new DirectoryEnvironment(path)
  const removed: string[] = []
  const table = new SavedTable<{ readonly name: string }>(environment, {
    table: 'dashboards',
    number: 'flag_dashboard_id',
    countMax: 3,
    onRemove: ({ fields }) => removed.push(fields.name),
  })
  const add = (name: string, projectId = 1) =>
    environment.save(() => table.add(projectId, null, { name }))
  const made = ['a', 'b', 'c'].map((name) => add(name))
  t.throws(() => add('d'), {
    code: 'invalid_input',
    message: 'There can be at most 3 dashboards of a project.',
  })
  add('elsewhere', 2)
  for (const saved of [made[1], made[0]]) {
    if (saved !== undefined) {
      environment.save(() => table.put({ ...saved, isDeleted: true, updatedAtMs: removed.length }))
    }
  }
  const names = () => table.all(1).map(({ fields }) => fields.name)
  t.same(names(), ['a', 'b', 'c'])
  add('d')
  add('e')
  t.same(removed.toSorted(), ['a', 'b'])
  t.same(names(), ['c', 'd', 'e'])
  t.throws(() => add('f'), { code: 'invalid_input' })
  t.equal(add('g', 2).id, 7, 'numbers are never reused')
  await environment.close()
})

t.test('a purged object leaves neither tiles nor tokens', async (t) => {
  const path = t.testdir()
  await newStore(path)
  const store = new OrganizationStore(path)
  const environment = new DirectoryEnvironment(path)
  const { saved } = store
  const { dashboard } = saved.createDashboard({ ...OWNER, fields: {} })
  const { insight: first } = saved.createInsight(insight({}, [dashboard.id]))
  const place = { kind: 'insights', projectId: 1, id: first.id } as const
  saved.changeSharing({ ...place, enabled: true })
  const count = (name: 'insight_tiles' | 'dashboard_tiles' | 'share_tokens') => {
    environment.refresh()
    return environment.table(name).getKeysCount()
  }
  t.same([count('insight_tiles'), count('dashboard_tiles'), count('share_tokens')], [1, 1, 1])
  saved.refreshSharing(place)
  t.equal(count('share_tokens'), 1, 'the old token is gone')
  // After a move to another project, an annotation is no longer in the first one.
  const note = saved.createAnnotation({ ...OWNER, fields: { scope: 'project' } })
  saved.changeAnnotation({ ...OWNER, id: note.id, fields: { scope: 'organization' } })
  const list = { filter: {}, page: FIRST_PAGE }
  t.equal(saved.listAnnotations({ projectId: 1, ...list }).count, 1)
  t.equal(saved.listAnnotations({ projectId: 2, ...list }).count, 1)
  await environment.close()
  await store.close()
})

t.test('a change raises the version of the environment, not that of the directory', async (t) => {
  const path = t.testdir()
  await newStore(path)
  const store = new OrganizationStore(path)
  const environment = new DirectoryEnvironment(path)
  const before = environment.version
  store.saved.createInsight(insight({ name: 'x' }))
  t.equal(environment.version, before)
  t.throws(() => store.saved.createInsight(insight({ name: 'y' }, [99])), {
    code: 'does_not_exist',
  })
  const list = { projectId: 1, filter: {}, page: FIRST_PAGE }
  t.equal(store.saved.listInsights(list).count, 1, 'a refused change leaves nothing')
  await environment.close()
  await store.close()
})
