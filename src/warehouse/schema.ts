/**
 * The table in ClickHouse and the statements about it: of SQL only what ClickHouse 18.16 and current servers both
 * take. A row is an event by (project, sequence): the same one twice is one as soon as ClickHouse has merged its
 * parts, and whoever reads before takes one of them. Times are milliseconds since 1970. A property is a name in
 * `keys` and the text of its JSON at the same place of `texts`.
 */
import type { ClickHouse } from './clickhouse.ts'
import { INSERT_MS_MAX, PARTITION_MONTHS_MAX } from './limits.ts'

const TABLE = 'tenrec_events'
/** Of events that are older than any partition of a month. */
const OLD_MONTH = 190_001

/** Columns in the order of their bytes (row-encoder.ts). */
const COLUMNS = [
  'project UInt32',
  'sequence UInt64',
  'month UInt32',
  'distinct_number UInt32',
  'distinct_id String',
  'time_ms Int64',
  'arrived_ms Int64',
  'mode UInt8',
  'event String',
  'uuid UUID',
  'elements_chain String',
  'keys Array(String)',
  'texts Array(String)',
] as const

/** Creates what is not there. Throws `WarehouseError`. */
export async function createSchema(clickhouse: ClickHouse, database: string): Promise<void> {
  await clickhouse.ask(`CREATE DATABASE IF NOT EXISTS ${database}`, { isAnywhere: true })
  await clickhouse.ask(
    `CREATE TABLE IF NOT EXISTS ${TABLE} (${COLUMNS.join(', ')})
     ENGINE = ReplacingMergeTree() PARTITION BY month ORDER BY (project, sequence)`,
    { msMax: INSERT_MS_MAX },
  )
}

/** What stands in front of rows. */
export const INSERT_ROWS = `INSERT INTO ${TABLE} (${COLUMNS.map((column) => column.split(' ')[0] ?? '').join(', ')}) FORMAT RowBinary`

/** The largest sequence of a project, as u64. */
export function lastSequenceQuery(projectId: number): string {
  return `SELECT max(sequence) FROM ${TABLE} WHERE project = ${projectId} FORMAT RowBinary`
}

/** Sequences and uuids of a project behind a sequence, in any order: u64 and 16 bytes. */
export function uuidsQuery(projectId: number, after: number): string {
  return `SELECT sequence, uuid FROM ${TABLE} WHERE project = ${projectId} AND sequence > ${after} FORMAT RowBinary`
}

/**
 * The partition of an event: the month of its time, which clients say, as long as it is near that of its arrival.
 * Who chose months freely would make more partitions than ClickHouse bears.
 */
export function monthOf(timeMs: number, arrivedMs: number): number {
  const arrival = monthNumber(arrivedMs)
  const month = monthNumber(timeMs)
  if (month < arrival - PARTITION_MONTHS_MAX) return OLD_MONTH
  const bounded = Math.min(month, arrival + 1)
  return Math.floor(bounded / 12) * 100 + (bounded % 12) + 1
}

/** Months since the year 0. */
function monthNumber(timeMs: number): number {
  const date = new Date(timeMs)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** The number of rows that a condition means, as u64. */
export function countQuery(condition: string): string {
  return `SELECT count() FROM ${TABLE} WHERE ${condition} FORMAT RowBinary`
}

/** Partitions that hold rows of a condition: month u32, all rows u64, rows that it means u64. */
export function monthsQuery(condition: string): string {
  return `SELECT month, count(), countIf(${condition}) AS meant FROM ${TABLE} GROUP BY month HAVING meant > 0 FORMAT RowBinary`
}

/** Deletes the rows of a condition, some time later. */
export function deletion(condition: string): string {
  return `ALTER TABLE ${TABLE} DELETE WHERE ${condition}`
}

/** Deletes a month, at once. */
export function dropOfMonth(month: number): string {
  return `ALTER TABLE ${TABLE} DROP PARTITION ${month}`
}

/** How many deletions are not carried out, as u64. */
export function unfinishedQuery(database: string): string {
  return `SELECT count() FROM system.mutations WHERE database = ${literal(database)} AND table = ${literal(TABLE)} AND NOT is_done FORMAT RowBinary`
}

/** A property, or the elements when `key` is null, of some events in order: u64 and a text; equal rows may come twice. */
export function columnQuery(
  projectId: number,
  key: string | null,
  from: number,
  to: number,
): string {
  const range = `project = ${projectId} AND sequence >= ${from} AND sequence <= ${to}`
  const [value, has] =
    key === null
      ? ['elements_chain', "elements_chain != ''"]
      : [`texts[indexOf(keys, ${literal(key)})]`, `has(keys, ${literal(key)})`]
  return `SELECT sequence, ${value} FROM ${TABLE} WHERE ${range} AND ${has} ORDER BY sequence FORMAT RowBinary`
}

/** All that a segment may give away of some events, in order: u64, keys, texts, elements; equal rows may come twice. */
export function rowsQuery(projectId: number, from: number, to: number): string {
  return `SELECT sequence, keys, texts, elements_chain FROM ${TABLE} WHERE project = ${projectId} AND sequence >= ${from} AND sequence <= ${to} ORDER BY sequence FORMAT RowBinary`
}

/** A text as a literal of SQL. */
export function literal(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&').replaceAll('\0', '\\0')}'`
}
