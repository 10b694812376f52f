/** Draws a chart as SVG, with lines or stacked bars in the colors of the theme. */
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks'
import { exact, short } from '../base/format.ts'
import { lookOf } from './series-look.ts'

/** A line of a chart. For each place on the horizontal axis, `data` contains a number, or null if there is none. */
export interface Line {
  readonly label: string
  readonly data: readonly (number | null)[]
  /** True if the line shows the previous period. It is drawn paler and dashed. */
  readonly isBefore?: boolean
  /** The index that determines the color of the line. The default is the index of the line itself. */
  readonly place?: number
}

/** How the series are drawn. */
export type PlotKind = 'lines' | 'bars'

/** The dashes of a line for a previous period, and of the part of a line whose period is not over. */
const BEFORE_DASH = '5 4'
const ONGOING_DASH = '2 4'
const HEIGHT = 260
/**
 * The margins of the chart in pixels. The left margin contains the numbers, and the bottom margin the times. The right
 * margin has room for the second half of the last time label.
 */
const [TOP, RIGHT, BOTTOM, LEFT] = [8, 26, 26, 56]
/**
 * In pixels: the distance of the time axis from the top of the chart, and the height of the annotation marks above the
 * axis.
 */
const [AXIS, MARK_PX] = [HEIGHT - BOTTOM, 13]
const LABEL_WIDTH = 90
const LABEL_STEPS = [1, 2, 5, 7, 10, 14, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000]
const TICKS = 5
const BAR_WIDTH_MAX = 60

/** Returns the style that gives a line its color. `place` is the index of the line. */
export function colorOf(line: Line, place: number): Record<string, string> {
  return { '--color': `var(--series-${lookOf(line.place ?? place).color})` }
}

/** Returns the dash pattern of a line. `place` is the index of the line. */
export function dashOf(line: Line, place: number): string | undefined {
  return line.isBefore ? BEFORE_DASH : lookOf(line.place ?? place).dash
}

/** Formats a value of a chart. */
export type ValueFormat = (value: number | null | undefined) => string

interface PlotProps {
  /** The labels of the time axis. */
  readonly labels: readonly string[]
  readonly lines: readonly Line[]
  readonly kind: PlotKind
  /** True if the last period is not over yet, so that its values may still change. */
  readonly isOpen: boolean
  /** True if the area below the first line is filled. */
  readonly isFilled: boolean
  readonly format: ValueFormat
  /** The index of the label under the cursor. Null if there is no cursor. */
  readonly at: number | null
  readonly setAt: (at: number | null) => void
  readonly open?: ((line: number, index: number) => void) | undefined
  /** Called after dragging over the chart, with the indexes of the first and the last label. */
  readonly select?: ((from: number, to: number) => void) | undefined
  /** The indexes of the labels that have an annotation. */
  readonly marks: ReadonlyMap<number, unknown> | undefined
  /** Called after a click on the time axis, with the index of the label. */
  readonly mark: ((index: number) => void) | undefined
  /** The content of the card beside the cursor. */
  readonly children?: ComponentChildren
}

