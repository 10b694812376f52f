/**
 * Tests events that are accepted but not stored: the recorded data, its retention, and its erasure.
 *
 * @lane all
 */
import { join } from 'node:path'
import { open } from 'lmdb'
import t from 'tap'
import { formatUuid } from '../../src/base/ids.ts'
import { LOSS_REASONS, type LossReason } from '../../src/rules/capture/drop-reasons.ts'
import type { DroppedEventView } from '../../src/rules/events/dropped-events.ts'
import type { ErasureCriteria } from '../../src/rules/events/erasure.ts'
import type { EventReader } from '../../src/store/events/read/event-reader.ts'
import { Environment } from '../../src/store/lmdb/environment.ts'
import { EVENTS_ENVIRONMENT } from '../../src/store/lmdb/keys.ts'
import { createBackup, restoreBackup } from '../../src/store/maintenance/backup/backups.ts'
import { DroppedEvents, listDropped } from '../../src/store/rejected/dropped-events.ts'
import { linesOf, runCommand } from '../fixtures/command-line.ts'
import { PERSONAL_KEY, PROJECT_KEY, type SpawnedDaemon, spawnDaemon } from '../fixtures/daemon.ts'
import { closeConnections, postJson } from '../fixtures/exact-client.ts'
import { startDecisions } from '../fixtures/flags/decision-daemon.ts'
import { PersonLog, type SentEvent } from '../fixtures/persons/person-log.ts'
import { uuidOf } from '../fixtures/stored-events.ts'

t.teardown(closeConnections)
t.setTimeout(300_000)

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const uuidText = (number: number): string => formatUuid(uuidOf(number), 0)

/** One event for each reason. */
const LOST: Readonly<Record<LossReason, SentEvent>> = {
  no_event_name: { event: '', distinct_id: 'ann' },
  no_distinct_id: { event: 'opened', properties: { plan: 'pro' } },
  ignored_event: { event: '$snapshot', distinct_id: 'ann' },
  client_ingestion_warning: { event: '$$client_ingestion_warning', distinct_id: 'ann' },
  personless_person_event: {
    event: '$identify',
    distinct_id: 'ann',
    properties: { $process_person_profile: false },
  },
  cookieless_person_event: {
    event: '$identify',
    distinct_id: 'ann',
    properties: { $cookieless_mode: true },
  },
  properties_too_large: { event: 'large', distinct_id: 'bob', properties: { x: 'x'.repeat(2e6) } },
}

function dropped(reader: EventReader, projectId = 1): readonly DroppedEventView[] {
  return reader.listDropped({ projectId, afterMs: 0, limit: 1000 }).results
}

function totals(reader: EventReader, projectId = 1): Readonly<Record<string, number>> {
  const sums: Record<string, number> = {}
  for (const { reason, count } of reader.countDropped(projectId, 0)) {
    sums[reason] = (sums[reason] ?? 0) + count
  }
  return sums
}

t.test('each reason is recorded with the known data of the event, and counted', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const now = Date.now()
  for (const [index, reason] of LOSS_REASONS.entries()) {
    log.sendText(1, JSON.stringify(LOST[reason]), uuidOf(index), now + index)
  }
  log.process()
  const results = dropped(log.reader)
  t.same(
    results.map(({ reason }) => reason),
    LOSS_REASONS.toReversed(),
    'newest first',
  )
  for (const [index, reason] of LOSS_REASONS.entries()) {
    const json = JSON.stringify(LOST[reason])
    const found = log.reader.findDropped(1, uuidText(index), 0)
    t.match(found, {
      uuid: uuidText(index),
      timestamp: new Date(now + index).toISOString(),
      reason,
      event: LOST[reason]['event'] === '' ? null : LOST[reason]['event'],
      distinct_id: LOST[reason]['distinct_id'] ?? null,
      // The request of a cookieless visitor may contain more than the stored record does.
      bytes: reason === 'cookieless_person_event' ? 0 : json.length,
      data: reason === 'cookieless_person_event' ? '' : json.slice(0, 1024),
    })
  }
  t.same(totals(log.reader), Object.fromEntries(LOSS_REASONS.map((reason) => [reason, 1])))
  t.equal(log.reader.findDropped(2, uuidText(0), 0), null, 'no other project has them')
})

