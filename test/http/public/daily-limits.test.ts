/**
 * Daily limits of a project: the answers above the limit in every form of capture and for flags, the counts across a
 * restart and at midnight, and the rights to set limits.
 *
 * @lane all
 */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { SYSTEM_CLOCK } from '../../../src/base/clock.ts'
import { runCommand } from '../../fixtures/command-line.ts'
import {
  createProjects,
  type DecisionDaemon,
  PERSONAL_KEY,
  serveDecisions,
  startDecisions,
} from '../../fixtures/flags/decision-daemon.ts'

const LIMITED = { status: 200, body: { status: 1, quota_limited: ['events'] } }
const ACCEPTED = { status: 200, body: { status: 1 } }
const DAY_MS = 86_400_000
const AUTHORIZATION = { Authorization: `Bearer ${PERSONAL_KEY}` }

function eventsOf(count: number): readonly object[] {
  return Array.from({ length: count }, () => ({ event: 'x', distinct_id: 'd', properties: {} }))
}

function batch(daemon: DecisionDaemon, count: number, projectId = 1) {
  return daemon.ask('/batch/', {
    json: { api_key: daemon.key(projectId), batch: eventsOf(count) },
  })
}

async function limit(daemon: DecisionDaemon, changes: object, projectId = 1) {
  const path = `/api/projects/${projectId}/`
  return daemon.ask(path, { method: 'PATCH', headers: AUTHORIZATION, json: changes })
}

async function today(daemon: DecisionDaemon) {
  const answer = await daemon.ask('/api/projects/1/', { method: 'GET', headers: AUTHORIZATION })
  return answer.body['today']
}

async function metric(daemon: DecisionDaemon, line: string): Promise<number> {
  const page = await (await fetch(`${daemon.url}/metrics`)).text()
  const found = page.split('\n').find((one) => one.startsWith(`${line} `))
  return Number(found?.split(' ').at(-1) ?? Number.NaN)
}

t.test('above its daily limit events of a project are answered with 200 and dropped', async (t) => {
  const daemon = await startDecisions(t, 2)
  t.match(await limit(daemon, { daily_events_limit: 10 }), {
    status: 200,
    body: { daily_events_limit: 10, daily_bytes_limit: null },
  })
  t.match(await batch(daemon, 4), ACCEPTED)
  t.notOk('quota_limited' in (await batch(daemon, 8)).body, 'the last request is taken whole')
  const key = daemon.key()
  const event = { api_key: key, event: 'x', distinct_id: 'd' }
  const large = { api_key: key, batch: eventsOf(3000) }
  const unlikely = { api_key: key, batch: [{ ...event, properties: { text: 'x'.repeat(2e5) } }] }
  const forms: Readonly<Record<string, () => Promise<object>>> = {
    capture: () => daemon.ask('/capture/', { json: event }),
    batch: () => batch(daemon, 1),
    'a list': () => daemon.ask('/e/', { json: [event] }),
    'i/v0/e': () => daemon.ask('/i/v0/e/', { json: event }),
    track: () => daemon.ask('/track/', { json: event }),
    engage: () => daemon.ask('/engage/', { json: { ...event, $set: { a: 1 } } }),
    'parsed on the front': () => daemon.ask('/e/', { json: { ...event, uuid: null } }),
    'a large body': () => daemon.ask('/batch/', { json: large }),
    'one large event': () => daemon.ask('/batch/', { json: unlikely }),
    gzip: () =>
      daemon.ask('/batch/', {
        method: 'POST',
        headers: { 'Content-Encoding': 'gzip', 'Content-Type': 'application/json' },
        body: gzipSync(JSON.stringify(large)),
      }),
    form: () =>
      daemon.ask('/e/', {
        method: 'POST',
        headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
        body: `data=${encodeURIComponent(Buffer.from(JSON.stringify(event)).toString('base64'))}`,
      }),
    pixel: () => daemon.ask(`/e/?data=${encodeURIComponent(JSON.stringify(event))}`),
    'with a personal key': () =>
      daemon.ask('/batch/', {
        json: { api_key: PERSONAL_KEY, project_id: 1, batch: eventsOf(1) },
      }),
  }
  for (const [form, send] of Object.entries(forms)) t.strictSame(bare(await send()), LIMITED, form)
  const beacon = await daemon.ask('/e/?beacon=1', { json: event })
  t.equal(beacon.status, 204)
  const recordings = await daemon.ask('/s/', { json: event })
  t.match(recordings.body, { quota_limited: ['recordings'] })
  t.strictSame(bare(await batch(daemon, 1, 2)), ACCEPTED, 'another project is not affected')
  t.equal((await daemon.ask('/e/', { json: { ...event, api_key: 'phc_no' } })).status, 401)

  t.match(await today(daemon), { events: 12, is_limited: true })
  t.equal(await metric(daemon, 'ingest_daily_limits_reached_total{project="1",limit="events"}'), 1)
  const dropped = await metric(daemon, 'ingest_events_total{project="1",fate="daily_limit"}')
  t.ok(dropped > 6000, `${dropped} were dropped`)
  t.equal(await metric(daemon, 'ingest_events_total{project="1",fate="accepted"}'), 12)
  const fates = await daemon.api('GET', 'ingestion_fates/')
  t.match(JSON.stringify(fates.body), /"daily_limit"/, 'the reason is reported')

  t.match(await limit(daemon, { daily_events_limit: null }), { status: 200 })
  t.strictSame(bare(await batch(daemon, 1)), ACCEPTED)
})

