/**
 * Tests queries between machines: whatever arrives or does not arrive, the caller gets an answer or a refusal in time.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { HolderLink } from '../../src/cluster/holder-link.ts'
import {
  decodeData,
  decodeFrame,
  encodeData,
  encodeFrame,
  framesOf,
  HOLDERS,
  LEAVERS,
} from '../../src/cluster/holder-message.ts'
import {
  ANSWER_PART_BYTES_MAX,
  DISTANT_ANSWER_BYTES_MAX,
  QUESTIONS_WAITING_MAX,
} from '../../src/cluster/limits.ts'
import { MemoryMessages } from '../fixtures/cluster/memory-messages.ts'

const PARTITION = 5
const ASKED = { ask: 'outcome', uuid: 'a' } as const
const SOON = { silenceMs: 60, nobodyMs: 0, msMax: 400 }
/** A timeout for callers that are answered, however busy the machine is. */
const PATIENT = { ...SOON, silenceMs: 10_000, msMax: 20_000 }

type Reply = (frame: Buffer) => void

/** A link, and a machine that answers its queries. */
function linked(t: Test, answer: (reply: Reply, time: number) => void) {
  const messages = new MemoryMessages()
  const link = new HolderLink(messages)
  let times = 0
  messages.listen(HOLDERS.of(PARTITION), (_, { answerTo }) => {
    answer((frame) => void messages.send(answerTo, frame), times++)
  })
  t.teardown(() => link.close())
  return { messages, link, times: () => times }
}

function whole(result: unknown): Buffer {
  return encodeData({ result, control: 7 })
}

t.test('an answer of any size arrives unchanged', async (t) => {
  const sizes = [0, 1, 100, 999, 1000, 1001, 5000]
  const { link } = linked(t, (reply, time) => {
    for (const frame of framesOf(whole(Buffer.alloc(sizes[time] ?? 0, 7)), 1000)) reply(frame)
  })
  for (const size of sizes) {
    const { result, control } = await link.ask(PARTITION, { asked: ASKED }, PATIENT)
    t.strictSame([Buffer.from(result as Buffer).equals(Buffer.alloc(size, 7)), control], [true, 7])
    t.equal((result as Buffer).buffer.byteLength, size, 'it is in its own memory')
  }
  const value = { map: new Map([[1, 'a']]), none: undefined, bytes: new Uint8Array([1, 2]) }
  t.strictSame(decodeData(whole(value)), { result: value, control: 7 })
})

t.test('typed arrays in an answer have their own memory', async (t) => {
  // Only arrays whose position is a multiple of their element size could be views of the message.
  for (const pad of ['', 'a', 'aa', 'aaa']) {
    const value = { pad, numbers: Uint32Array.of(1, 2, 3), view: new DataView(new ArrayBuffer(2)) }
    const message = whole(value)
    const { result } = decodeData(message) as { result: typeof value }
    message.fill(0xff)
    t.strictSame([...result.numbers, result.view.getInt16(0)], [1, 2, 3, 0])
    t.type(result.numbers, Uint32Array)
  }
})

t.test('a request to a machine that never answers fails', async (t) => {
  const { link, times } = linked(t, () => {})
  await t.rejects(link.ask(PARTITION, { asked: ASKED }, { ...SOON, attempts: 2 }), {
    status: 503,
    retryAfterSeconds: 5,
    message: /did not answer in time/,
  })
  t.equal(times(), 2, 'another machine was asked')
  t.strictSame([...link.nobodySinceMs.keys()], [PARTITION])
})

t.test('a request to a machine that reports progress forever fails', async (t) => {
  let isOver = false
  const { link, messages } = linked(t, (reply) => {
    const timer = setInterval(() => reply(encodeFrame({ kind: 'working' })), 10)
    t.teardown(() => clearInterval(timer))
  })
  messages.listen(LEAVERS, () => {
    isOver = true
  })
  await t.rejects(link.ask(PARTITION, { asked: ASKED }, SOON), {
    message: /did not answer in time/,
  })
  await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(isOver, true, 'the machine is told that the call was canceled')
})

