/** Shows the paths that people took through a site as a Sankey diagram and as a table. */
import { seconds } from '../base/format.ts'
import { counted } from '../base/labels.ts'
import type { Query } from '../base/queries.ts'
import type { PersonsUrl } from './behind.tsx'
import { ExportMenu } from './copy.tsx'
import { Table } from './table.tsx'

/** A transition from one step of a path to the next. The name `2_/about` means that /about is the second step. */
export interface Edge {
  readonly source: string
  readonly target: string
  readonly value: number
  readonly average_conversion_time: number
  readonly persons_url?: PersonsUrl
}

const WIDTH = 640
const COLUMN_HEIGHT = 34
const LABEL_MAX = 26

/** Returns the name of a step without its number, and without the host if it is a URL. */
function itemOf(step: string): string {
  return step.slice(step.indexOf('_') + 1).replace(/^https?:\/\/[^/]+\/?/, '/')
}

/** Returns the name of a step with its number, for readers. */
function placedOf(step: string): string {
  return `${step.slice(0, step.indexOf('_'))}. ${itemOf(step)}`
}

interface PathsProps {
  readonly edges: readonly Edge[]
  readonly query: Query
  /** Opens the list of the people who took a transition. Undefined if the reader may not see people. */
  readonly open: ((edge: Edge) => void) | undefined
}

/** Shows the diagram, and a table of the same transitions. */
export function Paths({ edges, query, open }: PathsProps) {
  return (
    <>
      <River edges={edges} open={open} />
      <Table
        label="Connections"
        rows={edges}
        keyOf={({ source, target }) => `${source} ${target}`}
        open={open}
        columns={[
          ['From', ({ source }) => placedOf(source)],
          ['To', ({ target }) => placedOf(target)],
          ['Times', 'value', 'count'],
          ['Mean time', ({ average_conversion_time: ms }) => seconds(ms / 1000), 'number minor'],
        ]}
      />
      <ExportMenu name="paths" rows={() => edges.map(rowOf)} query={query} />
    </>
  )
}

/** Returns a transition as a row for a file. */
function rowOf({ source, target, value, average_conversion_time: ms }: Edge): object {
  return { from: placedOf(source), to: placedOf(target), times: value, mean_seconds: Math.round(ms / 1000) }
}

/**
 * A step in the diagram. Its bar is as high as its share of the people. `in` and `out` are y coordinates: the next link
 * that ends at the bar is drawn at `in`, and the next link that starts at the bar is drawn at `out`.
 */
interface Bar {
  readonly name: string
  readonly step: number
  readonly value: number
  x: number
  y: number
  height: number
  in: number
  out: number
}

const BAR_WIDTH = 8
const GAP = 14
const MARGIN = 4

function sumOf(bars: readonly Bar[]): number {
  return bars.reduce((sum, { value }) => sum + value, 0)
}

/**
 * Lays out a diagram of this height. Each column contains the bars with the same step number. A bar is placed near the
 * bars that lead to it, so that few links cross. Returns the bars, and the links with the y coordinates of their ends.
 */
function layOut(edges: readonly Edge[], height: number) {
  const names = [...new Set(edges.flatMap(({ source, target }) => [source, target]))]
  const timesAt = (end: 'source' | 'target', name: string) =>
    edges.reduce((sum, edge) => sum + (edge[end] === name ? edge.value : 0), 0)
  const bars = names.map((name): Bar => {
    const value = Math.max(timesAt('source', name), timesAt('target', name))
    return { name, step: Number.parseInt(name, 10) || 0, value, x: 0, y: 0, height: 0, in: 0, out: 0 }
  })
  const barOf = new Map(bars.map((bar) => [bar.name, bar]))
  const steps = [...new Set(bars.map(({ step }) => step))].toSorted((a, b) => a - b)
  const columns = steps.map((step) => bars.filter((bar) => bar.step === step))
  const most = Math.max(...columns.map(({ length }) => length))
  const gap = Math.min(GAP, height / 2 / most)
  const [top, bottom] = [MARGIN, height - MARGIN]
  const scale = Math.min(...columns.map((column) => (bottom - top - gap * (column.length - 1)) / sumOf(column)))
  for (const [index, column] of columns.entries()) {
    // For each bar, the mean y coordinate of the bars that lead to it. A bar from which more people come has more
    // weight.
    const wanted = new Map(
      column.map((bar) => {
        const before = edges.filter(({ target }) => target === bar.name)
        const middles = before.map(({ source, value }) => value * middleOf(barOf.get(source) ?? bar))
        return [bar, middles.reduce((sum, one) => sum + one, 0) / bar.value]
      }),
    )
    column.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0))
    let free = top
    for (const bar of column) {
      bar.x = (index * (WIDTH - BAR_WIDTH)) / Math.max(1, columns.length - 1)
      bar.height = bar.value * scale
      bar.y = Math.max(free, (wanted.get(bar) ?? 0) - bar.height / 2)
      free = bar.y + bar.height + gap
    }
    free = bottom
    for (const bar of column.toReversed()) {
      bar.y = Math.min(bar.y, free - bar.height)
      bar.in = bar.y
      bar.out = bar.y
      free = bar.y - gap
    }
  }
  const links = edges.map((edge) => {
    const [from, to] = [edge.source, edge.target].map((name) => barOf.get(name)) as [Bar, Bar]
    return { edge, from, to, width: edge.value * scale, start: 0, end: 0 }
  })
  for (const link of links.toSorted((a, b) => a.to.y - b.to.y)) {
    link.start = link.from.out + link.width / 2
    link.from.out += link.width
  }
  for (const link of links.toSorted((a, b) => a.from.y - b.from.y)) {
    link.end = link.to.in + link.width / 2
    link.to.in += link.width
  }
  return { bars, links }
}

function middleOf({ y, height }: Bar): number {
  return y + height / 2
}

function River({ edges, open }: Omit<PathsProps, 'query'>) {
  const { size: count } = new Set(edges.flatMap(({ source, target }) => [source, target]))
  const height = Math.max(200, Math.min(900, count * COLUMN_HEIGHT))
  const { bars, links } = layOut(edges, height)
  const label = `Paths: ${counted(edges.length, 'connection')}. The table below lists all of them.`
  return (
    <section class="sankey" aria-label="Picture" tabIndex={0}>
      <svg viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={label}>
        {links.map(({ edge, from, to, width, start, end }) => {
          const middle = (from.x + BAR_WIDTH + to.x) / 2
          return (
            <path
              key={`${edge.source} ${edge.target}`}
              class="sankey-link"
              d={`M${from.x + BAR_WIDTH},${start}C${middle},${start},${middle},${end},${to.x},${end}`}
              stroke-width={Math.max(1, width)}
              onClick={() => open?.(edge)}
            >
              <title>{`${itemOf(edge.source)} → ${itemOf(edge.target)}: ${edge.value}`}</title>
            </path>
          )
        })}
        {bars.map((bar) => {
          const { name, x, y, height: size } = bar
          const isLast = x + BAR_WIDTH > WIDTH - 10
          return (
            <g key={name}>
              <rect class="sankey-node" x={x} y={y} width={BAR_WIDTH} height={Math.max(1, size)} />
              <text
                x={isLast ? x - 6 : x + BAR_WIDTH + 6}
                y={middleOf(bar)}
                text-anchor={isLast ? 'end' : 'start'}
                dominant-baseline="middle"
              >
                {itemOf(name).slice(-LABEL_MAX)}
              </text>
            </g>
          )
        })}
      </svg>
    </section>
  )
}
