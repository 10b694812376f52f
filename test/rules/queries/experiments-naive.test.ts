/**
 * Compares the results of experiments with a slow evaluation of the listed events: ten seeded data sets with late
 * events, merged persons, persons in several variants, test accounts, bots and odd values, whole and in parts.
 *
 * @lane quick
 */
import t from 'tap'
import type { EventPart } from '../../../src/rules/analytics/event-columns.ts'
import { planQuery } from '../../../src/rules/queries/kinds.ts'
import type { QueryContext, QueryShard } from '../../../src/rules/queries/query-kind.ts'
import { Dice } from '../../fixtures/dice.ts'
import { Differences } from '../../fixtures/differences.ts'
import { PersonLog, type SentEvent } from '../../fixtures/persons/person-log.ts'
import {
  localDay,
  momentsOf,
  type NaiveResult,
  type NaiveSetup,
  naiveComparison,
  naiveExposures,
  naiveResult,
  type ShownEvent,
} from '../../fixtures/queries/naive-experiment.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'
import { partOf, seedOf } from '../../fixtures/random-depth.ts'

const START_MS = Date.UTC(2024, 2, 25)
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const DAYS = 12
const END_MS = START_MS + DAYS * DAY_MS
const ALPHA = 0.05
const NO_LIMITS = { deadlineMs: Number.POSITIVE_INFINITY, isCancelled: () => false }
const FLAG = 'new-checkout'
const TESTS = [
  { key: '$host', type: 'event', operator: 'is_not', value: 'localhost' },
  { key: '$browser', type: 'event', operator: 'is_not', value: 'bot' },
]
const isTest = ({ properties }: ShownEvent): boolean =>
  properties['$host'] === 'localhost' || properties['$browser'] === 'bot'
const ODD_VALUES = [null, 'NaN', '', 'abc', '1e999', ' 7 ', '2.5', '1e2', true, [], {}, -3, 0]

/** One of the ten data sets. */
interface DataSet {
  readonly seed: number
  readonly persons: number
  readonly variants: readonly string[]
  readonly isFirstSeen?: true
  readonly merges?: number
  readonly tests?: number
  readonly late?: true
  readonly exposureEvent?: string
  readonly holdout?: true
  readonly lookbackDays?: number
  readonly withoutMetrics?: true
  readonly timezone?: string
}

const AB = ['control', 'test']
const SETS: readonly DataSet[] = [
  { seed: 1, persons: 160, variants: AB },
  { seed: 2, persons: 300, variants: ['control', 'a', 'b', 'c'], isFirstSeen: true },
  { seed: 3, persons: 180, variants: AB, merges: 40, late: true },
  { seed: 4, persons: 180, variants: AB, tests: 0.3, late: true },
  { seed: 5, persons: 160, variants: AB, exposureEvent: 'saw checkout', merges: 20 },
  { seed: 6, persons: 160, variants: AB, lookbackDays: 14, late: true, merges: 20 },
  { seed: 7, persons: 240, variants: ['control', 'a', 'b'], holdout: true, lookbackDays: 3 },
  { seed: 8, persons: 160, variants: AB, timezone: 'Europe/Berlin', late: true },
  { seed: 9, persons: 120, variants: AB, withoutMetrics: true },
  { seed: 10, persons: 1, variants: AB },
]

