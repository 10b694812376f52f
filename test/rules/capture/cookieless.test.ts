/**
 * Tests visitors without cookies. Each visitor has one distinct_id a day. The distinct_id stays the same after a crash
 * and shows nothing of the data from which it was computed. Flags use the same distinct_id as events.
 *
 * @lane quick
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { JsonObject } from '../../../src/base/json.ts'
import { DailySalts } from '../../../src/engine/front/daily-salts.ts'
import {
  COOKIELESS_ID,
  dayOf,
  isDayOpen,
  type VisitorEvent,
  withVisitor,
} from '../../../src/rules/capture/cookieless.ts'
import { normalizeEvent } from '../../../src/rules/capture/normalize.ts'
import type { NormalizedEvent } from '../../../src/rules/capture/types.ts'
import {
  PERSONAL_KEY,
  PROJECT_KEY,
  type SpawnedDaemon,
  spawnDaemon,
} from '../../fixtures/daemon.ts'
import { type EventSource, readEvents, untilStored } from '../../fixtures/event-pages.ts'
import { closeConnections, jsonOf, send } from '../../fixtures/exact-client.ts'

const ARRIVED_MS = Date.UTC(2026, 4, 10, 12)
const AGENT = 'Mozilla/5.0 Firefox/150'
const VISIT = {
  $cookieless_mode: true,
  $raw_user_agent: AGENT,
  $host: 'shop.example',
  $timezone: 'Europe/Berlin',
}

t.teardown(closeConnections)
t.setTimeout(300_000)

function eventOf(properties: JsonObject, more: Partial<NormalizedEvent> = {}): NormalizedEvent {
  return {
    name: '$pageview',
    distinctId: COOKIELESS_ID,
    timestampMs: ARRIVED_MS,
    properties: { ...VISIT, ...properties },
    elementsChain: '',
    isPersonless: true,
    ...more,
  }
}

/** Here a salt is the name of its day, so that a difference by salt is visible. */
function visit(
  properties: JsonObject = {},
  { projectId = 1, address = '203.0.113.7', timestampMs = ARRIVED_MS } = {},
): VisitorEvent {
  return withVisitor(eventOf(properties, { timestampMs }), {
    projectId,
    address,
    arrivedAtMs: ARRIVED_MS,
    saltOf: (day) => Buffer.from(day),
  })
}

function idOf({ event }: VisitorEvent): string {
  return event.distinctId
}

t.test('a visitor is identified by address, browser, host and day only', async (t) => {
  const id = idOf(visit())
  t.match(id, /^cookieless_[A-Za-z0-9+/]{22}$/)
  for (const [same, outcome] of [
    [
      'another page',
      visit({ $current_url: 'https://shop.example/cart', $timezone: 'Europe/Rome' }),
    ],
    ['hosts in capitals', visit({ $host: 'Shop.Example' })],
    ['the address in the event', visit({ $ip: '203.0.113.7' }, { address: '10.0.0.1' })],
    ['later that day', visit({}, { timestampMs: ARRIVED_MS - 11 * 3_600_000 })],
  ] as const) {
    t.equal(idOf(outcome), id, same)
  }
  const others = [
    visit({}, { projectId: 2 }),
    visit({}, { address: '203.0.113.8' }),
    visit({ $raw_user_agent: `${AGENT}.1` }),
    visit({ $host: 'shop.example:8080' }),
    visit({ $cookieless_extra: 'a' }),
    // The day before in Berlin, but not in UTC.
    visit({}, { timestampMs: Date.UTC(2026, 4, 9, 21, 59) }),
  ].map(idOf)
  t.equal(new Set([id, ...others]).size, others.length + 1, 'each of them is another visitor')
  t.equal(
    idOf(visit({}, { timestampMs: Date.UTC(2026, 4, 9, 22, 1) })),
    id,
    'it is today in Berlin',
  )
})

t.test('the event keeps none of the data that the distinct_id was made from', async (t) => {
  const given = { $ip: '198.51.100.9', $cookieless_extra: 'x', distinct_id: COOKIELESS_ID }
  const { properties, distinctId } = visit(given).event
  const kept = JSON.parse(JSON.stringify(properties)) as JsonObject
  t.strictSame(Object.keys(kept).sort(), [
    '$cookieless_mode',
    '$device_id',
    '$host',
    '$session_id',
    '$timezone',
    'distinct_id',
  ])
  t.equal(kept['distinct_id'], distinctId)
  t.equal(kept['$device_id'], distinctId.replace('cookieless_', 'cookielessd_'))
  t.match(
    kept['$session_id'],
    /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  )
})

