/**
 * Tests changes of persons in blocks and e-mail addresses in chunks: readers get the last write after any number of
 * commits, and outdated data does not accumulate.
 *
 * @lane quick
 */
import t from 'tap'
import { DamagedRecordError } from '../../src/store/faults.ts'
import type { StoredChanges } from '../../src/store/identity/change-blocks.ts'
import { PERSON_DELTAS_MAX } from '../../src/store/identity/limits.ts'
import { loadChanges, PersonChanges } from '../../src/store/identity/person-changes.ts'
import { EmailChunkWrites, searchEmails } from '../../src/store/identity/person-email-chunks.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { pairKey } from '../../src/store/lmdb/keys.ts'
import { store } from '../../src/store/lmdb/records.ts'
import { Differences } from '../fixtures/differences.ts'

const TABLES = ['person_changes', 'change_places', 'email_chunks'] as const
const PROJECT = 7
const NOTHING: StoredChanges = { version: null, json: '', deltas: '' }

function open(dataDir: string) {
  const environment = new Environment({ dataDir, name: 'events', tables: TABLES })
  const { tables } = environment
  return { environment, tables, emails: tables.email_chunks }
}

/** Returns the same numbers for the same seed. */
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
    const model = new Map<number, StoredChanges>()
    const rooms = new Map<number, number>()
    let writer = new PersonChanges(PROJECT, tables)
    for (let commit = 1; commit <= 120; commit++) {
      environment.write(() => {
        const touched = new Set<number>()
        while (touched.size < perCommit) touched.add(1 + below(2000))
        for (const number of touched) {
          const room = rooms.get(number) ?? 0
          if (writer.hasRoom(number) !== room > 0) t.fail(`person ${number} has no room ${room}`)
          const { version, json, deltas } = model.get(number) ?? NOTHING
          if (room > 0 && below(3) > 0) {
            const delta = `[0,"é${'y'.repeat(below(100))}",${commit}]`
            writer.append(number, delta)
            const all = deltas === '' ? delta : `${deltas}\n${delta}`
            model.set(number, { version, json, deltas: all })
            rooms.set(number, room - 1)
            continue
          }
          const hasRoom = below(3) > 0
          rooms.set(number, hasRoom ? PERSON_DELTAS_MAX : 0)
          if (below(10) === 0) {
            writer.remove(number, hasRoom)
            model.delete(number)
            continue
          }
          const text = `{"é":"${'x'.repeat(below(500))}","n":${commit}}`
          writer.put(number, commit, text, hasRoom)
          model.set(number, { version: commit, json: text, deltas: '' })
        }
        writer.store()
      })
      if (commit % 30 === 0) writer = new PersonChanges(PROJECT, tables)
    }
    environment.refresh()
    const differences = new Differences()
    for (let number = 1; number <= 2000; number++) {
      const expected = model.get(number) ?? null
      differences.same(loadChanges(tables, PROJECT, number), expected, `person ${number}, stored`)
      differences.same(writer.load(number), expected, `person ${number}, of the writer`)
    }
    t.strictSame(differences.list(), [], 'every person has the newest changes')
    const blocks = tables.person_changes.getKeysCount({})
    t.ok(blocks <= 16 + model.size / 8, `${blocks} blocks hold ${model.size} persons`)
    await environment.close()
  })
}

t.test(
  'positions without spare room, from older stores, are read, and no block follows',
  async (t) => {
    const { environment, tables } = open(t.testdir())
    const writer = new PersonChanges(PROJECT, tables)
    environment.write(() => {
      writer.put(5, 1, '{"a":1}', true)
      writer.remove(6, true)
      writer.store()
    })
    const key = pairKey(PROJECT, 0)
    const older = tables.change_places.get(key)?.subarray(0, 5 * 256) ?? Buffer.alloc(0)
    environment.write(() => store(tables.change_places, key, Buffer.from(older)))
    environment.refresh()
    t.strictSame(loadChanges(tables, PROJECT, 5), { version: 1, json: '{"a":1}', deltas: '' })
    const later = new PersonChanges(PROJECT, tables)
    t.notOk(later.hasRoom(5) || later.hasRoom(6))
    environment.write(() => {
      later.remove(6, true)
      later.store()
      later.append(6, '[0,"Linux"]')
      later.store()
    })
    t.strictSame(later.load(5), { version: 1, json: '{"a":1}', deltas: '' })
    t.strictSame(later.load(6), { version: null, json: '', deltas: '[0,"Linux"]' })
    await environment.close()
  },
)

t.test('with a damaged list of positions, the blocks it names are not overwritten', async (t) => {
  const { environment, tables } = open(t.testdir())
  const writer = new PersonChanges(PROJECT, tables)
  environment.write(() => {
    writer.put(5, 1, '{"a":1}', false)
    writer.put(300, 1, '{"b":1}', false)
    writer.store()
    tables.change_places.putSync(pairKey(PROJECT, 0), Buffer.from('no places'))
  })
  environment.refresh()
  const later = new PersonChanges(PROJECT, tables)
  for (let attempt = 0; attempt < 2; attempt++) {
    t.throws(() => later.load(300), DamagedRecordError)
    t.throws(() => environment.write(() => later.put(301, 1, '{}', false)), DamagedRecordError)
  }
  environment.write(() => later.store())
  environment.refresh()
  t.strictSame(loadChanges(tables, PROJECT, 300), { version: 1, json: '{"b":1}', deltas: '' })
  await environment.close()
})

t.test('a changed byte and a missing block are detected', async (t) => {
  const { environment, tables } = open(t.testdir())
  const writer = new PersonChanges(PROJECT, tables)
  environment.write(() => {
    writer.put(5, 1, '{"a":1}', true)
    writer.put(6, 1, '{"b":1}', true)
    writer.store()
  })
  const key = pairKey(PROJECT, 1)
  const damaged = Buffer.from(tables.person_changes.get(key) ?? [])
  const last = damaged.length - 6
  damaged[last] = (damaged[last] ?? 0) ^ 1
  environment.write(() => void tables.person_changes.put(key, damaged))
  environment.refresh()
  t.strictSame(loadChanges(tables, PROJECT, 5), { version: 1, json: '{"a":1}', deltas: '' })
  t.throws(() => loadChanges(tables, PROJECT, 6), DamagedRecordError)
  environment.write(() => {
    for (const number of [5, 6]) writer.append(number, '[0,"Linüx"]')
    writer.store()
  })
  environment.refresh()
  const deltas = '[0,"Linüx"]'
  t.strictSame(loadChanges(tables, PROJECT, 5), { version: 1, json: '{"a":1}', deltas })
  t.throws(() => loadChanges(tables, PROJECT, 6), DamagedRecordError, 'a delta repairs nothing')
  environment.write(() => void tables.person_changes.remove(pairKey(PROJECT, 2)))
  environment.refresh()
  t.throws(() => loadChanges(tables, PROJECT, 5), DamagedRecordError)
  await environment.close()
})

t.test('addresses are found by any part in any case, and never across two of them', async (t) => {
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
  t.strictSame(search('comzo').found, [], 'two neighbors are two texts')
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
  t.equal(emails.getKeysCount({}), 0, 'chunks without addresses are removed')
  await environment.close()
})
