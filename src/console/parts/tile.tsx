/** A tile of a dashboard: the answer to the query of an insight, with its title and its date range, or a text. */
import type { ComponentChildren } from 'preact'
import { type DashboardFilters, innerQuery, onDashboard, rangeWords } from '../base/query-address.ts'
import { Markdown } from './markdown.tsx'
import { Card } from './tiles.tsx'

/** An insight in the form in which dashboards contain it. */
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

/** Where a tile is in the twelve columns of a dashboard, and how large it is. */
interface TilePlace {
  readonly x: number
  readonly y: number
  readonly w: number
  readonly h: number
}

/** A tile in the form of the API. `layouts.sm` is its position and size on a wide screen. */
export interface TileRecord {
  readonly id: number
  readonly layouts?: { readonly sm?: Partial<TilePlace> } | null
  readonly insight?: TileInsight | null
  readonly text?: { readonly body?: string } | null
}

/** The number of columns of a dashboard, and the number of columns of a tile without a position. */
const COLUMNS = 12
const USUAL_WIDTH = 6

/** Returns the query of a tile with the filters of the dashboard. Returns null if the insight has no query. */
export function queryOfTile(insight: TileInsight, filters: DashboardFilters) {
  const query = innerQuery(insight.query)
  return query && onDashboard(query, filters)
}

/**
 * Returns the tiles in the order in which they are shown: from top to bottom, and from left to right. Tiles without a
 * position come last, in their original order.
 */
export function inOrder(tiles: readonly TileRecord[]): readonly TileRecord[] {
  const keyOf = ({ layouts }: TileRecord) => (layouts?.sm?.y ?? Infinity) * COLUMNS + (layouts?.sm?.x ?? 0)
  return tiles.toSorted((a, b) => {
    const [one, other] = [keyOf(a), keyOf(b)]
    return one === other ? 0 : one - other
  })
}

/** Returns how many columns a tile takes. */
export function widthOf({ layouts }: TileRecord): number {
  const width = layouts?.sm?.w ?? USUAL_WIDTH
  return Math.max(1, Math.min(COLUMNS, Math.round(width)))
}

/** Lays out tiles row by row, in the order of `tiles` and with these widths in columns. Returns their positions. */
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
  /** True if the description is not shown. */
  readonly isBrief?: boolean
  /** The answer to the query of the insight. */
  readonly children: ComponentChildren
}

/**
 * The frame of a tile, with the title, the date range and the description of its insight. A tile that contains a text
 * has none of these.
 */
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
