/**
 * Reads the filters of a query: a list or a tree of tests on events, persons, groups, cohorts and elements. An unknown
 * filter is rejected and never left out. Source: docs/compatibility/queries.md, "Filters".
 */
import { ServiceError } from '../../base/errors.ts'
import { given, isObject } from '../../base/json.ts'
import { ELEMENT_KEYS } from '../filters/element-filter.ts'
import {
  allOf,
  cohortIdOf,
  type FilterGroup,
  type PropertyFilter,
} from '../filters/filter-group.ts'
import { readStoredFilters } from '../filters/filter-tree.ts'
import { DATE_OPERATORS, LIST_OPERATORS } from '../filters/operator-names.ts'
import { numberOf, propertyTest } from '../filters/property-filter.ts'
import { propertyText } from '../filters/property-text.ts'
import { QUERY_FILTER_DEPTH_MAX, QUERY_FILTERS_MAX, QUERY_PATTERNS_MAX } from './limits.ts'
import { QueryFields } from './query-fields.ts'
import type { QueryContext } from './query-kind.ts'
import { readDate } from './query-range.ts'

type Node = FilterGroup | PropertyFilter

/** The members of an element that filters can only compare as a whole, not by a part of their text. */
const ELEMENT_KEYS_EXACT: readonly string[] = ['tag_name', 'selector']
/**
 * Operators that accept a list of values. A filter with an operator of `ANY_OF` holds if any value of the list matches,
 * and one with an operator of `NONE_OF` if none matches.
 */
const ANY_OF: readonly string[] = ['icontains', 'regex']
const NONE_OF: readonly string[] = ['not_icontains', 'not_regex']

/**
 * Returns the filter that all events of a query must pass: `properties` and, if `filterTestAccounts` is true, the
 * filters that exclude test accounts. Returns null if there is no restriction. Throws 400 `invalid_query`.
 */
export function readGlobalFilter(query: QueryFields, context: QueryContext): FilterGroup | null {
  const isWithoutTests = query.boolean('filterTestAccounts')
  return allOf([
    readFilters(query, 'properties', context),
    isWithoutTests ? readStoredFilters(context.testAccountFilters, 'test_account_filters') : null,
  ])
}

/** Reads the filters of one member. Returns null if there is no restriction. Throws 400 `invalid_query`. */
export function readFilters(
  fields: QueryFields,
  name: string,
  context: QueryContext,
): FilterGroup | null {
  const value = fields.value(name)
  if (value === undefined) return null
  return new FilterReader(context).tree(value, fields.pathOf(name))
}

/** Reads one filter or a list of filters. Returns null if there is no restriction. Throws 400 `invalid_query`. */
export function readFilter(fields: QueryFields, context: QueryContext): FilterGroup | null {
  return asGroup(new FilterReader(context).filter(fields))
}

class FilterReader {
  readonly #context: QueryContext
  #count = 0
  #patterns = 0

  constructor(context: QueryContext) {
    this.#context = context
  }

  tree(value: unknown, path: string): FilterGroup | null {
    if (Array.isArray(value)) return this.#group('AND', value, path, 1)
    if (isObject(value) && Array.isArray(value['values'])) {
      return asGroup(this.#node(value, path, 1))
    }
    if (isObject(value) && Object.keys(value).length === 0) return null
    throw new QueryFields({}).fault(path, 'must be a list of filters, or a tree of AND and OR')
  }

  /** Reads one filter. Returns null if it restricts nothing. */
  filter(fields: QueryFields): Node | null {
    if (++this.#count > QUERY_FILTERS_MAX) {
      throw fields.fault(
        'key',
        `is one filter too many. At most ${QUERY_FILTERS_MAX} filters are allowed`,
      )
    }
    switch (fields.text('type') ?? 'event') {
      case 'cohort':
      case 'static-cohort':
      case 'precalculated-cohort':
        return cohortFilter(fields)
      case 'event':
        return this.#propertyFilter(fields, { type: 'event' })
      case 'person':
        return this.#propertyFilter(fields, { type: 'person' })
      case 'group': {
        const group_type_index = fields.whole('group_type_index', 0, 4)
        if (group_type_index !== null) {
          return this.#propertyFilter(fields, { type: 'group', group_type_index })
        }
        throw fields.fault('group_type_index', 'is missing. Send the number of the group type')
      }
      case 'element':
        return this.#propertyFilter(fields, { type: 'element' })
      default:
        throw fields.fault('type', 'must be event, person, group, cohort or element')
    }
  }

  #node(value: unknown, path: string, depth: number): Node | null {
    if (!isObject(value))
      throw new QueryFields({}).fault(path, 'must be a filter, which is an object')
    const fields = new QueryFields(value, path)
    if (!Array.isArray(value['values'])) return this.filter(fields)
    const type = fields.choice('type', ['AND', 'OR'])
    return this.#group(type, value['values'], fields.pathOf('values'), depth)
  }

