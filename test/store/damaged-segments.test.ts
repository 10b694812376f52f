/**
 * Tests damage within event segments, one record at a time. Every answer is complete or 500 `data_corrupted`, health
 * and metrics report the damage, `verify` finds it, and new events are stored.
 *
 * @lane all
 */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Environment, type Table } from '../../src/store/lmdb/environment.ts'
import { EVENTS_ENVIRONMENT, EVENTS_TABLES, pairKey } from '../../src/store/lmdb/keys.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { Differences } from '../fixtures/differences.ts'
import { closeConnections } from '../fixtures/exact-client.ts'
import {
  type DecisionDaemon,
  serveDecisions,
  startDecisions,
} from '../fixtures/flags/decision-daemon.ts'

t.teardown(closeConnections)
t.setTimeout(300_000)

const FLAGS = { 'public-url': 'http://tenrec.test', 'log-level': 'fatal' }
const BATCHES = 3
const DAY_MS = 86_400_000
const START_MS = Date.parse('2026-03-01T00:00:00Z')

const uuidOf = (batch: number, index: number): string =>
  `0195f000-0000-7000-8000-0000000${batch}000${index}`

const SERIES = encodeURIComponent(JSON.stringify([{ id: 'opened' }, { id: 'paid', order: 1 }]))
const SPAN = 'date_from=2026-02-27&date_to=2026-03-10'

/** A request: its method, path and body. */
const QUESTIONS: readonly (readonly [method: string, path: string, body?: object])[] = [
  ['GET', 'events/'],
  ['GET', 'events/?limit=2'],
  ['GET', 'events/?event=paid'],
  ['GET', 'events/?distinct_id=ann'],
  ['GET', 'events/?after=2026-03-02T12:00:00Z'],
  ['GET', `events/?properties=${encodeURIComponent('[{"key":"step","value":"2"}]')}`],
  ...Array.from({ length: BATCHES }, (_, batch) => ['GET', `events/${uuidOf(batch, 1)}/`] as const),
  ['GET', 'events/0195f000-0000-7000-8000-00000000ffff/'],
  ['GET', 'persons/'],
  ['GET', `persons/trends/?entity_id=opened&entity_type=events&${SPAN}`],
  [
    'GET',
    `persons/trends/?entity_id=paid&entity_type=events&date_from=2026-03-03&date_to=2026-03-10`,
  ],
  ['GET', `persons/stickiness/?entity_id=opened&entity_type=events&stickiness_days=1&${SPAN}`],
  ['GET', `persons/funnel/?events=${SERIES}&funnel_step=1&${SPAN}`],
  ['GET', `persons/lifecycle/?events=${SERIES}&lifecycle_type=new&target_date=2026-03-01&${SPAN}`],
  ['GET', `persons/path/?step_limit=3&${SPAN}`],
  ['GET', `persons/trends/?format=csv&entity_id=opened&entity_type=events&${SPAN}`],
  ['POST', 'erasures/', { distinct_id: 'ann', dry_run: true }],
  ['PUT', 'retention/', { days: 1, dry_run: true }],
]

