/**
 * Tests a daemon with a warehouse when the daemon is killed, when ClickHouse is not available, and under load.
 *
 * @lane cluster
 */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { formatUuid } from '../../src/base/ids.ts'
import { ClickHouseServer, isClickHouseMissing } from '../fixtures/clickhouse/clickhouse-server.ts'
import { runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { uuidOf } from '../fixtures/stored-events.ts'
import { eventually } from '../fixtures/timed-command.ts'

t.setTimeout(300_000)

async function send(daemon: SpawnedDaemon, first: number, count: number): Promise<void> {
  const batch = Array.from({ length: count }, (_, index) => ({
    event: 'bought',
    distinct_id: `user-${index % 10}`,
    uuid: formatUuid(uuidOf(first + index), 0),
    properties: { price: index },
  }))
  const answer = await fetch(`${daemon.url}/batch/`, {
    method: 'POST',
    body: JSON.stringify({ api_key: PROJECT_KEY, batch }),
    headers: { 'Content-Type': 'application/json' },
  })
  if (answer.status !== 200) throw new Error(await answer.text())
}

async function textOf(daemon: SpawnedDaemon, path: string): Promise<string> {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  return await (await fetch(`${daemon.url}${path}`, { headers })).text()
}

async function metric(daemon: SpawnedDaemon, name: string): Promise<number> {
  const [, value] = new RegExp(`^${name} (\\S+)$`, 'm').exec(await textOf(daemon, '/metrics')) ?? []
  return Number(value)
}

async function countIs(server: ClickHouseServer, count: number): Promise<boolean> {
  try {
    const sql =
      'SELECT uniqExact(uuid), uniqExact(sequence), max(sequence) FROM events.tenrec_events'
    return (await server.ask(sql)) === [count, count, count].join('\t')
  } catch {
    return false
  }
}

t.test('a daemon with a warehouse', { skip: isClickHouseMissing }, async (t: Test) => {
  const folder = t.testdir({})
  const server = await ClickHouseServer.start(t, folder)
  const options = {
    dataDir: join(folder, 'data'),
    args: ['--workers', '1'],
    env: { TENREC_WAREHOUSE: server.address },
  }
  let daemon = await spawnDaemon(options)
  t.teardown(() => daemon.kill())

  await send(daemon, 0, 500)
  t.ok(await eventually(() => countIs(server, 500)), 'stored events are copied')
  t.equal(await metric(daemon, 'warehouse_away'), 0)

  const doctor = async () => {
    const { out } = await runCommand(
      'doctor',
      '--json',
      '--data-dir',
      options.dataDir,
      '--warehouse',
      server.address,
    )
    const lines = out.split('\n').filter(Boolean)
    const findings = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    return findings.find(({ check }) => check === 'warehouse')
  }
  t.match(await doctor(), { verdict: 'ok', message: 'ClickHouse answers' })
  await server.kill()
  const finding = await doctor()
  t.match(finding, {
    verdict: 'warning',
    message: /no events are copied: .*does not answer: \w+/,
  })
  t.notMatch(JSON.stringify(finding), 'secret')
  await send(daemon, 500, 500)
  t.ok(
    await eventually(async () => (await metric(daemon, 'warehouse_away')) === 1),
    'ClickHouse is away',
  )
  const health = JSON.parse(await textOf(daemon, '/_health')) as Record<string, unknown>
  t.match(health, {
    status: 'degraded',
    reasons: [/^No events are copied to the warehouse: ClickHouse/],
  })
  t.equal(await metric(daemon, 'warehouse_waiting_events'), 500)
  t.ok((await metric(daemon, 'warehouse_lag_seconds')) > 0)
  await daemon.kill()
  daemon = await spawnDaemon(options)
  t.equal(
    (await textOf(daemon, '/_readyz')).includes('"ok"'),
    true,
    'the daemon starts without ClickHouse',
  )
  await send(daemon, 1000, 500)

  server.begin()
  t.ok(
    await eventually(() => countIs(server, 1500)),
    'ClickHouse receives the events of the meantime',
  )
  t.ok(await eventually(async () => (await metric(daemon, 'warehouse_waiting_events')) === 0))
  t.equal(await metric(daemon, 'warehouse_away'), 0)

  const sending = (async () => {
    for (let first = 1500; first < 9500; first += 100) await send(daemon, first, 100)
  })()
  await new Promise((resolve) => setTimeout(resolve, 300))
  await server.kill()
  server.begin()
  await sending
  await daemon.kill()
  daemon = await spawnDaemon(options)
  t.ok(await eventually(() => countIs(server, 9500)), 'both were killed: each event is copied once')
  await server.kill()
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' }
  const erasures = `${daemon.url}/api/projects/1/erasures/`
  const body = JSON.stringify({ distinct_id: 'user-3' })
  t.equal((await fetch(erasures, { method: 'POST', headers, body })).status, 202)
  const status = async () => {
    const { status } = JSON.parse(await textOf(daemon, '/api/projects/1/erasures/1/')) as Record<
      string,
      unknown
    >
    return status
  }
  t.ok(await eventually(async () => (await metric(daemon, 'warehouse_waiting_erasures')) === 1))
  t.equal(await status(), 'running', 'a receipt waits for the copies')
  server.begin()
  const isErased = await eventually(async () => (await status()) === 'done')
  const mutations = await server.ask('SELECT command, is_done FROM system.mutations')
  t.ok(isErased, `erased in ClickHouse: ${mutations}, ${await textOf(daemon, '/_health')}`)
  const left = "SELECT count(), countIf(distinct_id = 'user-3') > 0 FROM events.tenrec_events FINAL"
  t.match(await server.ask(left), /^85\d\d\t0$/)
  const lines = daemon.lastLines()
  t.same((await daemon.stop()).code, 0)
  const said = [lines, daemon.lastLines()].join('\n')
  t.notMatch(said, 'secret')
})
