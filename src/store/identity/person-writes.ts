/**
 * What is stored of the persons of one project, and how a commit changes it: each person that changed as
 * a whole or as the changes since, and the indexes by time, e-mail and uuid in the order of their keys.
 */
import { type PersonState, personState } from '../../rules/persons/person-world.ts'
import type { PropertyTable } from '../../rules/persons/property-table.ts'
import { attempt, type DamageListener } from '../faults.ts'
import type { Table } from '../lmdb/environment.ts'
import { type EventTables, pairKey, tripleKey } from '../lmdb/keys.ts'
import { store } from '../lmdb/records.ts'
import { DELTA_PERSON_BYTES_MAX } from './limits.ts'
import { PersonChanges } from './person-changes.ts'
import { EmailChunkWrites } from './person-email-chunks.ts'
import {
  createdKey,
  emailKey,
  encodePerson,
  encodeUuid,
  type foldRecord,
  INLINE_IDS_MAX,
  numberBytes,
  numbersOf,
  type PersonRecord,
  peekJson,
  RecordSlab,
  uuidKey,
} from './person-records.ts'

/** A person is stored as a whole when its changes have more characters than this, and than this part of it. */
const CHANGES_BYTES_MIN = 256
const CHANGES_PART = 0.4

/** A person and what is stored of it. */
export interface PersonEntry {
  readonly state: PersonState
  /** D of the first ids; once there are more, those behind them are in `addedIds` or stored. */
  firstIds: number[]
  idCount: number
  /** Ids behind the first ones that are not stored yet; they are the last of all. */
  addedIds: number[]
  /** NaN: the person is not stored yet. */
  storedCreatedAtMs: number
  storedIsIdentified: boolean
  /** Bytes of its properties in table `persons`. */
  storedBytes: number
  areIdsChanged: boolean
  storedEmail: string | null
  /** Ids behind the first ones that are stored. */
  storedIds: number
  /** Stored ids behind the first ones are no longer those of the person. */
  rewritesIds: boolean
}

/** A person of whom nothing is stored yet. */
export function newEntry(state: PersonState, firstIds: number[], idCount: number): PersonEntry {
  return {
    state,
    firstIds,
    idCount,
    addedIds: [],
    storedCreatedAtMs: Number.NaN,
    storedIsIdentified: false,
    storedBytes: 0,
    areIdsChanged: false,
    storedEmail: null,
    storedIds: 0,
    rewritesIds: false,
  }
}

/** A person as it is stored, with what its properties and version are by now. */
export function storedEntry(
  whole: PersonRecord,
  { properties, version }: ReturnType<typeof foldRecord>,
): PersonEntry {
  const { number, uuid, createdAtMs, isIdentified, idCount, firstIds } = whole
  const state = personState(number, uuid, createdAtMs, properties, isIdentified, version)
  const entry = newEntry(state, firstIds, idCount)
  entry.storedCreatedAtMs = createdAtMs
  entry.storedIsIdentified = isIdentified
  entry.storedBytes = whole.jsonBytes
  entry.storedEmail = emailOf(properties)
  entry.storedIds = Math.max(0, idCount - INLINE_IDS_MAX)
  return entry
}

