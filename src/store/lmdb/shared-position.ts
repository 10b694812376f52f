/**
 * How far a store has followed a log that several machines share, in the transaction of what it led to. Table
 * `shared_log`, JSON, sealed: `stream` -> incarnation and sequence; `partition` -> its number, where it is not 0;
 * `edge ` and its name -> the place up to which everything of that edge is stored. A store of one box has none of it.
 */
import type { LogOrigin } from '../../ports/log.ts'
import type { Table } from './environment.ts'
import { getJson, jsonOf, putJson } from './records.ts'

const STREAM = Buffer.from('stream')
const PARTITION = Buffer.from('partition')
const EDGE = 'edge '

/** Stores it. Only in a write transaction. */
export function storeOrigin(table: Table, origin: LogOrigin): void {
  const { incarnation, sequence, places, partition } = origin
  if (partition !== undefined) putJson(table, PARTITION, partition)
  putJson(table, STREAM, { incarnation, sequence })
  for (const [edge, place] of Object.entries(places))
    putJson(table, Buffer.from(EDGE + edge), place)
}

/** Reads it, with the places of all edges; null: nothing was followed. Throws `DamagedRecordError`. */
export function loadOrigin(table: Table): LogOrigin | null {
  const stream = getJson<Omit<LogOrigin, 'places'>>(table, STREAM)
  if (stream === null) return null
  const places: Record<string, number> = {}
  const range = { start: Buffer.from(EDGE), end: Buffer.from(`${EDGE}~`) }
  for (const { key, value } of jsonOf<number>(table, range)) {
    places[Buffer.from(key).toString().slice(EDGE.length)] = value
  }
  return { ...stream, places, partition: getJson<number>(table, PARTITION) ?? 0 }
}

/** Forgets it. Only in a write transaction. */
export function clearOrigin(table: Table): void {
  for (const key of [...table.getKeys({})]) table.removeSync(key)
}
