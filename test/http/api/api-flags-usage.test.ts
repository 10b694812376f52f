/**
 * The number of decisions for each value of a flag, over HTTP: counted by hour, cached answers included.
 *
 * @lane quick
 */
import t from 'tap'
import { SYSTEM_CLOCK } from '../../../src/base/clock.ts'
import { Environment } from '../../../src/store/lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, FLAGS_TABLES } from '../../../src/store/lmdb/keys.ts'
import { Differences } from '../../fixtures/differences.ts'
import { serveDecisions, startDecisions } from '../../fixtures/flags/decision-daemon.ts'

const HOUR_MS = 3_600_000
const START_MS = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - 48 * HOUR_MS + 60_000
/** The time of the daemon. It changes only when a test advances it. */
let nowMs = START_MS
const clock = {
  now: () => nowMs,
  monotonic: () => SYSTEM_CLOCK.monotonic(),
}
let daemon = await startDecisions(t, 2, {}, { clock })
const FLAGS = 'feature_flags/'
const VARIANTS = ['control', 'test'].map((key) => ({ key, rollout_percentage: 50 }))

async function create(key: string, filters: object): Promise<number> {
  const { status, body } = await daemon.api('POST', FLAGS, 1, { key, filters })
  if (status !== 201) throw new Error(JSON.stringify(body))
  return Number(body['id'])
}

async function usage(id: number, days?: number) {
  const query = days === undefined ? '' : `?days=${days}`
  return (await daemon.api('GET', `${FLAGS}${id}/usage/${query}`)).body as {
    results: { at: string; value: unknown; count: number }[]
    last_evaluated_at: string | null
    since: string
  }
}

const many = await create('many', {
  groups: [{ properties: [], rollout_percentage: 60 }],
  multivariate: { variants: VARIANTS },
})
const plain = await create('plain', { groups: [{ properties: [] }] })

/** Requests decisions for persons, each a number of times. Returns how often each value of `many` was returned. */
async function decide(count: number, times: number, prefix: string): Promise<Map<unknown, number>> {
  const said = new Map<unknown, number>()
  for (let time = 0; time < times; time++) {
    for (let index = 0; index < count; index++) {
      const { body } = await daemon.decide('/flags/?v=2', { distinct_id: `${prefix}${index}` })
      const { many: flag } = body['flags'] as Record<string, { enabled: boolean; variant?: string }>
      const value = flag?.enabled === true ? (flag.variant ?? true) : false
      said.set(value, (said.get(value) ?? 0) + 1)
    }
  }
  return said
}

t.test('every decision is counted, by value and hour', async (t) => {
  const nothing = await usage(many)
  t.strictSame(nothing.results, [])
  t.equal(nothing.last_evaluated_at, null)
  t.equal(Date.parse(nothing.since), START_MS)
  const first = await decide(40, 3, 'a')
  t.equal(first.size, 3, 'all values occurred')
  const hour = new Date(START_MS - 60_000).toISOString().replace('.000Z', 'Z')
  const told = await usage(many)
  t.strictSame(new Map(told.results.map(({ value, count }) => [value, count])), first)
  t.ok(told.results.every(({ at }) => Date.parse(at) === Date.parse(hour)))
  t.equal(Date.parse(told.last_evaluated_at ?? ''), nowMs)
  t.match((await usage(plain)).results, [{ value: true, count: 120 }])

  nowMs += HOUR_MS
  const second = await decide(10, 2, 'b')
  const both = await usage(many)
  const later = both.results.filter(({ at }) => Date.parse(at) === Date.parse(hour) + HOUR_MS)
  t.strictSame(new Map(later.map(({ value, count }) => [value, count])), second)
  t.equal(both.results.length, told.results.length + later.length)

  // A change of the flag gives new outcomes. The counts of the old outcomes stay.
  await decide(10, 2, 'b')
  const changed = { groups: [{ properties: [], rollout_percentage: 0 }] }
  t.equal((await daemon.api('PATCH', `${FLAGS}${many}/`, 1, { filters: changed })).status, 200)
  await decide(10, 1, 'b')
  const sum = (await usage(many)).results.reduce((total, { count }) => total + count, 0)
  t.equal(sum, 120 + 20 + 20 + 10)

  nowMs += 26 * HOUR_MS
  t.strictSame((await usage(many, 1)).results, [], 'only the last day')
  t.equal((await usage(many, 2)).results.length, both.results.length)
})

