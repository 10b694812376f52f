/**
 * Tests clients that are slow on purpose, or many: they are disconnected in time, and other clients are not affected.
 *
 * @lane all
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { ServiceMetrics } from '../../src/engine/front/service-metrics.ts'
import { BodyBudget, collectBody } from '../../src/http/server/body.ts'
import { RateLimits } from '../../src/http/server/rate-limits.ts'
import { send, sendJson } from '../../src/http/server/respond.ts'
import { HttpServer, type HttpServerOptions } from '../../src/http/server/server.ts'
import { TrustedProxies } from '../../src/http/server/url.ts'
import { send as ask, closeConnections } from '../fixtures/exact-client.ts'
import { HTTP_SERVER } from '../fixtures/http-server.ts'

const CLIENTS_OF_EACH_KIND = 60
const MIB = 1024 * 1024
/** Longer than the timeouts of both HTTP libraries for incomplete requests, including their coarse timers. */
const WAIT_MS_MAX = 120_000
const LARGE = Buffer.alloc(8 * MIB, 'x')
const NO_LIMITS = {
  addressConnectionsPerSecondMax: 0,
  addressRequestsPerSecondMax: 0,
  projectRequestsPerSecondMax: 0,
  projectEventsPerSecondMax: 0,
}

interface Running {
  readonly url: string
  readonly port: number
  readonly server: HttpServer
  readonly metrics: ServiceMetrics
  readonly budget: BodyBudget
}

type Extra = (metrics: ServiceMetrics) => Partial<HttpServerOptions>

/** A server that returns the length of a body at `/body` and has a large answer at `/large`. */
async function start(t: Test, extra: Extra = () => ({})): Promise<Running> {
  const clock = SYSTEM_CLOCK
  const metrics = new ServiceMetrics({ version: '0', clock })
  const budget = new BodyBudget({ bytesMax: 64 * MIB, clock })
  const log = { error: (fields: object) => t.fail(JSON.stringify(fields)) }
  const server = new HttpServer({
    log,
    clock,
    metrics,
    budget,
    httpServer: HTTP_SERVER,
    ...extra(metrics),
  })
  server.raw('/body', (exchange, head) => {
    collectBody(exchange, head.contentLength, {
      bytesMax: MIB,
      budget,
      onBody: (body) => sendJson(exchange, 200, { bytes: body.length }),
    })
  })
  server.raw('/large', (exchange) => {
    send(exchange, { status: 200, contentType: 'text/plain', body: LARGE })
  })
  const port = await server.listen('127.0.0.1', 0)
  t.teardown(async () => {
    closeConnections()
    await server.close(1000)
  })
  return { url: `http://127.0.0.1:${port}`, port, server, metrics, budget }
}

const HEAD = 'Host: a\r\n'
const POST = `POST /body HTTP/1.1\r\n${HEAD}`

/** The bytes that a client sends immediately, and those it continues to send. */
const KINDS: Readonly<Record<string, readonly [first: string, drip: string]>> = {
  'says nothing': ['', ''],
  'sends a header now and then': [POST, 'X-A: b\r\n'],
  'sends a header byte by byte': [`${POST}X-A: `, 'b'],
  'stops within the headers': [`${POST}X-A: `, ''],
  'sends a body byte by byte': [`${POST}Content-Length: 1000000\r\n\r\n`, ' '],
  'sends a small body byte by byte': [`${POST}Content-Length: 1000\r\n\r\n`, ' '],
  'sends chunks byte by byte': [`${POST}Transfer-Encoding: chunked\r\n\r\n`, '1\r\n \r\n'],
  'promises a body': [`${POST}Content-Length: 1000\r\n\r\n`, ''],
  'has its answer and stays': [`${POST}Content-Length: 0\r\n\r\n`, ''],
  'never reads': [`GET /large HTTP/1.1\r\n${HEAD}\r\n`, ''],
}

class SlowClient {
  readonly socket: Socket
  isCut = false
  #timer: NodeJS.Timeout | undefined

