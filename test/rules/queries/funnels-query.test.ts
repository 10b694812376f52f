/** Funnels of the query route: against a naive evaluator, however the events are divided; and what is refused. */
import t from 'tap'
import { divisionOf, planQuery } from '../../../src/rules/queries/kinds.ts'
import { QueryFields } from '../../../src/rules/queries/query-fields.ts'
import type { QueryContext } from '../../../src/rules/queries/query-kind.ts'
import { MemoryScanner } from '../../fixtures/analytics/memory-scanner.ts'
import { memoryShard } from '../../fixtures/queries/memory-shard.ts'
import {
  type NaiveEvent,
  type NaiveFunnel,
  type NaiveRun,
  naiveRuns,
} from '../../fixtures/queries/naive-funnel.ts'
import { randomNumbers } from '../../fixtures/stored-events.ts'

type Json = Readonly<Record<string, unknown>>

const START_MS = Date.UTC(2024, 0, 10)
const HOUR_MS = 3_600_000
const DAYS = 3
const COHORTS = new Map([
  [7, new Set([1, 2, 3])],
  [8, new Set([3, 4])],
])
const CONTEXT: QueryContext = {
  projectId: 1,
  timezone: 'UTC',
  nowMs: START_MS + 30 * 24 * HOUR_MS,
  testAccountFilters: [],
  action: (id) => (id === 5 ? { name: 'Act', steps: [] } : null),
  cohortName: (id) => `cohort ${id}`,
  firstEventMs: () => START_MS,
}
const RANGE = { date_from: '2024-01-10', date_to: '2024-01-12' }

/** Random events of five persons and somebody who is none, in three groups, many at the same time. */
class World {
  readonly events: readonly (NaiveEvent & { readonly group: string })[]
  readonly scanner: MemoryScanner
  readonly #plans = ['pro', 'free', undefined]

  constructor(random: () => number) {
    const pick = <Value>(values: readonly Value[]): Value =>
      values[Math.floor(random() * values.length)] as Value
    const raw = Array.from({ length: 20 + Math.floor(random() * 40) }, () => ({
      who: pick(['a', 'b', 'c', 'd', 'e', 'f']),
      timeMs: START_MS + Math.floor(random() * DAYS * 12) * 2 * HOUR_MS,
      name: pick(['A', 'A', 'B', 'B', 'C', 'X', 'Y']),
      k: pick([undefined, undefined, '', 'x', 'y', 1, '1', null]),
      group: pick(['', 'g', 'h', 'i']),
    }))
    this.events = raw.map(({ k, ...event }, sequence) => ({
      ...event,
      sequence,
      value: [k === undefined || k === null ? '' : String(k)],
    }))
    this.scanner = new MemoryScanner({
      events: raw.map(({ who, timeMs, name, k, group }) => ({
        ...{ timeMs, name, distinctId: who },
        properties: {
          ...(k === undefined ? {} : { k }),
          ...(group === '' ? {} : { $group_0: group }),
        },
      })),
      persons: ['a', 'b', 'c', 'd', 'e'].map((who, index) => ({
        number: index + 1,
        uuid: `00000000-0000-4000-8000-00000000000${index}`,
        createdMs: START_MS,
        properties: { plan: this.#plans[index % 3] },
        distinctIds: [who],
      })),
      cohorts: COHORTS,
    })
  }

  planOf(who: string): readonly string[] {
    return [this.#plans[(who.charCodeAt(0) - 97) % 3] ?? '']
  }
}

interface Trial {
  readonly funnel: NaiveFunnel
  readonly visual: 'steps' | 'time_to_convert' | 'trends'
  readonly measured: readonly [from: number, to: number]
  readonly by: 'nothing' | 'event' | 'person' | 'cohort'
  readonly isByGroup: boolean
  readonly limit: number
  readonly binCount: number | null
}

function randomTrial(random: () => number): Trial {
  const pick = <Value>(values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)] as Value
  const order = pick(['ordered', 'ordered', 'strict', 'unordered'] as const)
  const steps = Array.from({ length: pick([2, 2, 3, 4]) }, () => pick(['A', 'B', 'C', null]))
  const from = order === 'unordered' ? 0 : Math.floor(random() * (steps.length - 1))
  const to = order === 'unordered' ? steps.length - 1 : from + 1
  const exclusions = pick([true, false]) ? [{ name: 'X', from, to }] : []
  if (exclusions.length > 0 && pick([true, false])) {
    exclusions.push({ name: 'Y', from: 0, to: steps.length - 1 })
  }
  const visuals = ['steps', 'steps', 'time_to_convert', 'trends'] as const
  const visual = pick(order === 'unordered' ? visuals.slice(0, 3) : visuals)
  const by = pick(['nothing', 'event', 'event', 'person', 'cohort'] as const)
  const attribution = pick(['first_touch', 'last_touch', 'all_events', 'step'] as const)
  const measuredFrom = Math.floor(random() * (steps.length - 1))
  return {
    funnel: {
      ...{ order, steps, exclusions },
      windowMs: pick([1, 4, 10, 48]) * HOUR_MS,
      attribution: by === 'event' || by === 'person' ? attribution : null,
      attributionStep: order === 'unordered' ? 0 : Math.floor(random() * steps.length),
    },
    ...{ visual, by },
    measured: [measuredFrom, measuredFrom + 1],
    isByGroup: by !== 'cohort' && random() < 0.2,
    limit: pick([1, 2, 25]),
    binCount: pick([null, null, 3, 500]),
  }
}

function queryOf({ funnel, visual, measured, by, isByGroup, limit, binCount }: Trial): Json {
  const node = (event: string | null) => ({ kind: 'EventsNode', event })
  const breakdowns: Readonly<Record<Trial['by'], Json>> = {
    nothing: {},
    event: { breakdown: 'k', breakdown_limit: limit },
    person: { breakdown: 'plan', breakdown_type: 'person', breakdown_limit: limit },
    cohort: { breakdown: [7, 'all', 8], breakdown_type: 'cohort', breakdown_limit: limit },
  }
  return {
    kind: 'FunnelsQuery',
    series: funnel.steps.map(node),
    dateRange: RANGE,
    ...(isByGroup ? { aggregation_group_type_index: 0 } : {}),
    breakdownFilter: breakdowns[by],
    funnelsFilter: {
      funnelVizType: visual,
      funnelOrderType: funnel.order,
      funnelWindowInterval: funnel.windowMs / HOUR_MS,
      funnelWindowIntervalUnit: 'hour',
      funnelFromStep: measured[0],
      funnelToStep: measured[1],
      exclusions: funnel.exclusions.map(({ name, from, to }) => ({
        ...node(name),
        funnelFromStep: from,
        funnelToStep: to,
      })),
      binCount,
      breakdownAttributionType: funnel.attribution ?? 'first_touch',
      breakdownAttributionValue: funnel.attributionStep,
    },
  }
}

/** The runs of a trial; of a breakdown by cohorts those in each, with the number as the value. */
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
        ...{ custom_name: null, order, people: [], count: reached.length, type: 'events' },
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
  const min = Math.min(...seconds)
  const width = Math.ceil((Math.max(...seconds) - min) / count) || 60
  const bins = Array.from({ length: count + 1 }, (_, index) => [
    min + index * width,
    seconds.filter((one) => Math.floor((one - min) / width) === index).length,
  ])
  return { bins, average_conversion_time: mean(seconds) }
}

