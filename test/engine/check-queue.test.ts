/** The order of checks: what costs little never waits for what costs much, and nobody waits for ever. */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { ServiceError } from '../../src/base/errors.ts'
import { CheckQueue, type CheckVerdict } from '../../src/engine/threads/check-queue.ts'
import type { CheckResult, CheckTask } from '../../src/engine/threads/tasks.ts'
import type { CaptureRequest } from '../../src/rules/capture/accept.ts'
import { until } from '../fixtures/http-client.ts'

const MEBIBYTE = 1024 ** 2
const ACCEPTED: CheckVerdict = {
  kind: 'accepted',
  block: { buffer: new ArrayBuffer(0), bytes: 0 },
  projectId: 1,
  eventCount: 1,
}

/** A queue whose checks end when the test says so. */
class Bench {
  nowMs = 0
  isWanted = true
  hasRoom = true
  /** Checks that have a thread, in the order in which they began. */
  readonly running: { readonly task: CheckTask; end(result: CheckResult): void }[] = []
  readonly answers: string[] = []
  readonly queue: CheckQueue

  constructor(laneThreads = 1) {
    this.queue = new CheckQueue({
      laneThreads,
      clock: { now: () => this.nowMs, monotonic: () => this.nowMs },
      run: (task) =>
        new Promise((resolve) => {
          const check = {
            task,
            end: (result: CheckResult) => this.#end(check, () => resolve(result)),
          }
          this.running.push(check)
        }),
    })
  }

  #end(check: (typeof this.running)[number], resolve: () => void): void {
    this.running.splice(this.running.indexOf(check), 1)
    resolve()
  }

  send(name: string, body: Uint8Array): void {
    const request: CaptureRequest = {
      ...{ kind: 'capture', method: 'POST', contentType: '', contentEncoding: '', query: name },
      ...{ address: '', arrivedAtMs: 0, body },
    }
    const waiter = { isWanted: () => this.isWanted, hasRoom: () => this.hasRoom }
    this.queue
      .check(request, waiter)
      .then(({ kind }) => this.answers.push(`${name} ${kind}`))
      .catch((error: ServiceError) => this.answers.push(`${name} ${error.code}`))
  }

  /** Lane and name of the running checks. */
  get threads(): readonly string[] {
    return this.running.map(({ task }) => `${task.lane} ${task.request.query}`)
  }

  /** Ends a check as one that is too much for its lane, or as accepted. */
  async end(name: string, isDeferred = false): Promise<void> {
    const check = this.running.find(({ task }) => task.request.query === name)
    const body = check?.task.request.body ?? new Uint8Array(0)
    check?.end(isDeferred ? { kind: 'deferred', body } : ACCEPTED)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

t.test('small bodies are checked while large ones take their time', async (t) => {
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

t.test('what a few bytes may become decides, not how few they are', async (t) => {
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

t.test('large bodies wait while much is on its way to the disk', async (t) => {
  const bench = new Bench()
  bench.hasRoom = false
  bench.send('large', new Uint8Array(2 * MEBIBYTE))
  bench.send('small', new Uint8Array(10))
  t.same(bench.threads, ['express small'])
  bench.hasRoom = true
  t.ok(await until(() => bench.threads.includes('bulk large')))
  for (const name of ['large', 'small']) await bench.end(name)
})

t.test('who waits too long or behind too many is told to come again', async (t) => {
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

t.test('what nobody waits for any more is not checked', async (t) => {
  const bench = new Bench()
  bench.send('first', new Uint8Array(2 * MEBIBYTE))
  bench.send('second', new Uint8Array(2 * MEBIBYTE))
  bench.isWanted = false
  t.ok(await until(() => bench.queue.waitingIn('bulk') === 0))
  await bench.end('first')
  t.same(bench.threads, [])
})
