/** Bodies: limits, memory, slow and vanishing clients. */
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import t from 'tap'
import { SLAB_BYTES_MAX, SLABS_MAX } from '../../src/base/limits.ts'
import type { Slab } from '../../src/base/slabs.ts'
import { type BodyBudget, collectBody } from '../../src/http/server/body.ts'
import { sendAccepted } from '../../src/http/server/respond.ts'
import type { HttpServer } from '../../src/http/server/server.ts'
import { jsonOf, pause, startServer, talk, until } from '../fixtures/http-client.ts'

const MIB = 1024 * 1024

interface Seen {
  readonly bytes: number
  readonly isTransient: boolean
  readonly bufferBytes: number
  readonly checksum: string
}

/** A server whose `/e` notes what it gets; `hold` keeps answers back until the returned call. */
function recorder(bodyBytesMax: number, isHeld = false) {
  const seen: Seen[] = []
  const waiting: (() => void)[] = []
  const setUp = (server: HttpServer, budget: BodyBudget): void => {
    server.raw('/e', (exchange, head) => {
      collectBody(exchange, head.contentLength, {
        bytesMax: bodyBytesMax,
        budget,
        onBody: (body, isTransient) => {
          if (body.length === 3) throw new TypeError('a handler failed')
          const checksum = checksumOf(body)
          const bufferBytes = body.buffer.byteLength
          seen.push({ bytes: body.length, isTransient, bufferBytes, checksum })
          if (isHeld) waiting.push(() => sendAccepted(exchange))
          else sendAccepted(exchange)
        },
      })
    })
  }
  const answerAll = (): void => {
    for (const answer of waiting.splice(0)) answer()
  }
  return { seen, setUp, answerAll }
}

function checksumOf(bytes: Uint8Array): string {
  return createHash('sha1').update(bytes).digest('hex')
}

function bytesOf(length: number): Buffer {
  return Buffer.from(Uint8Array.from({ length }, (_, index) => (index * 7 + (index >> 9)) & 255))
}

function post(length: number): string {
  return `POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`
}

const CHUNKED = 'POST /e HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'

function chunk(bytes: Buffer): Buffer {
  return Buffer.concat([
    Buffer.from(`${bytes.length.toString(16)}\r\n`),
    bytes,
    Buffer.from('\r\n'),
  ])
}

t.test('bodies arrive unchanged, however they come', async (t) => {
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
      `${length} bytes are the same bytes`,
    )
    seen.length = 0
  }
  t.equal(budget.bytesInFlight, 0)
  t.same(errors, [])
})

t.test(
  'a small body in one packet is not copied; a large one owns exactly its memory',
  async (t) => {
    const { seen, setUp } = recorder(4 * MIB)
    const { port } = await startServer(t, setUp)
    await talk(port, [`${post(5)}abcde`], { answers: 1 })
    await talk(port, [post(700_000), bytesOf(700_000)], { answers: 1 })
    t.match(seen, [{ isTransient: true }, { isTransient: false, bufferBytes: 700_000 }])
  },
)

