/**
 * Tests erasure of events: in the store, over HTTP, from the command line, and after an interruption.
 *
 * @lane all
 */
import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { formatUuid } from '../../src/base/ids.ts'
import type { ErasureCriteria, ErasureReceipt } from '../../src/rules/events/erasure.ts'
import type { EventReader } from '../../src/store/events/read/event-reader.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_TABLES } from '../../src/store/lmdb/keys.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { linesOf, runCommand } from '../fixtures/command-line.ts'
import {
  PROJECT_KEY,
  PERSONAL_KEY as SPAWNED_PERSONAL_KEY,
  type SpawnedDaemon,
  spawnDaemon,
} from '../fixtures/daemon.ts'
import { untilStored } from '../fixtures/event-pages.ts'
import { closeConnections, jsonOf, postJson, send } from '../fixtures/exact-client.ts'
import { type DecisionDaemon, PERSONAL_KEY } from '../fixtures/flags/decision-daemon.ts'
import { type OrganizationDaemon, startOrganization } from '../fixtures/organization-daemon.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'
import { uuidOf } from '../fixtures/stored-events.ts'

const NO_CRITERIA: ErasureCriteria = {
  event: null,
  afterMs: null,
  beforeMs: null,
  distinctId: null,
  personId: null,
}
const RANGE = 'date_from=2023-05-01&date_to=2023-05-31'
const DAY = (day: number): string => `2023-05-${String(day).padStart(2, '0')}T00:00:00.000Z`

t.teardown(closeConnections)
t.setTimeout(300_000)

function uuidText(number: number): string {
  return formatUuid(uuidOf(number), 0)
}

/** Ten events of two people, one a day. Every second one is named `odd`. */
function tenEvents(): readonly Readonly<Record<string, unknown>>[] {
  return Array.from({ length: 10 }, (_, index) => ({
    uuid: uuidText(index),
    event: index % 2 === 0 ? 'even' : 'odd',
    distinct_id: index < 5 ? 'ann' : 'bob',
    timestamp: DAY(index + 1),
    properties: { secret: `text of ${index}`, $set: { n: index } },
  }))
}

async function initialized(t: Test): Promise<string> {
  const dataDir = join(t.testdir(), 'data')
  const { exitCode, err } = await runCommand('init', '--data-dir', dataDir)
  if (exitCode !== 0) throw new Error(err)
  return dataDir
}

function listed(reader: EventReader, projectId = 1): readonly string[] {
  const { results } = reader.listEvents({ projectId, limit: 1000 })
  return results.map(({ properties }) => String(properties['secret'])).sort()
}

/** Erases and waits until the erasure is done. */
function erase(log: PersonLog, criteria: Partial<ErasureCriteria>): ErasureReceipt {
  const result = log.run(1, { kind: 'erase_events', criteria: { ...NO_CRITERIA, ...criteria } })
  if (result.kind !== 'done' || result.erasure === undefined) throw new Error(result.kind)
  for (let round = 0; round < 100; round++) {
    log.process()
    const receipt = log.reader.erasures().receipt(1, result.erasure.id)
    if (receipt?.status === 'done') return receipt
  }
  throw new Error('the erasure never ended')
}

