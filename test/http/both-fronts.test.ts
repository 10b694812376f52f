/**
 * Compares the two HTTP libraries: the same bytes get the same answers from both, or both refuse them. Where
 * uWebSockets.js cannot be loaded, node:http is compared with the expectations in this file.
 *
 * @lane quick
 */
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { HttpServerName } from '../../src/config/settings-table.ts'
import { collectBody } from '../../src/http/server/body.ts'
import { chooseFront } from '../../src/http/server/choose-front.ts'
import type { PublicRoute } from '../../src/http/server/public-route.ts'
import {
  send,
  sendAccepted,
  sendEmpty,
  sendJson,
  sendReused,
} from '../../src/http/server/respond.ts'
import { json } from '../../src/http/server/router.ts'
import type { HttpServer } from '../../src/http/server/server.ts'
import {
  collect,
  countAnswers,
  pause,
  startServer,
  type TestServer,
  type TestServerOptions,
  talk,
  until,
} from '../fixtures/http-client.ts'

const FRONTS: readonly HttpServerName[] =
  chooseFront('auto').name === 'uws' ? ['uws', 'node'] : ['node']
const MIB = 1024 * 1024
/** More than socket buffers hold. */
const LARGE = Buffer.alloc(16 * MIB, 'tenrec ')
/** The length of a page. It is sent with one call, if the socket has room for it. */
const PAGE_BYTES = 60_000
const reused = Buffer.alloc(PAGE_BYTES)

function pageOf(query: string): Buffer {
  return Buffer.alloc(PAGE_BYTES, `${query} `)
}

function setUp(server: HttpServer, budget: TestServer['budget']): void {
  const routes = ['/one', '/two/deep'].flatMap((path): readonly PublicRoute[] => [
    { method: 'GET', path, handler: (exchange) => sendEmpty(exchange, 204, [['X-Path', path]]) },
    { method: 'POST', path, handler: sendAccepted },
  ])
  server.publicRoutes(routes)
  server.raw('/echo', (exchange, head) => {
    collectBody(exchange, head.contentLength, {
      bytesMax: MIB,
      budget,
      onBody: (body) => {
        const { query, userAgent, contentType, accept, forwardedFor } = head
        const text = Buffer.from(body).toString('latin1')
        const said = { query, userAgent, contentType, accept, forwardedFor }
        sendJson(exchange, 200, { method: exchange.method, ...said, text })
      },
    })
  })
  server.raw('/slow', async (exchange) => {
    await pause(50)
    sendAccepted(exchange)
  })
  server.raw('/large', (exchange) => {
    send(exchange, { status: 200, contentType: 'text/plain', body: [LARGE.subarray(0, 5), LARGE] })
  })
  server.raw('/page', (exchange, { query }) => {
    send(exchange, { status: 200, contentType: 'text/plain', body: pageOf(query) })
  })
  server.raw('/reused', (exchange, { query }) => {
    sendReused(exchange, reused.fill(`${query} `))
    reused.fill('overwritten')
  })
  server.raw('/moved', (exchange) => {
    send(exchange, { status: 302, contentType: '', body: '', headers: [['Location', '/one']] })
  })
  server.raw('/unread', (exchange) => sendEmpty(exchange, 204))
  server.raw('/pieces', (exchange) => {
    const pieces = ['first ', 'second'].map((text) => Buffer.from(text))
    const body = { next: async () => pieces.shift() ?? null, cancel: () => undefined }
    send(exchange, { status: 200, contentType: 'text/plain', body })
  })
  server.routes(
    ['/api/:a/', '/api/all/', '/api/:a/parts/:b/', '/api/:a/parts/all/', '/api/all/:b/'].map(
      (path) => ({
        method: 'GET',
        path,
        handler: (api) =>
          json([path, ...[...path.matchAll(/:(\w)/g)].map(([, name = '']) => api.parameter(name))]),
      }),
    ),
  )
}

