/**
 * The owners of all distinct_ids of a project, as an array, for queries about the events of all persons. The first
 * query reads all owners. Later queries read only the owners that have changed.
 */
import type { DistinctIdOwners } from '../../rules/analytics/event-columns.ts'
import { bytesOf } from '../lmdb/codec.ts'
import { keysOf, numberInKey, pairKey } from '../lmdb/keys.ts'
import { entriesOf, peek } from '../lmdb/records.ts'
import { OWNER_CHUNK_WORDS, type OwnerTables, PERSON_NUMBER_MAX } from './person-owners.ts'
import { NUMBER_BYTES, type OwnerChanges, type PersonCounters } from './person-records.ts'

const CHUNK_BYTES = OWNER_CHUNK_WORDS * Uint32Array.BYTES_PER_ELEMENT

/**
 * The owner of each distinct ID number of a project. A distinct_id without a person counts as an owner of its own. It
 * gets an owner number above all person numbers:
 *
 *   words[distinct ID number]   bits 0-30: person number, or firstPersonless + distinct ID number
 *                               bit 31: OWNER_HAS_SINCE
 */
export interface OwnerTable extends DistinctIdOwners {
  /**
   * The owner of each distinct ID number. If the first events of the distinct_id have no owner, the bit
   * `OWNER_HAS_SINCE` is set too.
   */
  readonly words: Uint32Array
  /**
   * The first owner number that stands for a distinct_id without a person; see `firstPersonlessAfter`. Smaller numbers
   * are person numbers.
   */
  readonly firstPersonless: number
  /** The largest distinct ID number of the project. */
  readonly lastDistinctId: number
  /** True if at least one distinct_id has no person. */
  readonly hasPersonless: boolean
  /**
   * The distinct ID numbers whose first events have no owner, although later events may have one. Each number is mapped
   * to the sequence number up to which its events have no owner.
   */
  readonly since: ReadonlyMap<number, number>
}

/**
 * A bit in `OwnerTable.words`. It is set if the first events of the distinct_id have no owner. `OwnerTable.since`
 * contains the sequence number up to which that applies.
 */
export const OWNER_HAS_SINCE = 0x8000_0000
/**
 * Returns the first owner number that stands for a distinct_id without a person: the power of two above the largest
 * person number, for example 8 after person 5. Results of queries are cached by owner number. So a new person should
 * not change the owner numbers of the distinct_ids without a person. With a power of two, these numbers change only
 * when the number of persons has doubled.
 */
function firstPersonlessAfter(newestPerson: number): number {
  return 2 ** (32 - Math.clz32(newestPerson))
}

/** Reads the owners of one project, and caches them for later snapshots. */
export class StoredOwners {
  /** The words as they are stored (person-owners.ts), by distinct ID number. */
  #words = new Uint32Array(0)
  #changes: OwnerChanges | null = null
  #table: OwnerTable | null = null

  /**
   * Returns the owners in the current snapshot. `lastDistinctId` and the counters must come from the same snapshot. As
   * long as nothing changes, the same object is returned. Otherwise it takes about 1 us for each 256 distinct ID
   * numbers whose owners have changed, and 2 ns for each distinct ID number. Throws `DamagedRecordError`.
   */
  current(
    tables: OwnerTables,
    projectId: number,
    lastDistinctId: number,
    { lastPerson, owners }: PersonCounters,
  ): OwnerTable {
    const firstPersonless = firstPersonlessAfter(lastPerson)
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
    // `#changes` is null until all reads have succeeded. So if a read throws, the next call reads all owners again.
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
