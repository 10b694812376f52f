/**
 * Tests erasures on machines of which one copies events to ClickHouse. A receipt is complete only when the copies are
 * erased, too, whichever machine is killed or away meanwhile, and no erased event stays.
 *
 * @lane cluster
 */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { ClickHouseServer, isClickHouseMissing } from '../fixtures/clickhouse/clickhouse-server.ts'
import { areBrokersMissing, Brokers } from '../fixtures/cluster/brokers.ts'
import { Node } from '../fixtures/cluster/nodes.ts'
import { PERSONAL_KEY, PROJECT_KEY } from '../fixtures/daemon.ts'
import { eventually } from '../fixtures/timed-command.ts'

const skip = areBrokersMissing === false ? isClickHouseMissing : areBrokersMissing
const run = promisify(execFile)
const ERASURES = '/api/projects/1/erasures/'
/** Longer than machines need to report that a job is done. They check every second at the latest. */
const STILL_MS = 2500

t.setTimeout(240_000)

interface Receipt {
  readonly id: number
  readonly status: string
  readonly events_removed: number
}

async function post({ url }: Node, path: string, body: object): Promise<unknown> {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' }
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text}`)
  return JSON.parse(text)
}

async function send(node: Node, names: readonly string[]): Promise<void> {
  const batch = names.flatMap((name) =>
    Array.from({ length: 10 }, () => ({ event: 'seen', distinct_id: name, properties: {} })),
  )
  await post(node, '/batch/', { api_key: PROJECT_KEY, batch })
}

async function erase(node: Node, name: string): Promise<number> {
  return ((await post(node, ERASURES, { distinct_id: name })) as Receipt).id
}

/** Null means that this machine has not received the job. */
async function receipt(node: Node, id: number): Promise<Receipt | null> {
  const lines = await node.text(ERASURES)
  const { results } = JSON.parse(lines) as { readonly results: readonly Receipt[] }
  return results.find((one) => one.id === id) ?? null
}

/** Waits until a machine has erased in its own store. */
const erasedHere = (node: Node, id: number): Promise<boolean> =>
  eventually(async () => (await receipt(node, id))?.events_removed === 10)

const isDone = (node: Node, id: number): Promise<boolean> =>
  eventually(async () => (await receipt(node, id))?.status === 'done')

/** The people with events in ClickHouse. */
async function namesIn(server: ClickHouseServer): Promise<string> {
  const sql = 'SELECT DISTINCT distinct_id FROM events.tenrec_events ORDER BY distinct_id'
  return (await server.ask(sql).catch(() => '')).replaceAll('\n', ' ')
}

async function command(...args: readonly string[]): Promise<string> {
  const ran = await run(process.execPath, ['dist/main.js', ...args]).catch(
    (error: unknown) => error,
  )
  const { stdout, stderr } = ran as { readonly stdout: string; readonly stderr: string }
  return stdout + stderr
}

t.test('receipts wait for the one machine that has a warehouse', { skip }, async (t) => {
  const folder = t.testdir({})
  const clickhouse = await ClickHouseServer.start(t, folder)
  const brokers = await Brokers.start(t, folder)
  const plain = new Node(t, folder, 'plain', brokers.addresses)
  const args = ['--warehouse', clickhouse.address]
  const copying = new Node(t, folder, 'copying', brokers.addresses, args)
  await plain.start()
  await copying.start()
  await send(plain, ['ann', 'bob', 'cy', 'di', 'eve'])
  const isCopied = () => eventually(async () => (await namesIn(clickhouse)) === 'ann bob cy di eve')
  t.ok(await isCopied(), 'all events are copied')

  await clickhouse.kill()
  const bob = await erase(plain, 'bob')
  for (const node of [plain, copying]) t.ok(await erasedHere(node, bob))
  await sleep(STILL_MS)
  t.match(
    await receipt(plain, bob),
    { status: 'running' },
    'the stores have erased the events, the copy has not',
  )
  await copying.kill()
  await copying.start()
  await plain.kill()
  await plain.start()
  await sleep(STILL_MS)
  t.match(await receipt(plain, bob), { status: 'running' }, 'a restart does not lose this state')
  clickhouse.begin()
  for (const node of [plain, copying]) t.ok(await isDone(node, bob))
  t.equal(await namesIn(clickhouse), 'ann cy di eve', 'nothing is left when the job is done')

  await copying.kill()
  const cy = await erase(plain, 'cy')
  t.ok(await erasedHere(plain, cy))
  await sleep(STILL_MS)
  t.match(await receipt(plain, cy), { status: 'running' }, 'the machine that copies is away')
  const status = ['cluster', 'status', '--data-dir', plain.dataDir]
  t.match(await command(...status), /Receipts of erasures wait for the warehouse 127\.0\.0\.1:/)
  await copying.start()
  t.ok(await isDone(plain, cy))
  t.equal(await namesIn(clickhouse), 'ann di eve')

  // The machine that recorded no warehouse was first, so no receipt shows the pending erasure.
  await clickhouse.kill()
  const di = await erase(plain, 'di')
  t.ok(await erasedHere(copying, di))
  const forget = ['cluster', 'forget-warehouse', '--data-dir', plain.dataDir]
  t.match(await command(...forget), /Restart it without the setting `warehouse` first/)
  await copying.kill()
  t.match(await command(...forget), /forgotten/)
  t.ok(await isDone(plain, di), 'an operator ends the wait')
  await copying.start()
  t.ok(await isDone(copying, di))
  await copying.kill()
  clickhouse.begin()
  await copying.start()
  t.ok(
    await eventually(async () => (await namesIn(clickhouse)) === 'ann eve'),
    'the copies are erased nevertheless',
  )
  const other = ['--warehouse', clickhouse.address.replace(/events$/, 'others')]
  await copying.stop()
  const second = new Node(t, folder, 'copying', brokers.addresses, other)
  await t.rejects(second.start(), /The cluster has the warehouse 127\.0\.0\.1:\d+\/events/)
})
