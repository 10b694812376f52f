/**
 * Request bodies: limits, memory, and slow or disconnecting clients.
 *
 * @lane quick
 */
import { connect } from 'node:net'
import t from 'tap'
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
import { jsonOf, pause, startServer, talk, until } from '../fixtures/http-client.ts'

interface Seen {
  readonly bytes: number
  readonly isTransient: boolean
  readonly bufferBytes: number
  readonly checksum: string
}

/** A server whose `/e` records its bodies. `hold` delays answers until the returned function is called. */
function recorder(bodyBytesMax: number, isHeld = false) {
  const seen: Seen[] = []
  const waiting: (() => void)[] = []
  const setUp = bodiesAt(bodyBytesMax, false, (exchange, body, isTransient) => {
    if (body.length === 3) throw new TypeError('a handler failed')
    const checksum = checksumOf(body)
    const bufferBytes = body.buffer.byteLength
    seen.push({ bytes: body.length, isTransient, bufferBytes, checksum })
    if (isHeld) waiting.push(() => sendAccepted(exchange))
    else sendAccepted(exchange)
  })
  const answerAll = (): void => {
    for (const answer of waiting.splice(0)) answer()
  }
  return { seen, setUp, answerAll }
}

t.test('bodies arrive unchanged, however they are split', async (t) => {
  const { seen, setUp } = recorder(4 * MIB)
  const { port, budget, errors } = await startServer(t, setUp)
  const lengths = [0, 1, 1000, 65_536, 65_537, 300_000, 524_289, MIB, 3 * MIB, 4 * MIB]
  for (const length of lengths) {
    const body = bytesOf(length)
    const whole = await talk(port, [Buffer.concat([Buffer.from(post(length)), body])], {
      answers: 1,
    })
    const half = body.subarray(0, length >> 1)
    const rest = body.subarray(length >> 1)
    const inTwo = await talk(port, [post(length), half, rest], { answers: 1 })
    const parts = [CHUNKED, chunk(half), chunk(rest), '0\r\n\r\n'].filter(
      (part) => part.length !== 5 || part === '0\r\n\r\n',
    )
    const inChunks = length < 2 ? whole : await talk(port, parts, { answers: 1 })
    t.same([...whole.statuses, ...inTwo.statuses, ...inChunks.statuses], [200, 200, 200])
    for (const body of seen) t.equal(body.bytes, length)
    const expected = checksumOf(body)
    t.ok(
      seen.every(({ checksum }) => checksum === expected),
      `${length} bytes arrive unchanged`,
    )
    seen.length = 0
  }
  t.equal(budget.bytesInFlight, 0)
  t.same(errors, [])
})

t.test(
  'a small body in one packet is not copied, and a large one owns exactly its memory',
  async (t) => {
    const { seen, setUp } = recorder(4 * MIB)
    const { port } = await startServer(t, setUp)
    await talk(port, [`${post(5)}abcde`], { answers: 1 })
    await talk(port, [post(700_000), bytesOf(700_000)], { answers: 1 })
    t.match(seen, [{ isTransient: true }, { isTransient: false, bufferBytes: 700_000 }])
  },
)

t.test('a declared length above the limit is refused before the body is read', async (t) => {
  const { seen, setUp } = recorder(1000)
  const { port, budget } = await startServer(t, setUp)
  t.same((await talk(port, [`${post(1000)}${'a'.repeat(1000)}`], { answers: 1 })).statuses, [200])
  const over = await talk(port, [post(1001)], { answers: 1 })
  t.same(over.statuses, [413])
  t.match(jsonOf(over), { type: 'client_error', code: 'request_too_large', attr: null })
  const terabyte = await talk(port, [post(1e12)])
  t.same([terabyte.statuses, terabyte.isClosed], [[413], true])
  t.equal(seen.length, 1)
  t.equal(budget.bytesInFlight, 0)
})

t.test('a client that first sends all of a refused body still reads the answer', async (t) => {
  const { setUp } = recorder(1000)
  const { port } = await startServer(t, setUp)
  const received = await talk(port, [post(8 * MIB), bytesOf(8 * MIB)], { answers: 1 })
  t.same(received.statuses, [413])
  t.match(received.text, /connection: close/i)
})

