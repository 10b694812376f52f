/**
 * Tests the ClickHouse client against a server that refuses, stops answering, or disconnects.
 *
 * @lane quick
 */
import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { ClickHouse, WarehouseError } from '../../src/clickhouse/clickhouse.ts'

const SILENCE_MS = 300

async function open(t: Test, answer: RequestListener, stopping: AbortSignal | null = null) {
  const server = createServer({ keepAliveTimeout: 50 }, answer)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const address = { origin: `http://127.0.0.1:${port}`, database: 'events', authorization: null }
  return new ClickHouse(address, stopping)
}

/** Returns the error of the refusal. */
async function failure(asked: Promise<unknown>): Promise<WarehouseError> {
  try {
    await asked
  } catch (cause) {
    if (cause instanceof WarehouseError) return cause
    throw cause
  }
  throw new Error('it was answered')
}

t.test('rows arrive unchanged, over one connection after another', async (t) => {
  const bodies: Buffer[] = []
  const clickhouse = await open(t, (request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      bodies.push(Buffer.concat(parts))
      response.end(decodeURIComponent(request.url ?? ''))
    })
  })
  const rows = Buffer.alloc(3_000_000, 7)
  await clickhouse.insert('INSERT INTO a', rows)
  // The server has closed the idle connection.
  await new Promise((resolve) => setTimeout(resolve, 200))
  const answer = await clickhouse.ask('SELECT 1')
  t.match(answer.toString(), 'database=events')
  t.ok(bodies[0]?.equals(rows))
  t.equal(bodies[1]?.toString(), 'SELECT 1')
})

t.test('a refusal is reported in short form, and not retried', async (t) => {
  let asked = 0
  const clickhouse = await open(t, (_request, response) => {
    asked++
    response.writeHead(500).end(`no   such table ${'x'.repeat(1000)}`)
  })
  const error = await failure(clickhouse.ask('SELECT 1'))
  t.ok(error.isRefusal)
  t.match(error.message, /refused the request: no such table x{200}/)
  t.ok(error.message.length < 400)
  t.equal(asked, 1)
})

t.test('a connection that breaks is retried once', async (t) => {
  let asked = 0
  const clickhouse = await open(t, (request, response) => {
    asked++
    if (asked === 1) request.socket.destroy()
    else if (asked === 2) response.end('there')
    else {
      response.writeHead(200, { 'content-length': 1000 }).write('a part')
      setTimeout(() => response.destroy(), 20)
    }
  })
  t.equal((await clickhouse.ask('SELECT 1')).toString(), 'there')
  const error = await failure(clickhouse.ask('SELECT 2'))
  t.equal(asked, 4, 'an answer that breaks off is retried, too')
  t.notOk(error.isRefusal)
  t.match(error.message, /does not answer: ECONNRESET/)
})

t.test('a server without an answer causes a timeout', async (t) => {
  let asked = 0
  const clickhouse = await open(t, (_request, response) => {
    asked++
    if (asked === 2) response.writeHead(200, { 'content-length': 1000 }).write('a part')
  })
  for (const when of ['before an answer', 'in an answer']) {
    const error = await failure(clickhouse.ask('SELECT 1', { msMax: SILENCE_MS }))
    t.match(error.message, `does not answer within ${SILENCE_MS} ms`, when)
  }
  t.equal(asked, 2, 'the call is not repeated')
})

t.test('a stop cancels a query in progress', async (t) => {
  const stopping = new AbortController()
  let answering: ServerResponse | null = null
  const clickhouse = await open(
    t,
    (_request, response) => {
      answering = response
      response.writeHead(200, { 'content-length': 1000 }).write('a part')
      setTimeout(() => stopping.abort(), 20)
    },
    stopping.signal,
  )
  const error = await failure(clickhouse.ask('SELECT 1'))
  t.notOk(error.isRefusal)
  t.match(error.message, /does not answer: ABORT_ERR/)
  t.match(answering, { writableEnded: false }, 'the answer was not complete')
})

t.test('an unreachable server is reported', async (t) => {
  const address = {
    origin: 'http://127.0.0.1:1',
    database: 'events',
    authorization: 'Basic c2VjcmV0',
  }
  const error = await failure(new ClickHouse(address).ask('SELECT 1'))
  t.match(error.message, 'http://127.0.0.1:1/events does not answer: ECONNREFUSED')
  t.notMatch(error.message, 'c2VjcmV0')
})
