/**
 * Groups of a project. Table `groups`: project, type index u8, key -> `created_at float64 ms
 * little-endian, key bytes u32, key UTF-8`, then the properties as compact JSON; sealed. Keys of more
 * than 400 bytes are cut in the table's key and followed by their SHA-1.
 */
import { createHash } from 'node:crypto'
import type { GroupView } from '../../rules/persons/group-shapes.ts'
import { groupView } from '../../rules/persons/person-views.ts'
import { type GroupState, groupState } from '../../rules/persons/person-world.ts'
import { PropertyTable } from '../../rules/persons/property-table.ts'
import type { Table } from '../lmdb/environment.ts'
import { entriesOf, load, store } from '../lmdb/records.ts'
import { CACHED_GROUPS_MAX, GROUP_KEY_BYTES_MAX } from './limits.ts'
import { parseProperties } from './person-records.ts'

const FIXED_BYTES = 12

interface GroupRecord {
  readonly key: string
  readonly createdAtMs: number
  readonly json: string
}

/** The groups of one project in the processing thread. */
export class ProjectGroups {
  readonly #projectId: number
  readonly #table: Table
  readonly #cached = new Map<string, GroupState>()
  readonly #unsaved = new Set<GroupState>()

  constructor(projectId: number, table: Table) {
    this.#projectId = projectId
    this.#table = table
  }

  /** A group, or null. Throws `DamagedRecordError`. */
  group(typeIndex: number, key: string): GroupState | null {
    const name = `${typeIndex} ${key}`
    const cached = this.#cached.get(name)
    if (cached !== undefined) return cached
    const record = loadGroup(this.#table, this.#projectId, typeIndex, key)
    if (record === null) return null
    const properties = PropertyTable.from(parseProperties(record.json))
    const group = groupState(typeIndex, key, record.createdAtMs, properties)
    this.#cached.set(name, group)
    return group
  }

  create(group: GroupState): void {
    this.#cached.set(`${group.typeIndex} ${group.key}`, group)
    this.update(group)
  }

  update(group: GroupState): void {
    group.isUnsaved = true
    this.#unsaved.add(group)
  }

  /** Stores what was changed. Only in a write transaction. */
  store(): void {
    for (const group of this.#unsaved) {
      const { typeIndex, key, createdAtMs, properties } = group
      const tableKey = groupTableKey(this.#projectId, typeIndex, key)
      const keyBytes = Buffer.from(key)
      const head = Buffer.allocUnsafe(FIXED_BYTES)
      head.writeDoubleLE(createdAtMs)
      head.writeUInt32LE(keyBytes.length, 8)
      store(this.#table, tableKey, head, keyBytes, Buffer.from(properties.toJson()))
      group.isUnsaved = false
    }
    this.#unsaved.clear()
  }

  settle(): void {
    if (this.#cached.size > CACHED_GROUPS_MAX) this.#cached.clear()
  }
}

/** A group as the API shows it, or null. Throws `DamagedRecordError`. */
export function findGroup(
  table: Table,
  projectId: number,
  typeIndex: number,
  key: string,
): GroupView | null {
  const record = loadGroup(table, projectId, typeIndex, key)
  return record === null ? null : viewOf(typeIndex, record)
}

/**
 * A page of groups of one type in the order of their keys, behind key `cursor`. `search`: the key or the
 * properties contain it, ignoring case.
 */
export function listGroups(
  table: Table,
  projectId: number,
  typeIndex: number,
  search: string | null,
  limit: number,
  cursor: string | null,
): { readonly results: readonly GroupView[]; readonly nextCursor: string | null } {
  const results: GroupView[] = []
  for (const group of groupsAfter(table, projectId, typeIndex, search, cursor)) {
    if (results.length === limit) return { results, nextCursor: results.at(-1)?.group_key ?? null }
    results.push(group)
  }
  return { results, nextCursor: null }
}

/**
 * The groups of one type whose key or properties contain `search`, from behind the key `cursor` on. `check`
 * is asked for every group that is looked at, and throws to give up.
 */
export function* groupsAfter(
  table: Table,
  projectId: number,
  typeIndex: number,
  search: string | null,
  cursor: string | null,
  check: () => void = () => {},
): Generator<GroupView> {
  const wanted = search?.toLowerCase() ?? null
  for (const record of recordsFrom(table, projectId, typeIndex, cursor ?? '')) {
    check()
    if (record.key === cursor) continue
    if (wanted !== null && !isFound(record, wanted)) continue
    yield viewOf(typeIndex, record)
  }
}

/** How many groups of one type there are. Cost: a walk through their keys. */
export function groupCount(table: Table, projectId: number, typeIndex: number): number {
  const start = groupTableKey(projectId, typeIndex, '')
  return table.getKeysCount({ start, end: groupTableKey(projectId, typeIndex + 1, '') })
}

/** All groups of one type in the order of their keys, or those behind one. Throws `DamagedRecordError`. */
export function* allGroups(
  table: Table,
  projectId: number,
  typeIndex: number,
  after = '',
): Generator<{ readonly key: string; readonly properties: Readonly<Record<string, unknown>> }> {
  for (const { key, json } of recordsFrom(table, projectId, typeIndex, after)) {
    if (key !== after) yield { key, properties: parseProperties(json) }
  }
}

function* recordsFrom(
  table: Table,
  projectId: number,
  typeIndex: number,
  first: string,
): Generator<GroupRecord> {
  const start = groupTableKey(projectId, typeIndex, first)
  const end = groupTableKey(projectId, typeIndex + 1, '')
  for (const { value } of entriesOf(table, { start, end })) yield decodeGroup(value)
}

function isFound({ key, json }: GroupRecord, wanted: string): boolean {
  return key.toLowerCase().includes(wanted) || json.toLowerCase().includes(wanted)
}

function viewOf(typeIndex: number, { json, ...record }: GroupRecord): GroupView {
  return groupView({ typeIndex, ...record }, parseProperties(json))
}

/** A group as it is stored, or null. Throws `DamagedRecordError`. */
export function loadGroup(
  table: Table,
  projectId: number,
  typeIndex: number,
  key: string,
): GroupRecord | null {
  const record = load(table, groupTableKey(projectId, typeIndex, key))
  return record === undefined ? null : decodeGroup(record)
}

function decodeGroup(record: Buffer): GroupRecord {
  const jsonStart = FIXED_BYTES + record.readUInt32LE(8)
  return {
    createdAtMs: record.readDoubleLE(),
    key: record.toString('utf8', FIXED_BYTES, jsonStart),
    json: record.toString('utf8', jsonStart),
  }
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