t.test(
  'events are erased by name, time, distinct_id and person; no others are erased',
  async (t) => {
    const ms = (day: number): number => Date.parse(DAY(day))
    const ann = (log: PersonLog): string =>
      log.reader.listEvents({ projectId: 1, limit: 1, distinctId: 'ann' }).results[0]?.person
        ?.uuid ?? ''
    const cases: readonly [
      string,
      (log: PersonLog) => Partial<ErasureCriteria>,
      gone: readonly number[],
    ][] = [
      ['by name', () => ({ event: 'odd' }), [1, 3, 5, 7, 9]],
      ['from a moment on', () => ({ afterMs: ms(8) }), [7, 8, 9]],
      ['before a moment', () => ({ beforeMs: ms(3) }), [0, 1]],
      ['half open', () => ({ afterMs: ms(3), beforeMs: ms(5) }), [2, 3]],
      ['all conditions', () => ({ event: 'odd', beforeMs: ms(6), distinctId: 'ann' }), [1, 3]],
      ['by distinct_id', () => ({ distinctId: 'bob' }), [5, 6, 7, 8, 9]],
      ['by person', (log) => ({ personId: ann(log) }), [0, 1, 2, 3, 4]],
      ['person and id', (log) => ({ personId: ann(log), distinctId: 'bob' }), []],
      ['an unknown id', () => ({ distinctId: 'nobody' }), []],
      ['an unknown name', () => ({ event: 'constructor' }), []],
    ]
    for (const [name, criteriaOf, gone] of cases) {
      const log = new PersonLog(t, t.testdir({ [name]: {} }))
      log.send(1, tenEvents())
      log.send(2, tenEvents())
      log.process()
      const criteria = criteriaOf(log)
      const wanted = { ...NO_CRITERIA, ...criteria }
      const estimate = log.reader.erasures().estimate(1, wanted)
      t.equal(estimate?.events, gone.length, `${name}: the estimate is right`)
      const receipt = erase(log, criteria)
      t.equal(receipt.events_removed, gone.length, `${name}: the receipt is right`)
      const kept = tenEvents().flatMap((_, index) => (gone.includes(index) ? [] : [index]))
      const texts = kept.map((index) => `text of ${index}`)
      t.strictSame(listed(log.reader), texts, name)
      t.equal(listed(log.reader, 2).length, 10, `${name}: the other project is unchanged`)
      for (const index of gone) t.equal(log.reader.getEvent(1, uuidText(index)), null)
      t.strictSame(log.reader.erasures().estimate(1, wanted), { events: 0, bytes: 0 })
    }
  },
)

t.test('erased events are gone everywhere, and later events stay', async (t) => {
  const dataDir = await initialized(t)
  const log = new PersonLog(t, dataDir)
  log.send(1, tenEvents())
  log.append(1, { kind: 'erase_events', criteria: { ...NO_CRITERIA, distinctId: 'ann' } })
  const late = { uuid: uuidText(70), event: 'late', distinct_id: 'ann', timestamp: DAY(2) }
  log.send(1, [{ ...late, properties: { secret: 'late' } }])
  for (let round = 0; round < 3; round++) log.process(true)
  t.equal(listed(log.reader).length, 11, 'stored events stay while the disk is short')
  for (let round = 0; round < 20; round++) log.process()
  const bobs = [5, 6, 7, 8, 9].map((index) => `text of ${index}`)
  t.strictSame(listed(log.reader), ['late', ...bobs])
  const exported = [...log.reader.exportEvents({ projectId: 1, afterId: 0 })]
  const rows = exported.flatMap(({ events }) => [...events])
  t.equal(rows.length, 6)
  t.notMatch(JSON.stringify(rows), /text of [0-4]/)
  const [receipt] = log.reader.erasures().list(1, 10, 0).results
  t.match(receipt, { id: 1, origin: 'request', status: 'done', events_removed: 5 })
  t.equal(log.reader.persons().list({ projectId: 1, limit: 10, offset: 0, nowMs: 2e12 }).count, 2)

  log.send(1, tenEvents().slice(0, 6))
  for (let round = 0; round < 5; round++) log.process()
  t.equal(listed(log.reader).length, 11, 'an erased event may be sent again, others are duplicates')

  log.append(1, { kind: 'erase_events', criteria: { ...NO_CRITERIA, event: 'odd' } })
  log.send(1, tenEvents())
  for (let round = 0; round < 3; round++) log.process(true)
  t.equal(listed(log.reader).length, 16, 'this holds before the erasure has run, too')
  for (let round = 0; round < 5; round++) log.process()
  t.equal(listed(log.reader).length, 11)
  t.match(log.reader.erasures().receipt(1, 2), {
    events_removed: 5,
    finished_at: '2024-01-15T12:00:00Z',
  })
  t.same((await verifyStore(dataDir, () => undefined)).findings, [])
})

async function untilDone(daemon: DecisionDaemon, id: unknown, projectId = 1): Promise<object> {
  let receipt: object = {}
  await daemon.until(async () => {
    receipt = (await daemon.api('GET', `erasures/${String(id)}/`, projectId)).body
    return 'status' in receipt && receipt.status === 'done'
  })
  return receipt
}

async function start(t: Test): Promise<OrganizationDaemon> {
  const organization = await startOrganization(t)
  await organization.decisions.capture(tenEvents())
  return organization
}

