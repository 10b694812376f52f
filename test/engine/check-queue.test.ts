/**
 * Tests the order of upload checks: cheap checks never wait for expensive ones, and no check waits for ever.
 *
 * @lane quick
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import { SLAB_BYTES_MAX } from '../../src/base/limits.ts'
import { Slabs } from '../../src/base/slabs.ts'
import { CheckQueue } from '../../src/engine/threads/check-queue.ts'
import type { CheckResult, CheckTask } from '../../src/engine/threads/tasks.ts'
import type { CaptureRequest } from '../../src/rules/capture/accept.ts'
import { until } from '../fixtures/http-client.ts'

const MEBIBYTE = 1024 ** 2
const ACCEPTED = {
  kind: 'accepted' as const,
  block: { buffer: new ArrayBuffer(0), bytes: 0 },
  projectId: 1,
  eventCount: 1,
  answer: null,
}

/**
 * Resolves when the queue has begun the next check. The queue does so in an immediate, which a timer alone may precede.
 */
async function nextTurns(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 5))
  await new Promise((resolve) => setImmediate(resolve))
}

/** A queue with checks that end when the test says so. */
class Bench {
  nowMs = 0
  isWanted = true
  isAdmitted = true
  hasRoom = true
  readonly slabs = new Slabs(Number.POSITIVE_INFINITY)
  /** Checks that have a thread, in the order in which they began. */
  readonly running: {
    readonly task: CheckTask
    end(result: CheckResult): void
    fail(error: Error): void
  }[] = []
  readonly answers: string[] = []
  readonly queue: CheckQueue

  constructor(laneThreads = 1) {
    this.queue = new CheckQueue({
      laneThreads,
      clock: { now: () => this.nowMs, monotonic: () => this.nowMs },
      run: (task) =>
        new Promise((resolve, reject) => {
          const check = {
            task,
            end: (result: CheckResult) => this.#end(check, () => resolve(result)),
            fail: (error: Error) => this.#end(check, () => reject(error)),
          }
          this.running.push(check)
        }),
    })
  }

  #end(check: (typeof this.running)[number], resolve: () => void): void {
    this.running.splice(this.running.indexOf(check), 1)
    resolve()
  }

  /** Takes all free large slabs, and returns their number. */
  holdAll(): number {
    let held = 0
    while (this.slabs.take(SLAB_BYTES_MAX) !== null) held++
    return held
  }

  /** With `isInSlab` the body is in a slab. The memory of the block of a verdict is released. */
  send(name: string, given: Uint8Array, isInSlab = false): void {
    const slab = isInSlab ? this.slabs.take(given.length) : null
    const body = slab === null ? given : new Uint8Array(slab.memory, 0, given.length)
    const request: CaptureRequest = {
      kind: 'capture',
      method: 'POST',
      contentType: '',
      contentEncoding: '',
      query: name,
      address: '',
      arrivedAtMs: 0,
      body,
    }
    const waiter = {
      isWanted: () => this.isWanted,
      hasRoom: () => this.hasRoom,
      slab,
      takeSlab: (bytes: number) => this.slabs.take(bytes),
      admit: () => {
        if (!this.isAdmitted) throw new ServiceError('throttled', 'too many requests')
      },
    }
    this.queue
      .check(request, waiter)
      .then((verdict) => {
        this.answers.push(`${name} ${verdict.kind}`)
        if (verdict.kind === 'accepted') verdict.block.slab?.release()
      })
      .catch((error: ServiceError) => this.answers.push(`${name} ${error.code}`))
  }

  /** Returns lane and name of the running checks. */
  get threads(): readonly string[] {
    return this.running.map(({ task }) => `${task.lane} ${task.request.query}`)
  }

  find(name: string): (typeof this.running)[number] | undefined {
    return this.running.find(({ task }) => task.request.query === name)
  }

  /** Ends a check as too large for its lane, or as accepted. */
  async end(name: string, isDeferred = false): Promise<void> {
    const check = this.find(name)
    const body = check?.task.request.body ?? new Uint8Array(0)
    check?.end(isDeferred ? { kind: 'deferred', body } : ACCEPTED)
    await nextTurns()
  }

  /** Ends a check with any reply of a thread. */
  async endWith(name: string, result: CheckResult | Error): Promise<void> {
    const check = this.find(name)
    if (result instanceof Error) check?.fail(result)
    else check?.end(result)
    await nextTurns()
  }
}

