/**
 * The records of persons in environment `events`. Every record ends with a checksum, and all numbers are little-endian:
 *
 *   persons          project, person -> version u32 | flags u8 | reserved 3 | number of ids u32
 *                      | created_at float64 ms | uuid 16 | distinct ID number u32 of the first eight ids
 *                      | if moved: id u32, position of the first id u32
 *                      | properties as compact JSON, or the directory of their pages
 *     flags            1: identified, 2: paged, 4: moved, 8: imported
 *   person_pages     project, person, page -> page of properties (properties/property-pages.ts)
 *   person_ids       project, person, position -> distinct ID number of a further id (linked-ids.ts)
 *   moved_persons    project, id -> person number, if it differs from the id
 *   person_uuids     project, uuid -> person number u32 | deleted at float64 ms (NaN: not deleted)
 *   person_created   project, created_at and uuid, both descending -> person number
 *   person_emails    project, text of property `email` (at most 256 bytes), person -> nothing
 *   person_projects  project -> MessagePack of `PersonCounters`
 *
 * Most events change only a few properties of a person. These changes are stored separately (person-changes.ts) until
 * the person is stored completely again. If the person that remains after a merge has fewer ids than the merged person,
 * it *moves*: it keeps its own id, but is stored under the person number of the merged person. The id of any other
 * person equals its person number, and its first distinct_id has position 0. When a person is merged or deleted, its
 * record in `person_uuids` stays, so that no uuid is used twice. Stores of older versions have neither pages nor moved
 * persons.
 */
import { formatUuid, parseUuid } from '../../base/ids.ts'
import type { PersonCandidate } from '../../rules/filters/person-filter.ts'
import { applyDelta, applyDeltaToObject } from '../../rules/persons/property-deltas.ts'
import { PropertyTable, type UnreadProperties } from '../../rules/persons/property-table.ts'
import { DamagedRecordError } from '../faults.ts'
import { SEAL_BYTES, sealInPlace } from '../lmdb/codec.ts'
import type { Range, Table } from '../lmdb/environment.ts'
import { type EventTables, numberKey, pairKey, tripleKey } from '../lmdb/keys.ts'
import { entriesOf, getRecord, load, peek } from '../lmdb/records.ts'
import type { CachedRanges } from './cached-ranges.ts'
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

const FIXED_BYTES = 36
const FLAG_IDENTIFIED = 1
const FLAG_PAGED = 2
/**
 * A flag: the person has moved to another person number. The record then contains its id and the position of its first
 * distinct_id.
 */
const FLAG_MOVED = 4
/** A flag: only imported events have changed the person so far. */
const FLAG_IMPORTED = 8
const MOVED_BYTES = 8
/** The number of bytes of a stored person number, distinct ID number or sequence number. */
export const NUMBER_BYTES = 4
const SLAB_BYTES = 1024 * 1024
/** The largest number of ids in the record of a person. Further ids have records of their own. */
export const INLINE_IDS_MAX = 8
/**
 * Matches JSON in which the name of a member begins with a digit. It may also match a text inside a value. That is
 * harmless: the JSON is then encoded again, with the same result.
 */