function bare({ status, body }: { readonly status?: unknown; readonly body?: unknown }) {
  return { status, body }
}

t.test('flags are still decided, and the answer mentions the limit', async (t) => {
  const daemon = await startDecisions(t)
  await daemon.putFlags([{ key: 'beta' }])
  await limit(daemon, { daily_bytes_limit: 1 })
  const ask = (path: string) => daemon.decide(path, { distinct_id: 'd' })
  const paths = ['/flags/?v=2', '/flags/?v=1', '/decide/?v=3', '/decide/?v=4', '/decide/?v=1']
  for (const path of paths) t.notOk('quotaLimited' in (await ask(path)).body, path)
  await batch(daemon, 1)
  for (const path of paths) {
    // The second answer comes from the cache.
    await ask(path)
    t.match((await ask(path)).body, { quotaLimited: ['events'] }, path)
  }
  t.match((await ask('/flags/?v=2')).body, { flags: { beta: { enabled: true } } })
  await limit(daemon, { daily_bytes_limit: null })
  for (const path of paths) t.notOk('quotaLimited' in (await ask(path)).body, path)
})

t.test('counting continues after a restart, and a day begins at midnight UTC', async (t) => {
  const dataDir = t.testdir()
  await createProjects(dataDir, 1)
  let nowMs = Date.parse('2026-11-22T23:00:00Z')
  const clock = { now: () => nowMs, monotonic: () => SYSTEM_CLOCK.monotonic() }
  const first = await serveDecisions(t, dataDir, {}, { clock })
  await limit(first, { daily_events_limit: 5 })
  t.strictSame(bare(await batch(first, 3)), ACCEPTED)
  await first.stop()
  const second = await serveDecisions(t, dataDir, {}, { clock })
  t.match(await today(second), { events: 3, is_limited: false })
  t.strictSame(bare(await batch(second, 2)), ACCEPTED)
  t.strictSame(bare(await batch(second, 1)), LIMITED)
  nowMs += DAY_MS / 24
  t.match(await today(second), { events: 0, bytes: 0, is_limited: false })
  t.strictSame(bare(await batch(second, 5)), ACCEPTED)
  t.strictSame(bare(await batch(second, 1)), LIMITED)
})

t.test('limits can be set with a key or by command, are validated and are logged', async (t) => {
  const daemon = await startDecisions(t)
  for (const wrong of [-1, 1.5, '10', true]) {
    const answer = await limit(daemon, { daily_events_limit: wrong })
    t.match(answer, { status: 400, body: { attr: 'daily_events_limit' } }, String(wrong))
  }
  await limit(daemon, { daily_events_limit: 1000 })
  const set = (...words: readonly string[]) =>
    runCommand('project', 'set', '1', ...words, '--data-dir', daemon.dataDir, '--json')
  const changed = await set('--daily-bytes-limit', '2MiB', '--daily-events-limit', 'none')
  t.match(JSON.parse(changed.out), { daily_bytes_limit: 2 * 1024 ** 2, daily_events_limit: null })
  const refused = await set('--daily-events-limit', 'many')
  t.equal(refused.exitCode, 2)
  t.match(refused.err, /--daily-events-limit must be a whole number.* or none/)
  const shown = await daemon.ask('/api/organizations/@current/audit_log/', {
    method: 'GET',
    headers: AUTHORIZATION,
  })
  const routes = JSON.stringify(shown.body)
  t.match(routes, /"PATCH"[^}]*"\/api\/projects\/:project_id\/"/)
  t.match(routes, /tenrec project set/)
})
