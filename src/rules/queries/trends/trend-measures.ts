/**
 * The measures of a series: what `math` computes for each bucket. Source: docs/compatibility/queries.md, "TrendsQuery".
 */
import type { ValueRequest } from '../../analytics/event-columns.ts'
import type { Interval } from '../../analytics/periods.ts'
import type { QueryFields } from '../query-fields.ts'

/** The way in which many numbers become one. A number from 0 to 1 is a quantile, for example 0.5 for the median. */
export type Reducer = 'count' | 'sum' | 'avg' | 'min' | 'max' | number

/** What is measured in each bucket of a series. */
export type Measure =
  | { readonly of: 'events' }
  /**
   * Counts the first event of each person. If `isByName` is true, this is the first event with the name of the series,
   * and the event counts only if it passes all filters. Otherwise it is the first event that passes all filters.
   */
  | { readonly of: 'first_events'; readonly isByName: boolean }
  /** Computes one number from the numbers of a property, each multiplied by `factor`. */
  | {
      readonly of: 'numbers'
      readonly value: ValueRequest
      readonly factor: number
      readonly reduce: Reducer
    }
  /**
   * Counts different persons (`actor` is null), groups or sessions. If `activeDays` is a number, an actor counts in a
   * bucket if it had an event within this number of days up to the bucket. If `activeDays` is null, an actor counts
   * only in the buckets in which it had events.
   */
  | {
      readonly of: 'actors'
      readonly actor: ValueRequest | null
      readonly activeDays: number | null
    }
  /** Counts the events of each person, and computes one number from these counts. */
  | { readonly of: 'counts'; readonly reduce: Reducer }

const PROPERTY_REDUCERS: ReadonlyMap<string, Reducer> = new Map<string, Reducer>([
  ['sum', 'sum'],
  ['avg', 'avg'],
  ['min', 'min'],
  ['max', 'max'],
  ['median', 0.5],
  ['p75', 0.75],
  ['p90', 0.9],
  ['p95', 0.95],
  ['p99', 0.99],
])
const COUNT_SUFFIX = '_count_per_actor'
const PLAIN_NAMES: readonly string[] = [
  'total',
  'dau',
  'weekly_active',
  'monthly_active',
  'unique_session',
  'unique_group',
  'first_time_for_user',
  'first_matching_event_for_user',
]

/**
 * Reads the measure of a series. `interval` is the interval of the buckets. Null means that there is one number for the
 * whole range. Throws 400 `invalid_query`.
 */
export function readMeasure(node: QueryFields, interval: Interval | null): Measure {
  node.refuse('math_hogql', 'math_property_revenue_currency')
  const math = node.text('math') ?? 'total'
  const reduce = PROPERTY_REDUCERS.get(math)
  if (reduce !== undefined) return numbersOf(node, math, reduce)
  if (math.endsWith(COUNT_SUFFIX)) {
    const counted = PROPERTY_REDUCERS.get(math.slice(0, -COUNT_SUFFIX.length))
    if (counted !== undefined && counted !== 'sum') return { of: 'counts', reduce: counted }
  }
  const typeIndex = node.whole('math_group_type_index', 0, 4)
  switch (math) {
    case 'total':
      return { of: 'events' }
    case 'dau':
      return actorsOf(typeIndex === null ? null : { kind: 'group_key', typeIndex })
    case 'unique_group':
      if (typeIndex !== null) return actorsOf({ kind: 'group_key', typeIndex })
      throw node.fault('math_group_type_index', 'is missing. Send the number of the group type')
    case 'unique_session':
      return actorsOf({ kind: 'event_property', key: '$session_id' })
    case 'weekly_active':
      return actorsOf(null, interval === 'week' || interval === 'month' ? null : 7)
    case 'monthly_active':
      return actorsOf(null, interval === 'month' ? null : 30)
    case 'first_time_for_user':
    case 'first_matching_event_for_user':
      return { of: 'first_events', isByName: math === 'first_time_for_user' }
    default: {
      const names = [...PLAIN_NAMES, ...PROPERTY_REDUCERS.keys()].join(', ')
      throw node.fault('math', `must be one of ${names}, or a form such as avg${COUNT_SUFFIX}`)
    }
  }
}

/** Returns the function that reduces the numbers of a measure. */
export function reducerOf(measure: Measure): Reducer {
  return 'reduce' in measure ? measure.reduce : 'count'
}

/** Returns which actors a measure distinguishes. Null means that it counts events regardless of actors. */
export function actorKindOf(measure: Measure): 'persons' | 'others' | null {
  if (measure.of === 'events' || measure.of === 'numbers') return null
  return measure.of === 'actors' && measure.actor !== null ? 'others' : 'persons'
}

function actorsOf(actor: ValueRequest | null, activeDays: number | null = null): Measure {
  return { of: 'actors', actor, activeDays }
}

function numbersOf(node: QueryFields, math: string, reduce: Reducer): Measure {
  const key = node.text('math_property') ?? ''
  if (key === '') {
    throw node.fault(
      'math_property',
      `is missing. Send the property that \`${math}\` is computed from`,
    )
  }
  if (key === '$session_duration') throw node.fault('math_property', 'is not supported')
  const type = node.choice('math_property_type', ['event_properties', 'person_properties'])
  const kind = type === 'event_properties' ? 'event_property' : 'person_property'
  const factor = node.number('math_multiplier') ?? 1
  return { of: 'numbers', value: { kind, key }, factor, reduce }
}
