/**
 * The creation times of the persons of a project, by person number: 8 bytes per person. At first, the times of all
 * persons are read. After that, only persons who have gained or lost a distinct_id are read again. That is enough,
 * because a person who is new, deleted, or merged with an older person is always among them.
 */
import { type CreatedPersons, OWNER_BITS } from '../../../rules/analytics/event-columns.ts'
import { withRoom } from '../../../rules/analytics/growing-arrays.ts'
import type { OwnerTable } from '../../identity/owner-table.ts'
import { createdAtOf, loadHead, NUMBER_BYTES } from '../../identity/person-records.ts'
import { type EventTables, keysOf } from '../../lmdb/keys.ts'
import { entriesOf } from '../../lmdb/records.ts'

/**
 * If more than this fraction of the persons have changed, all persons are read again, because reading a person singly
 * takes several times as long.
 */
const SINGLY_READ_PART = 1 / 8

/**
 * What the times are read from, in one snapshot. `noteRead` is called for each person that is read. It throws to stop
 * the query.
 */
export interface CreatedSource {
  readonly tables: EventTables
  readonly projectId: number
  readonly owners: OwnerTable
  readonly noteRead: () => void
}

/** Reads and caches the creation times of the persons of one project. */
export class CreatedTimes {
  /** For each person number, the creation time in milliseconds since 1970. NaN: there is no such person. */
  #timesMs = new Float64Array(0)
  /** The owners in the snapshot from which the times were read. Null: no times were read yet. */
  #owners: OwnerTable | null = null

  /**
   * Returns the persons that were created at `fromMs` or later, but before `untilMs`, both in milliseconds. It takes
   * about 1 ns for each person of the project. The first call takes about 1 us for each person. Throws
   * `DamagedRecordError`.
   */
  within(fromMs: number, untilMs: number, source: CreatedSource): CreatedPersons {
    this.#update(source)
    const persons = new Uint32Array(this.#timesMs.length)
    const timesMs = new Float64Array(this.#timesMs.length)
    let count = 0
    for (let person = 0; person < persons.length; person++) {
      const timeMs = this.#timesMs[person] ?? Number.NaN
      if (!(timeMs >= fromMs && timeMs < untilMs)) continue
      persons[count] = person
      timesMs[count++] = timeMs
    }
    return { persons: persons.subarray(0, count), timesMs: timesMs.subarray(0, count) }
  }

  #update(source: CreatedSource): void {
    const { owners, tables, projectId, noteRead } = source
    const before = this.#owners
    if (before === owners) return
    const changed = before === null ? null : changedPersons(before, owners)
    // The times count as unread until all changed persons are read. Otherwise, after a read that throws, some times
    // would be outdated.
    this.#owners = null
    if (changed === null || changed.size > owners.lastPerson * SINGLY_READ_PART) {
      this.#readAll(source)
    } else {
      for (const person of changed) {
        noteRead()
        const record = loadHead(tables.persons, projectId, person)
        this.#set(person, record === null ? Number.NaN : Math.round(record.createdAtMs))
      }
    }
    this.#owners = owners
  }

  #readAll({ tables, projectId, owners, noteRead }: CreatedSource): void {
    this.#timesMs = new Float64Array(owners.firstPersonless).fill(Number.NaN)
    for (const { key, value } of entriesOf(
      tables.person_created,
      keysOf(projectId),
      NUMBER_BYTES,
    )) {
      noteRead()
      this.#set(value.readUInt32LE(), createdAtOf(key))
    }
  }

  #set(person: number, timeMs: number): void {
    const { length } = this.#timesMs
    if (person >= length) this.#timesMs = withRoom(this.#timesMs, person).fill(Number.NaN, length)
    this.#timesMs[person] = timeMs
  }
}

/** Returns the persons that have gained or lost a distinct_id between the two tables. */
function changedPersons(before: OwnerTable, after: OwnerTable): ReadonlySet<number> {
  const persons = new Set<number>()
  const last = Math.max(before.lastDistinctId, after.lastDistinctId)
  for (let distinctId = 0; distinctId <= last; distinctId++) {
    // The same owner number (owner-table.ts) may stand for a person in one table, and for a distinct_id without a
    // person in the other.
    const own = personIn(after.words[distinctId] ?? 0, after)
    const old = personIn(before.words[distinctId] ?? 0, before)
    if (own === old) continue
    persons.add(own)
    persons.add(old)
  }
  persons.delete(0)
  return persons
}

/**
 * Returns the person number in a word of an owner table (owner-table.ts), or 0 if the word is that of a distinct_id
 * without a person.
 */
function personIn(word: number, { firstPersonless }: OwnerTable): number {
  const owner = word & OWNER_BITS
  return owner < firstPersonless ? owner : 0
}
