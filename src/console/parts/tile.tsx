/** A tile of a dashboard: the answer of an insight under its title and range, or a text. */
import type { ComponentChildren } from 'preact'
import { type DashboardFilters, innerQuery, onDashboard, rangeWords } from '../base/query-address.ts'
import { Markdown } from './markdown.tsx'
import { Card } from './tiles.tsx'

/** An insight as dashboards hold it. */
export interface TileInsight {
  readonly id: number
  readonly short_id: string
  readonly name?: string | null
  readonly derived_name?: string | null
  readonly description?: string | null
  readonly query?: unknown
  readonly result?: unknown
  readonly last_refresh?: string | null
  readonly timezone?: string
  readonly error?: { readonly message: string } | null
}

/** The place of a tile in the twelve columns of a dashboard. */
interface TilePlace {
  readonly x: number
  readonly y: number
  readonly w: number
  readonly h: number
}

/** A tile as the API has it. `layouts.sm` is its place on a wide screen. */
export interface TileRecord {
  readonly id: number
  readonly layouts?: { readonly sm?: Partial<TilePlace> } | null
  readonly insight?: TileInsight | null
  readonly text?: { readonly body?: string } | null
}

/** The columns of a dashboard, and of a tile without a place. */
const COLUMNS = 12
const USUAL_WIDTH = 6

/** Returns the query of a tile, or null if it has none. */
export function queryOfTile(insight: TileInsight, filters: DashboardFilters) {
  const query = innerQuery(insight.query)
  return query && onDashboard(query, filters)
}

/** Returns tiles from top to bottom and from left to right. Tiles without a place come last, oldest first. */
export function inOrder(tiles: readonly TileRecord[]): readonly TileRecord[] {
  const keyOf = ({ layouts }: TileRecord) => (layouts?.sm?.y ?? Infinity) * COLUMNS + (layouts?.sm?.x ?? 0)
  return tiles.toSorted((a, b) => {
    const [one, other] = [keyOf(a), keyOf(b)]
    return one === other ? 0 : one - other
  })
}

/** Returns the width of a tile in columns. */
export function widthOf({ layouts }: TileRecord): number {
  const width = layouts?.sm?.w ?? USUAL_WIDTH
  return Math.max(1, Math.min(COLUMNS, Math.round(width)))
}

/** Returns the places of tiles in this order, row by row. */
export function placesOf(tiles: readonly TileRecord[], widths: readonly number[]): readonly TilePlace[] {
  let [x, y] = [0, 0]
  return tiles.map(({ layouts }, at) => {
    const w = widths[at] ?? USUAL_WIDTH
    const h = layouts?.sm?.h ?? 5
    if (x + w > COLUMNS) [x, y] = [0, y + h]
    const place = { x, y, w, h }
    x += w
    return place
  })
}

interface TileCardProps {
  readonly tile: TileRecord
  readonly filters: DashboardFilters
  readonly aside?: ComponentChildren
  /** True to leave out the description. */
  readonly isBrief?: boolean
  /** The answer of the insight. */
  readonly children: ComponentChildren
}

/** The frame of a tile with its title, its range and its description. A text is shown as it is. */
export function TileCard({ tile, filters, aside, isBrief = false, children }: TileCardProps) {
  const { insight, text } = tile
  const style = { '--columns': String(widthOf(tile)) }
  if (!insight) {
    return (
      <section class="card tile-card" style={style} aria-label="Text">
        {aside && <div class="tile-controls">{aside}</div>}
        <Markdown text={text?.body ?? ''} />
      </section>
    )
  }
  const query = queryOfTile(insight, filters)
  const range = query && rangeWords(query)
  return (
    <div class="tile-card" style={style}>
      <Card title={titleOf(insight)} aside={aside}>
        {(range || (!isBrief && insight.description)) && (
          <p class="quiet">
            {range}
            {range && !isBrief && insight.description && ' · '}
            {!isBrief && <bdi>{insight.description}</bdi>}
          </p>
        )}
        {children}
      </Card>
    </div>
  )
}

/** Returns the title of an insight. */
export function titleOf({ name, derived_name: derived }: TileInsight): string {
  return name || derived || 'Insight'
}