function start(
  t: Test,
  front: HttpServerName,
  options: TestServerOptions = {},
): Promise<TestServer> {
  return startServer(t, setUp, { ...options, httpServer: front })
}

function request(line: string, headers = '', body = ''): string {
  return `${line} HTTP/1.1\r\nHost: a.example\r\n${headers}\r\n${body}`
}

const post = (body: string, headers = ''): string =>
  request('POST /echo', `${headers}Content-Length: ${body.length}\r\n`, body)
const CHUNKED = 'Transfer-Encoding: chunked\r\n'

/** Closes a connection that is still open by requesting it. */
const LAST = request('GET /last', 'Connection: close\r\n')

/**
 * Sends bytes, and sends `LAST` when the given number of answers is complete. Returns everything up to the close of the
 * connection. The text ends with the answer to `LAST` if the server has kept the connection open.
 */
function askUntilClosed(port: number, bytes: string, answers: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' })
  let text = ''
  let isLast = false
  socket.write(bytes, 'latin1')
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
    if (isLast || completeAnswers(text, bytes.startsWith('HEAD ')) < answers) return
    isLast = true
    socket.write(LAST)
  })
  return new Promise((resolve) => {
    socket.once('close', () => resolve(text))
  })
}

function completeAnswers(text: string, isHead: boolean): number {
  if (/^transfer-encoding: chunked/im.test(text)) return text.endsWith('\r\n0\r\n\r\n') ? 1 : 0
  return countAnswers(text, { isHead })
}

/** The visible part of the answers: statuses, headers in any order and without the date, and bodies. */
function seen(text: string): unknown {
  return text.split(/(?=HTTP\/1\.1 \d{3} )/).map((answer) => {
    const [head = '', body = ''] = answer.split(/\r\n\r\n([\s\S]*)/)
    const [status, ...headers] = head.split('\r\n')
    return {
      status,
      headers: headers.map((line) => line.replace(/^Date: .*/, 'Date')).sort(),
      body,
    }
  })
}

