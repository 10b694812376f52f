/**
 * A chart over time, with the same numbers as a table and as a sentence. Arrow keys move the cursor and what
 * is under it is said; Enter opens who is behind it. uPlot, which draws, comes in a chunk of its own.
 */
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { AlignedData, Options, default as UPlot } from 'uplot'
import { exact } from '../base/format.ts'
import { isDark, token } from '../base/theme.ts'
import { Table } from './table.tsx'

/** A line of a chart; `data` has a number for each label. */
export interface Line {
  readonly label: string
  readonly data: readonly (number | null)[]
  /** The period before: drawn paler. */
  readonly isBefore?: boolean
}

const COLOURS = 8
const DASHES: readonly number[][] = [[], [6, 3], [2, 3], [8, 3, 2, 3]]

/** A chart of lines, or of bars upon each other. `open` gets the place of a line and of a label. */
export function Chart({
  label,
  labels,
  lines,
  kind = 'lines',
  format = exact,
  open,
  height = 260,
}: {
  readonly label: string
  readonly labels: readonly string[]
  readonly lines: readonly Line[]
  readonly kind?: 'lines' | 'bars'
  readonly format?: (value: number | null) => string
  readonly open?: (line: number, index: number) => void
  readonly height?: number
}) {
  const [isTable, setTable] = useState(false)
  const [at, setAt] = useState<number | null>(null)
  const id = useId()
  const said = at === null ? '' : pointOf(labels, lines, at, format)
  function move(event: KeyboardEvent) {
    const last = labels.length - 1
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last }[event.key]
    if (step !== undefined) setAt(Math.max(0, Math.min(last, (at ?? (step < 0 ? last + 1 : -1)) + step)))
    else if (event.key === 'Enter' && at !== null) open?.(0, at)
    else return
    event.preventDefault()
  }
  return (
    <figure class="chart">
      <figcaption>
        <Legend lines={lines} format={format} at={at} />
        <button type="button" class="small" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          {isTable ? 'Chart' : 'Table'}
        </button>
      </figcaption>
      {isTable ? (
        <ChartTable {...{ label, labels, lines, format }} {...(open === undefined ? {} : { open })} />
      ) : (
        <div
          class="plot"
          role="img"
          aria-label={sentenceOf(label, labels, lines, format)}
          aria-describedby={id}
          tabIndex={0}
          onKeyDown={move}
        >
          <Plot {...{ labels, lines, kind, height, at, setAt }} {...(open === undefined ? {} : { open })} />
        </div>
      )}
      <output id={id} class="reading" aria-live="polite">
        {said}
      </output>
    </figure>
  )
}

function Legend({
  lines,
  format,
  at,
}: {
  readonly lines: readonly Line[]
  readonly format: (value: number | null) => string
  readonly at: number | null
}) {
  return (
    <ul class="legend">
      {lines.map(({ label, data, isBefore }, index) => (
        <li key={`${label} ${index}`} class={`series-${index % COLOURS} ${isBefore === true ? 'before' : ''}`}>
          <span class="swatch" aria-hidden="true" />
          {label}
          {at === null ? null : <b> {format(data[at] ?? null)}</b>}
        </li>
      ))}
    </ul>
  )
}

/** The numbers of a chart as a table: a row for each label. */
function ChartTable({
  label,
  labels,
  lines,
  format,
  open,
}: {
  readonly label: string
  readonly labels: readonly string[]
  readonly lines: readonly Line[]
  readonly format: (value: number | null) => string
  readonly open?: (line: number, index: number) => void
}) {
  return (
    <Table
      label={label}
      rows={labels.map((words, index) => ({ words, index }))}
      keyOf={({ index }) => index}
      columns={[
        { head: 'When', cell: ({ words }) => words },
        ...lines.map((line, place) => ({
          head: line.label,
          isNumber: true,
          cell: ({ index }: { index: number }) =>
            open === undefined ? (
              format(line.data[index] ?? null)
            ) : (
              <button type="button" class="link" onClick={() => open(place, index)}>
                {format(line.data[index] ?? null)}
              </button>
            ),
        })),
      ]}
    />
  )
}

/** What a point holds, in words. */
function pointOf(
  labels: readonly string[],
  lines: readonly Line[],
  at: number,
  format: (value: number | null) => string,
): string {
  const values = lines.map(({ label, data }) => `${label} ${format(data[at] ?? null)}`)
  return `${labels[at]}: ${values.join(', ')}`
}

/** The chart in a sentence: from where to where each line goes, and where it is highest. */
function sentenceOf(
  label: string,
  labels: readonly string[],
  lines: readonly Line[],
  format: (value: number | null) => string,
): string {
  const parts = lines.slice(0, COLOURS).map(({ label: name, data }) => {
    const highest = data.reduce<number>((best, value, index) => ((value ?? 0) > (data[best] ?? 0) ? index : best), 0)
    return `${name}: ${format(data[0] ?? null)} to ${format(data.at(-1) ?? null)}, highest ${format(data[highest] ?? null)} at ${labels[highest] ?? 'no time'}`
  })
  return `${label}, ${labels[0] ?? ''} to ${labels.at(-1) ?? ''}. ${parts.join('. ')}`
}

