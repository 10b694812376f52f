/**
 * Records of persons in environment `events`, all sealed, numbers little-endian.
 *
 * `persons`: `version u32, flags u8 (1: identified, 2: paged, 4: moved, 8: imported), reserved 3, ids u32, created_at float64 ms,
 * uuid 16`, then D u32 of the first eight ids; of one that was moved `id u32, position of the first id u32`, which else
 * are P and 0; then the properties as compact JSON; of a paged person the directory of its pages, which are in
 * `person_pages` (properties/property-pages.ts). Stores of older versions have neither pages nor moved persons. What was
 * written since then is in person-changes.ts: most events change few properties. `person_ids` holds the D of the
 * further ids by position (linked-ids.ts). `moved_persons` tells the P of a person by its id, where the two differ:
 * somebody who was merged with a person of more ids is kept under the number of that. `person_uuids`: `P u32, deleted at float64 ms (NaN: not deleted)`; it
 * stays when the person is merged or deleted, so that no uuid is given twice. `person_created` sorts by
 * created_at, then uuid, both descending. `person_emails` has the texts of property `email`, cut to 256
 * bytes. `person_projects`: MessagePack of `PersonCounters`.
 */
import { formatUuid, parseUuid } from '../../base/ids.ts'
import type { PersonCandidate } from '../../rules/filters/person-filter.ts'
import { applyDelta, applyDeltaToObject } from '../../rules/persons/property-deltas.ts'
import { PropertyTable } from '../../rules/persons/property-table.ts'
import { DamagedRecordError } from '../faults.ts'
import { SEAL_BYTES, sealInPlace } from '../lmdb/codec.ts'
import type { Range, Table } from '../lmdb/environment.ts'
import { type EventTables, numberKey, pairKey, tripleKey } from '../lmdb/keys.ts'
import { entriesOf, getRecord, load, peek } from '../lmdb/records.ts'
import type { StoredChanges } from './change-blocks.ts'
import { PERSON_EMAIL_BYTES_MAX } from './limits.ts'
import { type ChangeTables, loadChanges } from './person-changes.ts'
import {
  decodePage,
  joinPages,
  needPage,
  pageCount,
  pagedJsonBytes,
} from './properties/property-pages.ts'
import type { Stretches } from './stretches.ts'

