/**
 * A chart over time. The same numbers are also available as a table and in a sentence. The arrow keys move a cursor,
 * and screen readers announce the values under it. Enter opens the list of the people whom a value counts. plot.tsx
 * draws the chart.
 */
import type { ComponentChildren } from 'preact'
import { useId, useState } from 'preact/hooks'
import { exact } from '../base/format.ts'
import type { Query } from '../base/queries.ts'
import { ExportMenu } from './copy.tsx'
import { Button } from './fields.tsx'
import { type Note, notesOfChart } from './notes.tsx'
import { colorOf, dashOf, type Line, Plot, type PlotKind, type ValueFormat } from './plot.tsx'
import { COLORS } from './series-look.ts'
import { type Column, Table } from './table.tsx'

/** The card beside the cursor shows at most this many lines. */
const TIP_LINES_MAX = 10

interface ChartProps {
  readonly label: string
  readonly labels: readonly string[]
  readonly lines: readonly Line[]
  readonly kind?: PlotKind
  /** True if the last period is not over yet, so that its values may still change. */
  readonly isOpen?: boolean
  /** True if the area below the first line is filled. */
  readonly isFilled?: boolean
  /** Formats a value. By default, values are whole numbers. */
  readonly format?: ValueFormat
  /** The names of the periods in an exported file. The default is `labels`. */
  readonly days?: readonly string[] | undefined
  /** The interval, which is the length of the periods in `days`. Needed to show annotations. */
  readonly step?: string | undefined
  /** The labels of the periods with which the chart is compared. */
  readonly labelsBefore?: readonly string[] | undefined
  /** A text that says what a click does. */
  readonly hint?: string | undefined
  /** The query of the chart, so that the reader can copy it as a command. */
  readonly query?: Query
  /** Called after a click, with the index of the line and the index of the label. */
  readonly open?: ((line: number, index: number) => void) | undefined
  /** Called after dragging over the chart, with the indexes of the first and the last label. */
  readonly select?: ((from: number, to: number) => void) | undefined
}

/** A chart with lines or with stacked bars. */
export function Chart(props: ChartProps) {
  const { label, labels, lines, kind = 'lines', isOpen = false, isFilled = false, format = exact } = props
  const { days = labels, step, query, open, select } = props
  const notes = notesOfChart(days, labels, step)
  const [isTable, setTable] = useState(false)
  const [cursor, setAt] = useState<number | null>(null)
  const id = useId()
  // The cursor may be past the last label, because the chart may have become shorter since the cursor was set.
  const at = cursor !== null && cursor < labels.length ? cursor : null
  function move(event: KeyboardEvent) {
    const last = labels.length - 1
    const next = { ArrowLeft: (at ?? last + 1) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last }[event.key]
    if (next !== undefined) setAt(Math.max(0, Math.min(last, next)))
    else if (event.key === 'Enter' && at !== null) open?.(0, at)
    else if (event.key === 'n' && at !== null && notes) notes.open(at)
    else return
    event.preventDefault()
  }
  const isPreliminary = (index: number) => isOpen && index === labels.length - 1
  const said = at === null ? [] : lines.map((line) => `${line.label} ${format(line.data[at])}`)
  return (
    <figure class="chart">
      <figcaption>
        <ul class="legend">
          {lines.map((line, place) => (
            <li key={`${line.label} ${place}`}>
              <Swatch line={line} place={place} kind={kind} />
              {line.label}
            </li>
          ))}
        </ul>
      </figcaption>
      {isTable ? (
        <ChartTable label={label} labels={labels} lines={lines} format={format} open={open} />
      ) : (
        <div
          class="plot"
          role="img"
          aria-label={sentenceOf(label, labels, lines, format)}
          aria-describedby={id}
          tabIndex={0}
          onKeyDown={move}
        >
          <Plot
            labels={labels}
            lines={lines}
            kind={kind}
            isOpen={isOpen}
            isFilled={isFilled}
            format={format}
            at={at}
            setAt={setAt}
            open={open}
            select={select}
            marks={notes?.at}
            mark={notes?.open}
          >
            {at !== null && <Tip {...props} at={at} isPreliminary={isPreliminary(at)} notes={notes?.at.get(at)} />}
          </Plot>
        </div>
      )}
      <ExportMenu name={label} rows={() => rowsOf(days, lines)} query={query}>
        <Button press={() => setTable(!isTable)} aria-pressed={isTable}>
          {isTable ? 'Chart' : 'Table'}
        </Button>
        {notes && <Button press={() => notes.open(null)}>Annotations</Button>}
        <output id={id} class="unseen" aria-live="polite">
          {at !== null && `${labels[at]}${isPreliminary(at) ? ' so far' : ''}: ${said.join(', ')}`}
        </output>
      </ExportMenu>
    </figure>
  )
}

