/** The chart of the page "Web". It shows the chosen figure in the date range and in the comparison period. */
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

/** One period in the answer to `WebTrendsQuery`. */
interface Item {
  readonly bucket: string
  readonly metrics: Metrics
  readonly previous?: Item | null
}

/** An answer, with the interval and the figure for which it was requested. The reader may have chosen others since. */
interface Drawn {
  readonly items: readonly Item[]
  readonly step: string
  readonly figure: Figure
}

interface WebChartProps {
  readonly asked: Asked
  readonly goal: Goal | null
  readonly compareFilter: object | null
  /** The name of the comparison period. */
  readonly before: string
}

/** The chart. A click on a day, or dragging over several days, chooses these days as the date range. */
export function WebChart({ asked, goal, compareFilter, before }: WebChartProps) {
  const step = interval.value
  const figure = chosenFigure()
  // A query with a goal also counts events other than pageviews. For figures that do not belong to the goal, the query
  // is therefore sent without a goal.
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
        // An answer contains either the figures of the goal or the other figures. If it does not contain the figure
        // that the reader has just chosen, the previous figure is shown until the new answer arrives.
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

/** Changes the date range to the periods from the index `from` to the index `to`. */
function zoom({ items, step }: Drawn, from: number, to: number): void {
  const first = items[from]?.bucket.slice(0, 10)
  const last = items[to]?.bucket.slice(0, 10)
  if (first === undefined || last === undefined) return
  setQuery({ range: `${first}..${lastDay(last, step)}` })
}

/** Returns the last day of the period that begins on the day `start`. */
function lastDay(start: string, step: string): string {
  const [year = 1970, month = 1, day = 1] = start.split('-').map(Number)
  const next = {
    day: Date.UTC(year, month - 1, day + 1),
    week: Date.UTC(year, month - 1, day + 7),
    month: Date.UTC(year, month, 1),
  }[step]
  return new Date((next ?? 0) - 86_400_000).toISOString().slice(0, 10)
}
