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
import { type EventTables, keysOf, numberInKey, pairKey } from '../lmdb/keys.ts'
import { entriesOf, load, store } from '../lmdb/records.ts'
import { NUMBER_BYTES, numberBytes } from './person-records.ts'

const CHUNK_WORDS = 256
const CHUNK_BYTES = CHUNK_WORDS * 4
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

/**
 * Who owns which distinct_ids of a project: `ownerOf` as an array. A D that belongs to nobody counts as a
 * person of its own, with a number like a P: from `firstPersonless` on, in the order of D.
 */
export interface OwnerTable {
  /** P or number of each D; with `OWNER_HAS_SINCE` when earlier events of the D belong to nobody. */
  readonly words: Uint32Array
  /** The largest D. */
  readonly lastDistinctId: number
  /** The largest P or number among the owners. */
  readonly lastPerson: number
  /** See `firstPersonlessBehind`. */
  readonly firstPersonless: number
  /** D of each number from `firstPersonless` on. */
  readonly personless: Uint32Array
  /** S up to which events of such a D belong to nobody; empty: all events belong to somebody. */
  readonly since: ReadonlyMap<number, number>
}

/** A bit in `OwnerTable.words`. */
export const OWNER_HAS_SINCE = 0x8000_0000
/** The other bits: the P or number of the owner. */
export const OWNER_BITS = 0x7fff_ffff

/**
 * The number of the first D without a person: the power of two behind the newest P. What is computed of
 * events is remembered by these numbers, and new persons must not move them; this way they move only when
 * a project has twice as many persons, and lists by number have at most as many gaps as entries.
 */
function firstPersonlessBehind(newestPerson: number): number {
  return 2 ** (32 - Math.clz32(newestPerson))
}

/**
 * All owners of a project, whose newest P and D are given. Cost: about 2 ns for each D. Throws
 * `DamagedRecordError`.
 */
export function loadOwnerTable(
  tables: OwnerTables,
  projectId: number,
  lastDistinctId: number,
  newestPerson: number,
): OwnerTable {
  const words = new Uint32Array(lastDistinctId + CHUNK_WORDS)
  const bytes = bytesOf(words)
  const range = keysOf(projectId)
  for (const { key, value } of entriesOf(tables.person_owners, range, CHUNK_BYTES)) {
    const at = numberInKey(key, 4) * CHUNK_BYTES
    if (at < bytes.length) value.copy(bytes, at, 0, CHUNK_BYTES)
  }
  let lastPerson = 0
  let owned = 0
  for (let distinctId = 0; distinctId < words.length; distinctId++) {
    const person = (words[distinctId] ?? 0) & PERSON_NUMBER_MAX
    words[distinctId] = person
    if (person > lastPerson) lastPerson = person
    if (person > 0 && distinctId <= lastDistinctId) owned++
  }
  const firstPersonless = firstPersonlessBehind(newestPerson)
  const personless = new Uint32Array(lastDistinctId - owned)
  if (personless.length > 0) {
    lastPerson = firstPersonless - 1
    for (let distinctId = 1; distinctId <= lastDistinctId; distinctId++) {
      if (words[distinctId] !== 0) continue
      words[distinctId] = ++lastPerson
      personless[lastPerson - firstPersonless] = distinctId
    }
  }
  const since = new Map<number, number>()
  for (const { key, value } of entriesOf(tables.owner_since, range, NUMBER_BYTES)) {
    const distinctId = numberInKey(key, 4)
    since.set(distinctId, value.readUInt32LE())
    if (distinctId < words.length) words[distinctId] = (words[distinctId] ?? 0) | OWNER_HAS_SINCE
  }
  return { words, since, lastDistinctId, lastPerson, firstPersonless, personless }
}

/** The owners of a stretch of D, of which `distinctId` is one; null: none has any. Throws `DamagedRecordError`. */
export function loadOwners(
  tables: OwnerTables,
  projectId: number,
  distinctId: number,
): Buffer | null {
  return loadChunk(tables, projectId, Math.floor(distinctId / CHUNK_WORDS)) ?? null
}

/** The P that owns a D now, or 0, by the owners of its stretch. */
export function ownerAmong(owners: Buffer | null, distinctId: number): number {
  return wordOf(owners, distinctId) & PERSON_NUMBER_MAX
}

function wordOf(owners: Buffer | null, distinctId: number): number {
  return owners?.readUInt32LE((distinctId % CHUNK_WORDS) * 4) ?? 0
}

function loadChunk(tables: OwnerTables, projectId: number, chunk: number): Buffer | undefined {
  return load(tables.person_owners, pairKey(projectId, chunk), CHUNK_BYTES)
}

/** The owners of one project in the processing thread: 4 bytes for each D that was asked for or is near one. */
export class ProjectOwners {
  readonly #tables: OwnerTables
  readonly #projectId: number
  readonly #chunks: (Uint32Array | undefined)[] = []
  readonly #changed = new Set<number>()
  readonly #since = new Map<number, number>()

  constructor(tables: OwnerTables, projectId: number) {
    this.#tables = tables
    this.#projectId = projectId
  }

  /** The P that owns a D, or 0. No allocation. */
  ownerOf(distinctId: number): number {
    return this.#word(distinctId) & PERSON_NUMBER_MAX
  }

  setOwner(distinctId: number, number: number): void {
    const word = this.#word(distinctId)
    this.#setWord(distinctId, (word & ~PERSON_NUMBER_MAX) | number)
  }

  /** Whether a deletion or a split has taken D from a person at any time. */
  wasSeparated(distinctId: number): boolean {
    return (this.#word(distinctId) & SEPARATED) !== 0
  }

  /** Takes D from its owner and gives it to another person. */
  separate(distinctId: number, number: number): void {
    this.#setWord(distinctId, (this.#word(distinctId) & PERSONLESS) | SEPARATED | number)
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
      const words = this.#chunks[chunk] ?? new Uint32Array(CHUNK_WORDS)
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

  #load(chunk: number): Uint32Array {
    const words = new Uint32Array(CHUNK_WORDS)
    loadChunk(this.#tables, this.#projectId, chunk)?.copy(bytesOf(words))
    // Dense, so that the array stays one.
    while (this.#chunks.length < chunk) this.#chunks.push(undefined)
    this.#chunks[chunk] = words
    return words
  }
}
