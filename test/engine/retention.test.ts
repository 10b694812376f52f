/**
 * Tests retention by age, by event name and by size: over HTTP, from the command line and by the daemon itself.
 *
 * @lane all
 */
import t, { type Test } from 'tap'
import { type RetentionRules, rulesAt } from '../../src/rules/events/erasure.ts'
import type { PersonCommand } from '../../src/rules/persons/commands.ts'
import { verifyStore } from '../../src/store/maintenance/verify/verify-store.ts'
import { linesOf, runCommand } from '../fixtures/command-line.ts'
import { closeConnections } from '../fixtures/exact-client.ts'
import {
  type DecisionDaemon,
  PERSONAL_KEY,
  startDecisions,
} from '../fixtures/flags/decision-daemon.ts'
import { startOrganization } from '../fixtures/organization-daemon.ts'
import { PersonLog } from '../fixtures/persons/person-log.ts'

const DAY_MS = 86_400_000
const MIB = 1024 ** 2

t.teardown(closeConnections)
t.setTimeout(300_000)

/** An event with this name, at noon a number of days ago. */
function eventOf(name: string, daysAgo: number, properties: object = {}): object {
  const noon = Math.floor(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2
  const timestamp = new Date(noon - daysAgo * DAY_MS).toISOString()
  return { event: name, distinct_id: 'ann', timestamp, properties }
}

/** Names with ages in days, such as `view 3`. */
async function remaining(daemon: DecisionDaemon, query = ''): Promise<readonly string[]> {
  const { body } = await daemon.api('GET', `events/?limit=1000${query}`)
  const events = body['results'] as { event: string; properties: { age?: number } }[]
  return events.flatMap(({ event, properties: { age } }) =>
    age === undefined ? [] : [`${event} ${age}`],
  )
}

async function start(t: Test): Promise<DecisionDaemon> {
  const { decisions } = await startOrganization(t)
  const ages = [400, 100, 40, 20, 2]
  const named = (name: string) => ages.map((age) => eventOf(name, age, { age }))
  await decisions.capture([...named('view'), ...named('buy'), ...named('log')])
  return decisions
}

async function untilDone(daemon: DecisionDaemon, id: number): Promise<object> {
  let receipt: object = {}
  await daemon.until(async () => {
    receipt = (await daemon.api('GET', `erasures/${id}/`)).body
    return 'status' in receipt && receipt.status === 'done'
  })
  return receipt
}

t.test('rules count whole days of UTC', (t) => {
  const now = Date.UTC(2024, 2, 10, 17, 30)
  const rules: RetentionRules = {
    days: 30,
    bytesMax: null,
    events: [
      { event: 'log', days: 1 },
      { event: 'buy', days: null },
    ],
  }
  const before = Date.UTC(2024, 1, 9)
  t.strictSame(rulesAt(rules, now), [
    { event: 'log', afterMs: null, beforeMs: Date.UTC(2024, 2, 9) },
    { event: 'buy', afterMs: 0, beforeMs: 0 },
    { event: null, afterMs: null, beforeMs: before },
  ])
  t.strictSame(rulesAt(rules, Date.UTC(2024, 2, 10)), rulesAt(rules, now), 'all day long the same')
  t.strictSame(rulesAt({ ...rules, days: null, events: [] }, now), [], 'nothing goes by default')
  t.end()
})

t.test('events removed by retention are not counted any more', async (t) => {
  const daemon = await start(t)
  const count = async (series: object, more: object = {}): Promise<unknown> => {
    const query = {
      kind: 'TrendsQuery',
      series: [{ kind: 'EventsNode', math: 'total', ...series }],
      dateRange: { date_from: '-2y' },
      trendsFilter: { display: 'BoldNumber' },
      ...more,
    }
    const { body } = await daemon.api('POST', 'query/', 1, { query })
    return (body['results'] as { aggregated_value: unknown }[])[0]?.aggregated_value
  }
  const perMonth = { interval: 'month' }
  const before = Number(await count({ event: null }))
  t.ok(before >= 15)
  t.equal(await count({ event: null }, perMonth), before)
  await daemon.api('PUT', 'retention/', 1, { days: 30 })
  const { body } = await daemon.api('POST', 'retention/run/')
  await untilDone(daemon, Number(body['id']))
  // The remaining events are within one year, and their segment contains removed rows.
  t.equal(await count({ event: null }), before - 9)
  t.equal(await count({ event: null }, perMonth), before - 9)
  t.equal(await count({ event: 'view' }), 2)
})

t.test('the rules of a project are stored, previewed and applied', async (t) => {
  const daemon = await start(t)
  const empty = await daemon.api('GET', 'retention/')
  t.match(empty, { status: 200, body: { days: null, bytes_max: null, events: [] } })
  t.ok(Number(empty.body['bytes']) > 0)
  const idle = await daemon.api('POST', 'retention/run/')
  t.match(idle, { status: 200, body: { dry_run: false, events: 0, bytes: 0, rules: [] } })

  const rules = {
    days: 90,
    events: [
      { event: 'log', days: 10 },
      { event: 'buy', days: null },
    ],
  }
  const tried = await daemon.api('PUT', 'retention/', 1, { ...rules, dry_run: true })
  t.match(tried, { status: 200, body: { dry_run: true, events: 6, is_running: false } })
  t.match(tried.body['rules'], [
    { event: 'log', before: /T00:00:00.000Z$/ },
    { event: null, before: /T00:00:00.000Z$/ },
  ])
  t.match((await daemon.api('GET', 'retention/')).body, { days: null }, 'it was only a preview')
  const put = await daemon.api('PUT', 'retention/', 1, rules)
  t.match(put, { status: 200, body: { ...rules, bytes_max: null } })
  t.match((await daemon.api('GET', 'retention/')).body, rules)
  t.match((await daemon.api('GET', 'retention/', 2)).body, { days: null, events: [] })
  const dry = await daemon.api('POST', 'retention/run/', 1, { dry_run: true })
  t.match(dry, { status: 200, body: { dry_run: true, events: 6 } })
  t.equal((await remaining(daemon)).length, 15, 'no event is removed before its time')

  const run = await daemon.api('POST', 'retention/run/', 1, {})
  t.match(run, { status: 202, body: { id: 1, origin: 'retention', requested_by: /@/ } })
  t.match(await untilDone(daemon, 1), { events_removed: 6, criteria: { event: null } })
  t.strictSame([...(await remaining(daemon))].sort(), [
    'buy 100',
    'buy 2',
    'buy 20',
    'buy 40',
    'buy 400',
    'log 2',
    'view 2',
    'view 20',
    'view 40',
  ])
  t.match(await daemon.api('POST', 'retention/run/'), { status: 200, body: { events: 0 } })
  t.match((await daemon.api('GET', 'erasures/')).body, { count: 1 })

  await daemon.api('PUT', 'retention/', 1, {})
  t.match((await daemon.api('GET', 'retention/')).body, { days: null, bytes_max: null, events: [] })
  await daemon.daemon.stop()
  t.same((await verifyStore(daemon.dataDir, () => undefined)).findings, [])
})

t.test('invalid rules are refused', async (t) => {
  const organization = await startOrganization(t)
  const { decisions: daemon } = organization
  const wrong: readonly [unknown, attr: string | null][] = [
    [{ days: 0 }, 'days'],
    [{ days: 1.5 }, 'days'],
    [{ days: '30' }, 'days'],
    [{ days: 36_501 }, 'days'],
    [{ bytes_max: MIB - 1 }, 'bytes_max'],
    [{ events: {} }, 'events'],
    [{ events: ['log'] }, 'events'],
    [{ events: [{ days: 3 }] }, 'events'],
    [{ events: [{ event: '', days: 3 }] }, 'events'],
    [{ events: [{ event: 'log' }] }, 'events'],
    [{ events: [{ event: 'log', days: -1 }] }, 'events'],
    [{ events: [{ event: 'log', days: 3, day: 3 }] }, 'events'],
    [
      {
        events: [
          { event: 'log', days: 3 },
          { event: 'log', days: 4 },
        ],
      },
      'events',
    ],
    [{ events: Array.from({ length: 101 }, (_, n) => ({ event: `e${n}`, days: 1 })) }, 'events'],
    [{ day: 30 }, 'day'],
    [{ dry_run: 1 }, 'dry_run'],
    [[], null],
  ]
  for (const [body, attr] of wrong) {
    const answer = await daemon.api('PUT', 'retention/', 1, body)
    const error = { type: 'validation_error', code: 'invalid_input', attr, detail: /./ }
    t.match(answer, { status: 400, body: error }, JSON.stringify(body))
  }
  const run = await daemon.api('POST', 'retention/run/', 1, { days: 3 })
  t.match(run, { status: 400, body: { attr: 'days' } })
  const member = organization.somebody({ email: 'member@example.com', level: 1 })
  const reading = organization.keyOf({ scopes: ['project:read', 'person:write'] })
  await organization.settled()
  for (const [method, path, key, status] of [
    ['PUT', 'projects/1/retention/', member.key, 403],
    ['POST', 'projects/1/retention/run/', member.key, 403],
    ['PUT', 'projects/1/retention/', reading, 403],
    ['GET', 'projects/1/retention/', reading, 200],
    ['GET', 'projects/1/retention/', member.key, 200],
    ['GET', 'projects/77/retention/', PERSONAL_KEY, 404],
    ['PUT', 'projects/77/retention/', PERSONAL_KEY, 404],
    ['GET', 'projects/1/retention/', null, 401],
  ] as const) {
    const body = method === 'PUT' ? { days: 1 } : undefined
    const answer = await organization.ask(method, path, body, key)
    t.equal(answer.status, status, `${method} ${path}`)
  }
  t.match((await daemon.api('GET', 'retention/')).body, { days: null })
})

t.test('a project that is too large loses the events that arrived first', async (t) => {
  const daemon = await start(t)
  // Hardly compressible, so that the segments are as large as the text.
  const random = (): string => Array.from({ length: 30 }, () => Math.random()).join()
  for (let round = 0; round < 8; round++) {
    const batch = Array.from({ length: 700 }, () => eventOf('bulk', 5, { random: random() }))
    await daemon.capture([...batch, eventOf('mark', 500 - round, { age: 500 - round })])
  }
  const before = Number((await daemon.api('GET', 'retention/')).body['bytes'])
  t.ok(before > 1.3 * MIB, `there were ${before} bytes`)
  const rules = { bytes_max: MIB }
  const tried = await daemon.api('PUT', 'retention/', 1, { ...rules, dry_run: true })
  t.match(tried.body, { rules: [], arrived_through: /Z$/ })
  t.ok(Number(tried.body['bytes']) >= before - MIB)
  await daemon.api('PUT', 'retention/', 1, rules)
  const run = await daemon.api('POST', 'retention/run/')
  t.match(run, { status: 202, body: { criteria: { arrived_through: /Z$/, rules: [] } } })
  const receipt = await untilDone(daemon, 1)
  t.match(receipt, { events_removed: Number(tried.body['events']) })
  const after = Number((await daemon.api('GET', 'retention/')).body['bytes'])
  t.ok(after <= MIB && after > MIB * 0.85, `${after} bytes are left`)
  t.strictSame(await remaining(daemon, '&event=view'), [], 'they arrived first')
  const marks = await remaining(daemon, '&event=mark')
  t.ok(marks.includes('mark 493'), 'the newest arrival stays, whatever its timestamp')
  t.notOk(marks.includes('mark 500'))
  t.match(await daemon.api('POST', 'retention/run/'), { status: 200, body: { events: 0 } })
})

t.test(
  'the daemon applies the rules automatically, and only to projects that have rules',
  async (t) => {
    const daemon = await startDecisions(t, 2, {}, { retentionMs: 100 })
    await daemon.capture([eventOf('view', 50, { age: 50 }), eventOf('view', 5, { age: 5 })])
    await daemon.capture([eventOf('view', 50, { age: 50 })], 2)
    await daemon.api('PUT', 'retention/', 1, { days: 30 })
    await daemon.until(async () => Number((await daemon.api('GET', 'erasures/')).body['count']) > 0)
    t.match(await untilDone(daemon, 1), {
      origin: 'retention',
      requested_by: null,
      events_removed: 1,
    })
    t.strictSame(await remaining(daemon), ['view 5'])
    await daemon.capture([])
    t.match(
      (await daemon.api('GET', 'erasures/')).body,
      { count: 1 },
      'without events there is no job',
    )
    t.match((await daemon.api('GET', 'erasures/', 2)).body, { count: 0 })
  },
)

t.test('the tenrec retention command works', async (t) => {
  const daemon = await start(t)
  const where = ['--base-url', daemon.url, '--personal-key', PERSONAL_KEY]
  const retention = async (...words: readonly string[]) =>
    runCommand('retention', ...words, ...where)
  const json = async (...words: readonly string[]) =>
    linesOf(await retention(...words, '--json'))[0] ?? {}
  t.match(await json('show'), { days: null, bytes_max: null, events: [] })
  t.match(await json('set', '--days', '30', '--dry-run'), { dry_run: true, events: 9 })
  t.match(await json('set', '--days', '30'), { days: 30, events: [] })
  t.match(await json('set', '--event', 'buy', '--days', 'forever'), {
    days: 30,
    events: [{ event: 'buy', days: null }],
  })
  t.match(await json('set', '--event', 'log', '--days', '3'), { events: { length: 2 } })
  t.match(await json('set', '--event', 'log', '--days', '10'), {
    events: [
      { event: 'buy', days: null },
      { event: 'log', days: 10 },
    ],
  })
  t.match(await json('set', '--bytes', '20GiB'), { days: 30, bytes_max: 20 * 1024 ** 3 })
  t.match(await json('set', '--bytes', 'unlimited'), { days: 30, bytes_max: null })
  t.match((await retention('show')).out, /^days +30$/m)
  t.match(await json('run', '--dry-run'), { dry_run: true, events: 7 })
  t.match(await json('run'), { id: 1, origin: 'retention' })
  await untilDone(daemon, 1)
  t.match(await json('run'), { events: 0, dry_run: false })
  t.match(await json('clear', '--event', 'log'), { events: [{ event: 'buy', days: null }] })
  t.match(await json('clear'), { days: null, bytes_max: null, events: [] })
  for (const [words, message] of [
    [['set'], /--days or --bytes/],
    [['set', '--days', 'x'], /not a number/],
    [['set', '--bytes', 'much'], /not a size/],
    [['set', '--event', 'a', '--bytes', '1GiB', '--days', '1'], /applies to the whole project/],
  ] as const) {
    t.match(await retention(...words), { exitCode: 2, out: '', err: message }, words.join(' '))
  }
  t.match(await retention('set', '--bytes', '5'), { exitCode: 1, err: /400: `bytes_max` must be/ })
})

t.test('a command erases what its record says, independently of the clock', async (t) => {
  const beforeMs = Date.UTC(2023, 4, 5)
  const command: PersonCommand = {
    kind: 'run_retention',
    rules: [{ event: null, afterMs: null, beforeMs }],
    oldestThrough: 99,
    arrivedThroughMs: null,
  }
  const events = Array.from({ length: 8 }, (_, day) => ({
    event: 'e',
    distinct_id: 'ann',
    timestamp: new Date(Date.UTC(2023, 4, day + 1)).toISOString(),
  }))
  const log = new PersonLog(t, t.testdir())
  log.send(1, events)
  log.append(1, { ...command, oldestThrough: 0 })
  await log.reopen()
  log.send(1, events)
  for (let round = 0; round < 10; round++) log.process()
  const count = (): number => log.reader.listEvents({ projectId: 1, limit: 100 }).results.length
  t.equal(count(), 12, 'events after the record stay')
  log.append(1, command)
  log.send(1, events)
  for (let round = 0; round < 10; round++) log.process()
  t.equal(count(), 8, 'a sequence number that does not exist yet covers no later event')
})
