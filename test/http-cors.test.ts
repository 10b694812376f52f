/** Cross-origin headers: on every answer of public routes, on none of the others. */
import t from 'tap'
import { ServiceError } from '../src/base/errors.ts'
import { corsHeaders } from '../src/http/cors.ts'
import { sendAccepted, sendError } from '../src/http/respond.ts'
import { json } from '../src/http/router.ts'
import { startServer, talk } from './fixtures/http-client.ts'

t.test('the origin is echoed, requested headers are allowed', async (t) => {
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
    server.raw(['/ok'], (exchange) => sendAccepted(exchange))
    server.raw(['/no'], (exchange) => {
      sendError(exchange, new ServiceError('invalid_api_key', 'no such key'))
    })
    server.raw(['/broken'], () => {
      throw new TypeError('broken')
    })
    server.routes([{ method: 'GET', path: '/api/private/', handler: () => json(1) }])
  })
  const ask = (path: string, headers: string) =>
    talk(port, `GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`, { answers: 1, waitMs: 300 })
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
    t.notMatch((await ask(path, headers)).text, /access-control|vary/i, 'none without Origin')
  }
  t.notMatch((await ask('/api/private', origin)).text, /access-control|vary/i)
  t.notMatch((await ask('/no', '')).text, /www-authenticate/i, 'that is for private routes')
})
