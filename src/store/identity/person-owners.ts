/**
 * Who owns a distinct_id: the number P of a person for each D. An event belongs to the owner of its D at
 * the time of reading, so that merges and splits show at once in all history.
 *
 * Table `person_owners`: project, D / 256 -> 256 words u32 little-endian, one for each D: the low 30 bits
 * are P (0: nobody), bit 30 says that the D was once taken from its person by a deletion or a split, bit
 * 31 that an event without a person has used it while it belonged to nobody. Table `owner_since`:
 * project, D -> S u32: the owner has only events behind S, earlier ones belong to nobody for ever, because
 * their person was deleted.
 */
import { bytesOf } from '../lmdb/codec.ts'
import { type EventTables, pairKey } from '../lmdb/keys.ts'
import { load, store } from '../lmdb/records.ts'
import { OWNER_CHUNKS_NOTED_MAX } from './limits.ts'
import { NUMBER_BYTES, numberBytes } from './person-records.ts'

/** How many D one record tells the owners of. */
export const OWNER_CHUNK_WORDS = 256
const CHUNK_BYTES = OWNER_CHUNK_WORDS * 4
/** The largest P. */
export const PERSON_NUMBER_MAX = 0x3fff_ffff
const SEPARATED = 0x4000_0000
const PERSONLESS = 0x8000_0000

/** The tables of owners. */
export type OwnerTables = Pick<EventTables, 'person_owners' | 'owner_since'>

/** The P that owns the event of distinct_id D with sequence S, or 0. Throws `DamagedRecordError`. */
export function loadOwner(
  tables: OwnerTables,
  projectId: number,
  distinctId: number,
  sequence: number,
): number {
  const word = wordOf(loadOwners(tables, projectId, distinctId), distinctId)
  if ((word & SEPARATED) === 0) return word & PERSON_NUMBER_MAX
  return sequence > loadSince(tables, projectId, distinctId) ? word & PERSON_NUMBER_MAX : 0
}

/** The P that owns a distinct_id now, or 0. Throws `DamagedRecordError`. */
export function loadOwnerNow(tables: OwnerTables, projectId: number, distinctId: number): number {
  return ownerAmong(loadOwners(tables, projectId, distinctId), distinctId)
}

/** S up to which events of D belong to nobody; 0 for nearly all. Throws `DamagedRecordError`. */
export function loadSince(tables: OwnerTables, projectId: number, distinctId: number): number {
  const since = load(tables.owner_since, pairKey(projectId, distinctId), NUMBER_BYTES)
  return since?.readUInt32LE() ?? 0
}

/** The owners of a stretch of D, of which `distinctId` is one; null: none has any. Throws `DamagedRecordError`. */
export function loadOwners(
  tables: OwnerTables,
  projectId: number,
  distinctId: number,
): Buffer | null {
  return loadChunk(tables, projectId, Math.floor(distinctId / OWNER_CHUNK_WORDS)) ?? null
}

/** The P that owns a D now, or 0, by the owners of its stretch. */
export function ownerAmong(owners: Buffer | null, distinctId: number): number {
  return wordOf(owners, distinctId) & PERSON_NUMBER_MAX
}

function wordOf(owners: Buffer | null, distinctId: number): number {
  return owners?.readUInt32LE((distinctId % OWNER_CHUNK_WORDS) * 4) ?? 0
}

/** The record of 256 D. Throws `DamagedRecordError`. */
function loadChunk(tables: OwnerTables, projectId: number, chunk: number): Buffer | undefined {
  return load(tables.person_owners, pairKey(projectId, chunk), CHUNK_BYTES)
}

/**
 * Where owners have changed lately: who has read all of them reads those again, and no others. A function of the
 * log, however it was divided into commits.
 */
export interface OwnerChanges {
  /** How many changes there were. */
  readonly count: number
  /** The chunks of all changes behind this count are among `chunks`. */
  readonly since: number
  /** Pairs: D / 256, and the number of the newest change there; in the order of these. */
  readonly chunks: readonly number[]
}

/** Of a project whose owners have never changed. */
export const NO_OWNER_CHANGES: OwnerChanges = { count: 0, since: 0, chunks: [] }

/** The owners of one project in the processing thread: 4 bytes for each D that was asked for or is near one. */
export class ProjectOwners {
  readonly #tables: OwnerTables
  readonly #projectId: number
  readonly #chunks: (Uint32Array | undefined)[] = []
  readonly #changed = new Set<number>()
  readonly #since = new Map<number, number>()
  /** The number of the newest change of a chunk, the oldest first. */
  readonly #changes = new Map<number, number>()
  #count: number
  #changesSince: number

