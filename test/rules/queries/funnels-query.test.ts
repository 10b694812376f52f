/**
 * Compares funnel queries of the query route with a naive evaluator, however the events are divided, and tests which
 * requests are refused.
 *
 * @lane quick
 */
import t from 'tap'
import { divisionOf, planQuery } from '../../../src/rules/queries/kinds.ts'
import { QueryFields } from '../../../src/rules/queries/query-fields.ts'
import { Differences } from '../../fixtures/differences.ts'
import {
  COHORTS,
  CONTEXT,
  DAYS,
  HOUR_MS,
  queryOf,
  RANGE,
  randomTrial,
  START_MS,
  type Trial,
  World,
} from '../../fixtures/queries/funnel-trials.ts'
import { memoryShard } from '../../fixtures/queries/memory-shard.ts'
import { type NaiveRun, naiveRuns } from '../../fixtures/queries/naive-funnel.ts'
import { roundsOf } from '../../fixtures/random-depth.ts'
import { randomNumbers } from '../../fixtures/stored-events.ts'

type Json = Readonly<Record<string, unknown>>

/** The runs of a trial. For a breakdown by cohorts, one run for each cohort, with its number as the value. */
function runsOf(
  { funnel, visual, measured, by, isByGroup }: Trial,
  world: World,
): readonly NaiveRun[] {
  const events = world.events.flatMap((event) => {
    if (isByGroup && event.group === '') return []
    const value = by === 'person' ? world.planOf(event.who) : event.value
    return [{ ...event, value, who: isByGroup ? event.group : event.who }]
  })
  const periodOf = (timeMs: number): number => Math.floor((timeMs - START_MS) / (24 * HOUR_MS))
  const runs =
    visual === 'trends'
      ? naiveRuns(funnel, events, measured[1] + 1, periodOf).filter(
          ({ timesMs }) => timesMs.length > measured[0],
        )
      : naiveRuns(funnel, events, funnel.steps.length, null)
  if (by !== 'cohort') return runs
  return [7, 0, 8].flatMap((id) =>
    runs
      .filter(({ who }) => id === 0 || COHORTS.get(id)?.has(who.charCodeAt(0) - 96) === true)
      .map((run) => ({ ...run, value: [String(id)] })),
  )
}

interface ValueRuns {
  readonly value: readonly string[]
  readonly runs: readonly NaiveRun[]
}

function ranked({ funnel, by, limit }: Trial, runs: readonly NaiveRun[]): readonly ValueRuns[] {
  const groups = new Map<string, NaiveRun[]>()
  for (const run of runs) {
    const key = JSON.stringify(run.value)
    groups.set(key, [...(groups.get(key) ?? []), run])
  }
  const counts = ({ runs: own }: ValueRuns): readonly number[] =>
    funnel.steps.map((_, step) => own.filter(({ timesMs }) => timesMs.length > step).length)
  const values = [...groups]
    .map(([text, own]) => ({ value: JSON.parse(text) as readonly string[], runs: own }))
    .sort((a, b) => {
      const [left, right] = [counts(a), counts(b)]
      for (let step = funnel.steps.length - 1; step >= 0; step--) {
        const order = (right[step] ?? 0) - (left[step] ?? 0)
        if (order !== 0) return order
      }
      return a.value.join() < b.value.join() ? -1 : 1
    })
  if (by === 'cohort' || by === 'nothing' || values.length <= limit) return values
  const rest = values.slice(limit).flatMap(({ runs: own }) => own)
  return [...values.slice(0, limit), { value: ['Other'], runs: rest }]
}

