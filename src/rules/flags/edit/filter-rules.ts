/**
 * Checks the filters of a flag before they are stored. The first broken rule is thrown as 400 whose `attr` is
 * `filters`. Source: docs/compatibility/flags.md, "Feature flag filters".
 */
import { type ErrorCode, invalidInput, ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject, objectsOf } from '../../../base/json.ts'
import { faultText, newFault, patternLimitFault } from '../../filters/filter-faults.ts'
import {
  COHORT_OPERATORS,
  DATE_OPERATORS,
  PATTERN_OPERATORS,
} from '../../filters/operator-names.ts'
import { flagFaults } from '../flag-faults.ts'
import { conditionsOf, propertiesOf, referenceOf } from '../flag-references.ts'
import { filterMoment } from '../flag-values.ts'
import { FLAG_FILTERS_BYTES_MAX, FLAG_GROUP_INDEX_MAX, FLAG_LISTED_VALUES_MAX } from '../limits.ts'
import type { FlagRepository } from '../types.ts'
import { checkDependencies } from './flag-dependencies.ts'

const TEXT_OPERATORS: readonly unknown[] = [
  ...PATTERN_OPERATORS,
  'icontains',
  'not_icontains',
  'gt',
  'gte',
  'lt',
  'lte',
]

/**
 * Checks filters that have `groups`. `ownId` is the id of the flag that they belong to, or null for a new flag. Returns
 * the filters in their stored form: payloads as JSON text, without the names of cohorts. Throws 400. The cost is linear
 * in the size, apart from the flags and cohorts that the filters refer to.
 */
export function checkFilters(
  filters: JsonObject,
  ownId: number | null,
  repository: FlagRepository,
): JsonObject {
  checkStructure(filters)
  checkMemberTypes(filters, ownId, repository)
  checkDependencies(filters, ownId, repository)
  checkPropertyTypes(filters)
  checkVariants(filters)
  for (const property of propertiesOf(filters)) checkProperty(property, repository)
  checkPatternCount(filters)
  const stored = withStoredPayloads(withoutCohortNames(filters))
  checkFaults(stored, ownId, repository)
  return stored
}

/** Throws 400 if the JSON of the filters is longer than `FLAG_FILTERS_BYTES_MAX`. */
export function checkFiltersSize(filters: JsonObject): void {
  if (Buffer.byteLength(JSON.stringify(filters)) <= FLAG_FILTERS_BYTES_MAX) return
  throw invalid(
    `may have at most ${FLAG_FILTERS_BYTES_MAX} bytes of JSON. Put long lists into a cohort`,
  )
}

/** Returns filters without the members `cohort_name`, which answers add. */
export function withoutCohortNames(filters: JsonObject): JsonObject {
  const groups = conditionsOf(filters).map((condition) => {
    const properties = condition['properties']
    if (!Array.isArray(properties)) return condition
    return { ...condition, properties: objectsOf(properties).map(withoutCohortName) }
  })
  return { ...filters, groups }
}

function withoutCohortName(property: JsonObject): JsonObject {
  if (property['type'] !== 'cohort' || !Object.hasOwn(property, 'cohort_name')) return property
  const { cohort_name: _, ...rest } = property
  return rest
}

function checkStructure(filters: JsonObject): void {
  const groups = filters['groups']
  if (!Array.isArray(groups) || !groups.every(isObject)) {
    throw invalid('needs a list of conditions as `groups`, each an object')
  }
  checkAggregation(filters)
  for (const condition of groups) checkCondition(condition)
  for (const name of ['super_groups', 'holdout_groups']) {
    for (const condition of objectsIn(filters[name], name)) checkCondition(condition)
  }
  if (!isAbsent(filters['holdout']) && !isObject(filters['holdout'])) {
    throw invalid('needs an object as `holdout`')
  }
  checkVariantStructure(filters['multivariate'])
}

/**
 * Returns a value that must be a list of objects. An absent value is an empty list. Throws 400 for every other value.
 */
function objectsIn(value: unknown, what: string): readonly JsonObject[] {
  if (isAbsent(value)) return []
  if (Array.isArray(value) && value.every(isObject)) return value
  throw invalid(`needs a list of objects as ${what}`)
}

function checkCondition(condition: JsonObject): void {
  const { properties, rollout_percentage: rollout, variant } = condition
  const filters = objectsIn(properties, 'properties of a condition')
  if (!filters.every(({ key }) => typeof key === 'string')) {
    throw invalid('needs a text as `key` of every property filter')
  }
  if (!isAbsent(rollout) && !isPercentage(rollout)) {
    throw invalid('needs a number from 0 to 100, or null, as `rollout_percentage` of a condition')
  }
  if (!isAbsent(variant) && typeof variant !== 'string') {
    throw invalid('needs the key of a variant, or null, as `variant` of a condition')
  }
  checkAggregation(condition)
}