function randomEvents(set: DataSet): readonly SentEvent[] {
  const dice = new Dice(seedOf(set.seed))
  const variants = set.holdout === true ? [...set.variants, 'holdout-3'] : set.variants
  const events: SentEvent[] = []
  for (let person = 0; person < set.persons; person++) {
    const variant = person % variants.length
    // Whole minutes, so that some events have the same time.
    const some = (): number => START_MS + dice.between(-6 * 24 * 60, 16 * 24 * 60) * 60_000
    const exposedMs = START_MS + dice.between(-60, DAYS * 24 * 60) * 60_000
    const own = dice.chance(set.tests ?? 0) ? { $host: 'localhost' } : {}
    const bot = (): Json => (dice.chance((set.tests ?? 0) / 3) ? { $browser: 'bot' } : {})
    const who = (): string => (dice.chance(0.3) ? `anon-${person}` : `user-${person}`)
    const add = (event: string, timeMs: number, properties: Json): void => {
      const personless = person % 20 === 0 ? { $process_person_profile: false } : {}
      const timestamp = new Date(timeMs).toISOString()
      const all = { ...own, ...bot(), ...personless, ...properties }
      events.push({ event, distinct_id: who(), timestamp, properties: all })
    }
    if (person % 20 !== 0) {
      const properties = { $anon_distinct_id: `anon-${person}` }
      const timestamp = new Date(some()).toISOString()
      events.push({ event: '$identify', distinct_id: `user-${person}`, timestamp, properties })
    }
    const expose = (timeMs: number, key: unknown): void => {
      if (set.exposureEvent === undefined) {
        add('$feature_flag_called', timeMs, { $feature_flag: FLAG, $feature_flag_response: key })
      } else add(set.exposureEvent, timeMs, { [`$feature/${FLAG}`]: key })
    }
    expose(exposedMs, variants[variant])
    if (dice.chance(0.3)) expose(exposedMs + dice.below(100) * 30 * 60_000, variants[variant])
    if (dice.chance(0.05)) expose(dice.pick([some(), exposedMs]), dice.pick(variants))
    if (dice.chance(0.1)) expose(some(), dice.pick([false, 'other', null]))
    if (dice.chance(0.1)) {
      const other = { $feature_flag: 'another', $feature_flag_response: dice.pick(variants) }
      add('$feature_flag_called', some(), other)
    }
    if (set.withoutMetrics === true) continue
    for (let count = dice.between(0, 14); count > 0; count--) {
      const near = exposedMs + dice.below(4 * 48) * 30 * 60_000
      const timeMs = dice.pick([near, near, some(), some(), exposedMs - 3 * DAY_MS])
      const amount = dice.chance(0.2) ? dice.pick(ODD_VALUES) : dice.below(1000) / 8 + variant * 20
      add(dice.pick(['view', 'view', 'add', 'buy']), timeMs, {
        amount,
        ...(dice.chance(0.2) ? { big: true } : {}),
        ...(dice.chance(0.8)
          ? {
              $session_id: `018f38bf-1d00-7a0e-8000-${String(dice.below(5) + person * 3).padStart(12, '0')}`,
            }
          : {}),
      })
    }
  }
  for (let merge = 0; merge < (set.merges ?? 0); merge++) {
    const [into, other] = [dice.below(set.persons), dice.below(set.persons)]
    if (into === other || into % 20 === 0 || other % 20 === 0) continue
    const timestamp = new Date(START_MS + merge * HOUR_MS).toISOString()
    const properties = { alias: `user-${other}` }
    events.push({ event: '$merge_dangerously', distinct_id: `user-${into}`, timestamp, properties })
  }
  const byTime = events.sort((a, b) => String(a['timestamp']).localeCompare(String(b['timestamp'])))
  if (set.late !== true) return byTime
  // A third of the events arrives much later.
  const isLate = byTime.map(() => dice.chance(0.3))
  return [...byTime.filter((_, at) => !isLate[at]), ...byTime.filter((_, at) => isLate[at])]
}

const event = (name: string | null, more: Json = {}): Json => {
  return { kind: 'EventsNode', event: name, ...more }
}
const sum = (name: string, math = 'sum'): Json => event(name, { math, math_property: 'amount' })
const BIG = { properties: [{ key: 'big', type: 'event', operator: 'exact', value: true }] }

