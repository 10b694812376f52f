/**
 * What happened to events that are not stored, and dead letters, over HTTP.
 *
 * @lane quick
 */
import t from 'tap'
import { formatUuid } from '../../../src/base/ids.ts'
import { RECORD_IP_ANONYMIZED } from '../../../src/rules/capture/log-block.ts'
import { FATE_SAMPLES_MAX } from '../../../src/rules/events/limits.ts'
import { ProcessingWriter } from '../../../src/store/events/write/processing-writer.ts'
import {
  PERSONAL_KEY,
  serveDecisions,
  startDecisions,
} from '../../fixtures/flags/decision-daemon.ts'
import { OrganizationDaemon } from '../../fixtures/organization-daemon.ts'
import { eventInput, uuidOf } from '../../fixtures/stored-events.ts'

t.setTimeout(300_000)

const uuidText = (number: number): string => formatUuid(uuidOf(number), 0)
const ORIGIN = {
  flags: 0,
  arrivedAtMs: Date.UTC(2024, 0, 15),
  sentAtMs: Number.NaN,
  address: '',
  uuid: uuidOf(40),
}

/** A store with records that no client can cause: dead letters, and an erased event that is still in the index. */
const empty = await startDecisions(t, 2)
await empty.stop()
const { dataDir } = empty
const writer = new ProcessingWriter({ dataDir, tableEntriesMax: 1 })
writer.add(eventInput({ uuid: uuidOf(50), name: 'gone', distinctId: 'ann' }))
writer.commit(writer.readPosition())
writer.warehouse.writeIndex?.()
while (writer.warehouse.maintain(1000));
const raw = Buffer.from(`{"event":"broken","uuid":"${uuidText(40)}","x":"${'é'.repeat(5000)}"}`)
const letter = { projectId: 1, step: 'process', reason: 'Error: odd', raw, origin: ORIGIN }
writer.beginBlock(Date.UTC(2024, 0, 16))
writer.addDeadLetter(letter)
writer.addDeadLetter({ ...letter, origin: { ...ORIGIN, flags: RECORD_IP_ANONYMIZED } })
writer.addDeadLetter({ projectId: 0, step: 'read', reason: 'Error: x', raw: Buffer.from([255, 0]) })
writer.commit(writer.readPosition())
await writer.close()

const daemon = await serveDecisions(t, dataDir)
const organization = new OrganizationDaemon(daemon)
t.teardown(() => organization.store.close())

interface Fate {
  readonly reason: string
  readonly count: number
  readonly last_seen_at: string
  readonly sentence: string
  readonly samples: readonly Readonly<Record<string, unknown>>[]
}

async function fates(key = PERSONAL_KEY, project = 1): Promise<readonly Fate[]> {
  const path = `projects/${project}/ingestion_fates/`
  const { status, body } = await organization.ask('GET', path, undefined, key)
  if (status !== 200) throw new Error(JSON.stringify(body))
  return body['results'] as readonly Fate[]
}

const fate = (uuid: string, project = 1) => daemon.api('GET', `events/${uuid}/fate/`, project)

t.test(
  'an event without distinct_id is reported with its reason, a remedy and a sample',
  async (t) => {
    const uuid = uuidText(1)
    await daemon.capture([{ event: 'opened', uuid, properties: { plan: 'pro' } }])
    const [lost] = (await fates()).filter(({ reason }) => reason === 'no_distinct_id')
    t.match(lost, { count: 1, sentence: /as "distinct_id"/, samples: [{ event: 'opened', uuid }] })
    t.match(lost?.samples[0]?.['body'], /"plan":"pro"/)
    t.match(await fate(uuid), {
      status: 200,
      body: {
        uuid,
        status: 'dropped',
        reason: 'no_distinct_id',
        event: 'opened',
        distinct_id: null,
        detail: /as "distinct_id"/,
        received_at: /^20/,
        data: /"plan":"pro"/,
      },
    })
    t.match((await fate(uuid, 2)).body, { status: 'unknown' })
  },
)

t.test('a stored event and its duplicates are reported', async (t) => {
  const uuid = uuidText(2)
  const event = { event: 'bought', distinct_id: 'ann', uuid }
  await daemon.capture([event, event])
  const stored = await fate(uuid.toUpperCase())
  t.match(stored.body, {
    uuid,
    status: 'stored',
    reason: null,
    event: 'bought',
    distinct_id: 'ann',
    warnings: [],
    dead_letter: null,
    data: null,
  })
  const [copies] = (await fates()).filter(({ reason }) => reason === 'duplicate')
  t.match(copies, { count: 1, samples: [] })
  const arrivedAt = String(stored.body['received_at'])
  t.equal(Date.parse(copies?.last_seen_at ?? ''), Date.parse(arrivedAt), 'the moment, not the hour')
  t.match((await fate(uuidText(3))).body, { status: 'unknown', received_at: null, event: null })
  t.match(await fate('none'), { status: 404, body: { code: 'not_found' } })
})

