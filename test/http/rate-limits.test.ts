/**
 * Limits of requests and events per second: disabled by default, and the answers above them.
 *
 * @lane quick
 */
import t, { type Test } from 'tap'
import { networkOf } from '../../src/base/addresses.ts'
import { SYSTEM_CLOCK } from '../../src/base/clock.ts'
import { TokenBuckets } from '../../src/http/server/rate-limits.ts'
import { addressBehindProxies, TrustedProxies } from '../../src/http/server/url.ts'
import {
  type DecisionDaemon,
  PERSONAL_KEY,
  startDecisions,
} from '../fixtures/flags/decision-daemon.ts'

const AUTHORIZATION = { Authorization: `Bearer ${PERSONAL_KEY}` }

function eventsOf(count: number): readonly object[] {
  return Array.from({ length: count }, () => ({ event: 'x', distinct_id: 'd', properties: {} }))
}

function capture(daemon: DecisionDaemon, count: number, projectId = 1) {
  return daemon.ask('/batch/', {
    json: { api_key: daemon.key(projectId), batch: eventsOf(count) },
  })
}

/** A daemon whose clock stands still. A bucket holds ten seconds of its rate and is not refilled. */
function startStanding(t: Test, projectCount: number, flags: Readonly<Record<string, string>>) {
  const clock = { now: () => SYSTEM_CLOCK.now(), monotonic: () => 0 }
  return startDecisions(t, projectCount, flags, { clock })
}

async function statuses(count: number, ask: () => Promise<{ readonly status: number }>) {
  const seen = new Map<number, number>()
  for (let n = 0; n < count; n++) {
    const { status } = await ask()
    seen.set(status, (seen.get(status) ?? 0) + 1)
  }
  return seen
}

t.test('without settings nothing is limited', async (t) => {
  const daemon = await startDecisions(t)
  const seen = await statuses(300, () => daemon.ask('/flags/', { json: { token: daemon.key() } }))
  t.notOk(seen.has(429))
})

t.test(
  'an address above its limit gets 429 and a waiting time, and other addresses are served',
  async (t) => {
    const daemon = await startStanding(t, 1, { 'address-requests-per-second': '2' })
    const from = (address: string, path = '/decide/') =>
      daemon.ask(path, { method: 'GET', headers: { 'X-Forwarded-For': `9.9.9.9, ${address}` } })
    const seen = await statuses(40, () => from('192.0.2.1'))
    t.strictSame(
      [...seen],
      [
        [200, 20],
        [429, 20],
      ],
    )
    t.match(await from('192.0.2.1', '/api/projects/'), {
      status: 429,
      headers: { 'retry-after': /^[1-9]\d*$/ },
      body: { type: 'throttled_error', code: 'throttled', detail: /this address/, attr: null },
    })
    t.equal((await from('192.0.2.2')).status, 200, 'another address behind the same proxy')
    t.equal((await daemon.ask('/decide/', { method: 'GET' })).status, 200, 'the proxy itself')
    const watched = await statuses(60, () => from('192.0.2.1', '/_livez'))
    t.strictSame([...watched], [[200, 60]], 'health checks are not limited')
    const metrics = await fetch(`${daemon.url}/metrics`)
    const counted = /^http_rate_limited_total\{limit="address_requests"\} (\d+)$/m
    t.equal(Number(counted.exec(await metrics.text())?.[1]), 21)
  },
)

t.test('a client that is not a trusted proxy cannot choose its address', async (t) => {
  const daemon = await startStanding(t, 1, {
    'address-requests-per-second': '1',
    'trusted-proxies': '10.0.0.0/8',
  })
  let n = 0
  const seen = await statuses(40, () =>
    daemon.ask('/decide/', { method: 'GET', headers: { 'X-Forwarded-For': `192.0.2.${++n}` } }),
  )
  t.strictSame(
    [...seen],
    [
      [200, 10],
      [429, 30],
    ],
  )
})

t.test('browsers can read a refusal, and the connection stays open', async (t) => {
  const daemon = await startStanding(t, 1, { 'address-requests-per-second': '1' })
  const ask = () =>
    daemon.ask('/batch/', {
      headers: { Origin: 'https://shop.example' },
      json: { api_key: daemon.key(), batch: eventsOf(1) },
    })
  await statuses(20, ask)
  t.match(await ask(), {
    status: 429,
    headers: { 'access-control-allow-origin': 'https://shop.example' },
  })
})

t.test('requests are counted over all routes, for each project separately', async (t) => {
  const daemon = await startStanding(t, 2, { 'project-requests-per-second': '2' })
  const asks = [
    () => capture(daemon, 1),
    () => daemon.decide('/flags/', { distinct_id: 'd' }),
    () => daemon.ask('/api/projects/1/events/', { method: 'GET', headers: AUTHORIZATION }),
  ]
  let n = 0
  const seen = await statuses(45, () => asks[n++ % asks.length]?.() ?? capture(daemon, 1))
  t.strictSame(
    [...seen],
    [
      [200, 20],
      [429, 25],
    ],
  )
  for (const ask of asks) {
    t.match(await ask(), {
      status: 429,
      headers: { 'retry-after': /^[1-9]\d*$/ },
      body: { code: 'throttled', detail: /this project/ },
    })
  }
  t.equal((await capture(daemon, 1, 2)).status, 200, 'the other project')
  t.match(await daemon.ask('/batch/', { json: { api_key: 'phc_no', batch: eventsOf(1) } }), {
    status: 401,
  })
})

