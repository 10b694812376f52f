/**
 * Writes the persons of one project in a commit. A changed person is stored completely, or only its changes are stored.
 * The indexes by time, e-mail and uuid are written in the order of their keys.
 */
import { type PersonState, personState } from '../../rules/persons/person-repository.ts'
import type { PropertyTable } from '../../rules/persons/property-table.ts'
import { attempt, type DamageListener } from '../faults.ts'
import type { Table } from '../lmdb/environment.ts'
import { type EventTables, pairKey, tripleKey } from '../lmdb/keys.ts'
import { removeRange, store } from '../lmdb/records.ts'
import { CHANGES_UNITS_MAX, DELTA_PERSON_BYTES_MAX, WHOLE_PERSON_BYTES_MAX } from './limits.ts'
import { LinkedIds, removeRows, type StoredRows } from './linked-ids.ts'
import { PersonChanges } from './person-changes.ts'
import { EmailChunkWrites } from './person-email-chunks.ts'
import {
  createdKey,
  emailKey,
  encodePerson,
  encodeUuid,
  type foldRecord,
  numberBytes,
  type PersonRecord,
  peekProperties,
  type RecordedProperties,
  RecordSlab,
  uuidKey,
} from './person-records.ts'
import { encodePage, isPaged, pagedJsonBytes, pagesOf } from './properties/property-pages.ts'
import { UnreadPages } from './properties/unread-pages.ts'

/**
 * If the changes of a person have more than `CHANGES_BYTES_MIN` bytes, and more than this fraction of the bytes of the
 * complete person, the person is stored completely.
 */
const CHANGES_BYTES_MIN = 256
const CHANGES_PART = 0.4

/** A person in memory, and what its records in the store contain. */
export interface PersonEntry {
  state: PersonState
  readonly ids: LinkedIds
  /** The creation time in the stored records, or NaN if the person is not stored yet. */
  storedCreatedAtMs: number
  storedUuid: string
  storedIsIdentified: boolean
  storedIsImported: boolean
  /** The number of bytes of the JSON of the properties that are stored completely, in table `persons` or in pages. */
  storedBytes: number
  /**
   * The properties of the person whose record table `persons` contains under this number. After a merge, that can still
   * be the merged person. This is then another object than the properties of `state`.
   */
  storedProperties: PropertyTable | null
  storedEmail: string | null
}

/** Returns the entry of a person that is not stored yet. */
export function newEntry(state: PersonState, ids: LinkedIds): PersonEntry {
  return {
    state,
    ids,
    storedCreatedAtMs: Number.NaN,
    storedUuid: state.uuid,
    storedIsIdentified: false,
    storedIsImported: false,
    storedBytes: 0,
    storedProperties: null,
    storedEmail: null,
  }
}

/**
 * Returns the entry of a stored person, with its current properties and version. Its deltas (person-changes.ts) are
 * applied.
 */
export function storedEntry(
  whole: PersonRecord,
  { properties, version }: ReturnType<typeof foldRecord>,
): PersonEntry {
  const { number, uuid, createdAtMs, isIdentified, idCount, firstIds, firstPosition, id } = whole
  const { isImported } = whole
  const state = personState(
    number,
    uuid,
    createdAtMs,
    properties,
    isIdentified,
    version,
    id,
    isImported,
  )
  const entry = newEntry(state, new LinkedIds([...firstIds], idCount, firstPosition))
  entry.storedCreatedAtMs = createdAtMs
  entry.storedIsIdentified = isIdentified
  entry.storedIsImported = isImported
  entry.storedBytes = whole.jsonBytes
  entry.storedProperties = properties
  entry.storedEmail = emailOf(properties)
  return entry
}

/** A person that was deleted or merged into another one. Its records must be removed. */
export interface GonePerson
  extends Pick<PersonEntry, 'storedCreatedAtMs' | 'storedUuid' | 'storedEmail' | 'storedBytes'>,
    Pick<PersonState, 'number' | 'uuid'> {
  readonly rows: StoredRows
  /** The time of the deletion, or NaN if the person was merged. */
  readonly deletedAtMs: number
}

/** The value to store under a key. Null: the record is removed. */
type Operation = readonly [key: Buffer, bytes: Buffer | null]
const NOTHING = Buffer.alloc(0)

/** The writes of one commit, for the one writing thread. Use it only within a write transaction. */
export class PersonWrites {
  readonly #projectId: number
  readonly #tables: EventTables
  readonly #onDamage: DamageListener
  readonly #slab = new RecordSlab()
  readonly #emailChunks: EmailChunkWrites
  /** The changes of persons since they were stored completely. */
  readonly changes: PersonChanges
  #created: Operation[] = []
  #emails: Operation[] = []
  #uuids: Operation[] = []
  #moved: Operation[] = []

