/**
 * Compares random retention, stickiness and lifecycle queries, whole and in parts, with an evaluator that reads every
 * event.
 *
 * @lane quick
 */
import t from 'tap'
import type { EventPart } from '../../../src/rules/analytics/event-columns.ts'
import { divisionOf, planQuery } from '../../../src/rules/queries/kinds.ts'
import { QueryFields } from '../../../src/rules/queries/query-fields.ts'
import type { QueryContext, QueryShard } from '../../../src/rules/queries/query-kind.ts'
import { MemoryScanner } from '../../fixtures/analytics/memory-scanner.ts'
import type { Interval } from '../../fixtures/analytics/reference-time.ts'
import { Dice } from '../../fixtures/dice.ts'
import { Differences } from '../../fixtures/differences.ts'
import {
  type NaiveEntity,
  type NaiveEvent,
  type NaiveRange,
  type NaiveRetention,
  NaiveReturns,
  type NaiveWorld,
} from '../../fixtures/queries/naive-returns.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'
import { roundsOf } from '../../fixtures/random-depth.ts'

const ROUNDS = roundsOf(100)
const QUERIES_EACH = 8
const HOUR_MS = 3_600_000
const VALUES = ['x', 'y', 'z', '']
const PERIODS = { hour: 'Hour', day: 'Day', week: 'Week', month: 'Month' } as const

function randomWorld(dice: Dice): NaiveWorld {
  const timezone = dice.pick(['UTC', 'Europe/Berlin', 'America/New_York'])
  // Around a day on which clocks change.
  const aroundMs = Date.parse(dice.pick(['2023-03-26T00:00:00Z', '2023-10-29T00:00:00Z']))
  const someTime = (): number => aroundMs + dice.between(-30 * 24, 12 * 24) * (HOUR_MS / 2)
  const persons = new Map(
    Array.from({ length: dice.between(1, 40) }, (_, index) => {
      return [index + 1, { createdMs: someTime(), properties: { k: dice.pick(VALUES) } }] as const
    }),
  )
  const events = Array.from({ length: dice.below(200) }, (): NaiveEvent => {
    return {
      // Some have no person and count as one actor for each distinct_id.
      person: dice.chance(0.2) ? dice.between(50, 55) : dice.between(1, persons.size),
      timeMs: someTime(),
      name: dice.pick(['view', 'buy']),
      properties: {
        ...(dice.chance(0.8) ? { k: dice.pick(VALUES) } : {}),
        ...(dice.chance(0.7) ? { $group_0: dice.pick(['g1', 'g2', 'g3', '']) } : {}),
      },
    }
  })
  const cohorts = new Map([
    [3, new Set([1, 2, 3])],
    [12, new Set([2, 5, 9])],
    [40, new Set([77])],
  ])
  return { timezone, events, persons, cohorts }
}

function scannerOf({ events, persons, cohorts }: NaiveWorld): MemoryScanner {
  return new MemoryScanner({
    events: events.map(({ person, ...event }) => ({ ...event, distinctId: `d${person}` })),
    persons: Array.from(persons, ([number, { createdMs, properties }]) => ({
      number,
      uuid: `${number}`.padStart(8, '0').concat('-0000-4000-8000-000000000000'),
      createdMs,
      properties,
      distinctIds: [`d${number}`],
    })),
    cohorts,
  })
}

const filtersOf = (k: string | undefined): readonly Json[] =>
  k === undefined ? [] : [{ key: 'k', value: k, type: 'event', operator: 'exact' }]

function randomRange(dice: Dice, intervals: readonly Interval[]): NaiveRange {
  const interval = dice.pick(intervals)
  const start = Date.parse(dice.pick(['2023-03-15T00:00:00Z', '2023-10-20T00:00:00Z']))
  const day = (days: number) => new Date(start + days * 24 * HOUR_MS).toISOString().slice(0, 10)
  const first = dice.below(12)
  const length = interval === 'hour' ? dice.below(3) : dice.below(14)
  const filter = dice.chance(0.2) ? { filter: dice.pick(['x', 'y']) } : {}
  return { from: day(first), to: day(first + length), interval, ...filter }
}

function randomEntity(dice: Dice): NaiveEntity {
  const k = dice.chance(0.3) ? { k: dice.pick(['x', 'y']) } : {}
  return { name: dice.pick(['view', 'buy', null]), ...k }
}

const rangeOf = ({ from, to, filter }: NaiveRange): Json => ({
  dateRange: { date_from: from, date_to: to },
  properties: filtersOf(filter),
})

const nodeOf = ({ name, k }: NaiveEntity): Json => ({
  kind: 'EventsNode',
  event: name,
  properties: filtersOf(k),
})

/** A world and the functions to query it. */
class Asked {
  readonly shard: QueryShard
  readonly #scanner: MemoryScanner
  readonly #dice: Dice

