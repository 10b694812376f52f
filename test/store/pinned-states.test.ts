/**
 * Tests a pinned state of a data file: it stays readable while others write, and its pages are reused after its
 * release.
 *
 * @lane quick
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Environment } from '../../src/store/lmdb/environment.ts'

const KEY = Buffer.from('key')
const VALUE_BYTES = 1024 ** 2
const ROUNDS = 24

/** Writes one large value repeatedly, and returns by how many values the data file has grown. */
function growth(environment: Environment, dataDir: string): number {
  const file = join(dataDir, 'events', 'data.mdb')
  const before = statSync(file).size
  for (let round = 0; round < ROUNDS; round++) {
    const value = Buffer.alloc(VALUE_BYTES, round)
    environment.write(() => void environment.table('state').put(KEY, value))
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