  /** `changes`: those that are stored. */
  constructor(tables: OwnerTables, projectId: number, changes: OwnerChanges) {
    this.#tables = tables
    this.#projectId = projectId
    this.#count = changes.count
    this.#changesSince = changes.since
    const { chunks } = changes
    for (let at = 0; at < chunks.length; at += 2) {
      this.#changes.set(chunks[at] ?? 0, chunks[at + 1] ?? 0)
    }
  }

  /** How many changes there were, stored or not. */
  get changeCount(): number {
    return this.#count
  }

  /** To be stored with what changed. */
  get changes(): OwnerChanges {
    return { count: this.#count, since: this.#changesSince, chunks: [...this.#changes].flat() }
  }

  /** The P that owns a D, or 0. No allocation. */
  ownerOf(distinctId: number): number {
    return this.#word(distinctId) & PERSON_NUMBER_MAX
  }

  setOwner(distinctId: number, number: number): void {
    const word = this.#word(distinctId)
    this.#setWord(distinctId, (word & ~PERSON_NUMBER_MAX) | number)
    this.#noteChange(distinctId >>> 8)
  }

  /** Whether a deletion or a split has taken D from a person at any time. */
  wasSeparated(distinctId: number): boolean {
    return (this.#word(distinctId) & SEPARATED) !== 0
  }

  /** Takes D from its owner and gives it to another person. */
  separate(distinctId: number, number: number): void {
    this.#setWord(distinctId, (this.#word(distinctId) & PERSONLESS) | SEPARATED | number)
    this.#noteChange(distinctId >>> 8)
  }

  /** Takes D from its owner; events up to `sequence` belong to nobody for ever. */
  free(distinctId: number, sequence: number): void {
    this.separate(distinctId, 0)
    this.#since.set(distinctId, sequence)
  }

  /** S up to which events of D belong to nobody. */
  sinceOf(distinctId: number): number {
    if (!this.wasSeparated(distinctId)) return 0
    const pending = this.#since.get(distinctId)
    return pending ?? loadSince(this.#tables, this.#projectId, distinctId)
  }

  wasUsedPersonless(distinctId: number): boolean {
    return (this.#word(distinctId) & PERSONLESS) !== 0
  }

  notePersonless(distinctId: number): void {
    const word = this.#word(distinctId)
    if ((word & PERSONLESS) === 0) this.#setWord(distinctId, word | PERSONLESS)
  }

  /** Stores what was changed. Only in a write transaction. */
  store(): void {
    for (const chunk of [...this.#changed].sort((a, b) => a - b)) {
      const words = this.#chunks[chunk] ?? new Uint32Array(OWNER_CHUNK_WORDS)
      store(this.#tables.person_owners, pairKey(this.#projectId, chunk), bytesOf(words))
    }
    for (const [distinctId, sequence] of this.#since) {
      const key = pairKey(this.#projectId, distinctId)
      store(this.#tables.owner_since, key, numberBytes(sequence))
    }
    this.#changed.clear()
    this.#since.clear()
  }

  #word(distinctId: number): number {
    const words = this.#chunks[distinctId >>> 8] ?? this.#load(distinctId >>> 8)
    return words[distinctId & 255] ?? 0
  }

  #setWord(distinctId: number, word: number): void {
    const chunk = distinctId >>> 8
    const words = this.#chunks[chunk] ?? this.#load(chunk)
    words[distinctId & 255] = word
    this.#changed.add(chunk)
  }

  #noteChange(chunk: number): void {
    this.#changes.delete(chunk)
    this.#changes.set(chunk, ++this.#count)
    if (this.#changes.size <= OWNER_CHUNKS_NOTED_MAX) return
    for (const [oldest, change] of this.#changes) {
      this.#changes.delete(oldest)
      this.#changesSince = change
      return
    }
  }

  #load(chunk: number): Uint32Array {
    const words = new Uint32Array(OWNER_CHUNK_WORDS)
    loadChunk(this.#tables, this.#projectId, chunk)?.copy(bytesOf(words))
    // Dense, so that the array stays one.
    while (this.#chunks.length < chunk) this.#chunks.push(undefined)
    this.#chunks[chunk] = words
    return words
  }
}
