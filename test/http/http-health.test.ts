/**
 * Health checks and metrics as monitoring systems see them.
 *
 * @lane quick
 */
import t from 'tap'
import { healthRoutes } from '../../src/http/routes/health.ts'
import { jsonOf, startServer, talk } from '../fixtures/http-client.ts'

const reasons: string[] = []
const troubles: string[] = []
let isServing = false
const { port, server } = await startServer(t, (server, _budget, metrics) => {
  const readiness = () => ({ isReady: reasons.length === 0, isServing, reasons, troubles })
  const source = { httpServer: server.libraryName, readiness }
  server.routes(healthRoutes(source, metrics.page))
})

const ask = (path: string, method = 'GET') =>
  talk(port, `${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`, { answers: 1 })

t.test('a ready daemon answers 200 on all health routes', async (t) => {
  for (const path of ['/_livez', '/_readyz', '/_livez/']) {
    const received = await ask(path)
    t.same([received.statuses, jsonOf(received)], [[200], { status: 'ok', reasons: [] }], path)
  }
  const health = await ask('/_health')
  t.same(health.statuses, [200])
  t.same(jsonOf(health), { status: 'ok', reasons: [], http_server: server.libraryName })
})

t.test('a daemon that is not ready is alive and answers 503 with the reasons', async (t) => {
  reasons.push('the disk is full')
  t.teardown(() => reasons.pop())
  t.same((await ask('/_livez')).statuses, [200])
  for (const path of ['/_readyz', '/_health']) {
    const received = await ask(path)
    t.same(received.statuses, [503])
    t.match(jsonOf(received), { status: 'unavailable', reasons: ['the disk is full'] })
  }
})

t.test(
  'if only events are refused, health is degraded, because decisions and reads still work',
  async (t) => {
    reasons.push('the disk is full')
    isServing = true
    t.teardown(() => reasons.pop())
    t.same((await ask('/_readyz')).statuses, [503])
    const received = await ask('/_health')
    t.same(received.statuses, [200])
    t.match(jsonOf(received), { status: 'degraded', reasons: ['the disk is full'] })
  },
)

t.test('if data is damaged, events are accepted and health is degraded', async (t) => {
  troubles.push('records are damaged')
  isServing = true
  t.teardown(() => troubles.pop())
  const ready = await ask('/_readyz')
  t.same([ready.statuses, jsonOf(ready)], [[200], { status: 'ok', reasons: [] }])
  const received = await ask('/_health')
  t.same(received.statuses, [200])
  t.match(jsonOf(received), { status: 'degraded', reasons: ['records are damaged'] })
})

t.test('metrics are in the Prometheus text format', async (t) => {
  const received = await ask('/metrics')
  t.same(received.statuses, [200])
  t.match(received.text, /content-type: text\/plain; version=0\.0\.4; charset=utf-8\r\n/i)
  t.match(received.text, 'http_connections 1\n')
  t.match(received.text, `http_server_info{server="${server.libraryName}"} 1\n`)
  t.match(received.text, /build_info\{version="1\.2\.3",node_version="[0-9.]+"\} 1\n/)
  const posted = await ask('/metrics', 'POST')
  t.same(posted.statuses, [405])
  t.match(posted.text, /allow: GET, HEAD\r\n/i)
})