interface PlotProps {
  readonly labels: readonly string[]
  readonly lines: readonly Line[]
  readonly kind: 'lines' | 'bars'
  readonly height: number
  readonly at: number | null
  readonly setAt: (at: number | null) => void
  readonly open?: (line: number, index: number) => void
}

function Plot({ labels, lines, kind, height, at, setAt, open }: PlotProps) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot>(null)
  const openRef = useRef(open)
  openRef.current = open
  const drawn = JSON.stringify([labels, lines, kind, height])
  const colours = isDark.value
  useEffect(() => {
    let isGone = false
    let observer: ResizeObserver | undefined
    void import('./plot.ts').then(({ makePlot }) => {
      const element = box.current
      if (isGone || element === null) return
      const { options, data } = describe(labels, lines, kind)
      const made = makePlot({ ...options, height, width: Math.max(200, element.clientWidth) }, data, element, setAt)
      made.over.addEventListener('click', () => {
        const index = made.cursor.idx
        if (index != null) openRef.current?.(nearestLine(made, lines, index, kind), index)
      })
      observer = new ResizeObserver(() => made.setSize({ width: Math.max(200, element.clientWidth), height }))
      observer.observe(element)
      plot.current = made
    })
    return () => {
      isGone = true
      observer?.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
  }, [drawn, colours])
  useEffect(() => {
    const made = plot.current
    if (made == null || at === null) return
    made.setCursor({ left: made.valToPos(at, 'x'), top: 0 }, false)
  }, [at])
  return (
    <div ref={box} class={open === undefined ? '' : 'opens'} style={{ height: `${height}px` }} aria-hidden="true" />
  )
}

/** The line whose point lies next to the cursor. */
function nearestLine(plot: UPlot, lines: readonly Line[], index: number, kind: PlotProps['kind']): number {
  const top = plot.cursor.top ?? 0
  if (kind === 'bars') {
    const value = plot.posToVal(top, 'y')
    const sums = sumsOf(lines)
    const found = sums.findIndex((sum) => value <= (sum[index] ?? 0))
    return found === -1 ? lines.length - 1 : found
  }
  const distance = (line: Line) => Math.abs(plot.valToPos(line.data[index] ?? 0, 'y') - top)
  return lines.reduce((best, line, place) => (distance(line) < distance(lines[best] ?? line) ? place : best), 0)
}

/** Of each line the sum with all before it: the tops of bars upon each other. Negative ones go down. */
function sumsOf(lines: readonly Line[]): readonly (readonly number[])[] {
  const up = new Map<number, number>()
  const down = new Map<number, number>()
  return lines.map(({ data }) =>
    data.map((value, index) => {
      const sums = (value ?? 0) < 0 ? down : up
      const sum = (sums.get(index) ?? 0) + (value ?? 0)
      sums.set(index, sum)
      return sum
    }),
  )
}

function describe(labels: readonly string[], lines: readonly Line[], kind: PlotProps['kind']) {
  const isStacked = kind === 'bars'
  const drawn = isStacked ? sumsOf(lines) : lines.map(({ data }) => data)
  // The last of bars upon each other is the tallest, and drawn first.
  const order = lines.map((_, index) => (isStacked ? lines.length - 1 - index : index))
  const text = token('text-quiet')
  const grid = { stroke: token('line'), width: 1 }
  const axis = { stroke: text, grid, ticks: grid, font: '12px system-ui, sans-serif' }
  const options: Omit<Options, 'width' | 'height'> = {
    scales: {
      x: {
        time: false,
        ...(isStacked ? { range: (_, low, high) => [low - 0.5, high + 0.5] } : {}),
      },
      y: { range: (_, low, high) => [Math.min(0, low), high <= 0 ? 1 : high * 1.05] },
    },
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    padding: [8, 26, 0, 0],
    axes: [
      {
        ...axis,
        grid: { show: false },
        values: (_, at) => at.map((one) => (Number.isInteger(one) ? shortLabel(labels[one]) : '')),
        space: 90,
        incrs: [1, 2, 5, 7, 10, 14, 20, 30, 50, 100],
      },
      { ...axis, size: 56, values: (_, at) => at.map((one) => exact(one)) },
    ],
    series: [
      {},
      ...order.map((place) => ({
        label: lines[place]?.label ?? '',
        stroke: token(`series-${place % COLOURS}`),
        width: 2,
        alpha: lines[place]?.isBefore === true ? 0.45 : 1,
        ...(isStacked
          ? { fill: token(`series-${place % COLOURS}`) }
          : { dash: DASHES[Math.floor(place / 2) % DASHES.length] ?? [] }),
        points: { show: labels.length === 1 },
      })),
    ],
  }
  const data = [labels.map((_, index) => index), ...order.map((place) => drawn[place] ?? [])]
  return {
    options: isStacked ? { ...options, isBars: true } : options,
    data: data as unknown as AlignedData,
  }
}

/** `22-Nov-2026 14:00` is too long for an axis: the year goes. */
function shortLabel(words = ''): string {
  return words.replace(/-\d{4}\b/, '')
}
