/**
 * Stores the groups of a project. Every record ends with a checksum. Tables:
 *
 *   groups        project u32, type index u8, key
 *                 -> created_at float64 ms | bytes of the key u32 | key UTF-8 | properties; little-endian
 *   group_pages   project u32, type index u8, bytes of the key in table `groups` u16, that key, page u32
 *                 -> page of properties
 *
 * The highest bit of "bytes of the key" is set as long as only imported events have mentioned the group. The properties
 * are compact JSON, or for a large group a byte 0 and the directory of their pages (properties/property-pages.ts). If
 * the key of a group has more than 400 bytes, the table key contains only its beginning, followed by the SHA-1 of the
 * whole key. Stores of older versions have no pages. Processing an event reads and writes only the pages that it needs
 * (properties/unread-pages.ts).
 */
import { createHash } from 'node:crypto'
import type { GroupView } from '../../rules/persons/group-shapes.ts'
import { type GroupState, groupState } from '../../rules/persons/person-repository.ts'
import { groupView } from '../../rules/persons/person-views.ts'
import { PropertyTable } from '../../rules/persons/property-table.ts'
import type { Table } from '../lmdb/environment.ts'
import { type EventTables, NUMBER_MAX } from '../lmdb/keys.ts'
import { entriesOf, load, peek, removeRange, store } from '../lmdb/records.ts'
import type { GatheredBytes } from './gathered-bytes.ts'
import { DECISION_VALUES_UNITS_MAX, GROUP_KEY_BYTES_MAX } from './limits.ts'
import { parseProperties } from './person-records.ts'
import {
  decodePage,
  encodePage,
  isPaged,
  joinPages,
  needPage,
  type PropertyPages,
  pageCount,
  pagedJsonBytes,
  pagesOf,
} from './properties/property-pages.ts'
import {
  PagedProperties,
  type StoredProperties,
  WholeProperties,
} from './properties/stored-properties.ts'
import { UnreadPages } from './properties/unread-pages.ts'

const FIXED_BYTES = 12
/** A bit in the stored length of the key. It is set as long as only imported events have mentioned the group. */
const FLAG_IMPORTED = 0x8000_0000
/** The byte that marks paged properties. A JSON text never begins with it. */
const PAGED = Buffer.of(0)

/** The tables that contain groups and the pages of their properties. */
export type GroupTables = Pick<EventTables, 'groups' | 'group_pages'>
/**
 * The number of groups that are removed at a time. The keys of these groups are in memory together, so the number is
 * limited.
 */
const REMOVED_GROUPS = 1000

interface GroupRecord {
  readonly key: string
  readonly createdAtMs: number
  readonly isImported: boolean
  readonly json: string
  readonly jsonBytes: number
}

/** A group as `allGroups` returns it. */
interface GroupProperties {
  readonly key: string
  readonly properties: Readonly<Record<string, unknown>>
}

/** The decoded record of a group. If the properties are paged, `json` is '' until `withPages` has read them. */
interface GroupHead extends GroupRecord {
  readonly directory: Buffer | null
}

const NO_PAGES: PropertyPages = { directory: Buffer.alloc(0), pages: [] }
/**
 * The number of bytes of memory that a group takes in addition to its key and properties: its objects and its map
 * entries.
 */
const GROUP_MEMORY_BYTES = 400
/** The number of bytes that each character of a key takes, in all copies of the key together. */
const KEY_UNIT_BYTES = 4

/** The groups of one project, as the processing thread sees and changes them. */
export class ProjectGroups {
  readonly #projectId: number
  readonly #tables: GroupTables
  readonly #gathered: GatheredBytes
  #cacheBytesMax: number
  readonly #cached = new Map<string, GroupState>()
  #unsaved = new Set<GroupState>()
  /**
   * The groups that may have pages in the store. When they are stored again, their pages must be changed or removed.
   */
  readonly #paged = new WeakSet<GroupState>()
  /** The estimated number of bytes of the groups that have no unsaved changes. */
  #cachedBytes = 0
  /** The indexes of deleted group types. The next commit removes the stored groups of these types. */
  readonly #removed = new Set<number>()

  /**
   * `gathered` counts the memory of all changes that wait for the next commit. `cacheBytesMax` limits the memory of the
   * groups without unsaved changes.
   */
  constructor(
    projectId: number,
    tables: GroupTables,
    gathered: GatheredBytes,
    cacheBytesMax: number,
  ) {
    this.#projectId = projectId
    this.#tables = tables
    this.#gathered = gathered
    this.#cacheBytesMax = cacheBytesMax
  }

  /** The estimated number of bytes of the cached groups that have no unsaved changes. */
  get cachedBytes(): number {
    return this.#cachedBytes
  }

