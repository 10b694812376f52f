/**
 * Deletions and splits of persons: the only changes that events do not tell, so that the history of a
 * person can be told again from events. Table `separations`: project, number -> JSON of `Separation`.
 * Table `separated`: project, D, number -> nothing. Both sealed.
 */
import { type EventTables, keysOf, numberInKey, pairKey, tripleKey } from '../lmdb/keys.ts'
import { getJson, putJson, store } from '../lmdb/records.ts'

/** One deletion or split. */
export interface Separation {
  readonly kind: 'deleted' | 'split'
  /** S of the newest event before it. */
  readonly sequence: number
  readonly atMs: number
  /** D of all ids that the person had. */
  readonly ids: readonly number[]
  /** Of a split: the D that the person keeps. */
  readonly keptId: number
  /** Of a split: whether the person keeps its properties. */
  readonly keepsProperties: boolean
}

/** The tables of separations. */
export type SeparationTables = Pick<EventTables, 'separations' | 'separated'>

/** Stores a separation. Only in a write transaction. */
export function storeSeparation(
  tables: SeparationTables,
  projectId: number,
  number: number,
  separation: Separation,
): void {
  putJson(tables.separations, pairKey(projectId, number), separation)
  for (const id of separation.ids) store(tables.separated, tripleKey(projectId, id, number))
}

/** The separations that a D took part in, by their numbers, in order. Throws `DamagedRecordError`. */
export function loadSeparations(
  tables: SeparationTables,
  projectId: number,
  distinctId: number,
): ReadonlyMap<number, Separation> {
  const found = new Map<number, Separation>()
  for (const idKey of tables.separated.getKeys(keysOf(projectId, distinctId))) {
    const number = numberInKey(idKey, 8)
    const separation = getJson<Separation>(tables.separations, pairKey(projectId, number))
    if (separation !== null) found.set(number, separation)
  }
  return found
}