const METRICS: readonly Json[] = [
  { metric_type: 'funnel', series: [event('buy')] },
  { metric_type: 'funnel', series: [event('view'), event('add'), event('buy')], goal: 'decrease' },
  { metric_type: 'funnel', series: [event('view'), event('view'), event(null)] },
  {
    metric_type: 'funnel',
    series: [event('add', BIG), event('buy')],
    conversion_window: 30,
    conversion_window_unit: 'hour',
  },
  {
    metric_type: 'funnel',
    series: [event('add'), event('view'), event('buy')],
    funnel_order_type: 'unordered',
    conversion_window: 2,
  },
  { metric_type: 'mean', source: event('view') },
  { metric_type: 'mean', source: sum('buy') },
  { metric_type: 'mean', source: sum('buy'), conversion_window: 1, conversion_window_unit: 'week' },
  { metric_type: 'mean', source: sum('buy', 'avg') },
  { metric_type: 'mean', source: sum('add', 'min') },
  { metric_type: 'mean', source: sum('add', 'max') },
  { metric_type: 'mean', source: event('buy', { math: 'dau', ...BIG }) },
  { metric_type: 'mean', source: event(null, { math: 'unique_session' }) },
  { metric_type: 'mean', source: sum('view'), upper_bound_percentile: 0.9, ignore_zeros: true },
  {
    metric_type: 'mean',
    source: sum('view'),
    lower_bound_percentile: 0.05,
    upper_bound_percentile: 0.95,
  },
  { metric_type: 'mean', source: sum('buy'), threshold: 40 },
  { metric_type: 'ratio', numerator: sum('buy'), denominator: event('view') },
  {
    metric_type: 'ratio',
    numerator: event('add'),
    denominator: event('view', { math: 'unique_session' }),
    numerator_outlier_handling: { upper_bound_percentile: 0.8 },
    conversion_window: 3,
  },
  {
    metric_type: 'retention',
    start_event: event('view'),
    completion_event: event('view'),
    retention_window_start: 1,
    retention_window_end: 2,
    retention_window_unit: 'day',
    start_handling: 'first_seen',
  },
  {
    metric_type: 'retention',
    start_event: event('add'),
    completion_event: event('buy'),
    retention_window_start: 0,
    retention_window_end: 30,
    retention_window_unit: 'hour',
    start_handling: 'last_seen',
    conversion_window: 4,
  },
  {
    metric_type: 'retention',
    start_event: event('add'),
    completion_event: event(null),
    retention_window_start: 0,
    retention_window_end: 1,
    retention_window_unit: 'week',
    start_handling: 'first_seen',
  },
]

function experimentOf(set: DataSet): Json {
  const share = 100 / set.variants.length
  const variants = set.variants.map((key) => ({ key, rollout_percentage: share }))
  return {
    feature_flag_key: FLAG,
    feature_flag: { filters: { multivariate: { variants: [...variants].reverse() } } },
    start_date: new Date(START_MS).toISOString(),
    end_date: new Date(END_MS).toISOString(),
    stats_config: {
      method: 'frequentist',
      frequentist: { alpha: ALPHA },
      horizon_persons: 400,
      ...(set.lookbackDays === undefined
        ? {}
        : { cuped: { enabled: true, lookback_days: set.lookbackDays } }),
    },
    ...(set.holdout === true
      ? { holdout: { id: 3, filters: [{ properties: [], rollout_percentage: 25 }] } }
      : {}),
    exposure_criteria: {
      filterTestAccounts: true,
      ...(set.isFirstSeen === true ? { multiple_variant_handling: 'first_seen' } : {}),
      ...(set.exposureEvent === undefined
        ? {}
        : {
            exposure_config: {
              kind: 'ExperimentEventExposureConfig',
              event: set.exposureEvent,
              properties: [],
            },
          }),
    },
  }
}

function setupOf(set: DataSet): NaiveSetup {
  // The baseline comes first, and the others in the order of the wire.
  const [control = '', ...others] = set.variants
  const keys = [control, ...others.reverse()]
  return {
    flag: FLAG,
    variants: set.holdout === true ? [...keys, 'holdout-3'] : keys,
    startMs: START_MS,
    endMs: END_MS,
    isFirstSeen: set.isFirstSeen === true,
    exposureEvent: set.exposureEvent ?? null,
    timezone: set.timezone ?? 'UTC',
    lookbackDays: set.lookbackDays ?? null,
    isTest,
  }
}

