/**
 * Stores the position up to which a store contains the events of a log that several machines share. The position is
 * written in the transaction that stores the events up to that position. Table `shared_log`, JSON with a checksum:
 *
 *   'stream'           -> incarnation and sequence number
 *   'partition'        -> the number of the partition, unless it is 0
 *   'edge ' + name     -> the position up to which all events of that edge are stored
 *
 * The store of a single machine has no such records.
 */
import type { LogOrigin } from '../../ports/log.ts'
import type { Table } from './environment.ts'
import { getJson, jsonOf, putJson } from './records.ts'

const STREAM = Buffer.from('stream')
const PARTITION = Buffer.from('partition')
const EDGE = 'edge '

/**
 * Stores the position in the shared log up to which this store contains all events. Call it only within the write
 * transaction that stores these events.
 */
export function storeOrigin(table: Table, origin: LogOrigin): void {
  const { incarnation, sequence, places, partition } = origin
  if (partition !== undefined) putJson(table, PARTITION, partition)
  putJson(table, STREAM, { incarnation, sequence })
  for (const [edge, place] of Object.entries(places))
    putJson(table, Buffer.from(EDGE + edge), place)
}

/**
 * Reads the stored position, which includes the positions of all edges. Returns null if the store follows no shared
 * log. Throws `DamagedRecordError`.
 */
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

/** Removes the position. Call it only within a write transaction. */
export function clearOrigin(table: Table): void {
  for (const key of [...table.getKeys({})]) table.removeSync(key)
}
