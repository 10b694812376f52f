/** Shows the paths that people took through a site as a Sankey diagram, which d3-sankey lays out, and as a table. */
import { type SankeyLink, type SankeyNode, sankey, sankeyLeft } from 'd3-sankey'
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

/** Returns where the nodes and the links of a diagram with this height are drawn. */
function layOut(edges: readonly Edge[], names: readonly string[], height: number) {
  const nodes = names.map((name) => ({ name }))
  const links = edges.map((edge) => ({ source: edge.source, target: edge.target, value: edge.value, edge }))
  const lay = sankey<{ name: string }, { edge: Edge }>()
    .nodeId(({ name }) => name)
    .nodeAlign(sankeyLeft)
  const area: [[number, number], [number, number]] = [
    [0, 4],
    [WIDTH, height - 4],
  ]
  return lay.nodeWidth(8).nodePadding(14).extent(area)({ nodes, links })
}

type Link = SankeyLink<{ name: string }, { edge: Edge }>

/** Returns the SVG path of a link, from the right side of its source to the left side of its target. */
function curveOf({ source, target, y0 = 0, y1 = 0 }: Link): string {
  // The layout has replaced the names at both ends of a link by nodes.
  const { x1: from = 0 } = source as SankeyNode<{ name: string }, { edge: Edge }>
  const { x0: to = 0 } = target as SankeyNode<{ name: string }, { edge: Edge }>
  const middle = (from + to) / 2
  return `M${from},${y0}C${middle},${y0},${middle},${y1},${to},${y1}`
}

function River({ edges, open }: Omit<PathsProps, 'query'>) {
  const names = [...new Set(edges.flatMap(({ source, target }) => [source, target]))]
  const height = Math.max(200, Math.min(900, names.length * COLUMN_HEIGHT))
  const { nodes, links } = layOut(edges, names, height)
  const label = `Paths: ${counted(edges.length, 'connection')}. The table below lists all of them.`
  return (
    <section class="sankey" aria-label="Picture" tabIndex={0}>
      <svg viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={label}>
        {links.map((link) => (
          <path
            key={`${link.edge.source} ${link.edge.target}`}
            class="sankey-link"
            d={curveOf(link)}
            stroke-width={Math.max(1, link.width ?? 1)}
            onClick={() => open?.(link.edge)}
          >
            <title>{`${itemOf(link.edge.source)} → ${itemOf(link.edge.target)}: ${link.value}`}</title>
          </path>
        ))}
        {nodes.map(({ name, x0 = 0, x1 = 0, y0 = 0, y1 = 0 }) => {
          const [x, anchor] = x1 > WIDTH - 10 ? [x0 - 6, 'end' as const] : [x1 + 6, 'start' as const]
          return (
            <g key={name}>
              <rect class="sankey-node" x={x0} y={y0} width={x1 - x0} height={Math.max(1, y1 - y0)} />
              <text x={x} y={(y0 + y1) / 2} text-anchor={anchor} dominant-baseline="middle">
                {itemOf(name).slice(-LABEL_MAX)}
              </text>
            </g>
          )
        })}
      </svg>
    </section>
  )
}
