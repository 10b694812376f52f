/**
 * Who is behind a step of a funnel: everybody whose best attempt got that far, or no further. Source:
 * docs/compatibility/analytics.md, "Funnels and correlation".
 */

import { propertyText } from '../../filters/property-text.ts'
import { largestPerson, pageOfPersons } from '../actor-page.ts'
import { gatherRows, orderRows, rowsByActor } from '../actor-rows.ts'
import type { ActorPage, AnalyticContext } from '../analytic-query.ts'
import { breakdownValues } from '../breakdown.ts'
import type { EventColumns, EventScanner, ValueColumn, ValueRequest } from '../event-columns.ts'
import type { RowPage } from '../question-shapes.ts'
import { AttemptFinder } from './funnel-attempts.ts'
import { type SplitRows, splitByBreakdown } from './funnel-breakdown.ts'
import { type FunnelPlan, planFunnel } from './funnel-plan.ts'
import type { FunnelParameters } from './funnel-shapes.ts'

/** Actors between two looks at the limits of a query. */
const CHECK_EVERY = 1024

/** Wanted actors of a funnel with their best attempts; all lists are parallel. */
export interface FunnelResults {
  /** P of a person, or the position of a group's key in `groupKeys`; ascending, each once. */
  readonly actors: Uint32Array
  /** Steps of the best attempt. */
  readonly bests: Uint8Array
  /** For each actor as many as the funnel has steps: when they were done, milliseconds. */
  readonly stepTimesMs: Float64Array
  /** Null unless groups pass through the funnel. */
  readonly groupKeys: readonly unknown[] | null
}

/**
 * The page of persons, or groups, that a request for a funnel means: by uuid, groups by key. Throws 400
 * for what cannot be asked, and as `EventScanner.scan`.
 */
export function funnelActors(
  parameters: FunnelParameters,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  const plan = planFunnel(parameters, context, scanner, null)
  const results = runFunnel(plan, context, scanner)
  return pageOfResults(results, plan, parameters.page, context, scanner)
}

/** The page of the wanted actors of a funnel, by uuid or key. */
export function pageOfResults(
  { actors, groupKeys }: Pick<FunnelResults, 'actors' | 'groupKeys'>,
  { groupTypeIndex }: FunnelPlan,
  page: RowPage,
  { projectId }: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  if (groupKeys === null) return pageOfPersons(actors, page, projectId, scanner)
  const keys = Array.from(actors, (actor) => propertyText(groupKeys[actor])).sort(compareTexts)
  const shown = keys.slice(page.offset, page.offset + page.limit)
  return {
    actors: shown.map((key) => {
      return { kind: 'group', typeIndex: groupTypeIndex ?? 0, key, value: null }
    }),
    isFull: shown.length >= page.limit,
    total: keys.length,
  }
}

/**
 * The wanted actors of a funnel. Cost: linear in the events that are found, times the steps. Throws as
 * `EventScanner.scan`.
 */
export function runFunnel(
  plan: FunnelPlan,
  { projectId, nowMs }: AnalyticContext,
  scanner: EventScanner,
): FunnelResults {
  const { range, filter, series, groupTypeIndex, isWanted } = plan
  const isByGroup = groupTypeIndex !== null
  const isNobodyWanted = !isWanted.includes(true) || range.fromMs > range.toMs
  const groupValues: readonly ValueRequest[] = isByGroup
    ? [{ kind: 'group_key', typeIndex: groupTypeIndex }]
    : []
  if (isNobodyWanted) return collect(plan, NO_ROWS, null, isByGroup ? [] : null, scanner)
  const columns = scanner.scan({
    projectId,
    fromMs: range.fromMs,
    toMs: range.toMs,
    filter,
    series,
    values: [
      ...groupValues,
      ...(plan.breakdown === null ? [] : breakdownValues(plan.breakdown.breakdown)),
    ],
    persons: null,
    nowMs,
    order: 'unsorted',
  })
  const groups = isByGroup ? columns.values[0] : undefined
  const keys = groups === undefined ? columns.persons : groupIds(groups)
  const isHopeless = hopelessKeys(plan, keys, columns)
  const actors = rowsByActor(keys, columns.count, null, (key) => isHopeless[key] === 1)
  orderRows(actors, columns, scanner)
  const split = plan.breakdown === null ? actors : splitRows(plan, columns, actors)
  return collect(plan, split, columns, groups?.values ?? null, scanner)
}

