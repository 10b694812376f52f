/**
 * Tests feature flags in the store: changes, numbers, reuse of keys, the activity log, and the view of readers.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import type { JsonObject } from '../../src/base/json.ts'
import type { FlagChangeContext } from '../../src/rules/flags/edit/flag-changes.ts'
import type { Flag, FlagCohort } from '../../src/rules/flags/types.ts'
import { FlagDirectory, FlagStore } from '../../src/store/catalog/flag-store.ts'
import { DataDir } from '../../src/store/directory/data-dir.ts'
import { DamagedRecordError } from '../../src/store/faults.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, pairKey } from '../../src/store/lmdb/keys.ts'

const NOW_MS = Date.UTC(2024, 0, 2, 3, 4, 5)
const ANN = { userId: 1, firstName: 'Ann', email: 'ann@x.example' }
const EVERYONE = { groups: [{ properties: [], rollout_percentage: null }] }

interface Store {
  readonly path: string
  readonly store: FlagStore
  readonly directory: FlagDirectory
  readonly context: FlagChangeContext
  create(key: string, more?: JsonObject): Flag
  update(flag: Flag, body: JsonObject): Flag
}

async function openStore(t: Test, cohorts: readonly FlagCohort[] = []): Promise<Store> {
  const path = t.testdir()
  const dir = await DataDir.open(path)
  const store = new FlagStore(path)
  const directory = new FlagDirectory(path)
  t.teardown(async () => {
    await store.close()
    await directory.close()
    dir.release()
  })
  const context: FlagChangeContext = {
    projectId: 1,
    actor: ANN,
    nowMs: NOW_MS,
    cohort: (id) => cohorts.find((cohort) => cohort.id === id) ?? null,
  }
  return {
    path,
    store,
    directory,
    context,
    create: (key, more = {}) => store.create(context, { key, ...more }),
    update: (flag, body) => store.update(context, flag.id, body, false),
  }
}

/** Returns the code and attr of the refusal, or null if there is none. */
function refusalOf(action: () => unknown): readonly (string | null)[] | null {
  try {
    action()
    return null
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return [error.code, error.attr]
  }
}

function entriesOf(store: FlagStore, flagId: number | null = null): readonly unknown[] {
  const page = store.activity(1, flagId, 0, 100)
  if (page === null) throw new Error('there is no such flag')
  return [...page.entries].map((entry) => JSON.parse(entry) as unknown)
}

t.test('a new flag has the defaults of the API and its author', async (t) => {
  const { create, directory } = await openStore(t)
  const flag = create('beta')
  t.strictSame(flag, {
    id: 1,
    projectId: 1,
    key: 'beta',
    name: '',
    filters: EVERYONE,
    deleted: false,
    active: true,
    version: 1,
    createdById: 1,
    createdAtMs: NOW_MS,
    lastModifiedById: 1,
    updatedAtMs: NOW_MS,
    ensureExperienceContinuity: false,
    rollbackConditions: null,
    performedRollback: null,
    tags: [],
    usageDashboard: null,
    analyticsDashboards: [],
    hasEnrichedAnalytics: false,
    evaluationRuntime: 'all',
    bucketingIdentifier: null,
    evaluationContexts: [],
    isRemoteConfiguration: false,
    hasEncryptedPayloads: false,
  })
  t.strictSame(directory.flagsOf(1), [])
  t.equal(directory.refreshIfChanged(), true)
  t.strictSame(directory.flagsOf(1), [flag], 'what is read back is the same')
  t.equal(directory.refreshIfChanged(), false)
})

t.test('a flag cannot be restored if it would then depend on itself', async (t) => {
  const { create, update } = await openStore(t)
  const on = ({ id }: Flag) => {
    const property = { type: 'flag', key: String(id), operator: 'flag_evaluates_to', value: true }
    return { filters: { groups: [{ properties: [property], rollout_percentage: 100 }] } }
  }
  const shop = create('shop')
  const gone = create('gone', on(shop))
  const idle = create('idle', on(gone))
  update(idle, { active: false })
  update(gone, { deleted: true })
  update(idle, { active: true })
  update(shop, on(idle))
  t.strictSame(
    refusalOf(() => update(gone, { deleted: false })),
    ['invalid_input', null],
  )
  update(shop, { filters: EVERYONE })
  t.equal(update(gone, { deleted: false }).deleted, false)
})

