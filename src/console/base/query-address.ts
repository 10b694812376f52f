/**
 * Converts between a query and the URL parameters that describe it on the page "Explore". `toQuery` reads the
 * parameters, and `toAddress` writes them, so that `toQuery` returns the same query again. If the parameters cannot
 * express a query, the parameter `q` contains the whole query.
 */

import {
  compareFilterOf,
  comparisonOf,
  customDays,
  daysText,
  RANGES,
  rangeOf,
  intervalOf as usualInterval,
} from './days.ts'

type Json = Readonly<Record<string, unknown>>

/** A query in the form that the daemon accepts. */
export type Question = { readonly kind: string } & Json

/**
 * An event of a query: a series, a step of a funnel, or an event of a retention. If `event` is null, it stands for all
 * events.
 */
export interface SeriesChoice {
  readonly event: string | null
  /** The number of an action that is counted instead of an event. */
  readonly action?: number
  /** The name that the author of the query gave to the series. */
  readonly name?: string
  readonly math?: string
  readonly property?: string
  readonly filters?: readonly SavedFilter[]
}

/** A filter of a series. Members that the page "Explore" does not know are kept. */
interface SavedFilter {
  readonly key: string
  readonly operator: string
  readonly type: 'event' | 'person' | 'group' | 'cohort' | 'session'
  readonly value?: unknown
}

/**
 * An event that removes a person from a funnel if it happens between the steps `from` and `to`. Steps are counted from
 * 0.
 */
export interface ExclusionChoice extends SeriesChoice {
  readonly from: number
  readonly to: number
}

/** For each value of the URL parameter `way`, the kind of the query. */
export const KINDS = {
  trends: 'TrendsQuery',
  funnel: 'FunnelsQuery',
  retention: 'RetentionQuery',
  paths: 'PathsQuery',
  lifecycle: 'LifecycleQuery',
  stickiness: 'StickinessQuery',
} as const

/** A value of the URL parameter `way`. */
export type Way = keyof typeof KINDS

/** The values that the page "Explore" uses for URL parameters that are absent. */
export const DEFAULTS = {
  range: '7d',
  /** The range that the daemon uses for a query without a range: the last seven days and today. */
  daemonRange: '8d',
  window: '14',
  unit: 'day',
  period: 'Week',
  periods: '8',
  steps: '4',
  edges: '40',
  top: '8',
  items: '$pageview',
} as const

/**
 * Events that an SDK sends for its own purposes. They say nothing about what a person did, so they are left out of
 * paths that are made of all events.
 */
const TECHNICAL_EVENTS: readonly string[] = [
  '$feature_flag_called',
  '$identify',
  '$create_alias',
  '$merge_dangerously',
  '$groupidentify',
  '$set',
  '$unset',
  '$pageleave',
  '$web_vitals',
  '$opt_in',
]

/** The kinds of nodes that wrap a query and only say how its answer is shown. */
const FRAMES: readonly unknown[] = ['InsightVizNode', 'DataTableNode', 'DataVisualizationNode']

/** Returns the kind of query that a URL describes. */
export function wayOf(address: URLSearchParams): Way {
  const given = address.get('way') ?? ''
  return Object.hasOwn(KINDS, given) ? (given as Way) : 'trends'
}

/** Returns the query inside nodes that only say how its answer is shown, or null if there is none. */
export function innerQuery(saved: unknown): Question | null {
  let query: unknown = saved
  while (isObject(query) && FRAMES.includes(query['kind'])) query = query['source']
  return isObject(query) && typeof query['kind'] === 'string' ? (query as Question) : null
}

/** Returns true if the URL contains a whole query, because its parameters cannot express it. */
export function isKeptWhole(address: URLSearchParams): boolean {
  return address.has('q')
}

/**
 * Returns the query that the parameters of a URL describe. Invalid parameters are ignored. `today` is the current day
 * of the project, on which the interval depends if the URL contains none.
 */
