/**
 * What is stored of the persons of one project, and how a commit changes it: each person that changed as
 * a whole or as the changes since, and the indexes by time, e-mail and uuid in the order of their keys.
 */
import type { PersonState } from '../../rules/persons/person-world.ts'
import type { PropertyTable } from '../../rules/persons/property-table.ts'
import { emptyValue } from '../lmdb/codec.ts'
import type { Table } from '../lmdb/environment.ts'
import { pairKey, tripleKey } from '../lmdb/keys.ts'
import { PersonChanges } from './person-changes.ts'
import { EmailChunkWrites } from './person-email-chunks.ts'
import {
  createdKey,
  emailKey,
  encodePerson,
  encodeUuid,
  INLINE_IDS_MAX,
  numberOfValue,
  numberValue,
  RecordSlab,
  uuidKey,
} from './person-records.ts'

const PERSON_IDS = 'person_ids'
/** A person is stored as a whole when its changes have more characters than this, and than this part of it. */
const CHANGES_BYTES_MIN = 256
const CHANGES_PART = 0.4

/** The tables of persons. */
export interface PersonTables {
  readonly projects: Table
  readonly persons: Table
  readonly changes: Table
  readonly places: Table
  readonly owners: Table
  readonly since: Table
  readonly ids: Table
  readonly uuids: Table
  readonly created: Table
  readonly emails: Table
  readonly emailChunks: Table
  readonly separations: Table
  readonly separated: Table
  readonly groups: Table
  readonly cohorts: Table
  readonly actions: Table
  readonly members: Table
  readonly activity: Table
  readonly activityItems: Table
  readonly jobs: Table
  readonly retention: Table
  readonly overrides: Table
}

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
  /** Whether there are changes since. */
  hasChanges: boolean
  areIdsChanged: boolean
  storedEmail: string | null
  /** Ids behind the first ones that are stored. */
  storedIds: number
  /** Stored ids behind the first ones are no longer those of the person. */
  rewritesIds: boolean
}

/** A deleted or merged person that leaves records behind. */
export interface GonePerson {
  readonly entry: PersonEntry
  /** NaN: merged. */
  readonly deletedAtMs: number
}

type Operation = readonly [key: Buffer, value: Buffer | null]

/** The writes of one commit. For the one writing thread, only in a write transaction. */
export class PersonWrites {
  readonly #projectId: number
  readonly #tables: PersonTables
  readonly #slab = new RecordSlab()
  readonly #emailChunks: EmailChunkWrites
  /** What was written of persons since they were stored as a whole. */
  readonly changes: PersonChanges
  #created: Operation[] = []
  #emails: Operation[] = []
  #uuids: Operation[] = []

  constructor(projectId: number, tables: PersonTables) {
    this.#projectId = projectId
    this.#tables = tables
    this.changes = new PersonChanges(projectId, tables)
    this.#emailChunks = new EmailChunkWrites(projectId, tables.emailChunks)
  }

  /** Enters the uuid of a new person. */
  addUuid(uuid: string, number: number): void {
    const key = uuidKey(this.#projectId, uuid)
    this.#uuids.push([key, encodeUuid(key, { number, deletedAtMs: Number.NaN })])
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
      const newKey = createdKey(projectId, createdAtMs, uuid)
      created.push([newKey, numberValue(newKey, number)])
      entry.storedCreatedAtMs = createdAtMs
    }
    const email = emailOf(properties)
    if (entry.storedEmail !== email) {
      if (entry.storedEmail !== null) {
        emails.push([emailKey(projectId, entry.storedEmail, number), null])
      }
      if (email !== null) {
        const newKey = emailKey(projectId, email, number)
        emails.push([newKey, emptyValue(newKey)])
      }
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
    this.changes.put(state.number, version, json)
    entry.hasChanges = true
    return true
  }

  #storeWhole(entry: PersonEntry): void {
    const { state, firstIds, idCount } = entry
    const { number, uuid, version, isIdentified, createdAtMs, properties } = state
    const key = pairKey(this.#projectId, number)
    const json = properties.toJson()
    const jsonBytes = Buffer.byteLength(json)
    const value = encodePerson(this.#slab, key, {
      ...{ number, uuid, version, isIdentified, createdAtMs, idCount, firstIds },
      ...{ json, jsonBytes },
    })
    void this.#tables.persons.put(key, value)
    if (entry.hasChanges) this.changes.remove(number)
    entry.hasChanges = false
    properties.forgetChanges()
    properties.setJsonBytes(jsonBytes)
    entry.storedBytes = jsonBytes
    entry.storedIsIdentified = isIdentified
    entry.areIdsChanged = false
  }

