/**
 * Request bodies in slabs: their number and sizes, and the release of a slab however a body ends.
 *
 * @lane quick
 */
import { connect } from 'node:net'
import t from 'tap'
import { SLAB_BYTES_MAX, SLABS_MAX } from '../../src/base/limits.ts'
import type { Slab } from '../../src/base/slabs.ts'
import { sendAccepted } from '../../src/http/server/respond.ts'
import {
  bodiesAt,
  bytesOf,
  CHUNKED,
  checksumOf,
  chunk,
  MIB,
  post,
} from '../fixtures/http-bodies.ts'
import { pause, startServer, talk, until } from '../fixtures/http-client.ts'

/** A server whose `/e` collects bodies in slabs and keeps them until `answerAll`. Bodies of 3 MB fail. */
function slabRecorder(bodyBytesMax: number) {
  const bodies: { readonly body: Uint8Array; readonly slab: Slab | null }[] = []
  const waiting: (() => void)[] = []
  const setUp = bodiesAt(bodyBytesMax, true, (exchange, body, _isTransient, slab) => {
    if (body.length === 3_000_000) throw new TypeError('a handler failed')
    bodies.push({ body, slab })
    waiting.push(() => {
      slab?.release()
      sendAccepted(exchange)
    })
  })
  const answerAll = (): void => {
    bodies.length = 0
    for (const answer of waiting.splice(0)) answer()
  }
  return { bodies, setUp, answerAll }
}

t.test('large bodies arrive unchanged in slabs, in parallel and one after the other', async (t) => {
  const { bodies, setUp, answerAll } = slabRecorder(8 * MIB)
  const { port, budget, errors } = await startServer(t, setUp, { budgetBytesMax: 400 * MIB })
  for (const round of [0, 1]) {
    const sent = Array.from({ length: SLABS_MAX }, (_, index) =>
      bytesOf(2 * MIB + 1000 * index + round).fill(round * SLABS_MAX + index, 1_500_000),
    )
    const clients = sent.map((body, index) => {
      const half = body.subarray(0, MIB)
      const rest = body.subarray(MIB)
      const parts =
        index % 2 === 0
          ? [post(body.length), body]
          : [CHUNKED, chunk(half), chunk(rest), '0\r\n\r\n']
      return talk(port, parts, { answers: 1 })
    })
    t.ok(await until(() => bodies.length === SLABS_MAX))
    t.ok(bodies.every(({ body, slab }) => slab !== null && body.buffer === slab.memory))
    t.equal(
      new Set(bodies.map(({ body }) => body.buffer)).size,
      SLABS_MAX,
      'each body in its own slab',
    )
    t.same(
      bodies.map(({ body }) => checksumOf(body)).sort(),
      sent.map(checksumOf).sort(),
      'with its own bytes',
    )
    t.equal(budget.slabs.inUse, SLABS_MAX)
    answerAll()
    t.ok((await Promise.all(clients)).every(({ statuses }) => statuses[0] === 200))
    t.equal(budget.slabs.inUse, 0)
  }
  t.equal(budget.bytesInFlight, 0)
  t.same(errors, [])
})

t.test('bodies that the main thread does not parse are in slabs of their size', async (t) => {
  const { bodies, setUp, answerAll } = slabRecorder(8 * MIB)
  const { port, budget, errors } = await startServer(t, setUp, { budgetBytesMax: 400 * MIB })
  const front = 128 * 1024
  for (const [bytes, slabBytes] of [
    [front, null],
    [front + 1, 1.25 * MIB],
    [MIB, 1.25 * MIB],
    [MIB + 1, SLAB_BYTES_MAX],
  ] as const) {
    const sent = bytesOf(bytes)
    for (const isChunked of [false, true]) {
      const cuts = [0, 1000, 70_000, 127_000, bytes - 1, bytes]
      const pieces = cuts.slice(1).map((end, index) => sent.subarray(cuts[index], end))
      const parts = isChunked
        ? [CHUNKED, ...pieces.map((piece) => chunk(piece)), '0\r\n\r\n']
        : [post(bytes), ...pieces]
      const client = talk(port, parts, { answers: 1 })
      const name = `${bytes} bytes${isChunked ? ' in chunks' : ''}`
      t.ok(await until(() => bodies.length === 1), name)
      t.equal(bodies[0]?.slab?.memory.byteLength ?? null, slabBytes, name)
      t.equal(checksumOf(bodies[0]?.body ?? bytesOf(0)), checksumOf(sent), name)
      t.equal(budget.slabs.inUse, slabBytes === null ? 0 : 1, `${name}: one slab at a time`)
      answerAll()
      t.same((await client).statuses, [200])
    }
  }
  t.equal(budget.slabs.inUse, 0)
  t.equal(budget.bytesInFlight, 0)
  t.same(errors, [])
})