export function toQuery(address: URLSearchParams, today: string): Question {
  const whole = address.get('q')
  const kept = whole === null ? null : innerQuery(parsed(decoded(whole)))
  if (kept !== null) return kept
  const way = wayOf(address)
  const range = way === 'retention' ? address.get('span') : rangeIn(address)
  const interval = hasInterval(way, address) ? intervalOf(address, today) : 'day'
  return {
    kind: KINDS[way],
    ...READERS[way](address, interval),
    ...(range !== null && { dateRange: rangeOf(range).dates }),
    properties: filtersOf(address),
    ...(address.get('internal') === 'hide' && { filterTestAccounts: true }),
  }
}

/**
 * Returns the URL parameters that describe a query. `toQuery` converts them back to the query, except for members that
 * have default values.
 */
export function toAddress(query: Question): URLSearchParams {
  const address = closestAddress(query)
  // `toQuery` needs the current day only for parameters that are absent. `closestAddress` has set all parameters whose
  // defaults depend on the day, so an empty text is passed.
  if (isSame(toQuery(address, ''), query)) return address
  return new URLSearchParams({
    way: address.get('way') ?? 'trends',
    q: encoded(JSON.stringify(query)),
  })
}

/** Returns the URL parameters that describe a query best. Options that the parameters cannot express are left out. */
export function closestAddress(query: Question): URLSearchParams {
  const way = (Object.keys(KINDS) as Way[]).find((one) => KINDS[one] === query.kind) ?? 'trends'
  const address = new URLSearchParams({ way })
  const set = (name: string, value: unknown, absent?: unknown) => {
    if (value === undefined || value === null || value === '' || value === absent) return
    address.set(name, String(value))
  }
  WRITERS[way](query, set, address)
  const range = writeRange(query['dateRange'])
  if (way === 'retention') set('span', range)
  else set('range', range ?? DEFAULTS.daemonRange, DEFAULTS.range)
  for (const filter of flatFilters(query['properties']))
    address.append('filter', JSON.stringify(filter))
  if (query['filterTestAccounts'] === true) address.set('internal', 'hide')
  return address
}

/** Returns true if two queries have the same meaning. One may contain default values that the other leaves out. */
export function isSame(one: Question, other: Question): boolean {
  return JSON.stringify(plainest(one)) === JSON.stringify(plainest(other))
}

/** Returns true for a query whose answer has a point for each interval. */
export function hasInterval(way: Way, address: URLSearchParams): boolean {
  if (way === 'funnel') return address.get('show') === 'trends'
  return way === 'trends' || way === 'lifecycle' || way === 'stickiness'
}

/**
 * Returns the interval between two points of the chart. If the URL contains none, the chart gets a few dozen points.
 */
export function intervalOf(address: URLSearchParams, today: string): string {
  return address.get('interval') ?? usualInterval(rangeOf(rangeIn(address)), today)
}

function rangeIn(address: URLSearchParams): string {
  return address.get('range') ?? DEFAULTS.range
}

/**
 * Returns the series in a URL. If there are too few, series of pageviews are added: a funnel has at least two series,
 * and any other query at least one.
 */
export function seriesOfAddress(address: URLSearchParams): readonly SeriesChoice[] {
  const given = listIn<SeriesChoice>(address, 'series')
  const least = wayOf(address) === 'funnel' ? 2 : 1
  const missing = Array.from({ length: Math.max(0, least - given.length) }, () => ({
    event: '$pageview',
  }))
  return [...given, ...missing]
}

/** Returns the exclusions of a funnel that a URL contains. */
export function exclusionsOf(address: URLSearchParams): readonly ExclusionChoice[] {
  return listIn<ExclusionChoice>(address, 'exclude')
}

/**
 * A property by whose values the numbers are broken down. If `type` is `cohort`, `key` contains the numbers of cohorts,
 * separated by commas.
 */
interface BreakdownChoice {
  readonly type: string
  readonly key: string
}

/** Returns the breakdown properties that a URL contains, such as `by=person:plan`. */
export function breakdownsOf(address: URLSearchParams): readonly BreakdownChoice[] {
  return address.getAll('by').flatMap((words) => {
    const [, type = '', key = ''] = /^(\w+):(.+)$/s.exec(words) ?? []
    return key === '' ? [] : [{ type, key }]
  })
}

/** Returns the events that paths leave out. */
export function leftOutOf(address: URLSearchParams): readonly string[] {
  const given = address.getAll('without')
  return given.length === 0 && address.get('items') === 'all' ? TECHNICAL_EVENTS : given
}

