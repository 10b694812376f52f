/**
 * Deletions and splits of persons: the only changes that events do not tell, so that the history of a
 * person can be told again from events. Table `separations`: project, number -> JSON of `Separation`.
 * Table `separated`: project, D, number -> nothing. Both sealed.
 */
import { emptyValue } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { NUMBER_MAX, numberInKey, pairKey, tripleKey } from '../lmdb/keys.ts'
import { getJson, putJson } from '../lmdb/records.ts'

const SEPARATIONS = 'separations'

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
export interface SeparationTables {
  readonly separations: Table
  readonly separated: Table
}

/** Stores a separation. Only in a write transaction. */
export function storeSeparation(
  tables: SeparationTables,
  projectId: number,
  number: number,
  separation: Separation,
): void {
  putJson(tables.separations, pairKey(projectId, number), separation)
  for (const id of separation.ids) {
    const idKey = tripleKey(projectId, id, number)
    void tables.separated.put(idKey, emptyValue(idKey))
  }
}

/** The separations that a D took part in, by their numbers, in order. Throws `DamagedRecordError`. */
export function loadSeparations(
  tables: SeparationTables,
  projectId: number,
  distinctId: number,
): ReadonlyMap<number, Separation> {
  const range = {
    start: tripleKey(projectId, distinctId, 0),
    end: tripleKey(projectId, distinctId, NUMBER_MAX),
  }
  const found = new Map<number, Separation>()
  for (const idKey of tables.separated.getKeys(range)) {
    const number = numberInKey(idKey, 8)
    const key = pairKey(projectId, number)
    const separation = getJson<Separation>(tables.separations, SEPARATIONS, key)
    if (separation !== null) found.set(number, separation)
  }
  return found
}
