/**
 * Tests copies of the catalogue against src/ports/change-log.ts: copies that apply the same change sets are equal.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import type { Proposal } from '../../src/ports/change-log.ts'
import type { AuditEntry } from '../../src/rules/access/audit-entry.ts'
import {
  proposeWrites,
  StoredCatalogue,
  takeProposal,
} from '../../src/store/catalog/catalogue-copy.ts'
import { FlagStore } from '../../src/store/catalog/flag-store.ts'
import { OrganizationStore } from '../../src/store/catalog/organization-store.ts'
import { pack } from '../../src/store/lmdb/codec.ts'
import { catalogueLines } from '../fixtures/catalogue-lines.ts'

const ENTRY: AuditEntry = {
  atMs: 1,
  source: 'command_line',
  userId: null,
  keyId: null,
  account: 'ann',
  address: '',
  projectId: null,
  method: '',
  route: 'tenrec test',
  objectId: null,
  status: 0,
}

interface Copies {
  readonly dirs: Readonly<Record<'first' | 'second' | 'third', string>>
  readonly first: StoredCatalogue
  readonly second: StoredCatalogue
}

/** Two copies that began with the same full catalogue, and a folder for a third. */
async function startCopies(t: Test): Promise<Copies> {
  const folder = t.testdir({ first: {}, second: {}, third: {} })
  const dirs = {
    first: `${folder}/first`,
    second: `${folder}/second`,
    third: `${folder}/third`,
  }
  const stores = new OrganizationStore(dirs.first)
  stores.projects.bootstrap({ projectKey: 'phc_a', personalKey: 'phx_a' })
  await stores.close()
  const first = new StoredCatalogue(dirs.first)
  const second = new StoredCatalogue(dirs.second)
  t.teardown(async () => {
    await first.close()
    await second.close()
  })
  const { parts } = first.whole()
  const place = { incarnation: 'a', sequence: 3, number: 0 }
  first.replace({ place, parts })
  second.replace({ place, parts })
  return { dirs, first, second }
}

function proposalOf(t: Test, action: () => void): Proposal {
  action()
  const proposal = takeProposal()
  if (proposal === null) throw new Error('nothing was proposed')
  t.equal(takeProposal(), null, 'it is answered once')
  return proposal
}

t.test('a change of a table that this version lacks is refused for good', async (t) => {
  const { dirs, first } = await startCopies(t)
  const before = await catalogueLines(dirs.first)
  const changes = pack([['from_the_future', Buffer.of(1), Buffer.of(2)]])
  const place = { incarnation: 'a', sequence: 4, number: 1 }
  t.throws(() => first.apply({ place, changes, local: null }), {
    name: 'OperatorError',
    message: /newer version/,
  })
  t.strictSame(await catalogueLines(dirs.first), before)
  t.strictSame(first.place(), { incarnation: 'a', sequence: 3, number: 0 })
})

t.test('writes of stores are proposed, and equal on all copies that apply them', async (t) => {
  const { dirs, first, second } = await startCopies(t)
  const before = await catalogueLines(dirs.first)
  t.teardown(proposeWrites(dirs.first))
  const { projects, console, audit, close } = bound(new OrganizationStore(dirs.first))
  const flags = new FlagStore(dirs.first)
  const actor = { userId: 1, firstName: 'Ann', email: 'ann@x.example' }
  const context = { projectId: 1, actor, nowMs: 1.7e12, cohort: () => null }
  const actions = [
    () => projects.createProject({ name: 'one' }),
    () => projects.setProject(2, { name: 'renamed' }),
    () => flags.create(context, { key: 'beta' }),
    () => flags.update(context, 1, { active: false }, false),
    () => audit.append([ENTRY]),
  ]
  for (const [index, action] of actions.entries()) {
    const { place, changes, local } = proposalOf(t, action)
    t.equal(place.number, index)
    const shared = await catalogueLines(dirs.first)
    if (index === 0) t.strictSame(shared, before, 'nothing is written before it has its place')
    const next = { incarnation: 'a', sequence: 10 + 2 * index, number: index + 1 }
    first.apply({ place: next, changes, local })
    second.apply({ place: next, changes, local: null })
    second.apply({ place: next, changes, local: null })
  }
  t.throws(() => flags.create(context, { key: 'beta' }), 'a change is refused')
  t.equal(takeProposal(), null)
  const code = console.createCode(1)
  t.equal(takeProposal(), null, 'local data is written')
  t.type(code, 'string')
  t.throws(
    () => second.apply({ place: { incarnation: 'a', sequence: 99, number: 99 }, ...NOTHING }),
    /does not follow/,
  )
  await close()
  await flags.close()
  const lines = await catalogueLines(dirs.first)
  t.ok(lines.length > before.length)
  t.strictSame(await catalogueLines(dirs.second), lines)
  const third = new StoredCatalogue(dirs.third)
  third.replace(first.whole())
  t.strictSame(third.place(), first.place())
  await third.close()
  t.strictSame(await catalogueLines(dirs.third), lines, 'a copy of the whole')
})

t.test('a catalogue of another organization is not replaced', async (t) => {
  const { dirs, first } = await startCopies(t)
  const store = new OrganizationStore(dirs.third)
  store.projects.bootstrap({ projectKey: 'phc_b', personalKey: 'phx_b' })
  await store.close()
  const before = await catalogueLines(dirs.third)
  const third = new StoredCatalogue(dirs.third)
  t.throws(() => third.replace(first.whole()), /another organization/)
  t.strictSame(await catalogueLines(dirs.third), before, 'nothing is lost')
  third.isNew = true
  third.replace(first.whole())
  await third.close()
  t.strictSame(await catalogueLines(dirs.third), await catalogueLines(dirs.first))
})

t.test('a machine that has not joined proposes nothing', async (t) => {
  const dataDir = t.testdir()
  t.teardown(proposeWrites(dataDir))
  const store = new OrganizationStore(dataDir)
  t.throws(() => store.audit.append([ENTRY]), { code: 'server_error' })
  await store.close()
})

const NOTHING = { changes: new Uint8Array([0x90]), local: null }

function bound(store: OrganizationStore) {
  const { projects, console, audit } = store
  return { projects, console, audit, close: () => store.close() }
}