type Reader = (address: URLSearchParams, interval: string) => Json
type Writer = (
  query: Question,
  set: (name: string, value: unknown, absent?: unknown) => void,
  address: URLSearchParams,
) => void

const READERS: Readonly<Record<Way, Reader>> = {
  trends(address, interval) {
    const display = address.get('display')
    const formula = address.get('formula') ?? ''
    const smoothing = numberIn(address, 'smoothing')
    return {
      series: seriesOfAddress(address).map(nodeOf),
      interval,
      ...breakdownIn(address),
      trendsFilter: {
        ...(display !== null && { display }),
        ...(formula !== '' && { formula }),
        ...(smoothing !== null && { smoothingIntervals: smoothing }),
      },
      ...comparisonIn(address),
    }
  },
  funnel(address, interval) {
    const show = address.get('show')
    const attribution = address.get('attribution')
    const exclusions = exclusionsOf(address)
    const [from, to, step] = ['from', 'to', 'attributed'].map((name) => numberIn(address, name))
    return {
      series: seriesOfAddress(address).map(personsNode),
      ...(hasInterval('funnel', address) && { interval }),
      ...breakdownIn(address),
      funnelsFilter: {
        ...(show !== null && { funnelVizType: show }),
        funnelOrderType: address.get('order') ?? 'ordered',
        funnelWindowInterval: numberIn(address, 'window') ?? Number(DEFAULTS.window),
        funnelWindowIntervalUnit: address.get('unit') ?? DEFAULTS.unit,
        ...(exclusions.length > 0 && { exclusions: exclusions.map(exclusionNode) }),
        ...(attribution !== null && { breakdownAttributionType: attribution }),
        ...(step != null && { breakdownAttributionValue: step }),
        ...(from != null && { funnelFromStep: from }),
        ...(to != null && { funnelToStep: to }),
      },
    }
  },
  retention(address) {
    const [target, returning = target] = seriesOfAddress(address)
    return {
      retentionFilter: {
        period: address.get('period') ?? DEFAULTS.period,
        totalIntervals: numberIn(address, 'periods') ?? Number(DEFAULTS.periods),
        targetEntity: entityOf(target),
        returningEntity: entityOf(returning),
        retentionType: address.get('first') ?? 'retention_recurring',
        ...(address.get('cumulative') === '1' && { cumulative: true }),
      },
    }
  },
  paths(address) {
    const items = address.get('items') ?? DEFAULTS.items
    const without = leftOutOf(address)
    const [start, end] = [address.get('start') ?? '', address.get('end') ?? '']
    return {
      pathsFilter: {
        ...(items !== 'all' && items !== 'everything' && { includeEventTypes: [items] }),
        ...(without.length > 0 && { excludeEvents: without }),
        ...(start !== '' && { startPoint: start }),
        ...(end !== '' && { endPoint: end }),
        stepLimit: numberIn(address, 'steps') ?? Number(DEFAULTS.steps),
        edgeLimit: numberIn(address, 'edges') ?? Number(DEFAULTS.edges),
      },
    }
  },
  lifecycle: (address, interval) => ({
    series: seriesOfAddress(address).slice(0, 1).map(personsNode),
    interval,
  }),
  stickiness: (address, interval) => ({
    series: seriesOfAddress(address).map(personsNode),
    interval,
    ...(address.get('cumulative') === '1' && { stickinessFilter: { computedAs: 'cumulative' } }),
    ...comparisonIn(address),
  }),
}