t.test('numbers are counted over all projects and never reused', async (t) => {
  const { create, store, context, update } = await openStore(t)
  const first = create('a')
  const other = store.create({ ...context, projectId: 2 }, { key: 'a' })
  update(first, { deleted: true })
  t.strictSame([first.id, other.id, create('a').id], [1, 2, 3])
  t.strictSame(
    refusalOf(() => store.update(context, other.id, { name: 'x' }, false)),
    ['not_found', null],
    'a flag of another project is unknown',
  )
})

t.test('a change raises the version; a refused change has no effect', async (t) => {
  const { create, update, directory, store } = await openStore(t)
  const flag = create('beta')
  const changed = update(flag, { name: 'Beta', filters: { groups: [] }, unknown: 1 })
  t.strictSame(changed, { ...flag, name: 'Beta', filters: { groups: [] }, version: 2 })
  t.strictSame(
    refusalOf(() => update(flag, { name: 'x', active: 'perhaps' })),
    ['invalid_input', 'active'],
  )
  directory.refreshIfChanged()
  t.strictSame(directory.flagById(1, flag.id), changed)
  t.equal(entriesOf(store).length, 2)
})

t.test('filters are replaced as a whole; filters without groups are ignored', async (t) => {
  const { create, update } = await openStore(t)
  const payloads = { true: '{"a":1}' }
  const flag = create('beta', { filters: { ...EVERYONE, payloads, note: { kept: [1] } } })
  t.strictSame(flag.filters, { ...EVERYONE, payloads, note: { kept: [1] } })
  t.strictSame(update(flag, { filters: { payloads: {} } }).filters, flag.filters)
  t.strictSame(update(flag, { filters: { groups: [] } }).filters, { groups: [] })
})

t.test('the key of a deleted flag can be reused, which removes the old flag', async (t) => {
  const { create, update, directory, store } = await openStore(t)
  const old = create('beta')
  update(old, { deleted: true })
  directory.refreshIfChanged()
  t.strictSame(directory.flagsOf(1), [])
  t.equal(directory.flagByKey(1, 'beta'), null)
  t.equal(directory.flagById(1, old.id)?.deleted, true, 'until then the old flag can be read')
  t.equal(store.activity(1, old.id, 0, 10)?.totalCount, 2)
  const fresh = create('beta')
  directory.refreshIfChanged()
  t.equal(directory.flagById(1, old.id), null)
  t.equal(directory.flagByKey(1, 'beta')?.id, fresh.id)
  t.equal(store.activity(1, old.id, 0, 10), null)
  t.strictSame(
    refusalOf(() => update(old, { deleted: false })),
    ['not_found', null],
  )
})

t.test('a deleted flag is restored unless its key is taken', async (t) => {
  const { create, update, store } = await openStore(t)
  const flag = create('beta')
  update(flag, { deleted: true })
  t.equal(update(flag, { deleted: false }).deleted, false)
  t.match(entriesOf(store, flag.id), [
    { activity: 'restored' },
    { activity: 'deleted' },
    { activity: 'created' },
  ])
  const other = create('other')
  update(flag, { deleted: true })
  update(other, { key: 'beta' })
  t.strictSame(
    refusalOf(() => update(flag, { deleted: false })),
    ['unique', 'key'],
  )
})

t.test('a changed key renames the enrollment property', async (t) => {
  const { create, update } = await openStore(t)
  const enrollment = (key: string) => ({
    ...EVERYONE,
    super_groups: [
      { properties: [{ key: `$feature_enrollment/${key}`, type: 'person', value: ['true'] }] },
    ],
  })
  const flag = create('old', { filters: enrollment('old') })
  t.strictSame(update(flag, { key: 'new' }).filters, enrollment('new'))
})