t.test('an erasure over HTTP has a receipt', async (t) => {
  const { decisions: daemon } = await start(t)
  const count = async (query = ''): Promise<number> => {
    const { body } = await daemon.api('GET', `events/?limit=1000${query}`)
    return (body['results'] as unknown[]).length
  }
  const counted = async (): Promise<string> => {
    const series = 'events=[{"id":"even"}]&entity_type=events&entity_id=even'
    const answer = await daemon.api('GET', `persons/trends/?${series}&${RANGE}`)
    t.equal(answer.status, 200)
    return JSON.stringify(answer.body)
  }
  t.match(await counted(), /"ann"/)
  t.match(await daemon.api('GET', 'erasures/'), { status: 200, body: { count: 0, results: [] } })
  const dry = await daemon.api('POST', 'erasures/', 1, { event: 'odd', dry_run: true })
  t.match(dry, { status: 200, body: { dry_run: true, events: 5 } })
  t.ok(Number(dry.body['bytes']) > 0)
  t.equal(await count('&event=odd'), 5, 'nothing was removed')

  const asked = await daemon.api('POST', 'erasures/', 1, {
    event: 'odd',
    after: '2023-05-02',
    before: '2023-05-08T02:00:00+02:00',
  })
  t.equal(asked.status, 202)
  t.match(asked.body, {
    id: 1,
    origin: 'request',
    requested_by: /@/,
    requested_at: /^20\d\d-/,
    criteria: { event: 'odd', after: DAY(2), before: DAY(8), distinct_id: null, person_id: null },
  })
  const done = await untilDone(daemon, 1)
  t.match(done, { status: 'done', events_removed: 3, finished_at: /Z$/, segments_unreadable: 0 })
  t.equal(
    await count('&event=odd'),
    2,
    '5 less those of days 2, 4 and 6; sequence number 8 is the end',
  )
  t.equal(await count('&event=even'), 5)

  const [ann] = (await daemon.api('GET', 'persons/?distinct_id=ann')).body['results'] as {
    uuid: string
  }[]
  const second = await daemon.api('POST', 'erasures/', 1, { person_id: ann?.uuid.toUpperCase() })
  t.match(second, { status: 202, body: { id: 2, criteria: { person_id: ann?.uuid } } })
  t.match(await untilDone(daemon, 2), { events_removed: 3 })
  t.notMatch(await counted(), /"ann"/, 'analytics do not count them either')
  t.match(await counted(), /"bob"/)
  const path = `persons/${ann?.uuid}/properties_timeline/?${RANGE}`
  const timeline = await daemon.api('GET', path)
  t.match(timeline, { status: 200 })
  t.notMatch(JSON.stringify(timeline.body), /"relevant_event_count":[1-9]/)

  const [bob] = (await daemon.api('GET', 'persons/?distinct_id=bob')).body['results'] as {
    uuid: string
  }[]
  await daemon.api('DELETE', `persons/${bob?.uuid}/?delete_events=true`)
  t.match(await untilDone(daemon, 3), { origin: 'person', criteria: { person_id: bob?.uuid } })
  const page = await daemon.api('GET', 'erasures/?limit=2')
  t.match(page.body, { count: 3, next: /offset=2/, previous: null })
  t.strictSame(
    (page.body['results'] as { id: number }[]).map(({ id }) => id),
    [3, 2],
  )
  await daemon.daemon.stop()
  t.same((await verifyStore(daemon.dataDir, () => undefined)).findings, [])
})

