/**
 * The requests and persons of the bench `decide`: persons with 30 properties, flags of which every second one has a
 * property condition, and the same flags in the form of Unleash. The functions are pure: the same index always gives
 * the same person and the same flag.
 */

/** The properties of a person, by name. */
export type PersonProperties = Readonly<Record<string, string | number | boolean>>

/** The condition of a flag on a person's property. */
export interface FlagCondition {
  readonly property: string
  readonly operator: 'exact' | 'icontains' | 'gt' | 'is_not'
  /**
   * The values to compare with. If `exact` has several, the property must equal one of them. If `is_not` has several,
   * it must equal none of them.
   */
  readonly values: readonly string[]
}

/** A flag in a form that belongs to no product. */
export interface BenchFlag {
  readonly key: string
  /** The condition. Null means all persons within the rollout. */
  readonly condition: FlagCondition | null
  readonly rolloutPercentage: number
  /** The names of the variants, which are equally likely. Empty for a flag that is on or off. */
  readonly variants: readonly string[]
}

const PLANS = ['free', 'starter', 'team', 'enterprise'] as const
const COUNTRIES = ['de', 'fr', 'us', 'jp', 'br', 'in', 'gb'] as const
const TRAITS = 24
const TRAIT_VALUES = 4
const VARIANTS = ['control', 'test'] as const
const HALF = 50
const FRESH_BODIES = 30_000
const ALL = 100

/** Returns the distinct_id of a person. */
export function distinctIdOf(person: number): string {
  return `decide-person-${person}`
}

/** Returns the 30 properties of a person. They have about 900 bytes of JSON. */
export function propertiesOf(person: number): PersonProperties {
  const properties: Record<string, string | number | boolean> = {
    email: `person${person}@example.${person % 2 === 0 ? 'com' : 'org'}`,
    name: `Person ${person}`,
    plan: PLANS[person % PLANS.length] ?? '',
    country: COUNTRIES[person % COUNTRIES.length] ?? '',
    age: 18 + (person % 60),
    is_staff: person % 10 === 0,
  }
  for (let trait = 0; trait < TRAITS; trait++) {
    properties[`trait_${trait}`] = `value ${(person + trait) % TRAIT_VALUES} of a trait`
  }
  return properties
}

/** Returns the flags of a project. Every second flag has a condition, every fifth has two variants. */
export function benchFlags(count: number): BenchFlag[] {
  return Array.from({ length: count }, (_, index) => {
    const condition = index % 2 === 1 ? conditionOf((index - 1) / 2) : null
    return {
      key: `decide-flag-${index}`,
      condition,
      rolloutPercentage: condition === null ? HALF : ALL,
      variants: index % 5 === 0 ? VARIANTS : [],
    }
  })
}

function conditionOf(index: number): FlagCondition {
  switch (index % 4) {
    case 0: {
      const values = [0, 1, 2].map((value) => `value ${value} of a trait`)
      return { property: `trait_${(index / 4) % TRAITS}`, operator: 'exact', values }
    }
    case 1:
      return { property: 'email', operator: 'icontains', values: ['@EXAMPLE.com'] }
    case 2:
      return { property: 'age', operator: 'gt', values: ['40'] }
    default:
      return { property: 'country', operator: 'is_not', values: ['de', 'fr'] }
  }
}

/** Returns whether a condition holds for a person. The code is kept simple, because it is used to check answers. */
export function isHolding(condition: FlagCondition, properties: PersonProperties): boolean {
  const { operator, values } = condition
  const value = String(properties[condition.property])
  switch (operator) {
    case 'exact':
      return values.includes(value)
    case 'is_not':
      return !values.includes(value)
    case 'icontains':
      return values.some((part) => value.toLowerCase().includes(part.toLowerCase()))
    case 'gt':
      return values.some((bound) => Number(value) > Number(bound))
  }
}

/** Returns the body that creates a flag through the private API. */
export function flagBody({ key, condition, rolloutPercentage, variants }: BenchFlag): object {
  const properties = condition === null ? [] : [filterOf(condition)]
  const share = ALL / Math.max(1, variants.length)
  const shares = variants.map((name) => ({ key: name, rollout_percentage: share }))
  return {
    key,
    filters: {
      groups: [{ properties, rollout_percentage: rolloutPercentage }],
      ...(shares.length === 0 ? {} : { multivariate: { variants: shares } }),
    },
  }
}

function filterOf({ property, operator, values }: FlagCondition): object {
  const isList = operator === 'exact' || operator === 'is_not'
  return { key: property, type: 'person', operator, value: isList ? values : values[0] }
}

/** Returns the strategy of Unleash that has the same meaning as a flag. */
export function unleashStrategy(flag: BenchFlag): object {
  const { key, condition, rolloutPercentage, variants } = flag
  const weight = 1000 / Math.max(1, variants.length)
  return {
    name: 'flexibleRollout',
    parameters: { rollout: String(rolloutPercentage), stickiness: 'userId', groupId: key },
    constraints: condition === null ? [] : [constraintOf(condition)],
    variants: variants.map((name) => ({
      name,
      weight,
      weightType: 'variable',
      stickiness: 'userId',
    })),
  }
}

function constraintOf({ property, operator, values }: FlagCondition): object {
  const contextName = property
  switch (operator) {
    case 'exact':
      return { contextName, operator: 'IN', values }
    case 'is_not':
      return { contextName, operator: 'NOT_IN', values }
    case 'icontains':
      return { contextName, operator: 'STR_CONTAINS', values, caseInsensitive: true }
    case 'gt':
      return { contextName, operator: 'NUM_GT', value: values[0], values: [] }
  }
}

/** Returns the request that SDKs send for a person whose properties are stored on the server. */
export function decisionBody(projectKey: string, person: number, flagKeys?: string[]): string {
  const distinctId = distinctIdOf(person)
  return JSON.stringify({
    token: projectKey,
    distinct_id: distinctId,
    groups: {},
    person_properties: { distinct_id: distinctId },
    group_properties: {},
    geoip_disable: true,
    ...(flagKeys === undefined ? {} : { flag_keys_to_evaluate: flagKeys }),
  })
}

/**
 * Returns many different bodies of the same request. There are so many that the server has evicted each body from its
 * cache before the body is sent again.
 */
export function freshBodies(projectKey: string, persons: number): string[] {
  return Array.from({ length: FRESH_BODIES }, (_, index) => {
    const body = decisionBody(projectKey, index % persons)
    return `${body.slice(0, -1)},"sent_at":"${index}"}`
  })
}

/**
 * Returns the same request for Unleash. Unleash does not store persons, so the request contains exactly the properties
 * that flags use.
 */
export function unleashBody(person: number, flags: readonly BenchFlag[]): string {
  const known = propertiesOf(person)
  const properties: Record<string, string> = {}
  for (const { condition } of flags) {
    if (condition !== null) properties[condition.property] = String(known[condition.property])
  }
  return JSON.stringify({ context: { userId: distinctIdOf(person), properties } })
}
