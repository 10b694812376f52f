/**
 * Guarantees of the HTTP server: exactly one answer to every request, whatever handlers and clients do.
 *
 * @lane quick
 */
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { OperatorError, ServiceError } from '../../src/base/errors.ts'
import { ServiceMetrics } from '../../src/engine/front/service-metrics.ts'
import { buildDocument } from '../../src/http/openapi/document.ts'
import { descriptionRoutes } from '../../src/http/routes/description.ts'
import { SdkFiles } from '../../src/http/routes/public/sdk-files.ts'
import { SDK_ROUTES } from '../../src/http/routes/public/sdk-routes.ts'
import { BodyBudget } from '../../src/http/server/body.ts'
import { bindPublic, type PublicRoute } from '../../src/http/server/public-route.ts'
import { send, sendAccepted, sendEmpty, sendError } from '../../src/http/server/respond.ts'
import { groupByPath, json } from '../../src/http/server/router.ts'
import { HttpServer } from '../../src/http/server/server.ts'
import { collect, jsonOf, pause, startServer, talk, until } from '../fixtures/http-client.ts'
import { HTTP_SERVER } from '../fixtures/http-server.ts'

const LARGE = Buffer.alloc(16 * 1024 * 1024, 'tenrec ')

function request(method: string, path: string, headers = ''): string {
  return `${method} ${path} HTTP/1.1\r\nHost: a.example\r\n${headers}\r\n`
}

function setUp(server: HttpServer): void {
  const paths = ['/one', '/two/deep'].flatMap((path, index): readonly PublicRoute[] => [
    {
      method: 'GET',
      path,
      handler: (exchange) => sendEmpty(exchange, 204, [['X-Path', String(index)]]),
    },
    { method: 'POST', path, handler: sendAccepted },
  ])
  server.publicRoutes(paths)
  server.raw('/slow', async (exchange) => {
    await pause(60)
    sendAccepted(exchange)
    sendAccepted(exchange)
  })
  server.raw('/until-gone', async (exchange) => {
    while (exchange.isOpen) await pause(1)
    sendAccepted(exchange)
  })
  server.raw('/raw-throws', () => {
    throw new TypeError('broken')
  })
  server.raw('/raw-rejects', async () => {
    await pause(1)
    throw new TypeError('broken')
  })
  server.raw('/busy', (exchange) => {
    const busy = new ServiceError('server_error', 'come back later', { retryAfterSeconds: 7 })
    sendError(exchange, busy)
  })
  const echo = { method: 'GET', path: '/api/things/:id/parts/:part/' } as const
  server.routes([
    {
      ...echo,
      handler: (api) => json([api.parameter('id'), api.parameter('part'), api.query.get('q')]),
    },
    { method: 'GET', path: '/api/things/:id/parts/all/', handler: () => json('all') },
    { method: 'POST', path: echo.path, handler: (api) => json(api.json() ?? 'nothing', 201) },
    { method: 'GET', path: '/api/throws/', handler: () => fail(new TypeError('secret')) },
    { method: 'GET', path: '/api/rejects/', handler: () => Promise.reject(new Error('secret')) },
    { method: 'GET', path: '/api/wrong/', handler: (api) => json(api.parameter('unknown')) },
    {
      method: 'GET',
      path: '/api/denied/',
      handler: () => fail(new ServiceError('not_authenticated', 'no key')),
    },
    { method: 'GET', path: '/api/peer/', handler: (api) => json(api.peerAddress) },
    {
      method: 'GET',
      path: '/api/large/',
      handler: () => ({ status: 200, contentType: 'text/plain', body: LARGE }),
    },
    { method: 'HEAD', path: '/api/peer/', handler: (api) => json(api.peerAddress) },
  ])
}

function fail(error: Error): never {
  throw error
}