  /** Returns a group, or null if there is none. Throws `DamagedRecordError`. */
  group(typeIndex: number, key: string): GroupState | null {
    const name = nameOf(typeIndex, key)
    const cached = this.#cached.get(name)
    if (cached !== undefined) return cached
    if (this.#removed.has(typeIndex)) return null
    const tableKey = groupTableKey(this.#projectId, typeIndex, key)
    const record = load(this.#tables.groups, tableKey)
    if (record === undefined) return null
    const { json, jsonBytes, createdAtMs, isImported, directory } = decodeGroup(record)
    const properties =
      directory === null
        ? PropertyTable.from(parseProperties(json), jsonBytes)
        : PropertyTable.over(this.#pages(tableKey, directory))
    const group = groupState(typeIndex, key, createdAtMs, properties, isImported)
    if (directory !== null) this.#paged.add(group)
    this.#cached.set(name, group)
    group.countedBytes = memoryBytesOf(group)
    this.#cachedBytes += group.countedBytes
    return group
  }

  create(group: GroupState): void {
    this.#cached.set(nameOf(group.typeIndex, group.key), group)
    this.update(group)
  }

  update(group: GroupState): void {
    if (!group.isUnsaved) {
      group.isUnsaved = true
      this.#unsaved.add(group)
      this.#cachedBytes -= group.countedBytes
      group.countedBytes = 0
    }
    const bytes = memoryBytesOf(group)
    this.#gathered.bytes += bytes - group.countedBytes
    group.countedBytes = bytes
  }

  /** Removes all groups of a type. */
  removeType(typeIndex: number): void {
    for (const [name, group] of this.#cached) {
      if (group.typeIndex !== typeIndex) continue
      this.#cached.delete(name)
      if (!group.isUnsaved) this.#cachedBytes -= group.countedBytes
    }
    for (const group of this.#unsaved) {
      if (group.typeIndex !== typeIndex) continue
      this.#unsaved.delete(group)
      this.#gathered.bytes -= group.countedBytes
    }
    this.#removed.add(typeIndex)
  }

  /** Stores the changed groups. Call it only within a write transaction. */
  store(): void {
    for (const typeIndex of this.#removed) removeGroups(this.#tables, this.#projectId, typeIndex)
    this.#removed.clear()
    for (const group of this.#unsaved) {
      const { typeIndex, key, createdAtMs, isImported, properties } = group
      const tableKey = groupTableKey(this.#projectId, typeIndex, key)
      const keyBytes = Buffer.from(key)
      const head = Buffer.allocUnsafe(FIXED_BYTES)
      head.writeDoubleLE(createdAtMs)
      head.writeUInt32LE(keyBytes.length + (isImported ? FLAG_IMPORTED : 0), 8)
      const directory = this.#storePages(tableKey, group)
      if (directory === null) {
        this.#paged.delete(group)
        const json = Buffer.from(properties.toJson())
        store(this.#tables.groups, tableKey, head, keyBytes, json)
        properties.setJsonBytes(json.length)
      } else {
        this.#paged.add(group)
        store(this.#tables.groups, tableKey, head, keyBytes, PAGED, directory)
        properties.layOver(this.#pages(tableKey, directory))
      }
    }
  }

  /**
   * Stores the pages of a group, and returns their directory. If the group is too small for pages, removes them and
   * returns null.
   */
  #storePages(tableKey: Buffer, group: GroupState): Buffer | null {
    const { properties } = group
    const { unread } = properties
    if (unread instanceof UnreadPages) {
      const directory = unread.store(properties.differences())
      if (directory !== null) return directory
    }
    const json = properties.toJson()
    const isLarge = isPaged(Buffer.byteLength(json))
    const { directory, pages } = isLarge ? pagesOf(json) : NO_PAGES
    for (const [page, bytes] of pages.entries()) {
      store(this.#tables.group_pages, pageKey(tableKey, page), encodePage(bytes))
    }
    if (this.#paged.has(group)) {
      const range = { start: pageKey(tableKey, pages.length), end: pageKey(tableKey, NUMBER_MAX) }
      removeRange(this.#tables.group_pages, range)
    }
    return isLarge ? directory : null
  }

  #pages(tableKey: Buffer, directory: Buffer): UnreadPages {
    const { group_pages: table } = this.#tables
    return new UnreadPages({ table, keyOf: (page) => pageKey(tableKey, page) }, directory)
  }

  /** Must be called after a commit. All groups then count as stored. */
  settle(): void {
    for (const group of this.#unsaved) {
      group.isUnsaved = false
      group.countedBytes = memoryBytesOf(group)
      this.#cachedBytes += group.countedBytes
    }
    this.#unsaved = new Set()
    this.evict()
  }

  /** Sets the largest number of bytes that groups without unsaved changes may take. */
  limitCache(bytesMax: number): void {
    this.#cacheBytesMax = bytesMax
  }

  /**
   * Evicts groups without unsaved changes if they take more memory than allowed. Call it only while no such group is in
   * use.
   */
  evict(): void {
    if (this.#cachedBytes <= this.#cacheBytesMax) return
    this.#cached.clear()
    this.#cachedBytes = 0
    for (const group of this.#unsaved) {
      this.#cached.set(nameOf(group.typeIndex, group.key), group)
    }
  }
}

function nameOf(typeIndex: number, key: string): string {
  return `${typeIndex} ${key}`
}

function memoryBytesOf({ key, properties }: GroupState): number {
  return GROUP_MEMORY_BYTES + key.length * KEY_UNIT_BYTES + properties.memoryBytes
}

/** Removes all groups of a type in batches. Call it only within a write transaction. */
function removeGroups(tables: GroupTables, projectId: number, typeIndex: number): void {
  const start = groupTableKey(projectId, typeIndex, '')
  const end = groupTableKey(projectId, typeIndex + 1, '')
  // The keys in both tables begin with the project and the type index, so the same range covers groups and pages.
  for (const table of [tables.groups, tables.group_pages]) {
    while (removeRange(table, { start, end, limit: REMOVED_GROUPS }) === REMOVED_GROUPS);
  }
}

/** Returns a group in the form of the API, or null. Throws `DamagedRecordError`. */
export function findGroup(
  tables: GroupTables,
  projectId: number,
  typeIndex: number,
  key: string,
): GroupView | null {
  const record = loadGroup(tables, projectId, typeIndex, key)
  return record === null ? null : viewOf(typeIndex, record)
}

/** The properties of a group, and their estimated size in a cache, in UTF-16 code units. */
export interface FoundGroup {
  readonly properties: StoredProperties
  readonly units: number
}

/**
 * Returns the properties of a group for decisions, or null if there is no such group. If the group is paged, each
 * lookup of a property reads its page from the newest state of the store. Throws `DamagedRecordError`.
 */
export function lookUpGroup(
  tables: GroupTables,
  projectId: number,
  typeIndex: number,
  key: string,
): FoundGroup | null {
  const tableKey = groupTableKey(projectId, typeIndex, key)
  const record = peek(tables.groups, tableKey)
  if (record === undefined) return null
  const { json, directory } = decodeGroup(record)
  if (directory === null) {
    return { properties: new WholeProperties(() => parseProperties(json)), units: json.length }
  }
  const readPage = (page: number): Buffer =>
    decodePage(needPage(tables.group_pages, pageKey(tableKey, page)))
  const properties = new PagedProperties({
    directory,
    changesJson: null,
    deltas: '',
    readPage,
    readAll: () => parseProperties(joinPages(directory, readPage)),
  })
  return { properties, units: directory.length + DECISION_VALUES_UNITS_MAX }
}

/**
 * Returns a page of groups of one type in the order of their keys, after the key `cursor`. If `search` is given, only
 * groups whose key or properties contain this text are returned. Upper and lower case do not matter.
 */
export function listGroups(
  tables: GroupTables,
  projectId: number,
  typeIndex: number,
  search: string | null,
  limit: number,
  cursor: string | null,
): { readonly results: readonly GroupView[]; readonly nextCursor: string | null } {
  const results: GroupView[] = []
  for (const group of groupsAfter(tables, projectId, typeIndex, search, cursor)) {
    if (results.length === limit) return { results, nextCursor: results.at(-1)?.group_key ?? null }
    results.push(group)
  }
  return { results, nextCursor: null }
}

/**
 * Yields the groups of one type after the key `cursor`. If `search` is given, only groups whose key or properties
 * contain this text are yielded. `check` is called for every group that is read. To stop the search, it throws.
 */
export function* groupsAfter(
  tables: GroupTables,
  projectId: number,
  typeIndex: number,
  search: string | null,
  cursor: string | null,
  check: () => void = () => {},
): Generator<GroupView> {
  const wanted = search?.toLowerCase() ?? null
  for (const record of recordsFrom(tables, projectId, typeIndex, cursor ?? '')) {
    check()
    if (record.key === cursor) continue
    if (wanted !== null && !isFound(record, wanted)) continue
    yield viewOf(typeIndex, record)
  }
}

/** Returns the number of groups of one type. Reads the keys of all of them. */
export function groupCount(table: Table, projectId: number, typeIndex: number): number {
  const start = groupTableKey(projectId, typeIndex, '')
  return table.getKeysCount({ start, end: groupTableKey(projectId, typeIndex + 1, '') })
}

/**
 * Returns all groups of one type in the order of their keys. If `after` is given, only the groups after this key are
 * returned. Throws `DamagedRecordError`.
 */
export function* allGroups(
  tables: GroupTables,
  projectId: number,
  typeIndex: number,
  after = '',
): Generator<GroupProperties> {
  for (const { key, json } of recordsFrom(tables, projectId, typeIndex, after)) {
    if (key !== after) yield { key, properties: parseProperties(json) }
  }
}

/** The properties of a group as compact JSON, and their bytes. */
type GroupJson = Pick<GroupRecord, 'json' | 'jsonBytes'>

/** Returns the properties of all groups of one type, in the order of their keys. Throws `DamagedRecordError`. */
export function groupJsons(
  tables: GroupTables,
  projectId: number,
  typeIndex: number,
): Generator<GroupJson> {
  return recordsFrom(tables, projectId, typeIndex, '')
}

function* recordsFrom(
  tables: GroupTables,
  projectId: number,
  typeIndex: number,
  first: string,
): Generator<GroupRecord> {
  const start = groupTableKey(projectId, typeIndex, first)
  const end = groupTableKey(projectId, typeIndex + 1, '')
  for (const { key, value } of entriesOf(tables.groups, { start, end })) {
    // The key is copied, because it is valid only until the next read.
    const tableKey = Buffer.from(key)
    yield withPages(tables, tableKey, decodeGroup(value))
  }
}

function isFound({ key, json }: GroupRecord, wanted: string): boolean {
  return key.toLowerCase().includes(wanted) || json.toLowerCase().includes(wanted)
}

function viewOf(typeIndex: number, { key, createdAtMs, json }: GroupRecord): GroupView {
  return groupView({ typeIndex, key, createdAtMs }, parseProperties(json))
}

/** Returns a stored group, or null if there is none. Throws `DamagedRecordError`. */
export function loadGroup(
  tables: GroupTables,
  projectId: number,
  typeIndex: number,
  key: string,
): GroupHead | null {
  const tableKey = groupTableKey(projectId, typeIndex, key)
  const record = load(tables.groups, tableKey)
  return record === undefined ? null : withPages(tables, tableKey, decodeGroup(record))
}

/** Returns a group with the JSON of all its properties. If they are paged, reads all its pages. */
function withPages({ group_pages }: GroupTables, tableKey: Buffer, head: GroupHead): GroupHead {
  const { directory } = head
  if (directory === null) return head
  const json = joinPages(directory, (page) =>
    decodePage(needPage(group_pages, pageKey(tableKey, page))),
  )
  return { ...head, json }
}

function decodeGroup(record: Buffer): GroupHead {
  const keyBytes = record.readUInt32LE(8)
  const isImported = keyBytes >= FLAG_IMPORTED
  const jsonStart = FIXED_BYTES + (isImported ? keyBytes - FLAG_IMPORTED : keyBytes)
  const hasPages = record[jsonStart] === PAGED[0]
  const directory = hasPages ? Buffer.from(record.subarray(jsonStart + PAGED.length)) : null
  return {
    createdAtMs: record.readDoubleLE(),
    isImported,
    key: record.toString('utf8', FIXED_BYTES, jsonStart),
    json: hasPages ? '' : record.toString('utf8', jsonStart),
    jsonBytes: directory === null ? record.length - jsonStart : pagedJsonBytes(directory),
    directory,
  }
}

/** Returns the number of pages of a group. `record` is its record without the checksum. */
export function pagesOfGroup(record: Buffer): number {
  const { directory } = decodeGroup(record)
  return directory === null ? 0 : pageCount(directory)
}

/**
 * Returns the key of a page in table `group_pages`. It contains the length of the group's key, so that the pages of a
 * group are never mixed with those of a group whose key begins with the same bytes.
 */
function pageKey(tableKey: Buffer, page: number): Buffer {
  const key = Buffer.allocUnsafe(tableKey.length + 6)
  tableKey.copy(key, 0, 0, 5)
  key.writeUInt16BE(tableKey.length - 5, 5)
  tableKey.copy(key, 7, 5)
  key.writeUInt32BE(page, tableKey.length + 2)
  return key
}

function groupTableKey(projectId: number, typeIndex: number, key: string): Buffer {
  let bytes = Buffer.from(key, 'utf8')
  if (bytes.length > GROUP_KEY_BYTES_MAX) {
    const digest = createHash('sha1').update(bytes).digest()
    bytes = Buffer.concat([bytes.subarray(0, GROUP_KEY_BYTES_MAX), digest])
  }
  const tableKey = Buffer.allocUnsafe(5 + bytes.length)
  tableKey.writeUInt32BE(projectId)
  tableKey.writeUInt8(typeIndex, 4)
  tableKey.set(bytes, 5)
  return tableKey
}
