/**
 * Writes exported events to a Parquet file, one row group at a time. This is the only module that imports
 * hyparquet-writer.
 */
import type { parquetWriteRows as WriteRows } from 'hyparquet-writer'
import { VERSION } from '../../base/version.ts'
import type { ExportedEvent } from '../../rules/events/exported-event.ts'

/** The number of rows in a row group. A whole row group is in memory before it is written. */
const GROUP_ROWS = 50_000

const TEXT = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const
/**
 * The type of a moment in UTC. Programs that only know the older member `converted_type` may read it as a time without
 * a time zone.
 */
const INSTANT = {
  type: 'INT64',
  converted_type: 'TIMESTAMP_MILLIS',
  logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
} as const

// The types are given explicitly. Otherwise they would be inferred from the first row, which an export without events
// does not have.
const COLUMNS: readonly Column[] = [
  ...columns({ type: 'INT64' }, 'id'),
  ...columns(TEXT, 'uuid', 'event', 'distinct_id', 'person_id'),
  ...columns(INSTANT, 'timestamp', 'created_at'),
  ...columns(TEXT, 'person_mode', 'elements_chain', 'properties'),
]

/** Writes all events to a new file. Properties are JSON text, times are UTC. */
export async function writeParquet(path: string, events: Iterable<ExportedEvent>): Promise<void> {
  // The module is loaded here, so that other commands do not wait for it.
  const { fileWriter, parquetWriteRows } = await import('hyparquet-writer')
  await parquetWriteRows({
    writer: fileWriter(path),
    rows: rowsOf(events),
    columns: COLUMNS.map(({ name }) => ({ name })),
    rowGroupSize: GROUP_ROWS,
    createdBy: `tenrec ${VERSION}`,
    schema: [{ name: 'root', num_children: COLUMNS.length }, ...COLUMNS],
  })
}

function* rowsOf(events: Iterable<ExportedEvent>): Generator<Record<string, unknown>> {
  for (const event of events) {
    yield {
      id: BigInt(event.id),
      uuid: event.uuid,
      event: event.event,
      distinct_id: event.distinctId,
      person_id: event.personId,
      timestamp: new Date(event.timestampMs),
      created_at: new Date(event.arrivedAtMs),
      person_mode: event.personMode,
      elements_chain: event.elementsChain,
      properties: event.propertiesJson,
    }
  }
}

type Column = NonNullable<Parameters<typeof WriteRows>[0]['schema']>[number]

function columns(
  kind: Omit<Column, 'name' | 'repetition_type'>,
  ...names: readonly string[]
): readonly Column[] {
  return names.map((name) => ({ name, ...kind, repetition_type: 'REQUIRED' }))
}
