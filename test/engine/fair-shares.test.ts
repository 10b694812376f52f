/**
 * Tests fair shares of the waiting queue. A single sender may fill it. Beside others, each holds a part of it. When the
 * queue is over its limit, the senders that fill it are refused first.
 *
 * @lane quick
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { Admission } from '../../src/engine/front/admission.ts'
import { FairShares, type SenderAccount } from '../../src/engine/front/shares/fair-shares.ts'
import { SENDER_ACTIVE_MS_MAX, SENDERS_MAX } from '../../src/engine/front/shares/limits.ts'
import { newShares, setUp, stalledLog } from '../fixtures/group-commits.ts'

const LAG_MS_MAX = 30_000
const BACKLOG_BYTES_MAX = 1000 * 1024 ** 2
const MIB = 1024 ** 2
/** Estimated work of one event without bytes, in milliseconds. */
const EVENT_MS = 0.05

/** A queue with lag and bytes set by the test, before the shares and the admission of the daemon. */
class Queue {
  nowMs = 0
  readonly loop = { lagMs: 0, backlogBytes: 0, isBehind: false }
  readonly bodies = {
    bytesMax: 100,
    bytesInFlight: 0,
    tryReserve(bytes: number): boolean {
      if (this.bytesInFlight + bytes > this.bytesMax) return false
      this.bytesInFlight += bytes
      return true
    },
    release(bytes: number): void {
      this.bytesInFlight -= bytes
    },
  }
  readonly #clock = { monotonic: () => this.nowMs, now: () => this.nowMs }
  readonly #settings = {
    processingLagMsMax: LAG_MS_MAX,
    backlogBytesMax: BACKLOG_BYTES_MAX,
    inFlightBytesMax: 256 * MIB,
  }
  readonly shares = new FairShares({
    clock: this.#clock,
    settings: this.#settings,
    bodies: this.bodies,
  })
  readonly ledger = this.shares.ledger()
  readonly admission = new Admission({
    settings: this.#settings,
    disk: { isBelowFloor: () => false, isBelowReserve: () => false },
    budget: this.bodies,
    loop: this.loop,
    shares: this.shares,
    groupCommit: { isHealthy: true, pendingBytes: 0 },
    hasFailed: () => false,
  })
  #block = 0

  account(address: string): SenderAccount {
    return this.shares.of(address).small
  }

  /** Accepts events without bytes, and further bytes, in a separate block. Returns its number. */
  accept(account: SenderAccount, events: number, bytes = 0): number {
    this.ledger.add(account, bytes, events)
    this.ledger.logged(this.ledger.begin(), ++this.#block)
    this.loop.backlogBytes += bytes
    // Blocks of one moment are released together.
    this.nowMs += 100
    return this.#block
  }

  /** Sets the lag of processing, past its limit until it is back at half of it. */
  late(lagMs: number): void {
    this.loop.lagMs = lagMs
    this.loop.isBehind = lagMs > LAG_MS_MAX / 2
    this.nowMs += 100
  }

  refusal(account: SenderAccount, events = 0, bytes = 0): string | null {
    return this.admission.refusalOfEvents(account, bytes, events)?.message ?? null
  }
}

t.test('a single sender may fill the queue up to the common limit', async (t) => {
  const queue = new Queue()
  const alone = queue.account('192.0.2.1')
  for (let n = 0; n < 10; n++) queue.accept(alone, 400_000, 90 * MIB)
  t.ok(alone.workMs > 6 * LAG_MS_MAX, 'this is more than the estimate would allow beside others')
  t.equal(queue.refusal(alone, 400_000), null)
  queue.late(LAG_MS_MAX + 1)
  t.match(queue.refusal(alone), /faster than they are processed/, 'the measured lag counts')
  queue.loop.isBehind = false
  queue.loop.backlogBytes = BACKLOG_BYTES_MAX + 1
  t.match(
    queue.refusal(alone),
    /Too many events wait to be processed/,
    'the bytes in the log count',
  )
})

