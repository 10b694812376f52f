/**
 * Writes the filters of flags and the trees of cohorts in the one shape that all SDKs decode. The SDKs for Rust, Go,
 * .NET and Kotlin declare types for definitions. They reject the whole answer if one member of one flag has another
 * type, so a null or an odd value in a single flag would end local evaluation of all flags. Sources: `FeatureFlag` and
 * its parts in posthog-rs src/feature_flags.rs and posthog-go featureflags.go, LocalEvaluationApiResult.cs and
 * PropertyFilterValue.cs of posthog-dotnet, PostHogLocalEvaluationDeserializers.kt of posthog-android.
 *
 * The decisions of a flag do not change: a member of the wrong type is replaced by a value that has the same meaning as
 * the member has on the server.
 */
import { isObject, type JsonObject, objectsOf } from '../../base/json.ts'
import { OPERATORS_WITHOUT_VALUE } from '../filters/operator-names.ts'
import { sortedText } from '../filters/property-text.ts'
import { referenceOf } from './flag-references.ts'

/** The members of a filter that SDKs read. In the form for SDKs, `key`, `value` and `type` are always present. */
const FILTER_MEMBERS: readonly string[] = [
  'key',
  'type',
  'value',
  'operator',
  'negation',
  'group_type_index',
  'dependency_chain',
]
/**
 * Members of a filter for which all SDKs answer false or ask the server. A filter that needs a value and has none gets
 * these members, because it never matches on the server.
 */
const NEVER_MATCHES = { operator: 'exact', value: [] } as const

/** Returns the filters of a flag in the form that all SDKs decode. The cost is linear. */
export function strictFilters(filters: JsonObject): JsonObject {
  const { early_exit: earlyExit, multivariate, payloads, ...rest } = filters
  const strict: Record<string, unknown> = {
    ...rest,
    groups: strictConditions(groupsOf(filters), filters['aggregation_group_type_index']),
  }
  // The member is left out if it is not a boolean, because all SDKs read an absent member as false.
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
 * Returns the tree of a cohort in the form that all SDKs decode. In it, groups have only `type` and `values`, and no
 * group contains both groups and filters. Returns null for a tree that SDKs cannot evaluate, because it filters on what
 * persons did.
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

/** Returns the conditions of a flag. Filters without `groups` are a single condition themselves. */
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
    // All SDKs read null as 100 percent. On the server, a value that is not a number means that nobody gets the flag.
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

/** Returns a filter in the form that all SDKs decode. `type` is the type of a filter that names none. */
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

/** Returns the id of a cohort. SDKs look up the tree of the cohort by the text of the id. */
function cohortValue(value: unknown): unknown {
  return referenceOf(value) ?? sortedText(value ?? '')
}

/**
 * Returns the value of a filter as a text, a whole number, a boolean, or a list of texts and numbers. Returns null if
 * the filter needs a value and has none. If the operator needs no value, returns the name of the operator, as the
 * editor of PostHog writes it.
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

/** Returns the payloads of a flag as JSON texts. Payloads that are null are left out. */
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