const NUMBER_LIKE_NAME = /[{,]"\d/
/**
 * A member name that has a special meaning in JavaScript objects, as it appears in JSON. The store never writes its
 * characters as escape sequences, so a search for this text finds every use of the name.
 */
const PROTOTYPE = '"__proto__"'
/**
 * A number that is larger than any time in milliseconds. The keys of table `person_created` contain this number minus
 * the creation time, so that newer persons come first.
 */
const TIME_END = 2 ** 53

/** The counters and lists that are stored for a project as a whole. */
export interface PersonCounters {
  /** The largest person number that was assigned so far. */
  lastPerson: number
  /** The number of persons that the project has now. */
  persons: number
  /** The names of the group types, by index. A deleted type has the name ''. */
  groupTypes: string[]
  /** Facts about the group types, by index. Null: nothing was set for the type. */
  groupTypeFacts: (GroupTypeFacts | null)[]
  /**
   * The largest numbers that were assigned so far: to separations, entries of the activity log, cohorts and erasure
   * jobs.
   */
  separations: number
  activity: number
  cohorts: number
  jobs: number
  /** The number of persons that were deleted so far. Persons that ended by a merge do not count. */
  deletions: number
  /** The cohorts that have, or once had, stored members: a fixed list or calculated members. */
  staticCohorts: number[]
  owners: OwnerChanges
}

/** How a group type is shown, and from which event on the type has its index. */
export interface GroupTypeFacts {
  /**
   * If another type had the same index before: the sequence number of the project's newest event at the time when that
   * type was deleted. Groups in events up to that one belong to the deleted type, not to this one. Otherwise 0.
   */
  readonly since: number
  /** The display names for one group and for several groups. */
  readonly singular: string | null
  readonly plural: string | null
  /** The position of the type in lists. A type with a smaller number comes first. Null: no order was set. */
  readonly order: number | null
}

/** The facts about a group type for which nothing was set. */
export const NO_GROUP_TYPE_FACTS: GroupTypeFacts = {
  since: 0,
  singular: null,
  plural: null,
  order: null,
}

/**
 * Tells readers which owners have changed recently. The owners are stored in chunks of 256 distinct ID numbers. A
 * reader that already has all chunks in memory needs to read only the chunks that are listed here. The list depends
 * only on the events, and not on how they were divided into commits.
 */
export interface OwnerChanges {
  /** The number of changes so far. The changes are numbered from 1 to this number. */
  readonly count: number
  /**
   * The number of the last change that is no longer listed in `chunks`, because there are too many. All later changes
   * are listed.
   */
  readonly since: number
  /**
   * The recently changed chunks, as pairs of numbers: the number of the chunk (distinct ID number / 256), and the
   * number of its newest change. They are ordered by the number of the change.
   */
  readonly chunks: readonly number[]
}

/** The value for a project in which no owner has changed so far. */
const NO_OWNER_CHANGES: OwnerChanges = { count: 0, since: 0, chunks: [] }

/**
 * A stored person. `json` contains its properties as they were when it was stored completely, or '' if only the
 * directory of their pages was read.
 */
export interface PersonRecord {
  /** The person number, under which all records of the person are stored. */
  readonly number: number
  /** The id of the person in the API. */
  readonly id: number
  readonly uuid: string
  readonly version: number
  readonly isIdentified: boolean
  readonly isImported: boolean
  readonly createdAtMs: number
  readonly idCount: number
  /** The distinct ID numbers of the first ids, at most eight. */
  readonly firstIds: readonly number[]
  /** The position of the first id (linked-ids.ts). */
  readonly firstPosition: number
  readonly json: string
  readonly jsonBytes: number
  /** The directory of the pages with the properties. Null if the properties are in the record itself. */
  readonly directory: Buffer | null
  /** The JSON of the properties that changed since the person was stored completely, or null. */
  readonly changesJson: string | null
  /** The deltas (person-changes.ts) that later events have appended, or ''. `version` does not count them. */
  readonly deltas: string
}

/** The tables from which a person is read: those with its complete state, and those with the changes since then. */
export type RecordTables = ChangeTables & WholeTables
/** The tables that contain the complete state of a person, as of the time when it was last stored completely. */
export type WholeTables = Pick<EventTables, 'persons' | 'person_pages'>

/** Returns the counters of a project, which `ProjectPersons` stores. Throws `DamagedRecordError`. */
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
  // Counters that an older version has written lack `owners`.
  const stored = getRecord(table, numberKey(projectId)) as Partial<PersonCounters> | undefined
  return { ...usual, ...stored }
}

/**
 * Provides memory for records until their transaction ends. All records share one large buffer. That is much cheaper
 * than many small buffers, because lmdb-js has to look up the memory address of each buffer.
 */
export class RecordSlab {
  #slab = Buffer.alloc(0)
  #offset = 0

  /**
   * Returns memory for a record of `bytes` bytes, including the checksum that `sealInPlace` adds. The caller fills the
   * memory.
   */
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

  /** Releases the memory. Call it only after the transaction. */
  clear(): void {
    this.#slab = Buffer.alloc(0)
    this.#offset = 0
  }
}

