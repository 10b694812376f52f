/**
 * Tests group commit: every caller is answered exactly once, with success only if the bytes are in the log, and none
 * waits longer than the deadline. The log is real. Where the disk must fail or hang, a port replaces it.
 *
 * @lane quick
 */
import assert from 'node:assert/strict'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { refusal } from '../../src/base/refusals.ts'
import { Slabs } from '../../src/base/slabs.ts'
import { ThreadEndedError } from '../../src/engine/threads/thread-group.ts'
import { buffersOf, openLog, setUp, stalledLog } from '../fixtures/group-commits.ts'
import { runsOf } from '../fixtures/random-depth.ts'

const DEADLINE_MS = 10_000
/** No commit takes time, however busy the machine is. */
const STOPPED_CLOCK = { ...SYSTEM_CLOCK, monotonic: () => 0 }
const SEED = 20_261_121

t.test('a request is answered when it can be read from the log', async (t) => {
  const log = openLog(t.testdir())
  t.teardown(() => log.close())
  const { commits, answers, counts, add } = setUp(log.append)
  t.equal(commits.pendingBytes, 0)
  add('a')
  t.ok(commits.pendingBytes > 0)
  t.strictSame(answers.given, [], 'nobody is answered before the commit')
  await commits.drained()
  t.strictSame(answers.given, [{ name: 'a', error: null }])
  t.strictSame(log.names(), ['a'])
  t.equal(commits.pendingBytes, 0)
  t.equal(commits.isHealthy, true)
  t.equal(counts.events, 1)
  await commits.drained()
})

t.test('requests that arrive during a commit share the next one, in order', async (t) => {
  const log = stalledLog()
  const { commits, answers, counts, add } = setUp(log.append)
  add('a')
  add('b')
  await nextTurn()
  t.equal(log.tasks.length, 1)
  for (const name of ['c', 'd', 'e']) add(name)
  await nextTurn()
  t.equal(log.tasks.length, 1, 'there is one commit at a time')
  await log.succeed()
  t.strictSame(answers.names, ['a', 'b'])
  t.equal(log.tasks.length, 2)
  const [second] = buffersOf(log.tasks[1]?.blocks ?? [])
  t.equal(second?.readUInt32LE(8), 3, 'one block holds the three requests')
  await log.succeed()
  t.strictSame(answers.names, ['a', 'b', 'c', 'd', 'e'])
  t.ok(answers.given.every(({ error }) => error === null))
  t.equal(counts.commits, 2)
  t.equal(counts.events, 5)
  t.equal(commits.pendingBytes, 0)
})

t.test('every request is in the log once, and is answered once, whenever it arrives', async (t) => {
  let run = 0
  const steps = fc.array(fc.constantFrom('add', 'block', 'turn', 'trim'), { maxLength: 60 })
  const folder = t.testdir()
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), async (actions, isSlow) => {
      const log = openLog(`${folder}/${++run}`)
      const { commits, answers, add, addBlock } = setUp(async (task) => {
        if (isSlow) await nextTurn()
        return log.append({ ...task, trimThrough: 0 })
      })
      const names: string[] = []
      for (const [index, action] of actions.entries()) {
        const name = `${action} ${index}`
        if (action === 'turn') await nextTurn()
        else if (action === 'trim') commits.trim(index)
        else {
          names.push(name)
          if (action === 'add') add(name)
          else addBlock(name)
        }
      }
      await commits.drained()
      assert.deepEqual(answers.names, names, 'the requests are in order of arrival')
      assert.ok(answers.given.every(({ error }) => error === null))
      assert.deepEqual(log.names().sort(), [...names].sort())
      await log.close()
    }),
    runsOf(25, SEED),
  )
})

t.test('processed blocks are removed by the next commit', async (t) => {
  const log = openLog(t.testdir())
  t.teardown(() => log.close())
  const { commits, add } = setUp(log.append)
  for (const name of ['a', 'b', 'c']) {
    add(name)
    await commits.drained()
  }
  commits.trim(2)
  await nextTurn()
  await commits.drained()
  t.strictSame(log.names(), ['c'], 'without waiting for another request')
  add('d')
  await commits.drained()
  t.strictSame(log.names(), ['c', 'd'])
})