t.test('paths work with and without one trailing slash, and never redirect', async (t) => {
  const { port } = await startServer(t, setUp)
  const statuses = async (method: string, path: string): Promise<readonly number[]> =>
    (await talk(port, request(method, path), { answers: 1 })).statuses
  for (const path of ['/one', '/one/', '/two/deep', '/two/deep/?x=1']) {
    t.same(await statuses('POST', path), [200], path)
  }
  for (const path of ['/api/things/1/parts/2', '/api/things/1/parts/2/']) {
    t.same(await statuses('GET', path), [200], path)
  }
  for (const path of [
    '/',
    '/one//',
    '//one',
    '/One',
    '/%6fne',
    '/one/..',
    '/two',
    '/.env',
    '/a'.repeat(200),
  ]) {
    t.same(await statuses('POST', path), [404], path.slice(0, 20))
  }
  const second = await talk(port, request('GET', '/two/deep/'), { answers: 1 })
  t.match(second.text, /x-path: 1/i, 'the handler receives the requested path')
})

t.test('an unknown path is answered with 404 and the four keys', async (t) => {
  const { port } = await startServer(t, setUp)
  for (const path of ['/nope', '/api/nope']) {
    const received = await talk(port, request('GET', path), { answers: 1 })
    t.match(jsonOf(received), { type: 'invalid_request', code: 'not_found', attr: null })
    t.match(received.text, /content-type: application\/json/i)
    t.match(received.text, /x-content-type-options: nosniff/i)
    t.notMatch(received.text, /uwebsockets/i)
  }
})

t.test(
  'a known path with another method is answered with 405 and the allowed methods',
  async (t) => {
    const { port } = await startServer(t, setUp)
    for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'FOO', 'get']) {
      const received = await talk(port, request(method, '/api/things/1/parts/2'), { answers: 1 })
      t.same(received.statuses, [405], method)
      t.match(received.text, /allow: GET, POST\r\n/i)
      t.match(jsonOf(received), { code: 'method_not_allowed', type: 'invalid_request' })
      t.notMatch(received.text, /access-control/i)
    }
    const raw = await talk(port, request('PUT', '/one'), { answers: 1 })
    t.same(raw.statuses, [405])
  },
)

t.test('an answer to HEAD has no body, so the next answer can be parsed', async (t) => {
  const { port } = await startServer(t, setUp)
  const both = request('HEAD', '/one') + request('HEAD', '/nope') + request('HEAD', '/api/peer/')
  const received = await talk(port, both + request('GET', '/one'), { waitMs: 100 })
  t.same(received.statuses, [405, 404, 200, 204])
  t.notMatch(received.text, /[{}]|127\.0/)
  t.match(received.text, /content-length: 11\r\n/i, 'the length of "127.0.0.1" with its quotes')
})

t.test(
  'parameters are decoded, fixed paths have priority, and query strings are parsed',
  async (t) => {
    const { port } = await startServer(t, setUp)
    const answer = async (path: string): Promise<unknown> =>
      jsonOf(await talk(port, request('GET', path), { answers: 1 }))
    t.same(await answer('/api/things/%40current/parts/a%2Fb?q=1+2'), ['@current', 'a/b', '1 2'])
    t.same(await answer('/api/things/1/parts/all'), 'all')
    t.same(await answer('/api/things/__proto__/parts/x'), ['__proto__', 'x', null])
    t.match(await answer('/api/things/%zz/parts/x'), { code: 'not_found' })
    t.match(await answer('/api/things//parts/x'), { code: 'not_found' })
    t.same(await answer('/api/peer'), '127.0.0.1')
  },
)

t.test('bodies of private routes must be JSON', async (t) => {
  const { port } = await startServer(t, setUp)
  const post = async (body: string, headers = ''): Promise<unknown> => {
    const head = request(
      'POST',
      '/api/things/1/parts/2',
      `${headers}Content-Length: ${body.length}\r\n`,
    )
    return jsonOf(await talk(port, head + body, { answers: 1 }))
  }
  t.same(await post('{"a":1}'), { a: 1 })
  t.same(await post('{"a":1}', 'Content-Type: Application/JSON; charset=utf-8\r\n'), { a: 1 })
  t.same(await post(''), 'nothing')
  t.match(await post('{"a":'), { code: 'parse_error', type: 'invalid_request' })
  t.match(await post('"\xff"'), { code: 'parse_error' })
  t.match(await post('a=1', 'Content-Type: text/plain\r\n'), { code: 'unsupported_media_type' })
  const large = await talk(
    port,
    request('POST', '/api/things/1/parts/2', 'Content-Length: 5000000\r\n'),
    {
      answers: 1,
    },
  )
  t.same(large.statuses, [413])
})

