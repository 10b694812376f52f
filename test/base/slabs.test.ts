/**
 * Slabs: a fixed number of each size, each of one taker at a time, and of nobody who gave it back.
 *
 * @lane quick
 */
import t from 'tap'
import {
  SLAB_BYTES_MAX,
  SLABS_MAX,
  SMALL_SLAB_BODY_BYTES_MAX,
  SMALL_SLABS_MAX,
} from '../../src/base/limits.ts'
import { type Slab, Slabs, transferable } from '../../src/base/slabs.ts'

const NO_LIMIT = Number.POSITIVE_INFINITY
const SMALL = SMALL_SLAB_BODY_BYTES_MAX

function takeAll(slabs: Slabs, bytes: number): readonly Slab[] {
  const taken: Slab[] = []
  for (let slab = slabs.take(bytes); slab !== null; slab = slabs.take(bytes)) taken.push(slab)
  return taken
}

for (const [name, bytes, count] of [
  ['small', SMALL, SMALL_SLABS_MAX],
  ['large', SMALL + 1, SLABS_MAX],
] as const) {
  t.test(`as many ${name} ones as there may be, each with memory of its own`, async (t) => {
    const slabs = new Slabs(NO_LIMIT)
    const taken = takeAll(slabs, bytes)
    t.equal(taken.length, count)
    t.equal(new Set(taken.map(({ memory }) => memory)).size, count)
    t.equal(slabs.inUse, count)
    for (const slab of taken) slab.give()
    t.equal(slabs.inUse, 0)
  })
}

t.test(
  'a body has the smallest that holds it, with room for its block in a small one',
  async (t) => {
    const slabs = new Slabs(NO_LIMIT)
    t.equal(slabs.take(1)?.memory.byteLength, SMALL * 1.25)
    t.equal(slabs.take(SMALL)?.bodyBytesMax, SMALL)
    t.equal(slabs.take(SMALL + 1)?.memory.byteLength, SLAB_BYTES_MAX)
    t.equal(slabs.take(SLAB_BYTES_MAX)?.bodyBytesMax, SLAB_BYTES_MAX)
    t.equal(slabs.take(SLAB_BYTES_MAX + 1), null)
  },
)

t.test('no more than the budget has room for: small ones beside large ones', async (t) => {
  t.equal(takeAll(new Slabs(3 * SLAB_BYTES_MAX - 1), SLAB_BYTES_MAX).length, 2)
  t.equal(takeAll(new Slabs(SLAB_BYTES_MAX - 1), SLAB_BYTES_MAX).length, 0)
  const slabs = new Slabs(SLAB_BYTES_MAX)
  t.equal(takeAll(slabs, SMALL).length, 3, 'a sixth of 24 MiB')
  t.ok(slabs.take(SLAB_BYTES_MAX), 'which leave the large ones alone')
  t.equal(takeAll(new Slabs(7 * SMALL), SMALL).length, 0)
})

t.test(
  'what nobody needed since the last look is given up, and made again when needed',
  async (t) => {
    const slabs = new Slabs(NO_LIMIT)
    const crowd = Array.from({ length: 5 }, () => slabs.take(SLAB_BYTES_MAX))
    t.equal(slabs.release(), 0, 'all are in use')
    for (const slab of crowd) slab?.give()
    t.equal(slabs.release(), 0, 'they were in use since')
    const busy = slabs.take(SLAB_BYTES_MAX)
    t.equal(slabs.release(), 4 * SLAB_BYTES_MAX)
    t.strictSame(slabs.held.bytes, SLAB_BYTES_MAX)
    busy?.give()
    t.equal(takeAll(slabs, SLAB_BYTES_MAX).length, SLABS_MAX)
  },
)

t.test('who gave a slab back has no right to it, also when somebody else has it', async (t) => {
  const slabs = new Slabs(SLAB_BYTES_MAX)
  const first = slabs.take(SLAB_BYTES_MAX)
  const memory = first?.memory
  first?.give()
  t.throws(() => first?.memory, RangeError)
  t.throws(() => first?.give(), RangeError)
  const second = slabs.take(SLAB_BYTES_MAX)
  t.equal(second?.memory, memory, 'the memory is used again')
  t.throws(() => first?.memory, RangeError)
  t.throws(() => first?.give(), RangeError, 'nobody gives back what another one has')
  t.equal(slabs.inUse, 1)
  t.equal(slabs.take(SLAB_BYTES_MAX), null)
})

t.test('memory that may still be in use is not used again', async (t) => {
  const slabs = new Slabs(SLAB_BYTES_MAX)
  const first = slabs.take(SLAB_BYTES_MAX)
  const memory = first?.memory
  first?.give(false)
  t.throws(() => first?.give(), RangeError)
  t.equal(slabs.inUse, 0)
  const second = slabs.take(SLAB_BYTES_MAX)
  t.not(second?.memory, memory)
})

t.test('shared memory does not change hands', async (t) => {
  const own = new ArrayBuffer(8)
  t.strictSame(transferable([new SharedArrayBuffer(8), own]), [own])
})