async function ask(daemon: DecisionDaemon, person: string): Promise<readonly string[]> {
  const answers: string[] = []
  const timeline = `persons/${person}/properties_timeline/?${SPAN}`
  for (const [method, path, body] of [...QUESTIONS, ['GET', timeline] as const]) {
    const headers = {
      Authorization: 'Bearer phx_owner_of_everything',
      'Content-Type': 'application/json',
    }
    const answer = await fetch(`${daemon.url}/api/projects/1/${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = (await answer.text()).replace(/"last_refresh":"[^"]+"/, '')
    answers.push(`${answer.status} ${text}`)
  }
  return answers
}

/** The second of three segments begins at this sequence number. Each batch ends with the event that it waits for. */
const FIRST = pairKey(1, 7)
const HEADERS = 'segment_headers'
const GROUPS = 'segment_groups'

function entriesOf(table: Table, prefix: Buffer): readonly (readonly [Buffer, Buffer])[] {
  return [...table.getRange({})]
    .map(({ key, value }) => [Buffer.from(key), Buffer.from(value)] as const)
    .filter(([key]) => key.subarray(0, prefix.length).equals(prefix))
}

function flip(table: Table, count: number | null): void {
  const found = entriesOf(table, FIRST)
  if (found.length === 0) throw new Error('there is no such segment')
  for (const [key, value] of count === null ? found : found.slice(0, count)) {
    const middle = value.length >> 1
    value[middle] = (value[middle] ?? 0) ^ 4
    table.putSync(key, value)
  }
}

/** The damage to the middle segment. */
const DAMAGES: Readonly<Record<string, (table: (name: string) => Table) => void>> = {
  'a bit of the header turns over': (table) => flip(table(HEADERS), 1),
  'a bit of the first group turns over': (table) => flip(table(GROUPS), 1),
  'a bit of each group turns over': (table) => flip(table(GROUPS), null),
  'the header is gone': (table) => table(HEADERS).removeSync(FIRST),
  'the header lies under another key': (table) => {
    const [[, value] = [null, Buffer.alloc(0)]] = entriesOf(table(HEADERS), FIRST)
    table(HEADERS).removeSync(FIRST)
    table(HEADERS).putSync(pairKey(1, 9), value)
  },
  'a group is gone': (table) => {
    const [[key] = [FIRST]] = entriesOf(table(GROUPS), FIRST)
    table(GROUPS).removeSync(key)
  },
}

async function damage(dataDir: string, action: (table: (name: string) => Table) => void) {
  const environment = new Environment({ dataDir, name: EVENTS_ENVIRONMENT, tables: EVENTS_TABLES })
  environment.write(() => action((name) => environment.table(name)))
  await environment.close()
}

async function metric(daemon: DecisionDaemon, name: string): Promise<number> {
  const page = await (await fetch(`${daemon.url}/metrics`)).text()
  return Number(new RegExp(`^${name} ([0-9.]+)$`, 'm').exec(page)?.[1])
}

const healthOf = async (daemon: DecisionDaemon) => (await daemon.ask('/_health')).body

let store = ''
let person = ''
let whole: readonly string[] = []

t.before(async () => {
  const daemon = await startDecisions(t, 1, FLAGS)
  for (let batch = 0; batch < BATCHES; batch++) {
    const events = Array.from({ length: 5 }, (_, index) => ({
      uuid: uuidOf(batch, index),
      event: index % 2 === 0 ? 'opened' : 'paid',
      distinct_id: ['ann', 'bob', 'eve'][index % 3],
      timestamp: new Date(START_MS + batch * DAY_MS + index * 60_000).toISOString(),
      properties: { step: batch, $set: { plan: `plan ${batch}` } },
    }))
    await daemon.capture(events)
  }
  const { body } = await daemon.api('GET', 'events/?distinct_id=ann')
  const [event] = body['results'] as readonly { readonly person_id: string }[]
  person = event?.person_id ?? ''
  store = daemon.dataDir
  whole = await ask(daemon, person)
  await daemon.stop()
})

const copyOf = (t: Test): string => {
  const dataDir = join(t.testdir(), 'data')
  cpSync(store, dataDir, { recursive: true })
  return dataDir
}

t.test('without damage every request is answered, and health is fine', async (t) => {
  const differences = new Differences()
  for (const [index, answer] of whole.entries()) {
    differences.match(answer, /^(?:200|404) /, QUESTIONS[index]?.[1] ?? 'timeline')
  }
  const daemon = await serveDecisions(t, copyOf(t), FLAGS)
  for (const [index, answer] of (await ask(daemon, person)).entries()) {
    differences.equal(answer, whole[index], QUESTIONS[index]?.[1] ?? 'timeline')
  }
  t.strictSame(differences.list(), [], 'every question has its answer')
  t.match(await healthOf(daemon), { status: 'ok', reasons: [] })
  t.equal(await metric(daemon, 'store_damage_total'), 0)
})

for (const [what, action] of Object.entries(DAMAGES)) {
  t.test(`${what}: every answer is complete or refused`, async (t) => {
    const dataDir = copyOf(t)
    await damage(dataDir, action)
    t.ok((await verifyStore(dataDir, () => undefined)).findings.length > 0, 'verify finds it')
    const daemon = await serveDecisions(t, dataDir, FLAGS)
    const answers = await ask(daemon, person)
    const refused = answers.filter((answer) => answer.startsWith('500 '))
    const differences = new Differences()
    for (const [index, answer] of answers.entries()) {
      const name = QUESTIONS[index]?.[1] ?? 'timeline'
      if (answer.startsWith('500 ')) {
        const wanted = {
          type: 'server_error',
          code: 'data_corrupted',
          detail: /damaged.*tenrec verify.*restore/,
          attr: null,
        }
        differences.match(JSON.parse(answer.slice(4)), wanted, name)
      } else differences.equal(answer, whole[index], name)
    }
    t.strictSame(differences.list(), [], 'every answer is whole, or refused')
    t.ok(refused.length > 0, `${refused.length} of ${answers.length} are refused`)
    t.match(await healthOf(daemon), { status: 'degraded', reasons: [/tenrec verify/] })
    t.equal((await daemon.ask('/_readyz')).status, 200, 'events are accepted')
    t.ok((await metric(daemon, 'store_damage_total')) > 0)

    const late = '0195f000-0000-7000-8000-00000000aaaa'
    const batch = [{ uuid: late, event: 'late', distinct_id: 'ann' }]
    await daemon.ask('/batch/', { json: { api_key: daemon.key(), batch } })
    await daemon.until(async () => (await metric(daemon, 'ingest_queue_depth')) === 0)
    t.equal((await daemon.api('GET', `events/${late}/`)).status, 200, 'new events are stored')

    await daemon.api('PUT', 'retention/', 1, { days: 1 })
    const orders = [
      ['erasures/', { event: 'paid' }],
      ['retention/run/', {}],
    ] as const
    for (const [path, order] of orders) {
      const { status, body } = await daemon.api('POST', path, 1, order)
      t.equal(status, 202, path)
      let receipt: Readonly<Record<string, unknown>> = {}
      await daemon.until(async () => {
        receipt = (await daemon.api('GET', `erasures/${String(body['id'])}/`)).body
        return receipt['status'] !== 'running'
      })
      t.match(
        receipt,
        { status: 'incomplete', segments_unreadable: 1 },
        'the erasure reports the events it skipped',
      )
      t.ok(Number(receipt['events_removed']) >= 4, 'the erasure removes the other events')
    }
  })
}