function expected(trial: Trial, world: World): unknown {
  const runs = runsOf(trial, world)
  const { funnel, visual, measured, by } = trial
  if (visual === 'time_to_convert') return binsOf(trial, runs)
  const named = ({ value }: ValueRuns): Json => {
    if (by === 'nothing') return {}
    if (by !== 'cohort') return { breakdown: value, breakdown_value: value }
    const id = Number(value[0])
    return { breakdown: id === 0 ? 'all users' : `cohort ${id}`, breakdown_value: id }
  }
  if (visual === 'trends') {
    const items = by === 'nothing' ? [{ value: [], runs }] : ranked(trial, runs)
    return items.map((item) => {
      const data = Array.from({ length: DAYS }, (_, period) => {
        const own = item.runs.filter((run) => run.period === period)
        const [entered = 0, converted = 0] = measured.map(
          (step) => own.filter(({ timesMs }) => timesMs.length > step).length,
        )
        return entered === 0 ? 0 : Math.round((converted / entered) * 10_000) / 100
      })
      const days = ['2024-01-10', '2024-01-11', '2024-01-12']
      const labels = ['10-Jan-2024', '11-Jan-2024', '12-Jan-2024']
      return { count: DAYS, data, days, labels, ...named(item) }
    })
  }
  const results = ranked(trial, runs).map((item) =>
    funnel.steps.map((name, order) => {
      const reached = item.runs.filter(({ timesMs }) => timesMs.length > order)
      const seconds = reached
        .map(({ timesMs }) => ((timesMs[order] ?? 0) - (timesMs[order - 1] ?? Number.NaN)) / 1000)
        .filter((one) => one > 0)
        .sort((a, b) => a - b)
      const isUnordered = funnel.order === 'unordered'
      return {
        action_id: isUnordered ? null : name,
        name: isUnordered
          ? `Completed ${order + 1} step${order > 0 ? 's' : ''}`
          : (name ?? 'All events'),
        custom_name: null,
        order,
        people: [],
        count: reached.length,
        type: 'events',
        average_conversion_time: mean(seconds),
        median_conversion_time: mean(
          seconds.slice(Math.floor((seconds.length - 1) / 2), Math.floor(seconds.length / 2) + 1),
        ),
        ...named(item),
      }
    }),
  )
  return by === 'nothing' ? (results[0] ?? []) : results
}

function binsOf({ measured: [from, to], binCount }: Trial, runs: readonly NaiveRun[]): unknown {
  const seconds = runs
    .filter(({ timesMs }) => timesMs.length > to)
    .map(({ timesMs }) => ((timesMs[to] ?? 0) - (timesMs[from] ?? 0)) / 1000)
  if (seconds.length === 0) {
    const bins = [
      [0, 0],
      [60, 0],
    ]
    return { bins, average_conversion_time: null }
  }
  const count = binCount === null ? Math.ceil(Math.cbrt(seconds.length)) : Math.min(90, binCount)
  const min = Math.floor(Math.min(...seconds))
  const width = Math.ceil((Math.ceil(Math.max(...seconds)) - min) / count) || 60
  const bins = Array.from({ length: count + 1 }, (_, index) => [
    min + index * width,
    seconds.filter((one) => Math.floor((one - min) / width) === index).length,
  ])
  return { bins, average_conversion_time: mean(seconds) }
}

function mean(numbers: readonly number[]): number | null {
  return numbers.length === 0 ? null : numbers.reduce((sum, one) => sum + one, 0) / numbers.length
}

/** Returns the results of a query with persons divided into a number of parts. */
function resultsOf(query: Json, { scanner }: World, count: number): unknown {
  const planned = planQuery(query, CONTEXT)
  const { kind, plan } = planned
  const isWhole = divisionOf(planned, 0) === 'nothing' || count === 1
  const parts = Array.from({ length: isWhole ? 1 : count }, (_, index): unknown =>
    kind.partial(
      plan,
      memoryShard(scanner, CONTEXT, isWhole ? null : { by: 'persons', index, count }),
    ),
  )
  const whole: unknown = kind.merge(plan, structuredClone(parts.toReversed()), scanner)
  return kind.page(plan, whole, memoryShard(scanner, CONTEXT)).results
}

/** Returns the first wrong answer of a trial, however the events are divided, or null if all are right. */
function faultOf(one: Trial, world: World, random: () => number, dateRange = RANGE): string | null {
  const query = queryOf(one, dateRange)
  const right = JSON.stringify(expected(one, world))
  const withUrls = { ...query, persons_urls: true }
  const [whole, divided] = [1, 3].map((count) => JSON.stringify(resultsOf(withUrls, world, count)))
  if (whole !== divided) return `who is behind it: ${divided} and ${whole}`
  for (const count of [1, 1 + Math.ceil(random() * 4)]) {
    const found = JSON.stringify(resultsOf(query, world, count))
    if (found !== right) return `${JSON.stringify(query)}: ${found} and ${right}`
  }
  return null
}