t.test('a duplicate and a dead letter are counted, but not as lost', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const event = { event: 'opened', distinct_id: 'ann', uuid: uuidText(1) }
  log.send(1, [event, event, event])
  log.sendText(1, 'no JSON', uuidOf(2))
  log.process()
  t.same(dropped(log.reader), [])
  t.same(totals(log.reader), { duplicate: 2, dead_letter: 1 })
})

t.test('a flood of one reason does not displace events of other reasons', async (t) => {
  const log = new PersonLog(t, t.testdir())
  const now = Date.now()
  log.send(1, [{ event: '', distinct_id: 'ann' }], now)
  log.send(2, [{ event: 'other' }], now)
  for (let request = 0; request < 10; request++) {
    const events = Array.from({ length: 100 }, (_, index) => ({
      uuid: uuidText(request * 100 + index),
      event: `e${request * 100 + index}`,
    }))
    log.send(1, events, now + request)
    if (request % 4 === 0) log.process()
  }
  log.process()
  const kept = dropped(log.reader)
  t.equal(kept.filter(({ reason }) => reason === 'no_distinct_id').length, 200)
  t.ok(kept.some(({ event }) => event === 'e999'))
  t.notOk(kept.some(({ event }) => event === 'e799'))
  t.ok(kept.some(({ reason }) => reason === 'no_event_name'))
  t.same(totals(log.reader), { no_distinct_id: 1000, no_event_name: 1 }, 'the counts are right')
  t.equal(dropped(log.reader, 2).length, 1)

  const again = new PersonLog(t, `${t.testdir({ again: {} })}/again`)
  again.send(1, [{ event: 'e' }], now)
  again.process()
  await again.reopen()
  again.send(1, [{ event: 'f' }], now + 1)
  again.process()
  t.equal(dropped(again.reader).length, 2, 'after a restart the older ones are still known')
})

t.test('all projects together are bounded, and records expire after a week', async (t) => {
  const environment = new Environment({
    dataDir: t.testdir(),
    name: EVENTS_ENVIRONMENT,
    tables: ['dropped_events'],
  })
  t.teardown(() => environment.close())
  const table = environment.table('dropped_events')
  const refuse = (error: Error): never => {
    throw error
  }
  const open = () => new DroppedEvents(table, refuse, { allEventsMax: 10 })
  const count = (): number => table.getKeysCount({})
  let writer = open()
  const add = (number: number): void => {
    writer.add({
      projectId: 1 + (number % 5),
      block: number,
      place: 0,
      arrivedAtMs: 1000 * DAY_MS + number,
      reason: 'no_distinct_id',
      uuid: uuidOf(number),
      event: 'e',
      distinctId: null,
      json: Buffer.from('{}'),
    })
  }
  for (let number = 0; number < 15; number++) add(number)
  environment.write(() => writer.store())
  t.equal(count(), 10)
  writer = open()
  for (let number = 15; number < 18; number++) add(number)
  environment.write(() => writer.store())
  t.equal(count(), 10)
  const oldest = listDropped(table, { projectId: 4, afterMs: 0, limit: 9 }).results.at(-1)
  t.equal(oldest?.uuid, uuidText(8), 'the oldest of all projects made room')
  const expire = (atMs: number): void => {
    const later = open()
    later.expire(atMs)
    environment.write(() => later.store())
  }
  expire(1007 * DAY_MS + 8)
  t.equal(count(), 10, 'a week has passed')
  expire(1007 * DAY_MS + 18)
  t.equal(count(), 0)
})

t.test('the recorded events do not depend on where commits end', async (t) => {
  const folder = t.testdir({ one: {}, many: {} })
  const now = Date.now()
  const answers: unknown[] = []
  for (const name of ['one', 'many']) {
    const log = new PersonLog(t, `${folder}/${name}`)
    for (let request = 0; request < 30; request++) {
      const events = Array.from({ length: 20 }, (_, index) => ({
        uuid: uuidText(request * 20 + index),
        event: index % 3 === 0 ? '' : 'e',
      }))
      log.send(1, events, now + request)
      if (name === 'many') log.process()
      if (name === 'many' && request % 10 === 0) await log.reopen()
    }
    log.process()
    answers.push([dropped(log.reader), log.reader.countDropped(1, 0)])
  }
  t.same(answers[1], answers[0])
})

