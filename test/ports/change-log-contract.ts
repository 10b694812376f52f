/** What every change log does (src/ports/change-log.ts). */
import type { Test } from 'tap'
import type { ChangeLog, WriteSet } from '../../src/ports/change-log.ts'

/** Write sets that the logs keep at least, and not many more. */
export const KEPT = 8

/** Makes the log of an empty copy; it closes with the test. */
export type ChangeLogMaker = (t: Test) => ChangeLog

function setOf(text: string): WriteSet {
  const key = Buffer.from(text)
  return [
    { table: 'flags', key, value: Buffer.from(`value of ${text}`) },
    { table: 'users', key: Buffer.from('gone'), value: null },
  ]
}

/** States it all. */
export function changeLogContract(t: Test, name: string, make: ChangeLogMaker): void {
  t.test(`${name}: who expects the newest may commit, others take theirs first`, async (t) => {
    const log = make(t)
    const start = log.newest()
    t.equal(await log.commit(start, setOf('a')), start + 1)
    t.equal(log.newest(), start + 1)
    t.equal(await log.commit(start, setOf('b')), null, 'somebody was first')
    t.equal(log.newest(), start + 1, 'and nothing was written')
    t.equal(await log.commit(start + 1, setOf('b')), start + 2)
  })

  t.test(`${name}: followers hear of every set once, in order`, async (t) => {
    const log = make(t)
    const start = log.newest()
    await log.commit(start, setOf('a'))
    await log.commit(start + 1, setOf('b'))
    const heard: (readonly [number, WriteSet])[] = []
    const following = log.follow(start, (number, changes) => heard.push([number, changes]))
    t.ok(following, 'all is kept')
    const late: number[] = []
    const other = log.follow(start + 2, (number) => late.push(number))
    await log.commit(start + 2, setOf('c'))
    t.strictSame(
      heard,
      ['a', 'b', 'c'].map((text, index) => [start + 1 + index, setOf(text)]),
    )
    t.strictSame(late, [start + 3])
    following?.close()
    other?.close()
    await log.commit(start + 3, setOf('d'))
    t.equal(heard.length, 3, 'who has left hears nothing')
  })

  t.test(`${name}: who is too far behind is told so`, async (t) => {
    const log = make(t)
    for (let count = 0; count <= KEPT; count++) await log.commit(log.newest(), setOf(`${count}`))
    t.equal(
      log.follow(0, () => t.fail('nothing is left out in silence')),
      null,
    )
    t.ok(log.follow(log.newest() - KEPT + 1, () => {}))
  })
}