function checkAggregation(holder: JsonObject): void {
  const index = holder['aggregation_group_type_index']
  if (isAbsent(index) || isGroupIndex(index)) return
  const range = `a whole number from 0 to ${FLAG_GROUP_INDEX_MAX}, or null,`
  throw invalid(`needs ${range} as \`aggregation_group_type_index\``)
}

function checkVariantStructure(multivariate: unknown): void {
  if (isAbsent(multivariate)) return
  if (!isObject(multivariate)) throw invalid('needs an object, or null, as `multivariate`')
  const keys = new Set<string>()
  for (const { key, rollout_percentage: rollout } of objectsIn(
    multivariate['variants'],
    'variants',
  )) {
    if (typeof key !== 'string' || key === '') {
      throw invalid('needs a text that is not empty as `key` of every variant')
    }
    // Payloads are stored in an object with the keys of the variants, and clients lose a member with the name
    // `__proto__`.
    if (key === '__proto__')
      throw invalid('may not have a variant named `__proto__`. Choose another key')
    if (keys.has(key)) throw invalid(`names the variant ${JSON.stringify(key)} twice`)
    keys.add(key)
    if (!isAbsent(rollout) && !isPercentage(rollout)) {
      throw invalid('needs a number from 0 to 100 as `rollout_percentage` of every variant')
    }
  }
}

/**
 * Rejects members of a wrong type. Tenrec would ignore them, and SDKs could not decode them. A flag that is already
 * stored with such a member keeps it, so that a client can send back the filters that it has read.
 */
function checkMemberTypes(
  filters: JsonObject,
  ownId: number | null,
  repository: FlagRepository,
): void {
  const [first, ...others] = memberTypeFaults(filters)
  if (first === undefined) return
  const before = ownId === null ? null : repository.flagById(ownId)
  const known = before === null ? [] : memberTypeFaults(before.filters)
  const added = [first, ...others].find((fault) => !known.includes(fault))
  if (added !== undefined) throw invalid(added)
}

function memberTypeFaults(filters: JsonObject): readonly string[] {
  const faults: string[] = []
  const { early_exit: earlyExit } = filters
  if (!isAbsent(earlyExit) && typeof earlyExit !== 'boolean') {
    faults.push('needs true or false as `early_exit`')
  }
  for (const { key, name } of variantsOf(filters)) {
    if (isAbsent(name) || typeof name === 'string') continue
    faults.push(`needs a text as \`name\` of the variant ${JSON.stringify(key)}`)
  }
  const enrollment = propertiesOf({ groups: filters['super_groups'] })
  for (const { key, negation, group_type_index: index } of [
    ...propertiesOf(filters),
    ...enrollment,
  ]) {
    const where = `property ${JSON.stringify(key)}`
    if (!isAbsent(negation) && typeof negation !== 'boolean') {
      faults.push(`needs true or false as \`negation\` of ${where}`)
    }
    if (!isAbsent(index) && !isGroupIndex(index)) {
      faults.push(
        `needs a whole number from 0 to ${FLAG_GROUP_INDEX_MAX} as \`group_type_index\` of ${where}`,
      )
    }
  }
  return faults
}

function checkPropertyTypes(filters: JsonObject): void {
  const { aggregation_group_type_index: common = null } = filters
  for (const condition of conditionsOf(filters)) {
    const isOwn = Object.hasOwn(condition, 'aggregation_group_type_index')
    const index = isOwn ? condition['aggregation_group_type_index'] : common
    for (const property of objectsOf(condition['properties'])) {
      if (!isAbsent(index)) checkGroupProperty(property, index, isOwn)
      else if (!['person', 'cohort', 'flag'].includes(String(property['type']))) {
        throw invalid('may use properties of the types person, cohort and flag only')
      }
    }
  }
}

function checkGroupProperty(property: JsonObject, index: unknown, isOwn: boolean): void {
  const { type, group_type_index: groupTypeIndex } = property
  if (type === 'flag' || (isOwn && type === 'person')) return
  if (type !== 'group') {
    throw invalid(
      'aggregates by a group, so it may use properties of the types group and flag only',
    )
  }
  if (isAbsent(groupTypeIndex) || groupTypeIndex === index) return
  throw invalid(
    `aggregates by group type ${String(index)}, so it may use properties of this group type only`,
  )
}

