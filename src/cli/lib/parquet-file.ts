/** Writes exported events as a Parquet file, a group of rows at a time. The only door to hyparquet-writer. */
import type { parquetWriteRows as WriteRows } from 'hyparquet-writer'
import { VERSION } from '../../base/version.ts'
import type { ExportedEvent } from '../../rules/events/exported-event.ts'

/** Rows that are in memory at a time. */
const GROUP_ROWS = 50_000

// An export without events has no first row to guess from, so the types are said.
const COLUMNS: readonly Column[] = [
  { name: 'id', type: 'INT64', repetition_type: 'REQUIRED' },
  ...columns('BYTE_ARRAY', 'UTF8', 'uuid', 'event', 'distinct_id'),
  ...columns('INT64', 'TIMESTAMP_MILLIS', 'timestamp', 'created_at'),
  ...columns('BYTE_ARRAY', 'UTF8', 'person_mode', 'elements_chain', 'properties'),
]

/** Writes all events to a new file. Properties are JSON text, times are UTC. */
export async function writeParquet(path: string, events: Iterable<ExportedEvent>): Promise<void> {
  // Only now: no other command shall wait for it to be loaded.
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
  type: Required<Column>['type'],
  converted_type: Required<Column>['converted_type'],
  ...names: readonly string[]
): readonly Column[] {
  return names.map((name) => ({ name, type, converted_type, repetition_type: 'REQUIRED' }))
}