/** Encodes the record of a person. `recorded` contains the properties in the form in which the record stores them. */
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

/** Returns a person, or null if there is none. `kept` caches the locations of changes. Throws `DamagedRecordError`. */
export function loadPerson(
  tables: RecordTables,
  projectId: number,
  number: number,
  kept: CachedRanges | null = null,
): PersonRecord | null {
  const record = loadWhole(tables, projectId, number)
  const changes = record && loadChanges(tables, projectId, number, kept)
  return changes && record ? withChanges(record, changes) : record
}

/**
 * Returns a person as `loadPerson` does, but without the properties if they are in pages. So the cost does not depend
 * on the number of properties.
 */
export function loadUnpaged(
  tables: RecordTables,
  projectId: number,
  number: number,
  kept: CachedRanges | null = null,
): PersonRecord | null {
  const record = loadHead(tables.persons, projectId, number)
  const changes = record && loadChanges(tables, projectId, number, kept)
  return changes && record ? withChanges(record, changes) : record
}

/** Returns the completely stored person `whole` together with the changes that were stored since then. */
export function withChanges(whole: PersonRecord, changes: StoredChanges): PersonRecord {
  const { version, json, deltas } = changes
  const changesJson = json === '' ? null : json
  return { ...whole, version: version ?? whole.version, changesJson, deltas }
}

/**
 * Returns a person as it was last stored completely, without the changes since then, or null. Throws
 * `DamagedRecordError`.
 */
function loadWhole(tables: WholeTables, projectId: number, number: number): PersonRecord | null {
  const head = loadHead(tables.persons, projectId, number)
  return head && withPages(tables, projectId, head)
}

/** Returns a person with the properties that `loadHead` left in pages. Throws `DamagedRecordError`. */
export function withPages(
  tables: Pick<EventTables, 'person_pages'>,
  projectId: number,
  head: PersonRecord,
): PersonRecord {
  const { directory, number } = head
  if (directory === null) return head
  const read = (page: number): Buffer => loadPage(tables, projectId, number, page)
  return { ...head, json: joinPages(directory, read) }
}

/** Returns a page of a person's properties. It is valid until the next read. Throws `DamagedRecordError`. */
export function loadPage(
  { person_pages: table }: Pick<EventTables, 'person_pages'>,
  projectId: number,
  number: number,
  page: number,
): Buffer {
  return decodePage(needPage(table, tripleKey(projectId, number, page)))
}

/**
 * Returns a person as `loadWhole` does, but without the properties if they are in pages. Throws `DamagedRecordError`.
 */
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
  // The bytes of the record are valid only until the next read, so the directory is copied.
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

/** Returns the current properties of a person, with all changes. */
export function propertiesOfRecord(record: PersonRecord): Readonly<Record<string, unknown>> {
  const { json, changesJson, deltas } = record
  if (deltas !== '' && (json.includes(PROTOTYPE) || deltas.includes(PROTOTYPE))) {
    return foldRecord(record).properties.toObject()
  }
  const properties = parseProperties(json)
  // No change contains `__proto__`. A person with such a property is always stored completely.
  if (changesJson !== null) Object.assign(properties, parseProperties(changesJson))
  if (deltas === '') return properties
  for (const delta of deltas.split('\n')) applyDeltaToObject(properties, delta)
  return properties
}

/**
 * Returns the current properties and the version of a person. If the delta `further` is given, it is applied too. If
 * `unread` is given, it stands for the completely stored properties, so that they are not read. Throws
 * `DamagedRecordError` if a page of `unread` that is needed is damaged.
 */