/** The chart. A click opens the nearest line, and dragging selects several labels. */
export function Plot(props: PlotProps) {
  const { labels, lines, kind, isOpen, isFilled, format, at, setAt, open, select, marks, mark, children } = props
  /** The index of the label at which dragging began. Null if the reader does not drag. */
  const [start, setStart] = useState<number | null>(null)
  const wasDrag = useRef(false)
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  useEffect(() => {
    if (box.current === null) return
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(200, entry?.contentRect.width ?? 0)))
    observer.observe(box.current)
    return () => observer.disconnect()
  }, [])
  const scale = useMemo(() => scaleOf(labels.length, lines, kind, width), [labels, lines, kind, width])
  // The picture is memoized, because it does not depend on the cursor. Otherwise it would be drawn again whenever the
  // cursor moves.
  const picture = useMemo(
    () => (
      <Picture
        labels={labels}
        lines={lines}
        kind={kind}
        isOpen={isOpen}
        isFilled={isFilled}
        format={format}
        scale={scale}
      />
    ),
    [labels, lines, kind, isOpen, isFilled, format, scale],
  )
  const indexAt = ({ clientX, currentTarget }: MouseEvent) => {
    const { left } = (currentTarget as Element).getBoundingClientRect()
    return scale.indexOf(clientX - left)
  }
  const drop = (event: MouseEvent) => {
    const end = indexAt(event)
    wasDrag.current = start !== null && start !== end
    if (start !== null && start !== end) select?.(Math.min(start, end), Math.max(start, end))
    setStart(null)
  }
  const press = (event: MouseEvent) => {
    // After dragging, browsers also report a click, which is ignored.
    if (wasDrag.current) return
    const { top } = (event.currentTarget as Element).getBoundingClientRect()
    const index = indexAt(event)
    const y = event.clientY - top
    if (mark && y > AXIS - MARK_PX) mark(index)
    else open?.(nearestLine(lines, kind, scale, index, y), index)
  }
  return (
    <div ref={box} class={open ? 'plot-box opens' : 'plot-box'} style={{ height: `${HEIGHT}px` }}>
      {width > 0 && (
        <svg
          aria-hidden="true"
          width={width}
          height={HEIGHT}
          onPointerMove={(event) => setAt(indexAt(event))}
          onPointerLeave={() => {
            setAt(null)
            setStart(null)
          }}
          onPointerDown={(event) => select && setStart(indexAt(event))}
          onPointerUp={drop}
          onClick={press}
        >
          {/* The whole area reacts to the pointer, even where nothing is drawn. */}
          <rect width={width} height={HEIGHT} fill="none" pointer-events="all" />
          {picture}
          {mark && <rect class="axis" x={LEFT} y={AXIS - MARK_PX} width={width - LEFT} height={HEIGHT} />}
          {[...(marks?.keys() ?? [])].map((index) => (
            <path key={index} class="note-mark" d={`M${scale.x(index).toFixed(1)} ${AXIS}v-13h9l-2 4 2 4h-7`} />
          ))}
          {at !== null && start !== null && <Selected scale={scale} from={start} to={at} />}
          {at !== null && <Cursor lines={lines} kind={kind} scale={scale} at={at} />}
        </svg>
      )}
      {width > 0 && at !== null && (
        <div class="tip" style={besideCursor(scale.x(at), width)} aria-hidden="true">
          {children}
        </div>
      )}
    </div>
  )
}

/** The distance between the cursor and the card beside it, in pixels. */
const TIP_PX = 14

/** Returns the style that puts the card on the side of the cursor where there is more room. */
function besideCursor(x: number, width: number): Record<string, string> {
  const isLeft = x > width / 2
  return isLeft ? { right: `${width - x + TIP_PX}px` } : { left: `${x + TIP_PX}px` }
}

/**
 * Converts values to coordinates in the picture. `tops` are the values that are drawn. For stacked bars, they include
 * the values of the bars below.
 */
interface Scale {
  readonly width: number
  readonly tops: readonly (readonly (number | null)[])[]
  readonly ticks: readonly number[]
  /** The distance between two labels, in pixels. */
  readonly step: number
  readonly x: (index: number) => number
  readonly y: (value: number) => number
  readonly indexOf: (x: number) => number
}

function scaleOf(count: number, lines: readonly Line[], kind: PlotKind, width: number): Scale {
  const tops = kind === 'bars' ? sumsOf(lines) : lines.map(({ data }) => data)
  const values = tops.flat().map((value) => value ?? 0)
  const most = values.reduce((a, b) => Math.max(a, b), 0)
  const low = values.reduce((a, b) => Math.min(a, b), 0)
  const high = most <= 0 ? 1 : most * 1.05
  // A bar, or a single point, is in the middle of its interval. Lines go from one edge of the chart to the other.
  const margin = kind === 'bars' || count === 1 ? 0.5 : 0
  const step = (width - LEFT - RIGHT) / Math.max(1, count - 1 + 2 * margin)
  const place = (x: number) => Math.round((x - LEFT) / step - margin)
  const unit = (HEIGHT - TOP - BOTTOM) / (high - low)
  return {
    width,
    tops,
    step,
    ticks: ticksOf(low, high, values.every(Number.isInteger)),
    x: (index) => LEFT + (index + margin) * step,
    y: (value) => TOP + (high - value) * unit,
    indexOf: (x) => Math.max(0, Math.min(count - 1, place(x))),
  }
}