t.test('an invalid request erases nothing', async (t) => {
  const organization = await start(t)
  const { decisions: daemon } = organization
  const wrong: readonly [unknown, code: string, attr: string | null][] = [
    [{}, 'required', 'event'],
    [{ dry_run: true }, 'required', 'event'],
    [{ event: null }, 'required', 'event'],
    [{ event: '' }, 'blank', 'event'],
    [{ event: 5 }, 'invalid_input', 'event'],
    [{ event: 'x'.repeat(401) }, 'max_length', 'event'],
    [{ event: 'odd', befor: '2023-01-01' }, 'invalid_input', 'befor'],
    [{ event: 'odd', __proto__x: 1 }, 'invalid_input', '__proto__x'],
    [{ after: 'yesterday-ish' }, 'invalid_input', 'after'],
    [{ after: '2023-05-02', before: '2023-05-02' }, 'invalid_input', 'before'],
    [{ person_id: 'ann' }, 'invalid_input', 'person_id'],
    [{ event: 'odd', dry_run: 'yes' }, 'invalid_input', 'dry_run'],
    [[], 'invalid_input', null],
    ['odd', 'invalid_input', null],
  ]
  for (const [body, code, attr] of wrong) {
    const answer = await daemon.api('POST', 'erasures/', 1, body)
    const expected = { status: 400, body: { type: 'validation_error', code, attr, detail: /./ } }
    t.match(answer, expected, JSON.stringify(body))
  }
  const query = await daemon.api('POST', 'erasures/?event=odd', 1, {})
  t.match(query, { status: 400, body: { code: 'required' } }, 'only the body counts')
  const nobody = { person_id: uuidText(99) }
  for (const body of [nobody, { ...nobody, dry_run: true }]) {
    t.match(await daemon.api('POST', 'erasures/', 1, body), {
      status: 404,
      body: { code: 'not_found' },
    })
  }
  const broken = await organization.askRaw('POST', 'projects/1/erasures/', '{"event":')
  t.match(broken, { status: 400, body: { code: 'parse_error' } })

  const reading = organization.keyOf({ scopes: ['person:read'] })
  const elsewhere = organization.keyOf({ projectIds: [2] })
  await organization.settled()
  const ask = { event: 'odd' }
  for (const [path, key, status] of [
    ['projects/1/erasures/', reading, 403],
    ['projects/1/erasures/', elsewhere, 403],
    ['projects/1/erasures/', null, 401],
    ['projects/77/erasures/', PERSONAL_KEY, 404],
  ] as const) {
    t.equal((await organization.ask('POST', path, ask, key)).status, status, path)
  }
  t.match(await daemon.api('GET', 'erasures/'), { body: { count: 0 } })

  t.match(await daemon.api('POST', 'erasures/', 1, ask), { status: 202, body: { id: 1 } })
  await untilDone(daemon, 1)
  for (const [path, projectId] of [
    ['erasures/1/', 2],
    ['erasures/2/', 1],
    ['erasures/x/', 1],
    ['erasures/0/', 1],
  ] as const) {
    const answer = await daemon.api('GET', path, projectId)
    t.match(answer, { status: 404, body: { code: 'not_found' } }, path)
  }
})

t.test('the tenrec erasure command erases events', async (t) => {
  const { decisions: daemon } = await start(t)
  const where = ['--base-url', daemon.url, '--personal-key', PERSONAL_KEY]
  const erasure = (...words: readonly string[]) => runCommand('erasure', ...words, ...where)
  const dry = await erasure('create', '--event', 'odd', '--json')
  t.match(dry, { exitCode: 0, err: /^Nothing was removed\. Use --yes/ })
  t.match(linesOf(dry), [{ dry_run: true, events: 5 }])
  const both = await erasure('create', '--event', 'odd', '--dry-run', '--yes', '--json')
  t.match(linesOf(both), [{ dry_run: true, events: 5 }])
  t.strictSame(linesOf(await erasure('list', '--json')), [])

  const range = ['--after', '2023-05-03', '--before', '2023-05-05']
  const made = await erasure('create', ...range, '--yes', '--json')
  t.match(made, { err: '' })
  t.match(linesOf(made), [{ id: 1, criteria: { after: DAY(3), before: DAY(5) } }])
  await untilDone(daemon, 1)
  t.match(linesOf(await erasure('show', '1', '--json')), [{ id: 1, events_removed: 2 }])
  t.match((await erasure('show', '1')).out, /^events_removed +2$/m)
  t.match((await erasure('list')).out, /^1 +request +done/m)
  t.match(await erasure('show', '2'), { exitCode: 1, err: /There is no erasure 2/ })
  for (const [words, message] of [
    [['create', '--yes'], /Choose the events with/],
    [['create', '--event='], /must not be empty/],
    [['create', '--after', 'monday'], /not a time/],
    [['show', 'x'], /not a number/],
    [['show'], /ID is missing/],
  ] as const) {
    t.match(await erasure(...words), { exitCode: 2, out: '', err: message }, words.join(' '))
  }
  const person = await erasure('create', '--person', 'ann', '--yes')
  t.match(person, { exitCode: 1, err: /`person_id` must be the UUID/ })
})

