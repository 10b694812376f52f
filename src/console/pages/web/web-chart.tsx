/** The chart of the page "Web": the chosen figure over the range, and over the period of the comparison. */
import {
  askQuery,
  bucketText,
  Chart,
  interval,
  isCompared,
  isOngoing,
  type Line,
  project,
  type Query,
  Shown,
  setQuery,
  useLoaded,
} from '../../kit.ts'
import { type Asked, type Figure, GOAL_METRICS, type Goal, METRICS, type Metrics } from './asked.ts'
import { chosenFigure } from './tiles.tsx'

/** A period of `WebTrendsQuery`. */
interface Item {
  readonly bucket: string
  readonly metrics: Metrics
  readonly previous?: Item | null
}

/** The answer with the interval and the figure that it was asked for, because those of the page may have changed since. */
interface Drawn {
  readonly items: readonly Item[]
  readonly step: string
  readonly figure: Figure
}

interface WebChartProps {
  readonly asked: Asked
  readonly goal: Goal | null
  readonly compareFilter: object | null
  /** The name of the period of the comparison. */
  readonly before: string
}

/** Shows the chart. A click on a day, and a drag over several, choose them as the range. */
export function WebChart({ asked, goal, compareFilter, before }: WebChartProps) {
  const step = interval.value
  const figure = chosenFigure()
  // With a goal, other events count as well. The other figures therefore come from a query without one.
  const wished = figure.isOfGoal ? { metrics: GOAL_METRICS, ...goal } : { metrics: METRICS }
  const query: Query = {
    kind: 'WebTrendsQuery',
    interval: step,
    ...wished,
    ...asked,
    ...(compareFilter && { compareFilter }),
  }
  const loaded = useLoaded<Drawn>(`web ${project.value.id} ${JSON.stringify(query)}`, async (signal) => ({
    items: await askQuery<readonly Item[]>(query, signal),
    step,
    figure,
  }))
  return (
    <Shown of={loaded}>
      {(drawn) => {
        const { items } = drawn
        // An answer to the other query does not have the chosen figure.
        const shown = drawn.figure.isOfGoal === figure.isOfGoal ? figure : drawn.figure
        const current = { label: shown.label, data: items.map(({ metrics }) => shown.valueOf(metrics)) }
        const earlier = items.map(({ previous }) => (previous ? shown.valueOf(previous.metrics) : null))
        const line: Line = { label: before, data: earlier, isBefore: true, place: 0 }
        const isZoomable = drawn.step !== 'hour'
        return (
          <Chart
            label={shown.label}
            labels={items.map(({ bucket }) => bucketText(bucket, drawn.step))}
            labelsBefore={items.map(({ previous }) => (previous ? bucketText(previous.bucket, drawn.step) : ''))}
            days={items.map(({ bucket }) => bucket)}
            step={drawn.step}
            lines={isCompared.value && compareFilter ? [current, line] : [current]}
            format={shown.format}
            isFilled
            isOpen={isOngoing(items.at(-1)?.bucket, drawn.step)}
            query={query}
            hint={isZoomable ? 'Click or drag to zoom' : undefined}
            open={isZoomable ? (_, index) => zoom(drawn, index, index) : undefined}
            select={isZoomable ? (from, to) => zoom(drawn, from, to) : undefined}
          />
        )
      }}
    </Shown>
  )
}

/** Changes the range to the periods from one to another. */
function zoom({ items, step }: Drawn, from: number, to: number): void {
  const first = items[from]?.bucket.slice(0, 10)
  const last = items[to]?.bucket.slice(0, 10)
  if (first === undefined || last === undefined) return
  setQuery({ range: `${first}..${lastDay(last, step)}` })
}

/** Returns the last day of the period that begins with a day. */
function lastDay(start: string, step: string): string {
  const [year = 1970, month = 1, day = 1] = start.split('-').map(Number)
  const next = {
    day: Date.UTC(year, month - 1, day + 1),
    week: Date.UTC(year, month - 1, day + 7),
    month: Date.UTC(year, month, 1),
  }[step]
  return new Date((next ?? 0) - 86_400_000).toISOString().slice(0, 10)
}
