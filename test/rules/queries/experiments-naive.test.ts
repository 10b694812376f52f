/**
 * Compares the results of experiments with a slow evaluation of the listed events: ten seeded data sets with late
 * events, merged persons, persons in several variants, test accounts, bots and odd values, whole and in parts.
 *
 * @lane quick
 */
import t from 'tap'
import type { EventPart } from '../../../src/rules/analytics/event-columns.ts'
import { divisionOf, planQuery } from '../../../src/rules/queries/kinds.ts'
import type { QueryContext, QueryShard } from '../../../src/rules/queries/query-kind.ts'
import { Differences } from '../../fixtures/differences.ts'
import { PersonLog } from '../../fixtures/persons/person-log.ts'
import {
  ALPHA,
  DAY_MS,
  type DataSet,
  END_MS,
  experimentOf,
  FLAG,
  GROUP_SETS,
  HORIZON_PERSONS,
  isNear,
  METRICS,
  randomEvents,
  SETS,
  START_MS,
  TEST_ACCOUNT_FILTERS,
  variantKeysOf,
} from '../../fixtures/queries/experiment-sets.ts'
import {
  localDay,
  momentsOf,
  type NaiveResult,
  type NaiveSetup,
  naiveComparison,
  naiveExposures,
  naiveResult,
  naiveUngrouped,
  type ShownEvent,
} from '../../fixtures/queries/naive-experiment.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'
import { atFullDepth, partOf } from '../../fixtures/random-depth.ts'

const NO_LIMITS = { deadlineMs: Number.POSITIVE_INFINITY, isCanceled: () => false }
const isTest = ({ properties }: ShownEvent): boolean =>
  properties['$host'] === 'localhost' || properties['$browser'] === 'bot'

function setupOf(set: DataSet): NaiveSetup {
  return {
    flag: FLAG,
    variants: variantKeysOf(set),
    startMs: START_MS,
    endMs: END_MS,
    isFirstSeen: set.isFirstSeen === true,
    exposureEvent: set.exposureEvent ?? null,
    timezone: set.timezone ?? 'UTC',
    lookbackDays: set.lookbackDays ?? null,
    isByGroup: set.groups !== undefined,
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
    testAccountFilters: TEST_ACCOUNT_FILTERS,
    action: () => null,
    cohortName: () => null,
    firstEventMs: () => scanner.firstEventMs(1),
  }
  // These kinds read nothing else.
  return { context, scanner, part: null } as unknown as QueryShard
}

/** The members of an answer, computed in `count` parts. */
function membersOf(query: Json, shard: QueryShard, count: number): Json {
  const planned = planQuery(query, shard.context)
  const { kind, plan } = planned
  if (divisionOf(planned, 0) === 'nothing') {
    return kind.page(plan, kind.merge(plan, [kind.partial(plan, shard)], shard.scanner), shard)
      .members
  }
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
    const naively = naiveComparison(control.values, variant.values, ALPHA, HORIZON_PERSONS * share)
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

for (const set of [...SETS, ...GROUP_SETS]) {
  const skip = set.groups !== undefined && atFullDepth
  t.test(`results agree with the slow evaluation: data set ${set.seed}`, { skip }, async (t) => {
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
      const ungrouped = setup.isByGroup === true ? naiveUngrouped(shown, setup) : undefined
      differences.equal(answer['exposures_without_group'], ungrouped, 'without a group')
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