t.test(
  'a chunked body is refused at the first byte above the limit, and the connection is closed',
  async (t) => {
    const { seen, setUp } = recorder(1000)
    const { port, budget } = await startServer(t, setUp)
    const fits = await talk(port, [CHUNKED, chunk(bytesOf(1000)), '0\r\n\r\n'], { answers: 1 })
    t.same(fits.statuses, [200])
    const over = await talk(port, [CHUNKED, chunk(bytesOf(900)), chunk(bytesOf(101))])
    t.same([over.statuses, over.isClosed], [[413], true])
    t.equal(seen.length, 1)
    t.equal(budget.bytesInFlight, 0)
  },
)

t.test('beyond the memory budget clients get 503, and the others are served', async (t) => {
  const { seen, setUp, answerAll } = recorder(MIB, true)
  const { port, budget, metrics } = await startServer(t, setUp, { budgetBytesMax: 3 * MIB })
  const clients = Array.from({ length: 8 }, () =>
    talk(port, [post(MIB - 1), bytesOf(MIB - 1)], { answers: 1 }),
  )
  t.ok(await until(() => seen.length === 3), 'three bodies fit')
  t.equal(budget.bytesInFlight, 3 * (MIB - 1))
  t.equal(metrics.httpBodyBytesInFlight.value, budget.bytesInFlight)
  await pause(50)
  answerAll()
  const statuses = (await Promise.all(clients)).flatMap((received) => received.statuses)
  t.same(statuses.toSorted(), [200, 200, 200, 503, 503, 503, 503, 503])
  t.equal(budget.bytesInFlight, 0, 'all memory is released')
  const refused = (await Promise.all(clients)).find(({ statuses }) => statuses[0] === 503)
  t.match(refused?.text, /retry-after: \d+/i)
})

t.test('a chunked body takes from the budget as it grows', async (t) => {
  const { seen, setUp } = recorder(8 * MIB)
  const { port, budget } = await startServer(t, setUp, { budgetBytesMax: MIB })
  const parts = [CHUNKED, ...Array.from({ length: 6 }, () => chunk(bytesOf(MIB / 4)))]
  const received = await talk(port, parts, { answers: 1 })
  t.same(received.statuses, [503])
  t.equal(budget.bytesInFlight, 0)
  t.equal(seen.length, 0)
})

t.test('a client that declares a large body and sends nothing uses no memory', async (t) => {
  const { setUp } = recorder(20 * MIB)
  const { port, server, budget } = await startServer(t, setUp, { budgetBytesMax: 400 * MIB })
  const before = process.memoryUsage()
  const sockets = Array.from({ length: 20 }, () => {
    const socket = connect(port, '127.0.0.1')
    socket.write(post(19 * MIB))
    return socket
  })
  t.ok(await until(() => server.requestsInProgress === 20))
  t.equal(budget.bytesInFlight, 20 * 19 * MIB, 'memory is reserved')
  t.ok(process.memoryUsage().external - before.external < 4 * MIB, 'memory is not allocated')
  for (const socket of sockets) socket.destroy()
  t.ok(await until(() => server.requestsInProgress === 0))
  t.equal(budget.bytesInFlight, 0)
})

t.test('an abort at any point releases all memory and delivers nothing', async (t) => {
  const { seen, setUp, answerAll } = recorder(4 * MIB, true)
  const { port, server, budget, metrics, errors } = await startServer(t, setUp)
  for (const sent of [0, 10, 600_000]) {
    const socket = connect(port, '127.0.0.1')
    socket.write(Buffer.concat([Buffer.from(post(MIB)), bytesOf(sent)]))
    t.ok(await until(() => server.requestsInProgress === 1))
    await pause(5)
    socket.resetAndDestroy()
    t.ok(await until(() => server.requestsInProgress === 0))
    t.equal(budget.bytesInFlight, 0)
  }
  t.equal(seen.length, 0)
  // The body is complete and in use. Its bytes stay reserved until the handler is done.
  const socket = connect(port, '127.0.0.1')
  socket.write(Buffer.concat([Buffer.from(post(MIB)), bytesOf(MIB)]))
  t.ok(await until(() => seen.length === 1))
  socket.resetAndDestroy()
  await pause(20)
  t.equal(budget.bytesInFlight, MIB)
  answerAll()
  t.equal(budget.bytesInFlight, 0)
  t.equal(server.requestsInProgress, 0)
  t.equal(metrics.httpRequestsAborted.value, 4)
  t.same(errors, [])
})