t.test('small bodies are checked while large bodies are still being checked', async (t) => {
  const bench = new Bench()
  const large = (): Uint8Array => new Uint8Array(2 * MEBIBYTE)
  for (const name of ['a', 'b', 'c']) bench.send(name, large())
  bench.send('d', new Uint8Array(1000))
  t.same(bench.threads, ['bulk a', 'express d'], 'large ones one by one, in their order')
  await bench.end('d')
  await bench.end('a')
  t.same(bench.threads, ['bulk b'])
  await bench.end('b', true)
  t.same(
    bench.threads,
    ['bulk c', 'slow b'],
    'what is slow waits for nobody else, and nobody for it',
  )
  await bench.end('c', true)
  t.same(bench.threads, ['slow b'])
  bench.send('e', large())
  bench.send('f', new Uint8Array(1000))
  t.same(bench.threads, ['slow b', 'bulk e', 'express f'])
  await bench.end('b')
  for (const name of ['c', 'e', 'f']) await bench.end(name)
  t.same(
    bench.answers.sort(),
    ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => `${name} accepted`),
  )
})

t.test('the size of the decompressed body decides, not the size on the wire', async (t) => {
  const bench = new Bench()
  bench.send('honest bomb', gzipSync(Buffer.alloc(2 * MEBIBYTE)))
  const liar = gzipSync(Buffer.alloc(2 * MEBIBYTE))
  liar.writeUInt32LE(1, liar.length - 4)
  bench.send('liar', new Uint8Array(liar))
  bench.send('three bytes', Buffer.from([0x1f, 0x8b, 0x08]))
  t.same(bench.threads, ['bulk honest bomb', 'express liar', 'express three bytes'])
  await bench.end('liar', true)
  t.same(bench.queue.waitingIn('bulk'), 1, 'who lies is found out')
  for (const name of ['honest bomb', 'liar', 'three bytes']) await bench.end(name)
})

t.test('large bodies wait while much data is being written to the disk', async (t) => {
  const bench = new Bench()
  bench.hasRoom = false
  bench.send('large', new Uint8Array(2 * MEBIBYTE))
  bench.send('small', new Uint8Array(10))
  t.same(bench.threads, ['express small'])
  bench.hasRoom = true
  t.ok(await until(() => bench.threads.includes('bulk large')))
  for (const name of ['large', 'small']) await bench.end(name)
})

t.test('a body that waits too long, or behind too many others, gets a refusal', async (t) => {
  const bench = new Bench()
  bench.send('first', new Uint8Array(2 * MEBIBYTE))
  for (let index = 0; index < 129; index++) bench.send(`${index}`, new Uint8Array(2 * MEBIBYTE))
  await new Promise((resolve) => setTimeout(resolve, 5))
  t.same(bench.answers, ['128 server_error'], '128 may wait')
  bench.nowMs = 31_000
  t.ok(await until(() => bench.answers.length === 129))
  t.ok(bench.answers.every((answer) => answer.endsWith('server_error')))
  t.same(bench.threads, ['bulk first'], 'what is being checked goes on')
  await bench.end('first')
})

t.test('an abandoned request is not checked', async (t) => {
  const bench = new Bench()
  bench.send('first', new Uint8Array(2 * MEBIBYTE))
  bench.send('second', new Uint8Array(2 * MEBIBYTE))
  bench.isWanted = false
  t.ok(await until(() => bench.queue.waitingIn('bulk') === 0))
  await bench.end('first')
  t.same(bench.threads, [])
})

/** Returns a verdict with its block in the slab of its check. */
function inSlab({ task }: { readonly task: CheckTask }): CheckResult {
  if (task.slab === null) throw new TypeError('the check has no slab')
  return { ...ACCEPTED, block: { buffer: task.slab, bytes: 100 } }
}

const LARGE = new Uint8Array(2 * MEBIBYTE)
const REFUSED: CheckResult = {
  kind: 'refused',
  error: { type: 'validation_error', code: 'no_data', detail: 'nothing', attr: null },
  retryAfterSeconds: null,
}

t.test('a block is written over its body, and the slab is released once', async (t) => {
  const ends: Readonly<
    Record<string, (check: { readonly task: CheckTask }) => CheckResult | Error>
  > = {
    'accepted in the slab': inSlab,
    'accepted in memory of its own': () => ACCEPTED,
    'accepted without events': (check) => ({ ...inSlab(check), eventCount: 0 }),
    refused: () => REFUSED,
    'a thread that ends': () => new Error('the thread ended'),
  }
  for (const [name, end] of Object.entries(ends)) {
    const bench = new Bench()
    bench.send(name, LARGE, true)
    const check = bench.find(name)
    t.equal(bench.slabs.inUse, 1)
    t.equal(check?.task.request.body.buffer, check?.task.slab)
    if (check !== undefined) await bench.endWith(name, end(check))
    t.equal(bench.answers.length, 1, name)
    t.equal(bench.slabs.inUse, 0, name)
  }
})

