/**
 * What is stored of the persons of one project, and how a commit changes it: each person that changed as
 * a whole or as the changes since, and the indexes by time, e-mail and uuid in the order of their keys.
 */
import { type PersonState, personState } from '../../rules/persons/person-world.ts'
import type { PropertyTable } from '../../rules/persons/property-table.ts'
import { attempt, type DamageListener } from '../faults.ts'
import type { Table } from '../lmdb/environment.ts'
import { type EventTables, pairKey, tripleKey } from '../lmdb/keys.ts'
import { removeRange, store } from '../lmdb/records.ts'
import { CHANGES_UNITS_MAX, DELTA_PERSON_BYTES_MAX } from './limits.ts'
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
import { encodePage, isPaged, pagesOf } from './properties/property-pages.ts'

/** A person is stored as a whole when its changes have more characters than this, and than this part of it. */
const CHANGES_BYTES_MIN = 256
const CHANGES_PART = 0.4

/** A person and what is stored of it. */
export interface PersonEntry {
  state: PersonState
  readonly ids: LinkedIds
  /** NaN: the person is not stored yet. */
  storedCreatedAtMs: number
  storedUuid: string
  storedIsIdentified: boolean
  storedIsImported: boolean
  /** Bytes of its properties in table `persons`. */
  storedBytes: number
  /** The properties whose text is in table `persons`; after a merge the person may have those of the other one. */
  storedProperties: PropertyTable | null
  storedEmail: string | null
}

/** A person of whom nothing is stored yet. */
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

/** A person as it is stored, with what its properties and version are by now. */
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

/** A deleted or merged person that leaves records behind. */
export interface GonePerson
  extends Pick<PersonEntry, 'storedCreatedAtMs' | 'storedUuid' | 'storedEmail' | 'storedBytes'>,
    Pick<PersonState, 'number' | 'uuid'> {
  readonly rows: StoredRows
  /** NaN: merged. */
  readonly deletedAtMs: number
}

/** What is stored under a key; null: it is removed. */
type Operation = readonly [key: Buffer, bytes: Buffer | null]
const NOTHING = Buffer.alloc(0)

/** The writes of one commit. For the one writing thread, only in a write transaction. */
export class PersonWrites {
  readonly #projectId: number
  readonly #tables: EventTables
  readonly #onDamage: DamageListener
  readonly #slab = new RecordSlab()
  readonly #emailChunks: EmailChunkWrites
  /** What was written of persons since they were stored as a whole. */
  readonly changes: PersonChanges
  #created: Operation[] = []
  #emails: Operation[] = []
  #uuids: Operation[] = []
  #moved: Operation[] = []

  /** `onDamage` as of `PersonChanges`. */
  constructor(projectId: number, tables: EventTables, onDamage: DamageListener) {
    this.#projectId = projectId
    this.#tables = tables
    this.#onDamage = onDamage
    this.changes = new PersonChanges(projectId, tables, onDamage)
    this.#emailChunks = new EmailChunkWrites(projectId, tables.email_chunks)
  }

  /** Enters the uuid of a person who is new or has got another number. */
  addUuid(uuid: string, number: number): void {
    const bytes = encodeUuid({ number, deletedAtMs: Number.NaN })
    this.#uuids.push([uuidKey(this.#projectId, uuid), bytes])
  }

  /** Enters the P of the person with an id; null: it is the id, or there is no such person. */
  setNumber(id: number, number: number | null): void {
    const bytes = number === null ? null : numberBytes(number)
    this.#moved.push([pairKey(this.#projectId, id), bytes])
  }

  /** Stores a person that has changed. */
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

  /** Stores only what was written since the person was stored as a whole; false when that is too much. */
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
    // Whoever only got ids keeps the text, which neither is made nor encoded again.
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
    entry.storedBytes = jsonBytes
    entry.storedProperties = properties
    this.changes.remove(number, isSmall(entry))
    entry.storedIsIdentified = isIdentified
    entry.storedIsImported = state.isImported
  }

  /** What the record of a person is to have of its properties; large ones go into pages. */
  #recordProperties({ state, storedBytes }: PersonEntry): RecordedProperties {
    const { number, properties } = state
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
    return { json: directory, bytes: directory.length, jsonBytes, isPaged: true }
  }

  /** Removes the pages of a person from page `first` on. */
  #removePages(number: number, first: number): void {
    const start = tripleKey(this.#projectId, number, first)
    const end = tripleKey(this.#projectId, number + 1, 0)
    removeRange(this.#tables.person_pages, { start, end })
  }

  /** Removes what is stored of a deleted or merged person, and says when it was deleted. */
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

  /** Writes the indexes; comes last. */
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

  /** The commit is done: its memory may be used again. */
  settle(): void {
    this.#slab.clear()
  }
}

/** Whether a person is far from the limit of its properties, so that events may wait to be applied. */
function isSmall({ storedBytes, state }: PersonEntry): boolean {
  // The first live event of an imported person has to be told apart from further imported ones.
  return !state.isImported && storedBytes <= DELTA_PERSON_BYTES_MAX
}

/** The e-mail address that a person can be found by. */
function emailOf(properties: PropertyTable): string | null {
  const email = properties.get('email')
  return typeof email === 'string' && email !== '' ? email : null
}

/** Later operations on a key win; keys are written in order, which is faster. */
function apply(table: Table, operations: Operation[]): void {
  operations.sort(([a], [b]) => Buffer.compare(a, b))
  for (const [key, bytes] of operations) {
    if (bytes === null) void table.remove(key)
    else store(table, key, bytes)
  }
}