const WRITERS: Readonly<Record<Way, Writer>> = {
  trends(query, set, address) {
    writeSeries(query, address)
    set('interval', query['interval'] ?? 'day')
    writeBreakdown(query, set, address)
    const { display, formula, smoothingIntervals } = objectIn(query, 'trendsFilter')
    set('display', display, 'ActionsLineGraph')
    set('formula', formula)
    set('smoothing', smoothingIntervals, 1)
    writeComparison(query, set)
  },
  funnel(query, set, address) {
    writeSeries(query, address)
    writeBreakdown(query, set, address)
    const filter = objectIn(query, 'funnelsFilter')
    set('show', filter['funnelVizType'], 'steps')
    if (filter['funnelVizType'] === 'trends') set('interval', query['interval'] ?? 'day')
    set('order', filter['funnelOrderType'], 'ordered')
    set('window', filter['funnelWindowInterval'], Number(DEFAULTS.window))
    set('unit', filter['funnelWindowIntervalUnit'], DEFAULTS.unit)
    set('attribution', filter['breakdownAttributionType'], 'first_touch')
    set('attributed', filter['breakdownAttributionValue'])
    set('from', filter['funnelFromStep'])
    set('to', filter['funnelToStep'])
    for (const node of objectsIn(filter['exclusions'])) {
      const { funnelFromStep: from, funnelToStep: to } = node
      address.append('exclude', JSON.stringify({ ...choiceOf(node), from, to }))
    }
  },
  retention(query, set, address) {
    const filter = objectIn(query, 'retentionFilter')
    const {
      period = 'Day',
      totalIntervals,
      targetEntity,
      returningEntity,
      retentionType,
      cumulative,
    } = filter
    const [target, returning] = [targetEntity, returningEntity].map(choiceOfEntity)
    for (const one of [target, returning]) address.append('series', JSON.stringify(one))
    set('period', period, DEFAULTS.period)
    set('periods', totalIntervals, Number(DEFAULTS.periods))
    set('first', retentionType, 'retention_recurring')
    if (cumulative === true) set('cumulative', '1')
  },
  paths(query, set, address) {
    const filter = objectIn(query, 'pathsFilter')
    const {
      includeEventTypes,
      excludeEvents,
      startPoint,
      endPoint,
      stepLimit = 5,
      edgeLimit = 50,
    } = filter
    const items = textsIn(includeEventTypes)
    const without = textsIn(excludeEvents)
    const isUsual = JSON.stringify(without) === JSON.stringify(TECHNICAL_EVENTS)
    set('items', items[0] ?? (isUsual ? 'all' : 'everything'), DEFAULTS.items)
    if (items.length > 0 || !isUsual) for (const one of without) address.append('without', one)
    set('start', startPoint)
    set('end', endPoint)
    set('steps', stepLimit, Number(DEFAULTS.steps))
    set('edges', edgeLimit, Number(DEFAULTS.edges))
  },
  lifecycle(query, set, address) {
    writeSeries(query, address)
    set('interval', query['interval'] ?? 'day')
  },
  stickiness(query, set, address) {
    writeSeries(query, address)
    set('interval', query['interval'] ?? 'day')
    if (objectIn(query, 'stickinessFilter')['computedAs'] === 'cumulative') set('cumulative', '1')
    writeComparison(query, set)
  },
}

function nodeOf({ event, action, name, math, property, filters = [] }: SeriesChoice): Json {
  return {
    kind: action === undefined ? 'EventsNode' : 'ActionsNode',
    ...(action === undefined ? { event } : { id: action }),
    ...(name !== undefined && { custom_name: name }),
    ...(math !== undefined && { math }),
    ...(property !== undefined && { math_property: property }),
    ...(filters.length > 0 && { properties: filters }),
  }
}

/**
 * Returns the node of a series for a query of a kind that always counts persons. The way of counting is left out: the
 * URL may still contain one that the reader chose for another kind of query.
 */
function personsNode({ math: _, property: __, ...choice }: SeriesChoice): Json {
  return nodeOf(choice)
}

function choiceOf(node: Json): SeriesChoice {
  const { kind, event, id, custom_name: name, math, math_property: property, properties } = node
  const filters = flatFilters(properties)
  return {
    event: typeof event === 'string' ? event : null,
    ...(kind === 'ActionsNode' && { action: Number(id) }),
    ...(typeof name === 'string' && { name }),
    ...(typeof math === 'string' && math !== 'total' && { math }),
    ...(typeof property === 'string' && { property }),
    ...(filters.length > 0 && { filters }),
  }
}

function exclusionNode({ from, to, ...choice }: ExclusionChoice): Json {
  return { ...nodeOf(choice), funnelFromStep: from, funnelToStep: to }
}

function entityOf({ event, action, filters = [] }: SeriesChoice = { event: '$pageview' }): Json {
  return {
    id: action ?? event,
    type: action === undefined ? 'events' : 'actions',
    ...(filters.length > 0 && { properties: filters }),
  }
}

