/**
 * The kind `FunnelsQuery`: how far actors got through a sequence of steps. Source: docs/compatibility/queries.md,
 * "FunnelsQuery".
 */
import { propertyText } from '../../filters/property-text.ts'
import { PacedLimits, type QueryLimits } from '../paced-limits.ts'
import { resolvedRange } from '../query-buckets.ts'
import type { QueryFields } from '../query-fields.ts'
import type { QueryActors, QueryKind, QueryShard } from '../query-kind.ts'
import { type FunnelsPlan, planFunnels } from './funnel-request.ts'
import {
  cohortNumber,
  rankedValues,
  stepResults,
  timeResults,
  trendResults,
} from './funnel-results.ts'
import { type FunnelRows, walkFunnel } from './funnel-rows.ts'

/** The kind for funnels: steps, conversion times, and conversion over time. */
export const FUNNELS_QUERY: QueryKind<FunnelsPlan, FunnelRows> = {
  // A group has events of many persons, so a funnel of groups cannot be divided by persons.
  dividedBy: ({ groupTypeIndex }) => (groupTypeIndex === null ? 'persons' : 'nothing'),
  plan: planFunnels,
  rangeOf: ({ range }) => range,
  partial: (plan, shard) => walkFunnel(plan, shard, neededSteps(plan)).rows,
  merge: (_plan, parts, limits) => mergeRows(parts, limits),
  // The facts in `doubts` (see `FunnelDoubts`) do not say which persons caused them. So if a fact is true, it cannot be
  // determined whether it would be true without the removed persons.
  without: (_plan, part, persons) =>
    part.doubts.hasShared || part.doubts.hasNull ? null : rowsWithout(part, persons),
  page(plan, whole, { context, scanner }) {
    const members = resolvedRange(plan.range)
    switch (plan.visual) {
      case 'steps':
        return { results: stepResults(plan, whole, context, scanner), members }
      case 'time_to_convert':
        return { results: timeResults(plan, whole), members }
      case 'trends':
        return { results: trendResults(plan, whole, context, scanner), members }
    }
  },
  actors: funnelActors,
}

/** Returns the number of steps that an actor must reach to occur in the result. */
function neededSteps({ visual, fromStep, toStep }: FunnelsPlan): number {
  return { steps: 1, time_to_convert: toStep + 1, trends: fromStep + 1 }[visual]
}

/** Returns the rows of all parts. A breakdown value that occurs in several parts gets one position in `texts`. */
function mergeRows(parts: readonly FunnelRows[], limits: QueryLimits): FunnelRows {
  const pace = new PacedLimits(limits)
  const numbers = new Map<string, number>()
  const texts: (readonly string[])[] = []
  const labels = parts.map((part) => {
    const numberOf = Uint32Array.from(part.texts, (text) => {
      pace.count(1)
      const key = JSON.stringify(text)
      const number = numbers.get(key) ?? texts.push(text) - 1
      numbers.set(key, number)
      return number
    })
    const isSame = numberOf.every((number, label) => number === label)
    return isSame ? part.labels : part.labels.map((label) => numberOf[label] ?? 0)
  })
  return {
    texts,
    persons: joined(
      parts.map(({ persons }) => persons),
      (length) => new Uint32Array(length),
    ),
    labels: joined(labels, (length) => new Uint32Array(length)),
    reached: joined(
      parts.map(({ reached }) => reached),
      (length) => new Uint8Array(length),
    ),
    periods: joined(
      parts.map(({ periods }) => periods),
      (length) => new Uint32Array(length),
    ),
    timesMs: joined(
      parts.map(({ timesMs }) => timesMs),
      (length) => new Float64Array(length),
    ),
    doubts: {
      hasShared: parts.some(({ doubts }) => doubts.hasShared),
      hasNull: parts.some(({ doubts }) => doubts.hasNull),
    },
  }
}