  constructor(port: number, kind: string) {
    const [first, drip] = KINDS[kind] ?? ['', '']
    this.socket = connect(port, '127.0.0.1')
    this.socket.on('connect', () => {
      if (first !== '') this.socket.write(first)
      if (drip === '') return
      this.#timer = setInterval(() => this.socket.writable && this.socket.write(drip), 700)
    })
    for (const name of ['end', 'close']) this.socket.on(name, () => this.#cut())
    this.socket.on('error', () => undefined)
    if (kind !== 'never reads') this.socket.resume()
  }

  /** A client that does not read does not notice that it was disconnected, so the test asks the server. */
  close(): void {
    this.#cut()
    this.socket.destroy()
  }

  #cut(): void {
    clearInterval(this.#timer)
    this.isCut = true
  }
}

async function until(isMet: () => boolean): Promise<boolean> {
  const deadline = performance.now() + WAIT_MS_MAX
  while (!isMet() && performance.now() < deadline) await sleep(50)
  return isMet()
}

t.test(
  'slow clients of every kind are disconnected, and others are answered meanwhile',
  async (t) => {
    const { url, port, server, metrics, budget } = await start(t, () => ({ readerStallMs: 2000 }))
    const clients = Object.keys(KINDS).flatMap((kind) =>
      Array.from({ length: CLIENTS_OF_EACH_KIND }, () => ({
        kind,
        client: new SlowClient(port, kind),
      })),
    )
    t.teardown(() => {
      for (const { client } of clients) client.close()
    })
    t.ok(await until(() => metrics.httpConnections.value >= clients.length))
    let answered = 0
    const isOver = (): boolean => metrics.httpConnections.value <= 1
    const deadline = performance.now() + WAIT_MS_MAX
    while (!isOver() && performance.now() < deadline) {
      const { status } = await ask(`${url}/body`, { method: 'POST', body: 'healthy' })
      if (status !== 200) t.fail(`a healthy client got ${status}`)
      if (!isOver()) answered++
      await sleep(20)
    }
    t.ok(isOver(), `${metrics.httpConnections.value} connections are left`)
    t.ok(
      answered > 10,
      `${answered} healthy requests were answered before the last slow client was disconnected`,
    )
    for (const kind of Object.keys(KINDS)) {
      if (kind === 'never reads') continue
      const each = clients.filter((client) => client.kind === kind)
      // The server notices a little earlier than the clients.
      t.ok(await until(() => each.every(({ client }) => client.isCut)), kind)
    }
    t.ok(await until(() => server.requestsInProgress === 0))
    t.equal(budget.bytesInFlight, 0, 'their resources are released')
  },
)

t.test(
  'a large answer that the client does not read is held for a limited time only',
  async (t) => {
    const limits = { readerStallMs: 400, waitingBytesMax: 512 * MIB }
    const { port, server, metrics } = await start(t, () => limits)
    const clients = Array.from({ length: 20 }, () => new SlowClient(port, 'never reads'))
    t.ok(await until(() => server.requestsInProgress === clients.length))
    t.ok(await until(() => server.requestsInProgress === 0))
    t.equal(metrics.httpRequestsAborted.value, clients.length)
    for (const client of clients) client.close()
  },
)

t.test('connections beyond the limit are closed immediately, others continue', async (t) => {
  const { url, port, metrics } = await start(t, () => ({ connectionsMax: 30 }))
  const { status } = await ask(`${url}/body`, { method: 'POST', body: 'x' })
  t.equal(status, 200)
  const clients = Array.from({ length: 60 }, () => new SlowClient(port, 'says nothing'))
  const cut = () => clients.filter(({ isCut }) => isCut).length
  t.ok(await until(() => cut() >= 31), `${cut()} connections are closed`)
  t.equal(cut(), 31)
  t.equal(metrics.httpConnections.value, 30)
  t.equal(metrics.httpConnectionsRefused.value, 31)
  t.equal(
    (await ask(`${url}/body`, { method: 'POST', body: 'x' })).status,
    200,
    'the connection is kept alive',
  )
  for (const client of clients) client.close()
  t.ok(await until(() => metrics.httpConnections.value <= 1))
  const fresh = await ask(`${url}/body`, { method: 'POST', body: 'x', isAlone: true })
  t.equal(fresh.status, 200, 'there is room again')
})

t.test(
  'one address may open a limited number of connections a second; proxies are exempt',
  async (t) => {
    const limits = (metrics: ServiceMetrics) =>
      new RateLimits({
        ...NO_LIMITS,
        addressConnectionsPerSecondMax: 1,
        // No time passes, so the bucket is not refilled while connections are opened.
        clock: { now: () => 0, monotonic: () => 0 },
        refused: metrics.httpRateLimited,
      })
    const limited = await start(t, (metrics) => ({ limits: limits(metrics) }))
    const open = async ({ port, metrics }: Awaited<ReturnType<typeof start>>): Promise<number> => {
      const clients = Array.from({ length: 60 }, () => new SlowClient(port, 'says nothing'))
      const refused = () => metrics.httpRateLimited.with('address_connections').value
      const cutCount = () => clients.filter(({ isCut }) => isCut).length
      await until(() => metrics.httpConnections.value + refused() >= clients.length)
      await until(() => cutCount() >= refused())
      const cut = cutCount()
      for (const client of clients) client.close()
      return cut
    }
    const cut = await open(limited)
    t.equal(cut, 50, 'the first ten of 60 stay open')
    t.equal(limited.metrics.httpRateLimited.with('address_connections').value, cut)
    const trusting = await start(t, (metrics) => ({
      limits: limits(metrics),
      trustedProxies: new TrustedProxies(['127.0.0.1']),
    }))
    t.equal(await open(trusting), 0)
  },
)
