/**
 * Tables of the catalogue in the place of each other: checksums do not cover the table, so the form of the records must
 * tell them apart. Records of every table are written by the program itself.
 *
 * @lane quick
 */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FlagStore } from '../../src/store/catalog/flag-store.ts'
import { OrganizationStore } from '../../src/store/catalog/organization-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, FLAGS_TABLES, pairKey } from '../../src/store/lmdb/keys.ts'
import { entriesOf, putRecord } from '../../src/store/lmdb/records.ts'
import { createBackup, restoreBackup } from '../../src/store/maintenance/backup/backups.ts'
import { encodeManifest, readManifest } from '../../src/store/maintenance/backup/manifest.ts'
import { hasForm } from '../../src/store/maintenance/catalogue-forms.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { Differences } from '../fixtures/differences.ts'
import { refusal } from '../fixtures/refusal.ts'

const HOUR_MS = 3_600_000
const CONTEXT = {
  projectId: 1,
  actor: { userId: 1, firstName: 'Owner', email: 'owner@store.example' },
  nowMs: Date.now(),
  cohort: () => null,
}
const AUDIT = {
  atMs: 0,
  source: 'console',
  userId: null,
  keyId: null,
  account: null,
  address: '127.0.0.1',
  projectId: null,
  method: 'POST',
  route: 'console/session/',
  objectId: null,
  status: 201,
} as const
const OWNER = { projectId: 1, userId: 1, tiles: [] }

function nothing(): void {}

/** Creates a store with a record in every table of the catalogue, and closes it. */
async function fullCatalogue(path: string): Promise<void> {
  const directory = await DataDir.open(path)
  const store = new OrganizationStore(path)
  store.projects.bootstrap({ projectKey: 'phc_full', personalKey: 'phx_full_catalogue' })
  await addFlags(path, store)
  const user = store.users.create({ email: 'member@store.example' })
  store.passwords.set(user.id, '$scrypt$')
  const account = { issuer: 'https://id.example', subject: '7', email: user.email, firstName: '' }
  store.identities.enter({ account, isViewerMade: false, audit: AUDIT })
  const rights = { level: 1, createdById: 1, scopes: ['*'], keyExpiresAtMs: null } as const
  store.invites.create({ email: 'invited@store.example', ...rights })
  store.projectMembers.add({ projectId: 1, userId: user.id }, 1)
  store.projects.keys.createSecret({ projectId: 1 })
  store.definitions.delete(1, { id: 'seen', sequence: 1 })
  store.usage.keep({ hours: [{ hourMs: HOUR_MS, sinceMs: 0, flags: [] }], fromMs: 0 })
  store.console.createCode(user.id)
  const proof = { code: store.console.createCode(user.id) }
  const client = { address: '127.0.0.1', userAgent: 'test' }
  store.console.begin({ token: 'token', proof, atMs: Date.now(), ...client })
  const { dashboard } = store.saved.createDashboard({ ...OWNER, fields: { name: 'Board' } })
  store.saved.changeSharing({ projectId: 1, id: dashboard.id, kind: 'dashboards', enabled: true })
  const query = { kind: 'TrendsQuery', series: [{ event: 'seen' }] }
  const dashboards = [dashboard.id]
  store.saved.createInsight({ projectId: 1, userId: 1, fields: { query }, dashboards })
  store.saved.createAnnotation({ ...OWNER, fields: { content: 'Note', scope: 'project' } })
  await store.close()
  directory.release()
}

async function addFlags(path: string, { roles }: OrganizationStore): Promise<void> {
  const flags = new FlagStore(path)
  const { id: flagId } = flags.create(CONTEXT, { key: 'shop' })
  flags.scheduled.create(CONTEXT, flagId, {
    payload: { operation: 'update_status', value: false },
    scheduled_at: new Date(CONTEXT.nowMs + HOUR_MS).toISOString(),
  })
  const steps = [{ rollout_percentage: 1 }, { rollout_percentage: 2, after_seconds: 60 }]
  const payload = { operation: 'ramp', value: { steps, guards: [{}] } }
  const { id } = flags.scheduled.create(CONTEXT, flagId, { payload })
  flags.scheduled.move(CONTEXT, { id, executions: 0 })
  const verdict = { action: 'halt', reason: 'Errors rose.', uuid: 'uuid', seen: {} } as const
  flags.scheduled.move(CONTEXT, { id, executions: 1, verdict })
  const holdout = { name: 'Few', description: null, percentage: 5 }
  flags.changeExperiment(CONTEXT, { action: 'create_holdout', fields: holdout })
  const source = { kind: 'EventsNode', event: 'seen' }
  const metric = { name: 'Views', query: { metric_type: 'mean', source } }
  flags.changeExperiment(CONTEXT, { action: 'create_saved_metric', input: metric })
  const input = { name: 'Short form', feature_flag_key: 'short-form' }
  flags.changeExperiment(CONTEXT, { action: 'create', input })
  await flags.close()
  const { role } = roles.create({ name: 'Ops', createdById: 1 })
  roles.addAccess({ projectId: 1, flagId }, role.id)
  // Only older versions wrote this table.
  const environment = new Environment({
    dataDir: path,
    name: FLAGS_ENVIRONMENT,
    tables: FLAGS_TABLES,
  })
  const old = { id: 1, name: 'Usage', createdAtMs: 0 }
  environment.write(() => putRecord(environment.table('flag_dashboards'), pairKey(1, 1), old))
  await environment.close()
}