t.test('one request returns the decisions of all flags, by day', async (t) => {
  const { body } = await daemon.api('GET', `${FLAGS}usage/?days=3`)
  const { results, since } = body as unknown as {
    results: { id: number; count: number; days: number[]; last_evaluated_at: string | null }[]
    since: string
  }
  t.equal(Date.parse(since), START_MS)
  const differences = new Differences()
  for (const { id, count, days, last_evaluated_at: last } of results) {
    const own = await usage(id, 30)
    const sum = (rows: typeof own.results) => rows.reduce((all, row) => all + row.count, 0)
    const ofDay = days.map((_, day) => {
      const toMs = Math.floor(nowMs / HOUR_MS) * HOUR_MS - (days.length - 1 - day) * 24 * HOUR_MS
      return sum(
        own.results.filter(({ at }) => {
          const age = toMs - Date.parse(at)
          return age >= 0 && age < 24 * HOUR_MS
        }),
      )
    })
    differences.equal(days.join(), ofDay.join(), `the days of flag ${id}`)
    differences.equal(count, sum(own.results), `the count of flag ${id}`)
    differences.equal(last, own.last_evaluated_at, `the last decision of flag ${id}`)
  }
  t.strictSame(differences.list(), [])
  t.strictSame(results.map(({ id }) => id).sort(), [many, plain].sort())
  t.ok(results.every(({ days }) => days.length === 3 && days[0] === 0 && (days[1] ?? 0) > 0))
})

t.test(
  'looking at values is not counted as a decision, and invalid requests are refused',
  async (t) => {
    const before = await usage(plain, 30)
    nowMs += HOUR_MS
    await daemon.api('GET', `${FLAGS}evaluation_reasons/?distinct_id=a`)
    await daemon.api('GET', `${FLAGS}my_flags/`)
    await daemon.api('GET', `${FLAGS}${plain}/explain/?distinct_id=a`)
    await daemon.api('POST', `${FLAGS}rehearse/`, 1, { id: plain, active: false })
    t.strictSame(await usage(plain, 30), before)
    for (const days of ['0', '31', 'x', '-1', '1.5']) {
      const answer = await daemon.api('GET', `${FLAGS}${plain}/usage/?days=${days}`)
      t.match(answer, { status: 400, body: { code: 'invalid_input', attr: 'days' } }, days)
    }
    t.match(await daemon.api('GET', `${FLAGS}999/usage/`), { status: 404 })
    t.match(
      await daemon.api('GET', `${FLAGS}${plain}/usage/`, 2),
      { status: 404 },
      'flags of another project are not counted',
    )
  },
)

t.test(
  'counts continue after a restart, and unreadable counts start again from zero',
  async (t) => {
    const before = await usage(many, 30)
    t.ok(before.results.length > 0 && before.last_evaluated_at !== null)
    const dataDir = daemon.dataDir
    await daemon.stop()
    daemon = await serveDecisions(t, dataDir, {}, { clock })
    t.strictSame(await usage(many, 30), before)
    const { body } = await daemon.decide('/flags/?v=2', { distinct_id: 'a1' })
    const { many: flag } = body['flags'] as Record<string, { enabled: boolean }>
    t.type(flag?.enabled, 'boolean')
    const counts = ({ results }: typeof before) =>
      results.reduce((sum, { count }) => sum + count, 0)
    const after = await usage(many, 30)
    t.equal(counts(after), counts(before) + 1)
    await daemon.stop()

    const environment = new Environment({
      dataDir,
      name: FLAGS_ENVIRONMENT,
      tables: FLAGS_TABLES,
    })
    const table = environment.table('flag_usage')
    const [first] = [...table.getKeys({})].map((key) => Buffer.from(key))
    environment.write(() => table.putSync(first ?? Buffer.alloc(0), Buffer.from('damaged')))
    await environment.close()
    daemon = await serveDecisions(t, dataDir, {}, { clock })
    const rest = await usage(many, 30)
    const firstAt = before.results[0]?.at
    t.strictSame(
      rest.results,
      after.results.filter(({ at }) => at !== firstAt),
    )
  },
)