const SAME: Readonly<Record<string, string>> = {
  'a path': request('GET /one'),
  'a path with a slash': request('GET /one/'),
  'a path and a query': request('POST /two/deep?a=1&b=%20+?c'),
  'an empty query': request('POST /echo?'),
  'a number sign': request('GET /one#part?x=1'),
  'percent signs': request('GET /%6fne'),
  'two slashes': request('GET //one'),
  dots: request('GET /one/../two/deep'),
  'a long path': request(`GET ${'/a'.repeat(300)}`),
  'another method': request('DELETE /one'),
  HEAD: request('HEAD /echo?a'),
  'HEAD of nothing': request('HEAD /nothing'),
  OPTIONS: request(
    'OPTIONS /one',
    'Origin: http://b.example\r\nAccess-Control-Request-Headers: x-a\r\n',
  ),
  'another origin': request('POST /one', 'Origin: http://b.example\r\n'),
  'an unknown path': request('GET /nothing'),
  'an unknown path below /api/': request('POST /api/x/y/z/a/'),
  'an upgrade': request('POST /one', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'),
  'a body': post('abc', 'User-Agent: test\r\nContent-Type: text/x\r\n'),
  'no body': request('POST /echo'),
  'an empty body': post(''),
  'a body of GET': post('abc').replace('POST', 'GET'),
  'a body that nobody reads': post('abc').replace('/echo', '/unread') + request('POST /one'),
  'headers in capitals, and twice': post(
    'a',
    'ACCEPT: x\r\nX-Forwarded-For: 1\r\nx-forwarded-for: 2\r\n',
  ),
  'an empty header': post('a', 'User-Agent:\r\n'),
  'blanks around a value': post('a', 'User-Agent:   b c  \r\n'),
  'many headers': post('a', 'X-A: b\r\n'.repeat(96)),
  'two requests': post('a') + post('b'),
  'three of GET': request('GET /one').repeat(3),
  'one behind what is worked on': request('GET /slow') + post('hidden'),
  'a connection to be closed': post('a', 'Connection: close\r\n'),
  'in chunks': request('POST /echo', CHUNKED, '1\r\na\r\n2\r\nbc\r\n0\r\n\r\n'),
  'in no chunk': request('POST /echo', CHUNKED, '0\r\n\r\n'),
  'in chunks, and one behind':
    request('POST /echo', CHUNKED, '1\r\na\r\n0\r\n\r\n') + post('hidden'),
  'in chunks, to HEAD': request('HEAD /echo', CHUNKED, '1\r\na\r\n0\r\n\r\n'),
  'in chunks, to 204': request('GET /one', CHUNKED, '1\r\na\r\n0\r\n\r\n'),
  'an answer in pieces': request('GET /pieces'),
  '100-continue': post('abc', 'Expect: 100-continue\r\n'),
  'another expectation': post('abc', 'Expect: something\r\n'),
  'a body that is far too large': request('POST /echo', 'Content-Length: 2000000000\r\n'),
  'two Hosts': post('', 'Host: b.example\r\n'),
  'a Host that is none': post('').replace('a.example', 'a/b'),
  'an empty Host': post('').replace(' a.example', ''),
  'an encoding of the transfer': request('POST /echo', 'Transfer-Encoding: gzip, chunked\r\n'),
  ...Object.fromEntries(
    [
      '/api/x',
      '/api/all',
      '/api/all/',
      '/api/x/parts/y',
      '/api/all/parts/all/',
      '/api/x/parts/all',
    ].map((path) => [path, request(`GET ${path}?q`)]),
  ),
  'no parameter': request('GET /api//parts/y'),
  'a fixed part and a parameter': request('GET /api/all/parts'),
  'an encoded parameter': request('GET /api/%2F/parts/%20/'),
}

/** The requests that get more than one answer. */
const ANSWERS: Readonly<Record<string, number>> = {
  'a body that nobody reads': 2,
  'two requests': 2,
  'three of GET': 3,
}

t.test('the same bytes get the same answer', async (t) => {
  const servers = await Promise.all(FRONTS.map((front) => start(t, front)))
  const asked = Object.entries(SAME).map(async ([name, bytes]) => {
    const answers = servers.map(({ port }) => askUntilClosed(port, bytes, ANSWERS[name] ?? 1))
    return [name, ...(await Promise.all(answers))] as const
  })
  for (const [name, first = '', second = first] of await Promise.all(asked)) {
    t.same(seen(second), seen(first), name)
  }
})

/** Requests that both libraries refuse, with the allowed statuses. */
const REFUSED: Readonly<Record<string, readonly [bytes: string, ...statuses: number[]]>> = {
  'HTTP/1.0': ['GET /one HTTP/1.0\r\nHost: a\r\n\r\n', 505],
  'HTTP/1.2': ['GET /one HTTP/1.2\r\nHost: a\r\n\r\n', 505, 400],
  'HTTP/2': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505, 400],
  TLS: ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 505, 400],
  'line feeds alone': ['GET /one HTTP/1.1\nHost: a\n\n', 505, 400],
  'a whole address': [request('GET http://b.example/one'), 505],
  'an asterisk': [request('OPTIONS *'), 505],
  CONNECT: [request('CONNECT b.example:443'), 505],
  'a path without a slash': [request('GET one'), 505, 400],
  'a blank in the path': [request('GET /one two'), 505, 400],
  'a length and chunks': [request('POST /echo', `Content-Length: 3\r\n${CHUNKED}`, 'abc'), 400],
  'two lengths': [request('POST /echo', 'Content-Length: 1\r\nContent-Length: 2\r\n', 'ab'), 400],
  'a length with a sign': [request('POST /echo', 'Content-Length: +1\r\n', 'a'), 400],
  'chunks that are none': [request('POST /echo', CHUNKED, 'xyz\r\na\r\n0\r\n\r\n'), 400],
  'a trailer': [request('POST /echo', CHUNKED, '1\r\na\r\n0\r\nX: y\r\n\r\n'), 505],
  'too many headers': [post('a', 'X-A: b\r\n'.repeat(98)), 431],
  'a long header': [post('a', `X-A: ${'b'.repeat(70_000)}\r\n`), 431],
  'a long path': [request(`GET /${'b'.repeat(70_000)}`), 431],
}