  /** `PersonChanges` explains `onDamage`. */
  constructor(projectId: number, tables: EventTables, onDamage: DamageListener) {
    this.#projectId = projectId
    this.#tables = tables
    this.#onDamage = onDamage
    this.changes = new PersonChanges(projectId, tables, onDamage)
    this.#emailChunks = new EmailChunkWrites(projectId, tables.email_chunks)
  }

  /** Adds the uuid of a person that is new, or that was moved to another person number. */
  addUuid(uuid: string, number: number): void {
    const bytes = encodeUuid({ number, deletedAtMs: Number.NaN })
    this.#uuids.push([uuidKey(this.#projectId, uuid), bytes])
  }

  /**
   * Sets the person number under which the person with an id is stored. Null: the number equals the id, or there is no
   * such person any more.
   */
  setNumber(id: number, number: number | null): void {
    const bytes = number === null ? null : numberBytes(number)
    this.#moved.push([pairKey(this.#projectId, id), bytes])
  }

  /**
   * Returns the properties of a large person so that only the pages that an event needs are read. Returns null for a
   * smaller person, which is faster to read completely.
   */
  unreadOf({ number, directory, jsonBytes }: PersonRecord): UnreadPages | null {
    if (directory === null || jsonBytes <= WHOLE_PERSON_BYTES_MAX) return null
    return this.#pages(number, directory)
  }