t.test('the salt is that of the day of the event', async (t) => {
  const at = (day: number, hour: number) => Date.UTC(2026, 4, day, hour)
  for (const [timeMs, zone, day] of [
    [at(10, 11), '', '2026-05-10'],
    [at(10, 11), 'UTC', '2026-05-10'],
    [at(10, 11), 'Pacific/Kiritimati', '2026-05-11'],
    [at(10, 11), 'Etc/GMT+12', '2026-05-09'],
    [at(10, 11), 'Mars/Olympus', '2026-05-10'],
    [at(8, 11), '', '2026-05-08'],
    // Too old, or too far in the future: the day of arrival counts.
    [at(1, 11), '', '2026-05-10'],
    [at(20, 11), 'Pacific/Kiritimati', '2026-05-11'],
    [0, '', '2026-05-10'],
  ] as const) {
    t.equal(dayOf(timeMs, ARRIVED_MS, zone), day, `${new Date(timeMs).toISOString()} ${zone}`)
  }
  t.ok(isDayOpen('2026-05-10', at(9, 10)))
  t.notOk(isDayOpen('2026-05-10', at(9, 9)), 'nowhere on earth')
  t.ok(isDayOpen('2026-05-10', at(14, 11)), 'the salt is kept as long as events may arrive late')
  t.notOk(isDayOpen('2026-05-10', at(14, 12)))
})

t.test('without address, browser or host the visitor stays unknown, with a warning', async (t) => {
  for (const [property, type] of [
    ['$raw_user_agent', 'cookieless_missing_user_agent'],
    ['$host', 'cookieless_missing_host'],
  ] as const) {
    const outcome = visit({ [property]: undefined })
    t.match(outcome, { event: { distinctId: COOKIELESS_ID }, warnings: [{ type }] })
    t.equal(
      outcome.event.properties['$raw_user_agent'],
      undefined,
      'nothing of the other data stays',
    )
  }
  t.match(visit({}, { address: '' }), {
    event: { distinctId: COOKIELESS_ID },
    warnings: [{ type: 'cookieless_missing_ip', details: { missingProperty: '$ip' } }],
  })
  const context = {
    arrivedAtMs: ARRIVED_MS,
    sentAtMs: null,
    isSentAtInvalid: false,
    ip: '',
    isIpAnonymized: false,
    isHistorical: false,
    propertiesBytesMax: 0,
    aiPropertiesBytesMax: 0,
  }
  for (const event of ['$identify', '$create_alias', '$merge_dangerously']) {
    const given = { event, distinct_id: 'ann', properties: { ...VISIT } }
    t.match(normalizeEvent(given, context, 100), {
      kind: 'drop',
      reason: 'cookieless_person_event',
      warnings: [{ type: 'cookieless_unsupported_event' }],
    })
  }
})

t.test('the secret of a day is the same for all requests until the day is over', async (t) => {
  const dataDir = t.testdir()
  const salts = new DailySalts(dataDir)
  const salt = salts.saltOf('2026-05-10')
  t.equal(salt.length, 32)
  t.strictSame(Buffer.from(new DailySalts(dataDir).saltOf('2026-05-10')), Buffer.from(salt))
  t.notSame(salts.saltOf('2026-05-11'), salt)
  const folder = join(dataDir, 'cookieless')
  const file = join(folder, '2026-05-10')
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.strictSame(readdirSync(folder), ['2026-05-10', '2026-05-11'], 'and no drafts')
  t.throws(() => salts.saltOf('../format'), /is no day/)
  salts.forget(Date.UTC(2026, 4, 14, 11))
  t.ok(existsSync(file))
  salts.forget(Date.UTC(2026, 4, 14, 12))
  t.strictSame(readdirSync(folder), ['2026-05-11'])
  t.notSame(salts.saltOf('2026-05-10'), salt, 'nobody can make it again')
  writeFileSync(file, 'damaged')
  t.equal(new DailySalts(dataDir).saltOf('2026-05-10').length, 32)
  t.match(readFileSync(file, 'utf8'), /^[0-9a-f]{64}$/)
})

t.test('a secret from another machine is used if there is none, and kept longer', async (t) => {
  const dataDir = t.testdir()
  const salts = new DailySalts(dataDir, 7 * 86_400_000)
  const own = Buffer.from(salts.saltOf('2026-05-10'))
  const other = Buffer.alloc(32, 7)
  salts.adopt('2026-05-10', other)
  salts.adopt('2026-05-11', other)
  t.strictSame(Buffer.from(salts.find('2026-05-10') ?? []), own, 'what was used stays')
  t.strictSame(Buffer.from(salts.saltOf('2026-05-11')), other)
  t.equal(salts.find('2026-05-12'), null)
  t.throws(() => salts.adopt('../format', other), /is no day/)
  salts.forget(Date.UTC(2026, 4, 21, 11))
  t.ok(existsSync(join(dataDir, 'cookieless', '2026-05-10')), 'it is kept one week longer')
  salts.forget(Date.UTC(2026, 4, 21, 12))
  t.strictSame(readdirSync(join(dataDir, 'cookieless')), ['2026-05-11'])
})

