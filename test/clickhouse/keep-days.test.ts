/**
 * Tests a daemon that keeps the properties of old events only in ClickHouse.
 *
 * @lane cluster
 */
import { join } from 'node:path'
import t from 'tap'
import { COPY_SETTLED_MS } from '../../src/clickhouse/limits.ts'
import { ClickHouseServer, isClickHouseMissing } from '../fixtures/clickhouse/clickhouse-server.ts'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { eventuallyRead as eventually } from '../fixtures/timed-command.ts'

const EVENTS = 7000
const BATCH = 500
/** Stands for an answer that began and did not end. */
const CUT_OFF = 'cut off'

t.setTimeout(300_000)

interface Answer {
  readonly status: number
  readonly text: string
}

async function ask(daemon: SpawnedDaemon, path: string, body?: unknown): Promise<Answer> {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' }
  const method = body === undefined ? 'GET' : 'POST'
  const answer = await fetch(`${daemon.url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  // URLs of further pages have another port after each start.
  const text = (await answer.text().catch(() => CUT_OFF)).replaceAll(daemon.url, '')
  return { status: answer.status, text }
}

/** Queries persons by an event property, an export and a list. */
async function answers(daemon: SpawnedDaemon): Promise<readonly Answer[]> {
  const query = {
    kind: 'TrendsQuery',
    series: [{ kind: 'EventsNode', event: 'bought', math: 'sum', math_property: 'price' }],
    breakdownFilter: { breakdown: 'plan', breakdown_type: 'event' },
    dateRange: { date_from: '2026-03-01', date_to: '2026-03-31' },
  }
  const trends = await ask(daemon, '/api/projects/1/query/', { query })
  const results =
    trends.status === 200
      ? JSON.stringify((JSON.parse(trends.text) as Record<string, unknown>)['results'])
      : trends.text
  const exported = await ask(daemon, '/api/projects/1/events/export/?format=ndjson&limit=7000')
  const listed = await ask(daemon, '/api/projects/1/events/?distinct_id=user-3&limit=50')
  return [{ status: trends.status, text: results }, exported, listed]
}

async function metric(daemon: SpawnedDaemon, name: string): Promise<number> {
  const { text } = await ask(daemon, '/metrics')
  const [, value] = new RegExp(`^${name} (\\S+)$`, 'm').exec(text) ?? []
  return Number(value)
}

t.test(
  'old events leave their properties to ClickHouse',
  { skip: isClickHouseMissing },
  async (t) => {
    const folder = t.testdir({})
    const server = await ClickHouseServer.start(t, folder)
    const options = (keepDays: string | null) => ({
      dataDir: join(folder, 'data'),
      args: ['--workers', '1', ...(keepDays === null ? [] : ['--warehouse-keep-days', keepDays])],
      env: { TENREC_WAREHOUSE: server.address },
    })
    let daemon = await spawnDaemon(options(null))
    t.teardown(() => daemon.kill())
    for (let first = 0; first < EVENTS; first += BATCH) {
      const batch = Array.from({ length: BATCH }, (_, index) => ({
        event: (first + index) % 3 === 0 ? 'viewed' : 'bought',
        distinct_id: `user-${(first + index) % 20}`,
        timestamp: new Date(Date.UTC(2026, 2, 1) + (first + index) * 300_000).toISOString(),
        properties: { plan: ['free', 'pro', "it's"][index % 3], price: index / 4, tags: [index] },
      }))
      const { status } = await ask(daemon, '/batch/', { api_key: PROJECT_KEY, batch })
      t.equal(status, 200)
    }
    const count = 'SELECT uniqExact(sequence) FROM events.tenrec_events'
    t.ok(await eventually(async () => (await server.ask(count).catch(() => '')) === String(EVENTS)))
    const before = await answers(daemon)
    t.strictSame(
      before.map(({ status }) => status),
      [200, 200, 200],
    )
    await daemon.stop()

    daemon = await spawnDaemon(options('0'))
    // Not before ClickHouse has them on disk.
    await new Promise((resolve) => setTimeout(resolve, COPY_SETTLED_MS))
    t.equal(await metric(daemon, 'warehouse_segments_total'), 0)
    t.ok(await eventually(async () => (await metric(daemon, 'warehouse_segments_total')) > 0))
    t.strictSame(await answers(daemon), before, 'while they leave')
    await daemon.kill()
    daemon = await spawnDaemon(options('0'))
    t.strictSame(await answers(daemon), before, 'and after a kill')

    await daemon.kill()
    await server.kill()
    daemon = await spawnDaemon(options('0'))
    const without = await answers(daemon)
    t.equal(without[0]?.status, 503)
    t.match(
      without[0]?.text,
      'Some of these events are in ClickHouse, which does not answer. Try again later.',
    )
    t.ok(
      without[1]?.status !== 200 || without[1].text === CUT_OFF,
      'an export does not end normally',
    )
    const batch = [{ event: 'viewed', distinct_id: 'user-3', properties: { plan: 'late' } }]
    t.equal((await ask(daemon, '/batch/', { api_key: PROJECT_KEY, batch })).status, 200)
    const body = { distinct_id: 'user-3' }
    t.equal((await ask(daemon, '/api/projects/1/erasures/', body)).status, 202)
    const receipt = async () =>
      JSON.parse((await ask(daemon, '/api/projects/1/erasures/1/')).text) as Record<string, unknown>
    await new Promise((resolve) => setTimeout(resolve, 1500))
    t.match(
      await receipt(),
      { status: 'running' },
      'the erasure waits until ClickHouse has the events',
    )

    server.begin()
    t.ok(
      await eventually(async () => (await receipt())['status'] === 'done'),
      'the erasure waits, and continues',
    )
    const after = await answers(daemon)
    const lines = before[1]?.text.split('\n').filter((line) => !line.includes('"user-3"'))
    t.strictSame(after[1]?.text.split('\n'), lines, 'the others are as they were')
    t.match(after[2], { status: 200, text: /"results":\[\]/ })
    t.equal(
      await server.ask("SELECT count() FROM events.tenrec_events WHERE distinct_id = 'user-3'"),
      '0',
    )
  },
)