export function foldRecord(
  { json, jsonBytes, changesJson, deltas, version }: PersonRecord,
  further: string | null = null,
  unread: UnreadProperties | null = null,
): { readonly properties: PropertyTable; readonly version: number } {
  const properties =
    unread === null
      ? PropertyTable.from(parseProperties(json), jsonBytes)
      : PropertyTable.over(unread)
  // No change contains `__proto__`. A person with such a property is always stored completely.
  if (changesJson !== null) {
    const changes = parseProperties(changesJson)
    // The pages that the next complete record changes are read now. Damage in them then concerns only the event of this
    // person, and not the whole commit.
    if (unread !== null) for (const name in changes) unread.has(name)
    properties.addChanges(changes, Buffer.byteLength(changesJson))
  }
  let now = version
  const stored = deltas === '' ? [] : deltas.split('\n')
  for (const delta of further === null ? stored : [...stored, further]) {
    if (applyDelta(properties, delta)) now++
  }
  return { properties, version: now }
}

/**
 * Returns the stored text of a person's properties, if it is exactly the JSON that encoding the current properties
 * would give. Returns null if there are changes. Also returns null if the name of a property may be a number: a
 * JavaScript object lists such names first, so its JSON can differ from the stored text.
 */
export function storedJson({ json, changesJson, deltas }: PersonRecord): string | null {
  return changesJson === null && deltas === '' && !NUMBER_LIKE_NAME.test(json) ? json : null
}

/** Returns a person in the form in which filters test it. Its properties are parsed when one of them is first used. */
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

/** Parses properties in their stored form. */
export function parseProperties(json: string): Record<string, unknown> {
  // The cast is right: the store writes only objects here.
  return JSON.parse(json) as Record<string, unknown>
}

/**
 * Properties in the form in which the record of a person contains them: their JSON, or the directory of their pages.
 */
export interface RecordedProperties {
  readonly json: string | Buffer
  /** The number of bytes of `json` in the record. */
  readonly bytes: number
  /** The number of bytes of the JSON of all properties, also if they are paged. */
  readonly jsonBytes: number
  readonly isPaged: boolean
}

/**
 * Returns the properties in the complete record of a person, or null if there is no record. The result is valid until
 * the next read. Throws `DamagedRecordError`.
 */
export function peekProperties(table: Table, key: Buffer): RecordedProperties | null {
  const record = peek(table, key)
  if (record === undefined) return null
  const json = record.subarray(propertiesStart(record))
  const isPaged = (record.readUInt8(4) & FLAG_PAGED) !== 0
  const jsonBytes = isPaged ? pagedJsonBytes(json) : json.length
  return { json, bytes: json.length, jsonBytes, isPaged }
}

/**
 * Returns the person number under which the person with an id is stored. Does not check whether there is such a person.
 * Throws `DamagedRecordError`.
 */
export function loadNumber(table: Table, projectId: number, id: number): number {
  return load(table, pairKey(projectId, id), NUMBER_BYTES)?.readUInt32LE() ?? id
}

/** Returns the person with an id, or null if there is none. Throws `DamagedRecordError`. */
export function loadPersonById(
  tables: RecordTables & Pick<EventTables, 'moved_persons'>,
  projectId: number,
  id: number,
): PersonRecord | null {
  const person = loadPerson(tables, projectId, loadNumber(tables.moved_persons, projectId, id))
  // After a merge, another person may be stored under the number of a person that no longer exists.
  return person?.id === id ? person : null
}

/**
 * Returns the number of pages that a person's properties have. `record` is the person's record without its checksum.
 */
export function pagesOfPerson(record: Buffer): number {
  if ((record.readUInt8(4) & FLAG_PAGED) === 0) return 0
  return pageCount(record.subarray(propertiesStart(record)))
}

/** Returns the id of the person with a person number. `record` is the person's record without its checksum. */
export function idOfPerson(record: Buffer, number: number): number {
  const isMoved = (record.readUInt8(4) & FLAG_MOVED) !== 0
  return isMoved ? record.readUInt32LE(propertiesStart(record) - MOVED_BYTES) : number
}

function propertiesStart(record: Buffer): number {
  const movedBytes = (record.readUInt8(4) & FLAG_MOVED) === 0 ? 0 : MOVED_BYTES
  return FIXED_BYTES + Math.min(record.readUInt32LE(8), INLINE_IDS_MAX) * 4 + movedBytes
}

/** The record of a uuid: a person number, and the time when the person was deleted. NaN: it was not deleted. */
export interface UuidRecord {
  readonly number: number
  readonly deletedAtMs: number
}

