/** The change log of one box: held to src/ports/change-log.ts, and copies that take its sets are the same. */
import t from 'tap'
import type { WriteSet } from '../../src/ports/change-log.ts'
import { CatalogueChanges } from '../../src/store/catalog/change-log.ts'
import { FlagStore } from '../../src/store/catalog/flag-store.ts'
import { ProjectStore } from '../../src/store/catalog/project-store.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { changeLogContract, KEPT } from './change-log-contract.ts'

function openLog(t: { teardown(action: () => Promise<void>): void }, dataDir: string) {
  const log = new CatalogueChanges(dataDir, KEPT)
  t.teardown(() => log.close())
  return log
}

changeLogContract(t, 'embedded', (t) => openLog(t, t.testdir()))

/** Everything in an environment. */
async function contentOf(dataDir: string): Promise<readonly string[]> {
  const environment = new Environment({ dataDir, name: 'flags', tables: [] })
  const lines = environment
    .openAll()
    .flatMap((table) =>
      [...environment.table(table).getRange({})].map(
        ({ key, value }) => `${table} ${Buffer.from(key).toString('hex')} ${value.toString('hex')}`,
      ),
    )
  await environment.close()
  return lines
}

t.test('copies that take the write sets of stores hold the same bytes', async (t) => {
  const dirs = t.testdir({ first: {}, second: {}, third: {} })
  const first = openLog(t, `${dirs}/first`)
  const sets: WriteSet[] = []
  first.follow(0, (_, changes) => sets.push(changes))
  const projects = new ProjectStore(`${dirs}/first`)
  projects.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_a' })
  for (const name of ['one', 'two']) projects.createProject({ name })
  projects.setProject(2, { name: 'renamed' })
  const flags = new FlagStore(`${dirs}/first`)
  const actor = { userId: 1, firstName: 'Ann', email: 'ann@x.example' }
  const context = { projectId: 1, actor, nowMs: 1.7e12, cohort: () => null }
  const { id } = flags.create(context, { key: 'beta' })
  flags.update(context, id, { active: false }, false)
  t.throws(() => flags.create(context, { key: 'beta' }), 'a refused change')
  await projects.close()
  await flags.close()
  await first.close()
  t.ok(sets.length >= 5, `${sets.length} transactions`)
  const content = await contentOf(`${dirs}/first`)
  for (const name of ['second', 'third']) {
    const copy = new CatalogueChanges(`${dirs}/${name}`)
    for (const changes of sets) t.ok(await copy.commit(copy.newest(), changes))
    t.equal(copy.newest(), sets.length)
    await copy.close()
    t.strictSame(await contentOf(`${dirs}/${name}`), content, name)
  }
})
