/**
 * Holdouts: a share of persons that is excluded from all experiments. Source: docs/compatibility/decisions.md, "Flag
 * decisions".
 */

import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'

/** A holdout of a flag. */
export interface Holdout {
  /** The percentage of identifiers that are held out, from 0 to 100. */
  readonly percentage: number
  /** The variant that the flag has for persons in the holdout. */
  readonly variant: string
}

/** Returns the holdout in the filters of a flag, in its current or its older form. Returns null if there is none. */
export function readHoldout(filters: JsonObject): Holdout | null {
  const { holdout } = filters
  if (isObject(holdout)) {
    const { id, exclusion_percentage: percentage } = holdout
    const isNamed = typeof id === 'number' || typeof id === 'string'
    if (!isNamed || typeof percentage !== 'number') return null
    return { percentage: clamp(percentage), variant: `holdout-${id}` }
  }
  const [group] = objectsOf(filters['holdout_groups'])
  if (group === undefined || typeof group['variant'] !== 'string') return null
  const { properties, rollout_percentage: percentage } = group
  const hasProperties = Array.isArray(properties) && properties.length > 0
  if (hasProperties || (percentage ?? null) === null) {
    return hasProperties ? null : { percentage: 100, variant: group['variant'] }
  }
  return typeof percentage === 'number'
    ? { percentage: clamp(percentage), variant: group['variant'] }
    : null
}

function clamp(percentage: number): number {
  return Math.min(100, Math.max(0, percentage))
}