t.test('if others send too, a sender may hold half of the free space', async (t) => {
  const queue = new Queue()
  const heavy = queue.account('192.0.2.1')
  const other = queue.account('192.0.2.2')
  queue.accept(other, 1)
  queue.accept(heavy, 1)
  const half = LAG_MS_MAX / 2 / EVENT_MS
  t.equal(queue.refusal(heavy, half - 10), null)
  t.match(queue.refusal(heavy, half + 10), /from this address/)
  const error = queue.admission.refusalOfEvents(heavy, 0, half + 10)
  t.equal(error?.status, 503, 'browsers lose events that are answered 429')
  t.equal(error?.retryAfterSeconds, 5)
  queue.accept(heavy, half - 10)
  t.match(queue.refusal(heavy, 100), /from this address/)
  t.equal(queue.refusal(other, 100), null)
  t.equal(
    queue.refusal(queue.account('192.0.2.3'), half + 10),
    null,
    'one request is always accepted',
  )
  t.equal(queue.refusal(heavy, 0, BACKLOG_BYTES_MAX / 2 + MIB) !== null, true, 'bytes count, too')
  queue.nowMs += SENDER_ACTIVE_MS_MAX
  queue.accept(heavy, 1)
  t.equal(queue.refusal(heavy, half), null, 'if no other sender comes, the whole queue is for one')
})

t.test('a queue past its limit refuses only the senders that fill it', async (t) => {
  const queue = new Queue()
  const heavy = queue.account('192.0.2.1')
  const light = [2, 3, 4].map((n) => queue.account(`192.0.2.${n}`))
  queue.accept(heavy, 1_600_000, 200 * MIB)
  queue.late(80_000)
  for (const account of light) t.equal(queue.refusal(account), null)
  t.equal(queue.admission.reasonAgainstWriting(), null, 'the daemon is ready')
  t.match(queue.admission.troubles, [/Only clients that fill the queue are refused/])
  for (const account of light) queue.accept(account, 100)
  queue.late(80_000)
  t.match(queue.refusal(heavy), /from this address/)
  for (const account of light) t.equal(queue.refusal(account), null)
  queue.loop.isBehind = false
  queue.loop.backlogBytes = BACKLOG_BYTES_MAX + 1
  t.match(queue.refusal(heavy), /from this address/)
  for (const account of light) t.equal(queue.refusal(account), null)
  queue.loop.backlogBytes = BACKLOG_BYTES_MAX * 2
  for (const account of light) t.not(queue.refusal(account), null, 'the disk is for nobody')
  t.ok(queue.shares.refused.queue >= 2)
})

t.test('large requests of an address do not delay its small ones', async (t) => {
  const queue = new Queue()
  const { small, large } = queue.shares.of('192.0.2.1')
  queue.accept(large, 1_600_000)
  queue.late(80_000)
  t.equal(queue.refusal(small), null)
  t.not(queue.refusal(large), null)
  queue.accept(small, 10)
  queue.late(20_000)
  queue.loop.isBehind = false
  t.match(
    queue.refusal(large, 1),
    /faster than they are processed/,
    'they do not fill the queue, either',
  )
})

t.test('a sender with little work is accepted while another one fills the queue', async (t) => {
  const queue = new Queue()
  const light = [2, 3, 4].map((n) => queue.account(`192.0.2.${n}`))
  for (const account of light) queue.accept(account, 40_000)
  const heavy = queue.account('192.0.2.1')
  queue.accept(heavy, 500_000)
  queue.late(25_000)
  queue.loop.isBehind = false
  for (const account of light) t.equal(queue.refusal(account, 1000), null)
  t.match(queue.refusal(heavy, 1), /from this address/)
  t.match(queue.refusal(queue.account('192.0.2.2'), 500_000), /from this address/)
})

t.test('if so many senders fill the queue that no share is left, all are refused', async (t) => {
  const queue = new Queue()
  for (let n = 0; n < 2000; n++) queue.accept(queue.account(`198.51.${n >> 8}.${n & 255}`), 1000)
  queue.late(LAG_MS_MAX * 2)
  t.not(queue.refusal(queue.account('203.0.113.1')), null)
  t.match(queue.admission.reasonAgainstWriting(), /faster than they are processed/)
  t.strictSame(queue.admission.troubles, [])
})

t.test('processed work is released completely', async (t) => {
  const queue = new Queue()
  const one = queue.account('192.0.2.1')
  const two = queue.account('192.0.2.2')
  const first = queue.accept(one, 100, 5000)
  const second = queue.accept(two, 10, 70)
  const third = queue.accept(one, 1, 3)
  queue.ledger.processed(first)
  t.equal(one.heldBytes, 3)
  t.equal(two.heldBytes, 70)
  queue.ledger.processed(second)
  t.strictSame([two.heldBytes, two.workMs], [0, 0])
  queue.ledger.processed(third)
  t.strictSame([one.heldBytes, one.workMs], [0, 0])
})