t.test('drained waits for a removal that is about to begin', async (t) => {
  let appends = 0
  const { commits, add } = setUp(async () => {
    appends++
    await nextTurn()
    return { last: appends, commitMs: 0 }
  })
  add('a')
  await commits.drained()
  // As in a stop: the last processing task reports, then the threads are closed.
  commits.trim(1)
  await commits.drained()
  const before = appends
  await nextTurn()
  await nextTurn()
  t.equal(appends, before, 'no commit begins when the threads may be gone')
})

t.test('a failed commit answers 503 to all waiting and later requests', async (t) => {
  const log = stalledLog()
  const { commits, answers, failures, counts, add, addBlock } = setUp(log.append)
  add('a')
  addBlock('b')
  await nextTurn()
  add('c')
  const drained = commits.drained()
  const cause = new Error('no space left')
  await log.fail(cause)
  await drained
  add('d')
  await nextTurn()
  t.strictSame(answers.names, ['a', 'b', 'c', 'd'])
  for (const { name, error } of answers.given) {
    t.equal(error?.status, 503, name)
    t.equal(error?.code, 'server_error')
    t.ok((error?.retryAfterSeconds ?? 0) > 0)
    t.notMatch(error?.message, /space/, 'the cause stays inside')
  }
  t.strictSame(failures, [cause], 'told once')
  t.equal(counts.commits, 0)
  t.equal(log.tasks.length, 1, 'the log is not written again')
  t.equal(commits.isHealthy, false)
  t.equal(commits.pendingBytes, 0)
})

t.test('the end of a thread is a failed commit, and the next commit is made', async (t) => {
  const log = stalledLog()
  const { commits, answers, failures, add } = setUp(log.append)
  add('a')
  await nextTurn()
  const drained = commits.drained()
  await log.fail(new ThreadEndedError(false, new Error('no memory left')))
  await drained
  t.strictSame(
    answers.given.map(({ error }) => error?.status),
    [503],
  )
  add('b')
  await nextTurn()
  await log.succeed()
  await commits.drained()
  t.strictSame(answers.given.at(-1), { name: 'b', error: null })
  t.strictSame(failures, [])
  t.ok(commits.isHealthy)
})

t.test('a full disk refuses the requests of a commit, and the next commit is made', async (t) => {
  const log = stalledLog()
  const { commits, answers, failures, add } = setUp(log.append)
  add('a')
  await nextTurn()
  add('b')
  const refused = refusal('disk_full')
  await log.fail(refused)
  t.strictSame(answers.given, [{ name: 'a', error: refused }])
  await nextTurn()
  await log.succeed()
  await commits.drained()
  t.strictSame(answers.given.at(-1), { name: 'b', error: null })
  t.strictSame(failures, [], 'the log is intact')
})

t.test('an error thrown immediately is a failed commit like any other', async (t) => {
  const { answers, failures, add } = setUp(() => {
    throw new Error('no thread')
  })
  add('a')
  await nextTurn()
  await nextTurn()
  t.strictSame(
    answers.given.map(({ error }) => error?.status),
    [503],
  )
  t.equal(failures.length, 1)
})

t.test('a hanging commit is answered 503 at the deadline, and not again later', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const log = stalledLog()
  const { commits, answers, failures, add } = setUp(log.append)
  add('a')
  await nextTurn()
  add('b')
  mock.timers.tick(DEADLINE_MS - 1)
  t.strictSame(answers.names, [])
  mock.timers.tick(1)
  t.equal(answers.given.find(({ name }) => name === 'a')?.error?.status, 503)
  // The next commit did not hang longer than a commit may take, either.
  mock.timers.tick(DEADLINE_MS)
  t.strictSame([...answers.names].sort(), ['a', 'b'], 'nobody hangs behind a commit that hangs')
  await log.succeed()
  await log.succeed()
  await commits.drained()
  t.strictSame([...answers.names].sort(), ['a', 'b'], 'everybody is answered once')
  t.strictSame(failures, [], 'the log did not fail, it was slow')
})