t.test(
  'any failure is answered with 500 and an id that is in the log, without details',
  async (t) => {
    const { port, errors, server } = await startServer(t, setUp)
    for (const path of [
      '/raw-throws',
      '/raw-rejects',
      '/api/throws',
      '/api/rejects',
      '/api/wrong',
    ]) {
      const received = await talk(port, request('GET', path), { answers: 1 })
      t.same(received.statuses, [500], path)
      t.match(jsonOf(received), { type: 'server_error', code: 'error', attr: null })
      t.notMatch(received.text, /secret|broken|\.ts/)
      const id = /under the ID ([0-9a-f-]{36})/.exec(received.text)?.[1]
      t.match(errors.at(-1), { requestId: id, err: Error }, 'the id is in the log')
    }
    t.equal(server.requestsInProgress, 0)
  },
)

t.test(
  '401 names the scheme on private routes, and Retry-After is sent where a retry helps',
  async (t) => {
    const { port } = await startServer(t, setUp)
    const denied = await talk(port, request('GET', '/api/denied'), { answers: 1 })
    t.same(denied.statuses, [401])
    t.match(denied.text, /www-authenticate: Bearer\r\n/i)
    const busy = await talk(port, request('GET', '/busy', 'Origin: null\r\n'), { answers: 1 })
    t.same(busy.statuses, [503])
    t.match(busy.text, /retry-after: 7\r\n/i)
    t.match(busy.text, /access-control-allow-origin: null\r\n/i)
  },
)

t.test('a second answer and an answer after an abort are ignored', async (t) => {
  const { port, server, errors, metrics } = await startServer(t, setUp)
  const received = await talk(port, request('GET', '/slow'), { waitMs: 150 })
  t.same(received.statuses, [200], 'one answer')
  const socket = connect(port, '127.0.0.1')
  socket.write(request('GET', '/until-gone'))
  t.ok(await until(() => server.requestsInProgress === 1))
  socket.resetAndDestroy()
  t.ok(await until(() => server.requestsInProgress === 0))
  t.equal(metrics.httpRequestsAborted.value, 1)
  t.same(errors, [])
})

t.test(
  'a request that is pipelined behind an unanswered one closes the connection unread',
  async (t) => {
    const { port, server } = await startServer(t, setUp)
    const received = await talk(port, request('GET', '/slow') + request('GET', '/one'))
    t.same([received.statuses, received.isClosed], [[], true])
    t.ok(await until(() => server.requestsInProgress === 0))
  },
)

t.test(
  'a large answer is sent at the speed of its reader, and a stalled reader is disconnected',
  async (t) => {
    const patient = await startServer(t, setUp)
    const reader = connect(patient.port, '127.0.0.1')
    const chunks: Buffer[] = []
    let receivedBytes = 0
    reader.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      receivedBytes += chunk.length
    })
    reader.write(request('GET', '/api/large'))
    t.ok(await until(() => receivedBytes > LARGE.length))
    const received = Buffer.concat(chunks)
    const body = received.subarray(received.indexOf('\r\n\r\n') + 4)
    t.ok(body.equals(LARGE), 'complete and in order')
    reader.destroy()
    const { port, server } = await startServer(t, setUp, { readerStallMs: 100 })
    const stuck = connect(port, '127.0.0.1')
    stuck.pause()
    stuck.write(request('GET', '/api/large'))
    t.ok(await until(() => server.requestsInProgress === 1))
    t.ok(await until(() => server.requestsInProgress === 0), 'the answer is abandoned')
    stuck.destroy()
    const leaver = connect(port, '127.0.0.1')
    leaver.pause()
    leaver.write(request('GET', '/api/large'))
    t.ok(await until(() => server.requestsInProgress === 1))
    leaver.resetAndDestroy()
    t.ok(await until(() => server.requestsInProgress === 0), 'an abort ends it too')
  },
)

