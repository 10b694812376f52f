/**
 * Turns a scheduled change into the body of a PATCH request for its flag. The body is then checked like the body of any
 * other request. Source of PostHog's operations: its model `FeatureFlag`, `build_scheduled_change_serializer_data`.
 */
import { fieldText, invalidInput, ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject, objectsOf } from '../../../base/json.ts'
import type { Flag } from '../types.ts'
import {
  nextStepOf,
  operationOf,
  type Ramp,
  type RampCondition,
  type ScheduledChange,
  stepsMade,
} from './scheduled-change.ts'

/**
 * Returns the body of the request that makes a change, or the next step of a ramp. Throws 400 if the payload does not
 * fit the flag.
 */
export function bodyOfChange(
  change: Pick<ScheduledChange, 'payload' | 'ramp'>,
  flag: Flag,
): JsonObject {
  const value = change.payload['value']
  switch (operationOf(change)) {
    case 'update_status':
      return { active: value }
    case 'add_release_condition': {
      const groups = objectsOf(flag.filters['groups'])
      return { filters: { ...flag.filters, groups: [...groups, ...groupsIn(value)] } }
    }
    case 'update_variants':
      return { filters: { ...flag.filters, ...variantsIn(value, flag) } }
    case 'ramp':
      return change.ramp === null ? {} : bodyOfStep(change.ramp, flag)
  }
}

/** Returns the body of the request that sets the percentage of the next step. The first step also enables the flag. */
function bodyOfStep(ramp: Ramp, flag: Flag): JsonObject {
  const step = nextStepOf(ramp)
  if (step === undefined) return {}
  const filters = withPercentage(flag, ramp.condition, step.rolloutPercentage)
  return stepsMade(ramp) === 0 && !flag.active ? { filters, active: true } : { filters }
}

/**
 * Returns the body of the request that undoes a ramp: it sets the percentage from before the ramp, and disables the
 * flag if it was disabled before.
 */
export function bodyOfTurnBack({ before, condition }: Ramp, flag: Flag): JsonObject {
  const filters = withPercentage(flag, condition, before.rolloutPercentage)
  return before.isActive ? { filters } : { filters, active: false }
}

function withPercentage(flag: Flag, index: number, percentage: number | null): JsonObject {
  const groups = objectsOf(flag.filters['groups']).map((group, at) =>
    at === index ? { ...group, rollout_percentage: percentage } : group,
  )
  return { ...flag.filters, groups }
}

/**
 * Returns the parts of a condition that a ramp compares to find out whether somebody has changed the condition. Returns
 * null if the flag has no such condition.
 */
export function conditionOf(flag: Flag, index: number): RampCondition | null {
  const group = objectsOf(flag.filters['groups'])[index]
  if (group === undefined) return null
  const { properties, variant, rollout_percentage: percentage } = group
  const filters = JSON.stringify([properties ?? [], variant ?? null])
  return { rolloutPercentage: typeof percentage === 'number' ? percentage : null, filters }
}

/** Returns the reason why a ramp must stop because somebody has changed its flag. Returns null if nobody has. */
export function interferenceOf(ramp: Ramp, flag: Flag): string | null {
  if (flag.deleted) return 'The flag was deleted.'
  const name = `Condition ${ramp.condition + 1} of the flag`
  const found = conditionOf(flag, ramp.condition)
  if (found === null) return `${name} was removed.`
  const { expected } = ramp
  if (found.filters !== expected.filters) return `${name} was changed by somebody.`
  if (found.rolloutPercentage !== expected.rolloutPercentage) {
    const [has, had] = [found, expected].map((one) => `${one.rolloutPercentage ?? 100} %`)
    return `${name} was changed by somebody: it has ${has} instead of ${had}.`
  }
  if (stepsMade(ramp) > 0 && !flag.active) return 'Somebody disabled the flag.'
  return null
}

function groupsIn(value: unknown): readonly JsonObject[] {
  const groups = isObject(value) ? value['groups'] : undefined
  if (!Array.isArray(groups) || groups.length === 0) {
    throw invalidInput('payload', 'needs a list `value.groups` with at least one condition')
  }
  return objectsOf(groups)
}

function variantsIn(value: unknown, { filters }: Flag): JsonObject {
  const { variants, payloads = {} } = isObject(value) ? value : {}
  if (!Array.isArray(variants)) {
    throw invalidInput('payload', 'needs a list `value.variants`')
  }
  if (!isObject(payloads)) throw invalidInput('payload', 'needs an object `value.payloads`')
  const keys = new Set(objectsOf(variants).map(({ key }) => key))
  const unknown = Object.keys(payloads).filter((key) => keys.size > 0 && !keys.has(key))
  if (unknown.length > 0) {
    const what = `has payloads for ${unknown.join(', ')}, which are no variants`
    throw new ServiceError('invalid_input', fieldText('payload', what), { attr: 'payload' })
  }
  const { multivariate } = filters
  const rest = isObject(multivariate) ? multivariate : {}
  return { multivariate: { ...rest, variants }, payloads }
}