t.test('a large batch of events is accepted and counted against later requests', async (t) => {
  const daemon = await startStanding(t, 2, { 'project-events-per-second': '10' })
  t.equal((await capture(daemon, 130)).status, 200)
  const refused = await capture(daemon, 1)
  t.match(refused, { status: 429, body: { code: 'throttled', detail: /events for this project/ } })
  const wait = refused.headers['retry-after']
  t.equal(wait, '4', 'the seconds for the 30 events beyond the 100 of the bucket, and for this one')
  t.equal((await daemon.decide('/flags/', { distinct_id: 'd' })).status, 200, 'no events')
  t.equal((await capture(daemon, 1, 2)).status, 200, 'the other project')
})

t.test(
  'a body that worker threads check also counts, and no part of a refused one is stored',
  async (t) => {
    const daemon = await startStanding(t, 1, { 'project-events-per-second': '10' })
    const large = (name: string) => {
      const properties = { padding: 'x'.repeat(200_000) }
      const batch = [{ event: name, distinct_id: 'd', properties }, ...eventsOf(150)]
      return daemon.ask('/batch/', { json: { api_key: daemon.key(), batch } })
    }
    t.equal((await large('first')).status, 200)
    t.equal((await large('second')).status, 429)
    const listed = (name: string) =>
      daemon.ask(`/api/projects/1/events/?event=${name}`, { method: 'GET', headers: AUTHORIZATION })
    await daemon.until(async () => {
      const { results } = (await listed('first')).body
      return Array.isArray(results) && results.length === 1
    })
    t.strictSame((await listed('second')).body['results'], [])
  },
)

t.test('buckets are refilled at their rate, and their number is limited', async (t) => {
  let nowMs = 0
  const buckets = new TokenBuckets<number>(
    2,
    { now: () => SYSTEM_CLOCK.now(), monotonic: () => nowMs },
    100,
  )
  const allowed = (key: number): number => {
    let count = 0
    while (buckets.take(key, 1) === 0) count++
    return count
  }
  t.equal(allowed(1), 20, 'ten seconds of the rate at once')
  t.equal(buckets.waitSeconds(1), 0.5)
  nowMs += 1500
  t.equal(allowed(1), 3)
  nowMs += 3_600_000
  t.equal(allowed(1), 20, 'never more than the capacity of the bucket')
  buckets.spend(1, 100)
  t.equal(buckets.waitSeconds(1), 50.5)
  const forgottenAt: number[] = []
  for (let key = 2; key < 10_000; key++) {
    buckets.take(key, 1)
    if (key % 20 === 0 && buckets.take(1, 1) === 0) forgottenAt.push(key)
  }
  t.strictSame(forgottenAt, [], 'the bucket of an active address is not removed')
  t.ok(buckets.size <= 101, `${buckets.size} buckets are stored`)
})

t.test(
  'the client address behind proxies is the last one that is not a trusted proxy',
  async (t) => {
    const proxies = new TrustedProxies(['10.0.0.0/8', '127.0.0.1'])
    const cases: readonly (readonly [peer: string, header: string, expected: string])[] = [
      ['192.0.2.1', '198.51.100.1', '192.0.2.1'],
      ['10.0.0.1', '', '10.0.0.1'],
      ['10.0.0.1', '198.51.100.1', '198.51.100.1'],
      ['10.0.0.1', '6.6.6.6, 198.51.100.1', '198.51.100.1'],
      ['10.0.0.1', '6.6.6.6, 198.51.100.1, 10.2.3.4, 127.0.0.1', '198.51.100.1'],
      ['10.0.0.1', '6.6.6.6, 198.51.100.1:4711', '198.51.100.1'],
      ['10.0.0.1', '6.6.6.6, [2001:db8::1]:443', '2001:db8::1'],
      ['10.0.0.1', '6.6.6.6, ::ffff:198.51.100.1', '198.51.100.1'],
      ['10.0.0.1', '6.6.6.6, unknown', '10.0.0.1'],
      ['10.0.0.1', '10.9.9.9, 10.8.8.8', '10.9.9.9'],
      ['10.0.0.1', `${'6.6.6.6,'.repeat(5000)}198.51.100.1`, '198.51.100.1'],
    ]
    for (const [peer, header, expected] of cases) {
      t.equal(addressBehindProxies(peer, header, proxies), expected, `${peer} ${header.slice(-60)}`)
    }
    t.equal(networkOf('192.0.2.1'), '192.0.2.1')
    const network = networkOf('2001:db8:0:7::1')
    for (const same of ['2001:db8:0:7:ffff::', '2001:0db8::7:1:2:3:4', '2001:DB8:0:7:1:2:3:4']) {
      t.equal(networkOf(same), network, same)
    }
    t.not(networkOf('2001:db8:0:8::1'), network)
    t.equal(networkOf('::1'), '0:0:0:0')
  },
)
