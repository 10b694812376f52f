/**
 * Tests blocks of memory that several threads share.
 *
 * @lane quick
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import {
  type Block,
  type BlockMemory,
  blockMemory,
  SharedBlocks,
} from '../../src/base/shared-blocks.ts'
import { Differences } from '../fixtures/differences.ts'

const UNIT = 4096
const MODULE = new URL('../../src/base/shared-blocks.ts', import.meta.url)
const WORKER = new URL('../fixtures/block-worker.mjs', import.meta.url)

const nameOf = (name: number): Uint32Array => Uint32Array.of(name & 1, name, 0xffff_ffff, 0)
const bytesOf = (name: number, length: number): Uint8Array => new Uint8Array(length).fill(name)

function open(memory: BlockMemory, index: number): SharedBlocks {
  const blocks = new SharedBlocks(memory, index)
  blocks.begin()
  return blocks
}

/** Begins a new spell and puts a block of one repeated byte. */
function put(blocks: SharedBlocks, name: number, length = UNIT): Block | null {
  return blocks.put(nameOf(name), [bytesOf(name, length)])
}

t.test('a block put by one thread is found by the other, and exists once', async (t) => {
  const memory = blockMemory(16 * UNIT, 2)
  const first = open(memory, 0)
  const second = open(memory, 1)
  t.equal(first.find(nameOf(5)), null)
  const block = first.put(nameOf(5), [Uint8Array.of(1, 2), Uint8Array.of(), Uint8Array.of(3)])
  t.strictSame([...(block?.bytes ?? [])], [1, 2, 3])
  const found = second.find(nameOf(5))
  t.strictSame([...(found?.bytes ?? [])], [1, 2, 3])
  t.equal(found?.bytes.buffer, block?.bytes.buffer, 'it is in the same memory')
  t.equal(second.find(nameOf(7)), null, 'a name with an equal prefix is another name')
  t.strictSame([...(put(second, 5)?.bytes ?? [])], [1, 2, 3], 'putting it again finds it')
  t.equal(first.usedBytes, UNIT)
  t.equal(second.usedBytes, UNIT)
})

t.test('a block stays valid between spells as long as it exists', async (t) => {
  const blocks = open(blockMemory(4 * UNIT, 1), 0)
  const block = put(blocks, 1)
  if (block === null) throw new Error('there is room')
  t.ok(blocks.use(block))
  blocks.end()
  t.notOk(blocks.use(block), 'between spells nothing is')
  blocks.begin()
  t.ok(blocks.use(block))
  blocks.begin()
  for (let name = 2; name < 6; name++) t.ok(put(blocks, name))
  t.notOk(blocks.use(block), 'the others took its place')
  t.equal(blocks.find(nameOf(1)), null)
})

t.test('the least recently used block is evicted, and no block of a current spell', async (t) => {
  const memory = blockMemory(4 * UNIT, 2)
  const first = open(memory, 0)
  for (let name = 1; name <= 4; name++) t.ok(put(first, name))
  t.equal(put(first, 5), null, 'all blocks belong to this spell')
  first.begin()
  t.ok(first.find(nameOf(1)), 'the oldest block is used again')
  t.ok(put(first, 5))
  t.equal(first.find(nameOf(2)), null, 'now the next block was the oldest')
  first.end()
  const second = open(memory, 1)
  const held = second.find(nameOf(3))
  if (held === null) throw new Error('it is still there')
  first.begin()
  const others = [put(first, 6), put(first, 7), put(first, 8)]
  t.strictSame(
    others.map((block) => block !== null),
    [true, true, true],
  )
  t.equal(put(first, 9), null, 'the other thread still uses one block')
  t.ok(held.bytes.every((byte) => byte === 3))
  t.ok(second.use(held))
  second.end()
  first.begin()
  t.ok(put(first, 9), 'now it does not')
})

t.test('a long spell keeps its blocks, however many short spells pass', async (t) => {
  const memory = blockMemory(4 * UNIT, 2)
  const long = open(memory, 0)
  const held = put(long, 1)
  const short = new SharedBlocks(memory, 1)
  const differences = new Differences()
  for (let name = 2; name < 200; name++) {
    short.begin()
    differences.ok(put(short, name) === null || name < 5, `block ${name} finds no room`)
    short.end()
  }
  t.strictSame(differences.list(), [], 'nothing that came later goes either')
  t.ok(held?.bytes.every((byte) => byte === 1))
  long.end()
  short.begin()
  t.ok(put(short, 200))
})