t.test('an accepted body that is refused in the end releases its slab', async (t) => {
  const bench = new Bench()
  bench.isAdmitted = false
  bench.send('body', LARGE, true)
  const check = bench.find('body')
  if (check !== undefined) await bench.endWith('body', inSlab(check))
  t.same(bench.answers, ['body throttled'])
  t.equal(bench.slabs.inUse, 0)
})

t.test('a body that changes lanes keeps its slab and does not take another one', async (t) => {
  const bench = new Bench()
  bench.send('body', LARGE, true)
  const memory = bench.find('body')?.task.slab
  await bench.end('body', true)
  t.same(bench.threads, ['slow body'])
  t.equal(bench.find('body')?.task.slab, memory)
  t.equal(bench.slabs.inUse, 1)
  const check = bench.find('body')
  if (check !== undefined) await bench.endWith('body', inSlab(check))
  t.same(bench.answers, ['body accepted'])
  t.equal(bench.slabs.inUse, 0)
})

t.test('a body with its own memory gets a slab for its block while it is checked', async (t) => {
  const bench = new Bench()
  bench.send('small', new Uint8Array(1000))
  const bytes = (): number | undefined => bench.find('small')?.task.slab?.byteLength
  t.equal(bytes(), 1.25 * MEBIBYTE)
  t.equal(bench.slabs.inUse, 1)
  await bench.end('small', true)
  t.same(bench.threads, ['bulk small'])
  t.equal(bytes(), SLAB_BYTES_MAX, 'it may become a large block')
  t.equal(bench.slabs.inUse, 1)
  await bench.end('small', true)
  t.same(bench.threads, ['slow small'])
  t.equal(bench.slabs.inUse, 1, 'one body is checked at a time')
  const check = bench.find('small')
  if (check !== undefined) await bench.endWith('small', inSlab(check))
  t.equal(bench.slabs.inUse, 0)
})

t.test(
  'a body in a small slab keeps the slab, and after the first lane gets a large slab for its block',
  async (t) => {
    const bench = new Bench()
    bench.send('small', new Uint8Array(MEBIBYTE), true)
    const memory = bench.find('small')?.task.slab
    t.equal(
      memory,
      bench.find('small')?.task.request.body.buffer,
      'the block is written over the body',
    )
    await bench.end('small', true)
    t.same(bench.threads, ['bulk small'])
    t.equal(bench.find('small')?.task.request.body.buffer, memory)
    t.equal(bench.find('small')?.task.slab?.byteLength, SLAB_BYTES_MAX)
    t.equal(bench.slabs.inUse, 2)
    const held = bench.holdAll()
    await bench.end('small', true)
    t.same(bench.threads, ['slow small'])
    t.equal(bench.slabs.inUse, held + 2)
    const check = bench.find('small')
    if (check !== undefined) await bench.endWith('small', inSlab(check))
    t.equal(bench.slabs.inUse, held)
  },
)

t.test('without a free large slab, the block is written over the body', async (t) => {
  const bench = new Bench()
  const held = bench.holdAll()
  bench.send('small', new Uint8Array(1000), true)
  await bench.end('small', true)
  t.same(bench.threads, ['bulk small'])
  const { task } = bench.find('small') ?? {}
  t.equal(task?.slab, task?.request.body.buffer)
  const check = bench.find('small')
  if (check !== undefined) await bench.endWith('small', inSlab(check))
  t.same(bench.answers, ['small accepted'])
  t.equal(bench.slabs.inUse, held)
})

t.test('without a free slab, blocks get their own memory', async (t) => {
  const bench = new Bench()
  const held = Array.from({ length: 8 }, () => bench.slabs.take(SLAB_BYTES_MAX))
  t.ok(held.every((slab) => slab !== null))
  bench.send('body', LARGE)
  t.equal(bench.find('body')?.task.slab, null)
  await bench.end('body')
  t.same(bench.answers, ['body accepted'])
})

t.test('a body that is not checked releases its slab, whatever the reason is', async (t) => {
  const bench = new Bench()
  bench.send('first', LARGE)
  for (let index = 0; index < 128; index++) bench.send(`${index}`, LARGE)
  t.equal(bench.slabs.inUse, 1)
  bench.send('one too many', LARGE, true)
  t.equal(bench.slabs.inUse, 1)
  await bench.end('first')
  bench.send('waits', LARGE, true)
  t.equal(bench.slabs.inUse, 2)
  bench.nowMs = 31_000
  t.ok(await until(() => bench.slabs.inUse === 1), 'only the slab of the running check is in use')
  bench.send('leaves', LARGE, true)
  bench.isWanted = false
  t.ok(await until(() => bench.slabs.inUse === 1))
  await bench.end('0')
  t.equal(bench.slabs.inUse, 0)
})