/** The mark of a line in a legend. It has the color of the line, and also its dashes if the chart shows lines. */
function Swatch({ line, place, kind }: { line: Line; place: number; kind: PlotKind }) {
  const style = colorOf(line, place)
  if (kind === 'bars') return <span class="swatch" style={style} aria-hidden="true" />
  return (
    <svg class={`swatch-line ${line.isBefore ? 'before' : ''}`} style={style} width="22" height="8" aria-hidden="true">
      <path d="M0 4h22" stroke-dasharray={dashOf(line, place)} />
    </svg>
  )
}

interface TipProps {
  readonly at: number
  readonly isPreliminary: boolean
  readonly notes: readonly Note[] | undefined
}

/** The card beside the cursor. It shows the period and the values of the lines, the largest values first. */
function Tip(props: ChartProps & TipProps): ComponentChildren {
  const { labels, labelsBefore, lines, kind = 'lines', format = exact, hint, at, isPreliminary, notes = [] } = props
  const all = lines.map((line, place) => ({ line, place, value: line.data[at] ?? 0 }))
  const shown = lines.length <= 2 ? all : all.toSorted((a, b) => Math.abs(b.value) - Math.abs(a.value))
  const [current, before] = [lines.find((line) => !line.isBefore), lines.find((line) => line.isBefore)]
  const isPair = lines.length === 2 && current !== undefined && before !== undefined
  const change = isPair ? changeOf(current.data[at], before.data[at]) : null
  return (
    <>
      <b>{labels[at]}</b>
      {isPreliminary && <span class="quiet"> so far</span>}
      {shown.slice(0, TIP_LINES_MAX).map(({ line, place }) => (
        <div key={place} class="tip-line">
          <Swatch line={line} place={place} kind={kind} />
          <span class="cut">{(line.isBefore && labelsBefore?.[at]) || line.label}</span>
          <b class="number">{format(line.data[at])}</b>
        </div>
      ))}
      {lines.length > TIP_LINES_MAX && <div class="quiet">and {lines.length - TIP_LINES_MAX} more</div>}
      {change !== null && <div>{change}</div>}
      {notes.map(({ id, content }) => (
        <div key={id} class="tip-note">
          <bdi>{content}</bdi>
        </div>
      ))}
      {hint && <div class="quiet">{hint}</div>}
    </>
  )
}

/** Returns the change between two values in words. Returns null if one of them is missing or the earlier one is 0. */
function changeOf(value: number | null | undefined, before: number | null | undefined): string | null {
  if (value == null || !before) return null
  const share = Math.round((100 * (value - before)) / before)
  return share === 0 ? 'No change' : `${share > 0 ? '▲' : '▼'} ${Math.abs(share)} %`
}

/**
 * Returns the numbers of a chart as rows for a file. If several lines have the same label, the position of the line is
 * appended to all but the first: `Pageview` and `Pageview 2`.
 */
function rowsOf(days: readonly string[], lines: readonly Line[]): readonly object[] {
  const isFirst = (label: string, place: number) => lines.findIndex((one) => one.label === label) === place
  const names = lines.map(({ label }, place) => (isFirst(label, place) ? label : `${label} ${place + 1}`))
  return days.map((when, index) => {
    const numbers = lines.map(({ data }, place) => [names[place], data[index]])
    return Object.fromEntries([['when', when], ...numbers]) as object
  })
}

/** The numbers of a chart as a table. It has a row for each label. */
function ChartTable(props: Pick<ChartProps, 'label' | 'labels' | 'lines' | 'open'> & { format: ValueFormat }) {
  const { label, labels, lines, format, open } = props
  const columnOf = (line: Line, place: number): Column<number> => [
    line.label,
    (index) => {
      const words = format(line.data[index])
      if (open === undefined) return words
      return (
        <button type="button" class="link" onClick={() => open(place, index)}>
          {words}
        </button>
      )
    },
    'number',
  ]
  return (
    <Table
      label={label}
      rows={labels.map((_, index) => index)}
      columns={[['When', (index) => labels[index]], ...lines.map(columnOf)]}
    />
  )
}

/** Returns a sentence that describes the chart: the first, the last and the highest value of each line. */
function sentenceOf(label: string, labels: readonly string[], lines: readonly Line[], format: ValueFormat): string {
  const parts = lines.slice(0, COLORS).map(({ label: name, data }) => {
    const highest = data.reduce<number>((best, value, index) => ((value ?? 0) > (data[best] ?? 0) ? index : best), 0)
    return `${name}: ${format(data[0])} to ${format(data.at(-1))}, highest ${format(data[highest])} at ${labels[highest] ?? 'no time'}`
  })
  return `${label}, ${labels[0] ?? ''} to ${labels.at(-1) ?? ''}. ${parts.join('. ')}`
}