t.test(
  'requests delayed by a hanging commit are written when it ends, answered or not',
  async (t) => {
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const log = stalledLog()
    const { commits, answers, add, addBlock } = setUp(log.append)
    const slabs = new Slabs(Number.POSITIVE_INFINITY)
    add('a')
    await nextTurn()
    add('b')
    addBlock('c', slabs.take(1))
    mock.timers.tick(DEADLINE_MS)
    t.strictSame([...answers.names].sort(), ['a', 'b', 'c'])
    // Their bodies were already on the way.
    add('d')
    mock.timers.tick(DEADLINE_MS)
    t.equal(answers.given.find(({ name }) => name === 'd')?.error?.status, 503)
    await log.succeed()
    t.equal(log.tasks.length, 2, 'the write does not wait for another request')
    t.strictSame(
      buffersOf(log.tasks[1]?.blocks ?? []).map((block) => block.readUInt32LE(8)),
      [1, 2],
      'the block of c, and one of b and d',
    )
    let isDrained = false
    const drained = commits.drained().then(() => {
      isDrained = true
    })
    await nextTurn()
    t.notOk(isDrained, 'the threads must not be closed yet')
    await log.succeed()
    await drained
    t.equal(commits.pendingBytes, 0)
    t.equal(slabs.inUse, 0)
    t.equal(answers.given.length, 4, 'every caller is answered once')
  },
)

t.test('many simultaneous requests share a commit that begins a little later', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const log = stalledLog()
  const { commits, answers, add } = setUp(log.append, STOPPED_CLOCK)
  for (const name of ['a', 'b', 'c']) add(name)
  await nextTurn()
  for (const name of ['d', 'e', 'f', 'g']) add(name)
  await log.succeed()
  t.equal(log.tasks.length, 2, 'seven are not many')
  for (const name of ['h', 'i', 'j', 'k']) add(name)
  await log.succeed()
  t.strictSame(answers.names, ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  add('l')
  await nextTurn()
  t.equal(log.tasks.length, 2, 'eight are many')
  mock.timers.tick(1)
  t.equal(log.tasks.length, 3)
  await log.succeed()
  await commits.drained()
  t.equal(answers.given.length, 12)
})

t.test('a commit begins later after a large one, unless much data waits', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const log = stalledLog()
  const { commits, answers, add } = setUp(log.append, STOPPED_CLOCK)
  const names = (count: number, bytes: number): readonly string[] =>
    Array.from({ length: count }, (_, index) => `${index}`.padEnd(bytes, '-'))
  for (const name of names(8, 10_000)) add(name)
  await nextTurn()
  add('a')
  await log.succeed()
  mock.timers.tick(1)
  t.equal(log.tasks.length, 1)
  mock.timers.tick(1)
  t.equal(log.tasks.length, 2, 'it begins after two milliseconds')
  for (const name of names(8, 10_000)) add(name)
  await log.succeed()
  for (const name of names(4, 225_000)) add(name)
  await nextTurn()
  t.equal(log.tasks.length, 2, 'a mebibyte has not arrived yet')
  for (const name of names(2, 50_000)) add(name)
  await nextTurn()
  t.equal(log.tasks.length, 3, 'it begins as soon as it has arrived')
  add('b')
  mock.timers.tick(2)
  t.equal(log.tasks.length, 3, 'no second commit runs beside it')
  await log.succeed()
  mock.timers.tick(2)
  await log.succeed()
  await commits.drained()
  t.equal(log.tasks.length, 4)
  t.equal(answers.given.length, 24)
})

t.test('blocks processed during a commit are removed when it has ended', async (t) => {
  const log = stalledLog()
  const { commits, add } = setUp(log.append)
  add('a')
  await nextTurn()
  commits.trim(1)
  await log.succeed()
  t.match(log.tasks[1], { blocks: [], trimThrough: 1 })
  await log.succeed()
  // There is no caller left with a commit that could fail repeatedly.
  commits.trim(2)
  await nextTurn()
  commits.trim(3)
  await log.fail(refusal('disk_full'))
  await nextTurn()
  t.match(log.tasks[3], { trimThrough: 3 })
  await log.fail(refusal('disk_full'))
  await commits.drained()
  t.equal(log.tasks.length, 4)
})