/** A deleted or merged person that leaves records behind. */
export interface GonePerson
  extends Pick<PersonEntry, 'storedCreatedAtMs' | 'storedEmail' | 'storedIds'>,
    Pick<PersonState, 'number' | 'uuid'> {
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

  /** `onDamage` as of `PersonChanges`. */
  constructor(projectId: number, tables: EventTables, onDamage: DamageListener) {
    this.#projectId = projectId
    this.#tables = tables
    this.#onDamage = onDamage
    this.changes = new PersonChanges(projectId, tables, onDamage)
    this.#emailChunks = new EmailChunkWrites(projectId, tables.email_chunks)
  }

  /** Enters the uuid of a new person. */
  addUuid(uuid: string, number: number): void {
    const bytes = encodeUuid({ number, deletedAtMs: Number.NaN })
    this.#uuids.push([uuidKey(this.#projectId, uuid), bytes])
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
    if (entry.storedCreatedAtMs !== createdAtMs) {
      if (!Number.isNaN(entry.storedCreatedAtMs)) {
        created.push([createdKey(projectId, entry.storedCreatedAtMs, uuid), null])
      }
      created.push([createdKey(projectId, createdAtMs, uuid), numberBytes(number)])
      entry.storedCreatedAtMs = createdAtMs
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
    this.#storeIds(entry)
  }

  /** Stores only what was written since the person was stored as a whole; false when that is too much. */
  #storeChanges(entry: PersonEntry): boolean {
    const { state } = entry
    const { properties, version, createdAtMs, isIdentified } = state
    if (entry.areIdsChanged || entry.storedIsIdentified !== isIdentified) return false
    if (entry.storedCreatedAtMs !== createdAtMs) return false
    const json = properties.changesJson()
    if (json === null) return false
    if (json.length > CHANGES_BYTES_MIN && json.length > entry.storedBytes * CHANGES_PART) {
      return false
    }
    this.changes.put(state.number, version, json, isSmall(entry))
    return true
  }

  #storeWhole(entry: PersonEntry): void {
    const { state, firstIds, idCount } = entry
    const { number, uuid, version, isIdentified, createdAtMs, properties } = state
    const key = pairKey(this.#projectId, number)
    // Whoever only got ids keeps the text, which neither is made nor encoded again.
    const kept = properties.isUnchanged
      ? attempt(() => peekJson(this.#tables.persons, key), this.#onDamage)
      : null
    const json = kept ?? properties.toJson()
    const jsonBytes = kept?.length ?? Buffer.byteLength(json)
    const value = encodePerson(this.#slab, key, {
      number,
      uuid,
      version,
      isIdentified,
      createdAtMs,
      idCount,
      firstIds,
      json,
      jsonBytes,
    })
    void this.#tables.persons.put(key, value)
    properties.forgetChanges()
    properties.setJsonBytes(jsonBytes)
    entry.storedBytes = jsonBytes
    this.changes.remove(number, isSmall(entry))
    entry.storedIsIdentified = isIdentified
    entry.areIdsChanged = false
  }

  #storeIds(entry: PersonEntry): void {
    const { number } = entry.state
    if (entry.rewritesIds) {
      this.#removeIds(number, entry.storedIds)
      entry.storedIds = 0
      entry.rewritesIds = false
    }
    if (entry.addedIds.length === 0) return
    let position = entry.idCount - entry.addedIds.length
    for (const id of entry.addedIds) {
      const key = tripleKey(this.#projectId, number, position++)
      store(this.#tables.person_ids, key, numberBytes(id))
    }
    entry.addedIds = []
    entry.storedIds = entry.idCount - INLINE_IDS_MAX
  }

  #removeIds(number: number, storedIds: number): void {
    for (let index = 0; index < storedIds; index++) {
      const key = tripleKey(this.#projectId, number, INLINE_IDS_MAX + index)
      void this.#tables.person_ids.remove(key)
    }
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
    this.changes.remove(number)
    this.#created.push([createdKey(projectId, gone.storedCreatedAtMs, uuid), null])
    if (gone.storedEmail !== null) {
      this.#emails.push([emailKey(projectId, gone.storedEmail, number), null])
      this.#emailChunks.set(number, null)
    }
    this.#removeIds(number, gone.storedIds)
  }

  /** Writes the indexes; comes last. */
  finish(): void {
    apply(this.#tables.person_created, this.#created)
    apply(this.#tables.person_emails, this.#emails)
    apply(this.#tables.person_uuids, this.#uuids)
    this.#emailChunks.store()
    this.changes.store()
    this.#created = []
    this.#emails = []
    this.#uuids = []
  }

  /** The commit is done: its memory may be used again. */
  settle(): void {
    this.#slab.clear()
  }
}

/** Whether a person is far from the limit of its properties, so that events may wait to be applied. */
function isSmall({ storedBytes }: PersonEntry): boolean {
  return storedBytes <= DELTA_PERSON_BYTES_MAX
}

/** The e-mail address that a person can be found by. */
function emailOf(properties: PropertyTable): string | null {
  const email = properties.get('email')
  return typeof email === 'string' && email !== '' ? email : null
}

/** D of the ids behind the first ones as they are stored. */
export function storedIds(table: Table, projectId: number, entry: PersonEntry): readonly number[] {
  const start = tripleKey(projectId, entry.state.number, INLINE_IDS_MAX)
  const end = tripleKey(projectId, entry.state.number, INLINE_IDS_MAX + entry.storedIds)
  return [...numbersOf(table, { start, end })]
}

/** Later operations on a key win; keys are written in order, which is faster. */
function apply(table: Table, operations: Operation[]): void {
  operations.sort(([a], [b]) => Buffer.compare(a, b))
  for (const [key, bytes] of operations) {
    if (bytes === null) void table.remove(key)
    else store(table, key, bytes)
  }
}
