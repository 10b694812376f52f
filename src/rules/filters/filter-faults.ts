/**
 * Stored filters that can never match: an operator that nobody knows, a pattern that the engine refuses.
 * They are refused when they are saved; those that were stored before stay, and are named by `status_details`
 * of a flag and by `tenrec doctor`. Source: docs/COMPATIBILITY.md, "Filters that can never match".
 */

import { isObject, type JsonObject } from '../../base/json.ts'
import { type PatternDialect, patternRefusal } from '../../base/pattern/pattern.ts'
import { propertiesOf } from '../flags/flag-references.ts'
import {
  COHORT_OPERATORS,
  DEPENDENCY_OPERATOR,
  FLAG_OPERATORS,
  operatorRefusal,
  PATTERN_OPERATORS,
} from './filter-operators.ts'
import { sortedText } from './property-text.ts'

/** What is wrong with one filter. */
export interface FilterFault {
  /** Where it is in what was stored: `groups[0].properties[2]`. */
  readonly path: string
  readonly code: 'invalid_operator' | 'invalid_value'
  /** To be read behind the path: `has the operator ...`. */
  readonly reason: string
  /** The filter itself. */
  readonly filter: JsonObject
}

/** The lists of conditions of a flag. The properties of holdouts are not evaluated. */
const CONDITION_LISTS = ['groups', 'super_groups']

const knownFaults = new WeakMap<JsonObject, readonly FilterFault[]>()

/**
 * What is wrong with the filters of a flag, in their order; none for filters of any other shape. Cost: that
 * of compiling each pattern, once for the same object.
 */
export function flagFaults(filters: JsonObject): readonly FilterFault[] {
  const known = knownFaults.get(filters)
  if (known !== undefined) return known
  const faults = CONDITION_LISTS.flatMap((list) =>
    itemsOf(filters[list]).flatMap(([index, condition]) =>
      conditionFaults(condition, `${list}[${index}].`),
    ),
  )
  // Without conditions the filters are one themselves.
  if (!Object.hasOwn(filters, 'groups')) faults.push(...conditionFaults(filters, ''))
  knownFaults.set(filters, faults)
  return faults
}

/** The patterns that `flagFaults` is going to compile; none when it has been asked before. */
export function uncheckedPatterns(filters: JsonObject): readonly string[] {
  if (knownFaults.has(filters)) return []
  const lists = CONDITION_LISTS.flatMap((list) => propertiesOf({ groups: filters[list] }))
  return patternsOf(lists)
}

/** The patterns of filters, from left to right. */
export function patternsOf(
  filters: readonly { readonly operator?: unknown; readonly value?: unknown }[],
): readonly string[] {
  return filters
    .filter(({ operator }) => PATTERN_OPERATORS.includes(operator))
    .flatMap(({ value }): readonly unknown[] => (Array.isArray(value) ? value : [value]))
    .filter((pattern) => typeof pattern === 'string')
}

/** The first fault whose filter is not among those of `before`; null when there is none. */
export function newFault(
  faults: readonly FilterFault[],
  before: () => readonly FilterFault[],
): FilterFault | null {
  if (faults.length === 0) return null
  const known = new Set(before().map(({ filter }) => sortedText(filter)))
  return faults.find(({ filter }) => !known.has(sortedText(filter))) ?? null
}

/** Where and what, in one sentence. */
export function faultText({ path, reason, filter }: FilterFault): string {
  const { key } = filter
  return `${path}${typeof key === 'string' ? ` (${JSON.stringify(key)})` : ''} ${reason}`
}

/**
 * Why a pattern of a filter can never be found, behind the place of the filter; null for one that can. The
 * value may be any JSON: its text is the pattern.
 */
export function patternFaultReason(value: unknown, dialect: PatternDialect): string | null {
  if (value === undefined || value === null) return 'has no pattern: give one as value'
  const refusal = patternRefusal(sortedText(value), dialect)
  return refusal === null ? null : `has a pattern that ${refusal}`
}

function conditionFaults(condition: JsonObject, prefix: string): readonly FilterFault[] {
  return itemsOf(condition['properties']).flatMap(([index, property]) =>
    faultOf(property, `${prefix}properties[${index}]`),
  )
}

function faultOf(filter: JsonObject, path: string): readonly FilterFault[] {
  const operator = operatorRefusal(filter['operator'], operatorsOf(filter['type']))
  if (operator !== null) return [{ path, code: 'invalid_operator', reason: operator, filter }]
  if (!PATTERN_OPERATORS.includes(filter['operator'])) return []
  const reason = patternFaultReason(filter['value'], 'unicode')
  return reason === null ? [] : [{ path, code: 'invalid_value', reason, filter }]
}

function operatorsOf(type: unknown): readonly string[] {
  if (type === 'cohort') return COHORT_OPERATORS
  return type === 'flag' ? [DEPENDENCY_OPERATOR] : FLAG_OPERATORS
}

/** The objects of a list with their places. */
function itemsOf(list: unknown): readonly (readonly [index: number, item: JsonObject])[] {
  if (!Array.isArray(list)) return []
  return list.flatMap((item: unknown, index) => (isObject(item) ? [[index, item] as const] : []))
}
