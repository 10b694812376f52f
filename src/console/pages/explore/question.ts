/** The query of the page "Explore", as a set of signals that are read from the URL. */
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

/** The kinds of queries that the reader can choose, with their labels. */
export const WAYS: Options<Way> = [
  ['trends', 'Trends'],
  ['funnel', 'Funnel'],
  ['retention', 'Retention'],
  ['paths', 'Paths'],
  ['lifecycle', 'Lifecycle'],
  ['stickiness', 'Stickiness'],
]

/** The ways to count a series of trends. `sum` and all ways after it compute a number from the values of a property. */
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

/** Returns true for ways of counting that use the values of a property. */
export function readsProperty(math = 'total'): boolean {
  return MATHS.findIndex(([one]) => one === math) >= MATHS.findIndex(([one]) => one === 'sum')
}

/** The kind of query that the URL describes. */
export const way = computed<Way>(() => wayOf(query.value))

/** The series in the URL. */
export const choices = computed<readonly SeriesChoice[]>(() => seriesOfAddress(query.value))

/** The exclusions of a funnel in the URL. */
export const exclusions = computed<readonly ExclusionChoice[]>(() => exclusionsOf(query.value))

/** The interval between two points of the chart. */
export const chartInterval = computed(() => intervalOf(query.value, today.value))

/** True if the URL contains a whole query, because the builder cannot show all of its options. */
export const isWhole = computed(() => isKeptWhole(query.value))

/**
 * The query of the opened insight, if it is too long for the URL. In that case, the parameter `q` of the URL is
 * `SAVED`.
 */
export const longQuery = signal<Query | null>(null)
/** The value of the URL parameter `q` that stands for the query in `longQuery`. */
export const SAVED = 'saved'

/**
 * The query of the page, without the member `persons_urls`. This member asks for the URLs of lists of people, which a
 * saved or copied query does not need.
 */
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
