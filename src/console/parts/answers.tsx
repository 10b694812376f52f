/**
 * Shows the answers to queries. Each kind of query has a view of its own. A click on a number opens the list of the
 * people whom it counts.
 */
import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { bucketText } from '../base/days.ts'
import { exact, percent, plain, seconds, short, time, wallTime } from '../base/format.ts'
import { counted, countryName } from '../base/labels.ts'
import type { Query, Series } from '../base/queries.ts'
import { isOngoing } from '../base/range.ts'
import { type Behind, Count, type OpenPersons as Open, PersonsBehind, type PersonsUrl } from './behind.tsx'
import { Chart } from './chart.tsx'
import { ExportMenu } from './copy.tsx'
import { Funnel } from './funnel.tsx'
import { Empty } from './notice.tsx'
import { type Edge, Paths } from './paths.tsx'
import { type Column, Table } from './table.tsx'
import { Tile, Tiles } from './tiles.tsx'
import { isValues, Values } from './values.tsx'

/** Shows the answer to a query. */
export function Answer({ query, results }: { query: Query; results: unknown }) {
  const [behind, setBehind] = useState<Behind | null>(null)
  const View = VIEWS[query.kind]
  // The view is memoized. Otherwise opening or closing a dialog would draw up to a thousand rows again.
  const view = useMemo(
    () =>
      View && (
        <View query={query} results={results as never} open={query['persons_urls'] === true ? setBehind : undefined} />
      ),
    [query, results],
  )
  if (view === undefined) return <Items results={results} query={query} />
  if (Array.isArray(results) && results.length === 0)
    return <Empty title="No events in this range.">Choose a longer range, or other filters.</Empty>
  return (
    <>
      {view}
      {behind && <PersonsBehind behind={behind} close={() => setBehind(null)} />}
    </>
  )
}

interface ViewProps<Results> {
  readonly query: Query
  readonly results: Results
  readonly open: Open
}

const VIEWS: Readonly<Record<string, (props: ViewProps<never>) => ComponentChildren>> = {
  TrendsQuery: (props) => <Lines {...props} />,
  StickinessQuery: (props) => <Lines {...props} />,
  LifecycleQuery: (props) => <Lines {...props} />,
  FunnelsQuery: (props) => <Funnel {...props} />,
  RetentionQuery: (props) => <Retention {...props} />,
  PathsQuery: (props) => <PathsView {...props} />,
  WebOverviewQuery: (props) => <WebFigures {...props} />,
  WebTrendsQuery: (props) => <WebLines {...props} />,
  WebStatsTableQuery: (props) => <WebTable {...props} />,
}

interface WebFigure {
  readonly key: string
  readonly kind: string
  readonly value: number | null
}

/** The figures of a site, as on the page "Web". */
function WebFigures({ results }: ViewProps<readonly WebFigure[]>) {
  const text = ({ kind, value }: WebFigure) => {
    if (kind === 'duration_s') return seconds(value)
    return kind === 'percentage' ? percent(value === null ? null : value / 100) : exact(value)
  }
  return (
    <Tiles>
      {results.map((figure) => (
        <Tile key={figure.key} label={figure.key.replace(/^./, (first) => first.toUpperCase())}>
          {text(figure)}
        </Tile>
      ))}
    </Tiles>
  )
}

interface WebPeriod {
  readonly bucket: string
  readonly metrics: Readonly<Record<string, number>>
}

/** The metrics that the chart of a site shows, with their labels. */
const WEB_METRICS = [
  ['UniqueUsers', 'Visitors'],
  ['PageViews', 'Views'],
] as const

/** A chart of the visitors and the views of a site over time. If the answer contains neither, it is shown as a list. */
function WebLines({ query, results }: ViewProps<readonly WebPeriod[]>) {
  const step = String(query['interval'] ?? 'day')
  const days = results.map(({ bucket }) => bucket)
  const shown = WEB_METRICS.filter(([name]) => results[0]?.metrics[name] !== undefined)
  if (shown.length === 0) return <Items results={results} query={query} />
  return (
    <Chart
      label={shown.map(([, label]) => label).join(' and ')}
      labels={days.map((day) => bucketText(day, step))}
      days={days}
      step={step}
      lines={shown.map(([name, label]) => ({ label, data: results.map(({ metrics }) => metrics[name] ?? 0) }))}
      isOpen={isOngoing(days.at(-1), step)}
      query={query}
    />
  )
}

type WebPart = string | number | null
/**
 * A row: the value of the property, and for each metric its number in the range and its number in the previous period.
 */
