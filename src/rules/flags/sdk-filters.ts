/**
 * Filters of flags and trees of cohorts in the one shape that all SDKs decode. The SDKs for Rust, Go, .NET and
 * Kotlin declare types for definitions and refuse the whole answer when one member of one flag has another type, so
 * a null or an odd value in a single flag would end local evaluation for all of them. Sources: `FeatureFlag` and its
 * parts in posthog-rs src/feature_flags.rs and posthog-go featureflags.go, LocalEvaluationApiResult.cs and
 * PropertyFilterValue.cs of posthog-dotnet, PostHogLocalEvaluationDeserializers.kt of posthog-android.
 *
 * A flag decides the same before and after: what a member of the wrong type means here is what is written instead.
 */
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { OPERATORS_WITHOUT_VALUE } from '../filters/operator-names.ts'
import { sortedText } from '../filters/property-text.ts'
import { referenceOf } from './flag-references.ts'

/** Members of a filter that SDKs read; `key`, `value` and `type` are always there. */
const FILTER_MEMBERS: readonly string[] = [
  'key',
  'type',
  'value',
  'operator',
  'negation',
  'group_type_index',
  'dependency_chain',
]
/** All SDKs answer false for it, or ask the server: the decision of a filter whose value is missing. */
const NEVER_MATCHES = { operator: 'exact', value: [] } as const

/** The filters of a flag as SDKs get them. Linear. */
export function strictFilters(filters: JsonObject): JsonObject {
  const { early_exit: earlyExit, multivariate, payloads, ...rest } = filters
  const strict: Record<string, unknown> = {
    ...rest,
    groups: strictConditions(groupsOf(filters), filters['aggregation_group_type_index']),
  }
  // Absent, it is false everywhere.
  if (typeof earlyExit === 'boolean') strict['early_exit'] = earlyExit
  if (multivariate !== undefined) strict['multivariate'] = strictMultivariate(multivariate)
  if (payloads !== undefined) strict['payloads'] = strictPayloads(payloads)
  if (rest['super_groups'] !== undefined) {
    strict['super_groups'] = strictConditions(rest['super_groups'], null)
  }
  if (rest['aggregation_group_type_index'] !== undefined) {
    strict['aggregation_group_type_index'] = indexOrNull(rest['aggregation_group_type_index'])
  }
  return strict
}

/**
 * The tree of a cohort as SDKs get it: groups have `type` and `values` and nothing else, and no group has both
 * groups and filters. Null for a tree that SDKs cannot evaluate, because it asks what persons did.
 */
export function strictTree(tree: unknown): JsonObject | null {
  if (!isObject(tree)) return { type: 'OR', values: [] }
  if (!isGroup(tree)) return strictTree({ type: 'AND', values: [tree] })
  const items = objectsOf(tree['values'])
  const hasGroups = items.some(isGroup)
  const values: JsonObject[] = []
  for (const item of items) {
    const value = isGroup(item) ? strictTree(item) : strictLeaf(item)
    if (value === null) return null
    values.push(hasGroups && !isGroup(item) ? { type: 'AND', values: [value] } : value)
  }
  return { type: tree['type'] === 'OR' ? 'OR' : 'AND', values }
}

function isGroup(node: JsonObject): boolean {
  return Array.isArray(node['values'])
}

function strictLeaf(leaf: JsonObject): JsonObject | null {
  const type = leaf['type'] ?? 'person'
  const isKnown = type === 'person' || type === 'cohort'
  return isKnown ? strictFilter(leaf, 'person') : null
}

/** Filters without conditions are one condition themselves. */
function groupsOf(filters: JsonObject): unknown {
  if (Object.hasOwn(filters, 'groups')) return filters['groups']
  return [{ properties: filters['properties'] ?? [] }]
}

function strictConditions(conditions: unknown, aggregation: unknown): readonly JsonObject[] {
  return objectsOf(conditions).map((condition) => {
    const { properties, rollout_percentage: rollout, variant } = condition
    const strict: Record<string, unknown> = { ...condition }
    const own = Object.hasOwn(condition, 'aggregation_group_type_index')
      ? condition['aggregation_group_type_index']
      : aggregation
    const type = typeof own === 'number' ? 'group' : 'person'
    strict['properties'] = objectsOf(properties).map((filter) => strictFilter(filter, type))
    // Null is everybody for all SDKs; what is no percentage is nobody here.
    if (rollout !== undefined && rollout !== null && typeof rollout !== 'number') {
      strict['rollout_percentage'] = 0
    }
    if (variant !== undefined && typeof variant !== 'string') strict['variant'] = null
    if (strict['aggregation_group_type_index'] !== undefined) {
      strict['aggregation_group_type_index'] = indexOrNull(own)
    }
    return strict
  })
}

/** A filter; `type` is what it is about when it does not say so itself. */
function strictFilter(filter: JsonObject, type: 'person' | 'group'): JsonObject {
  const { key, operator, negation, group_type_index: index, dependency_chain: chain } = filter
  const strict: Record<string, unknown> = {}
  for (const name in filter) if (!FILTER_MEMBERS.includes(name)) strict[name] = filter[name]
  const ownType = typeof filter['type'] === 'string' ? filter['type'] : type
  strict['key'] = typeof key === 'string' ? key : String(key ?? 'id')
  strict['type'] = ownType
  strict['value'] = ownType === 'cohort' ? cohortValue(filter['value']) : filterValue(filter)
  if (typeof operator === 'string') strict['operator'] = operator
  if (strict['value'] === null) Object.assign(strict, NEVER_MATCHES)
  if (negation === true || negation === false) strict['negation'] = negation
  if (indexOrNull(index) !== null) strict['group_type_index'] = index
  if (Array.isArray(chain)) strict['dependency_chain'] = chain
  return strict
}

/** The number of a cohort; SDKs find its tree by the text of it. */
function cohortValue(value: unknown): unknown {
  return referenceOf(value) ?? sortedText(value ?? '')
}

/**
 * The value of a filter as a text, a whole number, a boolean, or a list of texts and numbers; null when it has none
 * and needs one. Upstream's editor writes the name of the operator where no value is needed.
 */
function filterValue({ value, operator }: JsonObject): unknown {
  if (value === undefined || value === null) {
    return OPERATORS_WITHOUT_VALUE.includes(operator) ? operator : null
  }
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : sortedText(value)
  if (!Array.isArray(value)) return sortedText(value)
  return value.map((entry: unknown) => (typeof entry === 'number' ? entry : sortedText(entry)))
}

function strictMultivariate(multivariate: unknown): JsonObject | null {
  if (!isObject(multivariate)) return null
  const variants = objectsOf(multivariate['variants'])
    .filter(({ key }) => typeof key === 'string')
    .map((variant) => {
      const { name, rollout_percentage: rollout } = variant
      const strict: Record<string, unknown> = { ...variant }
      if (typeof rollout !== 'number') strict['rollout_percentage'] = 0
      if (name !== undefined && typeof name !== 'string') delete strict['name']
      return strict
    })
  return { ...multivariate, variants }
}

/** JSON texts. */
function strictPayloads(payloads: unknown): JsonObject {
  if (!isObject(payloads)) return {}
  const strict: Record<string, string> = {}
  for (const [key, value] of Object.entries(payloads)) {
    if (value === undefined || value === null) continue
    strict[key] = typeof value === 'string' ? value : JSON.stringify(value)
  }
  return strict
}

function indexOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null
}