/**
 * Returns the tops of stacked bars: for each line, its values added to the values of all lines before it. Negative
 * values are stacked downward.
 */
function sumsOf(lines: readonly Line[]): readonly (readonly number[])[] {
  const [up, down] = [new Map<number, number>(), new Map<number, number>()]
  return lines.map(({ data }) =>
    data.map((value, index) => {
      const sums = (value ?? 0) < 0 ? down : up
      const sum = (sums.get(index) ?? 0) + (value ?? 0)
      sums.set(index, sum)
      return sum
    }),
  )
}

/**
 * Returns the round numbers within a range, in steps of 1, 2 or 5 times a power of ten. For counts, the steps are whole
 * numbers.
 */
function ticksOf(low: number, high: number, isCounted: boolean): readonly number[] {
  const rough = Math.max((high - low) / TICKS, isCounted ? 1 : 0)
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * ([1, 2, 5].find((one) => one * power >= rough) ?? 10)
  const first = Math.ceil(low / step)
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, index) => (first + index) * step)
}

type DrawnProps = Pick<PlotProps, 'lines' | 'kind'> & { readonly scale: Scale }
type PictureProps = DrawnProps & Pick<PlotProps, 'labels' | 'isOpen' | 'isFilled' | 'format'>

function Picture({ labels, lines, kind, isOpen, isFilled, format, scale }: PictureProps) {
  const { width, ticks, step, x, y, tops } = scale
  const id = useId()
  // If all labels are hours of the same day, the day is left out of the labels.
  const [day = ''] = /^\d+ [A-Z][a-z]{2}, /.exec(labels[0] ?? '') ?? []
  const isOneDay = labels.every((words) => words.startsWith(day))
  const stride = LABEL_STEPS.find((one) => one * step >= LABEL_WIDTH) ?? labels.length
  return (
    <>
      {ticks.map((value) => (
        <g key={value}>
          <line class="grid-line" x1={LEFT} x2={width - RIGHT} y1={y(value)} y2={y(value)} />
          <text x={LEFT - 8} y={y(value) + 4} text-anchor="end">
            {format === exact && Math.abs(value) >= 10_000 ? short(value) : format(value)}
          </text>
        </g>
      ))}
      {labels.map((words, index) =>
        index % stride === 0 ? (
          <text key={index} x={x(index)} y={HEIGHT - 6} text-anchor="middle">
            {isOneDay ? shortLabel(words.slice(day.length)) : shortLabel(words)}
          </text>
        ) : null,
      )}
      {lines.map((line, place) => {
        const values = tops[place] ?? []
        const key = `${line.label} ${place}`
        const look = { class: `${kind} ${line.isBefore ? 'before' : ''}`, style: colorOf(line, place) }
        // All periods of a line for the previous period are over, so no part of this line is drawn as ongoing.
        const last = values.length - (isOpen && !line.isBefore ? 2 : 0)
        if (kind === 'bars') {
          const isOver = (index: number) => index <= last
          return (
            <g key={key} {...look}>
              <Hatching id={`${id}-${place}`} />
              <path d={barsOf(line, values, scale, isOver)} />
              <path
                class="ongoing"
                fill={`url(#${id}-${place})`}
                d={barsOf(line, values, scale, (index) => !isOver(index))}
              />
            </g>
          )
        }
        return (
          <g key={key} {...look}>
            {isFilled && place === 0 && <path class="area" d={areaOf(values, scale)} />}
            <path stroke-dasharray={dashOf(line, place)} d={lineOf(values.slice(0, last + 1), 0, scale)} />
            <path class="ongoing" stroke-dasharray={ONGOING_DASH} d={lineOf(values.slice(last), last, scale)} />
          </g>
        )
      })}
      {labels.length === 1 && kind === 'lines' && <Dots lines={lines} scale={scale} at={0} />}
    </>
  )
}

/**
 * Returns the SVG path of a line. `first` is the index of the label of its first value. Where a value is missing, the
 * line has a gap.
 */