type WebRow = readonly [value: WebPart | readonly WebPart[], ...pairs: (readonly (number | null)[])[]]

/** The visitors of a site for each value of a property. */
function WebTable({ query, results }: ViewProps<readonly WebRow[]>) {
  // The rows of this table count clicks and errors instead of visitors.
  if (query['breakdownBy'] === 'FrustrationMetrics') return <Items results={results} query={query} />
  const nameOf = (value: WebPart | readonly WebPart[]) => {
    const parts = [value].flat().filter((part) => part !== null)
    if (parts.length === 0) return '(none)'
    return (query['breakdownBy'] === 'Country' && countryName(String(parts[0]))) || parts.join(', ')
  }
  return (
    <Table
      label={String(query['breakdownBy'])}
      rows={results}
      query={query}
      columns={[
        ['Value', ([value]) => nameOf(value), 'cut'],
        ['Visitors', ([, visitors]) => visitors?.[0], 'count'],
        [query['conversionGoal'] ? 'Conversions' : 'Views', ([, , others]) => others?.[0], 'count'],
      ]}
    />
  )
}

/**
 * Shows series over time as a chart. Lifecycles are shown as stacked bars. If a query asks for single numbers, a list
 * of numbers is shown instead.
 */
function Lines({ query, results, open }: ViewProps<readonly Series[]>) {
  const isOverTime = query.kind !== 'StickinessQuery'
  const step = String(query['interval'] ?? 'day')
  const [first] = results
  const labels = isOverTime ? labelsOf(first, step) : (first?.labels ?? [])
  const current = results.filter(({ compare_label: period }) => period !== 'previous')
  const lines = results.map((series) => {
    const isBefore = series.compare_label === 'previous'
    // A series has the same color in the current and the previous period.
    const place = isBefore ? current.findIndex(({ label }) => label === series.label) : current.indexOf(series)
    return { label: nameOf(series), data: series.data, isBefore, place: Math.max(0, place) }
  })
  if (isValues(results)) return <Values query={query} results={results} open={open} />
  function openPoint(line: number, index: number) {
    const { data = [], persons_urls: urls } = results[line] ?? {}
    const times = isOverTime ? labelsOf(results[line], step) : labels
    const title = `${lines[line]?.label}, ${times[index]}: ${exact(Math.abs(data[index] ?? 0))}`
    open?.({ title, url: urls?.[index] })
  }
  // The points of a stickiness series count different persons, so a line between the points would have no meaning. A
  // single series is therefore shown as bars.
  const isOfCounts = query.kind === 'StickinessQuery' && lines.length === 1
  const kind = query.kind === 'LifecycleQuery' || isOfCounts || isBars(query) ? 'bars' : 'lines'
  const isOpen = isOverTime && isOngoing(first?.days?.at(-1), step)
  const before = results.find(({ compare_label: period }) => period === 'previous')
  const isNothing = results.every(({ data }) => data.every((count) => !count))
  return (
    <>
      {isNothing && <p class="quiet">No such events in this range: choose a longer one, or other events.</p>}
      <Chart
        labels={labels}
        lines={lines}
        kind={kind}
        isOpen={isOpen}
        query={query}
        label={query.kind.replace('Query', '')}
        days={isOverTime ? first?.days : undefined}
        step={isOverTime ? step : undefined}
        labelsBefore={before && labelsOf(before, step)}
        isFilled={kind === 'lines' && current.length === 1}
        hint={open && 'Click to see who is behind a number'}
        open={open && openPoint}
      />
    </>
  )
}

/**
 * Returns labels for the periods of a series. Weeks have the labels of the answer, because these say which days of the
 * week are in the date range.
 */
function labelsOf(series: Series | undefined, step: string): readonly string[] {
  const { days = [], labels = [] } = series ?? {}
  return step === 'week' ? labels : days.map((day) => bucketText(String(day), step))
}

/** Returns true if a query for trends asks for bars. */
function isBars(query: Query): boolean {
  const { display = '' } = (query['trendsFilter'] ?? {}) as { readonly display?: string }
  return display === 'ActionsBar' || display === 'ActionsUnstackedBar'
}

/**
 * Returns the name of a series. It includes its breakdown value, and says if the series belongs to the previous period.
 */
function nameOf({ label, compare_label: period }: Series): string {
  const words = label
    .replace('$$_posthog_breakdown_null_$$', '(none)')
    .replace('$$_posthog_breakdown_other_$$', '(others)')
  return period === 'previous' ? `${words}, previous period` : words
}

interface Cohort {
  readonly label: string
  readonly date: string
  readonly values: readonly { readonly count: number; readonly label: string; readonly persons_url?: PersonsUrl }[]
}