t.test('active: true undoes a rollback', async (t) => {
  const { create, update } = await openStore(t)
  const flag = create('beta', { performed_rollback: true })
  t.equal(flag.performedRollback, true)
  t.equal(update(flag, { active: false }).performedRollback, true)
  t.equal(update(flag, { active: true, performed_rollback: true }).performedRollback, false)
})

t.test('tags and dashboards are stored', async (t) => {
  const { create, update, store, context } = await openStore(t)
  const flag = create('beta', { tags: [' Web ', 'web', 'iOS'] })
  t.strictSame(flag.tags, ['web', 'ios'])
  t.strictSame(update(flag, { name: 'x' }).tags, ['web', 'ios'])
  t.strictSame(update(flag, { tags: [] }).tags, [])
  t.strictSame(
    refusalOf(() => update(flag, { analytics_dashboards: [1] })),
    ['does_not_exist', 'analytics_dashboards'],
  )
  const { usageDashboard } = store.addDashboard(context, flag.id)
  t.equal(usageDashboard, 1)
  t.equal(store.addDashboard(context, flag.id).usageDashboard, 1, 'there is at most one')
  t.equal(store.addDashboard(context, create('other').id).usageDashboard, 2)
  t.strictSame(update(flag, { analytics_dashboards: [2] }).analyticsDashboards, [2])
  t.strictSame(update(flag, { analytics_dashboards: [1, 2] }).analyticsDashboards, [2, 1])
  t.strictSame(update(flag, { analytics_dashboards: [] }).analyticsDashboards, [2, 1])
})

t.test('the log lists the changed fields, and has no entry without a change', async (t) => {
  const { create, update, store } = await openStore(t)
  const flag = create('beta')
  update(flag, { name: '', tags: [], key: 'beta', created_at: '2020-01-01T00:00:00Z' })
  update(flag, { key: 'gamma', active: false, rollback_conditions: [1] })
  update(flag, { rollback_conditions: null })
  const [cleared, changed, created, ...rest] = entriesOf(store)
  t.strictSame(rest, [])
  t.match(created, {
    id: /^[0-9a-f-]{36}$/,
    user: { first_name: 'Ann', email: 'ann@x.example' },
    activity: 'created',
    scope: 'FeatureFlag',
    item_id: '1',
    detail: { id: null, changes: [], merge: null, trigger: null, name: 'beta', short_id: null },
    created_at: '2024-01-02T03:04:05Z',
  })
  const type = 'FeatureFlag'
  t.match(changed, {
    activity: 'updated',
    detail: {
      name: 'gamma',
      changes: [
        { type, action: 'changed', field: 'key', before: 'beta', after: 'gamma' },
        { type, action: 'changed', field: 'active', before: true, after: false },
        { type, action: 'created', field: 'rollback_conditions', before: null, after: [1] },
      ],
    },
  })
  t.match(cleared, {
    detail: { changes: [{ action: 'deleted', before: [1], after: null }] },
  })
  t.equal([...(store.activity(1, null, 2, 2)?.entries ?? [])].length, 1)
  t.equal(store.activity(1, null, 2, 2)?.totalCount, 3)
  t.equal(store.activity(1, 99, 1, 10), null)
  t.equal(store.activity(2, flag.id, 1, 10), null)
})

t.test('an older version is refused only for fields that others have changed', async (t) => {
  const { create, update, store } = await openStore(t)
  const flag = create('beta', { name: 'one' })
  const original = { version: 1, name: 'one', active: true, filters: flag.filters }
  update(flag, { name: 'two' })
  const from = { version: 1, original_flag: original }
  t.strictSame(
    refusalOf(() => update(flag, { ...from, name: 'three' })),
    ['conflict', null],
  )
  t.equal(
    update(flag, { ...from, name: 'one', active: false }).active,
    false,
    'other fields are accepted',
  )
  t.equal(store.flags(1).stored(flag.id)?.flag.name, 'one')
  t.equal(update(flag, { version: 1, name: 'four' }).name, 'four', 'the request has no original')
  t.equal(update(flag, { ...from, version: -1, name: 'five' }).name, 'five')
  t.equal(update(flag, { original_flag: original, name: 'six' }).name, 'six')
})

