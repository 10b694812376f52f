/**
 * Tests slabs, which are reused blocks of memory. There is a fixed number of slabs of each size. A slab has one holder
 * at a time, and nobody can access it after its release.
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
  t.test(`the maximum number of ${name} slabs exists, each with its own memory`, async (t) => {
    const slabs = new Slabs(NO_LIMIT)
    const taken = takeAll(slabs, bytes)
    t.equal(taken.length, count)
    t.equal(new Set(taken.map(({ memory }) => memory)).size, count)
    t.equal(slabs.inUse, count)
    for (const slab of taken) slab.release()
    t.equal(slabs.inUse, 0)
  })
}

t.test(
  'a body gets the smallest slab that holds it, with room for its block in a small one',
  async (t) => {
    const slabs = new Slabs(NO_LIMIT)
    t.equal(slabs.take(1)?.memory.byteLength, SMALL * 1.25)
    t.equal(slabs.take(SMALL)?.bodyBytesMax, SMALL)
    t.equal(slabs.take(SMALL + 1)?.memory.byteLength, SLAB_BYTES_MAX)
    t.equal(slabs.take(SLAB_BYTES_MAX)?.bodyBytesMax, SLAB_BYTES_MAX)
    t.equal(slabs.take(SLAB_BYTES_MAX + 1), null)
  },
)

t.test('the budget limits the number: small slabs beside large ones', async (t) => {
  t.equal(takeAll(new Slabs(3 * SLAB_BYTES_MAX - 1), SLAB_BYTES_MAX).length, 2)
  t.equal(takeAll(new Slabs(SLAB_BYTES_MAX - 1), SLAB_BYTES_MAX).length, 0)
  const slabs = new Slabs(SLAB_BYTES_MAX)
  t.equal(takeAll(slabs, SMALL).length, 3, 'a sixth of 24 MiB')
  t.ok(slabs.take(SLAB_BYTES_MAX), 'small slabs do not take room from large ones')
  t.equal(takeAll(new Slabs(7 * SMALL), SMALL).length, 0)
})

t.test(
  'slabs unused since the last check are released, and allocated again on demand',
  async (t) => {
    const slabs = new Slabs(NO_LIMIT)
    const crowd = Array.from({ length: 5 }, () => slabs.take(SLAB_BYTES_MAX))
    t.equal(slabs.release(), 0, 'all slabs are in use')
    for (const slab of crowd) slab?.release()
    t.equal(slabs.release(), 0, 'the slabs were in use since')
    const busy = slabs.take(SLAB_BYTES_MAX)
    t.equal(slabs.release(), 4 * SLAB_BYTES_MAX)
    t.strictSame(slabs.held.bytes, SLAB_BYTES_MAX)
    busy?.release()
    t.equal(takeAll(slabs, SLAB_BYTES_MAX).length, SLABS_MAX)
  },
)

t.test('after its release a slab cannot be released again by the same holder', async (t) => {
  const slabs = new Slabs(SLAB_BYTES_MAX)
  const first = slabs.take(SLAB_BYTES_MAX)
  const memory = first?.memory
  first?.release()
  t.throws(() => first?.memory, RangeError)
  t.throws(() => first?.release(), RangeError)
  const second = slabs.take(SLAB_BYTES_MAX)
  t.equal(second?.memory, memory, 'the memory is reused')
  t.throws(() => first?.memory, RangeError)
  t.throws(() => first?.release(), RangeError, 'a slab of another holder cannot be released')
  t.equal(slabs.inUse, 1)
  t.equal(slabs.take(SLAB_BYTES_MAX), null)
})

t.test('memory that may still be in use is not reused', async (t) => {
  const slabs = new Slabs(SLAB_BYTES_MAX)
  const first = slabs.take(SLAB_BYTES_MAX)
  const memory = first?.memory
  first?.release(false)
  t.throws(() => first?.release(), RangeError)
  t.equal(slabs.inUse, 0)
  const second = slabs.take(SLAB_BYTES_MAX)
  t.not(second?.memory, memory)
})

t.test('shared memory is not transferred', async (t) => {
  const own = new ArrayBuffer(8)
  t.strictSame(transferable([new SharedArrayBuffer(8), own]), [own])
})
