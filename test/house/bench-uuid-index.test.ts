/**
 * Tests that the index layouts in the benchmark of the uuid index find all added entries and no others.
 *
 * @lane quick
 */
import { join } from 'node:path'
import t from 'tap'
import { type Entry, LAYOUTS, openLayout } from '../../bench/uuid-index/layouts.ts'
import { randomNumbers } from '../fixtures/stored-events.ts'

t.test('each layout finds added entries, before and after commits, also duplicates', async (t) => {
  const random = randomNumbers(1)
  const half = (): number => Math.floor(random() * 2 ** 32)
  const entries = Array.from({ length: 4000 }, (_, index): Entry => {
    return {
      high: half() | 0,
      low: half() | 0,
      uuidHigh: half(),
      uuidLow: half(),
      sequence: index + 1,
    }
  })
  for (const [index, entry] of entries.entries()) {
    if (index % 1000 === 999) Object.assign(entry, { ...entries[7], sequence: index + 1 })
  }
  const folders = t.testdir(Object.fromEntries(LAYOUTS.map((layout) => [layout, {}])))
  for (const layout of LAYOUTS) {
    const folder = join(folders, layout)
    const opened = openLayout({ layout, folder, entries: entries.length, isFlushed: false })
    const counts = entries.map((entry, index) => {
      const found: number[] = []
      opened.find(entry, found)
      opened.add(entry)
      if (index % 900 === 899) opened.commit()
      return found.length
    })
    opened.maintain()
    t.equal(
      counts.filter((count) => count === 0).length,
      3996,
      `${layout}: new entries are not found`,
    )
    const missing = entries.filter((entry) => {
      const found: number[] = []
      opened.find(entry, found)
      return !found.includes(entry.sequence)
    })
    t.equal(missing.length, 0, `${layout}: all entries are found`)
    const doubled: number[] = []
    if (entries[7] !== undefined) opened.find(entries[7], doubled)
    t.strictSame(
      doubled.sort((a, b) => a - b),
      [8, 1000, 2000, 3000, 4000],
      layout,
    )
  }
})
