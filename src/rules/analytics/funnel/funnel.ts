/**
 * Finds the actors of a funnel step: the actors whose best attempt reached the step, or ended before it. Source:
 * docs/compatibility/analytics.md, "Funnels and correlation".
 */

import { propertyText } from '../../filters/property-text.ts'
import { pageOfGroups, pageOfPersons } from '../actor-page.ts'
import { type ActorRows, gatherRows, orderRows, rowsByActor } from '../actor-rows.ts'
import { type ActorPage, type Inquiry, scanEvents } from '../analytic-query.ts'
import { breakdownValues } from '../breakdown.ts'
import type { EventColumns, EventScanner, ValueRequest } from '../event-columns.ts'
import { groupIds } from '../value-labels.ts'
import { AttemptFinder } from './funnel-attempts.ts'
import { splitByBreakdown } from './funnel-breakdown.ts'
import { type FunnelPlan, planFunnel } from './funnel-plan.ts'
import type { FunnelParameters } from './funnel-shapes.ts'
import { hopelessKeys } from './hopeless-keys.ts'

/** The loop over actors checks the time limit of the query once for this number of actors. */
const CHECK_EVERY = 1024

/** The wanted actors of a funnel with their best attempts. Entry i of each list belongs to actor i. */
export interface FunnelResults {
  /** The person numbers, or the positions of the groups' keys in `groupKeys`, ascending and without duplicates. */
  readonly actors: Uint32Array
  /** The number of steps of the best attempt. */
  readonly bests: Uint8Array
  /** The times of the steps in milliseconds. Each actor has as many entries as the funnel has steps. */
  readonly stepTimesMs: Float64Array
  /** The keys of groups. Null unless groups pass through the funnel. */
  readonly groupKeys: readonly unknown[] | null
}

/**
 * Returns the page of actors that a funnel request asks for: persons in the order of their uuids, or groups in the
 * order of their keys. Throws 400 for an invalid request, and the same errors as `EventScanner.scan`.
 */
export function funnelActors(inquiry: Inquiry<FunnelParameters>): ActorPage {
  const plan = planFunnel(inquiry, null)
  return pageOfResults(runFunnel(plan, inquiry), plan, inquiry)
}

/** Returns the page of the wanted actors of a funnel, in the order of their uuids or keys. */
export function pageOfResults(
  { actors, groupKeys }: Pick<FunnelResults, 'actors' | 'groupKeys'>,
  { groupTypeIndex }: FunnelPlan,
  inquiry: Inquiry,
): ActorPage {
  if (groupKeys === null) return pageOfPersons(actors, inquiry)
  const groups = Array.from(actors, (actor) => {
    return { key: propertyText(groupKeys[actor]), value: null }
  })
  return pageOfGroups(groups, groupTypeIndex ?? 0, inquiry)
}

/**
 * Returns the wanted actors of a funnel. The cost is linear in the number of found events times the steps. Throws the
 * same errors as `EventScanner.scan`.
 */
export function runFunnel(plan: FunnelPlan, inquiry: Inquiry): FunnelResults {
  const { scanner } = inquiry
  const { range, filter, series, groupTypeIndex, isWanted, breakdown } = plan
  if (!isWanted.includes(true) || range.fromMs > range.toMs) {
    return {
      actors: new Uint32Array(0),
      bests: new Uint8Array(0),
      stepTimesMs: new Float64Array(0),
      groupKeys: groupTypeIndex === null ? null : [],
    }
  }
  const groupValues: readonly ValueRequest[] =
    groupTypeIndex === null ? [] : [{ kind: 'group_key', typeIndex: groupTypeIndex }]
  const values = [
    ...groupValues,
    ...(breakdown === null ? [] : breakdownValues(breakdown.breakdown)),
  ]
  const columns = scanEvents(inquiry, range, { filter, series, values, order: 'unsorted' })
  const groups = groupTypeIndex === null ? undefined : columns.values[0]
  const keys = groups === undefined ? columns.persons : groupIds(groups)
  const isHopeless = hopelessKeys(plan.rules, isWanted.indexOf(true), keys, columns)
  const actors = rowsByActor(keys, columns.count, null, (key) => isHopeless[key] === 1)
  orderRows(actors, columns, scanner)
  const split =
    breakdown === null
      ? actors
      : splitByBreakdown(
          { ...breakdown, stepCount: plan.steps.length },
          columns,
          columns.values.slice(groupValues.length),
          actors,
        )
  return collect(plan, split, columns, groups?.values ?? null, scanner)
}

/**
 * Returns the best wanted attempt of each actor. A breakdown may have split the rows of an actor into several parts; of
 * equally good attempts, the one that begins first counts.
 */
function collect(
  { rules, entrance, isWanted }: FunnelPlan,
  { keys, starts, rows }: ActorRows,
  columns: EventColumns,
  groupKeys: readonly unknown[] | null,
  limits: Pick<EventScanner, 'checkLimits'>,
): FunnelResults {
  const finder = new AttemptFinder(rules, gatherRows(columns, rows), entrance)
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