function choiceOfEntity(entity: unknown): SeriesChoice {
  if (!isObject(entity)) return { event: '$pageview' }
  const { id, type, properties } = entity
  const filters = flatFilters(properties)
  const more = filters.length > 0 ? { filters } : {}
  if (type === 'actions') return { event: null, action: Number(id), ...more }
  return { event: typeof id === 'string' ? id : null, ...more }
}

function writeSeries(query: Question, address: URLSearchParams): void {
  for (const node of objectsIn(query['series']))
    address.append('series', JSON.stringify(choiceOf(node)))
}

function breakdownIn(address: URLSearchParams): Json {
  const chosen = breakdownsOf(address)
  const [first] = chosen
  if (first === undefined) return {}
  const limit = { breakdown_limit: numberIn(address, 'top') ?? Number(DEFAULTS.top) }
  if (chosen.length > 1) {
    const breakdowns = chosen.map(({ type, key }) => ({ property: key, type }))
    return { breakdownFilter: { breakdowns, ...limit } }
  }
  const { type, key } = first
  const cohorts = key.split(',').map((one) => (one === 'all' ? one : Number(one)))
  return {
    breakdownFilter: {
      breakdown: type === 'cohort' ? cohorts : key,
      breakdown_type: type,
      ...limit,
    },
  }
}

function writeBreakdown(
  query: Question,
  set: Parameters<Writer>[1],
  address: URLSearchParams,
): void {
  const {
    breakdown,
    breakdown_type: type = 'event',
    breakdowns,
    breakdown_limit: limit = 25,
  } = objectIn(query, 'breakdownFilter')
  const several = objectsIn(breakdowns).map(
    ({ property, type: of = 'event' }) => `${String(of)}:${String(property)}`,
  )
  const keys = Array.isArray(breakdown) ? breakdown.join(',') : breakdown
  const one =
    keys === undefined || keys === null || keys === '' ? [] : [`${String(type)}:${String(keys)}`]
  const all = several.length > 0 ? several : one
  for (const words of all) address.append('by', words)
  if (all.length > 0) set('top', limit, Number(DEFAULTS.top))
}

/** Returns the members of a query that compare it with the previous period or the previous year. */
function comparisonIn(address: URLSearchParams): Json {
  const filter = compareFilterOf(rangeOf(rangeIn(address)), comparisonOf(address.get('compare')))
  return filter === null ? {} : { compareFilter: filter }
}

function writeComparison(query: Question, set: Parameters<Writer>[1]): void {
  if (objectIn(query, 'compareFilter')['compare'] !== true) return
  const range = rangeOf(writeRange(query['dateRange']) ?? DEFAULTS.daemonRange)
  const wanted = JSON.stringify(sorted(query['compareFilter']))
  const isWanted = (value: string) =>
    JSON.stringify(sorted(compareFilterOf(range, comparisonOf(value)))) === wanted
  set('compare', ['1', 'year'].find(isWanted))
}

/** Returns the value in the URL that stands for a date range, or null if no value does. */
function writeRange(range: unknown): string | null {
  if (!isObject(range)) return null
  const wanted = JSON.stringify(plainRange(range, ''))
  const { date_from: from, date_to: to } = range
  const [, count, unit = ''] = /^-(\d+)([hdwq])$/.exec(String(from)) ?? []
  const values = [
    ...RANGES.map(({ value }) => value),
    `${Number(count) * (UNIT_DAYS[unit] ?? 1) + 1}${unit === 'h' ? 'h' : 'd'}`,
    `${String(from)}..${String(to).slice(0, 10)}`,
  ]
  const isWanted = (value: string) => {
    const found = rangeOf(value)
    return found.value === value && JSON.stringify(plainRange({ ...found.dates }, '')) === wanted
  }
  return values.find(isWanted) ?? null
}

/** For the units of a date range that are always equally long, the number of days. */
const UNIT_DAYS: Readonly<Record<string, number>> = { w: 7, q: 91 }

/**
 * Returns a date range in a normal form, so that ranges with the same meaning become equal. Weeks and quarters become
 * days. A last day without a time becomes the last moment of this day. If the interval is an hour or a minute, such a
 * day stays unchanged, because there it stands for the midnight at which it begins.
 */
