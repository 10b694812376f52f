/**
 * Tests JSON bytes: a byte that is written while the memory grows is not lost.
 *
 * @lane quick
 */
import t from 'tap'
import { JsonBytes } from '../../src/base/json-bytes.ts'

t.test('a byte that makes the memory grow is not lost', async (t) => {
  for (let first = 1; first <= 40; first++) {
    const target = new JsonBytes(32)
    target.writeText('x'.repeat(first))
    for (let count = 0; count < 64; count++) target.writeByte(0x79)
    const text = target.bytes.toString('latin1', 0, target.length)
    t.equal(text, 'x'.repeat(first) + 'y'.repeat(64), `after ${first} bytes`)
  }
})
