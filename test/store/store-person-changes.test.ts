/**
 * Changes of persons in blocks and e-mail addresses in chunks: what was written last is what is read,
 * after any number of commits, and what is outdated does not pile up.
 */
import t from 'tap'
import { DamagedRecordError } from '../../src/store/faults.ts'
import { loadChanges, PersonChanges } from '../../src/store/identity/person-changes.ts'
import { EmailChunkWrites, searchEmails } from '../../src/store/identity/person-email-chunks.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { pairKey } from '../../src/store/lmdb/keys.ts'

const TABLES = ['person_changes', 'change_places', 'email_chunks'] as const
const PROJECT = 7

function open(dataDir: string) {
  const environment = new Environment({ dataDir, name: 'events', tables: TABLES })
  const { tables } = environment
  return { environment, tables, emails: tables.email_chunks }
}

/** The same numbers for the same seed. */
function draws(seed: number): (limit: number) => number {
  let state = seed
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
}

for (const perCommit of [1, 40, 900]) {
  t.test(`the newest changes are read, ${perCommit} persons a commit`, async (t) => {
    const { environment, tables } = open(t.testdir())
    const below = draws(perCommit)
    const model = new Map<number, { version: number; json: string }>()
    let writer = new PersonChanges(PROJECT, tables)
    for (let commit = 1; commit <= 120; commit++) {
      environment.write(() => {
        const touched = new Set<number>()
        while (touched.size < perCommit) touched.add(1 + below(2000))
        for (const number of touched) {
          if (below(10) === 0) {
            writer.remove(number)
            model.delete(number)
            continue
          }
          const json = `{"é":"${'x'.repeat(below(500))}","n":${commit}}`
          writer.put(number, commit, json)
          model.set(number, { version: commit, json })
        }
        writer.store()
      })
      if (commit % 30 === 0) writer = new PersonChanges(PROJECT, tables)
    }
    environment.refresh()
    for (let number = 1; number <= 2000; number++) {
      const expected = model.get(number) ?? null
      t.strictSame(loadChanges(tables, PROJECT, number), expected)
      t.strictSame(writer.load(number), expected)
    }
    const blocks = tables.person_changes.getKeysCount({})
    t.ok(blocks <= 16 + model.size / 8, `${blocks} blocks for ${model.size} persons`)
    await environment.close()
  })
}

t.test('a changed byte and a missing block are noticed', async (t) => {
  const { environment, tables } = open(t.testdir())
  const writer = new PersonChanges(PROJECT, tables)
  environment.write(() => {
    writer.put(5, 1, '{"a":1}')
    writer.put(6, 1, '{"b":1}')
    writer.store()
  })
  const key = pairKey(PROJECT, 1)
  const damaged = Buffer.from(tables.person_changes.get(key) ?? [])
  const last = damaged.length - 6
  damaged[last] = (damaged[last] ?? 0) ^ 1
  environment.write(() => void tables.person_changes.put(key, damaged))
  environment.refresh()
  t.strictSame(loadChanges(tables, PROJECT, 5), { version: 1, json: '{"a":1}' })
  t.throws(() => loadChanges(tables, PROJECT, 6), DamagedRecordError)
  environment.write(() => void tables.person_changes.remove(key))
  environment.refresh()
  t.throws(() => loadChanges(tables, PROJECT, 5), DamagedRecordError)
  await environment.close()
})

t.test(
  'addresses are found by any part, whatever their case, and never across two of them',
  async (t) => {
    const { environment, emails } = open(t.testdir())
    const writes = new EmailChunkWrites(PROJECT, emails)
    const long = `${'a'.repeat(300)}@end.example`
    environment.write(() => {
      writes.set(3, 'Ann@Example.com')
      writes.set(4, 'zoë@example.org')
      writes.set(300, 'bob@example.com')
      writes.set(301, long)
      writes.store()
    })
    environment.refresh()
    const search = (text: string) => searchEmails(emails, PROJECT, text)
    t.strictSame(search('EXAMPLE.com'), { found: [3, 300], unsure: [301] })
    t.strictSame(search('ZOË').found, [4])
    t.strictSame(search('comzo').found, [], 'two neighbours are two texts')
    t.strictSame(search('%').found, [])
    t.strictSame(search('aaaa'), { found: [301], unsure: [] })
    environment.write(() => {
      writes.set(3, null)
      writes.set(300, 'robert@example.net')
      writes.set(301, null)
      writes.store()
    })
    environment.refresh()
    t.strictSame(search('example.com').found, [])
    t.strictSame(search('robert').found, [300])
    environment.write(() => {
      writes.set(4, null)
      writes.set(300, null)
      writes.store()
    })
    t.equal(emails.getKeysCount({}), 0, 'nothing is left of chunks without addresses')
    await environment.close()
  },
)
