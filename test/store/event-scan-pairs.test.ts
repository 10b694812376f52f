/**
 * Tests the counts of names and values of a segment, however many pairs there are.
 *
 * @lane quick
 */
import t from 'tap'
import { SCAN_PAIRS_MAX } from '../../src/store/events/limits.ts'
import { withoutEdges } from '../../src/store/events/scan/event-scan-columns.ts'
import { inNameOrder, rowsByName } from '../../src/store/events/scan/event-scan-names.ts'
import {
  countPairs,
  countPassing,
  rowsOf,
  valueCounts,
} from '../../src/store/events/scan/event-scan-pairs.ts'
import { Dice } from '../fixtures/dice.ts'
import { Differences } from '../fixtures/differences.ts'

/** A column of `rows` numbers below `count`. */
function columnOf(dice: Dice, rows: number, count: number) {
  const values = Array.from({ length: count }, (_, id) => `v${id}`)
  return { ids: Uint16Array.from({ length: rows }, () => dice.below(count)), values }
}

t.test('the counts equal those of reading each row', async (t) => {
  const dice = new Dice(9)
  const kinds = new Set<boolean>()
  let cut = 0
  const differences = new Differences()
  for (let round = 0; round < 60; round++) {
    const rows = dice.between(1, 3000)
    const names = columnOf(dice, rows, dice.between(1, 12))
    const byRow = columnOf(dice, rows, dice.pick([1, 3, 40, 2000]))
    // As a property that only events of some names have.
    const isOfName = names.values.map(() => dice.chance(round % 2 === 0 ? 0.3 : 1))
    for (let row = 0; row < rows; row++) if (!isOfName[names.ids[row] ?? 0]) byRow.ids[row] = 0
    const nameRows = rowsByName(names)
    const column = withoutEdges({ ids: inNameOrder(byRow.ids, nameRows), values: byRow.values })
    if (column.ids.length < rows) cut++
    const pairs = countPairs(nameRows, column)
    const count = names.values.length * byRow.values.length
    const isSkipped = pairs === null
    differences.equal(isSkipped, count > SCAN_PAIRS_MAX, `round ${round}: ${count} pairs`)
    kinds.add(pairs === null)
    const masks = names.values.map(() => dice.pick([0, 0, 1, 2]))
    const isPassed = Uint8Array.from(byRow.values, () => dice.below(2))
    const counts = new Uint32Array(byRow.values.length)
    let passing = 0
    let all = 0
    for (let row = 0; row < rows; row++) {
      if (masks[names.ids[row] ?? 0] === 0) continue
      const id = byRow.ids[row] ?? 0
      counts[id] = (counts[id] ?? 0) + 1
      passing += isPassed[id] ?? 0
      all++
    }
    const found = valueCounts(nameRows, pairs, column, masks)
    differences.same(found, counts, `round ${round}: the counts of values`)
    const passed = countPassing(nameRows, pairs, { column, isPassed }, masks)
    differences.equal(passed, passing, `round ${round}: the counts of the matching rows are right`)
    differences.equal(
      rowsOf(nameRows.starts, masks),
      all,
      `round ${round}: the counts of all rows are right`,
    )
  }
  t.strictSame(differences.list(), [], 'every count is that of the rows')
  t.equal(kinds.size, 2, 'there were rounds with few and with many pairs')
  t.ok(cut > 0, 'there were columns without values at an edge')
})
