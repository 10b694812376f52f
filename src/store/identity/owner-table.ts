/** All owners of a project as an array, for who looks at the events of everybody; only what changed is read again. */
import type { DistinctIdOwners } from '../../rules/analytics/event-columns.ts'
import { bytesOf } from '../lmdb/codec.ts'
import { keysOf, numberInKey, pairKey } from '../lmdb/keys.ts'
import { entriesOf, peek } from '../lmdb/records.ts'
import { OWNER_CHUNK_WORDS, type OwnerTables, PERSON_NUMBER_MAX } from './person-owners.ts'
import { NUMBER_BYTES, type OwnerChanges, type PersonCounters } from './person-records.ts'

const CHUNK_BYTES = OWNER_CHUNK_WORDS * Uint32Array.BYTES_PER_ELEMENT

/**
 * Who owns which distinct_ids of a project: `ownerOf` as an array. A D that belongs to nobody counts as a
 * person of its own, with a number like a P: `firstPersonless` + D.
 */
export interface OwnerTable extends DistinctIdOwners {
  /** P or number of each D; with `OWNER_HAS_SINCE` when earlier events of the D belong to nobody. */
  readonly words: Uint32Array
  /** See `firstPersonlessBehind`. */
  readonly firstPersonless: number
  /** The largest D. */
  readonly lastDistinctId: number
  /** Whether any D belongs to nobody. */
  readonly hasPersonless: boolean
  /** S up to which events of such a D belong to nobody; empty: all events belong to somebody. */
  readonly since: ReadonlyMap<number, number>
}

/** A bit in `OwnerTable.words`. */
export const OWNER_HAS_SINCE = 0x8000_0000
/**
 * Where numbers of D without a person begin: at the power of two behind the newest P. What is computed of
 * events is remembered by these numbers, and neither new persons nor a visitor who becomes one must move those
 * of others; this way they move only when a project has twice as many persons.
 */
function firstPersonlessBehind(newestPerson: number): number {
  return 2 ** (32 - Math.clz32(newestPerson))
}

/** The owners of one project, kept from snapshot to snapshot. */
export class StoredOwners {
  /** As they are stored, by D. */
  #words = new Uint32Array(0)
  #changes: OwnerChanges | null = null
  #table: OwnerTable | null = null

  /**
   * As of a snapshot, with the newest D and the counters of that: the same object as long as it is the same.
   * Cost: about 1 us for each 256 D whose owners have changed, and then 2 ns for each D. Throws
   * `DamagedRecordError`.
   */
  current(
    tables: OwnerTables,
    projectId: number,
    lastDistinctId: number,
    { lastPerson, owners }: PersonCounters,
  ): OwnerTable {
    const firstPersonless = firstPersonlessBehind(lastPerson)
    const known = this.#table
    const isSame = known !== null && this.#changes?.count === owners.count
    const isAsLong = known?.lastDistinctId === lastDistinctId
    if (isSame && isAsLong && known.firstPersonless === firstPersonless) return known
    this.#read(tables, projectId, lastDistinctId, owners)
    const since = isSame ? known.since : loadSinces(tables, projectId)
    this.#table = tableOf(this.#words, lastDistinctId, firstPersonless, since)
    return this.#table
  }

  #read(
    tables: OwnerTables,
    projectId: number,
    lastDistinctId: number,
    changes: OwnerChanges,
  ): void {
    const before = this.#changes
    // Until all are read, none are known.
    this.#changes = null
    if (this.#words.length <= lastDistinctId) {
      const words = new Uint32Array(lastDistinctId + OWNER_CHUNK_WORDS)
      words.set(this.#words)
      this.#words = words
    }
    const bytes = bytesOf(this.#words)
    const take = (chunk: number, owners: Buffer): void => {
      const at = chunk * CHUNK_BYTES
      if (at < bytes.length) owners.copy(bytes, at, 0, CHUNK_BYTES)
    }
    if (before === null || before.count < changes.since || before.count > changes.count) {
      this.#words.fill(0)
      for (const { key, value } of entriesOf(
        tables.person_owners,
        keysOf(projectId),
        CHUNK_BYTES,
      )) {
        take(numberInKey(key, 4), value)
      }
    } else {
      for (let at = 0; at < changes.chunks.length; at += 2) {
        if ((changes.chunks[at + 1] ?? 0) <= before.count) continue
        const chunk = changes.chunks[at] ?? 0
        const owners = peek(tables.person_owners, pairKey(projectId, chunk), CHUNK_BYTES)
        if (owners !== undefined) take(chunk, owners)
      }
    }
    this.#changes = changes
  }
}

function tableOf(
  stored: Uint32Array,
  lastDistinctId: number,
  firstPersonless: number,
  since: ReadonlyMap<number, number>,
): OwnerTable {
  const words = new Uint32Array(lastDistinctId + OWNER_CHUNK_WORDS)
  let lastPerson = 0
  for (let distinctId = 1; distinctId <= lastDistinctId; distinctId++) {
    const person = (stored[distinctId] ?? 0) & PERSON_NUMBER_MAX
    const number = person === 0 ? firstPersonless + distinctId : person
    words[distinctId] = number
    if (number > lastPerson) lastPerson = number
  }
  for (const distinctId of since.keys()) {
    if (distinctId <= lastDistinctId) words[distinctId] = (words[distinctId] ?? 0) | OWNER_HAS_SINCE
  }
  const hasPersonless = lastPerson > firstPersonless
  return { words, since, lastDistinctId, lastPerson, firstPersonless, hasPersonless }
}

function loadSinces(tables: OwnerTables, projectId: number): ReadonlyMap<number, number> {
  const since = new Map<number, number>()
  for (const { key, value } of entriesOf(tables.owner_since, keysOf(projectId), NUMBER_BYTES)) {
    since.set(numberInKey(key, 4), value.readUInt32LE())
  }
  return since
}
