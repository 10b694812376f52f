/**
 * CORS headers: present on every answer of public routes and on no other answers.
 *
 * @lane quick
 */
import t from 'tap'
import { ServiceError } from '../../src/base/errors.ts'
import {
  corsHeaders,
  sendAccepted,
  sendEmpty,
  sendError,
  sendJson,
  sendMethodNotAllowed,
  sendReused,
} from '../../src/http/server/respond.ts'
import { json } from '../../src/http/server/router.ts'
import { startServer, talk } from '../fixtures/http-client.ts'

t.test('the origin is echoed, and requested headers are allowed', async (t) => {
  t.same(Object.fromEntries(corsHeaders('https://shop.example', '', false)), {
    'Access-Control-Allow-Origin': 'https://shop.example',
    'Access-Control-Allow-Credentials': 'true',
    'Access-Control-Allow-Methods': 'GET, POST, OPTIONS',
    'Access-Control-Allow-Headers': 'X-Requested-With,Content-Type',
    Vary: 'Origin',
  })
  t.match(Object.fromEntries(corsHeaders('null', 'x-trace, y', true)), {
    'Access-Control-Allow-Origin': 'null',
    'Access-Control-Allow-Headers': 'x-trace, y',
    'Access-Control-Max-Age': '86400',
  })
})

t.test('every answer of a public route has them if the request has an Origin', async (t) => {
  const { port } = await startServer(t, (server) => {
    server.raw('/ok', (exchange) => sendAccepted(exchange))
    server.raw('/no', (exchange) => {
      sendError(exchange, new ServiceError('invalid_api_key', 'no such key'))
    })
    server.raw('/broken', () => {
      throw new TypeError('broken')
    })
    server.routes([{ method: 'GET', path: '/api/private/', handler: () => json(1) }])
  })
  const ask = (path: string, headers: string) =>
    talk(port, `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`, { answers: 1 })
  const origin = 'Origin: https://shop.example\r\n'
  const broken = 'Content-Length: 1\r\nContent-Length: 1\r\n'
  for (const [path, headers, status] of [
    ['/ok', '', 200],
    ['/no', '', 401],
    ['/broken', '', 500],
    ['/ok', broken, 400],
  ] as const) {
    const received = await ask(path, origin + headers)
    t.same(received.statuses, [status])
    t.match(received.text, /access-control-allow-origin: https:\/\/shop\.example\r\n/i)
    t.match(received.text, /access-control-allow-credentials: true\r\n/i)
    t.match(received.text, /vary: origin\r\n/i)
    t.notMatch((await ask(path, headers)).text, /access-control/i, 'no headers without Origin')
  }
  t.notMatch((await ask('/api/private', origin)).text, /access-control|vary/i)
  t.notMatch((await ask('/no', '')).text, /www-authenticate/i, 'only for private routes')
})

t.test(
  'a page can read errors for unknown paths and methods, but not those of private routes',
  async (t) => {
    const { port } = await startServer(t, (server) => {
      server.raw('/ok', (exchange) => {
        if (exchange.method === 'GET') sendEmpty(exchange, 204)
        else sendMethodNotAllowed(exchange, 'GET')
      })
      server.routes([{ method: 'GET', path: '/api/private/', handler: () => json(1) }])
    })
    const ask = (line: string, headers = 'Origin: https://shop.example\r\n') =>
      talk(port, `${line} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`, { answers: 1 })
    for (const [line, status] of [
      ['PUT /ok', 405],
      ['HEAD /ok', 405],
      ['GET /nope', 404],
      ['HEAD /static/nope.js', 404],
      ['POST /i/v1/logs', 404],
      ['GET /apiary', 404],
      ['OPTIONS /i/v1/logs', 204],
    ] as const) {
      const { statuses, text } = await ask(line)
      t.strictSame(statuses, [status], line)
      t.match(text, /access-control-allow-origin: https:\/\/shop\.example\r\n/i, line)
      t.match(text, /vary: origin\r\n/i, line)
    }
    for (const line of [
      'PUT /api/private',
      'OPTIONS /api/private',
      'GET /api',
      'GET /api/',
      'GET /api/nope/',
      'POST /api/projects/1/nope',
      'OPTIONS /api/nope',
    ]) {
      const { statuses, text } = await ask(line)
      t.match(statuses, [/40[45]/], line)
      t.notMatch(text, /access-control|vary/i, line)
    }
    t.strictSame((await ask('OPTIONS /nope', '')).statuses, [404], 'not without an Origin')
  },
)

t.test('answers to GET vary by origin for caches, even without an Origin header', async (t) => {
  const { port } = await startServer(t, (server) => {
    server.raw('/ok', (exchange) => sendJson(exchange, 200, {}))
    server.raw('/e', (exchange) => sendAccepted(exchange))
    server.raw('/flags', (exchange) => sendReused(exchange, Buffer.from('{}')))
  })
  for (const line of ['GET /ok', 'HEAD /ok', 'GET /flags', 'HEAD /flags', 'GET /e', 'GET /nope']) {
    const request = `${line} HTTP/1.1\r\nHost: a\r\n\r\n`
    const { text } = await talk(port, request, { answers: 1 })
    t.match(text, /vary: origin\r\n/i, line)
    t.notMatch(text, /access-control/i, line)
  }
})