t.test('a request with an endless answer fails', async (t) => {
  let sent = 0
  const { link } = linked(t, (reply) => {
    const bytes = Buffer.alloc(ANSWER_PART_BYTES_MAX)
    const send = (): void => {
      reply(encodeFrame({ kind: 'part', index: sent++, bytes }))
      if (sent * bytes.length <= 2 * DISTANT_ANSWER_BYTES_MAX) setImmediate(send)
    }
    send()
  })
  const asking = { ...SOON, silenceMs: 5000, msMax: 30_000, attempts: 2 }
  await t.rejects(link.ask(PARTITION, { asked: ASKED }, asking), {
    status: 503,
    message: /too large to be passed/,
  })
  t.ok(
    sent * ANSWER_PART_BYTES_MAX < 2 * DISTANT_ANSWER_BYTES_MAX,
    'the answer was canceled while it arrived',
  )
})

t.test('an invalid answer is refused', async (t) => {
  const bad = [
    Buffer.alloc(0),
    Buffer.of(99),
    Buffer.of(1),
    Buffer.of(3, 1, 2),
    Buffer.from('\x03null'),
    encodeFrame({ kind: 'part', index: 1, bytes: Buffer.of(1) }),
    encodeFrame({ kind: 'end', index: 0, bytes: Buffer.of(1, 2, 3) }),
    encodeFrame({ kind: 'end', index: 0, bytes: Buffer.alloc(0) }),
  ]
  const { link, times } = linked(t, (reply, time) => {
    reply(bad[Math.floor(time / 2)] ?? Buffer.alloc(0))
  })
  for (const frame of bad) {
    const asking = link.ask(PARTITION, { asked: ASKED }, { ...SOON, attempts: 2 })
    await t.rejects(
      asking,
      { status: 503, message: /did not answer in time/ },
      frame.toString('hex'),
    )
  }
  t.equal(times(), 2 * bad.length, 'each machine was asked twice')
  t.throws(() => decodeFrame(Buffer.of(2)), RangeError)
})

t.test('if a machine is behind, another one answers; a refusal is final', async (t) => {
  const refused = { type: 'x', code: 'not_found', detail: 'no', attr: null }
  const { link, times } = linked(t, (reply, time) => {
    if (time === 0) reply(encodeFrame({ kind: 'behind' }))
    if (time === 1) for (const frame of framesOf(whole('late'), 1000)) reply(frame)
    if (time === 2) {
      const body = refused as never
      reply(encodeFrame({ kind: 'refused', body, retryAfterSeconds: 3 }))
    }
  })
  t.match(await link.ask(PARTITION, { asked: ASKED }, { ...PATIENT, attempts: 2 }), {
    result: 'late',
  })
  const asking = link.ask(PARTITION, { asked: ASKED }, { ...PATIENT, attempts: 2 })
  await t.rejects(asking, { code: 'not_found', retryAfterSeconds: 3 })
  t.equal(times(), 3)
})

t.test('a request without a machine, beyond a limit or after the end fails', async (t) => {
  const messages = new MemoryMessages()
  const link = new HolderLink(messages)
  const nobody = { status: 503, retryAfterSeconds: 5, message: /No replica of this project/ }
  await t.rejects(link.ask(PARTITION, { asked: ASKED }, SOON), nobody)
  messages.isConnected = false
  await t.rejects(
    link.ask(PARTITION, { asked: ASKED }, SOON),
    nobody,
    'without a broker the call is refused',
  )
  messages.isConnected = true
  const uuid = 'x'.repeat(2 * 1024 * 1024)
  await t.rejects(link.ask(PARTITION, { asked: { ask: 'outcome', uuid } }, SOON), {
    message: /too large to be passed/,
  })
  messages.listen(HOLDERS.of(PARTITION), () => {})
  const waiting = Array.from({ length: QUESTIONS_WAITING_MAX }, () =>
    link.ask(PARTITION, { asked: ASKED }, { ...SOON, silenceMs: 5000, msMax: 5000 }),
  )
  await t.rejects(link.ask(PARTITION, { asked: ASKED }, SOON), {
    status: 503,
    message: /Too many requests wait for replicas/,
  })
  let leave = (): void => {}
  link.close()
  const ended = await Promise.allSettled(waiting)
  t.ok(ended.every(({ status }) => status === 'rejected'))
  const other = new HolderLink(messages)
  const left = other.ask(
    PARTITION,
    { asked: ASKED },
    {
      ...SOON,
      onLeave: (cancel) => {
        leave = cancel
      },
    },
  )
  leave()
  await t.rejects(left, { message: /The client has left/ })
  other.close()
})