for (const front of FRONTS) {
  t.test(`${front}: malformed HTTP/1.1 is refused, and the connection is closed`, async (t) => {
    const { port } = await start(t, front)
    const asking = Object.entries(REFUSED).map(async ([name, [bytes, ...allowed]]) => {
      const { statuses, isClosed } = await talk(port, bytes)
      t.ok(isClosed, `${name}: closed`)
      t.ok(statuses.length <= 1 && statuses.every((one) => allowed.includes(one)), name)
    })
    await Promise.all(asking)
  })
}

/** uWebSockets.js waits for the rest of these requests until the connection times out. */
const NEVER_COMPLETE: Readonly<Record<string, string>> = {
  'no Host': 'GET /one HTTP/1.1\r\n\r\n',
  'a folded header': request('GET /one', 'X-A: b\r\n c\r\n'),
  'a blank before the colon': request('GET /one', 'X-A : b\r\n'),
  'no colon': request('GET /one', 'X-A\r\n'),
  'a zero byte': request('GET /one', 'X-A: a\0b\r\n'),
  'a carriage return in a value': request('GET /one', 'X-A: a\rb\r\n'),
}

for (const front of FRONTS) {
  t.test(`${front}: malformed header lines are never answered with success`, async (t) => {
    const { port } = await start(t, front)
    const options = front === 'uws' ? { waitMs: 500 } : {}
    const asking = Object.entries(NEVER_COMPLETE).map(async ([name, bytes]) => {
      const { statuses, isClosed, text } = await talk(port, bytes, options)
      if (front === 'uws') t.same(statuses, [], name)
      else {
        t.same([statuses, isClosed], [[400], true], name)
        t.match(text, /"type":"invalid_request","code":"bad_request"/)
      }
    })
    await Promise.all(asking)
  })
}

t.test(
  'node:http closes the connection if a refused body is too long to be discarded',
  async (t) => {
    const { port } = await start(t, 'node')
    const received = await talk(port, request('GET /unread', 'Content-Length: 1000000000\r\n', 'a'))
    t.same([received.statuses, received.isClosed], [[204], true])
  },
)

t.test('node:http requires non-ASCII bytes of a URL to be percent-encoded', async (t) => {
  const { port } = await start(t, 'node')
  for (const line of ['GET /\xc3\xa4', 'GET /echo?\xff']) {
    const { statuses, text, isClosed } = await talk(port, request(line))
    t.same([statuses, isClosed], [[400], true])
    t.match(text, /percent-encode/)
  }
})