/** The strongest background color of a cell, in percent. Text stays readable on it, even in the dark theme. */
const HEAT_PERCENT_MAX = 45

function Retention({ query, results, open }: ViewProps<readonly Cohort[]>) {
  const { period = 'Day' } = (query['retentionFilter'] ?? {}) as { period?: string }
  const step = period.toLowerCase()
  const labels = results[0]?.values.map(({ label }) => label) ?? []
  const lastDate = results.at(-1)?.date
  // The current period is not over. If it counted as complete, its low numbers would look as if people had stopped
  // coming.
  const isRunning = lastDate !== undefined && isOngoing(wallTime(lastDate), step)
  // Each row contains the people who began in one period. Later rows have fewer periods: of 8 rows, row 5 (counted from
  // 0) has the periods 0 to 2, and the last of these does not count as complete while it is still running.
  const isOver = (row: Cohort, place: number) =>
    place === 0 || place < results.length - results.indexOf(row) - (isRunning ? 1 : 0)
  const nameOfRow = (row: Cohort) => (
    <>
      {startOf(row, step)}
      {isRunning && row === results.at(-1) && <small> so far</small>}
    </>
  )
  const cell = (label: string, place: number): Column<Cohort> => [
    label,
    (row) => isOver(row, place) && <Share row={row} place={place} step={step} open={open} />,
    'number',
  ]
  const rows = () =>
    results.map((row): object => {
      const cells = row.values.filter((_, place) => isOver(row, place)).map(({ label, count }) => [label, count])
      return Object.fromEntries([['date', wallTime(row.date).slice(0, step === 'hour' ? 16 : 10)], ...cells]) as object
    })
  return (
    <div class="heat">
      <Table
        label="Retention"
        rows={results}
        columns={[
          ['First event', nameOfRow],
          ['People', ({ values }) => values[0]?.count, 'count'],
          ...labels.map(cell),
        ]}
      />
      <ExportMenu name="retention" rows={rows} query={query} />
    </div>
  )
}

/** Returns the start of a row in the time zone of the project. */
function startOf({ date }: Cohort, step: string): string {
  return step === 'hour' ? wallTime(date).slice(0, 16) : time(date, 'day')
}

interface ShareProps {
  readonly row: Cohort
  readonly place: number
  readonly step: string
  readonly open: Open
}

function Share({ row, place, step, open }: ShareProps) {
  const { count = 0, label, persons_url: url } = row.values[place] ?? {}
  const size = row.values[0]?.count ?? 0
  const share = size === 0 ? 0 : count / size
  const people = counted(count, 'person', 'people')
  const said = `${percent(share, 0)}, ${people}`
  const behind = { title: `${startOf(row, step)}, ${label}: ${count}`, url }
  return (
    <span style={{ '--share': `${Math.round(share * HEAT_PERCENT_MAX)}%` }} title={people}>
      {size === 0 ? '–' : <Count words={percent(share, 0)} label={said} behind={behind} open={open} />}
    </span>
  )
}

function PathsView({ query, results, open }: ViewProps<readonly Edge[]>) {
  const openEdge = ({ source, target, value, persons_url: url }: Edge) =>
    open?.({ title: `${source} → ${target}: ${short(value)}`, url })
  return <Paths edges={results} query={query} open={open && openEdge} />
}

type ItemRow = Readonly<Record<string, unknown>>

/**
 * Shows the answer to a query that has no view of its own. The table has a row for each item of the answer. It has a
 * column for each member that is neither a list nor an object.
 */
function Items({ results, query }: { results: unknown; query: Query }) {
  const rows = itemRows(results, query)
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  return (
    <Table
      label={query.kind.replace('Query', '')}
      rows={rows}
      keyOf={(row) => rows.indexOf(row)}
      query={query}
      columns={names.map((name) => [name, (row: ItemRow) => <bdi class="cut">{plain(row[name] ?? '')}</bdi>] as const)}
    />
  )
}

function itemRows(results: unknown, query: Query): readonly ItemRow[] {
  const items: readonly unknown[] = Array.isArray(results) ? results : [results]
  const selected = (query['select'] ?? []) as readonly unknown[]
  return items.map((item) => {
    if (Array.isArray(item)) {
      return Object.fromEntries(item.map((value, at) => [String(selected[at] ?? at + 1), value]))
    }
    if (typeof item !== 'object' || item === null) return { result: item }
    return Object.fromEntries(Object.entries(item).filter(([, value]) => typeof value !== 'object'))
  })
}
