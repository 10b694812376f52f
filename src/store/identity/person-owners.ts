/**
 * Stores the owner of each distinct_id: the number of a person. The owner is looked up when an event is read, so merges
 * and splits affect all earlier events immediately.
 *
 *   person_owners   project, distinct ID number / 256 -> 256 words u32 little-endian
 *     word          bits 0-29: person number, or 0 for no owner
 *                   bit 30: the distinct_id was once taken from its person by a deletion or a split
 *                   bit 31: an event without a person has used it while it had no owner
 *   owner_since     project, distinct ID number -> sequence number u32
 *
 * If a distinct_id is in `owner_since`, its owner owns only the events after that sequence number. The events before it
 * never get an owner again, because their person was deleted.
 */
import { grown } from '../../rules/analytics/growing-arrays.ts'
import { bytesOf } from '../lmdb/codec.ts'
import { type EventTables, pairKey } from '../lmdb/keys.ts'
import { load, store } from '../lmdb/records.ts'
import { OWNER_CHUNKS_NOTED_MAX } from './limits.ts'
import { NUMBER_BYTES, numberBytes, type OwnerChanges } from './person-records.ts'

/** The number of distinct ID numbers in one record. */
export const OWNER_CHUNK_WORDS = 256
const CHUNK_BYTES = OWNER_CHUNK_WORDS * 4
/** The largest person number that fits into a word. */
export const PERSON_NUMBER_MAX = 0x3fff_ffff
/**
 * When an array must grow, it gets this many times the length that is needed. So it does not have to grow again with
 * each new id.
 */
const GROWTH = 1.25
const SEPARATED = 0x4000_0000
const PERSONLESS = 0x8000_0000

/** The tables that contain the owners of distinct_ids. */
export type OwnerTables = Pick<EventTables, 'person_owners' | 'owner_since'>

/**
 * Returns the person number of the owner of an event, or 0 if it has none. The arguments are the distinct ID number and
 * the sequence number of the event. Throws `DamagedRecordError`.
 */
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

/** Returns the person number of the current owner of a distinct_id, or 0. Throws `DamagedRecordError`. */
export function loadOwnerNow(tables: OwnerTables, projectId: number, distinctId: number): number {
  return ownerAmong(loadOwners(tables, projectId, distinctId), distinctId)
}

/**
 * Returns the sequence number up to which the events of a distinct_id will never have an owner again. It is 0 for
 * nearly all distinct_ids, because only the deletion of a person sets it. Throws `DamagedRecordError`.
 */
export function loadSince(tables: OwnerTables, projectId: number, distinctId: number): number {
  const since = load(tables.owner_since, pairKey(projectId, distinctId), NUMBER_BYTES)
  return since?.readUInt32LE() ?? 0
}

/**
 * Returns the record that contains the owners of `distinctId` and of 255 other distinct ID numbers. Returns null if
 * none of these numbers ever had an owner. Throws `DamagedRecordError`.
 */
export function loadOwners(
  tables: OwnerTables,
  projectId: number,
  distinctId: number,
): Buffer | null {
  return loadChunk(tables, projectId, Math.floor(distinctId / OWNER_CHUNK_WORDS)) ?? null
}

/**
 * Returns the person number of the current owner of a distinct_id, or 0. `owners` is the result of `loadOwners` for
 * this distinct_id.
 */
export function ownerAmong(owners: Buffer | null, distinctId: number): number {
  return wordOf(owners, distinctId) & PERSON_NUMBER_MAX
}

function wordOf(owners: Buffer | null, distinctId: number): number {
  return owners?.readUInt32LE((distinctId % OWNER_CHUNK_WORDS) * 4) ?? 0
}

/** Returns the record with the number `chunk`, which covers 256 distinct ID numbers. Throws `DamagedRecordError`. */
function loadChunk(tables: OwnerTables, projectId: number, chunk: number): Buffer | undefined {
  return load(tables.person_owners, pairKey(projectId, chunk), CHUNK_BYTES)
}

