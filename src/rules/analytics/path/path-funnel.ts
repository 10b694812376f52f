/**
 * Paths around a step of a funnel: finds the persons of the funnel and the time range of their paths. Source:
 * docs/compatibility/analytics.md, "Paths".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import type { Inquiry } from '../analytic-query.ts'
import { runFunnel } from '../funnel/funnel.ts'
import { planFunnel } from '../funnel/funnel-plan.ts'
import type { FunnelParameters } from '../funnel/funnel-shapes.ts'
import type { PathParameters } from './path-shapes.ts'

const AFTER = 'funnel_path_after_step'
const BEFORE = 'funnel_path_before_step'
const BETWEEN = 'funnel_path_between_steps'

/** The time range of the events of a path, in milliseconds, both inclusive. */
export interface PathSpan {
  readonly fromMs: number
  readonly toMs: number
}

/**
 * Finds the persons of the funnel of a request. Returns the time range of each person's paths, by person number, or
 * null if the request has no funnel. Throws 400 for an invalid request, and the same errors as `EventScanner.scan`.
 */
export function funnelSpans(
  inquiry: Inquiry<PathParameters>,
): ReadonlyMap<number, PathSpan> | null {
  const { funnelPaths, funnel } = inquiry.parameters
  if (funnelPaths === null) return null
  const step = targetStep(funnelPaths, funnel)
  if (funnel === null) return null
  const within = { ...inquiry, parameters: { ...funnel, customSteps: null, entrance: null } }
  const plan = planFunnel(within, null)
  const { actors, stepTimesMs } = runFunnel(plan, within)
  const { stepCount, windowEnd } = plan.rules
  const isDropOff = (funnel.step ?? 0) < 0
  const spans = new Map<number, PathSpan>()
  for (let index = 0; index < actors.length; index++) {
    const timeOf = (number: number): number => stepTimesMs[index * stepCount + number] ?? 0
    const stepMs = timeOf(step)
    let fromMs = Number.NEGATIVE_INFINITY
    let toMs = Number.POSITIVE_INFINITY
    if (funnelPaths === AFTER) fromMs = stepMs
    else toMs = funnelPaths === BEFORE && isDropOff ? windowEnd(stepMs) : stepMs
    if (funnelPaths === BETWEEN) fromMs = timeOf(step - 1)
    spans.set(actors[index] ?? 0, { fromMs, toMs })
  }
  return spans
}

/**
 * Returns the step of the funnel, counted from 0, at which the paths start (`funnel_path_after_step`) or end (the other
 * kinds). For drop-offs, it is the last step that the actors did.
 */
function targetStep(funnelPaths: string, funnel: FunnelParameters | null): number {
  if (![AFTER, BEFORE, BETWEEN].includes(funnelPaths)) {
    const detail = `\`funnel_paths\` must be one of ${[AFTER, BEFORE, BETWEEN].join(', ')}.`
    throw new ServiceError('invalid_input', detail, { attr: 'funnel_paths' })
  }
  const attr = 'funnel_filter'
  if (funnel === null) {
    const detail = `\`${attr}\` is missing. Send the funnel that \`funnel_paths\` refers to.`
    throw new ServiceError('required', detail, { attr })
  }
  const { step, groupTypeIndex } = funnel
  if (step === null) {
    const detail = '`funnel_step` is missing in `funnel_filter`. Send the number of a step.'
    throw new ServiceError('required', detail, { attr: 'funnel_step' })
  }
  if (groupTypeIndex !== null) {
    throw invalidInput(attr, 'must count persons, not groups')
  }
  const target = step >= 0 ? Math.max(step - 1, 0) : Math.max(-step - 2, 0)
  if (funnelPaths === BETWEEN && target === 0) {
    throw invalidInput(
      attr,
      'must have a `funnel_step` of at least 2, or of at most -3 for drop-offs',
    )
  }
  return target
}