t.test('funnels equal those of a naive evaluator, however they are divided', async (t) => {
  const random = randomNumbers(20_240_110)
  const differences = new Differences()
  for (let trial = 0; trial < roundsOf(400); trial++) {
    const world = new World(random)
    differences.equal(faultOf(randomTrial(random), world, random), null, `trial ${trial} is right`)
  }
  t.strictSame(differences.list(), [], 'every funnel is that of the naive evaluator')
})

t.test('funnels of events that arrive almost in order agree, too', async (t) => {
  const random = randomNumbers(31)
  const usual = { by: 'nothing', isByGroup: false, measured: [0, 1] } as const
  const rules = { order: 'ordered', exclusions: [], attribution: null } as const
  const differences = new Differences()
  for (let trial = 0; trial < roundsOf(300); trial++) {
    const world = new World(random, true, [0, 0.02, 0][trial % 3])
    // Longer than a 32-bit number of milliseconds, which would end in the middle of the events.
    const dateRange = trial % 3 === 2 ? { ...RANGE, date_from: '2023-11-23' } : RANGE
    const drawn = randomTrial(random)
    const steps = random() < 0.3 ? drawn.funnel.steps : ['A', 'B', 'C']
    const visual = random() < 0.8 ? 'steps' : 'time_to_convert'
    const one = {
      ...drawn,
      ...usual,
      visual,
      funnel: { ...drawn.funnel, ...rules, steps },
    } as const
    differences.equal(faultOf(one, world, random, dateRange), null, `trial ${trial} is right`)
  }
  t.strictSame(differences.list(), [], 'every funnel is that of the naive evaluator')
})

t.test('the actors of a step are the persons that were counted', async (t) => {
  const random = randomNumbers(7)
  for (let trial = 0; trial < roundsOf(200, 40); trial++) {
    const world = new World(random)
    const drawn = randomTrial(random)
    if (drawn.visual === 'trends') continue
    const one = { ...drawn, limit: 25 }
    const query = queryOf(one)
    const runs = runsOf(one, world)
    const { kind, plan } = planQuery(query, CONTEXT)
    const stepCount = one.funnel.steps.length
    for (const step of [1, stepCount, -2, -stepCount]) {
      for (const value of [null, ...new Set(runs.map((run) => JSON.stringify(run.value)))]) {
        const text = value === null ? null : (JSON.parse(value) as readonly string[])
        const pick = new QueryFields({ funnelStep: step, funnelStepBreakdown: text })
        const shard = memoryShard(world.scanner, CONTEXT)
        const actors = kind.actors?.(plan, pick, shard)
        const names = one.isByGroup
          ? actors?.groupKeys
          : actors?.persons.map((person) => world.scanner.nameOf(person))
        const isWanted = ({ timesMs }: NaiveRun): boolean =>
          step > 0 ? timesMs.length >= step : timesMs.length === -step - 1
        const isValue = (run: NaiveRun): boolean =>
          value === null || one.by === 'nothing' || JSON.stringify(run.value) === value
        const right = new Set(
          runs.filter((run) => isWanted(run) && isValue(run)).map(({ who }) => who),
        )
        const hint = `trial ${trial}, step ${step}, value ${value}, ${JSON.stringify(query)}`
        if (names?.join() === [...right].sort().join()) continue
        t.strictSame(names, [...right].sort(), hint)
        return
      }
    }
  }
  t.pass('all trials')
})

const AB = [{ event: 'A' }, { event: 'B' }]