t.test('blocks of any size are placed side by side until memory is full', async (t) => {
  const memory = blockMemory(64 * UNIT, 1)
  const blocks = new SharedBlocks(memory, 0)
  let random = 1
  const differences = new Differences()
  for (let round = 0; round < 2000; round++) {
    random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0
    const units = 1 + ((random >>> 8) % 12)
    blocks.begin()
    const block = put(blocks, round % 256, units * UNIT - (round % UNIT))
    const isWhole = block?.bytes.every((byte) => byte === round % 256)
    differences.ok(isWhole, `block ${round} of ${units} units has its bytes`)
    const { usedBytes } = blocks
    differences.ok(
      usedBytes <= 64 * UNIT,
      `block ${round}: ${usedBytes} bytes are within the limit`,
    )
  }
  t.strictSame(differences.list(), [], 'every block finds room within the limit')
  t.equal(put(blocks, 300, 65 * UNIT), null, 'this is more than there is')
  blocks.begin()
  t.ok(put(blocks, 301, 64 * UNIT), 'this is all there is')
  const none = open(blockMemory(100, 1), 0)
  t.equal(put(none, 1), null)
  t.equal(none.find(nameOf(1)), null)
})

t.test('spell numbers wrap around, and no block is taken for older than it is', async (t) => {
  const memory = blockMemory(2 * UNIT, 2)
  // The number of the newest spell after half a million queries a day for ten years.
  memory.state[2] = 0x7fff_fffe
  const first = open(memory, 0)
  const held = put(first, 1)
  const second = new SharedBlocks(memory, 1)
  for (let name = 2; name < 20; name++) {
    second.begin()
    t.equal(put(second, name) !== null, name === 2)
    second.end()
  }
  t.ok(held?.bytes.every((byte) => byte === 1))
  memory.state[2] = -(2 ** 30)
  second.begin()
  t.equal(put(second, 30), null)
  second.begin()
  second.begin()
  t.equal(put(second, 30), null, 'the first spell continues through all of that')
})

t.test('a thread that ends during a change costs only the cached blocks', async (t) => {
  const memory = blockMemory(8 * UNIT, 2)
  const first = open(memory, 0)
  const second = open(memory, 1)
  const block = put(first, 1)
  t.ok(block !== null)
  second.end()
  // Thread 1 has the lock and is gone. Another thread gets its number.
  memory.state[0] = 2
  const next = new SharedBlocks(memory, 1)
  next.begin()
  t.equal(put(next, 2), null, 'the first thread is in a spell and may read its blocks')
  t.equal(next.find(nameOf(1)), null)
  t.ok(block?.bytes.every((byte) => byte === 1))
  next.end()
  first.begin()
  t.notOk(block !== null && first.use(block), 'all begins anew')
  t.equal(first.find(nameOf(1)), null)
  t.ok(put(first, 3))
  next.begin()
  t.ok(next.find(nameOf(3)))
  t.equal(first.usedBytes, UNIT)
  for (let name = 10; name < 17; name++) t.ok(put(next, name), 'the whole memory is free')
})

t.test('no thread waits for ever for a change of another thread', async (t) => {
  const memory = blockMemory(8 * UNIT, 2)
  const first = open(memory, 0)
  t.ok(put(first, 1))
  // As if a thread had stopped in the middle of a change.
  memory.state[0] = 2
  t.equal(first.find(nameOf(1)), null, 'the thread gives up')
  t.equal(put(first, 2), null, 'it does not try again')
  first.begin()
  t.ok(put(first, 2), 'no thread is in a spell, so the memory starts empty')
})

t.test("threads that evict each other's blocks never see a block change", async (t) => {
  const memory = blockMemory(40 * UNIT, 3)
  const words = new Int32Array(new SharedArrayBuffer(16))
  const meeting = { words, threads: 3, countMin: 300 }
  const threads = [0, 1, 2].map(
    (index) =>
      new Worker(WORKER, {
        workerData: {
          module: MODULE.href,
          memory,
          index,
          spells: 6000,
          names: 60,
          bytesMax: 2 * UNIT,
          meeting,
        },
      }),
  )
  const counts = await Promise.all(
    threads.map(async (thread) => {
      const [counted] = (await once(thread, 'message')) as [Record<string, number>]
      return counted
    }),
  )
  const sum = (kind: string): number =>
    counts.reduce((total, counted) => total + (counted[kind] ?? 0), 0)
  t.equal(sum('torn'), 0)
  for (const kind of ['found', 'kept', 'used']) t.ok(sum(kind) > 300, kind)
  await Promise.all(threads.map((thread) => thread.terminate()))
})