t.test('records are recognized in their own table, and in no other', async (t) => {
  const data = join(t.testdir({ data: {} }), 'data')
  await fullCatalogue(data)
  const environment = new Environment({
    dataDir: data,
    name: FLAGS_ENVIRONMENT,
    tables: FLAGS_TABLES,
  })
  const differences = new Differences()
  for (const table of FLAGS_TABLES) {
    let count = 0
    for (const { key, value } of entriesOf(environment.table(table))) {
      count++
      // The queries of insights are what clients have sent, so their table accepts any JSON.
      const found = FLAGS_TABLES.filter((name) => hasForm(name, key, value))
      const others = found.filter((name) => name !== 'insight_queries')
      differences.equal(hasForm(table, key, value), true, `${table}: its own record`)
      differences.equal(others.join(), table === 'insight_queries' ? '' : table, table)
    }
    differences.equal(count > 0, true, `${table} has a record`)
  }
  await environment.close()
  t.strictSame(differences.list(), [])
})

t.test('a backup whose tables of the catalogue are swapped is not restored', async (t) => {
  const root = t.testdir({ data: {}, backups: {} })
  const [data, folder] = [join(root, 'data'), join(root, 'backups')]
  await fullCatalogue(data)
  t.strictSame((await verifyStore(data, nothing)).findings, [], 'a whole store is sound')
  const { name } = await createBackup({
    dataDir: data,
    folder,
    nowMs: Date.now(),
    keep: null,
    onProgress: nothing,
  })
  const manifest = readManifest(folder, name)
  const { environments } = manifest
  const write = (flags: typeof environments.flags) => {
    const text = encodeManifest({ ...manifest, environments: { ...environments, flags } })
    writeFileSync(join(folder, 'backups', `${name}.json`), text)
  }
  const restore = (target: string) =>
    restoreBackup({ folder, name, dataDir: target, isForced: false, onProgress: nothing })
  /** Returns the tables with one of them under the name of another one. The tables in `empty` are empty before. */
  const swapped = (one: string, other: string, empty: readonly string[]) => {
    const tables = environments.flags.map((table) =>
      empty.includes(table.name) ? { ...table, entries: 0, bytes: 0, chunks: [] } : table,
    )
    return tables.map((table) => {
      if (table.name === one) return { ...table, name: other }
      return table.name === other ? { ...table, name: one } : table
    })
  }
  const target = join(root, 'restored')
  for (const [one, other, empty] of [
    ['users', 'projects', []],
    ['experiments', 'holdouts', []],
    ['saved_metrics', 'annotations', []],
    ['flags', 'flag_dashboards', ['flag_dashboards']],
    ['annotations', 'insight_queries', ['insight_queries', 'insights']],
  ] as const) {
    write(swapped(one, other, empty))
    const { exitCode, message } = await refusal(restore(target))
    t.equal(exitCode, 78, `${one} and ${other}`)
    t.match(message, /has records of another table\. Use another backup\.$/)
    t.notOk(existsSync(join(target, 'format')), 'no store was made')
  }
  const newer = [
    'experiments',
    'holdouts',
    'saved_metrics',
    'scheduled_changes',
    'pending_changes',
    'guard_events',
    'passwords',
  ]
  write(environments.flags.filter((table) => !newer.includes(table.name)))
  await restore(target)
  t.strictSame((await verifyStore(target, nothing)).findings, [], 'an older backup is restored')
})

t.test('a check of a store names a table with records of another one', async (t) => {
  const data = join(t.testdir({ data: {} }), 'data')
  await fullCatalogue(data)
  const tables = FLAGS_TABLES
  const environment = new Environment({ dataDir: data, name: FLAGS_ENVIRONMENT, tables })
  environment.write(() => {
    const [from, to] = [environment.table('annotations'), environment.table('holdouts')]
    for (const key of [...to.getKeys()]) to.removeSync(Buffer.from(key))
    for (const { key, value } of [...from.getRange()]) {
      to.putSync(Buffer.from(key), Buffer.from(value))
    }
  })
  await environment.close()
  t.match((await verifyStore(data, nothing)).findings, [
    { where: 'table holdouts', what: 'has records of another table' },
  ])
})