const FIXED_BYTES = 36
const FLAG_IDENTIFIED = 1
const FLAG_PAGED = 2
/** The record has an id and a position of its own. */
const FLAG_MOVED = 4
/** Only events of imports have made the person what it is. */
const FLAG_IMPORTED = 8
const MOVED_BYTES = 8
/** Bytes of a P, D or S as value. */
export const NUMBER_BYTES = 4
const SLAB_BYTES = 1024 * 1024
/** Ids that are part of the person's own record. */
export const INLINE_IDS_MAX = 8
/** Also what a text or a value within the properties looks like it: then they are written anew in vain. */
const NUMBER_LIKE_NAME = /[{,]"\d/
/** A name that is no ordinary one in objects; escaped, it is not written. */
const PROTOTYPE = '"__proto__"'
/** Larger than any time in milliseconds. */
const TIME_END = 2 ** 53

/** What is counted for each project. */
export interface PersonCounters {
  /** The newest P. */
  lastPerson: number
  /** Persons that there are. */
  persons: number
  /** In order of their index; '' where one was deleted. */
  groupTypes: string[]
  /** What else is known of the types, in the same order; null: nothing. */
  groupTypeFacts: (GroupTypeFacts | null)[]
  /** Newest numbers of other records. */
  separations: number
  activity: number
  cohorts: number
  jobs: number
  /** Persons that were deleted, those who were merged into others not among them. */
  deletions: number
  /** Cohorts with a fixed list of members. */
  staticCohorts: number[]
  owners: OwnerChanges
}

/** What people have said about a group type, and since when its index means it. */
export interface GroupTypeFacts {
  /** S of the newest event of the project when the type that had the index before was deleted; 0: there was none. */
  readonly since: number
  /** What one group and several groups are called. */
  readonly singular: string | null
  readonly plural: string | null
  /** Lists show smaller numbers first. */
  readonly order: number | null
}

/** Of a type that nobody has said anything about. */
export const NO_GROUP_TYPE_FACTS: GroupTypeFacts = {
  since: 0,
  singular: null,
  plural: null,
  order: null,
}

/**
 * Where owners have changed lately: who has read all of them reads those again, and no others. A function of the
 * log, however it was divided into commits.
 */
export interface OwnerChanges {
  /** How many changes there were. */
  readonly count: number
  /** The chunks of all changes behind this count are among `chunks`. */
  readonly since: number
  /** Pairs: D / 256, and the number of the newest change there; in the order of these. */
  readonly chunks: readonly number[]
}

/** Of a project whose owners have never changed. */
const NO_OWNER_CHANGES: OwnerChanges = { count: 0, since: 0, chunks: [] }

/** A person as it is stored; `json` are its properties, '' when only the directory of their pages was read. */
export interface PersonRecord {
  /** P, under which everything of the person is stored. */
  readonly number: number
  /** The id that the API shows. */
  readonly id: number
  readonly uuid: string
  readonly version: number
  readonly isIdentified: boolean
  readonly isImported: boolean
  readonly createdAtMs: number
  readonly idCount: number
  /** D of the first ids. */
  readonly firstIds: readonly number[]
  /** The position of the first id (linked-ids.ts). */
  readonly firstPosition: number
  readonly json: string
  readonly jsonBytes: number
  /** Of the pages that have the properties; null: they are stored in one record. */
  readonly directory: Buffer | null
  /** Properties that were written later; null when there are none. */
  readonly changesJson: string | null
  /** What later events said, which `version` does not count; '' when there are none. */
  readonly deltas: string
}

/** Where a person is stored. */
export type RecordTables = ChangeTables & WholeTables
/** Where a person is stored as a whole. */
export type WholeTables = Pick<EventTables, 'persons' | 'person_pages'>

/** The counters of a project, which `ProjectPersons` stores. Throws `DamagedRecordError`. */
export function loadPersonCounters(table: Table, projectId: number): PersonCounters {
  const numbers = {
    lastPerson: 0,
    persons: 0,
    separations: 0,
    activity: 0,
    cohorts: 0,
    jobs: 0,
    deletions: 0,
  }
  const lists = { groupTypes: [], groupTypeFacts: [], staticCohorts: [] }
  const usual = { ...numbers, ...lists, owners: NO_OWNER_CHANGES }
  // Older versions count no changes of owners.
  const stored = getRecord(table, numberKey(projectId)) as Partial<PersonCounters> | undefined
  return { ...usual, ...stored }
}

/**
 * Memory for records that wait for the end of their transaction: one large piece is much cheaper than
 * many small ones, because LMDB asks for the address of each.
 */
export class RecordSlab {
  #slab = Buffer.alloc(0)
  #offset = 0

  /** Memory for a sealed record of `bytes` bytes, to be filled and given to `finish`. */
  take(bytes: number): Buffer {
    const length = bytes + SEAL_BYTES
    if (this.#offset + length > this.#slab.length) {
      this.#slab = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, length))
      this.#offset = 0
    }
    const record = this.#slab.subarray(this.#offset, this.#offset + length)
    this.#offset += length
    return record
  }

  /** Gives the memory back. Only after the transaction. */
  clear(): void {
    this.#slab = Buffer.alloc(0)
    this.#offset = 0
  }
}

/** The bytes of a person; `recorded` is what its record has of the properties. */
export function encodePerson(
  slab: RecordSlab,
  key: Uint8Array,
  person: Omit<PersonRecord, 'changesJson' | 'deltas' | 'json' | 'jsonBytes' | 'directory'> & {
    readonly recorded: RecordedProperties
  },
): Buffer {
  const { firstIds, firstPosition, id, recorded } = person
  const { json, bytes, isPaged } = recorded
  const isMoved = id !== person.number || firstPosition !== 0
  const jsonStart = FIXED_BYTES + firstIds.length * 4 + (isMoved ? MOVED_BYTES : 0)
  const record = slab.take(jsonStart + bytes)
  record.writeUInt32LE(person.version)
  let flags = person.isIdentified ? FLAG_IDENTIFIED : 0
  if (isPaged) flags |= FLAG_PAGED
  if (isMoved) flags |= FLAG_MOVED
  if (person.isImported) flags |= FLAG_IMPORTED
  record.writeUInt32LE(flags, 4)
  record.writeUInt32LE(person.idCount, 8)
  record.writeDoubleLE(person.createdAtMs, 12)
  record.set(uuidBytes(person.uuid), 20)
  let offset = FIXED_BYTES
  for (const distinctId of firstIds) offset = record.writeUInt32LE(distinctId, offset)
  if (isMoved) record.writeUInt32LE(firstPosition, record.writeUInt32LE(id, offset))
  if (typeof json === 'string') record.write(json, jsonStart, 'utf8')
  else record.set(json, jsonStart)
  return sealInPlace(key, record)
}

/** A person, or null; `kept` are places of changes. Throws `DamagedRecordError`. */
export function loadPerson(
  tables: RecordTables,
  projectId: number,
  number: number,
  kept: Stretches | null = null,
): PersonRecord | null {
  const record = loadWhole(tables, projectId, number)
  const changes = record && loadChanges(tables, projectId, number, kept)
  return changes && record ? withChanges(record, changes) : record
}

/** As `loadPerson`, but without the pages of a paged person: its cost does not depend on the properties. */
export function loadUnpaged(
  tables: RecordTables,
  projectId: number,
  number: number,
  kept: Stretches | null = null,
): PersonRecord | null {
  const record = loadHead(tables.persons, projectId, number)
  const changes = record && loadChanges(tables, projectId, number, kept)
  return changes && record ? withChanges(record, changes) : record
}

/** A person and what was written since. */
export function withChanges(whole: PersonRecord, changes: StoredChanges): PersonRecord {
  const { version, json, deltas } = changes
  const changesJson = json === '' ? null : json
  return { ...whole, version: version ?? whole.version, changesJson, deltas }
}

/** A person as it was last stored as a whole, or null. Throws `DamagedRecordError`. */
export function loadWhole(
  tables: WholeTables,
  projectId: number,
  number: number,
): PersonRecord | null {
  const record = loadHead(tables.persons, projectId, number)
  if (record === null || record.directory === null) return record
  const read = (page: number): Buffer => loadPage(tables, projectId, number, page)
  return { ...record, json: joinPages(record.directory, read) }
}

/** A page of a paged person, valid until the next read. Throws `DamagedRecordError`. */
export function loadPage(
  { person_pages: table }: Pick<EventTables, 'person_pages'>,
  projectId: number,
  number: number,
  page: number,
): Buffer {
  return decodePage(needPage(table, tripleKey(projectId, number, page)))
}

/** The same, without the properties of a paged person. Throws `DamagedRecordError`. */
export function loadHead(table: Table, projectId: number, number: number): PersonRecord | null {
  const key = pairKey(projectId, number)
  const record = peek(table, key)
  if (record === undefined) return null
  if (record.length < FIXED_BYTES) {
    throw new DamagedRecordError(table.name, key, 'the value has a wrong length')
  }
  const idCount = record.readUInt32LE(8)
  const firstIds: number[] = []
  let offset = FIXED_BYTES
  for (let index = 0; index < idCount && index < INLINE_IDS_MAX; index++) {
    firstIds.push(record.readUInt32LE(offset))
    offset += 4
  }
  const flags = record.readUInt8(4)
  const isMoved = (flags & FLAG_MOVED) !== 0
  const id = isMoved ? record.readUInt32LE(offset) : number
  const firstPosition = isMoved ? record.readUInt32LE(offset + 4) : 0
  if (isMoved) offset += MOVED_BYTES
  const isPaged = (flags & FLAG_PAGED) !== 0
  // The record is valid until the next read.
  const directory = isPaged ? Buffer.from(record.subarray(offset)) : null
  return {
    number,
    id,
    uuid: formatUuid(record, 20),
    version: record.readUInt32LE(),
    isIdentified: (flags & FLAG_IDENTIFIED) !== 0,
    isImported: (flags & FLAG_IMPORTED) !== 0,
    createdAtMs: record.readDoubleLE(12),
    idCount,
    firstIds,
    firstPosition,
    json: directory === null ? record.toString('utf8', offset) : '',
    jsonBytes: directory === null ? record.length - offset : pagedJsonBytes(directory),
    directory,
    changesJson: null,
    deltas: '',
  }
}

/** The properties of a person as they are now. */
export function propertiesOfRecord(record: PersonRecord): Readonly<Record<string, unknown>> {
  const { json, changesJson, deltas } = record
  if (deltas !== '' && (json.includes(PROTOTYPE) || deltas.includes(PROTOTYPE))) {
    return foldRecord(record).properties.toObject()
  }
  const properties = parseProperties(json)
  // No change is called `__proto__`: such properties are written with all others.
  if (changesJson !== null) Object.assign(properties, parseProperties(changesJson))
  if (deltas === '') return properties
  for (const delta of deltas.split('\n')) applyDeltaToObject(properties, delta)
  return properties
}

/** Properties and version of a person as they are now, or after one delta more. */
export function foldRecord(
  { json, jsonBytes, changesJson, deltas, version }: PersonRecord,
  further: string | null = null,
): { readonly properties: PropertyTable; readonly version: number } {
  const properties = PropertyTable.from(parseProperties(json), jsonBytes)
  // No change is called `__proto__`: such properties are written with all others.
  if (changesJson !== null) {
    properties.addChanges(parseProperties(changesJson), Buffer.byteLength(changesJson))
  }
  let now = version
  const stored = deltas === '' ? [] : deltas.split('\n')
  for (const delta of further === null ? stored : [...stored, further]) {
    if (applyDelta(properties, delta)) now++
  }
  return { properties, version: now }
}

/**
 * The stored text of the properties, when that is their compact JSON as it would be written now: nothing was
 * changed since, and no name looks like a number, which objects have first and the store has not. Else null.
 */
export function storedJson({ json, changesJson, deltas }: PersonRecord): string | null {
  return changesJson === null && deltas === '' && !NUMBER_LIKE_NAME.test(json) ? json : null
}

/** A person as tests see it; its properties are parsed when one is asked for. */
export function candidateOf(record: PersonRecord): PersonCandidate {
  let properties: Readonly<Record<string, unknown>> | null = null
  return {
    number: record.number,
    property: (key) => {
      properties ??= propertiesOfRecord(record)
      return Object.hasOwn(properties, key) ? properties[key] : undefined
    },
  }
}

/** Properties as the store keeps them. */
export function parseProperties(json: string): Record<string, unknown> {
  // The store writes objects only.
  return JSON.parse(json) as Record<string, unknown>
}

/** Properties as the record of a person has them: JSON, or the directory of their pages. */
export interface RecordedProperties {
  readonly json: string | Buffer
  /** Bytes of that. */
  readonly bytes: number
  /** Bytes of the JSON of all properties. */
  readonly jsonBytes: number
  readonly isPaged: boolean
}

/** The properties in the record of a person that was stored as a whole, or null; valid until the next read. Throws `DamagedRecordError`. */
export function peekProperties(table: Table, key: Buffer): RecordedProperties | null {
  const record = peek(table, key)
  if (record === undefined) return null
  const json = record.subarray(propertiesStart(record))
  const isPaged = (record.readUInt8(4) & FLAG_PAGED) !== 0
  const jsonBytes = isPaged ? pagedJsonBytes(json) : json.length
  return { json, bytes: json.length, jsonBytes, isPaged }
}

/** P of the living person with an id, if there is such a person. Throws `DamagedRecordError`. */
export function loadNumber(table: Table, projectId: number, id: number): number {
  return load(table, pairKey(projectId, id), NUMBER_BYTES)?.readUInt32LE() ?? id
}

/** The living person with an id, or null. Throws `DamagedRecordError`. */
export function loadPersonById(
  tables: RecordTables & Pick<EventTables, 'moved_persons'>,
  projectId: number,
  id: number,
): PersonRecord | null {
  const person = loadPerson(tables, projectId, loadNumber(tables.moved_persons, projectId, id))
  // Under that number may be somebody else, who was merged with a person of more ids.
  return person?.id === id ? person : null
}

/** How many pages the record of a person names; `record` is without its checksum. */
export function pagesOfPerson(record: Buffer): number {
  if ((record.readUInt8(4) & FLAG_PAGED) === 0) return 0
  return pageCount(record.subarray(propertiesStart(record)))
}

/** The id of a person with a number; `record` is without its checksum. */
export function idOfPerson(record: Buffer, number: number): number {
  const isMoved = (record.readUInt8(4) & FLAG_MOVED) !== 0
  return isMoved ? record.readUInt32LE(propertiesStart(record) - MOVED_BYTES) : number
}

function propertiesStart(record: Buffer): number {
  const movedBytes = (record.readUInt8(4) & FLAG_MOVED) === 0 ? 0 : MOVED_BYTES
  return FIXED_BYTES + Math.min(record.readUInt32LE(8), INLINE_IDS_MAX) * 4 + movedBytes
}

/** What is known of a uuid: its P, and when the person was deleted (NaN: it was not). */
export interface UuidRecord {
  readonly number: number
  readonly deletedAtMs: number
}

/** What is known of a uuid (any case, with hyphens), or null. Throws `DamagedRecordError`. */
export function loadUuid(table: Table, projectId: number, uuid: string): UuidRecord | null {
  const record = load(table, uuidKey(projectId, uuid))
  if (record === undefined) return null
  return { number: record.readUInt32LE(), deletedAtMs: record.readDoubleLE(4) }
}

/** The bytes of a record of table `person_uuids`. */
export function encodeUuid({ number, deletedAtMs }: UuidRecord): Buffer {
  const record = Buffer.allocUnsafe(12)
  record.writeUInt32LE(number)
  record.writeDoubleLE(deletedAtMs, 4)
  return record
}

/** A key of table `person_uuids`. */
export function uuidKey(projectId: number, uuid: string): Buffer {
  const key = Buffer.allocUnsafe(20)
  key.writeUInt32BE(projectId)
  key.set(uuidBytes(uuid), 4)
  return key
}

/** A key of table `person_created`. */
export function createdKey(projectId: number, createdAtMs: number, uuid: string): Buffer {
  const key = Buffer.allocUnsafe(28)
  writeCreatedPrefix(key, projectId, createdAtMs)
  const bytes = uuidBytes(uuid)
  for (let index = 0; index < 16; index++) key[12 + index] = 255 - (bytes[index] ?? 0)
  return key
}

/** The first key of table `person_created` of persons made at that time or earlier. */
export function createdStart(projectId: number, createdAtMs: number): Buffer {
  const key = Buffer.allocUnsafe(12)
  writeCreatedPrefix(key, projectId, createdAtMs)
  return key
}

/** The time in milliseconds that a key of table `person_created` begins with. */
export function createdAtOf(key: Buffer): number {
  return TIME_END - (key.readUInt32BE(4) * 2 ** 32 + key.readUInt32BE(8))
}

function writeCreatedPrefix(key: Buffer, projectId: number, createdAtMs: number): void {
  const inverted = TIME_END - Math.round(createdAtMs)
  key.writeUInt32BE(projectId)
  key.writeUInt32BE(Math.floor(inverted / 2 ** 32), 4)
  key.writeUInt32BE(inverted % 2 ** 32, 8)
}

/** A key of table `person_emails`. */
export function emailKey(projectId: number, email: string, number: number): Buffer {
  const start = emailStart(projectId, email)
  const key = Buffer.allocUnsafe(start.length + 4)
  key.set(start)
  key.writeUInt32BE(number, start.length)
  return key
}

/** What the keys of all persons with that e-mail address begin with. */
export function emailStart(projectId: number, email: string): Buffer {
  const bytes = Buffer.from(email, 'utf8').subarray(0, PERSON_EMAIL_BYTES_MAX)
  const key = Buffer.allocUnsafe(4 + bytes.length)
  key.writeUInt32BE(projectId)
  key.set(bytes, 4)
  return key
}

/** True when the e-mail index holds only the beginning of such addresses. */
export function isEmailCut(keyBytes: number): boolean {
  return keyBytes - 8 >= PERSON_EMAIL_BYTES_MAX
}

/** A P, D or S as value. */
export function numberBytes(number: number): Buffer {
  const record = Buffer.allocUnsafe(NUMBER_BYTES)
  record.writeUInt32LE(number)
  return record
}

/** The numbers of a range. Throws `DamagedRecordError`. */
export function* numbersOf(table: Table, range: Range): Generator<number> {
  for (const { value } of entriesOf(table, range, NUMBER_BYTES)) yield value.readUInt32LE()
}

function uuidBytes(uuid: string): Uint8Array {
  const bytes = parseUuid(uuid)
  if (bytes === null) throw new TypeError('a person has a uuid that is none')
  return bytes
}
