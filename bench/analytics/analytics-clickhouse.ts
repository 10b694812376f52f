/**
 * The events of the bench `analytics` in ClickHouse, in a table as somebody would make it who knows it:
 * a typed column for each property, sorted by what every question asks for first, the person in the row
 * so that nothing has to be joined, all parts merged before anything is measured.
 */
import { formatUuid } from '../../src/base/ids.ts'
import type { ClickHouse } from '../baselines/clickhouse.ts'
import type { WorkloadEvent } from './analytics-workload.ts'

const TABLE = `
CREATE TABLE events (
  event LowCardinality(String), timestamp DateTime, person_id UUID, person_created_at DateTime, uuid UUID,
  current_url LowCardinality(String), browser LowCardinality(String), os LowCardinality(String),
  device_type LowCardinality(String), lib LowCardinality(String), session_id String,
  screen_width UInt16, viewport_height UInt16, country LowCardinality(String),
  channel LowCardinality(String), plan LowCardinality(String), amount Float64
) ENGINE = MergeTree PARTITION BY toYYYYMM(timestamp) ORDER BY (event, timestamp)`

/** Makes the table. */
export async function createTable(server: ClickHouse): Promise<void> {
  await server.query(TABLE)
}

/** One event as a line of the format TabSeparated; no text of the workload needs escaping. */
export function rowOf(event: WorkloadEvent, personUuid: string): string {
  const { properties: of } = event
  return [
    ...[event.name, event.timeSeconds, personUuid, event.personSinceSeconds],
    ...[formatUuid(event.uuidBytes, 0), of.$current_url ?? '', of.$browser, of.$os],
    ...[of.$device_type, of.$lib, of.$session_id, of.$screen_width, of.$viewport_height],
    ...[of.country, of.channel, of.plan, of.amount ?? 0],
  ].join('\t')
}

/** Adds lines of `rowOf`, a line break behind each. */
export async function insertRows(server: ClickHouse, rows: string): Promise<void> {
  await server.query('INSERT INTO events FORMAT TabSeparated', rows)
}

/** Merges all parts and says how many rows there are. */
export async function settleTable(server: ClickHouse): Promise<number> {
  const partitions = "SELECT DISTINCT partition FROM system.parts WHERE table = 'events' AND active"
  for (const partition of (await server.query(partitions)).trim().split('\n')) {
    await server.query(`OPTIMIZE TABLE events PARTITION ${partition} FINAL`)
  }
  return Number(await server.query('SELECT count() FROM events'))
}
