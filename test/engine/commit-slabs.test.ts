/**
 * Tests the slabs of blocks that wait for their commit. They are released when the commit ends, with or without
 * success, and not before.
 *
 * @lane quick
 */
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { SLAB_BYTES_MAX } from '../../src/base/limits.ts'
import { type Slab, Slabs } from '../../src/base/slabs.ts'
import { ThreadEndedError } from '../../src/engine/threads/thread-group.ts'
import { openLog, setUp, stalledLog } from '../fixtures/group-commits.ts'

const DEADLINE_MS = 10_000

t.test('a block from a slab is read from the log after the slab was reused', async (t) => {
  const log = openLog(t.testdir())
  t.teardown(() => log.close())
  const { commits, answers, addBlock } = setUp(log.append)
  const slabs = new Slabs(2 * SLAB_BYTES_MAX)
  const names = ['a', 'b', 'c', 'd', 'e', 'f']
  for (const [index, name] of names.entries()) {
    addBlock(name, slabs.take(SLAB_BYTES_MAX))
    if (index % 2 === 0) continue
    t.equal(slabs.take(SLAB_BYTES_MAX), null, 'both slabs are in use until the commit')
    await commits.drained()
    t.equal(slabs.inUse, 0)
  }
  t.strictSame(answers.names, names)
  t.strictSame(log.names(), names)
})

t.test('a slab is not released before its block is durable', async (t) => {
  const log = stalledLog()
  const { commits, answers, addBlock } = setUp(log.append)
  const slabs = new Slabs(Number.POSITIVE_INFINITY)
  addBlock('a', slabs.take(SLAB_BYTES_MAX))
  await nextTurn()
  addBlock('b', slabs.take(SLAB_BYTES_MAX))
  t.equal(slabs.inUse, 2)
  await log.succeed()
  t.equal(slabs.inUse, 1)
  await log.succeed()
  await commits.drained()
  t.equal(slabs.inUse, 0)
  t.strictSame(answers.names, ['a', 'b'])
})

t.test('slabs of failed commits are released', async (t) => {
  const log = stalledLog()
  const { commits, answers, addBlock } = setUp(log.append)
  const slabs = new Slabs(Number.POSITIVE_INFINITY)
  const take = (): Slab => {
    const slab = slabs.take(SLAB_BYTES_MAX)
    if (slab === null) throw new TypeError('no slab is free')
    return slab
  }
  const first = take()
  const firstMemory = first.memory
  addBlock('first', first)
  await nextTurn()
  const second = take()
  const secondMemory = second.memory
  addBlock('second', second)
  await log.fail(new ThreadEndedError(false, new Error('no memory left')))
  t.equal(slabs.inUse, 1, 'the slab of the next commit is in use')
  const other = take()
  t.not(other.memory, firstMemory, 'a write of a thread that ended may still be on its way')
  other.release()
  await nextTurn()
  await log.fail(new Error('no space left'))
  await commits.drained()
  t.equal(slabs.inUse, 0)
  addBlock('later', take())
  t.equal(slabs.inUse, 0, 'later requests are refused')
  const last = [take(), take()].map(({ memory }) => memory)
  t.ok(last.includes(secondMemory), 'a thread that failed but lives holds no slab')
  t.notOk(last.includes(firstMemory))
  t.strictSame(
    answers.given.map(({ error }) => error?.status),
    [503, 503, 503],
  )
})

t.test(
  'a hanging commit keeps its slab after the deadline, and waiting blocks release theirs',
  async (t) => {
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const log = stalledLog()
    const { commits, answers, addBlock } = setUp(log.append)
    const slabs = new Slabs(Number.POSITIVE_INFINITY)
    addBlock('a', slabs.take(SLAB_BYTES_MAX))
    await nextTurn()
    addBlock('b', slabs.take(SLAB_BYTES_MAX))
    mock.timers.tick(DEADLINE_MS)
    t.strictSame([...answers.names].sort(), ['a', 'b'])
    t.equal(slabs.inUse, 2, 'the disk may still read it')
    await log.fail(new Error('no space left'))
    await commits.drained()
    t.equal(slabs.inUse, 0)
  },
)
