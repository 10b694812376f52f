/** Reads and writes records of tables: bytes with a checksum, often MessagePack or JSON. */
import { isObject } from '../../base/json.ts'
import { DamagedRecordError } from '../faults.ts'
import { pack, seal, unpack, unseal } from './codec.ts'
import type { Entry, Range, Table } from './environment.ts'

/** Stores `parts`, one after another, as a record. Call it only within a write transaction. */
export function store(table: Table, key: Buffer, ...parts: readonly Uint8Array[]): void {
  void table.put(key, seal(key, ...parts))
}

/**
 * Returns the bytes of a record, or undefined if there is none. If `bytesWanted` is given, the record must have this
 * number of bytes. Throws `DamagedRecordError`.
 */
export function load(table: Table, key: Buffer, bytesWanted?: number): Buffer | undefined {
  const sealed = table.get(key)
  return sealed === undefined ? undefined : unseal(table.name, key, sealed, bytesWanted)
}

/**
 * Returns the bytes of a record like `load`, but without a copy. They are valid only until the next read of any table.
 */
export function peek(table: Table, key: Buffer, bytesWanted?: number): Buffer | undefined {
  const sealed = table.getBinaryFast(key)
  return sealed === undefined ? undefined : unseal(table.name, key, sealed, bytesWanted)
}

/** Returns the bytes of a record that must exist. Throws `DamagedRecordError`. */
export function need(table: Table, key: Buffer): Buffer {
  const bytes = load(table, key)
  if (bytes === undefined) throw new DamagedRecordError(table.name, key, 'the value is missing')
  return bytes
}

/**
 * Returns the records of a range in order. Each record is valid until the next one is read. `bytesWanted` has the same
 * meaning as for `load`. Throws `DamagedRecordError`.
 */
export function* entriesOf(
  table: Table,
  range: Range = {},
  bytesWanted?: number,
): Generator<Entry> {
  for (const { key, value } of table.getRange(range)) {
    yield { key, value: unseal(table.name, key, value, bytesWanted) }
  }
}

/**
 * Returns the largest key of a range, or undefined if the range is empty. The range includes `end` but not `start`,
 * unlike the ranges of other functions. The key is valid until the next read.
 */
export function lastKey(
  table: Table,
  { start, end }: { readonly start?: Buffer; readonly end?: Buffer } = {},
): Buffer | undefined {
  const bounds = { ...(end && { start: end }), ...(start && { end: start }) }
  const [key] = table.getKeys({ ...bounds, reverse: true, limit: 1 })
  return key
}

/** Removes all records whose keys are in a range, and returns their number. Call it only within a write transaction. */
export function removeRange(table: Table, range: Range): number {
  // The memory of the keys is reused by later reads.
  const keys = [...table.getKeys(range)].map((key) => Buffer.from(key))
  for (const key of keys) void table.remove(key)
  return keys.length
}

/** Writes a MessagePack record. */
export function putRecord(table: Table, key: Buffer, value: unknown): void {
  table.putSync(key, seal(key, pack(value)))
}

/** Reads a MessagePack record, or returns undefined if there is none. Throws `DamagedRecordError`. */
export function getRecord(table: Table, key: Buffer): unknown {
  const bytes = load(table, key)
  return bytes && unpack(bytes)
}

/** Returns the MessagePack records of a range in order. Throws `DamagedRecordError`. */
export function* recordsOf(table: Table, range?: Range): Generator<Record<string, unknown>> {
  for (const { key, value } of entriesOf(table, range)) {
    const record = unpack(value)
    if (!isObject(record)) throw new DamagedRecordError(table.name, key, 'the value is no record')
    yield record
  }
}

/** Writes a JSON record. Call it only within a write transaction. */
export function putJson(table: Table, key: Buffer, value: unknown): void {
  store(table, key, Buffer.from(JSON.stringify(value)))
}

/**
 * Reads a JSON record, or returns null if there is none. `T` must be the type of the value that was passed to
 * `putJson`. The type is not checked, but the checksum guarantees that the record is unchanged. Throws
 * `DamagedRecordError`.
 */
export function getJson<T>(table: Table, key: Buffer): T | null {
  const bytes = load(table, key)
  return bytes === undefined ? null : (JSON.parse(bytes.toString('utf8')) as T)
}

/** Returns the JSON records of a range in order. `getJson` explains the type `T`. */
export function* jsonOf<T>(table: Table, range?: Range): Generator<{ key: Buffer; value: T }> {
  for (const { key, value } of entriesOf(table, range)) {
    yield { key, value: JSON.parse(value.toString('utf8')) as T }
  }
}

/** Adds every text in a JSON value to `texts`, at any depth. The names of members are not added. */
export function addTexts(value: unknown, texts: Set<string>): void {
  if (typeof value === 'string') texts.add(value)
  else if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) addTexts(member, texts)
  }
}

/** Returns a counter of table `state`. It is 0 if `raiseCount` was never called for it. Throws `DamagedRecordError`. */
export function readCount(state: Table, name: string): number {
  const value = getRecord(state, Buffer.from(name, 'latin1'))
  return typeof value === 'number' ? value : 0
}

/** Increases a counter of table `state` by one and returns its new value. Call it only within a write transaction. */
export function raiseCount(state: Table, name: string): number {
  const number = readCount(state, name) + 1
  putRecord(state, Buffer.from(name, 'latin1'), number)
  return number
}