  constructor(world: NaiveWorld, dice: Dice) {
    const scanner = scannerOf(world)
    this.#scanner = scanner
    this.#dice = dice
    const context: QueryContext = {
      projectId: 1,
      timezone: world.timezone,
      nowMs: Date.parse('2024-01-01T12:00:00Z'),
      testAccountFilters: [],
      action: () => null,
      cohortName: String,
      firstEventMs: () => scanner.firstEventMs(),
    }
    // These query kinds read nothing else.
    this.shard = { context, scanner, part: null } as unknown as QueryShard
  }

  /** The results, computed in a number of parts. */
  results(query: Json): readonly Json[] {
    const planned = planQuery(query, this.shard.context)
    const { kind, plan } = planned
    // A project may have more persons than the bits can hold.
    const by = divisionOf(planned, this.#dice.between(0, 1) === 0 ? 0 : 2 ** 30)
    const count = by === 'nothing' ? 1 : this.#dice.between(1, 4)
    const parts = Array.from({ length: count }, (_, index): unknown => {
      const part: EventPart | null = by === 'nothing' ? null : { by, index, count }
      return structuredClone(kind.partial(structuredClone(plan), { ...this.shard, part }))
    })
    return kind.page(plan, kind.merge(plan, parts, this.shard.scanner), this.shard)
      .results as readonly Json[]
  }

  /** The actors as texts, each with its columns. */
  actors(query: Json, pick: Json): readonly string[] {
    const { kind, plan } = planQuery(query, this.shard.context)
    const found = kind.actors?.(plan, new QueryFields(pick), this.shard)
    const names =
      found?.groupTypeIndex === null
        ? found.persons.map((person) => this.#scanner.nameOf(person).slice(1))
        : found?.groupKeys
    return (names ?? [])
      .map((name, index) => [name, ...(found?.appearances?.[index] ?? [])].join(' '))
      .sort()
  }
}

t.test('retention agrees with the slow evaluation', async (t) => {
  const dice = new Dice(61)
  let counted = 0
  const results = new Differences()
  const actors = new Differences()
  for (let round = 0; round < ROUNDS; round++) {
    const world = randomWorld(dice)
    const [asked, naive] = [new Asked(world, dice), new NaiveReturns(world)]
    for (let turn = 0; turn < QUERIES_EACH; turn++) {
      const range = randomRange(dice, ['hour', 'day', 'day', 'week', 'month'])
      const target = randomEntity(dice)
      const wanted: NaiveRetention = {
        ...range,
        target,
        returning: dice.chance(0.5) ? target : randomEntity(dice),
        type: dice.pick(['recurring', 'recurring', 'first_time', 'first_ever_occurrence']),
        columns: dice.between(1, 9),
        isCumulative: dice.chance(0.3),
        minimum: dice.pick([1, 1, 2]),
        isOfGroups: dice.chance(0.2),
        hasFrom: dice.chance(0.5),
        breakdown: dice.pick([null, null, 'event', 'person', 'cohort']),
        limit: dice.pick([1, 2, 25]),
      }
      const query = retentionQuery(wanted, world)
      const tables = naive.retention(wanted)
      const expected = tables.flatMap(({ label, cells }) =>
        cells.map((row) => [label, ...row.map((actors) => actors.length)]),
      )
      counted += expected.flat().filter((value) => typeof value === 'number' && value > 0).length
      const found = asked.results(query).map(({ breakdown_value, values }) => {
        return [breakdown_value, ...(values as readonly Json[]).map(({ count }) => count)]
      })
      results.same(found, expected, () => JSON.stringify(query))
      const table = tables.length === 0 ? undefined : dice.pick(tables)
      const row = dice.below(table?.cells.length ?? 1)
      const columnsOf = new Map<string, Set<number>>()
      for (const [column, actors] of (table?.cells[row] ?? []).entries()) {
        for (const actor of actors) {
          columnsOf.set(actor, (columnsOf.get(actor) ?? new Set()).add(column))
        }
      }
      if (table === undefined || table.cells.length === 0) continue
      const people = Array.from(columnsOf, ([actor, columns]) =>
        [actor, ...[...columns].sort((a, b) => a - b)].join(' '),
      )
      const pick = { interval: row, ...(table.label === null ? {} : { breakdown: [table.label] }) }
      actors.same(asked.actors(query, pick), people.sort(), () => JSON.stringify([query, pick]))
    }
  }
  t.strictSame(results.list(), [], 'the results of every query')
  t.strictSame(actors.list(), [], 'the actors of every query')
  t.ok(counted > 10 * ROUNDS, `${counted} numbers are not zero`)
})

function retentionQuery(wanted: NaiveRetention, world: NaiveWorld): Json {
  const entity = ({ name, k }: NaiveEntity) => ({
    id: name,
    type: 'events',
    properties: filtersOf(k),
  })
  const { from, to, filter, hasFrom, breakdown } = wanted
  return {
    kind: 'RetentionQuery',
    dateRange: { date_to: to, ...(hasFrom ? { date_from: from } : {}) },
    properties: filtersOf(filter),
    ...(wanted.isOfGroups ? { aggregation_group_type_index: 0 } : {}),
    retentionFilter: {
      period: PERIODS[wanted.interval],
      totalIntervals: wanted.columns,
      retentionType: `retention_${wanted.type}`,
      targetEntity: entity(wanted.target),
      returningEntity: entity(wanted.returning),
      cumulative: wanted.isCumulative,
      minimumOccurrences: wanted.minimum,
    },
    breakdownFilter:
      breakdown === null
        ? null
        : {
            breakdown_type: breakdown,
            breakdown: breakdown === 'cohort' ? [...world.cohorts.keys()] : 'k',
            breakdown_limit: wanted.limit,
          },
  }
}

t.test('stickiness agrees with the slow evaluation', async (t) => {
  const dice = new Dice(62)
  let counted = 0
  const results = new Differences()
  const actors = new Differences()
  for (let round = 0; round < ROUNDS; round++) {
    const world = randomWorld(dice)
    const [asked, naive] = [new Asked(world, dice), new NaiveReturns(world)]
    for (let turn = 0; turn < QUERIES_EACH; turn++) {
      const range = randomRange(dice, ['hour', 'day', 'day', 'week', 'month'])
      const entities = [randomEntity(dice), randomEntity(dice)].slice(0, dice.between(1, 2))
      const groups = entities.map(() => dice.chance(0.3))
      const value = dice.below(4)
      const operator = dice.pick(['gte', 'lte', 'exact', null] as const)
      const test = (count: number): boolean => {
        if (operator === 'lte') return count <= value
        return operator === 'exact' ? count === value : operator === null || count >= value
      }
      const isCumulative = dice.chance(0.3)
      const query = {
        kind: 'StickinessQuery',
        ...rangeOf(range),
        interval: range.interval,
        series: entities.map((entity, index) => ({
          ...nodeOf(entity),
          ...(groups[index] === true ? { math: 'unique_group', math_group_type_index: 0 } : {}),
        })),
        stickinessFilter: {
          computedAs: isCumulative ? 'cumulative' : 'non_cumulative',
          stickinessCriteria: operator === null ? null : { operator, value },
        },
      }
      const found = entities.map((entity, index) =>
        naive.stickiness(range, entity, groups[index] === true, test),
      )
      const isIn = (count: number, length: number): boolean =>
        isCumulative ? count >= length : count === length
      const expected = found.map(({ intervals, actors }) => ({
        count: actors.size,
        data: Array.from({ length: intervals }, (_, index) => {
          return [...actors.values()].filter((count) => isIn(count, index + 1)).length
        }),
      }))
      counted += expected.reduce((sum, { count }) => sum + count, 0)
      const answered = asked.results(query).map(({ count, data }) => ({ count, data }))
      results.same(answered, expected, () => JSON.stringify(query))
      const series = dice.below(entities.length)
      const day = dice.between(1, 3)
      const people = [...(found[series]?.actors ?? [])]
        .filter(([, count]) => isIn(count, day))
        .map(([actor]) => actor)
      const pick = { series, day }
      actors.same(asked.actors(query, pick), people.sort(), () => JSON.stringify([query, pick]))
    }
  }
  t.strictSame(results.list(), [], 'the results of every query')
  t.strictSame(actors.list(), [], 'the actors of every query')
  t.ok(counted > 10 * ROUNDS, `${counted} actors came`)
})

t.test('lifecycle agrees with the slow evaluation', async (t) => {
  const dice = new Dice(63)
  let counted = 0
  const results = new Differences()
  const actors = new Differences()
  for (let round = 0; round < ROUNDS; round++) {
    const world = randomWorld(dice)
    const [asked, naive] = [new Asked(world, dice), new NaiveReturns(world)]
    for (let turn = 0; turn < QUERIES_EACH; turn++) {
      const range = randomRange(dice, ['hour', 'day', 'day', 'week', 'month'])
      const entity = randomEntity(dice)
      const query = {
        kind: 'LifecycleQuery',
        ...rangeOf(range),
        interval: range.interval,
        series: [nodeOf(entity)],
      }
      const found = naive.lifecycle(range, entity)
      const expected = Array.from(found, ([status, buckets]) => ({
        status,
        data: buckets.map((persons) =>
          status === 'dormant' && persons.length > 0 ? -persons.length : persons.length,
        ),
      }))
      counted += [...found.values()].flat(2).length
      const answered = asked.results(query)
      const shown = answered.map(({ status, data }) => ({ status, data }))
      results.same(shown, expected, () => JSON.stringify(query))
      const status = dice.pick([...found.keys()])
      const days = answered[0]?.['days'] as readonly string[]
      const place = dice.below(days.length)
      // For an hour that clocks show twice, the text stands for the first.
      if (range.interval === 'hour' && days.indexOf(days[place] ?? '') !== place) continue
      const people = [...(found.get(status)?.[place] ?? [])]
      const pick = { status, day: days[place] }
      actors.same(asked.actors(query, pick), people.sort(), () => JSON.stringify([query, pick]))
    }
  }
  t.strictSame(results.list(), [], 'the results of every query')
  t.strictSame(actors.list(), [], 'the actors of every query')
  t.ok(counted > 10 * ROUNDS, `${counted} persons were counted`)
})