/** For each key 1 when its events, whatever their order, cannot get as far as is wanted. */
function hopelessKeys(
  { rules: { order, stepCount }, isWanted }: FunnelPlan,
  keys: Uint32Array,
  { count, seriesMasks }: EventColumns,
): Uint8Array {
  const done = new Uint32Array(largestPerson(keys, count) + 1)
  for (let row = 0; row < count; row++) {
    const key = keys[row] ?? 0
    done[key] = (done[key] ?? 0) | (seriesMasks[row] ?? 0)
  }
  const needed = isWanted.indexOf(true)
  const isHopeless = new Uint8Array(done.length)
  const neededMask = 2 ** Math.max(needed, 0) - 1
  for (let key = 0; key < done.length; key++) {
    const mask = done[key] ?? 0
    const isEnough =
      order === 'unordered'
        ? bitCount(mask & (2 ** stepCount - 1)) >= needed
        : (mask & neededMask) === neededMask
    isHopeless[key] = isEnough ? 0 : 1
  }
  return isHopeless
}

function bitCount(mask: number): number {
  let count = 0
  for (let left = mask; left !== 0; left &= left - 1) count++
  return count
}

const NO_ROWS: SplitRows = {
  keys: new Uint32Array(0),
  starts: new Uint32Array(1),
  rows: new Uint32Array(0),
}

function splitRows(plan: FunnelPlan, columns: EventColumns, actors: SplitRows): SplitRows {
  if (plan.breakdown === null) return actors
  const { attribution, step, wanted } = plan.breakdown
  const values = plan.groupTypeIndex === null ? columns.values : columns.values.slice(1)
  const stepCount = plan.steps.length
  return splitByBreakdown({ attribution, step, stepCount, wanted }, columns, values, actors)
}

/** Events without a group, or with an empty key, belong to nobody. */
function groupIds({ ids, values }: ValueColumn): Uint32Array {
  const isEmpty = values.map((value) => propertyText(value) === '')
  return isEmpty.lastIndexOf(true) <= 0 ? ids : ids.map((id) => (isEmpty[id] === true ? 0 : id))
}

/** The best of the parts of each actor that are wanted, the earliest one of equal ones. */
function collect(
  { rules, entrance, isWanted }: FunnelPlan,
  { keys, starts, rows }: SplitRows,
  columns: EventColumns | null,
  groupKeys: readonly unknown[] | null,
  limits: Pick<EventScanner, 'checkLimits'>,
): FunnelResults {
  const gathered =
    columns === null
      ? { timesMs: new Float64Array(0), masks: new Uint32Array(0) }
      : gatherRows(columns, rows)
  const finder = new AttemptFinder(rules, gathered, entrance)
  const { stepCount } = rules
  const actors = new Uint32Array(keys.length)
  const bests = new Uint8Array(keys.length)
  const stepTimesMs = new Float64Array(keys.length * stepCount)
  let count = 0
  for (let part = 0; part < keys.length; part++) {
    if (part % CHECK_EVERY === 0) limits.checkLimits()
    const best = finder.best(starts[part] ?? 0, starts[part + 1] ?? 0)
    if (isWanted[best] !== true) continue
    const key = keys[part] ?? 0
    const isSame = count > 0 && actors[count - 1] === key
    const place = isSame ? count - 1 : count
    const known = isSame ? (bests[place] ?? 0) : 0
    const firstMs = finder.stepTimesMs[0] ?? 0
    if (best < known) continue
    if (best === known && firstMs >= (stepTimesMs[place * stepCount] ?? 0)) continue
    actors[place] = key
    bests[place] = best
    stepTimesMs.set(finder.stepTimesMs.subarray(0, best), place * stepCount)
    if (!isSame) count++
  }
  return {
    actors: actors.subarray(0, count),
    bests: bests.subarray(0, count),
    stepTimesMs: stepTimesMs.subarray(0, count * stepCount),
    groupKeys,
  }
}

function compareTexts(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