  #storeIds(entry: PersonEntry): void {
    const { number } = entry.state
    if (entry.rewritesIds) this.#removeIds(entry)
    if (entry.addedIds.length === 0) return
    let position = entry.idCount - entry.addedIds.length
    for (const id of entry.addedIds) {
      const key = tripleKey(this.#projectId, number, position++)
      void this.#tables.ids.put(key, numberValue(key, id))
    }
    entry.addedIds = []
    entry.storedIds = entry.idCount - INLINE_IDS_MAX
  }

  #removeIds(entry: PersonEntry): void {
    for (let index = 0; index < entry.storedIds; index++) {
      const key = tripleKey(this.#projectId, entry.state.number, INLINE_IDS_MAX + index)
      void this.#tables.ids.remove(key)
    }
    entry.storedIds = 0
    entry.rewritesIds = false
  }

  /** Removes what is stored of a deleted or merged person, and says when it was deleted. */
  remove({ entry, deletedAtMs }: GonePerson): void {
    const projectId = this.#projectId
    const { number, uuid } = entry.state
    if (!Number.isNaN(deletedAtMs)) {
      const deletedKey = uuidKey(projectId, uuid)
      this.#uuids.push([deletedKey, encodeUuid(deletedKey, { number, deletedAtMs })])
    }
    if (Number.isNaN(entry.storedCreatedAtMs)) return
    const key = pairKey(projectId, number)
    void this.#tables.persons.remove(key)
    if (entry.hasChanges) this.changes.remove(number)
    this.#created.push([createdKey(projectId, entry.storedCreatedAtMs, uuid), null])
    if (entry.storedEmail !== null) {
      this.#emails.push([emailKey(projectId, entry.storedEmail, number), null])
      this.#emailChunks.set(number, null)
    }
    this.#removeIds(entry)
  }

  /** Writes the indexes; comes last. */
  finish(): void {
    apply(this.#tables.created, this.#created)
    apply(this.#tables.emails, this.#emails)
    apply(this.#tables.uuids, this.#uuids)
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

/** The e-mail address that a person can be found by. */
export function emailOf(properties: PropertyTable): string | null {
  const email = properties.get('email')
  return typeof email === 'string' && email !== '' ? email : null
}

/** D of the ids behind the first ones as they are stored. */
export function storedIds(table: Table, projectId: number, entry: PersonEntry): readonly number[] {
  const ids: number[] = []
  const range = {
    start: tripleKey(projectId, entry.state.number, INLINE_IDS_MAX),
    end: tripleKey(projectId, entry.state.number, INLINE_IDS_MAX + entry.storedIds),
  }
  for (const { key, value } of table.getRange(range)) {
    ids.push(numberOfValue(PERSON_IDS, key, value))
  }
  return ids
}

/** Later operations on a key win; keys are written in order, which is faster. */
function apply(table: Table, operations: Operation[]): void {
  if (operations.length === 0) return
  operations.sort(([a], [b]) => Buffer.compare(a, b))
  for (const [key, value] of operations) {
    if (value === null) void table.remove(key)
    else void table.put(key, value)
  }
}
