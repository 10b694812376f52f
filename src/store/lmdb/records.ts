/** Records of tables as sealed MessagePack or sealed JSON. */
import { isObject } from '../../base/json.ts'
import { DamagedRecordError } from '../faults.ts'
import { pack, seal, unpack, unseal } from './codec.ts'
import type { Table } from './environment.ts'

/** Writes a record under a key. */
export function putRecord(table: Table, key: Buffer, value: unknown): void {
  table.putSync(key, seal(key, pack(value)))
}

/** Reads a record; undefined when there is none. Throws `DamagedRecordError`. */
export function getRecord(table: Table, name: string, key: Buffer): unknown {
  const sealed = table.get(key)
  return sealed === undefined ? undefined : openRecord(name, key, sealed)
}

/** All records of a table in the order of their keys. Throws `DamagedRecordError`. */
export function* allRecords(table: Table, name: string): Generator<Record<string, unknown>> {
  yield* recordsWithin(table, name, {})
}

/** The records from one key to before another, in order. Throws `DamagedRecordError`. */
export function* recordsWithin(
  table: Table,
  name: string,
  range: { readonly start?: Buffer; readonly end?: Buffer },
): Generator<Record<string, unknown>> {
  for (const { key, value } of table.getRange(range)) {
    const record = openRecord(name, key, value)
    if (!isObject(record)) throw new DamagedRecordError(name, key, 'the value is no record')
    yield record
  }
}

function openRecord(name: string, key: Buffer, sealed: Buffer): unknown {
  return unpack(unseal(name, key, sealed))
}

/** Writes a record as JSON; waits for nothing. Only in a write transaction. */
export function putJson(table: Table, key: Buffer, value: unknown): void {
  void table.put(key, seal(key, Buffer.from(JSON.stringify(value))))
}

/**
 * Reads a record of JSON; null when there is none. `T`: what `putJson` wrote; the checksum says
 * that it is unchanged. Throws `DamagedRecordError`.
 */
export function getJson<T>(table: Table, name: string, key: Buffer): T | null {
  const sealed = table.get(key)
  return sealed === undefined ? null : parseRecord<T>(name, key, sealed)
}

/** A record of JSON from its bytes. Throws `DamagedRecordError`. */
export function parseRecord<T>(name: string, key: Uint8Array, sealed: Buffer): T {
  return JSON.parse(unseal(name, key, sealed).toString('utf8')) as T
}

/** A number of table `state`; 0 before it was first raised. Throws `DamagedRecordError`. */
export function readCount(state: Table, name: string): number {
  const value = getRecord(state, 'state', Buffer.from(name, 'latin1'))
  return typeof value === 'number' ? value : 0
}

/** Raises a number of table `state` by one and answers it. Only in a write transaction. */
export function raiseCount(state: Table, name: string): number {
  const number = readCount(state, name) + 1
  putRecord(state, Buffer.from(name, 'latin1'), number)
  return number
}
