/**
 * The table in ClickHouse: the columns of the copied events, and the statements that use the table. The statements only
 * use SQL that both ClickHouse 18.16 and current servers accept. A row is an event, identified by (project, sequence).
 * Two rows of the same event become one as soon as ClickHouse has merged their parts. A reader that sees both uses one
 * of them. Times are milliseconds since 1970. A property is a name in `keys` and its JSON text at the same index of
 * `texts`.
 */
import type { ClickHouse } from './clickhouse.ts'
import { INSERT_MS_MAX, PARTITION_MONTHS_MAX } from './limits.ts'

const TABLE = 'tenrec_events'
/** The value of `month` for events from before the oldest month that has a partition of its own. */
const OLD_MONTH = 190_001

/** The names and types of the columns. row-encoder.ts writes their bytes in this order. */
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

/** Creates the database and the table if they do not exist. Throws `WarehouseError`. */
export async function createSchema(clickhouse: ClickHouse, database: string): Promise<void> {
  await clickhouse.ask(`CREATE DATABASE IF NOT EXISTS ${database}`, { isAnywhere: true })
  await clickhouse.ask(
    `CREATE TABLE IF NOT EXISTS ${TABLE} (${COLUMNS.join(', ')})
     ENGINE = ReplacingMergeTree() PARTITION BY month ORDER BY (project, sequence)`,
    { msMax: INSERT_MS_MAX },
  )
}

/** The beginning of an insert statement. The rows follow it. */
export const INSERT_ROWS = `INSERT INTO ${TABLE} (${COLUMNS.map((column) => column.split(' ')[0] ?? '').join(', ')}) FORMAT RowBinary`

/** Returns the query for the largest sequence number that ClickHouse has of a project. The answer is a u64. */
export function lastSequenceQuery(projectId: number): string {
  return `SELECT max(sequence) FROM ${TABLE} WHERE project = ${projectId} FORMAT RowBinary`
}

/**
 * Returns the query for the events of a project after a sequence number, in any order. For each event, the answer has a
 * sequence number (u64) and a UUID (16 bytes).
 */
export function uuidsQuery(projectId: number, after: number): string {
  return `SELECT sequence, uuid FROM ${TABLE} WHERE project = ${projectId} AND sequence > ${after} FORMAT RowBinary`
}

/**
 * Returns the partition of the ClickHouse table to which an event belongs, as a number such as 202511: the month of its
 * timestamp, but at most one month after the month in which it arrived. Events with much older timestamps share one
 * partition. Clients choose the timestamp freely, and could otherwise create more partitions than ClickHouse can
 * handle.
 */
export function monthOf(timeMs: number, arrivedMs: number): number {
  const arrival = monthNumber(arrivedMs)
  const month = monthNumber(timeMs)
  if (month < arrival - PARTITION_MONTHS_MAX) return OLD_MONTH
  const bounded = Math.min(month, arrival + 1)
  return Math.floor(bounded / 12) * 100 + (bounded % 12) + 1
}

/** Returns the number of months since the year 0. */
function monthNumber(timeMs: number): number {
  const date = new Date(timeMs)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** Returns the query for the number of rows that match a condition. The answer is a u64. */
export function countQuery(condition: string): string {
  return `SELECT count() FROM ${TABLE} WHERE ${condition} FORMAT RowBinary`
}

/**
 * Returns the query for the partitions of the table (`monthOf`) that contain rows that match a condition. For each
 * partition, the answer has the month (u32), the number of all rows (u64) and the number of matching rows (u64).
 */
export function monthsQuery(condition: string): string {
  return `SELECT month, count(), countIf(${condition}) AS meant FROM ${TABLE} GROUP BY month HAVING meant > 0 FORMAT RowBinary`
}

/**
 * Returns the statement that deletes the rows that match a condition. ClickHouse answers at once and deletes the rows
 * later.
 */
export function deletion(condition: string): string {
  return `ALTER TABLE ${TABLE} DELETE WHERE ${condition}`
}

/** Returns the statement that deletes a month. ClickHouse deletes the rows before it answers. */
export function dropOfMonth(month: number): string {
  return `ALTER TABLE ${TABLE} DROP PARTITION ${month}`
}

/** Returns the query for the number of deletions that ClickHouse has not finished. The answer is a u64. */
export function unfinishedQuery(database: string): string {
  return `SELECT count() FROM system.mutations WHERE database = ${literal(database)} AND table = ${literal(TABLE)} AND NOT is_done FORMAT RowBinary`
}

/**
 * Returns the query for the values of a property in some events, or for the elements of the events if `key` is null.
 * For each event, in order, the answer has a sequence number (u64) and a text. The same row may occur twice.
 */
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

/**
 * Returns the query for all columns that may be removed from the store (store/events/format/away-columns.ts), in a
 * range of events. For each event, in order, the answer has a sequence number (u64), the keys and texts of its
 * properties, and its elements. The same row may occur twice.
 */
export function rowsQuery(projectId: number, from: number, to: number): string {
  return `SELECT sequence, keys, texts, elements_chain FROM ${TABLE} WHERE project = ${projectId} AND sequence >= ${from} AND sequence <= ${to} ORDER BY sequence FORMAT RowBinary`
}

/** Returns a text as an SQL literal. */
export function literal(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&').replaceAll('\0', '\\0')}'`
}