t.test('an invalid query is refused with the path of the member', async (t) => {
  const within = (funnelsFilter: Json): Json => ({ series: AB, funnelsFilter })
  const excluding = (...more: readonly Json[]): Json => within({ exclusions: more })
  const x = { event: 'X', funnelFromStep: 0, funnelToStep: 1 }
  const attributed = { breakdownAttributionType: 'step', breakdownAttributionValue: 1 }
  const refusals: readonly (readonly [query: Json, attr: string])[] = [
    [{ series: [{ event: 'A' }] }, 'series'],
    [{ series: [{ event: 'A', optionalInFunnel: true }, ...AB] }, 'series.0.optionalInFunnel'],
    [{ series: [{ event: 'A', math: 'dau' }, ...AB] }, 'series.0.math'],
    [{ series: [...AB, { kind: 'ActionsNode', id: 6 }] }, 'series.2.id'],
    [{ series: AB, compareFilter: { compare: true } }, 'compareFilter.compare'],
    [within({ funnelVizType: 'flow' }), 'funnelsFilter.funnelVizType'],
    [
      within({ funnelVizType: 'trends', funnelOrderType: 'unordered' }),
      'funnelsFilter.funnelVizType',
    ],
    [within({ funnelAggregateByHogQL: 'lower(x)' }), 'funnelsFilter.funnelAggregateByHogQL'],
    [within({ funnelWindowInterval: 0 }), 'funnelsFilter.funnelWindowInterval'],
    [within({ funnelWindowIntervalUnit: 'year' }), 'funnelsFilter.funnelWindowIntervalUnit'],
    [within({ funnelFromStep: 1 }), 'funnelsFilter.funnelFromStep'],
    [within({ funnelToStep: 2 }), 'funnelsFilter.funnelToStep'],
    [
      { series: [...AB, { event: 'C' }], funnelsFilter: { funnelFromStep: 1, funnelToStep: 1 } },
      'funnelsFilter.funnelToStep',
    ],
    [excluding({ event: 'X' }), 'funnelsFilter.exclusions.0.funnelToStep'],
    [excluding(x, { ...x, event: 'B' }), 'funnelsFilter.exclusions.1.event'],
    [excluding({ ...x, kind: 'ActionsNode', id: 6 }), 'funnelsFilter.exclusions.0.id'],
    [excluding(...Array.from({ length: 30 }, () => x)), 'funnelsFilter.exclusions'],
    [
      {
        series: [...AB, { event: 'C' }],
        funnelsFilter: { funnelOrderType: 'unordered', exclusions: [x] },
      },
      'funnelsFilter.exclusions.0.funnelToStep',
    ],
    [
      within({ breakdownAttributionType: 'step', breakdownAttributionValue: 2 }),
      'funnelsFilter.breakdownAttributionValue',
    ],
    [
      within({ ...attributed, funnelOrderType: 'unordered' }),
      'funnelsFilter.breakdownAttributionValue',
    ],
  ]
  const differences = new Differences()
  for (const [query, attr] of refusals) {
    const full = { kind: 'FunnelsQuery', ...query }
    const refusal = { code: 'invalid_query', attr }
    differences.throws(() => planQuery(full, CONTEXT), refusal, JSON.stringify(query))
  }
  t.strictSame(differences.list(), [], 'every query is refused with the path of the member')
  const narrow = [{ key: 'k', value: 'x' }]
  t.ok(
    planQuery(
      { kind: 'FunnelsQuery', ...excluding({ ...x, event: 'B', properties: narrow }) },
      CONTEXT,
    ),
    'an excluded event may be narrower than a step',
  )
})

t.test('actor requests select their step', async (t) => {
  const { scanner } = new World(randomNumbers(1))
  const shard = memoryShard(scanner, CONTEXT)
  const ask = (funnelsFilter: Json, pick: Json): unknown => {
    const { kind, plan } = planQuery({ kind: 'FunnelsQuery', series: AB, funnelsFilter }, CONTEXT)
    return kind.actors?.(plan, new QueryFields(pick), shard)
  }
  for (const funnelStep of [undefined, 0, -1, 3, -3, 1.5, '1']) {
    const refusal = { code: 'invalid_query', attr: 'funnelStep' }
    t.throws(() => ask({}, { funnelStep }), refusal, String(funnelStep))
  }
  t.throws(() => ask({}, { funnelStep: 1, funnelCustomSteps: [1] }), { code: 'invalid_query' })
  t.throws(() => ask({ funnelVizType: 'trends' }, { funnelStep: 1 }), { code: 'invalid_query' })
})

t.test('an action is a step with its name and number', async (t) => {
  const series = [{ kind: 'ActionsNode', id: 5, custom_name: 'Mine' }, { event: 'A' }]
  const query = { kind: 'FunnelsQuery', series, dateRange: RANGE }
  const world = new World(randomNumbers(3))
  t.strictSame(resultsOf(query, world, 1), [], 'without steps it stands for no event')
  const reversed = { ...query, series: series.toReversed() }
  const [, action] = resultsOf(reversed, world, 1) as readonly Json[]
  t.match(action, { action_id: 5, name: 'Act', custom_name: 'Mine', type: 'actions', count: 0 })
})
