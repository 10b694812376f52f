/**
 * Reads the exclusions of a funnel of the persons routes: series that must not occur between two of its steps. The
 * exclusions of a `FunnelsQuery` are read in rules/queries/funnels/funnel-request.ts. Source:
 * docs/compatibility/analytics.md, "Funnels and correlation".
 */
import { ServiceError } from '../../../base/errors.ts'
import { FUNNEL_EXCLUSIONS_MAX } from '../limits.ts'
import { type ActionLookup, isEqualOrBroader, readEntity, type Series } from '../series.ts'
import type { FunnelOrder } from './funnel-attempts.ts'

/** A series that must not occur between two steps, counted from 0. */
export interface StepExclusion {
  readonly series: Series
  readonly fromStep: number
  readonly toStep: number
}

/**
 * Returns the exclusions of a request. A strict funnel has none, because no other event can occur between its steps.
 * Throws 400 `invalid_input` without `attr` if the steps are missing or invalid, or if a series would exclude a step
 * itself.
 */
export function readExclusions(
  value: unknown,
  steps: readonly Series[],
  order: FunnelOrder,
  lookup: ActionLookup,
): readonly StepExclusion[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value) || value.length > FUNNEL_EXCLUSIONS_MAX) {
    throw invalid(`must be a list of at most ${FUNNEL_EXCLUSIONS_MAX} series`)
  }
  const exclusions = value.map((item: unknown) => {
    const exclusion = readExclusion(item, lookup)
    check(exclusion, steps, order)
    return exclusion
  })
  return order === 'strict' ? [] : exclusions
}

function readExclusion(item: unknown, lookup: ActionLookup): StepExclusion {
  const series = readEntity(item, 'exclusions', lookup)
  const { funnel_from_step: from, funnel_to_step: to } = item as {
    readonly funnel_from_step?: unknown
    readonly funnel_to_step?: unknown
  }
  const fromStep = stepOf(from)
  const toStep = stepOf(to)
  if (fromStep === null || toStep === null) {
    throw invalid('need `funnel_from_step` and `funnel_to_step`, the numbers of steps from 0')
  }
  return { series, fromStep, toStep }
}

function stepOf(value: unknown): number | null {
  const isGiven = typeof value === 'number' || typeof value === 'string'
  return isGiven && /^[0-9]{1,4}$/.test(String(value)) ? Number(value) : null
}

function check(
  { series, fromStep, toStep }: StepExclusion,
  steps: readonly Series[],
  order: FunnelOrder,
): void {
  const last = steps.length - 1
  if (fromStep >= toStep)
    throw invalid('must have a `funnel_to_step` that is greater than `funnel_from_step`')
  if (toStep > last)
    throw invalid(`must have a \`funnel_to_step\` of at most ${last}, the last step`)
  if (order === 'unordered' && (fromStep !== 0 || toStep !== last)) {
    throw invalid(`must reach from step 0 to step ${last}, because the funnel is unordered`)
  }
  if (steps.slice(fromStep, toStep + 1).some((step) => isEqualOrBroader(series, step))) {
    throw invalid('must not name a step of the funnel from `funnel_from_step` to `funnel_to_step`')
  }
}

function invalid(what: string): ServiceError {
  return new ServiceError('invalid_input', `\`exclusions\` ${what}.`)
}