/** Returns the rows of all persons except those with a 1 in `without`. The cost is linear. */
function rowsWithout(rows: FunnelRows, without: Uint8Array): FunnelRows {
  const persons = rows.persons.slice()
  const labels = rows.labels.slice()
  const reached = rows.reached.slice()
  // A funnel over time has periods and no times. Any other funnel has times and no periods.
  const periods = rows.periods.slice()
  const timesMs = rows.timesMs.slice()
  const isOverTime = periods.length > 0
  let kept = 0
  let keptTimes = 0
  let time = 0
  for (let row = 0; row < rows.reached.length; row++) {
    const steps = isOverTime ? 0 : (rows.reached[row] ?? 0)
    const person = rows.persons[row] ?? 0
    time += steps
    if (without[person] === 1) continue
    persons[kept] = person
    labels[kept] = rows.labels[row] ?? 0
    reached[kept] = rows.reached[row] ?? 0
    if (isOverTime) periods[kept] = rows.periods[row] ?? 0
    for (let step = steps; step > 0; step--) timesMs[keptTimes++] = rows.timesMs[time - step] ?? 0
    kept++
  }
  return {
    ...rows,
    persons: persons.subarray(0, kept),
    labels: labels.subarray(0, kept),
    reached: reached.subarray(0, kept),
    periods: periods.subarray(0, isOverTime ? kept : 0),
    timesMs: timesMs.subarray(0, keptTimes),
  }
}

/** Concatenates lists. */
function joined<List extends { readonly length: number; set(from: List, at: number): void }>(
  lists: readonly List[],
  create: (length: number) => List,
): List {
  const all = create(lists.reduce((sum, { length }) => sum + length, 0))
  let next = 0
  for (const list of lists) {
    all.set(list, next)
    next += list.length
  }
  return all
}

function funnelActors(plan: FunnelsPlan, pick: QueryFields, shard: QueryShard): QueryActors {
  if (plan.visual === 'trends') {
    throw pick.fault(
      'source',
      'must not be a funnel over time, because the people behind its numbers cannot be listed',
    )
  }
  pick.refuse('funnelCustomSteps', 'funnelTrendsDropOff', 'funnelTrendsEntrancePeriodStart')
  const { stepCount } = plan.rules
  const step = pick.whole('funnelStep', -stepCount, stepCount)
  if (step === null || step === 0 || step === -1) {
    const what = `must be the number of a step from 1 to ${stepCount}, or from -2 to -${stepCount}`
    throw pick.fault('funnelStep', what)
  }
  const isWanted = (reached: number): boolean =>
    step > 0 ? reached >= step : reached === -step - 1
  // With a breakdown, the actors that reached fewer steps are needed too, because they decide which values are shown
  // one by one.
  const needed = plan.breakdown === null ? (step > 0 ? step : -step - 1) : 1
  const found = walkFunnel(plan, shard, needed)
  const { rows } = found
  const actors = rowsOfValue(plan, pick, rows, shard.scanner).filter((row) =>
    isWanted(rows.reached[row] ?? 0),
  )
  const { groupTypeIndex } = plan
  const persons = groupTypeIndex === null ? actors.map((row) => rows.persons[row] ?? 0) : []
  const groups = groupTypeIndex === null ? [] : actors.map((row) => found.groupKeys[row] ?? '')
  return {
    groupTypeIndex,
    persons: [...new Set(persons)].sort((left, right) => left - right),
    groupKeys: [...new Set(groups)].sort(),
  }
}

/** Returns the rows of the breakdown value that a request for actors names, or all rows if it names none. */
function rowsOfValue(
  plan: FunnelsPlan,
  pick: QueryFields,
  rows: FunnelRows,
  limits: QueryLimits,
): readonly number[] {
  const all = Array.from(rows.labels.keys())
  const given = pick.value('funnelStepBreakdown')
  const { breakdown } = plan
  if (given === undefined || breakdown === null) return all
  const isCohort = breakdown.cohorts.length > 0
  const list: readonly unknown[] = Array.isArray(given) ? given : [given]
  const wanted = list.map((one) => {
    const text = propertyText(one ?? undefined)
    return isCohort ? String(cohortNumber(text)) : text
  })
  const textsOf = (text: readonly string[]): readonly string[] =>
    isCohort ? text.map((one) => String(cohortNumber(one))) : text
  const isWanted = (text: readonly string[]): boolean => {
    const own = textsOf(text)
    return own.length === wanted.length && own.every((one, index) => one === wanted[index])
  }
  const named = rankedValues(plan, rows, limits).find(({ text }) => isWanted(text))
  if (named !== undefined) return [...named.rows]
  const labels = new Set(
    [...rows.texts.keys()].filter((label) => isWanted(rows.texts[label] ?? [])),
  )
  return all.filter((row) => labels.has(rows.labels[row] ?? 0))
}
