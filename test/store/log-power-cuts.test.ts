/**
 * Tests the log after a kill at any step and after a power cut. The log is read to its end, no acknowledged event is
 * lost, no other bytes are read as an event, and the log continues.
 *
 * @lane all
 */
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { LogAppender } from '../../src/store/log/event-log.ts'
import { logFolder, logNumbers, logPath } from '../../src/store/log/log-file.ts'
import { seededRandom } from '../fixtures/event-ledger.ts'
import { overwrite } from '../fixtures/faults/data-file.ts'
import { betweenSteps } from '../fixtures/faults/log-steps.ts'
import { block, fill, goesOn, look, namesIn } from '../fixtures/faults/named-log.ts'

const SECTOR = 512
const PAGE = 4096

t.setTimeout(300_000)

t.test('a log that is killed while it opens, rotates, recycles or shrinks is sound', async (t) => {
  const root = t.testdir()
  const dataDir = join(root, 'data')
  const states: { readonly path: string; readonly names: readonly string[]; trimmed: number }[] = []
  const names: string[] = []
  let trimmed = 0
  const copy = (): void => {
    if (!existsSync(dataDir)) return
    const path = join(root, `s${states.length}`)
    cpSync(dataDir, path, { recursive: true })
    states.push({ path, names: [...names], trimmed })
  }
  const live = async (): Promise<void> => {
    const log = new LogAppender({ dataDir, processed: trimmed })
    for (let round = 0; round < 5; round++) {
      const name = `b${names.length + 1}`
      log.append([block(name, 400_000)], trimmed)
      names.push(name)
      // Some blocks wait, so there are new files as well as recycled ones.
      if (round === 2) trimmed = names.length - 1
      // The rush is over when nothing arrived since the last check.
      if (round === 3) for (const _look of [1, 2]) log.shrink()
    }
    await log.close()
  }
  await live()
  await betweenSteps(copy, async () => {
    await live()
    await live()
  })
  t.ok(states.length > 40, `${states.length} states were tested`)
  for (const state of states) {
    const found = namesIn(state.path)
    const waiting = state.names.slice(state.trimmed)
    const isThere = waiting.every((name, index) => found.get(state.trimmed + index + 1) === name)
    if (!isThere)
      t.fail(`${state.path}: ${[...found.values()].join()} instead of ${waiting.join()}`)
    if (look(state.path, state.trimmed).damage !== null) t.fail(`${state.path} is called damaged`)
    if (!(await goesOn(state.path, state.trimmed))) t.fail(`${state.path} does not go on`)
    rmSync(state.path, { recursive: true })
  }
})

t.test(
  'a log that is killed when a file is reused, before any frame records it, is sound',
  async (t) => {
    const root = t.testdir()
    const dataDir = join(root, 'data')
    const states: string[] = []
    const log = new LogAppender({ dataDir, processed: 0 })
    for (const name of ['b1', 'b2', 'b3']) log.append([block(name, 400_000)], 0)
    const copy = (): void => {
      const path = join(root, `s${states.length}`)
      cpSync(dataDir, path, { recursive: true })
      states.push(path)
    }
    // No other file is ready, and the blocks released by this append make room for it.
    await betweenSteps(copy, () => {
      log.append([block('b4', 700_000)], 2)
    })
    await log.close()
    t.ok(
      states.some((path) => !logNumbers(logFolder(path)).includes(1)),
      'the file was reused',
    )
    for (const path of states) {
      t.equal(namesIn(path).get(3), 'b3', path)
      t.match(look(path, 2), { missing: null, damage: null }, path)
      t.ok(await goesOn(path, 2), path)
    }
  },
)

/** The folder before and after one more append to a recycled file. */
async function lastAppend(t: Test, padBytes: number) {
  const root = t.testdir({ [`p${padBytes}`]: {} })
  const dataDir = join(root, `p${padBytes}`, 'data')
  const log = new LogAppender({ dataDir, processed: 0 })
  // Whole frames of earlier use lie where the new ones are written.
  for (let index = 0; index < 600; index++) log.append([block('old', 9000)], index)
  t.ok(
    logNumbers(logFolder(dataDir)).every((number) => number > 1),
    'files were recycled',
  )
  await log.close()
  const processed = 600
  const opened = new LogAppender({ dataDir, processed })
  opened.append([block('one')], processed)
  opened.append([block('two', 5000), block('three')], processed)
  const [number = 0] = logNumbers(logFolder(dataDir)).slice(-1)
  const files = logNumbers(logFolder(dataDir)).map((each) => logPath(logFolder(dataDir), each))
  const before = files.map((file) => readFileSync(file))
  opened.append([block('four', padBytes)], processed)
  const index = files.findIndex(
    (file, each) => !readFileSync(file).equals(before[each] ?? PAGE_OF_NOTHING),
  )
  const file = files[index] ?? ''
  const after = readFileSync(file)
  await opened.close()
  return { dataDir, file, number, before: before[index] ?? PAGE_OF_NOTHING, after, processed }
}
const PAGE_OF_NOTHING = Buffer.alloc(0)

