/**
 * Stores the deletions and splits of persons, called *separations*. They are the only changes of persons that do not
 * follow from events. With events and separations, the state of a person at any earlier event can be computed again.
 * Every record ends with a checksum. Tables:
 *
 *   separations   project, number                     -> JSON of `Separation`
 *   separated     project, distinct ID number, number -> nothing
 */
import { type EventTables, keysOf, numberInKey, pairKey, tripleKey } from '../lmdb/keys.ts'
import { getJson, putJson, store } from '../lmdb/records.ts'

/** A deletion or a split of a person. */
export interface Separation {
  readonly kind: 'deleted' | 'split'
  /** The sequence number that the project's newest event had at the time of the deletion or split. */
  readonly sequence: number
  readonly atMs: number
  /** The distinct ID numbers of all ids that the person had. */
  readonly ids: readonly number[]
  /** For a split: the distinct ID number that the person keeps. */
  readonly keptId: number
  /** For a split: whether the person keeps its properties. */
  readonly keepsProperties: boolean
}

/** The tables that contain separations. */
export type SeparationTables = Pick<EventTables, 'separations' | 'separated'>

/** Stores a separation. Call it only within a write transaction. */
export function storeSeparation(
  tables: SeparationTables,
  projectId: number,
  number: number,
  separation: Separation,
): void {
  putJson(tables.separations, pairKey(projectId, number), separation)
  for (const id of separation.ids) store(tables.separated, tripleKey(projectId, id, number))
}

/**
 * Returns the separations in which a distinct_id took part, in order. The key is the number of the separation. Throws
 * `DamagedRecordError`.
 */
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
