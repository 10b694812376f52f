/**
 * Tests a pinned state of a data file: it stays readable while others write, and its pages are reused after its
 * release.
 *
 * @lane quick
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { StoredCatalogue } from '../../src/store/catalog/catalogue-copy.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'

const KEY = Buffer.from('key')
const VALUE_BYTES = 1024 ** 2
const ROUNDS = 24

/** Writes one large value repeatedly, and returns by how many values the data file has grown. */
function growth(
  environment: Environment,
  dataDir: string,
  { name, table } = { name: 'events', table: 'state' },
): number {
  const file = join(dataDir, name, 'data.mdb')
  const before = statSync(file).size
  for (let round = 0; round < ROUNDS; round++) {
    const value = Buffer.alloc(VALUE_BYTES, round)
    environment.write(() => void environment.table(table).put(KEY, value))
    // Ends the read transaction of this turn, which would also hold a state.
    environment.refresh()
  }
  return (statSync(file).size - before) / VALUE_BYTES
}

t.test('a pinned state does not change, and keeps its pages until it is released', async (t) => {
  const dataDir = t.testdir()
  const environment = new Environment({ dataDir, name: 'events', tables: ['state'] })
  environment.write(() => void environment.table('state').put(KEY, Buffer.from('first')))
  environment.refresh()
  growth(environment, dataDir)
  const pin = environment.pin()
  const read = (): string[] => [...pin.entries('state')].map(({ value }) => value.toString('hex'))
  const before = read()
  t.ok(growth(environment, dataDir) > ROUNDS / 2, 'while it is pinned, no page is reused')
  t.strictSame(read(), before, 'it reads what it read before')
  t.equal(before.length, 1)
  pin.release()
  environment.refresh()
  t.ok(growth(environment, dataDir) < ROUNDS / 2, 'after its release, pages are reused')
  await environment.close()
})

t.test('a state that was pinned too late is released before the next attempt', async (t) => {
  const dataDir = t.testdir()
  const environment = new Environment({ dataDir, name: 'events', tables: ['state'] })
  growth(environment, dataDir)
  const refresh = environment.refresh.bind(environment)
  let changes = 1
  // Another writer commits after the newest state was read, and before it is pinned.
  environment.refresh = () => {
    const value = Buffer.from(`change ${changes}`)
    if (changes-- > 0) environment.write(() => void environment.table('state').put(KEY, value))
    refresh()
  }
  const pinned = environment.pinNewest()
  environment.refresh = refresh
  t.ok(changes < 0, 'there was a second attempt')
  pinned?.pin.release()
  refresh()
  t.ok(growth(environment, dataDir) < ROUNDS / 2, 'pages are reused')
  await environment.close()
})

t.test('a copy of the catalogue does not pin a state after it is complete', async (t) => {
  const dataDir = t.testdir()
  const catalogue = new StoredCatalogue(dataDir)
  const place = { name: 'flags', table: 'flags' }
  const environment = new Environment({ dataDir, name: 'flags', tables: ['flags'] })
  growth(environment, dataDir, place)
  t.ok(catalogue.whole().parts.length > 0)
  // LMDB ends the read transaction of a turn by a timer.
  await setTimeout(0)
  t.ok(growth(environment, dataDir, place) < ROUNDS / 2, 'pages are reused')
  await environment.close()
  await catalogue.close()
})
