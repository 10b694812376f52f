/** The query of the page "Explore", which the URL describes. */
import { computed, signal } from '@preact/signals'
import {
  type ExclusionChoice,
  exclusionsOf,
  intervalOf,
  isKeptWhole,
  type SeriesChoice,
  seriesOfAddress,
  toQuery,
  type Way,
  wayOf,
} from '../../base/query-address.ts'
import { type Options, type Query, query, setQuery, today } from '../../kit.ts'

/** The kinds of queries with their labels. */
export const WAYS: Options<Way> = [
  ['trends', 'Trends'],
  ['funnel', 'Funnel'],
  ['retention', 'Retention'],
  ['paths', 'Paths'],
  ['lifecycle', 'Lifecycle'],
  ['stickiness', 'Stickiness'],
]

/** The ways of counting a series of trends. Those from `sum` on need a property. */
export const MATHS: Options = [
  ['total', 'Total count'],
  ['dau', 'Unique users'],
  ['weekly_active', 'Weekly active users'],
  ['monthly_active', 'Monthly active users'],
  ['unique_session', 'Unique sessions'],
  ['first_time_for_user', 'First-time users'],
  ['sum', 'Sum of property'],
  ['avg', 'Average of property'],
  ['min', 'Minimum of property'],
  ['max', 'Maximum of property'],
  ['median', 'Median of property'],
  ['p75', '75th percentile of property'],
  ['p90', '90th percentile of property'],
  ['p95', '95th percentile of property'],
  ['p99', '99th percentile of property'],
]

/** Returns true for ways of counting that need a property. */
export function readsProperty(math = 'total'): boolean {
  return MATHS.findIndex(([one]) => one === math) >= MATHS.findIndex(([one]) => one === 'sum')
}

/** The kind of query in the URL. */
export const way = computed<Way>(() => wayOf(query.value))

/** The series in the URL. */
export const choices = computed<readonly SeriesChoice[]>(() => seriesOfAddress(query.value))

/** The exclusions of a funnel in the URL. */
export const exclusions = computed<readonly ExclusionChoice[]>(() => exclusionsOf(query.value))

/** The interval between two points of the chart. */
export const chartInterval = computed(() => intervalOf(query.value, today.value))

/** True if the query has options that the builder cannot show. */
export const isWhole = computed(() => isKeptWhole(query.value))

/** The query of the opened insight if it is too long for a URL. The URL then has `SAVED` in its place. */
export const longQuery = signal<Query | null>(null)
/** The value of the URL parameter `q` for the query of the opened insight. */
export const SAVED = 'saved'

/** The query of the page, without members that only the page itself needs. */
export const question = computed<Query>(() => {
  const long = query.value.get('q') === SAVED ? longQuery.value : null
  const { persons_urls: _, ...asked } = long ?? toQuery(query.value, today.value)
  return asked
})

/** Writes series to the URL. */
export function setChoices(next: readonly SeriesChoice[]): void {
  setQuery({ series: next.map((one) => JSON.stringify(one)) })
}

/** Writes the exclusions of a funnel to the URL. */
export function setExclusions(next: readonly ExclusionChoice[]): void {
  setQuery({ exclude: next.map((one) => JSON.stringify(one)) })
}

/** Returns a parameter of the URL, or `otherwise` if it is absent. */
export function choice(name: string, otherwise: string): string {
  return query.value.get(name) ?? otherwise
}