/**
 * The owners of one project, as the processing thread sees and changes them. The object takes about 5 bytes of memory
 * for each distinct ID number up to the largest one that was used.
 */
export class ProjectOwners {
  readonly #tables: OwnerTables
  readonly #projectId: number
  /**
   * The words that the top of this file describes, by distinct ID number. A chunk of 256 words is read when one of its
   * distinct ID numbers is first used.
   */
  #words = new Uint32Array(0)
  #areRead = new Uint8Array(0)
  readonly #changed = new Set<number>()
  readonly #since = new Map<number, number>()
  /**
   * For each chunk that has changed recently, the number of its newest change. The map is ordered by these numbers,
   * smallest first.
   */
  readonly #changes = new Map<number, number>()
  #count: number
  #changesSince: number

  /** `changes` is the stored list of recent changes, as the getter `changes` returned it for an earlier commit. */
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

  /** The number of changes of owners so far, including those that are not stored yet. */
  get changeCount(): number {
    return this.#count
  }

  /** The recent changes of owners, in the form in which they are stored. */
  get changes(): OwnerChanges {
    return { count: this.#count, since: this.#changesSince, chunks: [...this.#changes].flat() }
  }

  /** Returns the person number of the owner of a distinct ID number, or 0. Allocates nothing. */
  ownerOf(distinctId: number): number {
    return this.#word(distinctId) & PERSON_NUMBER_MAX
  }

  setOwner(distinctId: number, number: number): void {
    const word = this.#word(distinctId)
    this.#setWord(distinctId, (word & ~PERSON_NUMBER_MAX) | number)
    this.#noteChange(distinctId >>> 8)
  }

  /** Returns whether a deletion or a split has ever taken the distinct_id from its person. */
  wasSeparated(distinctId: number): boolean {
    return (this.#word(distinctId) & SEPARATED) !== 0
  }

  /**
   * Takes a distinct_id from its owner, gives it to the person `number` (0: to no person), and records the separation.
   */
  separate(distinctId: number, number: number): void {
    this.#setWord(distinctId, (this.#word(distinctId) & PERSONLESS) | SEPARATED | number)
    this.#noteChange(distinctId >>> 8)
  }

  /** Takes a distinct_id from its owner. Its events up to `sequence` will never have an owner again. */
  free(distinctId: number, sequence: number): void {
    this.separate(distinctId, 0)
    this.#since.set(distinctId, sequence)
  }

  /** Returns the same as `loadSince`, including changes that are not stored yet. */
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

  /** Stores the changed owners. Call it only within a write transaction. */
  store(): void {
    for (const chunk of [...this.#changed].sort((a, b) => a - b)) {
      const start = chunk * OWNER_CHUNK_WORDS
      const words = this.#words.subarray(start, start + OWNER_CHUNK_WORDS)
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
    if (this.#areRead[distinctId >>> 8] !== 1) this.#read(distinctId >>> 8)
    return this.#words[distinctId] ?? 0
  }

  #setWord(distinctId: number, word: number): void {
    const chunk = distinctId >>> 8
    if (this.#areRead[chunk] !== 1) this.#read(chunk)
    this.#words[distinctId] = word
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

  #read(chunk: number): void {
    if (chunk >= this.#areRead.length) {
      const chunks = Math.ceil((chunk + 1) * GROWTH)
      this.#words = grown(this.#words, chunks * OWNER_CHUNK_WORDS)
      this.#areRead = grown(this.#areRead, chunks)
    }
    const start = chunk * OWNER_CHUNK_WORDS
    const words = this.#words.subarray(start, start + OWNER_CHUNK_WORDS)
    loadChunk(this.#tables, this.#projectId, chunk)?.copy(bytesOf(words))
    this.#areRead[chunk] = 1
  }
}
