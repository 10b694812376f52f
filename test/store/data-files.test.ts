/**
 * Tests the damage that is found in a data file before LMDB opens it: lost meta pages, wrong last pages, damaged lists.
 *
 * @lane quick
 */
import { readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { DataDir, ENVIRONMENT_NAMES, requireStore } from '../../src/store/directory/data-dir.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { logFolder, logNumbers, logPath } from '../../src/store/log/log-file.ts'
import {
  filledStore,
  newestMeta,
  overwrite,
  PAGE,
  recordCount,
  setLastPage,
} from '../fixtures/faults/data-file.ts'
import { block } from '../fixtures/faults/named-log.ts'
import { refusal } from '../fixtures/refusal.ts'

async function open(path: string): Promise<readonly string[]> {
  const dir = await DataDir.open(path)
  dir.release()
  return dir.notes
}

for (const name of ENVIRONMENT_NAMES) {
  t.test(`${name} with a lost meta page is refused, whichever page it is`, async (t) => {
    for (const page of [0, 1]) {
      const { path } = await filledStore(t)
      const file = join(path, name, 'data.mdb')
      overwrite(file, page * PAGE, Buffer.alloc(PAGE))
      const before = readFileSync(file)
      const error = await refusal(open(path))
      t.equal(error.exitCode, 78)
      t.match(error.message, `${file} is damaged (its ${page === 0 ? 'first' : 'second'} meta page`)
      t.match(error.message, /the last commit may .* Restore the data directory from a backup/)
      t.throws(() => requireStore(path, name), { exitCode: 78, message: /meta page/ })
      t.ok(readFileSync(file).equals(before), 'no file was changed')
      rmSync(path, { recursive: true })
    }
  })
}

t.test('a log with a lost first page is refused, whichever of its files it is', async (t) => {
  const { path } = await filledStore(t)
  const log = new LogAppender({ dataDir: path, processed: 0 })
  for (let round = 0; round < 3; round++) log.append([block('waits', 400_000)], 0)
  await log.close()
  const numbers = logNumbers(logFolder(path))
  t.ok(numbers.length >= 2)
  for (const number of numbers) {
    const file = logPath(logFolder(path), number)
    const sound = readFileSync(file)
    overwrite(file, 0, Buffer.alloc(PAGE))
    const before = readFileSync(file)
    const error = await refusal(open(path))
    t.equal(error.exitCode, 78)
    t.match(error.message, `${file} does not match the rest of the store (its first page is not`)
    t.match(error.message, /Restore the whole data directory from a backup/)
    t.throws(() => requireStore(path, 'log'), { exitCode: 78, message: /first page/ })
    t.ok(readFileSync(file).equals(before), 'no file was changed')
    writeFileSync(file, sound)
  }
  t.strictSame(await open(path), [])
})

t.test('a damaged list of free pages is refused before LMDB writes to them', async (t) => {
  const { path, file } = await filledStore(t)
  const root = Number(readFileSync(file).readBigUInt64LE(newestMeta(file) * PAGE + 88))
  overwrite(file, root * PAGE + 25, Buffer.of(0x7f))
  const before = readFileSync(file)
  t.match(await refusal(open(path)), { exitCode: 78, message: `page ${root} has a damaged node` })
  t.ok(readFileSync(file).equals(before), 'no file was changed')
})

t.test('a last page before pages of the last commit is refused', async (t) => {
  const { path, file } = await filledStore(t)
  const environment = new Environment({ dataDir: path, name: 'events', tables: ['numbers'] })
  environment.write(() => {
    for (let index = 0; index < 20; index++) {
      environment.table('numbers').putSync(Buffer.from(`grown ${index}`), Buffer.alloc(60 * PAGE))
    }
  })
  await environment.close()
  const lastPages = [0, 1].map((page) => readFileSync(file).readUInt32LE(page * PAGE + 144))
  const [least = 0, most = 0] = lastPages.sort((a, b) => a - b)
  t.ok(most - least > 20)
  for (const lastPage of [least, most - 1]) {
    setLastPage(file, lastPage)
    t.match(await refusal(open(path)), { exitCode: 78, message: /later pages are in use/ })
  }
  setLastPage(file, most)
  t.strictSame(await open(path), [])
})

t.test('pages after the last one, left by an interrupted commit, do no harm', async (t) => {
  const { path, file } = await filledStore(t)
  const size = statSync(file).size
  truncateSync(file, size + 5 * PAGE)
  overwrite(file, size, Buffer.alloc(5 * PAGE, 0x5a))
  t.strictSame(await open(path), [])
  t.equal(await recordCount(path), 200)
})

t.test('a file that lacks only released pages is opened with a note', async (t) => {
  const { path, file } = await filledStore(t)
  const environment = new Environment({ dataDir: path, name: 'events', tables: ['numbers'] })
  const table = environment.table('numbers')
  environment.write(() => {
    table.putSync(Buffer.from('passing'), Buffer.alloc(2000 * PAGE))
    table.removeSync(Buffer.from('passing'))
  })
  await environment.close()
  const lastPage = readFileSync(file).readUInt32LE(newestMeta(file) * PAGE + 144)
  t.ok(statSync(file).size < (lastPage + 1) * PAGE, 'the pages were never written')
  t.match(await open(path), [/nothing in use was there/])
  t.equal(await recordCount(path), 200)
})