function plainRange({ date_from: from, date_to: to, ...more }: Json, interval: unknown): Json {
  const [, count, unit = ''] = /^-(\d+)([wq])$/.exec(String(from)) ?? []
  const first = count === undefined ? from : `-${Number(count) * (UNIT_DAYS[unit] ?? 1)}d`
  const isDay = typeof to === 'string' && customDays(`${to}..${to}`) !== null
  const last = isDay && interval !== 'hour' && interval !== 'minute' ? `${to}T23:59:59.999` : to
  return sorted({ ...more, date_from: first, date_to: last }) as Json
}

/** Returns the filters that a URL contains as JSON in its parameters `filter`. */
function filtersOf(address: URLSearchParams): readonly Json[] {
  return listIn<Json>(address, 'filter').filter(({ key }) => typeof key === 'string')
}

/**
 * Returns the filters as a list if all of them must match. A group of alternatives stays a group in this list. The URL
 * parameters cannot express such a group, so the URL then contains the whole query.
 */
function flatFilters(properties: unknown): readonly SavedFilter[] {
  if (Array.isArray(properties)) return properties.flatMap(flatFilters)
  if (!isObject(properties)) return []
  const { type, values } = properties
  return type === 'AND' && Array.isArray(values)
    ? values.flatMap(flatFilters)
    : [properties as unknown as SavedFilter]
}

function listIn<Item>(address: URLSearchParams, name: string): readonly Item[] {
  return address.getAll(name).flatMap((words) => {
    const value = parsed(words)
    return isObject(value) ? [value as Item] : []
  })
}

function numberIn(address: URLSearchParams, name: string): number | null {
  const words = address.get(name) ?? ''
  const value = Number(words)
  return words === '' || !Number.isFinite(value) ? null : value
}

function objectIn(query: Json, name: string): Json {
  const value = query[name]
  return isObject(value) ? value : {}
}

function objectsIn(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

function textsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(String) : []
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parsed(words: string): unknown {
  try {
    return JSON.parse(words)
  } catch {
    return null
  }
}

/** Returns the UTF-8 bytes of a text as base64url. */
function encoded(words: string): string {
  const bytes = new TextEncoder().encode(words)
  const characters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')
  return btoa(characters).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}

function decoded(words: string): string {
  try {
    const characters = atob(words.replaceAll('-', '+').replaceAll('_', '/'))
    return new TextDecoder().decode(Uint8Array.from(characters, (one) => one.charCodeAt(0)))
  } catch {
    return ''
  }
}

/**
 * The default values of the daemon, for each member of a query that contains options. Source:
 * docs/compatibility/queries.md, "Kinds".
 */
const USUAL: Readonly<Record<string, Json>> = {
  trendsFilter: { display: 'ActionsLineGraph', smoothingIntervals: 1, formula: '' },
  compareFilter: { compare: false },
  funnelsFilter: {
    funnelVizType: 'steps',
    funnelOrderType: 'ordered',
    funnelWindowInterval: 14,
    funnelWindowIntervalUnit: 'day',
    breakdownAttributionType: 'first_touch',
  },
  retentionFilter: {
    period: 'Day',
    totalIntervals: 8,
    retentionType: 'retention_recurring',
    cumulative: false,
  },
  pathsFilter: { stepLimit: 5, edgeLimit: 50 },
  breakdownFilter: { breakdown_type: 'event', breakdown_limit: 25 },
  dateRange: { explicitDate: false },
}
const USUAL_NODE: Json = { kind: 'EventsNode', math: 'total' }
const USUAL_ENTITY: Json = { id: '$pageview', type: 'events' }
const KINDS_WITH_INTERVAL: readonly string[] = [
  KINDS.trends,
  KINDS.funnel,
  KINDS.lifecycle,
  KINDS.stickiness,
]

/** Returns a query without the members that have default values. The other members are in alphabetical order. */
function plainest({ persons_urls: _, ...query }: Question): unknown {
  const result: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(query)) {
    const usual = USUAL[name]
    if (name === 'properties') result[name] = flatFilters(value)
    else if (name === 'series') result[name] = objectsIn(value).map(plainNode)
    else if (usual !== undefined && isObject(value)) result[name] = plainMembers(value, usual)
    else result[name] = value
  }
  if (query['interval'] === 'day' && KINDS_WITH_INTERVAL.includes(query.kind))
    delete result['interval']
  if (query['filterTestAccounts'] === false) delete result['filterTestAccounts']
  const range = result['dateRange']
  if (isObject(range)) result['dateRange'] = plainRange(range, query['interval'])
  // Without a range, a query covers the last seven days and today. A retention is the exception: it covers as many
  // periods as it shows.
  if (query.kind !== KINDS.retention && isEmpty(sorted(range)))
    result['dateRange'] = { date_from: '-7d' }
  return sorted(result)
}

