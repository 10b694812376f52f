/**
 * Tests which machines count as older: those that reported an older edition within the last minute. Also tests that
 * machines of older versions and this one know each other's calls.
 *
 * @lane quick
 */
import t from 'tap'
import { EDITION, OlderMachines } from '../../src/cluster/older-machines.ts'
import { STORE_CALLS } from '../../src/engine/threads/call-table.ts'
import { tableBuffers } from '../../src/engine/threads/table-tasks.ts'

t.test('a machine of an older version counts until it is upgraded or silent', async (t) => {
  let nowMs = 0
  const older = new OlderMachines(() => nowMs)
  older.hear({ replica: 'one', edition: EDITION })
  t.notOk(older.areThere)
  older.hear({ replica: 'two' })
  t.ok(older.areThere, 'older versions do not report an edition')
  older.hear({ replica: 'one', edition: EDITION + 1 })
  t.ok(older.areThere)
  older.hear({ replica: 'two', edition: EDITION })
  t.notOk(older.areThere, 'the machine was upgraded')
  older.hear({ replica: 'three', edition: EDITION - 1 })
  nowMs += 59_000
  t.ok(older.areThere)
  nowMs += 1000
  t.notOk(older.areThere, 'the machine has not reported for a minute')
})

t.test('calls that are made in parts keep the names that older versions know', async (t) => {
  const names = ['personTablePiece', 'eventExportPiece', 'flagsFilePiece', 'blastRadiusPiece']
  t.strictSame(
    names.filter((name) => !STORE_CALLS.has(name)),
    [],
  )
  const piece = new Uint8Array(3)
  t.strictSame(tableBuffers({ piece, rest: null }), [piece.buffer])
})