t.test('a declared length over the limit is refused before anything is read', async (t) => {
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

t.test('a chunked body is refused at the first byte over the limit and closed', async (t) => {
  const { seen, setUp } = recorder(1000)
  const { port, budget } = await startServer(t, setUp)
  const fits = await talk(port, [CHUNKED, chunk(bytesOf(1000)), '0\r\n\r\n'], { answers: 1 })
  t.same(fits.statuses, [200])
  const over = await talk(port, [CHUNKED, chunk(bytesOf(900)), chunk(bytesOf(101))])
  t.same([over.statuses, over.isClosed], [[413], true])
  t.equal(seen.length, 1)
  t.equal(budget.bytesInFlight, 0)
})

t.test('beyond the budget clients get 503 and the others are served', async (t) => {
  const { seen, setUp, answerAll } = recorder(MIB, true)
  const { port, budget, metrics } = await startServer(t, setUp, { budgetBytesMax: 3 * MIB })
  const clients = Array.from({ length: 8 }, () =>
    talk(port, [post(MIB - 1), bytesOf(MIB - 1)], { answers: 1, waitMs: 5000 }),
  )
  t.ok(await until(() => seen.length === 3), 'three fit')
  t.equal(budget.bytesInFlight, 3 * (MIB - 1))
  t.equal(metrics.httpBodyBytesInFlight.value, budget.bytesInFlight)
  await pause(50)
  answerAll()
  const statuses = (await Promise.all(clients)).flatMap((received) => received.statuses)
  t.same(statuses.toSorted(), [200, 200, 200, 503, 503, 503, 503, 503])
  t.equal(budget.bytesInFlight, 0, 'everything is given back')
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

t.test('a client that declares much and sends nothing costs no memory', async (t) => {
  const { setUp } = recorder(20 * MIB)
  const { port, server, budget } = await startServer(t, setUp, { budgetBytesMax: 400 * MIB })
  const before = process.memoryUsage()
  const sockets = Array.from({ length: 20 }, () => {
    const socket = connect(port, '127.0.0.1')
    socket.write(post(19 * MIB))
    return socket
  })
  t.ok(await until(() => server.requestsInProgress === 20))
  t.equal(budget.bytesInFlight, 20 * 19 * MIB, 'reserved')
  t.ok(process.memoryUsage().external - before.external < 4 * MIB, 'not allocated')
  for (const socket of sockets) socket.destroy()
  t.ok(await until(() => server.requestsInProgress === 0))
  t.equal(budget.bytesInFlight, 0)
})

t.test('an abort at any point gives everything back and delivers nothing', async (t) => {
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
  // The body is complete and being worked on: its bytes stay reserved until the work is done.
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

t.test('an upload that is too slow is cut off, a steady one is not', async (t) => {
  const { seen, setUp } = recorder(MIB)
  const pace = { graceMs: 60, bytesPerSecondMin: 1_000_000 }
  const { port, server, budget } = await startServer(t, setUp, { pace })
  const started = performance.now()
  const slow = await talk(port, [post(100_000), 'a'])
  t.ok(slow.isClosed)
  t.same(slow.statuses, [])
  t.ok(performance.now() - started < 500)
  const steadyParts = Array.from({ length: 5 }, () => bytesOf(200_000))
  const steady = connect(port, '127.0.0.1')
  steady.write(post(1_000_000))
  for (const part of steadyParts) {
    steady.write(part)
    await pause(30)
  }
  t.ok(
    await until(() => seen.length === 1),
    '1 MB over 150 ms with a grace of 60 ms is fast enough',
  )
  steady.destroy()
  t.equal(server.requestsInProgress, 0)
  t.equal(budget.bytesInFlight, 0)
})

t.test(
  'a body in chunks that never begins ends when the client leaves, or is cut off',
  async (t) => {
    const { seen, setUp } = recorder(MIB)
    const pace = { graceMs: 200, bytesPerSecondMin: 1_000_000 }
    const { port, server, budget, metrics } = await startServer(t, setUp, { pace })
    const leaver = connect(port, '127.0.0.1')
    leaver.write(CHUNKED)
    t.ok(await until(() => server.requestsInProgress === 1))
    leaver.resetAndDestroy()
    t.ok(await until(() => server.requestsInProgress === 0), 'nothing waits for who has left')
    t.equal(metrics.httpRequestsInProgress.value, 0)
    t.equal(metrics.httpRequestsAborted.value, 1)
    const silent = await talk(port, CHUNKED, { waitMs: 2000 })
    t.same([silent.statuses, silent.isClosed], [[], true], 'who says nothing is cut off')
    t.equal(server.requestsInProgress, 0)
    const empty = await talk(port, [CHUNKED, '0\r\n\r\n'])
    t.same([empty.statuses, seen.map(({ bytes }) => bytes)], [[200], [0]], 'an empty body is one')
    t.equal(budget.bytesInFlight, 0)
  },
)

t.test('a handler that fails on a body answers 500 and is logged', async (t) => {
  const { setUp } = recorder(MIB)
  const { port, errors, server } = await startServer(t, setUp)
  const inOne = await talk(port, [`${post(3)}abc`], { answers: 1 })
  const inTwo = await talk(port, [`${post(3)}a`, 'bc'], { answers: 1 })
  t.same([...inOne.statuses, ...inTwo.statuses], [500, 500])
  t.equal(errors.length, 2)
  t.equal(server.requestsInProgress, 0)
})

/** A server whose `/e` collects in slabs and keeps what it gets until `answerAll`; bodies of 3 MB fail. */
function slabRecorder(bodyBytesMax: number) {
  const bodies: { readonly body: Uint8Array; readonly slab: Slab | null }[] = []
  const waiting: (() => void)[] = []
  const setUp = (server: HttpServer, budget: BodyBudget): void => {
    server.raw('/e', (exchange, head) => {
      collectBody(exchange, head.contentLength, {
        bytesMax: bodyBytesMax,
        budget,
        usesSlabs: true,
        onBody: (body, _isTransient, slab) => {
          if (body.length === 3_000_000) throw new TypeError('a handler failed')
          bodies.push({ body, slab })
          waiting.push(() => {
            slab?.give()
            sendAccepted(exchange)
          })
        },
      })
    })
  }
  const answerAll = (): void => {
    bodies.length = 0
    for (const answer of waiting.splice(0)) answer()
  }
  return { bodies, setUp, answerAll }
}

t.test(
  'large bodies arrive in slabs, unchanged, side by side and one after the other',
  async (t) => {
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
        return talk(port, parts, { answers: 1, waitMs: 10_000 })
      })
      t.ok(await until(() => bodies.length === SLABS_MAX))
      t.ok(bodies.every(({ body, slab }) => slab !== null && body.buffer === slab.memory))
      t.equal(new Set(bodies.map(({ body }) => body.buffer)).size, SLABS_MAX, 'each in its own')
      t.same(
        bodies.map(({ body }) => checksumOf(body)).sort(),
        sent.map(checksumOf).sort(),
        'and with its own bytes',
      )
      t.equal(budget.slabs.inUse, SLABS_MAX)
      answerAll()
      t.ok((await Promise.all(clients)).every(({ statuses }) => statuses[0] === 200))
      t.equal(budget.slabs.inUse, 0)
    }
    t.equal(budget.bytesInFlight, 0)
    t.same(errors, [])
  },
)

t.test('bodies that the front does not read lie in slabs of their size', async (t) => {
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
      const client = talk(port, parts, { answers: 1, waitMs: 10_000 })
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

t.test('who sent less than a front would read holds no slab', async (t) => {
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
})

t.test('without a free slab a large body gets memory of its own', async (t) => {
  const { bodies, setUp, answerAll } = slabRecorder(30 * MIB)
  const { port, budget } = await startServer(t, setUp, { budgetBytesMax: 60 * MIB })
  const body = bytesOf(2 * MIB)
  const clients = [1, 2, 3].map(() =>
    talk(port, [post(2 * MIB), body], { answers: 1, waitMs: 5000 }),
  )
  t.ok(await until(() => bodies.length === 3))
  t.equal(bodies.filter(({ slab }) => slab === null).length, 1, 'the budget has room for two')
  t.ok(bodies.every(({ body: received }) => checksumOf(received) === checksumOf(body)))
  answerAll()
  await Promise.all(clients)
  const large = bytesOf(25 * MIB)
  const client = talk(port, [post(large.length), large], { answers: 1, waitMs: 10_000 })
  t.ok(await until(() => bodies.length === 1))
  t.equal(bodies[0]?.slab, null, 'nor does one that is larger than a slab get one')
  t.equal(bodies[0]?.body.length, large.length)
  answerAll()
  await client
  t.equal(budget.slabs.inUse, 0)
  t.equal(budget.bytesInFlight, 0)
})

t.test('whatever ends a body gives its slab back', async (t) => {
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
    t.ok(await idle(), 'a client that leaves')
    const slow = await talk(port, [head, part], { waitMs: 5000 })
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
  t.equal(bodies.length, 0, 'nothing of them is delivered')
  const client = connect(port, '127.0.0.1')
  client.write(Buffer.concat([Buffer.from(post(2 * MIB)), half]))
  t.ok(await until(() => bodies.length === 1))
  client.resetAndDestroy()
  await pause(20)
  t.equal(budget.slabs.inUse, 1, 'who works with it has it, also when the client is gone')
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

t.test('bodies of other routes are never in a slab', async (t) => {
  const { seen, setUp, answerAll } = recorder(4 * MIB, true)
  const { port, budget } = await startServer(t, setUp)
  const client = talk(port, [post(3 * MIB), bytesOf(3 * MIB)], { answers: 1 })
  t.ok(await until(() => seen.length === 1))
  t.equal(budget.slabs.inUse, 0)
  answerAll()
  t.same((await client).statuses, [200])
})