/** A shard over all events of the log. */
function shardOf(log: PersonLog, set: DataSet): QueryShard {
  const scanner = log.reader.scanner(NO_LIMITS)
  const context: QueryContext = {
    projectId: 1,
    timezone: set.timezone ?? 'UTC',
    nowMs: END_MS + 60 * DAY_MS,
    testAccountFilters: TESTS,
    action: () => null,
    cohortName: () => null,
    firstEventMs: () => scanner.firstEventMs(1),
  }
  // These kinds read nothing else.
  return { context, scanner, part: null } as unknown as QueryShard
}

/** The members of an answer, computed in `count` parts. */
function membersOf(query: Json, shard: QueryShard, count: number): Json {
  const { kind, plan } = planQuery(query, shard.context)
  const parts = Array.from({ length: count }, (_, index): unknown => {
    const part: EventPart = { by: 'persons', index, count }
    return kind.partial(plan, { ...shard, part })
  })
  const whole: unknown = kind.merge(plan, parts, shard.scanner)
  if (count === 1) return kind.page(plan, whole, shard).members
  // Every third person is computed anew, as for persons with new events.
  const { lastPerson } = shard.scanner.extent(1)
  const among = Uint8Array.from({ length: lastPerson + 1 }, (_, person) => Number(person % 3 === 0))
  const part: EventPart = { by: 'persons', index: 0, count: 1, among }
  const theirs = (): unknown => kind.partial(plan, { ...shard, part })
  const rest: unknown = kind.without?.(plan, whole, among, theirs, shard.scanner)
  return kind.page(plan, kind.merge(plan, [rest, theirs()], shard.scanner), shard).members
}

/** Equal to nine digits, relative to the larger number. */
function isNear(found: unknown, wanted: number): boolean {
  if (typeof found !== 'number') return false
  return Math.abs(found - wanted) <= 1e-9 * Math.max(1, Math.abs(wanted))
}

const added = (values: readonly number[]): number => values.reduce((all, one) => all + one, 0)

function compareSums(
  answer: Json,
  naive: NaiveResult,
  metric: Json,
  set: DataSet,
  differences: Differences,
): void {
  const found = [answer['baseline'], ...(answer['variant_results'] as readonly Json[])] as Json[]
  const isCuped = set.lookbackDays !== undefined && 'covariate_sum' in (found[0] ?? {})
  const isRatio = metric['metric_type'] === 'ratio' || metric['metric_type'] === 'retention'
  for (const [index, variant] of naive.variants.entries()) {
    const own = found[index] ?? {}
    const name = `${set.seed} ${JSON.stringify(metric)} ${variant.key}`
    const near = (member: string, wanted: number): void =>
      differences.ok(
        isNear(own[member], wanted),
        () => `${name} ${member}: ${String(own[member])} for ${wanted}`,
      )
    const { values, seconds } = variant
    const products = values.map((value, at) => value * (seconds[at] ?? 0))
    differences.equal(own['key'], variant.key, name)
    differences.equal(own['number_of_samples'], variant.persons, `${name} persons`)
    near('sum', added(values))
    near('sum_squares', added(values.map((value) => value * value)))
    const prefix = isCuped ? 'covariate_sum' : 'denominator_sum'
    if (isCuped || isRatio) {
      near(prefix, added(seconds))
      near(`${prefix}_squares`, added(seconds.map((value) => value * value)))
      near(isCuped ? 'covariate_sum_product' : 'numerator_denominator_sum_product', added(products))
    }
    if (metric['metric_type'] !== 'funnel') continue
    const series = metric['series'] as readonly unknown[]
    const counts = series.map((_, step) => variant.steps.filter((steps) => steps > step).length)
    differences.same(own['step_counts'], counts, `${name} steps`)
  }
}

