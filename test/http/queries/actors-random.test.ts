/**
 * Each number of a random query has as many actors behind it as it says, with as many events.
 *
 * @lane quick
 */
import t from 'tap'
import { Dice } from '../../fixtures/dice.ts'
import { shareDecisions } from '../../fixtures/flags/shared-daemon.ts'
import type { Json } from '../../fixtures/queries/query-cases.ts'
import { QUERY_MAKERS, randomEvents } from '../../fixtures/queries/random-queries.ts'
import { roundsOf, seedOf } from '../../fixtures/random-depth.ts'

const SEED = seedOf(5)
const ZONES = ['Asia/Kolkata', 'UTC']
const QUERIES_EACH = roundsOf(14, 3)
/** The numbers of a query that are compared. */
const NUMBERS_EACH = 6
const OTHER = '$$_posthog_breakdown_other_$$'
/** Kinds of trends whose number is a sum over the events of the actors. For all others the number counts the actors. */
const BY_EVENTS: readonly unknown[] = ['total', null]
const BY_ACTORS = ['dau', 'unique_group', 'weekly_active', 'monthly_active', 'first_time_for_user']

/** A number, its ActorsQuery, and the way to compute the number from the rows. */
interface Behind {
  readonly number: number
  readonly source: Json
  readonly select: string
  readonly numberOf: (values: readonly unknown[]) => number
}

const countOf = (values: readonly unknown[]): number => values.length
const sumOf = (values: readonly unknown[]): number =>
  values.reduce<number>((sum, one) => sum + Number(one), 0)
const list = (value: unknown) => (value ?? []) as readonly Json[]

function behind(query: Json, results: readonly Json[]): readonly Behind[] {
  const pick = (more: Json, kind = 'InsightActorsQuery'): Json => ({ kind, source: query, ...more })
  const actors = (number: unknown, source: Json): Behind => {
    return { number: Math.abs(Number(number)), source, select: 'id', numberOf: countOf }
  }
  switch (query['kind']) {
    case 'TrendsQuery':
      return results.flatMap((item) => trendNumbers(query, item))
    case 'StickinessQuery':
      return results.flatMap((item) =>
        item['compare_label'] === 'previous'
          ? []
          : (item['data'] as number[]).map((number, index) => {
              const { order } = item['action'] as Json
              return actors(number, pick({ day: index + 1, series: order }))
            }),
      )
    case 'LifecycleQuery':
      return results.flatMap(({ data, days, status }) =>
        (data as number[]).map((number, index) =>
          actors(number, pick({ day: (days as string[])[index], status })),
        ),
      )
    case 'FunnelsQuery':
      return results.flat().map(({ count, order, breakdown_value }) => {
        const split = breakdown_value === undefined ? {} : { funnelStepBreakdown: breakdown_value }
        return actors(
          count,
          pick({ funnelStep: Number(order) + 1, ...split }, 'FunnelsActorsQuery'),
        )
      })
    case 'RetentionQuery':
      return results.flatMap((item) => {
        const value = item['breakdown_value']
        const interval = Number(String(item['label']).split(' ')[1])
        const source = pick({ interval, ...(value === null ? {} : { breakdown: [value] }) })
        return list(item['values']).map(({ count }, column): Behind => {
          const hasColumn = (one: unknown) => (one as number[]).includes(column)
          const numberOf = (values: readonly unknown[]) => values.filter(hasColumn).length
          return { number: Number(count), source, select: 'appearances', numberOf }
        })
      })
    default:
      return results.map(({ value, source, target }) => {
        const pathsFilter = {
          ...(query['pathsFilter'] as Json),
          pathStartKey: source,
          pathEndKey: target,
        }
        const asked = { kind: 'InsightActorsQuery', source: { ...query, pathsFilter } }
        return { number: Number(value), source: asked, select: 'event_count', numberOf: sumOf }
      })
  }
}

