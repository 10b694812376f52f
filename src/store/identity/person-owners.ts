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

import { DamagedRecordError } from '../faults.ts'
import { seal, unseal } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { numberInKey, pairKey } from '../lmdb/keys.ts'
import { numberOfValue, numberValue } from './person-records.ts'

const OWNERS = 'person_owners'
const SINCE = 'owner_since'
const CHUNK_WORDS = 256
/** The largest P. */
export const PERSON_NUMBER_MAX = 0x3fff_ffff
const SEPARATED = 0x4000_0000
const PERSONLESS = 0x8000_0000

/** The tables of owners. */
export interface OwnerTables {
  readonly owners: Table
  readonly since: Table
}

/** The P that owns the event of distinct_id D with sequence S, or 0. Throws `DamagedRecordError`. */
export function loadOwner(
  tables: OwnerTables,
  projectId: number,
  distinctId: number,
  sequence: number,
): number {
  const word = loadWord(tables.owners, projectId, distinctId)
  if ((word & SEPARATED) === 0) return word & PERSON_NUMBER_MAX
  return sequence > loadSince(tables.since, projectId, distinctId) ? word & PERSON_NUMBER_MAX : 0
}

/** The P that owns a distinct_id now, or 0. Throws `DamagedRecordError`. */
export function loadOwnerNow(tables: OwnerTables, projectId: number, distinctId: number): number {
  return loadWord(tables.owners, projectId, distinctId) & PERSON_NUMBER_MAX
}

/** S up to which events of D belong to nobody; 0 for nearly all. Throws `DamagedRecordError`. */
export function loadSince(table: Table, projectId: number, distinctId: number): number {
  const key = pairKey(projectId, distinctId)
  const value = table.get(key)
  return value === undefined ? 0 : numberOfValue(SINCE, key, value)
}

/** Who owns which distinct_ids of a project: `ownerOf` as an array. */
export interface OwnerTable {
  /** P of each D, or 0; with `OWNER_HAS_SINCE` when earlier events of the D belong to nobody. */
  readonly words: Uint32Array
  /** S up to which events of such a D belong to nobody. */
  readonly since: ReadonlyMap<number, number>
}

/** A bit in `OwnerTable.words`. */
export const OWNER_HAS_SINCE = 0x8000_0000

/** All owners of a project. Cost: about 5 ns for each D. Throws `DamagedRecordError`. */
export function loadOwnerTable(
  tables: OwnerTables,
  projectId: number,
  lastDistinctId: number,
): OwnerTable {
  const words = new Uint32Array(lastDistinctId + CHUNK_WORDS)
  const range = { start: pairKey(projectId, 0), end: pairKey(projectId + 1, 0) }
  for (const { key, value } of tables.owners.getRange(range)) {
    const bytes = checked(key, value)
    const start = numberInKey(key, 4) * CHUNK_WORDS
    const end = Math.min(CHUNK_WORDS, words.length - start)
    for (let index = 0; index < end; index++) {
      words[start + index] = bytes.readUInt32LE(index * 4) & PERSON_NUMBER_MAX
    }
  }
  const since = new Map<number, number>()
  for (const { key, value } of tables.since.getRange(range)) {
    const distinctId = numberInKey(key, 4)
    since.set(distinctId, numberOfValue(SINCE, key, value))
    if (distinctId < words.length) words[distinctId] = (words[distinctId] ?? 0) | OWNER_HAS_SINCE
  }
  return { words, since }
}

function loadWord(table: Table, projectId: number, distinctId: number): number {
  const key = pairKey(projectId, Math.floor(distinctId / CHUNK_WORDS))
  const value = table.get(key)
  if (value === undefined) return 0
  return checked(key, value).readUInt32LE((distinctId % CHUNK_WORDS) * 4)
}

function checked(key: Uint8Array, value: Buffer): Buffer {
  const bytes = unseal(OWNERS, key, value)
  if (bytes.length !== CHUNK_WORDS * 4) {
    throw new DamagedRecordError(OWNERS, key, 'the value has a wrong length')
  }
  return bytes
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
    return pending ?? loadSince(this.#tables.since, this.#projectId, distinctId)
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
      const bytes = Buffer.allocUnsafe(CHUNK_WORDS * 4)
      for (let index = 0; index < CHUNK_WORDS; index++) {
        bytes.writeUInt32LE(words[index] ?? 0, index * 4)
      }
      const key = pairKey(this.#projectId, chunk)
      void this.#tables.owners.put(key, seal(key, bytes))
    }
    for (const [distinctId, sequence] of this.#since) {
      const key = pairKey(this.#projectId, distinctId)
      void this.#tables.since.put(key, numberValue(key, sequence))
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
    const key = pairKey(this.#projectId, chunk)
    const value = this.#tables.owners.get(key)
    if (value !== undefined) {
      const bytes = checked(key, value)
      for (let index = 0; index < CHUNK_WORDS; index++) words[index] = bytes.readUInt32LE(index * 4)
    }
    // Dense, so that the array stays one.
    while (this.#chunks.length < chunk) this.#chunks.push(undefined)
    this.#chunks[chunk] = words
    return words
  }
}
