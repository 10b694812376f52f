/**
 * The events of the bench `analytics` in ClickHouse. The table is designed as an experienced user would do it: a typed
 * column for each property, sorted by the columns that every query filters first, and the person in each row so that no
 * join is needed. All parts are merged before the measurement.
 */
import type { ClickHouse } from '../baselines/clickhouse.ts'
import type { EventTable } from './event-table.ts'

const TABLE = `
CREATE TABLE events (
  event LowCardinality(String), timestamp DateTime, person_id UUID, person_created_at DateTime, uuid UUID,
  current_url LowCardinality(String), browser LowCardinality(String), os LowCardinality(String),
  device_type LowCardinality(String), lib LowCardinality(String), session_id String,
  screen_width UInt16, viewport_height UInt16, country LowCardinality(String),
  channel LowCardinality(String), plan LowCardinality(String), amount Float64
) ENGINE = MergeTree PARTITION BY toYYYYMM(timestamp) ORDER BY (event, timestamp)`

/** Creates the table. */
export async function clickHouseTable(server: ClickHouse): Promise<EventTable> {
  await server.query(TABLE)
  return {
    insert: async (rows) => {
      await server.query('INSERT INTO events FORMAT TabSeparated', rows)
    },
    settle: () => settleTable(server),
  }
}

/** Merges all parts and returns the number of rows. */
async function settleTable(server: ClickHouse): Promise<number> {
  const partitions = "SELECT DISTINCT partition FROM system.parts WHERE table = 'events' AND active"
  for (const partition of (await server.query(partitions)).trim().split('\n')) {
    await server.query(`OPTIMIZE TABLE events PARTITION ${partition} FINAL`)
  }
  return Number(await server.query('SELECT count() FROM events'))
}
