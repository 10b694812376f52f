/** The chart of visitors and views over the range. A click opens the people behind a number, or its day. */
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

/** The displayed data. `days` are the starts of the periods as queries name them. */
interface Drawn {
  readonly labels: readonly string[]
  readonly days: readonly string[]
  readonly lines: readonly WebLine[]
}

/** A line whose numbers may lead to their people. */
interface WebLine extends Line {
  readonly urls?: readonly PersonsUrl[] | undefined
}

const DAY_MS = 86_400_000
/** The most periods that are requested one by one. `PERIODS_AT_ONCE` of them are requested in parallel. */
const PERIODS_MAX = 62
const PERIODS_AT_ONCE = 4

/** The chart of the page. A click on a number opens its people, or its day if there is no list of people. */
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

/** Names the series of the query that an item belongs to. */
interface Ordered {
  readonly action?: { readonly order?: number }
}

/**
 * Reads the numbers if a filter concerns whole sessions, which trends do not support. It requests an overview of each
 * period. A session counts in the period in which it begins, as in the tiles.
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

/** Returns the first and last moment of the period that begins with `day`. */
function periodOf(day: string, step: 'hour' | 'day' | 'week') {
  if (step === 'hour') return { date_from: day, date_to: day.replace(/:00:00/, ':59:59') }
  const last = Date.parse(`${day.slice(0, 10)}T00:00:00Z`) + (step === 'week' ? 6 : 0) * DAY_MS
  return { date_from: day.slice(0, 10), date_to: new Date(last).toISOString().slice(0, 10) }
}

/** Changes the range to the clicked day or week. Nothing happens within an hourly chart. */
function zoom(day: string): void {
  if (interval.value === 'hour' || day === '') return
  const { date_from: from, date_to: to } = periodOf(day, interval.value)
  setQuery({ range: `${from}..${to}` })
}