function plainMembers(value: Json, usual: Json): Json {
  const result: Record<string, unknown> = { ...value }
  for (const [name, one] of Object.entries(usual)) if (result[name] === one) delete result[name]
  for (const name of ['targetEntity', 'returningEntity']) {
    const entity = result[name]
    if (isObject(entity)) result[name] = plainNode(plainMembers(entity, USUAL_ENTITY))
  }
  const { breakdowns, exclusions } = result
  if (Array.isArray(exclusions)) result['exclusions'] = objectsIn(exclusions).map(plainNode)
  const [only, ...others] = objectsIn(breakdowns)
  if (
    only !== undefined &&
    others.length === 0 &&
    Object.keys(only).every((name) => name === 'property' || name === 'type')
  ) {
    delete result['breakdowns']
    result['breakdown'] = only['property']
    if ((only['type'] ?? 'event') !== 'event') result['breakdown_type'] = only['type']
  }
  return result
}

function plainNode(node: Json): Json {
  const plain: Record<string, unknown> = plainMembers(node, USUAL_NODE)
  if ('properties' in plain) plain['properties'] = flatFilters(plain['properties'])
  return plain
}

/**
 * Returns a value without its empty members. The other members are put in alphabetical order. A member `id` that is
 * null is kept, because it stands for all events.
 */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isObject(value)) return value
  const members = Object.entries(value).map(([name, one]) => [name, sorted(one)] as const)
  return Object.fromEntries(
    members
      .filter(([name, one]) => !isEmpty(one) || (name === 'id' && one === null))
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true
  return typeof value === 'object' && Object.keys(value).length === 0
}

/** The filters of a dashboard. They apply to every query on it. */
export interface DashboardFilters {
  readonly date_from?: string | null
  readonly date_to?: string | null
  readonly properties?: readonly SavedFilter[] | null
}

/**
 * Returns a query as it is run on a dashboard. The range of the dashboard replaces the range of the query, and the
 * filters of the dashboard are added to its own filters. Source: docs/compatibility/saved.md, "Results and filters of a
 * dashboard".
 */
export function onDashboard(query: Question, filters: DashboardFilters): Question {
  const { date_from: from, date_to: to, properties } = filters
  const range = { ...objectIn(query, 'dateRange'), date_from: from ?? null, date_to: to ?? null }
  return {
    ...query,
    ...((from || to) && { dateRange: range }),
    ...(properties &&
      properties.length > 0 && { properties: withFilters(query['properties'], properties) }),
  }
}

function withFilters(own: unknown, more: readonly SavedFilter[]): unknown {
  if (!isObject(own)) return [...(Array.isArray(own) ? (own as readonly unknown[]) : []), ...more]
  return { type: 'AND', values: [own, { type: 'AND', values: more }] }
}

/** Returns the date range of a query in words. Returns null if it has none, or one for which there are no words. */
export function rangeWords(query: Question): string | null {
  const value = writeRange(query['dateRange'])
  const isUsual =
    isEmpty(sorted(query['dateRange'])) && Object.values<string>(KINDS).includes(query.kind)
  // A retention without a range covers as many periods as it shows, so there are no words for it.
  if (value === null)
    return isUsual && query.kind !== KINDS.retention ? rangeOf(DEFAULTS.daemonRange).label : null
  const days = customDays(value)
  return days === null ? rangeOf(value).label : daysText(days)
}

/** Returns the date range meant by a value in the URL, in the form in which dashboards store it. */
export function datesOf(value: string): Pick<DashboardFilters, 'date_from' | 'date_to'> {
  const { date_from, date_to } = rangeOf(value).dates
  return { date_from, date_to: date_to ?? null }
}
