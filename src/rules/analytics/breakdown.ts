/**
 * Breakdowns: the properties or cohorts by which a result is split, and the filter that selects one value. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */
import { invalidInput, ServiceError } from '../../base/errors.ts'
import type { FilterGroup, PropertyFilter } from '../filters/filter-group.ts'
import type { ValueRequest } from './event-columns.ts'
import { BREAKDOWN_KEYS_MAX } from './limits.ts'
import type { BreakdownParameters } from './question-shapes.ts'

const TYPES = ['event', 'person', 'group', 'cohort'] as const

/** The source of the values. */
export type BreakdownType = (typeof TYPES)[number]

/** The breakdown of a request. */
export interface Breakdown {
  readonly type: BreakdownType
  /** The names of properties, or the numbers of cohorts as text. There is at least one. */
  readonly keys: readonly string[]
  /** For the type `group`: the number of the group type whose property is read. Null for the other types. */
  readonly groupTypeIndex: number | null
}

/**
 * Returns the breakdown of a request, or null if there is none. Throws 400 `invalid_input` with `breakdown`,
 * `breakdowns` or `breakdown_type` as `attr` if this parameter is invalid. Throws 400 `required` if the type is `group`
 * and the number of the group type is missing.
 */
export function readBreakdown(parameters: BreakdownParameters): Breakdown | null {
  const given = givenKeys(parameters)
  if (given === null) return null
  const type = TYPES.find((known) => known === given.type)
  if (type === undefined) {
    throw invalidInput('breakdown_type', `must be one of ${TYPES.join(', ')}`)
  }
  const { groupTypeIndex } = parameters
  if (type === 'group' && groupTypeIndex === null) {
    const attr = 'breakdown_group_type_index'
    const detail = `\`${attr}\` is missing. Send the number of the group type.`
    throw new ServiceError('required', detail, { attr })
  }
  return { type, keys: given.keys, groupTypeIndex: type === 'group' ? groupTypeIndex : null }
}

/** Returns the values of an event that a breakdown by properties reads. The list is empty for cohorts. */
export function breakdownValues({
  type,
  keys,
  groupTypeIndex,
}: Breakdown): readonly ValueRequest[] {
  if (type === 'cohort') return []
  return keys.map((key) => {
    if (type === 'person') return { kind: 'person_property', key }
    if (type === 'event') return { kind: 'event_property', key }
    return { kind: 'group_property', typeIndex: groupTypeIndex ?? 0, key }
  })
}

/**
 * Returns the filter for the value that a request selects with `breakdown_value`, or null if the request selects none.
 * An empty text is a value too: it selects events whose property is missing or empty. Throws the same errors as
 * `readBreakdown`, and 400 `invalid_input` with `breakdown_value` as `attr` for a value that does not fit the
 * breakdown.
 */
export function breakdownFilter(parameters: BreakdownParameters): FilterGroup | null {
  const { value, binCount } = parameters
  if (value === undefined || value === null) return null
  if (parameters.type === 'cohort') return cohortFilter(value)
  const breakdown = readBreakdown(parameters)
  if (breakdown === null) return null
  const { keys } = breakdown
  if (binCount !== null) return binFilter(value, filterOn(breakdown, keys[0] ?? ''))
  const values = keys.length === 1 ? [value] : listOf(value)
  if (values?.length !== keys.length) {
    throw invalidInput('breakdown_value', 'must be a list with one value for each breakdown')
  }
  return {
    type: 'AND',
    values: keys.map((key, index) => {
      return { ...filterOn(breakdown, key), operator: 'exact', value: values[index] ?? '' }
    }),
  }
}

function filterOn({ type, groupTypeIndex }: Breakdown, key: string): PropertyFilter {
  return { key, type, ...(groupTypeIndex === null ? {} : { group_type_index: groupTypeIndex }) }
}

/** Returns the filter for one cohort, or null for the cohort `all`, which contains everybody. */
function cohortFilter(given: unknown): FilterGroup | null {
  const list = listOf(given)
  const value = list === null ? given : list[0]
  if (value === 'all') return null
  return { type: 'AND', values: [{ key: 'id', type: 'cohort', value }] }
}

/**
 * Returns the filter for the range that a pair of numbers gives: from the first, inclusive, to the second, exclusive.
 */
function binFilter(given: unknown, filter: PropertyFilter): FilterGroup {
  const range = listOf(given)
  const [lower, upper] = range ?? []
  if (range?.length !== 2 || !isNumber(lower) || !isNumber(upper)) {
    throw invalidInput('breakdown_value', 'must be a pair of numbers, for example [10,20]')
  }
  return {
    type: 'AND',
    values: [
      { ...filter, operator: 'gte', value: lower },
      { ...filter, operator: 'lt', value: upper },
    ],
  }
}

interface GivenKeys {
  readonly type: string
  readonly keys: readonly string[]
}

function givenKeys({ breakdown, breakdowns, type }: BreakdownParameters): GivenKeys | null {
  if (breakdowns !== undefined && breakdowns !== null) {
    const items = checkedList(breakdowns, 'breakdowns')
    if (items.length > 0) return keysOfObjects(items, type)
  }
  if (breakdown === undefined || breakdown === null || breakdown === '') return null
  const keys = checkedList(Array.isArray(breakdown) ? breakdown : [breakdown], 'breakdown')
  if (keys.length === 0) return null
  return { type: type ?? 'event', keys: keys.map((key) => keyOf(key, 'breakdown')) }
}

/**
 * Returns the keys of `breakdowns` and their common type. An object without a type has the type `breakdown_type`. If
 * that is missing too, the type is event.
 */
function keysOfObjects(items: readonly unknown[], type: string | null): GivenKeys {
  const types = new Set<unknown>()
  const keys = items.map((item) => {
    if (typeof item !== 'object' || item === null) return keyOf(item, 'breakdowns')
    const { property, type: own } = item as { readonly property?: unknown; readonly type?: unknown }
    types.add(own ?? type ?? 'event')
    return keyOf(property, 'breakdowns')
  })
  const [only = type ?? 'event'] = types
  if (types.size > 1 || typeof only !== 'string') {
    throw invalidInput('breakdowns', 'must all have the same type')
  }
  return { type: only, keys }
}

function checkedList(value: unknown, attr: string): readonly unknown[] {
  if (!Array.isArray(value)) throw invalidInput(attr, 'must be a list')
  if (value.length > BREAKDOWN_KEYS_MAX) {
    throw invalidInput(attr, `may have at most ${BREAKDOWN_KEYS_MAX} entries`)
  }
  return value as readonly unknown[]
}

function keyOf(value: unknown, attr: string): string {
  if ((typeof value === 'string' && value !== '') || typeof value === 'number') return String(value)
  throw invalidInput(attr, 'must contain names of properties, or numbers of cohorts')
}

/** Returns the list if the value is a list or the JSON text of a list. Returns null for any other value. */
function listOf(value: unknown): readonly unknown[] | null {
  if (Array.isArray(value)) return value as readonly unknown[]
  if (typeof value !== 'string' || !value.startsWith('[')) return null
  try {
    const parsed: unknown = JSON.parse(value)
    return Array.isArray(parsed) ? (parsed as readonly unknown[]) : null
  } catch {
    return null
  }
}

function isNumber(value: unknown): boolean {
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && /^-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?$/i.test(text)
}
