/**
 * A chart over time. The same numbers are also available as a table and as a sentence. Arrow keys move the cursor, and
 * the values under it are announced. Enter opens the people behind a value. plot.tsx draws the chart.
 */
import { useId, useState } from 'preact/hooks'
import { exact } from '../base/format.ts'
import type { Query } from '../base/queries.ts'
import { TakeAlong } from './copy.tsx'
import { Button } from './fields.tsx'
import { COLOURS, colour, type Line, Plot, type PlotKind } from './plot.tsx'
import { type Column, Table } from './table.tsx'

type Format = (value: number | null | undefined) => string

interface ChartProps {
  readonly label: string
  readonly labels: readonly string[]
  readonly lines: readonly Line[]
  readonly kind?: PlotKind
  /** True if the last period is not over, so that its values are preliminary. */
  readonly isOpen?: boolean
  /** The query of the chart, for copying it as a command. */
  readonly query?: Query
  /** Called with the index of a line and the index of a label. */
  readonly open?: ((line: number, index: number) => void) | undefined
}

/** Draws a chart of lines or stacked bars. */
export function Chart({ label, labels, lines, kind = 'lines', isOpen = false, query, open }: ChartProps) {
  const [isTable, setTable] = useState(false)
  const [at, setAt] = useState<number | null>(null)
  const id = useId()
  function move(event: KeyboardEvent) {
    const last = labels.length - 1
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last }[event.key]
    if (step !== undefined) setAt(Math.max(0, Math.min(last, (at ?? (step < 0 ? last + 1 : -1)) + step)))
    else if (event.key === 'Enter' && at !== null) open?.(0, at)
    else return
    event.preventDefault()
  }
  const said = at === null ? [] : lines.map((line) => `${line.label} ${exact(line.data[at])}`)
  return (
    <figure class="chart">
      <figcaption>
        <ul class="legend">
          {lines.map((line, place) => (
            <li key={`${line.label} ${place}`} class={line.isBefore ? 'before' : ''} style={colour(place)}>
              <span class="swatch" aria-hidden="true" />
              {line.label}
              {at !== null && <b> {exact(line.data[at])}</b>}
            </li>
          ))}
        </ul>
      </figcaption>
      {isTable ? (
        <ChartTable {...{ label, labels, lines, open }} />
      ) : (
        <div
          class="plot"
          role="img"
          aria-label={sentenceOf(label, labels, lines, exact)}
          aria-describedby={id}
          tabIndex={0}
          onKeyDown={move}
        >
          <Plot {...{ labels, lines, kind, isOpen, at, setAt, open }} />
        </div>
      )}
      <TakeAlong name={label} rows={() => rowsOf(labels, lines)} query={query}>
        <Button press={() => setTable(!isTable)} aria-pressed={isTable}>
          {isTable ? 'Chart' : 'Table'}
        </Button>
        <output id={id} class="reading" aria-live="polite">
          {at !== null && `${labels[at]}: ${said.join(', ')}`}
        </output>
      </TakeAlong>
    </figure>
  )
}

/** Returns the numbers as rows for a file. A repeated line name gets its position appended. */
function rowsOf(labels: readonly string[], lines: readonly Line[]): readonly object[] {
  const isFirst = (label: string, place: number) => lines.findIndex((one) => one.label === label) === place
  const names = lines.map(({ label }, place) => (isFirst(label, place) ? label : `${label} ${place + 1}`))
  return labels.map((when, index) => {
    const numbers = lines.map(({ data }, place) => [names[place], data[index]])
    return Object.fromEntries([['when', when], ...numbers]) as object
  })
}

/** Shows the numbers of a chart as a table with a row for each label. */
function ChartTable({ label, labels, lines, open }: Omit<ChartProps, 'kind' | 'isOpen' | 'query'>) {
  const columnOf = (line: Line, place: number): Column<number> => [
    line.label,
    (index) => {
      const words = exact(line.data[index])
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

/** Describes the chart in a sentence: the first, last and highest value of each line. */
function sentenceOf(label: string, labels: readonly string[], lines: readonly Line[], format: Format): string {
  const parts = lines.slice(0, COLOURS).map(({ label: name, data }) => {
    const highest = data.reduce<number>((best, value, index) => ((value ?? 0) > (data[best] ?? 0) ? index : best), 0)
    return `${name}: ${format(data[0])} to ${format(data.at(-1))}, highest ${format(data[highest])} at ${labels[highest] ?? 'no time'}`
  })
  return `${label}, ${labels[0] ?? ''} to ${labels.at(-1) ?? ''}. ${parts.join('. ')}`
}
