/**
 * The tiles of dashboards, and an index of the tiles that show an insight. Call the methods that change tiles only
 * within a transaction of the environment.
 *
 * | table           | key                                  | value                  |
 * |-----------------|--------------------------------------|------------------------|
 * | dashboard_tiles | project u32, dashboard u32, tile u32 | `Tile`, JSON           |
 * | insight_tiles   | project u32, insight u32, tile u32   | dashboard number, JSON |
 */
import { TILES_MAX } from '../../rules/saved/limits.ts'
import type { Tile } from '../../rules/saved/saved.ts'
import { keysOf, numberInKey, tripleKey } from '../lmdb/keys.ts'
import { jsonOf, putJson } from '../lmdb/records.ts'
import { demandRoom } from './checks.ts'
import type { SavedEnvironment } from './saved-table.ts'

const TILE_OFFSET = 8

/** The values of a new tile. Only the dashboard is required. */
export type NewTile = Pick<Tile, 'dashboardId'> & Partial<Omit<Tile, 'id'>>

/** Reads and changes the tiles of all dashboards. */
export class DashboardTiles {
  readonly #environment: SavedEnvironment

  constructor(environment: SavedEnvironment) {
    this.#environment = environment
  }

  /** Returns the tiles of a dashboard, in the order in which they were added. */
  of(projectId: number, dashboardId: number): Tile[] {
    const tiles = jsonOf<Tile>(this.#tiles, keysOf(projectId, dashboardId))
    return [...tiles].map(({ value }) => value)
  }

  /** Returns the tiles that show an insight, in the order in which they were added. */
  showing(projectId: number, insightId: number): Pick<Tile, 'id' | 'dashboardId'>[] {
    const entries = jsonOf<number>(this.#insightTiles, keysOf(projectId, insightId))
    return Array.from(entries, ({ key, value: dashboardId }) => ({
      id: numberInKey(key, TILE_OFFSET),
      dashboardId,
    }))
  }

  /** Adds a tile. Throws 400 `invalid_input` if the dashboard is full. */
  add(projectId: number, tile: NewTile): void {
    const range = keysOf(projectId, tile.dashboardId)
    demandRoom(this.#tiles.getKeysCount(range), TILES_MAX, 'tiles of a dashboard')
    const id = this.#environment.nextNumber('tile')
    this.put(projectId, { insightId: null, text: null, layouts: {}, color: null, ...tile, id })
  }

  put(projectId: number, tile: Tile): void {
    const { id, dashboardId, insightId } = tile
    putJson(this.#tiles, tripleKey(projectId, dashboardId, id), tile)
    if (insightId !== null)
      putJson(this.#insightTiles, tripleKey(projectId, insightId, id), dashboardId)
  }

  /** Removes a tile. `insightId` is null if the tile shows a text. */
  remove(
    projectId: number,
    { id, dashboardId, insightId }: Pick<Tile, 'id' | 'dashboardId' | 'insightId'>,
  ): void {
    this.#tiles.removeSync(tripleKey(projectId, dashboardId, id))
    if (insightId !== null) this.#insightTiles.removeSync(tripleKey(projectId, insightId, id))
  }

  get #tiles() {
    return this.#environment.table('dashboard_tiles')
  }

  get #insightTiles() {
    return this.#environment.table('insight_tiles')
  }
}
