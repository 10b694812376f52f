/**
 * The series of a chart: the events that they select, their math, and the series that a link refers to. Source:
 * docs/compatibility/analytics.md, "Analytic person routes".
 */

import { invalidInput, ServiceError } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { type FilterGroup, filtersOf } from '../filters/filter-group.ts'
import { readEventFilters } from '../filters/filter-tree.ts'
import { type ActionStepMatch, SERIES_MAX, type SeriesMatch } from './event-columns.ts'
import type { AnalyticParameters } from './question-shapes.ts'
import type { ParametersOf } from './questions.ts'

/**
 * Returns the steps of the action with this number, one of which must match. Returns null if the action does not exist.
 */
export type ActionLookup = (id: number) => readonly ActionStepMatch[] | null

/** The kind of a series: events of a name, or an action. */
export type SeriesType = 'events' | 'actions'

/** A series of a request. */
export interface Series {
  readonly type: SeriesType
  /** The name of the event, or the number of the action as text. Null means every event. */
  readonly id: string | null
  /** The position among the series of the request, from 0. */
  readonly index: number
  /** The math. It is `total` if the request contains none. */
  readonly math: string
  readonly mathProperty: string | null
  readonly mathGroupTypeIndex: number | null
  /** The filters of the series itself. */
  readonly filter: FilterGroup | null
  /** The series in the form that a scan of stored events takes. */
  readonly match: SeriesMatch
}

/**
 * Reads the series of `events` and `actions`, sorted by `order` and numbered. Throws 400 `invalid_input` with `events`
 * or `actions` as `attr` for a value that is not a list of at most `SERIES_MAX` series, for filters that are not a
 * tree, and for an action that does not exist.
 */
export function readSeries(
  { events, actions }: Pick<AnalyticParameters, 'events' | 'actions'>,
  lookup: ActionLookup,
): readonly Series[] {
  const items = [
    ...listOf(events, 'events').map((item) => ({ item, type: 'events' as const })),
    ...listOf(actions, 'actions').map((item) => ({ item, type: 'actions' as const })),
  ]
  if (items.length > SERIES_MAX)
    throw invalidInput('events', `may have at most ${SERIES_MAX} series`)
  return items
    .map(({ item, type }) => ({ item, type, order: orderOf(item) }))
    .sort((a, b) => a.order - b.order)
    .map(({ item, type }, index) => readSeriesItem(item, type, index, type, lookup))
}

/**
 * Reads one series, which is an object or only an `id`, such as the name of an event. `type` is the type of the series.
 * Throws 400 `invalid_input` with `attr`.
 */
function readSeriesItem(
  item: unknown,
  type: SeriesType,
  index: number,
  attr: string,
  lookup: ActionLookup,
): Series {
  if (typeof item === 'string') return bareSeries({ type, id: item, index }, attr, lookup)
  if (!isObject(item))
    throw invalidInput(attr, 'may contain objects only, each with the name of an event as `id`')
  const id = idOf(item, type, attr)
  const filter = readEventFilters(item['properties'], attr)
  return {
    type,
    id,
    index,
    math: textOf(item['math']) ?? 'total',
    mathProperty: textOf(item['math_property']),
    mathGroupTypeIndex: numberOf(item['math_group_type_index']),
    filter,
    match: matchOf(type, id, filter, attr, lookup),
  }
}

/**
 * Reads one series that contains its own type, such as `target_entity`. The default type is events. Throws 400
 * `invalid_input` with `attr`.
 */
export function readEntity(item: unknown, attr: string, lookup: ActionLookup): Series {
  if (!isObject(item))
    throw invalidInput(attr, 'must be an object with the name of an event as `id`')
  return readSeriesItem(item, seriesTypeOf(textOf(item['type']), `${attr}`), 0, attr, lookup)
}

/** Returns a series of one event without other conditions, or of every event if `id` is null. */
export function eventSeries(id: string | null): Series {
  return bareSeries({ type: 'events', id }, 'events', () => null)
}

/**
 * Returns the series that a link to one point of a chart refers to. Throws 400 `invalid_input` without `attr` if the
 * request names no series, 400 `required` if the property or the group type that the math of the series needs is
 * missing, and the same errors as `readSeries`.
 */
