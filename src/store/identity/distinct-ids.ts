/**
 * Distinct_ids as numbers. Each distinct_id of a project gets a number D, from 1 in order of first
 * appearance, for ever; segments store D.
 *
 * Table `distinct_ids`: project u32, text -> `D u32`. Table `distinct_texts`: project u32, D u32 ->
 * text, UTF-8. Both little-endian and sealed.
 */
import { randomFillSync } from 'node:crypto'
import { DISTINCT_ID_POINTS_MAX } from '../../base/limits.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { EventCells } from '../../rules/capture/types.ts'
import { distinctIdKey, type EventTables, NUMBER_MAX, pairKey } from '../lmdb/keys.ts'
import { need, peek, store } from '../lmdb/records.ts'
import { IdCache, type IdWords } from './id-cache.ts'
import { CACHED_ID_BYTES_MAX } from './limits.ts'

/** Memory of a new id beside its characters, with its two records. */
const ADDED_ID_BYTES = 250
/** Copies of a character of such an id, in bytes. */
const ADDED_UNIT_BYTES = 6
/** Behind the project. */
const ID_KEY_START = 4

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
  /** Given a number since the last commit. */
  added: string[]
  last: number
  /** Asked for since the cache forgot. */
  isUsed: boolean
}

/** Gives numbers to distinct_ids. For the one writing thread. */
export class DistinctIds {
  readonly #tables: DistinctIdTables
  readonly #bytesMax: number
  readonly #cache = new IdCache((keys) => void randomFillSync(keys))
  readonly #projects = new Map<number, ProjectIds>()
  /** Bytes of memory, estimated, of the numbers that were given since the last commit. */
  gatheredBytes = 0
  /** Whether the last number that was asked for is a new one. */
  wasAdded = false
  #current: ProjectIds | null = null
  #currentId = -1
  /** The bytes of an event's id, one object for all. */
  readonly #words: { -readonly [Field in keyof IdWords]: IdWords[Field] } = {
    ...{ words: new Int32Array(0), first: 0, byteCount: 0 },
  }

  constructor(tables: DistinctIdTables, bytesMax = CACHED_ID_BYTES_MAX) {
    this.#tables = tables
    this.#bytesMax = bytesMax
  }

  /**
   * The number of a distinct_id, given now if it has none. `lastId` tells the newest number of a
   * project that was not asked for before. About 0.1 us when cached, 2 us from the table.
   */
  idOf(projectId: number, text: string, lastId: () => number): number {
    const ids = this.#project(projectId, lastId)
    this.wasAdded = false
    const known = this.#find(projectId, text)
    return known === 0 ? this.#give(projectId, ids, text) : known
  }

  /** The same of the event that was read into cells, without a text of its id when it is cached. */
  idOfEvent(
    projectId: number,
    event: Sender,
    { idWords, idFirstWord, idBytes }: Pick<EventCells, 'idWords' | 'idFirstWord' | 'idBytes'>,
    lastId: () => number,
  ): number {
    if (idBytes === 0) return this.idOf(projectId, event.distinctId, lastId)
    const id = this.#words
    id.words = idWords
    id.first = idFirstWord
    id.byteCount = idBytes
    const cached = this.#cache.find(projectId, id)
    if (cached === 0) return this.idOf(projectId, event.distinctId, lastId)
    // So that a commit knows the newest number of each project with events.
    this.#project(projectId, lastId)
    this.wasAdded = false
    return cached
  }

  /** The number of a distinct_id, or 0 when the project has never seen it; `lastId` as in `idOf`. */
  find(projectId: number, text: string, lastId: () => number): number {
    this.#project(projectId, lastId)
    return this.#find(projectId, text)
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

  /** Stores new numbers, in the order of the ids. Only in a write transaction. */
  store(): void {
    for (const [projectId, ids] of this.#projects) {
      const before = ids.last - ids.added.length
      const added = ids.added.map((text, index) => ({
        key: distinctIdKey(projectId, text),
        number: before + index + 1,
      }))
      for (const { key, number } of added) {
        store(this.#tables.distinct_texts, pairKey(projectId, number), key.subarray(ID_KEY_START))
      }
      added.sort((a, b) => Buffer.compare(a.key, b.key))
      const bytes = Buffer.allocUnsafe(4)
      for (const { key, number } of added) {
        bytes.writeUInt32LE(number)
        store(this.#tables.distinct_ids, key, bytes)
      }
    }
  }

  /** After a commit: new numbers are stored, and the cache may forget. */
  settle(): void {
    for (const ids of this.#projects.values()) if (ids.added.length > 0) ids.added = []
    this.gatheredBytes = 0
    if (this.#cache.youngBytes * 2 <= this.#bytesMax) return
    this.#cache.rotate()
    for (const [projectId, ids] of this.#projects) {
      if (ids.isUsed) ids.isUsed = false
      else this.#projects.delete(projectId)
    }
    this.#current = null
    this.#currentId = -1
  }

  /** Bytes that the cache takes, about, and may take. */
  get cached(): { readonly bytes: number; readonly bytesMax: number } {
    return { bytes: this.#cache.bytes, bytesMax: this.#bytesMax }
  }

  /** Forgets the numbers that it has read. Not between `idOf` and `settle`. */
  release(): void {
    // Twice: the cache has two generations.
    this.#cache.rotate()
    this.#cache.rotate()
    this.#projects.clear()
    this.#current = null
    this.#currentId = -1
  }

  #find(projectId: number, text: string): number {
    const id = this.#cache.wordsOf(text)
    if (id === null) return loadDistinctId(this.#tables, projectId, text)
    const cached = this.#cache.find(projectId, id)
    if (cached !== 0) return cached
    const known = loadDistinctId(this.#tables, projectId, text)
    if (known !== 0) this.#cache.add(projectId, id, known)
    return known
  }

  #give(projectId: number, ids: ProjectIds, text: string): number {
    if (ids.last >= NUMBER_MAX) throw new RangeError('a project has too many distinct_ids')
    const id = this.#cache.wordsOf(text)
    // It would be given another number before the commit.
    if (id === null) throw new RangeError('a distinct_id was not cut')
    ids.last++
    this.wasAdded = true
    this.#cache.add(projectId, id, ids.last)
    ids.added.push(text)
    this.gatheredBytes += ADDED_ID_BYTES + text.length * ADDED_UNIT_BYTES
    return ids.last
  }

  #project(projectId: number, lastId: () => number): ProjectIds {
    if (projectId === this.#currentId && this.#current !== null) return this.#current
    this.#currentId = projectId
    const project = getOrAdd(this.#projects, projectId, () => ({
      added: [],
      last: lastId(),
      isUsed: true,
    }))
    project.isUsed = true
    this.#current = project
    return project
  }
}

/** An event that may make its distinct_id only when it is asked for. */
interface Sender {
  readonly distinctId: string
}

/** The distinct_ids of one project, who knows that of the event at hand. */
export class SenderIds {
  readonly #projectId: number
  readonly #ids: DistinctIds
  readonly #lastId: () => number
  #event: Sender | null = null
  #eventId = 0

  constructor(projectId: number, ids: DistinctIds, lastId: () => number) {
    this.#projectId = projectId
    this.#ids = ids
    this.#lastId = lastId
  }

  /** Says which D the event at hand has, so that it is not looked up again; null: there is no event. */
  setCurrent(event: Sender | null, distinctId: number): void {
    this.#event = event
    this.#eventId = distinctId
  }

  /** D of an event, or 0 when nobody has sent with its id. */
  ofEvent(event: Sender): number {
    return event === this.#event ? this.#eventId : this.find(event.distinctId)
  }

  /** As `DistinctIds.find`. */
  find(text: string): number {
    if (this.#isCurrent(text)) return this.#eventId
    return this.#ids.find(this.#projectId, text, this.#lastId)
  }

  /** As `DistinctIds.idOf`. */
  idOf(text: string): number {
    if (this.#isCurrent(text)) return this.#eventId
    return this.#ids.idOf(this.#projectId, text, this.#lastId)
  }

  /** As `DistinctIds.textOf`. */
  textOf(distinctId: number): string {
    return this.#ids.textOf(this.#projectId, distinctId)
  }

  #isCurrent(text: string): boolean {
    return this.#eventId !== 0 && text === this.#event?.distinctId
  }
}