function trendNumbers(query: Json, item: Json): readonly Behind[] {
  const { math = null, order } = (item['action'] ?? {}) as Json
  const isByEvents = BY_EVENTS.includes(math)
  const values = [item['breakdown_value'] ?? []].flat()
  if (!isByEvents && !BY_ACTORS.includes(String(math))) return []
  if (item['compare_label'] === 'previous' || values.includes(OTHER)) return []
  const split = item['breakdown_value'] === undefined ? {} : { breakdown: item['breakdown_value'] }
  const one = (number: unknown, more: Json): Behind => ({
    number: Number(number),
    source: { kind: 'InsightActorsQuery', source: query, series: order, ...split, ...more },
    select: isByEvents ? 'event_count' : 'id',
    numberOf: isByEvents ? sumOf : countOf,
  })
  if ('aggregated_value' in item) return [one(item['aggregated_value'], {})]
  const days = item['days'] as readonly string[]
  return (item['data'] as number[]).map((number, index) => one(number, { day: days[index] }))
}

/** Parts of intervals, and numbers that are computed from others, have no list of actors. */
function isAsked(query: Json): boolean {
  const { smoothingIntervals, formula, display } = (query['trendsFilter'] ?? {}) as Json
  if (query['kind'] !== 'TrendsQuery') return true
  const isPlain = smoothingIntervals === undefined && formula === undefined
  return isPlain && display !== 'ActionsLineGraphCumulative' && query['interval'] === 'day'
}

/** Beyond the limit an actor may be behind several values and counts for each of them. */
function isSummed({ kind, funnelsFilter, breakdownFilter }: Json, { source }: Behind): boolean {
  if (breakdownFilter === undefined) return false
  if (kind === 'RetentionQuery') return JSON.stringify(source['breakdown']) === `["${OTHER}"]`
  const { breakdownAttributionType: type } = (funnelsFilter ?? {}) as Json
  const isOther = JSON.stringify(source['funnelStepBreakdown']) === '["Other"]'
  return isOther && (type === 'all_events' || type === 'step')
}

t.test('a number has as many actors as it says', async (t) => {
  const daemon = await shareDecisions(ZONES.length)
  const faults: string[] = []
  const looked = new Map<string, number>()
  for (const [index, timezone] of ZONES.entries()) {
    const dice = new Dice(SEED * 100 + index)
    const id = index + 1
    await daemon.capture(randomEvents(dice, index > 0), id)
    await daemon.api('PATCH', '', id, { timezone })
    const members = { name: 'some', is_static: true, distinct_ids: ['d1', 'd2', 'd3', 'd4', 'd5'] }
    const { body: cohort } = await daemon.api('POST', 'cohorts/', id, members)
    const steps = [{ event: 'a' }, { event: 'b', properties: [{ key: 'k', value: 'x' }] }]
    const { body: action } = await daemon.api('POST', 'actions/', id, { name: 'did', steps })
    const project = { actionId: action['id'], cohortId: cohort['id'] }
    const ask = async (query: Json): Promise<readonly unknown[]> => {
      const { status, body } = await daemon.api('POST', 'query/', id, { query })
      if (status !== 200) throw new Error(`${JSON.stringify(query)} is ${JSON.stringify(body)}`)
      return body['results'] as readonly unknown[]
    }
    for (const [kind, make] of Object.entries(QUERY_MAKERS)) {
      for (let round = 0; round < QUERIES_EACH; ) {
        const query = make(dice, project)
        if (!isAsked(query)) continue
        round++
        const all = behind(query, (await ask(query)) as readonly Json[])
        const some = all.filter((one) => one.number > 0 && !isSummed(query, one))
        for (const one of dice.list(Math.min(NUMBERS_EACH, some.length), () => dice.pick(some))) {
          const { source, select, number, numberOf } = one
          const rows = await ask({ kind: 'ActorsQuery', source, select: [select], limit: 5000 })
          const found = numberOf(rows.map((row) => (row as readonly unknown[])[0]))
          looked.set(kind, (looked.get(kind) ?? 0) + 1)
          if (found !== number) faults.push(`${found}, not ${number}: ${JSON.stringify(source)}`)
        }
      }
    }
  }
  t.strictSame(faults, [])
  for (const kind of Object.keys(QUERY_MAKERS)) {
    t.ok((looked.get(kind) ?? 0) > QUERIES_EACH, `${kind}: ${looked.get(kind)} numbers`)
  }
})