function lineOf(values: readonly (number | null)[], first: number, { x, y }: Scale): string {
  const isFirst = (index: number) => index === 0 || values[index - 1] === null
  const points = values.map((value, index) =>
    value === null ? '' : `${isFirst(index) ? 'M' : 'L'}${x(first + index).toFixed(1)} ${y(value).toFixed(1)}`,
  )
  return points.join('')
}

/** Returns the SVG path of the area between a line and zero. A missing value counts as zero. */
function areaOf(values: readonly (number | null)[], { x, y }: Scale): string {
  if (values.length < 2) return ''
  const points = values.map((value, index) => `L${x(index).toFixed(1)} ${y(value ?? 0).toFixed(1)}`)
  const zero = y(0).toFixed(1)
  return `M${x(0).toFixed(1)} ${zero}${points.join('')}L${x(values.length - 1).toFixed(1)} ${zero}z`
}

/** The pattern that fills bars whose period is not over. */
function Hatching({ id }: { id: string }) {
  return (
    <pattern id={id} width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect class="hatch-ground" width="6" height="6" />
      <line class="hatch" y2="6" />
    </pattern>
  )
}

/**
 * Returns the SVG path of the bars of one series. Each bar reaches down to the bar below it. Only bars for which
 * `isWanted` returns true are drawn.
 */
function barsOf(
  { data }: Line,
  tops: readonly (number | null)[],
  { x, y, step }: Scale,
  isWanted: (index: number) => boolean,
): string {
  const width = Math.min(BAR_WIDTH_MAX, step * 0.7)
  const boxes = tops.map((top, index) => {
    if (!data[index] || !isWanted(index)) return ''
    const [from, to] = [y(top ?? 0), y((top ?? 0) - (data[index] ?? 0))]
    return `M${(x(index) - width / 2).toFixed(1)} ${from.toFixed(1)}h${width.toFixed(1)}V${to.toFixed(1)}h${(-width).toFixed(1)}z`
  })
  return boxes.join('')
}

function Dots({ lines, scale: { tops, x, y }, at }: Omit<DrawnProps, 'kind'> & { readonly at: number }) {
  return lines.map((line, place) => {
    const value = tops[place]?.[at]
    if (value == null) return null
    return (
      <circle key={`${line.label} ${place}`} class="dot" style={colorOf(line, place)} cx={x(at)} cy={y(value)} r={4} />
    )
  })
}

function Cursor({ lines, kind, scale, at }: DrawnProps & { readonly at: number }) {
  const x = scale.x(at)
  return (
    <>
      <line class="cursor" x1={x} x2={x} y1={TOP} y2={HEIGHT - BOTTOM} />
      {kind === 'lines' && <Dots lines={lines} scale={scale} at={at} />}
    </>
  )
}

function Selected({ scale: { x }, from, to }: { scale: Scale; from: number; to: number }) {
  const [left, right] = [x(Math.min(from, to)), x(Math.max(from, to))]
  return <rect class="selected" x={left} width={right - left} y={TOP} height={HEIGHT - BOTTOM - TOP} />
}

/**
 * Returns the index of the line whose point at the label `index` is nearest to the y coordinate `at`. For bars, returns
 * the index of the bar that contains `at`, or else of the nearest bar.
 */
function nearestLine(lines: readonly Line[], kind: PlotKind, { tops, y }: Scale, index: number, at: number): number {
  const reach = (place: number) => {
    const top = y(tops[place]?.[index] ?? 0)
    if (kind === 'lines') return Math.abs(top - at)
    const bottom = y((tops[place]?.[index] ?? 0) - (lines[place]?.data[index] ?? 0))
    return Math.max(Math.min(top, bottom) - at, at - Math.max(top, bottom), 0)
  }
  return lines.reduce((best, _, place) => (reach(place) < reach(best) ? place : best), 0)
}

/**
 * Returns a label without its weekday and its year, because a complete label would be too long for the axis. A label
 * that is a month, such as `May 2026`, keeps its year.
 */
function shortLabel(words: string): string {
  if (/^[A-Z][a-z]{2} \d{4}$/.test(words)) return words
  return words.replace(/^[A-Z][a-z]{2} (?=\d)/, '').replace(/[- ]\d{4}\b/, '')
}
