/** Converts between the URL of the page "Explore" and the query that it runs. */
import { computed } from '@preact/signals'
import {
  dateRange,
  filtersOfAddress,
  interval,
  isCompared,
  type Options,
  type Query,
  query,
  setQuery,
} from '../../kit.ts'

/** The kinds of queries as the URL has them, with their labels. */
export const WAYS = [
  ['trends', 'Trends'],
  ['funnel', 'Funnel'],
  ['retention', 'Retention'],
  ['paths', 'Paths'],
  ['lifecycle', 'Lifecycle'],
  ['stickiness', 'Stickiness'],
] as const

/** One kind of query. */
export type Way = (typeof WAYS)[number][0]

/** A counted series. A null `event` means every event. */
export interface SeriesChoice {
  readonly event: string | null
  readonly math?: string
  readonly property?: string
}

/** The ways of counting a series of trends. Those from `sum` on need a property. */
export const MATHS: Options = [
  ['total', 'number of events'],
  ['dau', 'persons'],
  ['weekly_active', 'persons, weekly active'],
  ['monthly_active', 'persons, monthly active'],
  ['unique_session', 'sessions'],
  ['first_time_for_user', 'persons, for the first time'],
  ['sum', 'sum of'],
  ['avg', 'mean of'],
  ['min', 'minimum of'],
  ['max', 'maximum of'],
  ['median', 'median of'],
  ['p90', '90th percentile of'],
  ['p95', '95th percentile of'],
  ['p99', '99th percentile of'],
]

/** Returns true for ways of counting that need a property. */
export function readsProperty(math = 'total'): boolean {
  return MATHS.findIndex(([one]) => one === math) >= 6
}

/** The kind of query in the URL. */
export const way = computed<Way>(() => {
  const given = query.value.get('way')
  return WAYS.find(([one]) => one === given)?.[0] ?? 'trends'
})

const FIRST: SeriesChoice = { event: '$pageview' }

/** The series in the URL. There is always at least one, and at least two for a funnel. */
export const choices = computed<readonly SeriesChoice[]>(() => {
  const given = query.value.getAll('series').flatMap((words) => {
    try {
      return [JSON.parse(words) as SeriesChoice]
    } catch {
      return []
    }
  })
  const least = way.value === 'funnel' ? [FIRST, FIRST] : [FIRST]
  return given.length >= least.length ? given : [...given, ...least.slice(given.length)]
})

/** Writes series to the URL. */
export function setChoices(next: readonly SeriesChoice[]): void {
  setQuery({ series: next.map((one) => JSON.stringify(one)) }, { replace: true })
}

/** Returns a parameter of the URL, or `otherwise` if it is absent. */
export function choice(name: string, otherwise: string): string {
  return query.value.get(name) ?? otherwise
}

/** The query that the URL describes. */
export const question = computed<Query>(() => {
  const asked = KINDS[way.value]()
  return {
    ...asked,
    persons_urls: true,
    dateRange: asked['dateRange'] ?? dateRange.value,
    properties: filtersOfAddress(),
  }
})

const KINDS: Readonly<Record<Way, () => Query>> = {
  trends() {
    const [type, ...key] = choice('by', '').split(':')
    const formula = choice('formula', '')
    const breakdown = { breakdown: key.join(':'), breakdown_type: type, breakdown_limit: 8 }
    return {
      kind: 'TrendsQuery',
      series: choices.value.map(seriesOf),
      interval: choice('interval', interval.value),
      ...(key.length > 0 && { breakdownFilter: breakdown }),
      ...(formula !== '' && { trendsFilter: { formula } }),
      ...(isCompared.value && { compareFilter: { compare: true } }),
    }
  },
  funnel() {
    const filter = {
      funnelOrderType: choice('order', 'ordered'),
      funnelWindowInterval: Number(choice('days', '14')) || 14,
      funnelWindowIntervalUnit: 'day',
    }
    const series = choices.value.map(({ event }) => seriesOf({ event }))
    return { kind: 'FunnelsQuery', series, funnelsFilter: filter }
  },
  retention() {
    const [target = FIRST, returning = target] = choices.value
    const retentionFilter = {
      period: choice('period', 'Week'),
      totalIntervals: 8,
      targetEntity: { id: target.event, type: 'events' },
      returningEntity: { id: returning.event, type: 'events' },
      retentionType: choice('first', '') === '1' ? 'retention_first_time' : 'retention_recurring',
    }
    // The rows are periods up to now, which the range of the page would cut off.
    return { kind: 'RetentionQuery', retentionFilter, dateRange: {} }
  },
  paths() {
    const start = choice('start', '')
    const items = choice('items', '$pageview')
    const pathsFilter = {
      ...(items !== 'all' && { includeEventTypes: [items] }),
      ...(start !== '' && { startPoint: start }),
      stepLimit: Number(choice('steps', '4')) || 4,
      edgeLimit: 40,
    }
    return { kind: 'PathsQuery', pathsFilter }
  },
  lifecycle() {
    const series = choices.value.slice(0, 1).map(({ event }) => seriesOf({ event }))
    return { kind: 'LifecycleQuery', series, interval: choice('interval', 'day') }
  },
  stickiness() {
    const series = choices.value.map(({ event }) => seriesOf({ event }))
    return { kind: 'StickinessQuery', series, interval: choice('interval', 'day') }
  },
}

function seriesOf({ event, math, property }: SeriesChoice) {
  const read = readsProperty(math) ? { math_property: property ?? '' } : {}
  return { kind: 'EventsNode', event, ...(math !== undefined && { math }), ...read }
}

const WAY_OF: Readonly<Record<string, Way>> = {
  TrendsQuery: 'trends',
  FunnelsQuery: 'funnel',
  RetentionQuery: 'retention',
  PathsQuery: 'paths',
  LifecycleQuery: 'lifecycle',
  StickinessQuery: 'stickiness',
}

interface SavedQuery {
  readonly kind?: string
  readonly source?: SavedQuery
  readonly series?: readonly { event?: string | null; math?: string; math_property?: string }[]
  readonly dateRange?: { date_from?: string | null; date_to?: string | null }
  readonly interval?: string
  readonly breakdownFilter?: { breakdown?: unknown; breakdown_type?: string }
  readonly properties?: unknown
}

/**
 * Returns the path below the project that opens a saved query in the builder. Parts that the builder does not support
 * are left out.
 */
export function exploreHref(saved: unknown): string {
  const whole = (saved ?? {}) as SavedQuery
  const { kind = '', series = [], dateRange, interval: by, ...rest } = whole.source ?? whole
  const address = new URLSearchParams({ way: WAY_OF[kind] ?? 'trends' })
  for (const { event = null, math, math_property: property } of series) {
    address.append('series', JSON.stringify({ event, math, property }))
  }
  const { date_from: from, date_to: to } = dateRange ?? {}
  if (to != null && from != null) address.set('range', `${from.slice(0, 10)}..${to.slice(0, 10)}`)
  else if (from != null && /^-\d+[hd]$/.test(from)) address.set('range', from.slice(1))
  if (by !== undefined) address.set('interval', by)
  const { breakdown, breakdown_type: type = 'event' } = rest.breakdownFilter ?? {}
  if (typeof breakdown === 'string') address.set('by', `${type}:${breakdown}`)
  if (Array.isArray(rest.properties)) {
    for (const filter of rest.properties) address.append('filter', JSON.stringify(filter))
  }
  return `/explore?${address}`
}