t.test('an erasure removes dropped events, too', async (t) => {
  const criteria: ErasureCriteria = {
    event: null,
    afterMs: null,
    beforeMs: null,
    distinctId: null,
    personId: null,
  }
  const now = Date.now()
  const left = async (
    name: string,
    change: (log: PersonLog) => void,
  ): Promise<readonly string[]> => {
    const log = new PersonLog(t, `${t.testdir({ [name]: {} })}/${name}`)
    log.send(1, [{ event: 'opened', distinct_id: 'ann' }], now - 2000)
    log.send(1, [{ event: '$snapshot', distinct_id: 'ann' }], now - 2000)
    log.send(1, [{ event: '$snapshot', distinct_id: 'never stored' }], now - 1000)
    log.send(1, [{ event: 'nobody', properties: {} }], now)
    log.send(2, [{ event: '$snapshot', distinct_id: 'ann' }], now)
    log.process()
    change(log)
    log.process()
    t.equal(dropped(log.reader, 2).length, 1, 'those of another project stay')
    return dropped(log.reader).map((view) => view.distinct_id ?? 'none')
  }
  const erase = (name: string, wanted: Partial<ErasureCriteria>) =>
    left(name, (log) => {
      log.run(1, { kind: 'erase_events', criteria: { ...criteria, ...wanted } }, now + 1)
    })
  t.same(await erase('id', { distinctId: 'ann' }), ['none', 'never stored'])
  t.same(await erase('unknown id', { distinctId: 'never stored' }), ['none', 'ann'])
  t.same(await erase('no id', { distinctId: 'xyz' }), ['none', 'never stored', 'ann'])
  t.same(await erase('name', { event: 'nobody' }), ['never stored', 'ann'])
  t.same(await erase('time', { beforeMs: now - 500 }), ['none'])
  const byPerson = await left('person', (log) => {
    const [person] = log.reader
      .persons()
      .list({ projectId: 1, limit: 1, offset: 0, nowMs: now }).results
    log.run(
      1,
      { kind: 'erase_events', criteria: { ...criteria, personId: person?.uuid ?? '' } },
      now + 1,
    )
  })
  t.same(byPerson, ['none', 'never stored'])
})

