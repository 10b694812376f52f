/**
 * Records of persons in environment `events`, all sealed, numbers little-endian.
 *
 * `persons`: `version u32, flags u8 (1: identified), reserved 3, ids u32, created_at float64 ms, uuid 16`,
 * then D u32 of the first eight ids, then the properties as compact JSON. What was
 * written since then is in person-changes.ts: most events change few properties. `person_ids` holds the D of the
 * further ids by position from 8. `person_uuids`: `P u32, deleted at float64 ms (NaN: not deleted)`; it
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
import { type EventTables, numberKey, pairKey } from '../lmdb/keys.ts'
import { entriesOf, getRecord, load, peek } from '../lmdb/records.ts'
import type { StoredChanges } from './change-blocks.ts'
import { PERSON_EMAIL_BYTES_MAX } from './limits.ts'
import { type ChangeTables, loadChanges } from './person-changes.ts'
import type { Stretches } from './stretches.ts'

const FIXED_BYTES = 36
const FLAG_IDENTIFIED = 1
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
  /** In order of their index. */
  groupTypes: string[]
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

/** A person as it is stored; `json` are its properties. */
export interface PersonRecord {
  readonly number: number
  readonly uuid: string
  readonly version: number
  readonly isIdentified: boolean
  readonly createdAtMs: number
  readonly idCount: number
  /** D of the first ids. */
  readonly firstIds: number[]
  readonly json: string
  readonly jsonBytes: number
  /** Properties that were written later; null when there are none. */
  readonly changesJson: string | null
  /** What later events said, which `version` does not count; '' when there are none. */
  readonly deltas: string
}

/** Where a person is stored. */
export type RecordTables = ChangeTables & Pick<EventTables, 'persons'>

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
  const usual = { ...numbers, groupTypes: [], staticCohorts: [], owners: NO_OWNER_CHANGES }
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

/** The bytes of a person. */
export function encodePerson(
  slab: RecordSlab,
  key: Uint8Array,
  person: Omit<PersonRecord, 'changesJson' | 'deltas' | 'json'> & {
    readonly json: string | Buffer
  },
): Buffer {
  const { firstIds, json, jsonBytes } = person
  const jsonStart = FIXED_BYTES + firstIds.length * 4
  const record = slab.take(jsonStart + jsonBytes)
  record.writeUInt32LE(person.version)
  record.writeUInt32LE(person.isIdentified ? FLAG_IDENTIFIED : 0, 4)
  record.writeUInt32LE(person.idCount, 8)
  record.writeDoubleLE(person.createdAtMs, 12)
  record.set(uuidBytes(person.uuid), 20)
  let offset = FIXED_BYTES
  for (const distinctId of firstIds) offset = record.writeUInt32LE(distinctId, offset)
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
  const record = loadWhole(tables.persons, projectId, number)
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
export function loadWhole(table: Table, projectId: number, number: number): PersonRecord | null {
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
  return {
    number,
    uuid: formatUuid(record, 20),
    version: record.readUInt32LE(),
    isIdentified: (record.readUInt8(4) & FLAG_IDENTIFIED) !== 0,
    createdAtMs: record.readDoubleLE(12),
    idCount,
    firstIds,
    json: record.toString('utf8', offset),
    jsonBytes: record.length - offset,
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

/** The JSON of a person as it was stored as a whole, or null; valid until the next read. Throws `DamagedRecordError`. */
export function peekJson(table: Table, key: Buffer): Buffer | null {
  const record = peek(table, key)
  if (record === undefined) return null
  return record.subarray(FIXED_BYTES + Math.min(record.readUInt32LE(8), INLINE_IDS_MAX) * 4)
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