  #group(
    type: 'AND' | 'OR',
    items: readonly unknown[],
    path: string,
    depth: number,
  ): FilterGroup | null {
    if (depth > QUERY_FILTER_DEPTH_MAX) {
      const what = `is nested too deeply. Groups may be nested at most ${QUERY_FILTER_DEPTH_MAX} levels deep`
      throw new QueryFields({}).fault(path, what)
    }
    const nodes = items.map((item, index) => this.#node(item, `${path}.${index}`, depth + 1))
    // If one branch of an OR lets everything pass, the whole OR lets everything pass.
    if (type === 'OR' && nodes.includes(null)) return null
    const values = nodes.filter((node) => node !== null)
    return values.length === 0 ? null : { type, values }
  }

  #propertyFilter(
    fields: QueryFields,
    kind: Pick<PropertyFilter, 'type' | 'group_type_index'>,
  ): Node | null {
    const key = fields.text('key') ?? ''
    if (key === '') throw fields.fault('key', 'is missing. Send the name of a property')
    const given = fields.text('operator') ?? 'exact'
    const isNegated = fields.boolean('negation')
    const value = fields.value('value')
    const base = { ...kind, key, ...(isNegated ? { negation: true } : {}) }
    if (given === 'between' || given === 'not_between') return betweenFilter(fields, base, given)
    const operator = { in: 'exact', not_in: 'is_not' }[given] ?? given
    if (!LIST_OPERATORS.some((known) => known === operator)) {
      const known = [...LIST_OPERATORS, 'in', 'not_in', 'between', 'not_between'].join(', ')
      throw fields.fault('operator', `must be one of ${known}`)
    }
    checkElement(fields, base, operator)
    if (Array.isArray(value)) {
      if (value.length === 0) return null
      const isAny = ANY_OF.includes(operator)
      if (isAny || NONE_OF.includes(operator)) {
        // Each text or pattern of the list is a separate search, so each counts toward the limit.
        this.#patterns += value.length
        if (this.#patterns > QUERY_PATTERNS_MAX) {
          throw fields.fault(
            'value',
            `is too long. At most ${QUERY_PATTERNS_MAX} texts can be searched for`,
          )
        }
        const values = value.map((one: unknown) =>
          this.#built(fields, { ...base, operator, value: one }),
        )
        return { type: isAny === isNegated ? 'AND' : 'OR', values }
      }
    }
    return this.#built(fields, { ...base, operator, value: this.#dateOf(fields, operator, value) })
  }

  #built(fields: QueryFields, filter: PropertyFilter): PropertyFilter {
    if (propertyTest(filter) !== null) return filter
    throw fields.fault('value', `cannot be used with the operator ${filter.operator ?? 'exact'}`)
  }

  /**
   * Returns the value with which a filter compares. If a filter compares dates, a relative date such as `-7d` becomes
   * the moment that it means.
   */
  #dateOf(fields: QueryFields, operator: string, value: unknown): unknown {
    if (!DATE_OPERATORS.includes(operator) || typeof value !== 'string') return value
    const { timezone, nowMs } = this.#context
    const date = readDate(value, timezone, nowMs)
    if (date === null && Number.isNaN(Date.parse(value))) {
      throw fields.fault(
        'value',
        'must be a date such as 2026-01-31, or a relative one such as -7d',
      )
    }
    if (date === null || date.kind === 'absolute') return value
    return new Date(date.kind === 'hours' ? date.momentMs : date.exactMs).toISOString()
  }
}

function asGroup(node: Node | null): FilterGroup | null {
  if (node === null) return null
  return 'values' in node ? node : { type: 'AND', values: [node] }
}

function cohortFilter(fields: QueryFields): PropertyFilter {
  const operator = fields.choice('operator', ['in', 'not_in', 'exact', 'is_not'])
  const filter = { key: 'id', type: 'cohort', value: fields.value('value') }
  if (cohortIdOf(filter) === null) throw fields.fault('value', 'must be the number of a cohort')
  const isOutside = operator === 'not_in' || operator === 'is_not'
  return { ...filter, operator: isOutside === fields.boolean('negation') ? 'in' : 'not_in' }
}

/**
 * Returns a filter for numbers between two bounds, both inclusive. A property that is not a number passes neither
 * `between` nor `not_between`.
 */
function betweenFilter(
  fields: QueryFields,
  base: Omit<PropertyFilter, 'operator' | 'value'>,
  operator: 'between' | 'not_between',
): FilterGroup {
  const [min, max, ...more] = fields.list('value').map((one) => numberOf(propertyText(one)))
  if (min === undefined || max === undefined || more.length > 0 || !(min <= max)) {
    throw fields.fault('value', 'must be two numbers, the smaller one first')
  }
  const { negation = false, ...plain } = base
  const isWithin = (operator === 'between') !== negation
  return {
    type: isWithin ? 'AND' : 'OR',
    values: [
      { ...plain, operator: isWithin ? 'gte' : 'lt', value: min },
      { ...plain, operator: isWithin ? 'lte' : 'gt', value: max },
    ],
  }
}

function checkElement(fields: QueryFields, { type, key }: PropertyFilter, operator: string): void {
  if (type !== 'element') return
  if (!ELEMENT_KEYS.includes(key)) {
    throw fields.fault('key', `must be one of ${ELEMENT_KEYS.join(', ')} for elements`)
  }
  if (ELEMENT_KEYS_EXACT.includes(key) && operator !== 'exact' && operator !== 'is_not') {
    throw fields.fault('operator', `must be \`exact\` or \`is_not\` for ${key}`)
  }
}

/** Converts a 400 error that a rule of another module threw into the error of an invalid query. */
export function asInvalidQuery(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.status !== 400) return error
  if (error.code === 'query_too_large' || error.code === 'unsupported_kind') return error
  return new ServiceError('invalid_query', error.message, given({ attr: error.attr ?? undefined }))
}