for (const front of FRONTS) {
  t.test(`${front}: a method that does not exist in HTTP is refused by its route`, async (t) => {
    const { port, metrics } = await start(t, front)
    for (const method of ['FOO', 'get', 'M-SEARCH2']) {
      const received = await talk(port, request(`${method} /one`), { answers: 1 })
      t.same(received.statuses, [405], method)
      t.match(received.text, /allow: GET, POST\r\n/i)
    }
    t.same((await talk(port, request('FOO /nothing'), { answers: 1 })).statuses, [404])
    const withBody = request('FOO /echo', 'Content-Length: 6\r\n', 'hidden')
    t.notMatch(
      (await talk(port, withBody, { answers: 1 })).text,
      /"text":""/,
      'no partial request was handled',
    )
    t.equal(metrics.httpRequests.with('/one', '405').value, 3)
  })

  t.test(
    `${front}: a large answer is complete, and a stalled reader is disconnected`,
    async (t) => {
      const { port, server, metrics } = await start(t, front, { readerStallMs: 300 })
      const chunks: Buffer[] = []
      let bytes = 0
      const reader = connect(port, '127.0.0.1')
      reader.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        bytes += chunk.length
      })
      reader.write(request('GET /large'))
      const expected = Buffer.concat([LARGE.subarray(0, 5), LARGE])
      const headBytes = () => (chunks[0]?.indexOf('\r\n\r\n') ?? 0) + 4
      t.ok(await until(() => bytes === headBytes() + expected.length), 'as long as announced')
      const first = Buffer.concat(chunks)
      const body = first.subarray(headBytes())
      t.ok(body.equals(expected), 'complete and in order')
      reader.destroy()
      t.ok(await until(() => server.requestsInProgress === 0))
      const stopped = stoppedReader(t, port, '/large')
      t.ok(await until(() => server.requestsInProgress === 1))
      t.ok(await until(() => metrics.httpAnswerBytesWaiting.value > 0), 'the answer waits')
      t.ok(await until(() => server.requestsInProgress === 0), 'the answer is abandoned')
      t.equal(metrics.httpAnswerBytesWaiting.value, 0)
      t.equal(metrics.httpReadersCut.with('stalled').value, 1)
      stopped.destroy()
    },
  )

  t.test(`${front}: requests whose answers are not read do not fill the memory`, async (t) => {
    const { port, server, metrics } = await start(t, front)
    const asked = 2000
    const reader = connect(port, '127.0.0.1').pause()
    reader.on('error', () => undefined)
    t.teardown(() => reader.destroy())
    reader.write(request('GET /page').repeat(asked))
    const answered = metrics.httpRequests.with('/page', '200')
    t.ok(await until(() => answered.value > 0 && metrics.httpConnections.value === 0))
    t.ok(answered.value < asked / 2, `${answered.value} answers`)
    t.equal(server.requestsInProgress, 0)
    t.equal(metrics.httpAnswerBytesWaiting.value, 0)
  })

  t.test(`${front}: a client that never reads the answers to its events is cut off`, async (t) => {
    const { port, server, metrics } = await start(t, front)
    const asked = 20_000
    const reader = connect(port, '127.0.0.1').pause()
    reader.on('error', () => undefined)
    t.teardown(() => reader.destroy())
    // The answer repeats this header. Longer answers fill the buffers of the socket with fewer requests.
    const origin = `Origin: https://a.example\r\nAccess-Control-Request-Headers: ${'x'.repeat(1500)}\r\n`
    reader.write(request('POST /one', `${origin}Content-Length: 0\r\n`).repeat(asked))
    const answered = metrics.httpRequests.with('/one', '200')
    t.ok(await until(() => answered.value > 0 && metrics.httpConnections.value === 0))
    t.ok(answered.value < asked * 0.75, `${answered.value} answers`)
    t.equal(server.requestsInProgress, 0)
    t.equal(metrics.httpAnswerBytesWaiting.value, 0)
  })

  t.test(`${front}: answers without a body do not keep a connection open for ever`, async (t) => {
    const { port, metrics } = await start(t, front)
    const asked = 5000
    for (const [line, path, status] of [
      ['HEAD /page', '/page', '200'],
      ['GET /one', '/one', '204'],
      ['GET /moved', '/moved', '302'],
    ] as const) {
      const reader = connect(port, '127.0.0.1').pause()
      reader.on('error', () => undefined)
      t.teardown(() => reader.destroy())
      reader.write(request(line).repeat(asked))
      const answered = metrics.httpRequests.with(path, status)
      t.ok(await until(() => answered.value > 0 && metrics.httpConnections.value === 0))
      t.ok(answered.value < asked / 2, `${line}: ${answered.value} answers`)
    }
  })

  // Node keeps the rest of an answer of this size itself.
  for (const path of front === 'uws' ? ['GET /page', 'POST /reused'] : []) {
    t.test(`${front}: ${path} waits for its reader when the socket is full`, async (t) => {
      const { port, server, metrics } = await start(t, front)
      const answered = metrics.httpRequests.with(path.split(' ')[1] ?? '', '200')
      const reader = connect(port, '127.0.0.1').pause()
      let asked = 0
      while (metrics.httpAnswerBytesWaiting.value === 0 && asked < 1000) {
        reader.write(request(`${path}?${asked}`, 'Content-Length: 0\r\n'))
        asked++
        t.ok(await until(() => answered.value + server.requestsInProgress === asked))
      }
      t.equal(server.requestsInProgress, 0, 'the request is over')
      const { text } = await collect(reader.resume(), { answers: asked })
      const bodies = text.split(/HTTP\/1\.1 200 OK\r\n[\s\S]*?\r\n\r\n/).slice(1)
      const wrong = bodies.flatMap((body, at) => (body === pageOf(`${at}`).toString() ? [] : [at]))
      t.same([bodies.length, wrong], [asked, []])
      t.equal(server.requestsInProgress, 0)
      t.equal(metrics.httpAnswerBytesWaiting.value, 0)
    })
  }

  t.test(`${front}: a slow body is aborted, and a disconnected client is noticed`, async (t) => {
    let nowMs = 0
    const pace = { graceMs: 50, bytesPerSecondMin: 1_000_000 }
    const paceClock = { now: () => 0, monotonic: () => nowMs }
    const { port, server, budget, metrics } = await start(t, front, { pace, paceClock })
    const slow = talk(port, [request('POST /echo', 'Content-Length: 900000\r\n'), 'a'])
    t.ok(await until(() => server.requestsInProgress === 1))
    nowMs += 51
    const { statuses, isClosed } = await slow
    t.same([statuses, isClosed], [[], true])
    const leaver = connect(port, '127.0.0.1')
    leaver.write(`${request('POST /echo', 'Content-Length: 900000\r\n')}a`)
    t.ok(await until(() => server.requestsInProgress === 1))
    leaver.resetAndDestroy()
    t.ok(await until(() => server.requestsInProgress === 0))
    t.equal(metrics.httpRequestsAborted.value, 2)
    const silent = connect(port, '127.0.0.1')
    silent.write(request('POST /echo', 'Content-Length: 3\r\n'))
    t.ok(await until(() => server.requestsInProgress === 1))
    silent.resetAndDestroy()
    t.ok(await until(() => server.requestsInProgress === 0), 'before the first byte of its body')
    t.equal(budget.bytesInFlight, 0)
  })

  t.test(`${front}: a late body does not hide an answer that was sent before it`, async (t) => {
    const { port } = await start(t, front)
    const body = Buffer.alloc(3 * MIB)
    const head = request('POST /echo', `Content-Length: ${body.length}\r\n`)
    const socket = connect({ port, host: '127.0.0.1' })
    const answer = collect(socket, { answers: 1 })
    socket.write(head)
    await pause(20)
    socket.write(body)
    t.same((await answer).statuses, [413])
  })

  t.test(`${front}: connections beyond the limit are closed at once`, async (t) => {
    const { port, metrics } = await start(t, front, { connectionsMax: 2 })
    const open = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')]
    t.ok(await until(() => metrics.httpConnections.value === 2))
    t.same((await talk(port, request('POST /one'))).statuses, [])
    t.equal(metrics.httpConnectionsRefused.value, 1)
    for (const socket of open) socket.destroy()
    t.ok(await until(() => metrics.httpConnections.value === 0))
  })
}

function stoppedReader(t: Test, port: number, path: string): Socket {
  const socket = connect(port, '127.0.0.1').pause()
  socket.on('error', () => undefined)
  socket.write(request(`GET ${path}`))
  t.teardown(() => socket.destroy())
  return socket
}