t.test('a dead letter and an event without any trace are reported', async (t) => {
  t.match((await fate(uuidText(40))).body, {
    status: 'dead_letter',
    reason: 'dead_letter',
    dead_letter: 1,
    detail: /Error: odd/,
    received_at: /^2024-01-15/,
    processed_at: /^2024-01-16/,
  })
  t.match((await fate(uuidText(50))).body, { status: 'stored', event: 'gone' })
  const json = { event: 'gone' }
  const { status, body } = await daemon.api('POST', 'erasures/', 1, json)
  t.ok(status < 300, JSON.stringify(body))
  await daemon.until(async () => (await fate(uuidText(50))).body['status'] === 'erased')
})

t.test('refused requests are reported to the projects that they may concern', async (t) => {
  const bad = (json: object, projectId: number) =>
    daemon.ask('/batch/', { json: { api_key: daemon.key(projectId), ...json } })
  t.equal((await bad({ batch: 1 }, 1)).status, 400)
  const stranger = await daemon.ask('/batch/', {
    json: {
      api_key: 'phc_nobody',
      batch: [{ event: 'x', properties: { password: 'hunter2', Cookie: 'sid=s3cret' } }],
      personal: 'phx_secret',
    },
  })
  t.equal(stranger.status, 401)
  const narrow = organization.keyOf({ userId: 1, projectIds: [1] })
  await organization.settled()
  const all = await fates()
  const own = all.find(({ reason }) => reason === 'invalid_payload')
  t.match(own, { count: 1, samples: [{ detail: /./, body: /"batch":1/ }] })
  const anybodys = all.find(({ reason }) => reason === 'invalid_api_key')
  t.match(anybodys, { count: 1, samples: [{ body: /\[redacted\]/ }] })
  t.notMatch(JSON.stringify(all), /phx_secret|hunter2|s3cret/)
  t.match(JSON.stringify(anybodys), /phc_nobody/, 'the project key that was not found')
  const seen = (await fates(narrow)).map(({ reason }) => reason)
  t.ok(seen.includes('invalid_payload') && !seen.includes('invalid_api_key'))
  t.notOk((await fates(PERSONAL_KEY, 2)).some(({ reason }) => reason === 'invalid_payload'))
  for (let number = 0; number < 30; number++) await bad({ batch: number }, 1)
  const many = (await fates()).find(({ reason }) => reason === 'invalid_payload')
  t.match([many?.count, many?.samples.length], [31, FATE_SAMPLES_MAX])
})

t.test('dead letters are listed for administrators, newest first', async (t) => {
  const list = (query = '', key = PERSONAL_KEY) =>
    organization.ask('GET', `organizations/@current/dead_letters/${query}`, undefined, key)
  const { status, body } = await list()
  t.equal(status, 200)
  t.match(body, {
    count: 3,
    next: null,
    previous: null,
    results: [
      { number: 3, project: null, step: 'read', bytes: 2, body: null },
      { number: 2, project: 1, step: 'process', body: null },
      {
        number: 1,
        project: 1,
        reason: 'Error: odd',
        bytes: raw.length,
        body: /^{"event":"broken"/,
      },
    ],
  })
  const [, , first] = body['results'] as readonly { readonly body: string }[]
  t.notMatch(first?.body, '\uFFFD', 'no half of a surrogate pair')
  const page = (await list('?limit=1&offset=1')).body
  t.match(page, { count: 3, next: /offset=2/, previous: /./, results: [{ number: 2 }] })
  const member = organization.somebody({ email: 'member@example.com', level: 1 })
  await organization.settled()
  t.equal((await list('', member.key)).status, 403)
})

t.test('refused requests survive a restart', async (t) => {
  const refused = (all: readonly Fate[]) =>
    all.filter(({ reason }) => reason === 'invalid_payload' || reason === 'invalid_api_key')
  const before = refused(await fates())
  t.equal(before.length, 2)
  await daemon.stop()
  const next = await serveDecisions(t, dataDir)
  const { body } = await next.api('GET', 'ingestion_fates/')
  t.strictSame(refused(body['results'] as readonly Fate[]), before)
})
