/**
 * Distinct_ids as numbers. Each distinct_id of a project gets a number D, from 1 in order of first
 * appearance, for ever; segments store D.
 *
 * Table `distinct_ids`: project u32, text -> `D u32`. Table `distinct_texts`: project u32, D u32 ->
 * text, UTF-8. Both little-endian and sealed.
 */
import { DISTINCT_ID_POINTS_MAX } from '../../base/limits.ts'
import { getOrAdd } from '../../base/maps.ts'
import { distinctIdKey, type EventTables, NUMBER_MAX, pairKey } from '../lmdb/keys.ts'
import { need, peek, store } from '../lmdb/records.ts'
import { CACHED_IDS_MAX } from './limits.ts'

/** The tables of distinct_ids. */
export type DistinctIdTables = Pick<EventTables, 'distinct_ids' | 'distinct_texts'>

/** The number of a distinct_id, or 0 when the project has never seen it. Throws `DamagedRecordError`. */
export function loadDistinctId(tables: DistinctIdTables, projectId: number, text: string): number {
  // They are cut when they are stored, and LMDB takes no longer keys.
  if (text.length > 2 * DISTINCT_ID_POINTS_MAX) return 0
  return peek(tables.distinct_ids, distinctIdKey(projectId, text), 4)?.readUInt32LE() ?? 0
}

/** The distinct_id with number D. Throws `DamagedRecordError`, also when there is none. */
export function loadDistinctText(
  tables: DistinctIdTables,
  projectId: number,
  distinctId: number,
): string {
  return need(tables.distinct_texts, pairKey(projectId, distinctId)).toString('utf8')
}

/** The distinct_ids of one project in the processing thread. */
interface ProjectIds {
  /** Seen lately; becomes `old` when there are too many. */
  young: Map<string, number>
  old: Map<string, number>
  /** Given a number since the last commit. */
  added: string[]
  last: number
  /** The one asked for last, and its number. */
  lastText: string
  lastTextId: number
}

/** Gives numbers to distinct_ids. For the one writing thread. */
export class DistinctIds {
  readonly #tables: DistinctIdTables
  readonly #entriesMax: number
  readonly #projects = new Map<number, ProjectIds>()
  /** Whether the last `idOf` gave a new number. */
  wasAdded = false
  #current: ProjectIds | null = null
  #currentId = -1

  constructor(tables: DistinctIdTables, entriesMax = CACHED_IDS_MAX) {
    this.#tables = tables
    this.#entriesMax = entriesMax
  }

  /**
   * The number of a distinct_id, given now if it has none. `lastId` tells the newest number of a
   * project that was not asked for before. About 0.1 us when cached, 2 us from the table.
   */
  idOf(projectId: number, text: string, lastId: () => number): number {
    const ids = this.#project(projectId, lastId)
    this.wasAdded = false
    // Events of one sender mostly come together.
    if (text === ids.lastText && ids.lastTextId !== 0) return ids.lastTextId
    const young = ids.young.get(text)
    if (young !== undefined) {
      ids.lastText = text
      ids.lastTextId = young
      return young
    }
    const known = ids.old.get(text) ?? loadDistinctId(this.#tables, projectId, text)
    if (known !== 0) {
      ids.young.set(text, known)
      return known
    }
    if (ids.last >= NUMBER_MAX) throw new RangeError('a project has too many distinct_ids')
    ids.last++
    this.wasAdded = true
    ids.young.set(text, ids.last)
    ids.added.push(text)
    return ids.last
  }

  /** The number of a distinct_id, or 0 when the project has never seen it; `lastId` as in `idOf`. */
  find(projectId: number, text: string, lastId: () => number): number {
    const ids = this.#project(projectId, lastId)
    const cached = ids.young.get(text) ?? ids.old.get(text)
    if (cached !== undefined) return cached
    const known = loadDistinctId(this.#tables, projectId, text)
    if (known !== 0) ids.young.set(text, known)
    return known
  }

  /** The text of a number of the project, also of one that is not committed yet. */
  textOf(projectId: number, distinctId: number): string {
    const ids = this.#projects.get(projectId)
    const committed = ids === undefined ? distinctId : ids.last - ids.added.length
    const added = ids?.added[distinctId - committed - 1]
    return added ?? loadDistinctText(this.#tables, projectId, distinctId)
  }

  /** The newest number of a project that was asked for, else null. */
  lastOf(projectId: number): number | null {
    return this.#projects.get(projectId)?.last ?? null
  }

  /** Stores new numbers. Only in a write transaction. */
  store(): void {
    for (const [projectId, ids] of this.#projects) {
      let distinctId = ids.last - ids.added.length
      const number = Buffer.allocUnsafe(4)
      for (const text of ids.added) {
        number.writeUInt32LE(++distinctId)
        store(this.#tables.distinct_ids, distinctIdKey(projectId, text), number)
        store(this.#tables.distinct_texts, pairKey(projectId, distinctId), Buffer.from(text))
      }
    }
  }

  /** After a commit: new numbers are stored, and the cache may forget. */
  settle(): void {
    let entries = 0
    for (const ids of this.#projects.values()) {
      if (ids.added.length > 0) ids.added = []
      entries += ids.young.size
    }
    if (entries * 2 <= this.#entriesMax) return
    for (const [projectId, ids] of this.#projects) {
      if (ids.young.size === 0) this.#projects.delete(projectId)
      ids.old = ids.young
      ids.young = new Map()
    }
    this.#current = null
    this.#currentId = -1
  }

  #project(projectId: number, lastId: () => number): ProjectIds {
    if (projectId === this.#currentId && this.#current !== null) return this.#current
    this.#currentId = projectId
    this.#current = getOrAdd(this.#projects, projectId, () => ({
      ...{ young: new Map<string, number>(), old: new Map<string, number>(), added: [] },
      ...{ last: lastId(), lastText: '', lastTextId: 0 },
    }))
    return this.#current
  }
}