/** Sends a pageview of a visitor at an address, in one of the forms of the SDK. */
async function browse(daemon: SpawnedDaemon, address: string, index: number): Promise<void> {
  const properties = { ...VISIT, token: PROJECT_KEY, distinct_id: COOKIELESS_ID, index }
  const event = { event: 'seen', properties, uuid: undefined }
  const json = JSON.stringify(event)
  const headers = { 'X-Forwarded-For': address, 'Content-Type': 'text/plain' }
  const batch = JSON.stringify({
    api_key: PROJECT_KEY,
    batch: [{ event: 'seen', distinct_id: COOKIELESS_ID, properties: { ...properties, index } }],
  })
  const [path, body] = (
    [
      ['/e/', json],
      ['/e/?compression=gzip-js', gzipSync(json)],
      ['/i/v0/e/', `[${json}]`],
      ['/capture/', json],
      ['/batch/', batch],
      ['/e/?beacon=1', `data=${encodeURIComponent(Buffer.from(json).toString('base64'))}`],
    ] as const
  )[index % 6] ?? ['/e/', json]
  const isForm = typeof body === 'string' && body.startsWith('data=')
  const answer = await send(`${daemon.url}${path}`, {
    method: 'POST',
    headers: isForm ? { ...headers, 'Content-Type': 'application/x-www-form-urlencoded' } : headers,
    body,
  })
  t.match(String(answer.status), /^20[04]$/, path)
}

t.test(
  'cookieless visitors work on every path, after a crash, anonymized, and for flags',
  async (t) => {
    const dataDir = `${t.testdir()}/data`
    let daemon = await spawnDaemon({ dataDir })
    t.teardown(() => daemon.stop())
    const sourceOf = (): EventSource => ({ url: daemon.url, personalKey: PERSONAL_KEY })
    const api = (method: string, path: string, json: object) =>
      send(`${daemon.url}/api/projects/1/${path}`, {
        method,
        headers: { Authorization: `Bearer ${PERSONAL_KEY}`, 'Content-Type': 'application/json' },
        body: JSON.stringify(json),
      })
    for (let index = 0; index < 6; index++) await browse(daemon, '203.0.113.7', index)
    await browse(daemon, '203.0.113.8', 6)
    await untilStored(sourceOf(), 7)
    await daemon.kill()
    daemon = await spawnDaemon({ dataDir })
    t.equal((await api('PATCH', '', { anonymize_ips: true })).status, 200)
    await browse(daemon, '203.0.113.7', 7)
    const events = await untilStored(sourceOf(), 8)
    const [first, , , , , , other] = events.map(({ distinct_id: id }) => id)
    t.strictSame(
      events.map(({ distinct_id: id }) => id),
      [first, first, first, first, first, first, other, first],
    )
    t.match(first, /^cookieless_/)
    t.not(first, other)
    for (const event of events) {
      t.match(event, {
        person: null,
        person_mode: 'propertyless',
        properties: { $host: 'shop.example' },
      })
      t.notMatch(JSON.stringify(event), /203\.0\.113|Firefox|\$posthog_cookieless/)
    }

    const flags = Array.from({ length: 24 }, (_, index) => `half-${index}`)
    const groups = [{ properties: [], rollout_percentage: 50 }]
    for (const key of flags) {
      t.equal((await api('POST', 'feature_flags/', { key, filters: { groups } })).status, 201)
    }
    const decide = async (distinctId: unknown, address: string) => {
      const answer = await send(`${daemon.url}/flags/?v=1`, {
        method: 'POST',
        headers: {
          'X-Forwarded-For': address,
          'User-Agent': AGENT,
          Origin: 'https://shop.example',
          'Content-Type': 'text/plain',
        },
        body: JSON.stringify({
          token: PROJECT_KEY,
          distinct_id: distinctId,
          timezone: 'Europe/Berlin',
        }),
      })
      return (jsonOf(answer) as { featureFlags: object }).featureFlags
    }
    const mine = await decide(COOKIELESS_ID, '203.0.113.7')
    t.strictSame(mine, await decide(first, '203.0.113.7'), 'as for the id of the events')
    const others = await decide(COOKIELESS_ID, '203.0.113.8')
    t.strictSame(others, await decide(other, '203.0.113.8'))
    t.notSame(mine, others)
    t.strictSame(await decide(COOKIELESS_ID, '203.0.113.7'), mine, 'whoever asked meanwhile')
    t.equal((await readEvents(sourceOf())).length, 8)
  },
)