t.test('expensive processing counts for the sender of the events', async (t) => {
  const queue = new Queue()
  const dear = queue.account('192.0.2.1')
  const cheap = queue.account('192.0.2.2')
  queue.ledger.processed(queue.accept(dear, 10_000))
  queue.shares.learn(10_000 * EVENT_MS * 20)
  for (let n = 0; n < 10; n++) {
    queue.ledger.processed(queue.accept(cheap, 10_000))
    queue.shares.learn((10_000 * EVENT_MS) / 10)
  }
  queue.accept(dear, 20_000)
  queue.accept(cheap, 20_000)
  t.ok(dear.workMs > LAG_MS_MAX / 2, `the expensive work took ${dear.workMs} ms`)
  t.ok(cheap.workMs < (20_000 * EVENT_MS) / 5, `the cheap work took ${cheap.workMs} ms`)
  t.match(queue.refusal(dear), /from this address/)
  t.equal(queue.refusal(cheap, 1_000_000), null)
})

t.test('a slow run with few events is no evidence against their sender', async (t) => {
  const queue = new Queue()
  const account = queue.account('192.0.2.1')
  for (let n = 0; n < 100; n++) {
    queue.ledger.processed(queue.accept(account, 3))
    queue.shares.learn(250)
  }
  t.equal(account.factor, 1)
  queue.ledger.processed(queue.accept(account, 300))
  queue.shares.learn(10_000)
  t.ok(account.factor > 50, 'no machine takes ten seconds for 300 events')
  for (let n = 0; n < 100; n++) {
    queue.ledger.processed(queue.accept(account, 3))
    queue.shares.learn(5)
  }
  t.ok(account.factor < 1.1, `the factor is ${account.factor} after forgiveness`)
})

t.test('a group commit charges its requests until they are processed or have failed', async (t) => {
  const shares = newShares()
  const log = stalledLog()
  const { commits, add } = setUp(log.append, undefined, shares)
  const account = shares.of('192.0.2.1').small
  add('a', account)
  t.ok(account.heldBytes > 0, 'the charge counts before the data is on disk')
  await nextTurn()
  add('b', account)
  await log.succeed()
  const both = account.heldBytes
  t.ok(both > 0, 'the charge counts as long as the data waits to be processed')
  await log.succeed()
  commits.trim(2)
  t.equal(account.heldBytes, 0)
  await nextTurn()
  const failing = setUp(log.append, undefined, shares)
  failing.add('c', account)
  t.ok(account.heldBytes > 0)
  await nextTurn()
  await log.succeed()
  await log.fail(new Error('no'))
  t.equal(account.heldBytes, 0)
})

t.test('a single sender may use all memory for bodies, several half of the rest', async (t) => {
  const { shares, bodies, ledger } = new Queue()
  const one = shares.of('192.0.2.1')
  t.equal(one.tryReserve(60), true, 'a single sender gets all of it')
  t.equal(one.tryReserve(40), true)
  t.equal(one.tryReserve(1), false)
  t.equal(one.fullReason, 'bodies_full')
  one.release(100)
  ledger.add(shares.of('192.0.2.2').small, 1, 1)
  t.equal(one.tryReserve(60), true, 'one body may be as large as the free room')
  t.equal(one.tryReserve(1), false)
  t.equal(one.fullReason, 'sender_bodies')
  t.equal(shares.of('192.0.2.2').tryReserve(40), true)
  one.release(60)
  t.equal(bodies.bytesInFlight, 40)
  t.equal(shares.refused.bodies, 1)
})

t.test('an IPv6 network is one sender, and idle senders are forgotten', async (t) => {
  const queue = new Queue()
  const { shares } = queue
  t.equal(shares.of('2001:db8::1'), shares.of('2001:db8:0:0:ffff::2'))
  t.not(shares.of('2001:db8:0:1::1'), shares.of('2001:db8::1'))
  const held = shares.of('192.0.2.1')
  queue.accept(held.small, 1)
  for (let n = 0; n < SENDERS_MAX * 2; n++) shares.of(`10.0.${n >> 8}.${n & 255}`)
  t.ok(shares.count <= SENDERS_MAX)
  t.equal(shares.of('192.0.2.1'), held, 'senders with waiting work are not forgotten')
})