export function targetSeries(
  parameters: Pick<ParametersOf<'stickiness'>, 'events' | 'actions' | 'target'>,
  lookup: ActionLookup,
): Series {
  const { target } = parameters
  if (target.id === null && target.type !== 'events') {
    const detail =
      'The query needs a series. Name an event as `entity_id`, or send `entity_type=events`.'
    throw new ServiceError('invalid_input', detail)
  }
  const type = seriesTypeOf(target.type, 'entity_type')
  const math = target.math ?? 'total'
  const series = readSeries(parameters, lookup)
  const found =
    (target.order === null ? undefined : series[target.order]) ??
    series.find((one) => one.type === type && one.id === target.id && one.math === math) ??
    bareSeries({ ...target, type, math }, 'entity_id', lookup)
  checkMath(found)
  return found
}

/**
 * Returns whether a series includes all events of another series: it has the same event or action, and all its filters
 * are also filters of the other series. Two filters are the same if they have the same key and value. Source:
 * docs/compatibility/analytics.md, "Funnels and correlation".
 */
export function isEqualOrBroader(series: Series, other: Series): boolean {
  if (series.type !== other.type || series.id !== other.id) return false
  const known = new Set(filterTexts(other))
  return filterTexts(series).every((text) => known.has(text))
}

function filterTexts({ filter }: Series): readonly string[] {
  if (filter === null) return []
  return filtersOf(filter).map(({ key, value }) => JSON.stringify([key, value]))
}

/** The kinds of math that compute on the numbers of a property. */
export const PROPERTY_MATH: readonly string[] = [
  'sum',
  'avg',
  'min',
  'max',
  'median',
  'p75',
  'p90',
  'p95',
  'p99',
]

function checkMath({ math, mathProperty, mathGroupTypeIndex }: Series): void {
  if (PROPERTY_MATH.includes(math) && mathProperty === null) {
    throw required('math_property', `the name of the property that \`${math}\` is computed from`)
  }
  if (math === 'unique_group' && mathGroupTypeIndex === null) {
    throw required(
      'math_group_type_index',
      'the number of the group type that `unique_group` counts',
    )
  }
}

/** The members that a series has unless it says otherwise. */
const PLAIN = { index: 0, math: 'total', mathProperty: null, mathGroupTypeIndex: null } as const

type BareSeries = Pick<Series, 'type' | 'id'> & Partial<Series>

function bareSeries(bare: BareSeries, attr: string, lookup: ActionLookup): Series {
  const match = matchOf(bare.type, bare.id, null, attr, lookup)
  return { ...PLAIN, filter: null, ...bare, match }
}

function matchOf(
  type: SeriesType,
  id: string | null,
  filter: FilterGroup | null,
  attr: string,
  lookup: ActionLookup,
): SeriesMatch {
  if (type === 'events') return { names: id === null ? null : [id], filter, steps: [] }
  const steps = /^[1-9][0-9]{0,14}$/.test(id ?? '') ? lookup(Number(id)) : null
  if (steps === null) {
    throw invalidInput(
      attr,
      'refers to an action that does not exist. Take its number from the list of actions',
    )
  }
  // An action without steps matches no event, so its list of names is empty.
  return { names: steps.length === 0 ? [] : null, filter, steps }
}

function listOf(value: unknown, attr: SeriesType): readonly unknown[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw invalidInput(attr, 'must be a list of series')
  if (value.length > SERIES_MAX) throw invalidInput(attr, `may have at most ${SERIES_MAX} series`)
  return value as readonly unknown[]
}

/** Returns the `order` of a series. A series without a valid `order` has 0. */
function orderOf(item: unknown): number {
  return (isObject(item) ? numberOf(item['order']) : null) ?? 0
}

function idOf(
  item: Readonly<Record<string, unknown>>,
  type: SeriesType,
  attr: string,
): string | null {
  const id = item['id']
  if (typeof id === 'string' || typeof id === 'number') return String(id)
  if (type === 'events' && (id === undefined || id === null)) return null
  throw invalidInput(
    attr,
    'has a series with an invalid `id`. Send the name of an event, the number of an action, or null for all events',
  )
}

function seriesTypeOf(text: string | null, attr: string): SeriesType {
  if (text === null || text === 'events') return 'events'
  if (text === 'actions') return 'actions'
  throw invalidInput(attr, 'may be `events` or `actions` only')
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

function numberOf(value: unknown): number | null {
  if (typeof value === 'string' && /^[0-9]{1,9}$/.test(value)) return Number(value)
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

function required(name: string, meaning: string): ServiceError {
  return new ServiceError('required', `\`${name}\` is missing. Send ${meaning}.`, { attr: name })
}
