/**
 * Reads the breakdown of a query: the properties or cohorts by which it is split, and the texts that its values have in
 * answers. Source: docs/compatibility/queries.md, "Breakdowns".
 */
import type { ValueRequest } from '../analytics/event-columns.ts'
import { propertyText } from '../filters/property-text.ts'
import {
  QUERY_BINS_MAX,
  QUERY_BREAKDOWN_VALUES,
  QUERY_BREAKDOWN_VALUES_MAX,
  QUERY_BREAKDOWNS_MAX,
  QUERY_COHORTS_MAX,
} from './limits.ts'
import type { QueryFields } from './query-fields.ts'

/** The text that answers contain for a value that is missing, null or empty. */
export const NULL_LABEL = '$$_posthog_breakdown_null_$$'
/** The text that answers contain for all values beyond the limit. */
export const OTHER_LABEL = '$$_posthog_breakdown_other_$$'

const TYPES = ['event', 'person', 'group', 'cohort'] as const

/** One property of a breakdown. */
export interface BreakdownProperty {
  readonly value: ValueRequest
  readonly isUrlNormalized: boolean
  /** The number of bins for numbers. Null means that the values themselves are used. */
  readonly binCount: number | null
}

/** A breakdown by properties or by cohorts. One of the two lists is empty. */
export interface QueryBreakdown {
  readonly properties: readonly BreakdownProperty[]
  /** The numbers of the cohorts. `all` means everybody. */
  readonly cohorts: readonly (number | 'all')[]
  /** True if values are lists of texts, one for each property. */
  readonly isList: boolean
  /** The maximum number of different values. */
  readonly limit: number
  readonly isOtherHidden: boolean
}

/** Reads the member `breakdownFilter`. Returns null if there is no breakdown. Throws 400 `invalid_query`. */
export function readQueryBreakdown(query: QueryFields): QueryBreakdown | null {
  const fields = query.within('breakdownFilter')
  const limit = fields.whole('breakdown_limit', 1, QUERY_BREAKDOWN_VALUES_MAX)
  const rest = {
    limit: limit ?? QUERY_BREAKDOWN_VALUES,
    isOtherHidden: fields.boolean('breakdown_hide_other_aggregation'),
  }
  const items = fields.objects('breakdowns')
  if (items.length > QUERY_BREAKDOWNS_MAX) {
    throw fields.fault('breakdowns', `may have at most ${QUERY_BREAKDOWNS_MAX} breakdowns`)
  }
  if (items.length > 0) {
    const properties = items.map((item) => propertyOf(item, PLAIN_NAMES, item.value('property')))
    return { ...rest, properties, cohorts: [], isList: true }
  }
  const value = fields.value('breakdown')
  if (value === undefined || value === '' || (Array.isArray(value) && value.length === 0)) {
    return null
  }
  const given: readonly unknown[] = Array.isArray(value) ? value : [value]
  const type = fields.choice('breakdown_type', TYPES)
  if (type === 'cohort') {
    return { ...rest, properties: [], cohorts: cohortsOf(fields, given), isList: false }
  }
  if (given.length > QUERY_BREAKDOWNS_MAX) {
    throw fields.fault('breakdown', `may have at most ${QUERY_BREAKDOWNS_MAX} properties`)
  }
  const properties = given.map((name) => propertyOf(fields, LONG_NAMES, name))
  return { ...rest, properties, cohorts: [], isList: Array.isArray(value) }
}

/** Returns a value as breakdowns show it. Returns null if it is missing, null or empty. */
export function breakdownText(value: unknown, property?: BreakdownProperty): string | null {
  if (value === undefined || value === null || value === '') return null
  const text = propertyText(value)
  if (property?.isUrlNormalized !== true) return text
  return text.replace(/[/?#]+$/, '') || '/'
}

/**
 * The names of the members of a breakdown. The long names are used for the only breakdown of a query, the plain names
 * within the list `breakdowns`.
 */
const LONG_NAMES = {
  name: 'breakdown',
  type: 'breakdown_type',
  index: 'breakdown_group_type_index',
  normalize: 'breakdown_normalize_url',
  bins: 'breakdown_histogram_bin_count',
} as const
const PLAIN_NAMES = {
  name: 'property',
  type: 'type',
  index: 'group_type_index',
  normalize: 'normalize_url',
  bins: 'histogram_bin_count',
} as const

function propertyOf(
  fields: QueryFields,
  names: typeof LONG_NAMES | typeof PLAIN_NAMES,
  key: unknown,
): BreakdownProperty {
  if (typeof key !== 'string' || key === '') {
    throw fields.fault(names.name, 'must be the name of a property')
  }
  const type = fields.choice(names.type, ['event', 'person', 'group'])
  const typeIndex = fields.whole(names.index, 0, 4)
  if (type === 'group' && typeIndex === null) {
    throw fields.fault(names.index, 'is missing. Send the number of the group type')
  }
  return {
    value:
      type === 'group'
        ? { kind: 'group_property', typeIndex: typeIndex ?? 0, key }
        : { kind: `${type}_property`, key },
    isUrlNormalized: fields.boolean(names.normalize),
    binCount: fields.whole(names.bins, 1, QUERY_BINS_MAX),
  }
}

function cohortsOf(fields: QueryFields, given: readonly unknown[]): readonly (number | 'all')[] {
  if (given.length > QUERY_COHORTS_MAX) {
    throw fields.fault('breakdown', `may have at most ${QUERY_COHORTS_MAX} cohorts`)
  }
  return given.map((value) => {
    const id = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
    if (id === 'all') return id
    if (typeof id === 'number' && Number.isInteger(id) && id >= 0) return id === 0 ? 'all' : id
    throw fields.fault('breakdown', 'must contain numbers of cohorts, or `all`')
  })
}
