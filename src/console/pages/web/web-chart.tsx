/** Visitors and views over the range, as a chart. A click on it opens that day. */
import { useState } from 'preact/hooks'
import {
  askQuery,
  Card,
  Chart,
  interval,
  isCompared,
  isOngoing,
  type Line,
  project,
  type Query,
  rangeDays,
  rangeValue,
  type Series,
  Shown,
  setQuery,
  useLoaded,
} from '../../kit.ts'
import { type Behind, PersonsBehind, type PersonsUrl } from '../../parts/behind.tsx'
import type { Asked } from './report-card.tsx'

/** What the chart shows: `days` are the beginnings of its periods as queries name them. */
interface Drawn {
  readonly labels: readonly string[]
  readonly days: readonly string[]
  readonly lines: readonly WebLine[]
}

/** A line whose numbers may lead to their persons. */
interface WebLine extends Line {
  readonly urls?: readonly PersonsUrl[] | undefined
}

const DAY_MS = 86_400_000
/** Periods that are asked one by one, and how many of them at once. */
const PERIODS_MAX = 62
const PERIODS_AT_ONCE = 4

/** The chart of the page: a number leads to its persons, or, where none says who, to its day. */
export function WebChart({ asked }: { asked: Asked }) {
  const query: Query = {
    kind: 'TrendsQuery',
    interval: interval.value,
    series: ['dau', 'total'].map((math) => ({ kind: 'EventsNode', event: '$pageview', math })),
    ...asked,
    persons_urls: true,
    ...(isCompared.value && { compareFilter: { compare: true } }),
  }
  const loaded = useLoaded(`web chart ${project.value.id} ${JSON.stringify(query)}`, (signal) =>
    asked.properties.some(({ type }) => type === 'session') ? askByPeriod(asked, signal) : askTrends(query, signal),
  )
  const [behind, setBehind] = useState<Behind | null>(null)
  function open({ labels, days, lines }: Drawn, place: number, index: number) {
    const { label = '', urls } = lines[place] ?? {}
    const url = urls?.[index]
    if (url == null) zoom(days[index] ?? '')
    else setBehind({ title: `${label}, ${labels[index]}`, url })
  }
  return (
    <Card title="Visitors and views">
      <Shown of={loaded}>
        {(drawn) => (
          <Chart
            label="Visitors and views"
            {...drawn}
            isOpen={isOngoing(drawn.days.at(-1), interval.value)}
            query={query}
            open={(place, index) => open(drawn, place, index)}
          />
        )}
      </Shown>
      {behind && <PersonsBehind behind={behind} close={() => setBehind(null)} />}
    </Card>
  )
}

async function askTrends(query: Query, signal: AbortSignal): Promise<Drawn> {
  const series = await askQuery<readonly Series[]>(query, signal)
  const names = ['Visitors', 'Views']
  const lines = series.map(({ data, compare_label: label, action, persons_urls }: Series & Ordered) => {
    const isBefore = label === 'previous'
    const name = names[action?.order ?? 0] ?? ''
    return { label: isBefore ? `${name} before` : name, data, isBefore, urls: persons_urls }
  })
  return { labels: series[0]?.labels ?? [], days: series[0]?.days ?? [], lines }
}

/** Which series of the query an item is of. */
interface Ordered {
  readonly action?: { readonly order?: number }
}

/**
 * The same where a filter asks something of whole sessions, which trends cannot: an overview of each period,
 * in which a session counts where it begins, as in the tiles.
 */
async function askByPeriod(asked: Asked, signal: AbortSignal): Promise<Drawn> {
  const isLong = rangeDays(rangeValue.value) > PERIODS_MAX
  const step = isLong ? 'week' : interval.value
  const series = [{ kind: 'EventsNode', event: '$pageview', math: 'total' }]
  const query = { kind: 'TrendsQuery', interval: step, series, dateRange: asked.dateRange }
  const frame = await askTrends(query, signal)
  const labels = frame.labels.slice(-PERIODS_MAX)
  const days = frame.days.slice(-PERIODS_MAX)
  const found: (readonly [visitors: number, views: number])[] = []
  for (let at = 0; at < days.length; at += PERIODS_AT_ONCE) {
    const some = days.slice(at, at + PERIODS_AT_ONCE).map(async (day) => {
      const query = {
        kind: 'WebOverviewQuery',
        properties: asked.properties,
        dateRange: { ...periodOf(day, step), explicitDate: step === 'hour' },
      }
      const [visitors, views] = await askQuery<readonly { value: number }[]>(query, signal)
      return [visitors?.value ?? 0, views?.value ?? 0] as const
    })
    found.push(...(await Promise.all(some)))
  }
  const dataOf = (place: number) => found.map((numbers) => numbers[place] ?? 0)
  const lines = ['Visitors', 'Views'].map((label, place) => ({ label, data: dataOf(place) }))
  return { labels, days, lines }
}

/** First and last moment of a period that begins with `day`. */
function periodOf(day: string, step: 'hour' | 'day' | 'week') {
  if (step === 'hour') return { date_from: day, date_to: day.replace(/:00:00/, ':59:59') }
  const last = Date.parse(`${day.slice(0, 10)}T00:00:00Z`) + (step === 'week' ? 6 : 0) * DAY_MS
  return { date_from: day.slice(0, 10), date_to: new Date(last).toISOString().slice(0, 10) }
}

/** Opens the day, or the week, that was clicked on; nothing is within an hour. */
function zoom(day: string): void {
  if (interval.value === 'hour' || day === '') return
  const { date_from: from, date_to: to } = periodOf(day, interval.value)
  setQuery({ range: `${from}..${to}` })
}