t.test('an upload that is too slow is aborted, and a steady one is not', async (t) => {
  const { seen, setUp } = recorder(MIB)
  const pace = { graceMs: 60, bytesPerSecondMin: 1_000_000 }
  let nowMs = 0
  const paceClock = { now: () => 0, monotonic: () => nowMs }
  const { port, server, budget } = await startServer(t, setUp, { pace, paceClock })
  const talking = talk(port, [post(100_000), 'a'])
  t.ok(await until(() => server.requestsInProgress === 1))
  nowMs += pace.graceMs
  await pause(3 * pace.graceMs)
  t.equal(server.requestsInProgress, 1, 'the grace period is not over')
  nowMs += 1
  const slow = await talking
  t.ok(slow.isClosed)
  t.same(slow.statuses, [])
  const steadyParts = Array.from({ length: 5 }, () => bytesOf(200_000))
  const steady = connect(port, '127.0.0.1')
  steady.write(post(1_000_000))
  for (const part of steadyParts) {
    steady.write(part)
    await pause(30)
    nowMs += 30
  }
  t.ok(
    await until(() => seen.length === 1),
    '1 MB over 150 ms with a grace of 60 ms is fast enough',
  )
  steady.destroy()
  t.equal(server.requestsInProgress, 0)
  t.equal(budget.bytesInFlight, 0)
})

t.test('a chunked body that never begins ends with its client or after a timeout', async (t) => {
  const { seen, setUp } = recorder(MIB)
  const pace = { graceMs: 200, bytesPerSecondMin: 1_000_000 }
  const { port, server, budget, metrics } = await startServer(t, setUp, { pace })
  const leaver = connect(port, '127.0.0.1')
  leaver.write(CHUNKED)
  t.ok(await until(() => server.requestsInProgress === 1))
  leaver.resetAndDestroy()
  t.ok(
    await until(() => server.requestsInProgress === 0),
    'nothing waits for a disconnected client',
  )
  t.equal(metrics.httpRequestsInProgress.value, 0)
  t.equal(metrics.httpRequestsAborted.value, 1)
  const silent = await talk(port, CHUNKED)
  t.same([silent.statuses, silent.isClosed], [[], true], 'a silent client is disconnected')
  t.equal(server.requestsInProgress, 0)
  const empty = await talk(port, [CHUNKED, '0\r\n\r\n'])
  t.same([empty.statuses, seen.map(({ bytes }) => bytes)], [[200], [0]], 'an empty body is valid')
  t.equal(budget.bytesInFlight, 0)
})

t.test('a handler that fails on a body is answered with 500 and logged', async (t) => {
  const { setUp } = recorder(MIB)
  const { port, errors, server } = await startServer(t, setUp)
  const inOne = await talk(port, [`${post(3)}abc`], { answers: 1 })
  const inTwo = await talk(port, [`${post(3)}a`, 'bc'], { answers: 1 })
  t.same([...inOne.statuses, ...inTwo.statuses], [500, 500])
  t.equal(errors.length, 2)
  t.equal(server.requestsInProgress, 0)
})

t.test('bodies of other routes are never in a slab', async (t) => {
  const { seen, setUp, answerAll } = recorder(4 * MIB, true)
  const { port, budget } = await startServer(t, setUp)
  const client = talk(port, [post(3 * MIB), bytesOf(3 * MIB)], { answers: 1 })
  t.ok(await until(() => seen.length === 1))
  t.equal(budget.slabs.inUse, 0)
  answerAll()
  t.same((await client).statuses, [200])
})
