/**
 * Compares random trends, whole and in parts, with an evaluator that reads every event for every number.
 *
 * @lane quick
 */
import t from 'tap'
import type { EventPart } from '../../../../src/rules/analytics/event-columns.ts'
import { divisionOf, planQuery } from '../../../../src/rules/queries/kinds.ts'
import type { QueryContext } from '../../../../src/rules/queries/query-kind.ts'
import { MemoryScanner } from '../../../fixtures/analytics/memory-scanner.ts'
import { Dice } from '../../../fixtures/dice.ts'
import { Differences } from '../../../fixtures/differences.ts'
import { memoryShard } from '../../../fixtures/queries/memory-shard.ts'
import {
  type NaiveEvent,
  type NaiveQuery,
  NaiveTrends,
  type NaiveWorld,
} from '../../../fixtures/queries/naive-trends.ts'
import type { Json } from '../../../fixtures/queries/query-cases.ts'
import { roundsOf } from '../../../fixtures/random-depth.ts'

const ROUNDS = roundsOf(80)
const QUERIES_EACH = 12
const HOUR_MS = 3_600_000
const MATH = [
  'total',
  'dau',
  'weekly_active',
  'monthly_active',
  'unique_session',
  'unique_group',
  'first_time_for_user',
  'first_matching_event_for_user',
]
const PROPERTY_MATH = ['sum', 'avg', 'min', 'max', 'median', 'p75', 'p90', 'p95', 'p99']
const VALUES = ['x', 'y', 'z', '', 1, 2.5, true, null, [1], ' 7 ', -3, 10, '12', 'missing']

/** Returns the object without its undefined members. */
function present(properties: Json): Json {
  return Object.fromEntries(Object.entries(properties).filter(([, value]) => value !== 'missing'))
}

function randomWorld(dice: Dice): NaiveWorld {
  const timezone = dice.pick(['UTC', 'Europe/Berlin', 'America/New_York'])
  // Around a day on which clocks change.
  const aroundMs = Date.parse(
    dice.pick(['2023-03-26T00:00:00Z', '2023-10-29T00:00:00Z', '2023-11-05T12:00:00Z']),
  )
  const persons = new Map(
    Array.from({ length: dice.between(1, 8) }, (_, index) => {
      return [index + 1, present({ plan: dice.pick(VALUES), age: dice.pick(VALUES) })] as const
    }),
  )
  const events = Array.from({ length: dice.below(60) }, (): NaiveEvent => {
    const properties: Json = {
      k: dice.pick(VALUES),
      l: dice.pick(['a', 'b', null]),
      n: dice.pick(VALUES),
    }
    return {
      // Some have no person and count as one actor for each distinct_id.
      person: dice.chance(0.2) ? dice.pick([20, 21]) : dice.between(1, persons.size),
      timeMs: aroundMs + dice.between(-40 * 24, 12 * 24) * (HOUR_MS / 2),
      name: dice.pick(['view', 'buy']),
      properties: {
        ...present(properties),
        ...(dice.chance(0.5) ? { $session_id: dice.pick(['s1', 's2']) } : {}),
        ...(dice.chance(0.6) ? { $group_0: dice.pick(['g1', 'g2', 'g3']) } : {}),
      },
    }
  })
  const cohorts = new Map([
    [3, new Set([1, 2, 3])],
    [12, new Set([2, 5])],
    [40, new Set([77])],
  ])
  return { timezone, events, persons, cohorts }
}

function randomSeries(dice: Dice): NaiveQuery['series'][number] {
  const event = dice.pick(['view', 'view', 'buy', null])
  const kind = 'EventsNode'
  const properties = dice.chance(0.2)
    ? [{ key: 'l', value: dice.pick(['a', 'b']), type: 'event' }]
    : []
  const roll = dice.below(10)
  if (roll < 2) {
    const ofPerson = dice.chance(0.3)
      ? { math_property: 'age', math_property_type: 'person_properties' }
      : {}
    const factor = dice.chance(0.3) ? { math_multiplier: 2.5 } : {}
    return {
      kind,
      event,
      properties,
      math: dice.pick(PROPERTY_MATH),
      math_property: 'n',
      ...ofPerson,
      ...factor,
    }
  }
  if (roll < 3) {
    return { kind, event, properties, math: `${dice.pick(PROPERTY_MATH.slice(1))}_count_per_actor` }
  }
  const math = dice.pick(MATH)
  const isOfGroups = math === 'unique_group' || (math === 'dau' && dice.chance(0.2))
  return { kind, event, properties, math, ...(isOfGroups ? { math_group_type_index: 0 } : {}) }
}

function randomBreakdown(dice: Dice): NaiveQuery['breakdownFilter'] {
  const rest = {
    ...(dice.chance(0.5) ? { breakdown_limit: dice.between(1, 4) } : {}),
    ...(dice.chance(0.2) ? { breakdown_hide_other_aggregation: true } : {}),
  }
  switch (dice.below(6)) {
    case 0:
      return { breakdown: dice.pick(['k', 'l']), breakdown_type: 'event', ...rest }
    case 1:
      return { breakdown: 'plan', breakdown_type: 'person', ...rest }
    case 2: {
      const breakdowns = [
        { property: 'l' },
        { property: 'plan', type: 'person' },
        { property: 'k' },
      ]
      return { breakdowns: breakdowns.slice(0, dice.between(1, 3)), ...rest }
    }
    case 3: {
      const breakdown = dice.pick([[3], [3, 12], [12, 3, 40], ['all', 12], ['all']])
      return { breakdown, breakdown_type: 'cohort', ...rest }
    }
    case 4:
      return { breakdowns: [{ property: 'n', histogram_bin_count: dice.between(1, 5) }], ...rest }
    default:
      return undefined
  }
}

