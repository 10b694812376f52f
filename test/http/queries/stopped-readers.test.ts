/**
 * Clients request large answers and stop reading. Other clients are answered in the meantime.
 *
 * @lane quick
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { PERSONAL_KEY, startDecisions } from '../../fixtures/flags/decision-daemon.ts'

const READERS = 20
const ROWS = 5000

t.test('a count does not wait for event lists that are not read', async (t) => {
  const daemon = await startDecisions(t, 1, { 'analytics-threads': '1' })
  await daemon.capture(
    Array.from({ length: ROWS }, (_, number) => ({
      event: 'view',
      distinct_id: `d${number % 500}`,
      timestamp: '2023-01-02T12:00:00Z',
      properties: { number, text: 'x'.repeat(200) },
    })),
  )
  const sumOf = async (metric: RegExp): Promise<number> => {
    const text = await (await fetch(`${daemon.url}/metrics`)).text()
    const lines = text.split('\n').filter((line) => metric.test(line))
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
  }
  const { hostname, port } = new URL(daemon.url)
  const query = { kind: 'EventsQuery', select: ['*', 'person'], after: '2023-01-01', limit: 50_000 }
  const source = { kind: 'DataTableNode', source: query }
  await Promise.all(
    Array.from({ length: READERS }, async (_, index) => {
      const body = JSON.stringify({ query: index % 2 === 0 ? query : source })
      const socket = connect(Number(port), hostname)
      t.teardown(() => socket.destroy())
      await once(socket, 'connect')
      socket.pause()
      socket.write(
        [
          'POST /api/projects/1/query/ HTTP/1.1',
          'Host: tenrec',
          `Authorization: Bearer ${PERSONAL_KEY}`,
          'Content-Type: application/json',
          `Content-Length: ${body.length}`,
          '',
          body,
        ].join('\r\n'),
      )
    }),
  )
  await daemon.until(async () => (await sumOf(/^worker_queue_depth.*analytics/)) > READERS / 2)
  const { status } = await daemon.api('POST', 'query/', 1, {
    query: { kind: 'TrendsQuery', series: [{ event: 'view' }], dateRange: { date_from: 'all' } },
  })
  const before = await sumOf(/^queries_total.*(EventsQuery|DataTableNode)/)
  t.equal(status, 200)
  t.ok(before < READERS / 2, `${before} lists were made before`)
})