t.test('a reader keeps the same list until a flag of the project changes', async (t) => {
  const { create, update, directory, store, context } = await openStore(t)
  const flags = ['a', 'b', 'c'].map((key) => create(key))
  directory.refreshIfChanged()
  const list = directory.flagsOf(1)
  store.create({ ...context, projectId: 2 }, { key: 'a' })
  t.equal(directory.refreshIfChanged(), true)
  t.equal(directory.flagsOf(1), list)
  const [first] = flags
  if (first === undefined) throw new Error('no flag was made')
  update(first, { name: 'x' })
  directory.refreshIfChanged()
  t.not(directory.flagsOf(1), list)
  t.strictSame(
    directory.flagsOf(1).map(({ id }) => id),
    [1, 2, 3],
    'in the order of their numbers',
  )
  t.equal(directory.flagsOf(1)[1], list[1], 'unchanged flags are not read again')
})

t.test('after random changes, memory, a fresh reader and the store agree', async (t) => {
  const { path, store, directory, context } = await openStore(t)
  let state = 7
  const random = (below: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % below
  }
  for (let step = 0; step < 300; step++) {
    const at = { ...context, projectId: 1 + random(2) }
    const key = `k${random(6)}`
    const id = 1 + random(30)
    refusalOf(() =>
      random(3) === 0
        ? store.create(at, { key })
        : store.update(at, id, random(2) === 0 ? { deleted: random(2) === 0 } : { key }, false),
    )
    if (random(4) === 0) directory.refreshIfChanged()
  }
  directory.refreshIfChanged()
  const fresh = new FlagDirectory(path)
  t.teardown(() => fresh.close())
  for (const projectId of [1, 2]) {
    t.strictSame(directory.flagsOf(projectId), fresh.flagsOf(projectId))
    t.strictSame(store.flags(projectId).flags, fresh.flagsOf(projectId))
    t.ok(fresh.flagsOf(projectId).length > 0)
    const keys = fresh.flagsOf(projectId).map(({ key }) => key)
    t.equal(new Set(keys).size, keys.length, 'keys are unique')
    for (let id = 1; id <= 30; id++) {
      t.strictSame(directory.flagById(projectId, id), fresh.flagById(projectId, id))
    }
  }
})

t.test('a damaged flag is refused, and the reader keeps its last state', async (t) => {
  const { path, create, update, directory } = await openStore(t)
  const flag = create('beta')
  directory.refreshIfChanged()
  const changed = update(flag, { name: 'x' })
  const environment = new Environment({
    dataDir: path,
    name: FLAGS_ENVIRONMENT,
    tables: ['flags'],
  })
  const table = environment.table('flags')
  const bytes = Buffer.from(table.get(pairKey(1, changed.id)) ?? [])
  bytes[10] = (bytes[10] ?? 0) ^ 1
  environment.write(() => table.putSync(pairKey(1, changed.id), bytes))
  t.teardown(() => environment.close())
  t.throws(() => directory.refreshIfChanged(), DamagedRecordError)
  t.strictSame(directory.flagsOf(1), [flag])
})

t.test('role permissions on a purged flag are removed with it', async (t) => {
  const { path, create, update } = await openStore(t)
  const environment = new Environment({
    dataDir: path,
    name: FLAGS_ENVIRONMENT,
    tables: ['role_access'],
  })
  t.teardown(() => environment.close())
  const table = environment.table('role_access')
  const keyOf = (flagId: number): Buffer =>
    Buffer.concat([pairKey(1, flagId), Buffer.from([0, 0, 0, 1])])
  const flag = create('beta')
  const other = create('other')
  environment.write(() => {
    for (const { id } of [flag, other]) table.putSync(keyOf(id), Buffer.from('x'))
  })
  update(flag, { deleted: true })
  environment.refresh()
  t.ok(table.doesExist(keyOf(flag.id)))
  create('beta')
  environment.refresh()
  t.notOk(table.doesExist(keyOf(flag.id)))
  t.ok(table.doesExist(keyOf(other.id)))
})