function randomQuery(dice: Dice): NaiveQuery {
  const interval = dice.pick(['hour', 'day', 'day', 'week', 'month'] as const)
  const month = dice.pick(['03', '10', '11'])
  const day = dice.between(1, 25)
  const text = (one: number): string => `2023-${month}-${String(one).padStart(2, '0')}`
  const date_from = text(day)
  const last = text(dice.between(day, Math.min(30, day + (interval === 'hour' ? 1 : 20))))
  const breakdownFilter = randomBreakdown(dice)
  const display = dice.pick([
    'ActionsLineGraph',
    'ActionsLineGraphCumulative',
    'BoldNumber',
    'ActionsTable',
    '',
  ])
  const formula = dice.chance(0.2) ? dice.pick(['A/B', 'A-2*B', 'A+B']) : undefined
  const count = formula === undefined ? dice.between(1, 2) : 2
  return {
    kind: 'TrendsQuery',
    series: Array.from({ length: count }, () => randomSeries(dice)),
    interval,
    // By hour, a plain date is its midnight.
    dateRange: { date_from, date_to: interval === 'hour' ? `${last}T23:59:59.999` : last },
    ...(dice.chance(0.2) ? { properties: [{ key: 'plan', value: 'x', type: 'person' }] } : {}),
    ...(dice.chance(0.3) ? { compareFilter: { compare: true } } : {}),
    ...(breakdownFilter === undefined ? {} : { breakdownFilter }),
    trendsFilter: {
      ...(display === '' ? {} : { display }),
      ...(formula === undefined ? {} : { formula }),
      ...(dice.chance(0.15) ? { smoothingIntervals: dice.between(1, 4) } : {}),
    },
  }
}

function scannerOf({ events, persons, cohorts }: NaiveWorld): MemoryScanner {
  return new MemoryScanner({
    events: events.map(({ person, ...event }) => ({ ...event, distinctId: `u${person}` })),
    persons: Array.from(persons, ([number, properties]) => ({
      number,
      properties,
      createdMs: 0,
      distinctIds: [`u${number}`],
      uuid: `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`,
    })),
    cohorts,
  })
}

interface Item extends Json {
  readonly data: readonly number[] | null
  readonly aggregated_value?: number
}

const rounded = (number: number): number => Math.round(number * 1e6) / 1e6

function shown({
  label,
  data,
  aggregated_value,
  count,
  breakdown_value,
  compare_label,
}: Item): Json {
  const numbers = aggregated_value === undefined ? (data ?? []) : [aggregated_value]
  return {
    label,
    numbers: numbers.map(rounded),
    count: rounded(Number(count)),
    ...(breakdown_value === undefined ? {} : { value: breakdown_value }),
    ...(compare_label === undefined ? {} : { compare: compare_label }),
  }
}

t.test('random queries agree with brute force, however they are divided', async (t) => {
  let numbersSeen = 0
  const differences = new Differences()
  for (let seed = 1; seed <= ROUNDS; seed++) {
    const dice = new Dice(seed)
    const world = randomWorld(dice)
    const scanner = scannerOf(world)
    const context: QueryContext = {
      projectId: 1,
      timezone: world.timezone,
      nowMs: 0,
      testAccountFilters: [],
      action: () => null,
      cohortName: (id) => `cohort ${id}`,
      firstEventMs: () => null,
    }
    for (let number = 0; number < QUERIES_EACH; number++) {
      const query = randomQuery(dice)
      const naive = new NaiveTrends(world, {
        ...query,
        dateRange: { ...query.dateRange, date_to: query.dateRange.date_to.slice(0, 10) },
      })
      const expected = naive.items()
      const planned = planQuery(query, context)
      const { kind, plan } = planned
      // A project may have more persons than the bits can hold.
      const dividedBy = divisionOf(planned, number % 2 === 0 ? 0 : 2 ** 30)
      const whole = memoryShard(scanner, context)
      const count = dividedBy === 'nothing' ? 1 : dice.between(1, 4)
      const parts = Array.from({ length: count }, (_, index) => {
        const part: EventPart | null =
          dividedBy === 'nothing' ? null : { by: dividedBy, index, count }
        const found: unknown = kind.partial(plan, memoryShard(scanner, context, part))
        return structuredClone(found)
      })
      const { results, members } = kind.page(plan, kind.merge(plan, parts, scanner), whole)
      const items = (results as readonly Item[]).map(shown)
      numbersSeen += items.flatMap(({ numbers }) => numbers as number[]).filter(Boolean).length
      const answer = { items, hasMore: members['hasMore'] }
      const wanted = { items: expected, hasMore: naive.hasMore }
      const name = (): string => `seed ${seed}, ${count} parts: ${JSON.stringify(query)}`
      differences.same(answer, wanted, name)
    }
  }
  t.strictSame(differences.list(), [], 'every query is answered as by brute force')
  t.ok(numbersSeen > ROUNDS * 5, `${numbersSeen} numbers are not 0`)
})