t.test('readers of shared answers do not use up the memory of others', async (t) => {
  const metrics = new ServiceMetrics({ version: '0', clock: SYSTEM_CLOCK })
  const log = { error: (fields: object) => t.fail(JSON.stringify(fields)) }
  const budget = new BodyBudget({ bytesMax: 1024, clock: SYSTEM_CLOCK })
  const server = new HttpServer({
    log,
    clock: SYSTEM_CLOCK,
    metrics,
    budget,
    readerStallMs: 600,
    waitingBytesMax: LARGE.length,
    httpServer: HTTP_SERVER,
  })
  const answer = { status: 200, contentType: 'text/plain', body: LARGE } as const
  server.raw('/shared', (exchange) => send(exchange, { ...answer, isShared: true }))
  server.raw('/own', (exchange) => send(exchange, { ...answer, body: Buffer.from(LARGE) }))
  server.routes(descriptionRoutes(buildDocument))
  const folder = t.testdir({
    'package.json': '{"version":"9.9.9"}',
    dist: { 'array.js': 'x'.repeat(100_000) },
  })
  const directory = { projectByKey: () => null }
  const services = { clock: SYSTEM_CLOCK, directory, files: new SdkFiles([folder]) }
  server.publicRoutes(bindPublic(SDK_ROUTES, services))
  const port = await server.listen('127.0.0.1', 0)
  t.teardown(() => server.close(0))
  const stopped = (path: string): Socket => {
    const socket = connect(port, '127.0.0.1').pause()
    socket.on('error', () => undefined)
    socket.write(request('GET', path))
    t.teardown(() => socket.destroy())
    return socket
  }
  for (let count = 0; count < 4; count++) stopped('/shared')
  t.ok(await until(() => server.requestsInProgress === 4))
  t.equal(metrics.httpAnswerBytesWaiting.value, 0, 'they use no memory')
  stopped('/own')
  t.ok(await until(() => metrics.httpAnswerBytesWaiting.value === LARGE.length), 'there is room')
  const head = (path: string) => collectHead(connect(port, '127.0.0.1'), path)
  t.match(await head('/own'), / 503 /, 'for one')
  for (const path of ['/shared', '/openapi.json', '/static/array.js']) {
    t.match(await head(path), / 200 /, `${path} is always answered, because it uses no memory`)
  }
  t.ok(await until(() => server.requestsInProgress === 0), 'they are disconnected like all others')
  t.equal(metrics.httpReadersCut.with('stalled').value, 5)
})

/** Returns the first bytes of an answer. */
async function collectHead(socket: Socket, path: string): Promise<string> {
  socket.write(request('GET', path))
  const text = await new Promise<string>((resolve) => {
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1')))
  })
  socket.destroy()
  return text
}

t.test('the next chunk is requested once the previous one is sent, and never twice', async (t) => {
  const bytes = Buffer.alloc(60_000, 'x')
  let making = 0
  let makingMax = 0
  let madePieces = 0
  const body = {
    next: async () => {
      makingMax = Math.max(makingMax, ++making)
      await pause(300)
      making--
      return ++madePieces > 3 ? null : Buffer.from(`piece ${madePieces}`)
    },
    cancel: () => undefined,
  }
  const { port } = await startServer(t, (server) => {
    server.raw('/direct', (exchange) => {
      send(exchange, { status: 200, contentType: 'text/plain', body: bytes })
    })
    server.raw('/pieces', (exchange) => {
      send(exchange, { status: 200, contentType: 'text/plain', body })
    })
  })
  const socket = connect(port, '127.0.0.1').pause()
  let tail = ''
  socket.on('data', (chunk: Buffer) => {
    tail = (tail + chunk.toString('latin1')).slice(-200)
  })
  socket.pause()
  socket.write(request('GET', '/direct') + request('GET', '/pieces'))
  t.ok(await until(() => making === 1), 'the first chunk is being made')
  socket.resume()
  t.ok(await until(() => tail.endsWith('\r\n0\r\n\r\n')), 'the answer is complete')
  socket.destroy()
  t.equal(makingMax, 1)
  t.match(tail, /piece 1\r\n\w+\r\npiece 2\r\n\w+\r\npiece 3\r\n0\r\n/)
})