function compareStatistics(
  answer: Json,
  naive: NaiveResult,
  metric: Json,
  set: DataSet,
  differences: Differences,
): number {
  let compared = 0
  const [control, ...others] = naive.variants
  if (set.lookbackDays !== undefined || metric['metric_type'] === 'ratio') return 0
  const share = 2 / set.variants.length
  for (const [index, variant] of others.entries()) {
    const found = (answer['variant_results'] as readonly Json[])[index] ?? {}
    const alwaysValid = found['always_valid'] as Json | null
    const fixed = found['fixed_horizon'] as Json | null
    const name = `${set.seed} ${JSON.stringify(metric)} ${variant.key}`
    if (alwaysValid === null || fixed === null || control === undefined) {
      differences.ok(typeof found['not_enough_data'] === 'string', `${name} has a reason`)
      differences.ok(!('p_value' in found), `${name} has no p-value`)
      continue
    }
    compared++
    const naively = naiveComparison(control.values, variant.values, ALPHA, 400 * share)
    const difference = alwaysValid['difference'] as Json
    const near = (one: unknown, wanted: number, what: string): void =>
      differences.ok(isNear(one, wanted), () => `${name} ${what}: ${String(one)} for ${wanted}`)
    near(difference['estimate'], naively.difference, 'difference')
    near(difference['low'], naively.alwaysValidLow, 'low')
    near(difference['high'], naively.alwaysValidHigh, 'high')
    near(alwaysValid['p_value'], naively.alwaysValidP, 'always-valid p-value')
    near(found['p_value'], naively.fixedP, 'p-value')
    near(found['mean'], momentsOf(variant.values).mean, 'mean')
    const isOutside = naively.alwaysValidLow > 0 || naively.alwaysValidHigh < 0
    const isBetter = naively.difference > 0 === (metric['goal'] !== 'decrease')
    const verdict = isOutside ? (isBetter ? 'better' : 'worse') : 'open'
    differences.equal(found['verdict'], verdict, `${name} verdict`)
  }
  return compared
}

for (const set of SETS) {
  t.test(`results agree with the slow evaluation: data set ${set.seed}`, async (t) => {
    let statistics = 0
    const log = new PersonLog(t, t.testdir())
    const events = randomEvents(set)
    for (let start = 0; start < events.length; start += 1000) {
      log.send(1, events.slice(start, start + 1000), END_MS + 20 * DAY_MS)
      log.process()
    }
    const shard = shardOf(log, set)
    const shown = log.reader.listEvents({ projectId: 1, limit: 1_000_000 })
      .results as readonly ShownEvent[]
    const setup = setupOf(set)
    const experiment = experimentOf(set)
    const differences = new Differences()
    const counts = [1, 3]
    for (const [index, metric] of partOf(METRICS, set.seed).entries()) {
      const naive = naiveResult(shown, setup, metric)
      const query = { kind: 'ExperimentQuery', experiment, metric }
      const answer = membersOf(query, shard, counts[index % 2] ?? 1)
      differences.equal(answer['persons_set_aside'], naive.setAside, 'set aside')
      differences.equal(answer['persons_in_several_variants'], naive.several, 'several variants')
      compareSums(answer, naive, metric, set, differences)
      statistics += compareStatistics(answer, naive, metric, set, differences)
    }
    const query = { kind: 'ExperimentExposureQuery', experiment }
    const exposures = membersOf(query, shard, 2)
    const exposed = naiveExposures(shown, setup)
    for (const series of exposures['timeseries'] as readonly Json[]) {
      const variant = String(series['variant'])
      const own = exposed.filter((one) => {
        if (one.isSeveral && !setup.isFirstSeen) return variant === '$multiple'
        return one.variant === variant
      })
      const days = series['days'] as readonly string[]
      const wanted = days.map((day) => {
        const last = Date.parse(day) / DAY_MS
        return own.filter(({ firstMs }) => localDay(firstMs, setup.timezone) <= last).length
      })
      differences.same(series['exposure_counts'], wanted, `${set.seed} ${variant} by day`)
      const total = (exposures['total_exposures'] as Json)[variant]
      differences.equal(total, own.length, `${set.seed} ${variant} total`)
    }
    t.strictSame(differences.list(), [])
    t.notOk(shard.scanner.looksAtPersons, 'the results may be cached')
    const hasStatistics = set.persons > 100 && set.withoutMetrics !== true
    t.equal(statistics > 0, hasStatistics && set.lookbackDays === undefined)
  })
}