  #pages(number: number, directory: Buffer): UnreadPages {
    const keyOf = (page: number): Buffer => tripleKey(this.#projectId, number, page)
    return new UnreadPages({ table: this.#tables.person_pages, keyOf }, directory)
  }

  /** Stores a changed person. */
  store(entry: PersonEntry): void {
    const projectId = this.#projectId
    const created = this.#created
    const emails = this.#emails
    const { state } = entry
    const { number, uuid, createdAtMs, properties } = state
    if (!this.#storeChanges(entry)) this.#storeWhole(entry)
    state.isUnsaved = false
    if (entry.storedCreatedAtMs !== createdAtMs || entry.storedUuid !== uuid) {
      if (!Number.isNaN(entry.storedCreatedAtMs)) {
        created.push([createdKey(projectId, entry.storedCreatedAtMs, entry.storedUuid), null])
      }
      created.push([createdKey(projectId, createdAtMs, uuid), numberBytes(number)])
      entry.storedCreatedAtMs = createdAtMs
      entry.storedUuid = uuid
    }
    const email = emailOf(properties)
    if (entry.storedEmail !== email) {
      if (entry.storedEmail !== null) {
        emails.push([emailKey(projectId, entry.storedEmail, number), null])
      }
      if (email !== null) emails.push([emailKey(projectId, email, number), NOTHING])
      this.#emailChunks.set(number, email)
      entry.storedEmail = email
    }
    entry.ids.store(this.#tables.person_ids, projectId, number)
  }

  /**
   * Stores the changes of a person since it was stored completely, and nothing else. Returns false if they are too
   * large, so that the person must be stored completely.
   */
  #storeChanges(entry: PersonEntry): boolean {
    const { state } = entry
    const { properties, version, createdAtMs, isIdentified } = state
    if (entry.ids.areChanged || entry.storedIsIdentified !== isIdentified) return false
    if (entry.storedIsImported !== state.isImported) return false
    if (entry.storedCreatedAtMs !== createdAtMs) return false
    if (entry.storedProperties !== properties) return false
    const json = properties.changesJson()
    if (json === null) return false
    const unitsMax = Math.max(CHANGES_BYTES_MIN, entry.storedBytes * CHANGES_PART)
    if (json.length > Math.min(unitsMax, CHANGES_UNITS_MAX)) return false
    this.changes.put(state.number, version, json, isSmall(entry))
    return true
  }

  #storeWhole(entry: PersonEntry): void {
    const { state, ids } = entry
    const { number, id, uuid, version, isIdentified, createdAtMs, properties } = state
    const key = pairKey(this.#projectId, number)
    // If only the ids of a person have changed, its properties need not be encoded again: the stored text is used.
    const isStored = entry.storedProperties === properties && properties.isUnchanged
    const kept = isStored
      ? attempt(() => peekProperties(this.#tables.persons, key), this.#onDamage)
      : null
    const recorded = kept ?? this.#recordProperties(entry)
    const { jsonBytes } = recorded
    const value = encodePerson(this.#slab, key, {
      number,
      id,
      uuid,
      version,
      isIdentified,
      isImported: state.isImported,
      createdAtMs,
      idCount: ids.count,
      firstIds: ids.inline,
      firstPosition: ids.firstPosition,
      recorded,
    })
    void this.#tables.persons.put(key, value)
    properties.forgetChanges()
    properties.setJsonBytes(jsonBytes)
    // The pages that the table refers to were replaced. A large person also leaves the memory here.
    const isLarge = properties.unread !== null || jsonBytes > WHOLE_PERSON_BYTES_MAX
    if (kept === null && isLarge && typeof recorded.json !== 'string') {
      properties.layOver(this.#pages(number, recorded.json))
    }
    entry.storedBytes = jsonBytes
    entry.storedProperties = properties
    this.changes.remove(number, isSmall(entry))
    entry.storedIsIdentified = isIdentified
    entry.storedIsImported = state.isImported
  }

  /** Returns the properties in the form for the record of a person. Large properties are stored as pages. */
  #recordProperties({ state, storedBytes, storedProperties }: PersonEntry): RecordedProperties {
    const { number, properties } = state
    const { unread } = properties
    if (unread instanceof UnreadPages && storedProperties === properties) {
      const directory = unread.store(properties.differences())
      if (directory !== null) return pagedProperties(directory)
    }
    const json = properties.toJson()
    const jsonBytes = Buffer.byteLength(json)
    if (!isPaged(jsonBytes)) {
      if (isPaged(storedBytes)) this.#removePages(number, 0)
      return { json, bytes: jsonBytes, jsonBytes, isPaged: false }
    }
    const { directory, pages } = pagesOf(json)
    for (const [page, bytes] of pages.entries()) {
      const key = tripleKey(this.#projectId, number, page)
      store(this.#tables.person_pages, key, encodePage(bytes))
    }
    if (isPaged(storedBytes)) this.#removePages(number, pages.length)
    return pagedProperties(directory)
  }

  /** Removes the pages of a person's properties from page `first` on. */
  #removePages(number: number, first: number): void {
    const start = tripleKey(this.#projectId, number, first)
    const end = tripleKey(this.#projectId, number + 1, 0)
    removeRange(this.#tables.person_pages, { start, end })
  }

  /**
   * Removes the records of a person that was deleted or merged. If the person was deleted, the time of the deletion is
   * stored with the uuid.
   */
  remove(gone: GonePerson): void {
    const projectId = this.#projectId
    const { number, uuid, deletedAtMs } = gone
    if (!Number.isNaN(deletedAtMs)) {
      this.#uuids.push([uuidKey(projectId, uuid), encodeUuid({ number, deletedAtMs })])
    }
    if (Number.isNaN(gone.storedCreatedAtMs)) return
    const key = pairKey(projectId, number)
    void this.#tables.persons.remove(key)
    if (isPaged(gone.storedBytes)) this.#removePages(number, 0)
    this.changes.remove(number)
    this.#created.push([createdKey(projectId, gone.storedCreatedAtMs, gone.storedUuid), null])
    if (gone.storedEmail !== null) {
      this.#emails.push([emailKey(projectId, gone.storedEmail, number), null])
      this.#emailChunks.set(number, null)
    }
    removeRows(this.#tables.person_ids, projectId, number, gone.rows)
  }

  /** Writes the indexes. Call it last in a transaction. */
  finish(): void {
    apply(this.#tables.person_created, this.#created)
    apply(this.#tables.person_emails, this.#emails)
    apply(this.#tables.person_uuids, this.#uuids)
    apply(this.#tables.moved_persons, this.#moved)
    this.#emailChunks.store()
    this.changes.store()
    this.#created = []
    this.#emails = []
    this.#uuids = []
    this.#moved = []
  }

  /** Must be called after the commit. Releases the memory of the encoded records. */
  settle(): void {
    this.#slab.clear()
  }
}

function pagedProperties(directory: Buffer): RecordedProperties {
  const jsonBytes = pagedJsonBytes(directory)
  return { json: directory, bytes: directory.length, jsonBytes, isPaged: true }
}

/** Returns whether events may be appended to a person as deltas without checking the size of the person. */
function isSmall({ storedBytes, state }: PersonEntry): boolean {
  // An imported person is excluded, because a live event must clear `isImported`, and a delta cannot do that.
  return !state.isImported && storedBytes <= DELTA_PERSON_BYTES_MAX
}

/** Returns the e-mail address by which a person can be found. */
function emailOf(properties: PropertyTable): string | null {
  const email = properties.get('email')
  return typeof email === 'string' && email !== '' ? email : null
}

/**
 * Makes the writes in the order of their keys, because that is faster. If two of them have the same key, the later one
 * counts.
 */
function apply(table: Table, operations: Operation[]): void {
  operations.sort(([a], [b]) => Buffer.compare(a, b))
  for (const [key, bytes] of operations) {
    if (bytes === null) void table.remove(key)
    else store(table, key, bytes)
  }
}