t.test('over HTTP: pages, filters and counts, with the scope of events', async (t) => {
  const daemon = await startDecisions(t, 2)
  const lost = Array.from({ length: 5 }, (_, index) => ({ uuid: uuidText(index), event: 'lost' }))
  await daemon.capture([...lost, { event: '', distinct_id: 'ann' }])
  const all = await daemon.api('GET', 'dropped_events/')
  t.equal(all.status, 200)
  const results = all.body['results'] as readonly DroppedEventView[]
  t.equal(results.length, 6)
  const paged: DroppedEventView[] = []
  let path: string | null = 'dropped_events/?limit=4'
  while (path !== null) {
    const { body } = await daemon.api('GET', path)
    paged.push(...(body['results'] as readonly DroppedEventView[]))
    path = body['next'] === null ? null : String(body['next']).replace(/^.*projects\/1\//, '')
  }
  t.same(paged, results)
  const named = await daemon.api('GET', 'dropped_events/?reason=no_event_name')
  t.match(named.body, { next: null, results: [{ reason: 'no_event_name', distinct_id: 'ann' }] })
  const future = encodeURIComponent(new Date(Date.now() + HOUR_MS).toISOString())
  t.same((await daemon.api('GET', `dropped_events/?after=${future}`)).body['results'], [])
  t.equal(
    ((await daemon.api('GET', `dropped_events/?before=${future}`)).body['results'] as []).length,
    6,
  )
  const counts = await daemon.api('GET', 'dropped_events/counts/')
  t.match(counts.body, {
    results: [
      { hour: /:00:00\.000Z$/, reason: 'no_event_name', count: 1 },
      { reason: 'no_distinct_id', count: 5 },
    ],
  })
  t.same((await daemon.api('GET', 'dropped_events/', 2)).body, { next: null, results: [] })
  for (const [query, attr] of [
    ['reason=duplicate', 'reason'],
    ['after=x', 'after'],
    ['limit=x', 'limit'],
    ['cursor=x', 'cursor'],
    [`cursor=${Buffer.from('999999999999999,1').toString('base64url')}`, 'cursor'],
  ] as const) {
    const refused = await daemon.api('GET', `dropped_events/?${query}`)
    t.match(refused, { status: 400, body: { code: 'invalid_input', attr } }, query)
  }
  t.equal((await daemon.ask('/api/projects/1/dropped_events/')).status, 401)
})

async function countsOf(daemon: SpawnedDaemon): Promise<number> {
  const headers = { Authorization: `Bearer ${PERSONAL_KEY}` }
  const url = `${daemon.url}/api/projects/1/dropped_events/counts/`
  const { results } = (await (await fetch(url, { headers })).json()) as {
    results: readonly { readonly reason: string; readonly count: number }[]
  }
  return results.reduce((sum, { count }) => sum + count, 0)
}

t.test('records survive kills, and are in backups and on the command line', async (t) => {
  const folder = t.testdir({ data: {}, backups: {}, restored: {} })
  const dataDir = `${folder}/data`
  const where = ['--data-dir', dataDir]
  let accepted = 0
  let daemon = await spawnDaemon({ dataDir })
  for (let round = 0; round < 4; round++) {
    for (let request = 0; request < 5; request++) {
      const batch = Array.from({ length: 500 }, (_, index) => ({
        uuid: uuidText(accepted + index),
        event: `lost ${accepted + index}`,
      }))
      const { status } = await postJson(`${daemon.url}/batch/`, { api_key: PROJECT_KEY, batch })
      if (status === 200) accepted += batch.length
    }
    await new Promise((resolve) => setTimeout(resolve, round * 60))
    await daemon.kill()
    daemon = await spawnDaemon({ dataDir })
  }
  t.equal(accepted, 10_000)
  const deadline = performance.now() + 60_000
  while ((await countsOf(daemon)) < accepted && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  t.equal(await countsOf(daemon), accepted, 'each event is counted once')

  const newest = uuidText(accepted - 1)
  const look = async (...beside: readonly string[]): Promise<void> => {
    const [why] = linesOf(await runCommand('event', 'why', newest, '--json', ...beside))
    t.match(why, { fate: 'skipped', because: 'no_distinct_id', event: `lost ${accepted - 1}` })
    const listed = linesOf(
      await runCommand('event', 'dropped', '--json', '--limit', '7', ...beside),
    )
    t.equal(listed.length, 7)
    t.match(listed[0], { reason: 'no_distinct_id', uuid: /^[0-9a-f-]{36}$/ })
    const counts = linesOf(await runCommand('event', 'dropped', '--counts', '--json', ...beside))
    t.equal(
      counts.reduce((sum, line) => sum + Number(line['count']), 0),
      accepted,
    )
    const none = await runCommand('event', 'dropped', '--reason', 'no_event_name', ...beside)
    t.match(none, { exitCode: 0, out: '' })
    const text = await runCommand('event', 'dropped', '--limit', '1', ...beside)
    t.match(text.out, /^20\S+Z {2}[0-9a-f-]{36} {2}no_distinct_id {2}lost \d+ {2}-\n$/)
  }
  await look(...where)
  await createBackup({
    dataDir,
    folder: `${folder}/backups`,
    nowMs: Date.now(),
    keep: null,
    onProgress: () => undefined,
  })
  await daemon.stop()
  await look(...where)
  await restoreBackup({
    folder: `${folder}/backups`,
    name: null,
    dataDir: `${folder}/restored`,
    isForced: false,
    onProgress: () => undefined,
  })
  await look('--data-dir', `${folder}/restored`)
  for (const words of [
    ['--reason', 'duplicate'],
    ['--counts', '--limit', '3'],
  ]) {
    t.match(await runCommand('event', 'dropped', ...words, ...where), { exitCode: 2 })
  }
})

t.test(
  'a store of a version without these records is read, and gets the tables on open',
  async (t) => {
    const dataDir = `${t.testdir()}/data`
    const where = ['--data-dir', dataDir]
    t.match(await runCommand('init', ...where), { exitCode: 0 })
    const root = open({ path: join(dataDir, 'events'), keyEncoding: 'binary', encoding: 'binary' })
    for (const name of ['dropped_events', 'dropped_counts']) {
      root.openDB(name, { keyEncoding: 'binary', encoding: 'binary' }).dropSync()
    }
    await root.close()
    const why = await runCommand('event', 'why', uuidText(1), ...where)
    t.match(why, { exitCode: 1, out: /unknown/ })
    const listed = await runCommand('event', 'dropped', ...where)
    t.match(listed, { exitCode: 1, err: /Start the daemon of this version once/ })
    const log = new PersonLog(t, dataDir)
    log.send(1, [{ event: 'lost' }], Date.now())
    log.process()
    t.equal(dropped(log.reader).length, 1)
  },
)
