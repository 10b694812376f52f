/** Records of tables: bytes with a checksum, often those of MessagePack or of JSON. */
import { isObject } from '../../base/json.ts'
import { DamagedRecordError } from '../faults.ts'
import { pack, seal, unpack, unseal } from './codec.ts'
import type { Entry, Range, Table } from './environment.ts'

/** Stores `parts`, one behind the other; waits for nothing. Only in a write transaction. */
export function store(table: Table, key: Buffer, ...parts: readonly Uint8Array[]): void {
  void table.put(key, seal(key, ...parts))
}

/** The bytes of a record, or undefined; `bytesWanted`: how many it must have. Throws `DamagedRecordError`. */
export function load(table: Table, key: Buffer, bytesWanted?: number): Buffer | undefined {
  const sealed = table.get(key)
  return sealed === undefined ? undefined : unseal(table.name, key, sealed, bytesWanted)
}

/** As `load`, but valid only until the next read of any table: for whoever takes what it needs at once. No copy. */
export function peek(table: Table, key: Buffer, bytesWanted?: number): Buffer | undefined {
  const sealed = table.getBinaryFast(key)
  return sealed === undefined ? undefined : unseal(table.name, key, sealed, bytesWanted)
}

/** The bytes of a record that has to be there. Throws `DamagedRecordError`. */
export function need(table: Table, key: Buffer): Buffer {
  const bytes = load(table, key)
  if (bytes === undefined) throw new DamagedRecordError(table.name, key, 'the value is missing')
  return bytes
}

/** Records in order, each valid until the next; `bytesWanted` as in `load`. Throws `DamagedRecordError`. */
export function* entriesOf(
  table: Table,
  range: Range = {},
  bytesWanted?: number,
): Generator<Entry> {
  for (const { key, value } of table.getRange(range)) {
    yield { key, value: unseal(table.name, key, value, bytesWanted) }
  }
}

/** The last key from `end` down to, but not including, `start`; valid until the next read. */
export function lastKey(
  table: Table,
  { start, end }: { readonly start?: Buffer; readonly end?: Buffer } = {},
): Buffer | undefined {
  const bounds = { ...(end && { start: end }), ...(start && { end: start }) }
  const [key] = table.getKeys({ ...bounds, reverse: true, limit: 1 })
  return key
}

/** Removes a range; how many there were. Only in a write transaction. */
export function removeRange(table: Table, range: Range): number {
  // The keys lie in memory that is used again.
  const keys = [...table.getKeys(range)].map((key) => Buffer.from(key))
  for (const key of keys) void table.remove(key)
  return keys.length
}

/** Writes a record under a key. */
export function putRecord(table: Table, key: Buffer, value: unknown): void {
  table.putSync(key, seal(key, pack(value)))
}

/** Reads a record; undefined when there is none. Throws `DamagedRecordError`. */
export function getRecord(table: Table, key: Buffer): unknown {
  const bytes = load(table, key)
  return bytes && unpack(bytes)
}

/** The records of a range in order. Throws `DamagedRecordError`. */
export function* recordsOf(table: Table, range?: Range): Generator<Record<string, unknown>> {
  for (const { key, value } of entriesOf(table, range)) {
    const record = unpack(value)
    if (!isObject(record)) throw new DamagedRecordError(table.name, key, 'the value is no record')
    yield record
  }
}

/** Writes a record as JSON; waits for nothing. Only in a write transaction. */
export function putJson(table: Table, key: Buffer, value: unknown): void {
  store(table, key, Buffer.from(JSON.stringify(value)))
}

/**
 * Reads a record of JSON; null when there is none. `T`: what `putJson` wrote; the checksum says
 * that it is unchanged. Throws `DamagedRecordError`.
 */
export function getJson<T>(table: Table, key: Buffer): T | null {
  const bytes = load(table, key)
  return bytes === undefined ? null : (JSON.parse(bytes.toString('utf8')) as T)
}

/** The records of JSON of a range in order, as `getJson`. */
export function* jsonOf<T>(table: Table, range?: Range): Generator<{ key: Buffer; value: T }> {
  for (const { key, value } of entriesOf(table, range)) {
    yield { key, value: JSON.parse(value.toString('utf8')) as T }
  }
}

/** Adds every text within a value of JSON, at any depth, but no names of members. */
export function addTexts(value: unknown, texts: Set<string>): void {
  if (typeof value === 'string') texts.add(value)
  else if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) addTexts(member, texts)
  }
}

/** A number of table `state`; 0 before it was first raised. Throws `DamagedRecordError`. */
export function readCount(state: Table, name: string): number {
  const value = getRecord(state, Buffer.from(name, 'latin1'))
  return typeof value === 'number' ? value : 0
}

/** Raises a number of table `state` by one and answers it. Only in a write transaction. */
export function raiseCount(state: Table, name: string): number {
  const number = readCount(state, name) + 1
  putRecord(state, Buffer.from(name, 'latin1'), number)
  return number
}
