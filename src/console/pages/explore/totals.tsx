/**
 * The table of totals below a chart over time. It adds up the numbers of each series. The reader can sort it, and hide
 * the lines of some series in the chart.
 */
import type { ComponentType } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { Check, exact, isOngoing, type Query, type Series } from '../../kit.ts'

interface TotalsProps {
  readonly query: Query
  readonly results: unknown
  /** The component that shows the answer. */
  readonly view: ComponentType<{ readonly query: Query; readonly results: unknown }>
}

/** Shows an answer and, if it is a chart over time, the totals of its series. */
export function Totals({ query, results, view: View }: TotalsProps) {
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set())
  const series = seriesIn(query, results)
  // A hidden series is emptied and not removed, so that the other lines keep their colors.
  const shown = useMemo(
    () =>
      series === null || hidden.size === 0 ? results : series.map((one, at) => (hidden.has(at) ? emptied(one) : one)),
    [results, hidden],
  )
  return (
    <>
      <View query={query} results={shown} />
      {series !== null && <TotalsTable query={query} series={series} hidden={hidden} setHidden={setHidden} />}
    </>
  )
}

function seriesIn(query: Query, results: unknown): readonly Series[] | null {
  if (query.kind !== 'TrendsQuery' || !Array.isArray(results) || results.length === 0) return null
  const series = results as readonly Series[]
  return series.every(({ data }) => Array.isArray(data) && data.length > 0) ? series : null
}

function emptied(series: Series): Series {
  return { ...series, data: series.data.map(() => null) as never }
}

interface Row {
  readonly at: number
  readonly name: string
  readonly total: number | null
  readonly average: number
  /** The relative change of the total since the comparison period. */
  readonly change: number | null
}

const COLUMNS = [
  ['name', 'Series'],
  ['total', 'Total'],
  ['average', 'Average'],
  ['change', 'Change'],
] as const
type ColumnName = (typeof COLUMNS)[number][0]

interface TableProps {
  readonly query: Query
  readonly series: readonly Series[]
  readonly hidden: ReadonlySet<number>
  readonly setHidden: (hidden: ReadonlySet<number>) => void
}

function TotalsTable({ query, series, hidden, setHidden }: TableProps) {
  const [[by, isDown], setOrder] = useState<readonly [ColumnName | null, boolean]>([null, true])
  const rows = rowsOf(query, series)
  const isCompared = rows.some(({ change }) => change !== null)
  const columns = COLUMNS.filter(([name]) => name !== 'change' || isCompared)
  const sorted = by === null ? rows : rows.toSorted((a, b) => compared(a[by], b[by]) * (isDown ? -1 : 1))
  function toggle(at: number) {
    const next = new Set(hidden)
    if (!next.delete(at)) next.add(at)
    setHidden(next)
  }
  return (
    <section class="table totals" aria-label="Totals" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(([name, words]) => {
              const order = by === name ? (isDown ? 'descending' : 'ascending') : 'none'
              return (
                <th key={name} scope="col" aria-sort={order} class={name === 'name' ? '' : 'number'}>
                  <button
                    type="button"
                    class="link"
                    onClick={() => setOrder([name, by === name ? !isDown : name !== 'name'])}
                  >
                    {words}
                    <span aria-hidden="true">{by === name ? (isDown ? ' ▼' : ' ▲') : ''}</span>
                  </button>
                </th>
              )
            })}
          </tr>
        </thead>
        <tbody>
          {sorted.map(({ at, name, total, average, change }) => (
            <tr key={at}>
              <td>
                <Check label={name} value={!hidden.has(at)} change={() => toggle(at)} />
              </td>
              <td class="number">{exact(total)}</td>
              <td class="number">{exact(Math.round(average * 100) / 100)}</td>
              {isCompared && <td class="number">{changeWords(change)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.some(({ total }) => total === null) && (
        <p class="quiet">Unique counts, averages and formulas cannot be added up over time, so they have no total.</p>
      )}
    </section>
  )
}

/**
 * The ways of counting whose numbers can be added up over several intervals. Unique users cannot, because the same user
 * may be counted in each.
 */
const SUMMED: readonly string[] = ['total', 'sum', 'first_time_for_user', 'first_matching_event_for_user']

function rowsOf(query: Query, series: readonly Series[]): readonly Row[] {
  const maths = ((query['series'] ?? []) as readonly { readonly math?: string }[]).map(({ math = 'total' }) => math)
  const { formula, display } = (query['trendsFilter'] ?? {}) as { readonly formula?: string; readonly display?: string }
  const canSum = maths.every((math) => SUMMED.includes(math)) && !formula && !display?.endsWith('Cumulative')
  return series.map(({ data, label, breakdown_value: value, compare_label: period, days }, at) => {
    // The current period is not over, so it would lower the average. It is left out.
    const isRunning = data.length > 1 && isOngoing(days.at(-1), query['interval'])
    const whole = isRunning ? data.slice(0, -1) : data
    const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + (one ?? 0), 0)
    const before = series.find((one) => {
      return one.compare_label === 'previous' && one.label === label && String(one.breakdown_value) === String(value)
    })
    const [now, then] = before === undefined ? [0, 0] : [sum(data), sum(before.data)]
    return {
      at,
      name: period === 'previous' ? `${nameOf(label)}, previous period` : nameOf(label),
      total: canSum ? sum(data) : null,
      average: sum(whole) / Math.max(1, whole.length),
      change: period === 'current' && then !== 0 ? now / then - 1 : null,
    }
  })
}

function nameOf(label: string): string {
  return label.replace('$$_posthog_breakdown_null_$$', '(none)').replace('$$_posthog_breakdown_other_$$', '(others)')
}

function compared(a: string | number | null, b: string | number | null): number {
  if (typeof a === 'string' && typeof b === 'string') return a.localeCompare(b)
  return Number(a ?? -Infinity) - Number(b ?? -Infinity)
}

function changeWords(change: number | null): string {
  if (change === null) return '–'
  const percent = `${Math.abs(change * 100).toFixed(0)} %`
  return change > 0 ? `▲ ${percent}` : change < 0 ? `▼ ${percent}` : percent
}