function namesBehind(dataDir: string, processed: number): readonly string[] {
  return [...namesIn(dataDir)].filter(([sequence]) => sequence > processed).map(([, name]) => name)
}

t.test('a power cut that keeps any sectors of the last write leaves a sound log', async (t) => {
  const random = seededRandom(17)
  for (const padBytes of [10, 9000, 30_000]) {
    const { dataDir, file, before, after, processed } = await lastAppend(t, padBytes)
    const sectors: number[] = []
    for (let place = 0; place < after.length; place += SECTOR) {
      if (!after.subarray(place, place + SECTOR).equals(before.subarray(place, place + SECTOR))) {
        sectors.push(place)
      }
    }
    t.ok(sectors.length > 0)
    const kept: ((index: number) => boolean)[] = [
      ...sectors.map((_, cut) => (index: number) => index < cut),
      ...sectors.map((_, cut) => (index: number) => index >= cut),
      ...sectors.map((_, lost) => (index: number) => index !== lost),
      ...Array.from({ length: 40 }, () => () => random() < 0.5),
    ]
    const saved = `${dataDir}-saved`
    cpSync(dataDir, saved, { recursive: true })
    for (const [round, isKept] of kept.entries()) {
      const image = Buffer.from(before)
      for (const [index, place] of sectors.entries()) {
        if (isKept(index)) after.copy(image, place, place, place + SECTOR)
      }
      writeFileSync(file, image)
      const names = namesBehind(dataDir, processed)
      const isAll = image.equals(after)
      if (names.join() !== (isAll ? 'one,two,three,four' : 'one,two,three')) {
        // A torn rest after the block, with nothing after it, does no harm.
        if (names.join() !== 'one,two,three,four') t.fail(`round ${round}: ${names.join()}`)
      }
      const { damage } = look(dataDir, processed)
      if (damage !== null) t.fail(`round ${round} is called damaged`)
      if (!(await goesOn(dataDir, processed))) t.fail(`round ${round} does not go on`)
      rmSync(dataDir, { recursive: true })
      cpSync(saved, dataDir, { recursive: true })
    }
    t.pass(`${kept.length} cuts within ${sectors.length} sectors`)
  }
})

t.test('a power cut may leave any length of a write', async (t) => {
  const { dataDir, file, before, after, processed } = await lastAppend(t, 200)
  const start = after.findIndex((byte, index) => byte !== before[index])
  for (let bytes = 0; bytes < 900; bytes++) {
    const image = Buffer.from(before)
    after.copy(image, start, start, start + bytes)
    writeFileSync(file, image)
    const names = namesBehind(dataDir, processed).join()
    if (!names.startsWith('one,two,three') || look(dataDir, processed).damage !== null) {
      t.fail(`${bytes} bytes: ${names}`)
    }
  }
  t.pass('each byte')
})

t.test('a deferred flush may lose the end, and nothing that was flushed', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const log = new LogAppender({ dataDir, processed: 0, isFlushDeferred: true })
  const names = fill(log, 3, () => 10)
  await new Promise((resolve) => setTimeout(resolve, 200))
  log.append([block('b4')], 0)
  log.append([block('b5')], 0)
  const file = logPath(logFolder(dataDir), 1)
  const bytes = readFileSync(file)
  // The write of b4 is lost, that of b5 is not.
  const place = bytes.indexOf('"b4"')
  overwrite(file, place - (place % PAGE), Buffer.alloc(PAGE))
  t.strictSame([...namesIn(dataDir).values()], names)
  t.equal(look(dataDir).damage, null)
  t.ok(await goesOn(dataDir))
  t.strictSame([...namesIn(dataDir).values()], [...names, 'after'])
})