function mean(numbers: readonly number[]): number | null {
  return numbers.length === 0 ? null : numbers.reduce((sum, one) => sum + one, 0) / numbers.length
}

/** The results of a query whose persons are divided among so many parts. */
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

t.test('funnels are those of a naive evaluator, however they are divided', async (t) => {
  const random = randomNumbers(20_240_110)
  for (let trial = 0; trial < 400; trial++) {
    const world = new World(random)
    const one = randomTrial(random)
    const query = queryOf(one)
    const right = expected(one, world)
    const withUrls = { ...query, persons_urls: true }
    const [whole, divided] = [1, 3].map((count) =>
      JSON.stringify(resultsOf(withUrls, world, count)),
    )
    if (whole !== divided) {
      t.equal(divided, whole, `who is behind it, trial ${trial}`)
      return
    }
    for (const count of [1, 1 + Math.ceil(random() * 4)]) {
      const found = JSON.stringify(resultsOf(query, world, count))
      if (found === JSON.stringify(right)) continue
      t.equal(found, JSON.stringify(right), `trial ${trial}, ${JSON.stringify(query)}`)
      return
    }
  }
  t.pass('all trials')
})

t.test('those behind a step are those who were counted', async (t) => {
  const random = randomNumbers(7)
  for (let trial = 0; trial < 200; trial++) {
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

t.test('what cannot be asked is refused, with the path of the member', async (t) => {
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
  for (const [query, attr] of refusals) {
    const full = { kind: 'FunnelsQuery', ...query }
    t.throws(() => planQuery(full, CONTEXT), { code: 'invalid_query', attr }, JSON.stringify(query))
  }
  const narrow = [{ key: 'k', value: 'x' }]
  t.ok(
    planQuery(
      { kind: 'FunnelsQuery', ...excluding({ ...x, event: 'B', properties: narrow }) },
      CONTEXT,
    ),
    'an excluded event may be a narrower one than a step',
  )
})

t.test('who may be asked for', async (t) => {
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