t.test('on shutdown requests in progress are answered and later ones are refused', async (t) => {
  const { port, server } = await startServer(t, setUp)
  const idle = connect(port, '127.0.0.1')
  const idleClosed = new Promise((resolve) => idle.once('close', resolve))
  const waiting = talk(port, request('GET', '/slow'))
  t.ok(await until(() => server.requestsInProgress === 1))
  const closing = server.close(2000)
  const late = await talk(port, request('GET', '/one'))
  t.same(late.statuses, [], 'no new connections')
  t.equal(await closing, 0, 'no answer was truncated')
  const received = await waiting
  t.same([received.statuses, received.isClosed], [[200], true])
  await idleClosed
})

t.test('shutdown does not take longer than its deadline', async (t) => {
  const { port, server } = await startServer(t, setUp)
  const waiting = talk(port, request('GET', '/slow'))
  t.ok(await until(() => server.requestsInProgress === 1))
  t.equal(await server.close(10), 1)
  t.same((await waiting).statuses, [])
})

t.test('a second server on the same port is refused with the reason', async (t) => {
  const { port } = await startServer(t, setUp)
  const options = {
    log: { error: () => undefined },
    clock: SYSTEM_CLOCK,
    metrics: new ServiceMetrics({ version: '1', clock: SYSTEM_CLOCK }),
    budget: new BodyBudget({ bytesMax: 1, clock: SYSTEM_CLOCK }),
    httpServer: HTTP_SERVER,
  }
  await t.rejects(new HttpServer(options).listen('127.0.0.1', port), OperatorError)
  await t.rejects(new HttpServer(options).listen('127.0.0.1', port), /address in use/)
  await t.rejects(new HttpServer(options).listen('192.0.2.1', 0), /no such address/)
})

t.test('connections beyond the limit are closed, and a closed connection makes room', async (t) => {
  const { port, metrics } = await startServer(t, setUp, { connectionsMax: 2 })
  const first = connect(port, '127.0.0.1')
  const second = connect(port, '127.0.0.1')
  t.ok(await until(() => metrics.httpConnections.value === 2))
  t.same((await talk(port, request('POST', '/one'))).statuses, [])
  first.destroy()
  t.ok(await until(() => metrics.httpConnections.value === 1))
  t.same((await talk(port, request('POST', '/one'), { answers: 1 })).statuses, [200])
  second.destroy()
})

t.test('every answer is counted under its route pattern', async (t) => {
  const { port, metrics } = await startServer(t, setUp)
  for (const path of ['/one', '/one/', '/nope', '/api/things/7/parts/8', '/api/throws']) {
    await talk(port, request('GET', path), { answers: 1 })
  }
  const page = metrics.page.render()
  t.match(page, 'http_requests_total{route="/one",code="204"} 2\n')
  t.match(page, 'http_requests_total{route="unknown",code="404"} 1\n')
  t.match(page, 'http_requests_total{route="/api/things/:id/parts/:part/",code="200"} 1\n')
  t.match(page, 'http_requests_total{route="/api/throws/",code="500"} 1\n')
  t.match(page, 'http_request_duration_seconds_count{route="/api/throws/"} 1\n')
  t.match(page, 'http_requests_in_progress 0\n')
})

t.test('a connection is closed after its answer if the client asked for it', async (t) => {
  const { port } = await startServer(t, setUp)
  const socket = connect(port, '127.0.0.1')
  socket.write(request('POST', '/one', 'Connection: close\r\n'))
  const received = await collect(socket)
  t.same([received.statuses, received.isClosed], [[200], true])
})

t.test('a duplicate or malformed route in the table throws an error', async (t) => {
  const handler = () => json(null)
  const route = { method: 'GET', path: '/a/', handler } as const
  t.throws(() => groupByPath([route, route]), /exists twice/)
  t.throws(() => groupByPath([{ ...route, path: '/a' }]), /lacks a slash/)
})
