/**
 * Tests that equal bytes get the same distinct ID number, whatever was evicted in between.
 *
 * @lane quick
 */
import t from 'tap'
import { DistinctIds } from '../../src/store/identity/distinct-ids.ts'
import { IdCache, type IdWords } from '../../src/store/identity/id-cache.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'

/** Texts of all lengths, some of them a prefix of others. */
function textOf(number: number): string {
  const kind = number % 4
  if (kind === 0) return `user_${number}`
  if (kind === 1) return 'ü💻'.repeat(number % 60) + number
  if (kind === 2) return `${number}`.padStart(number % 190, '0')
  return `${(number * 2_654_435_761) % 2 ** 32}-7a3c-9f21-${number}`
}

function wordsOf(cache: IdCache, text: string): IdWords {
  const id = cache.wordsOf(text)
  if (id === null) throw new Error('the text is no id')
  return id
}

function keysOf(keys: Int32Array): void {
  for (let index = 0; index < keys.length; index++) keys[index] = Math.imul(index + 1, 0x85ebca6b)
}

t.test('requested entries stay, others are evicted in the second round', async (t) => {
  for (const drawKeys of [keysOf, (keys: Int32Array) => void keys.fill(0)]) {
    const count = drawKeys === keysOf ? 20_000 : 500
    const cache = new IdCache(drawKeys)
    const find = (project: number, number: number): number =>
      cache.find(project, wordsOf(cache, textOf(number)))
    for (let number = 1; number <= count; number++) {
      cache.add(1, wordsOf(cache, textOf(number)), number)
      cache.add(2, wordsOf(cache, textOf(number)), number + 1)
    }
    let wrong = 0
    for (let number = 1; number <= count; number++) {
      if (find(1, number) !== number || find(2, number) !== number + 1) wrong++
      if (find(3, number) !== 0 || find(1, number + count) !== 0) wrong++
    }
    t.equal(wrong, 0)
    cache.rotate()
    for (let number = 1; number <= count; number += 2) if (find(1, number) !== number) wrong++
    cache.rotate()
    for (let number = 1; number <= count; number++) {
      if (find(1, number) !== (number % 2) * number || find(2, number) !== 0) wrong++
    }
    t.equal(wrong, 0)
  }
  t.equal(new IdCache(keysOf).wordsOf('💻'.repeat(204)), null)
})

t.test('numbers are the same as text and as bytes, through commits and small memory', async (t) => {
  const tables = ['distinct_ids', 'distinct_texts'] as const
  const environment = new Environment({ dataDir: t.testdir(), name: 'events', tables })
  let ids = new DistinctIds(environment.tables, 30_000)
  const known = new Map<string, number>()
  const lastId = (): number => known.size
  const words = new Int32Array(64)
  let state = 7
  let wrong = 0
  for (let step = 0; step < 40_000; step++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    const text = textOf(state % 3000)
    const expected = known.get(text) ?? known.size + 1
    const isPlain = /^[!-~]{1,200}$/.test(text)
    words.fill(0)
    if (isPlain) Buffer.from(words.buffer).write(text, 8, 'latin1')
    const cells = { idWords: words, idFirstWord: 2, idBytes: isPlain ? text.length : 0 }
    const number =
      step % 3 === 0
        ? ids.idOf(1, text, lastId)
        : ids.idOfEvent(1, { distinctId: text }, cells, lastId)
    if (number !== expected || ids.wasAdded === known.has(text)) wrong++
    known.set(text, number)
    if (ids.textOf(1, number) !== text || ids.find(1, text, lastId) !== number) wrong++
    if (step % 777 !== 0) continue
    environment.write(() => ids.store())
    ids.settle()
    if (step % 7770 === 0) ids = new DistinctIds(environment.tables, 30_000)
  }
  t.equal(wrong, 0)
  t.equal(known.size > 2000, true)
  await environment.close()
})