function checkVariants(filters: JsonObject): void {
  const variants = variantsOf(filters)
  let sum = 0
  for (const { rollout_percentage: rollout } of variants) {
    sum += typeof rollout === 'number' ? rollout : 0
  }
  if (variants.length > 0 && sum !== 100) {
    throw invalid(`needs variants whose \`rollout_percentage\` adds up to 100, not ${sum}`)
  }
  const keys = new Set(variants.map(({ key }) => key))
  for (const { variant } of conditionsOf(filters)) {
    if (isAbsent(variant) || variant === '' || keys.has(variant)) continue
    throw invalid(`has a condition for ${JSON.stringify(variant)}, but no variant has this key`)
  }
}

function variantsOf(filters: JsonObject): readonly JsonObject[] {
  const { multivariate } = filters
  return isObject(multivariate) ? objectsOf(multivariate['variants']) : []
}

function checkProperty(property: JsonObject, repository: FlagRepository): void {
  const { key, type, operator, value } = property
  const where = `property ${JSON.stringify(key)}`
  if (Array.isArray(value) && value.length > FLAG_LISTED_VALUES_MAX) {
    throw invalid(`may list at most ${FLAG_LISTED_VALUES_MAX} values for ${where}. Use a cohort`)
  }
  if (type === 'cohort') {
    checkCohort(value, repository)
    return
  }
  if (type === 'flag') return
  // Only checks that the value is a date. The moment that the date means does not matter, so any time and zone will do.
  if (DATE_OPERATORS.includes(operator) && filterMoment(value, 0, 'UTC') === null) {
    throw fault('invalid_date', `needs a date such as 2024-01-31 or -7d for ${where}`)
  }
  if (TEXT_OPERATORS.includes(operator) && typeof value !== 'string') {
    const what = `needs a text as value for ${where} with the operator \`${String(operator)}\``
    throw fault('invalid_value', what)
  }
  if (typeof operator === 'string' && COHORT_OPERATORS.includes(operator)) {
    throw fault(
      'invalid_operator',
      `uses the operator \`${String(operator)}\` for ${where}, which is not a cohort`,
    )
  }
}

function checkPatternCount(filters: JsonObject): void {
  const enrollment = propertiesOf({ groups: filters['super_groups'] })
  const fault = patternLimitFault([...propertiesOf(filters), ...enrollment])
  if (fault !== null) throw invalid(fault)
}

/**
 * Rejects filters that can never match. A filter that the stored flag already contains is accepted, because a client
 * must be able to send back the filters that it has read, for example to switch the flag off.
 */
function checkFaults(filters: JsonObject, ownId: number | null, repository: FlagRepository): void {
  const before = ownId === null ? null : repository.flagById(ownId)
  const found = newFault(flagFaults(filters), () =>
    before === null ? [] : flagFaults(before.filters),
  )
  if (found === null) return
  throw new ServiceError(found.code, `filters: ${faultText(found)}`, { attr: 'filters' })
}

function checkCohort(value: unknown, repository: FlagRepository): void {
  const id = referenceOf(value)
  const cohort = id === null ? null : repository.cohort(id)
  if (cohort === null) {
    throw fault('cohort_does_not_exist', 'refers to a cohort that does not exist')
  }
}

/** Returns filters whose payloads are JSON text. A null payload is removed. */
function withStoredPayloads(filters: JsonObject): JsonObject {
  const { payloads } = filters
  if (isAbsent(payloads)) return filters
  if (!isObject(payloads)) throw invalid('needs an object of variants and JSON texts as `payloads`')
  const stored: Record<string, string> = {}
  for (const [key, value] of Object.entries(payloads)) {
    if (value === null) continue
    if (typeof value === 'string' && !isJsonText(value)) {
      throw invalid(`needs valid JSON as payload ${JSON.stringify(key)}`)
    }
    stored[key] = typeof value === 'string' ? value : JSON.stringify(value)
  }
  checkPayloadKeys(Object.keys(stored), variantsOf(filters))
  return { ...filters, payloads: stored }
}

function checkPayloadKeys(keys: readonly string[], variants: readonly JsonObject[]): void {
  const allowed = variants.length === 0 ? ['true'] : variants.map(({ key }) => key)
  for (const key of keys) {
    if (allowed.includes(key)) continue
    if (variants.length === 0)
      throw invalid('may have only the payload "true" if there are no variants')
    throw invalid(`has a payload for ${JSON.stringify(key)}, but no variant has this key`)
  }
}

function isJsonText(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function isGroupIndex(index: unknown): boolean {
  const isWhole = Number.isInteger(index) && Number(index) >= 0
  return isWhole && Number(index) <= FLAG_GROUP_INDEX_MAX
}

function isPercentage(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= 100
}

function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null
}

function fault(code: ErrorCode, what: string): ServiceError {
  return new ServiceError(code, `\`filters\` ${what}.`, { attr: 'filters' })
}

function invalid(what: string): ServiceError {
  return invalidInput('filters', what, 'filters:')
}
