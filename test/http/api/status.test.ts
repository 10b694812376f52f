/**
 * The status of a daemon over HTTP.
 *
 * @lane quick
 */
import t from 'tap'
import { VERSION } from '../../../src/base/version.ts'
import { createBackup } from '../../../src/store/maintenance/backup/backups.ts'
import { PERSONAL_KEY } from '../../fixtures/flags/decision-daemon.ts'
import { startOrganization } from '../../fixtures/organization-daemon.ts'

t.setTimeout(300_000)

const organization = await startOrganization(t)
const { decisions } = organization
const status = (key: string | null = PERSONAL_KEY) =>
  organization.ask('GET', 'organizations/@current/status/', undefined, key)

t.test('the state of the server is returned, with rates by minute', async (t) => {
  const sent = Array.from({ length: 32 }, (_, index) => ({ event: 'e', distinct_id: `u${index}` }))
  for (const event of sent)
    await decisions.ask('/capture/', { json: { api_key: decisions.key(), ...event } })
  await decisions.capture([{ event: 'lost' }])
  await decisions.decide('/flags/?v=2', { distinct_id: 'ann' })
  const { status: code, body } = await status()
  t.equal(code, 200)
  t.match(body, {
    version: VERSION,
    started_at: /^20/,
    health: { status: 'ok', reasons: [] },
    disk: { full_at: null },
    backlog: { events: 0, bytes: 0 },
    rates: [{ accepted: 34, processed: 34, decisions: 1 }],
    backups: { last_at: null },
    dead_letters: 0,
  })
  const [point, ...others] = body['rates'] as readonly Readonly<Record<string, number>>[]
  t.equal(others.length, 0)
  t.ok(Number(point?.['p50_ms']) > 0 && Number(point?.['p99_ms']) >= Number(point?.['p50_ms']))
  const disk = body['disk'] as Readonly<Record<string, number>>
  t.ok(Number(disk['free_bytes']) > 0 && Number(disk['used_bytes']) > 0)
  t.ok(Number(disk['reserve_bytes']) > 0)
  const threads = body['threads'] as readonly Readonly<Record<string, unknown>>[]
  t.match(
    threads.find(({ name }) => name === 'processor'),
    { count: 1, queue_depth: 0 },
  )
  const path = new URL(`${decisions.url}/metrics`)
  t.ok((await fetch(path)).ok, 'the metrics are unchanged')
})

t.test('the newest backup beside the data directory is reported', async (t) => {
  const { dataDir } = decisions
  const onProgress = (): void => {}
  const nowMs = Date.UTC(2024, 0, 31, 12)
  await createBackup({ dataDir, folder: `${dataDir}-backups`, nowMs, keep: null, onProgress })
  t.match((await status()).body, { backups: { last_at: '2024-01-31T12:00:00.000Z' } })
})

t.test('a key for the whole organization is required', async (t) => {
  const limited = organization.keyOf({ userId: 1, projectIds: [1] })
  const narrow = organization.keyOf({ userId: 1, scopes: ['event:read'] })
  await organization.settled()
  t.equal((await status(null)).status, 401)
  for (const key of [limited, narrow]) t.equal((await status(key)).status, 403)
})
