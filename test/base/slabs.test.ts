/** Slabs: a fixed number, each of one taker at a time, and of nobody who gave it back. */
import t from 'tap'
import { SLAB_BYTES_MAX, SLABS_MAX } from '../../src/base/limits.ts'
import { type Slab, Slabs, transferable } from '../../src/base/slabs.ts'

const NO_LIMIT = Number.POSITIVE_INFINITY

function takeAll(slabs: Slabs): readonly Slab[] {
  const taken: Slab[] = []
  for (let slab = slabs.take(1); slab !== null; slab = slabs.take(1)) taken.push(slab)
  return taken
}

t.test('as many as there may be, each with memory of its own', async (t) => {
  const slabs = new Slabs(NO_LIMIT)
  const taken = takeAll(slabs)
  t.equal(taken.length, SLABS_MAX)
  t.equal(new Set(taken.map(({ memory }) => memory)).size, SLABS_MAX)
  t.ok(taken.every(({ memory }) => memory.byteLength === SLAB_BYTES_MAX))
  t.equal(slabs.inUse, SLABS_MAX)
  for (const slab of taken) slab.give()
  t.equal(slabs.inUse, 0)
})

t.test('no more than the budget has room for, and none for what is too large', async (t) => {
  t.equal(takeAll(new Slabs(3 * SLAB_BYTES_MAX - 1)).length, 2)
  t.equal(takeAll(new Slabs(SLAB_BYTES_MAX - 1)).length, 0)
  const slabs = new Slabs(NO_LIMIT)
  t.equal(slabs.take(SLAB_BYTES_MAX + 1), null)
  t.ok(slabs.take(SLAB_BYTES_MAX))
})

t.test('who gave a slab back has no right to it, also when somebody else has it', async (t) => {
  const slabs = new Slabs(SLAB_BYTES_MAX)
  const first = slabs.take(1)
  const memory = first?.memory
  first?.give()
  t.throws(() => first?.memory, RangeError)
  t.throws(() => first?.give(), RangeError)
  const second = slabs.take(1)
  t.equal(second?.memory, memory, 'the memory is used again')
  t.throws(() => first?.memory, RangeError)
  t.throws(() => first?.give(), RangeError, 'nobody gives back what another one has')
  t.equal(slabs.inUse, 1)
  t.equal(slabs.take(1), null)
})

t.test('memory that may still be in use is not used again', async (t) => {
  const slabs = new Slabs(SLAB_BYTES_MAX)
  const first = slabs.take(1)
  const memory = first?.memory
  first?.give(false)
  t.throws(() => first?.give(), RangeError)
  t.equal(slabs.inUse, 0)
  const second = slabs.take(1)
  t.not(second?.memory, memory)
})

t.test('shared memory does not change hands', async (t) => {
  const own = new ArrayBuffer(8)
  t.strictSame(transferable([new SharedArrayBuffer(8), own]), [own])
})
