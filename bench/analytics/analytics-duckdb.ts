/**
 * The events of the bench `queries` in DuckDB. The table has the same columns as the table in ClickHouse. It is sorted
 * in the same way before the measurement, so that DuckDB can skip row groups by their smallest and largest values.
 */
import type { DuckDb } from '../baselines/duckdb.ts'
import type { EventTable } from './event-table.ts'

/**
 * For each column of the file of rows: its name, and the expression that turns its text into the value of the table.
 */
const COLUMNS = [
  ['event', 'VARCHAR'],
  ['timestamp', 'BIGINT', 'make_timestamp(timestamp * 1000000)'],
  ['person_id', 'UUID'],
  ['person_created_at', 'BIGINT', 'make_timestamp(person_created_at * 1000000)'],
  ['uuid', 'UUID'],
  ['current_url', 'VARCHAR'],
  ['browser', 'VARCHAR'],
  ['os', 'VARCHAR'],
  ['device_type', 'VARCHAR'],
  ['lib', 'VARCHAR'],
  ['session_id', 'VARCHAR'],
  ['screen_width', 'USMALLINT'],
  ['viewport_height', 'USMALLINT'],
  ['country', 'VARCHAR'],
  ['channel', 'VARCHAR'],
  ['plan', 'VARCHAR'],
  ['amount', 'DOUBLE'],
] as const

const TYPES = COLUMNS.map(([name, type]) => `'${name}': '${type}'`).join(', ')
const VALUES = COLUMNS.map(([name, , value = name]) => `${value} AS ${name}`).join(', ')

/** Creates the table. */
export async function duckDbTable(database: DuckDb): Promise<EventTable> {
  const rowsOf = (path: string): string =>
    `SELECT ${VALUES} FROM read_csv('${path}', delim = '\t', header = false, quote = '', ` +
    `escape = '', nullstr = '\\N', auto_detect = false, columns = {${TYPES}})`
  await database.run(`CREATE TABLE events AS ${rowsOf(database.rowFile(''))}`)
  return {
    insert: (rows) => database.run(`INSERT INTO events ${rowsOf(database.rowFile(rows))}`),
    async settle() {
      await database.run('CREATE TABLE sorted AS SELECT * FROM events ORDER BY event, timestamp')
      await database.run('DROP TABLE events')
      await database.run('ALTER TABLE sorted RENAME TO events')
      await database.run('CHECKPOINT')
      const [count] = await database.lines('SELECT count(*) FROM events')
      return Number(count)
    },
  }
}