t.test(
  'a client that has sent fewer bytes than the main thread would parse holds no slab',
  async (t) => {
    const { setUp } = slabRecorder(8 * MIB)
    const { port, budget } = await startServer(t, setUp)
    const client = connect(port, '127.0.0.1')
    client.write(Buffer.concat([Buffer.from(post(MIB)), bytesOf(60_000)]))
    t.ok(await until(() => budget.bytesInFlight === MIB))
    await pause(50)
    t.equal(budget.slabs.inUse, 0)
    client.write(bytesOf(100_000))
    t.ok(await until(() => budget.slabs.inUse === 1))
    client.resetAndDestroy()
    t.ok(await until(() => budget.slabs.inUse === 0 && budget.bytesInFlight === 0))
  },
)

t.test('without a free slab a large body gets its own memory', async (t) => {
  const { bodies, setUp, answerAll } = slabRecorder(30 * MIB)
  const { port, budget } = await startServer(t, setUp, { budgetBytesMax: 60 * MIB })
  const body = bytesOf(2 * MIB)
  const clients = [1, 2, 3].map(() => talk(port, [post(2 * MIB), body], { answers: 1 }))
  t.ok(await until(() => bodies.length === 3))
  t.equal(
    bodies.filter(({ slab }) => slab === null).length,
    1,
    'the budget has room for two bodies',
  )
  t.ok(bodies.every(({ body: received }) => checksumOf(received) === checksumOf(body)))
  answerAll()
  await Promise.all(clients)
  const large = bytesOf(25 * MIB)
  const client = talk(port, [post(large.length), large], { answers: 1 })
  t.ok(await until(() => bodies.length === 1))
  t.equal(bodies[0]?.slab, null, 'a body that is larger than a slab gets none either')
  t.equal(bodies[0]?.body.length, large.length)
  answerAll()
  await client
  t.equal(budget.slabs.inUse, 0)
  t.equal(budget.bytesInFlight, 0)
})

t.test('a body releases its slab however it ends', async (t) => {
  const { bodies, setUp, answerAll } = slabRecorder(4 * MIB)
  const pace = { graceMs: 600, bytesPerSecondMin: 10_000_000 }
  const started = await startServer(t, setUp, { budgetBytesMax: 50 * MIB, pace })
  const { port, server, budget } = started
  const idle = async (): Promise<boolean> =>
    (await until(() => server.requestsInProgress === 0)) &&
    budget.slabs.inUse === 0 &&
    budget.bytesInFlight === 0
  const half = bytesOf(2 * MIB)
  for (const head of [post(4 * MIB), CHUNKED]) {
    const part = head === CHUNKED ? chunk(half) : half
    const leaver = connect(port, '127.0.0.1')
    leaver.write(Buffer.concat([Buffer.from(head), part]))
    t.ok(await until(() => budget.slabs.inUse === 1))
    leaver.resetAndDestroy()
    t.ok(await idle(), 'a client that disconnects')
    const slow = await talk(port, [head, part])
    t.same([slow.statuses, slow.isClosed], [[], true])
    t.ok(await idle(), 'a client that is too slow')
  }
  const grown = await talk(port, [CHUNKED, chunk(half), chunk(half), chunk(half)], { answers: 1 })
  t.same(grown.statuses, [413])
  t.ok(await idle(), 'a body that grows too large')
  const failing = await talk(port, [post(3_000_000), bytesOf(3_000_000)], { answers: 1 })
  t.same(failing.statuses, [500])
  t.ok(await idle(), 'a handler that fails')
  const junk = Buffer.concat([Buffer.from(CHUNKED), chunk(half), Buffer.from('0\r\nX: y\r\n\r\n')])
  t.ok((await talk(port, [junk])).isClosed)
  t.ok(await idle(), 'chunks without a proper end')
  t.equal(bodies.length, 0, 'no part of them is delivered')
  const client = connect(port, '127.0.0.1')
  client.write(Buffer.concat([Buffer.from(post(2 * MIB)), half]))
  t.ok(await until(() => bodies.length === 1))
  client.resetAndDestroy()
  await pause(20)
  t.equal(budget.slabs.inUse, 1, 'the handler keeps the slab even if the client disconnects')
  answerAll()
  t.ok(await idle())
})

t.test('a body in a slab takes from the budget as it grows', async (t) => {
  const { setUp } = slabRecorder(8 * MIB)
  const { port, budget } = await startServer(t, setUp, { budgetBytesMax: 30 * MIB })
  t.ok(budget.tryReserve(28 * MIB))
  const parts = [CHUNKED, ...Array.from({ length: 6 }, () => chunk(bytesOf(MIB / 2)))]
  const received = await talk(port, parts, { answers: 1 })
  t.same(received.statuses, [503])
  t.equal(budget.slabs.inUse, 0)
  t.equal(budget.bytesInFlight, 28 * MIB)
})