/**
 * Returns the record of a uuid, or null if the uuid was never used. The uuid must have hyphens; upper and lower case do
 * not matter. Throws `DamagedRecordError`.
 */
export function loadUuid(table: Table, projectId: number, uuid: string): UuidRecord | null {
  const record = load(table, uuidKey(projectId, uuid))
  if (record === undefined) return null
  return { number: record.readUInt32LE(), deletedAtMs: record.readDoubleLE(4) }
}

/** Returns the bytes of a record of table `person_uuids`. */
export function encodeUuid({ number, deletedAtMs }: UuidRecord): Buffer {
  const record = Buffer.allocUnsafe(12)
  record.writeUInt32LE(number)
  record.writeDoubleLE(deletedAtMs, 4)
  return record
}

/** Returns a key of table `person_uuids`. */
export function uuidKey(projectId: number, uuid: string): Buffer {
  const key = Buffer.allocUnsafe(20)
  key.writeUInt32BE(projectId)
  key.set(uuidBytes(uuid), 4)
  return key
}

/** Returns a key of table `person_created`. */
export function createdKey(projectId: number, createdAtMs: number, uuid: string): Buffer {
  const key = Buffer.allocUnsafe(28)
  writeCreatedPrefix(key, projectId, createdAtMs)
  const bytes = uuidBytes(uuid)
  for (let index = 0; index < 16; index++) key[12 + index] = 255 - (bytes[index] ?? 0)
  return key
}

/** Returns the first key of table `person_created` for persons that were created at `createdAtMs` or earlier. */
export function createdStart(projectId: number, createdAtMs: number): Buffer {
  const key = Buffer.allocUnsafe(12)
  writeCreatedPrefix(key, projectId, createdAtMs)
  return key
}

/** Returns the time in milliseconds at the beginning of a key of table `person_created`. */
export function createdAtOf(key: Buffer): number {
  return TIME_END - (key.readUInt32BE(4) * 2 ** 32 + key.readUInt32BE(8))
}

function writeCreatedPrefix(key: Buffer, projectId: number, createdAtMs: number): void {
  const inverted = TIME_END - Math.round(createdAtMs)
  key.writeUInt32BE(projectId)
  key.writeUInt32BE(Math.floor(inverted / 2 ** 32), 4)
  key.writeUInt32BE(inverted % 2 ** 32, 8)
}

/** Returns a key of table `person_emails`. */
export function emailKey(projectId: number, email: string, number: number): Buffer {
  const start = emailStart(projectId, email)
  const key = Buffer.allocUnsafe(start.length + 4)
  key.set(start)
  key.writeUInt32BE(number, start.length)
  return key
}

/** Returns the bytes with which the keys of all persons with an e-mail address begin. */
export function emailStart(projectId: number, email: string): Buffer {
  const bytes = Buffer.from(email, 'utf8').subarray(0, PERSON_EMAIL_BYTES_MAX)
  const key = Buffer.allocUnsafe(4 + bytes.length)
  key.writeUInt32BE(projectId)
  key.set(bytes, 4)
  return key
}

/**
 * Returns whether a key of table `person_emails` may contain only the beginning of the e-mail address. `keyBytes` is
 * the number of bytes of the key.
 */
export function isEmailCut(keyBytes: number): boolean {
  return keyBytes - 8 >= PERSON_EMAIL_BYTES_MAX
}

/** Returns a person number, distinct ID number or sequence number in its stored form. */
export function numberBytes(number: number): Buffer {
  const record = Buffer.allocUnsafe(NUMBER_BYTES)
  record.writeUInt32LE(number)
  return record
}

/** Yields the numbers that are the values of a range of records. Throws `DamagedRecordError`. */
export function* numbersOf(table: Table, range: Range): Generator<number> {
  for (const { value } of entriesOf(table, range, NUMBER_BYTES)) yield value.readUInt32LE()
}

function uuidBytes(uuid: string): Uint8Array {
  const bytes = parseUuid(uuid)
  if (bytes === null) throw new TypeError('a person has a uuid that is none')
  return bytes
}