t.test('the space of erased events is free after a restore', async (t) => {
  const dataDir = await initialized(t)
  const path = join(dataDir, '..')
  const log = new PersonLog(t, dataDir)
  for (let round = 0; round < 20; round++) {
    const events = Array.from({ length: 40 }, (_, index) => {
      const text = Array.from({ length: 40 }, (_, part) =>
        uuidText(round * 1e5 + index * 100 + part),
      )
      return {
        event: 'large',
        distinct_id: 'ann',
        timestamp: DAY(1),
        properties: { text: text.join() },
      }
    })
    for (let start = 0; start < 40; start += 10) log.send(1, events.slice(start, start + 10))
    log.process()
  }
  const bytesOf = (folder: string): number => statSync(join(folder, 'events', 'data.mdb')).size
  const before = bytesOf(dataDir)
  const receipt = erase(log, { event: 'large' })
  t.equal(receipt.events_removed, 800)
  t.ok(
    receipt.bytes_released > before / 4,
    `${receipt.bytes_released} of ${before} bytes are released`,
  )
  t.ok(bytesOf(dataDir) >= before, 'the file itself does not shrink')
  const environment = new Environment({ dataDir, name: 'events', tables: EVENTS_TABLES })
  const free = environment.freeBytes()
  await environment.close()
  t.ok(free > receipt.bytes_released && free < bytesOf(dataDir), `${free} bytes are free`)
  const backup = join(path, 'backup')
  const target = join(path, 'restored')
  t.match(await runCommand('backup', backup, '--data-dir', dataDir), { exitCode: 0 })
  t.match(await runCommand('restore', backup, '--data-dir', target), { exitCode: 0 })
  t.ok(
    bytesOf(target) < before - receipt.bytes_released / 2,
    `the restored file has ${bytesOf(target)} of ${before} bytes`,
  )
})

async function ask(daemon: SpawnedDaemon, method: string, path: string, body?: object) {
  const headers = { Authorization: `Bearer ${SPAWNED_PERSONAL_KEY}` }
  return send(`${daemon.url}/api/projects/1/${path}`, {
    method,
    headers: { ...headers, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

t.test('the space of erased events is released to the disk while the daemon runs', async (t) => {
  const dataDir = t.testdir()
  const daemon = await spawnDaemon({ dataDir })
  t.teardown(() => daemon.stop())
  const sendLarge = (event: string): Promise<unknown> => {
    const batch = Array.from({ length: 13 }, () => {
      const properties = { text: randomBytes(720_000).toString('base64') }
      return { event, distinct_id: 'ann', properties }
    })
    return postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  }
  const source = { url: daemon.url, personalKey: SPAWNED_PERSONAL_KEY }
  for (let round = 0; round < 10; round++) await sendLarge('gone')
  await sendLarge('kept')
  await untilStored(source, 13, 'event=kept')
  const diskBytes = (): number => statSync(join(dataDir, 'events', 'data.mdb')).blocks * 512
  const before = diskBytes()
  t.ok(before > 80 * 1024 ** 2, `there were ${before} bytes`)
  t.equal((await ask(daemon, 'POST', 'erasures/', { event: 'gone' })).status, 202)
  // The release waits for merges, and begins within some seconds.
  while (diskBytes() > before / 2) await sleep(100)
  await sendLarge('kept')
  await untilStored(source, 26, 'event=kept')
  await daemon.kill()
  const { findings } = await verifyStore(dataDir, () => undefined)
  t.strictSame(findings, [])
})

t.test('an accepted erasure continues after a kill', async (t) => {
  const dataDir = t.testdir()
  let daemon = await spawnDaemon({ dataDir })
  t.teardown(() => daemon.stop())
  for (let round = 0; round < 10; round++) {
    const batch = Array.from({ length: 1000 }, (_, index) => ({
      event: index % 100 === 0 ? 'kept' : 'gone',
      distinct_id: `d${index}`,
      properties: { text: uuidText(round * 1000 + index) },
    }))
    await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
  }
  const source = (): { url: string; personalKey: string } => ({
    url: daemon.url,
    personalKey: SPAWNED_PERSONAL_KEY,
  })
  await untilStored(source(), 100, 'event=kept')
  const answer = await ask(daemon, 'POST', 'erasures/', { event: 'gone' })
  t.equal(answer.status, 202)
  await daemon.kill()
  daemon = await spawnDaemon({ dataDir })
  let receipt: unknown
  for (let round = 0; round < 400; round++) {
    receipt = jsonOf(await ask(daemon, 'GET', 'erasures/1/'))
    if ((receipt as ErasureReceipt).status === 'done') break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  t.match(receipt, { status: 'done', events_removed: 9900 })
  t.equal((await untilStored(source(), 100)).length, 100)
  await daemon.stop()
  t.same((await verifyStore(dataDir, () => undefined)).findings, [])
})
