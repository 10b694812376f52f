/**
 * Produces tables of persons and exports of events on a thread. Each call produces a part of limited size, so that a
 * large table does not occupy a thread while its client reads slowly. A table is made in three steps: first the list of
 * its persons, then its columns, then its lines. The table lacks a person that is deleted before its line is written,
 * and a property that first appears after the columns were determined. An export has one line for each event, in order
 * of arrival. See docs/compatibility/api.md, "CSV"; docs/compatibility/events.md, "Exporting events".
 */
import { csvLine, flatRow, TableColumns } from '../../base/csv.ts'
import { JsonBytes } from '../../base/json-bytes.ts'
import { bytesOf } from '../../base/rows-writer.ts'
import type { EventExportTask } from '../../rules/events/event-queries.ts'
import type { ExportedEvent } from '../../rules/events/exported-event.ts'
import { personBody } from '../../rules/persons/person-answer.ts'
import type { PersonListQuery } from '../../rules/persons/person-queries.ts'
import type { LongTools } from './call-kinds.ts'
import {
  EXPORT_ROWS_MAX,
  TABLE_LOOKED_AT_MAX,
  TABLE_PIECE_BYTES_MAX,
  TABLE_PIECE_MS_MAX,
} from './limits.ts'
import { requireWanted } from './pages.ts'

/** A table in progress. With each task, its memory moves from the main thread to the worker thread and back. */
export interface TableState {
  readonly projectId: number
  /** The person numbers of the table's rows, in order. */
  readonly numbers: Uint32Array<ArrayBuffer>
  /** How many persons were read to determine the columns. */
  readonly seen: number
  /** How many persons have a line that was written. */
  readonly written: number
  /** The names of the columns as a JSON list. */
  readonly columns: Uint8Array<ArrayBuffer>
}

/** The result of one task. */
export interface MadeChunk<State> {
  /** The finished lines. Empty while the columns are being determined, or if no line is finished yet. */
  readonly piece: Uint8Array<ArrayBuffer>
  /** The state with which to request the next part. Null if the result is complete. */
  readonly rest: State | null
}

type TableResult = MadeChunk<TableState>

/** The columns of an export, in order. The column `properties` contains JSON. */
const EXPORT_COLUMNS = [
  'id',
  'uuid',
  'event',
  'distinct_id',
  'person_id',
  'timestamp',
  'created_at',
  'person_mode',
  'elements_chain',
  'properties',
]

/**
 * Starts the table of a list, or continues it from the state that the previous part returned. Throws 400 for a table
 * with too many cells, and the errors of the reader.
 */
export function makeTableChunk(
  {
    stores,
    canceled,
  }: Pick<LongTools, 'canceled'> & {
    readonly stores: Pick<LongTools['stores'], 'reader'>
  },
  table: PersonListQuery | TableState,
): TableResult {
  const persons = stores.reader.persons()
  const check = (): void => requireWanted(canceled)
  const isBegun = 'numbers' in table
  const state = isBegun
    ? table
    : {
        projectId: table.projectId,
        numbers: Uint32Array.from(persons.find(table, check).numbers),
        seen: 0,
        written: 0,
        columns: bytesOf(['[]']),
      }
  const maker = new TableMaker(state, check, (number) => {
    const person = persons.listed(state.projectId, number)
    return person === null ? null : flatRow(personBody(person))
  })
  return state.seen < state.numbers.length ? maker.gather() : maker.write()
}

/** Writes the next events of an export. Throws the errors of the reader. */
export function makeExportChunk(
  { stores, canceled }: LongTools,
  task: EventExportTask,
): MadeChunk<EventExportTask> {
  const { format, afterId } = task
  const deadline = performance.now() + TABLE_PIECE_MS_MAX
  const lines = new JsonBytes()
  if (format === 'csv' && afterId === 0) lines.writeText(csvLine(EXPORT_COLUMNS))
  for (const segment of stores.reader.exportEvents({ ...task, rowsMax: EXPORT_ROWS_MAX })) {
    requireWanted(canceled)
    if (format === 'csv') for (const event of segment.events) lines.writeText(eventLine(event))
    else for (let place = 0; place < segment.count; place++) segment.writeLine(place, lines)
    if (lines.length < TABLE_PIECE_BYTES_MAX && performance.now() < deadline) continue
    return { piece: writtenOf(lines), rest: { ...task, afterId: segment.lastId } }
  }
  return { piece: writtenOf(lines), rest: null }
}

function eventLine(event: ExportedEvent): string {
  const { id, uuid, event: name, distinctId, personId, personMode } = event
  return csvLine([
    String(id),
    uuid,
    name,
    distinctId,
    personId,
    ...[event.timestampMs, event.arrivedAtMs].map((atMs) => new Date(atMs).toISOString()),
    personMode,
    event.elementsChain,
    event.propertiesJson,
  ])
}

function writtenOf({ bytes, length }: JsonBytes): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes.subarray(0, length))
}

/** Returns the buffers of a result that are transferred. */
export function tableBuffers({ piece, rest }: TableResult): readonly ArrayBuffer[] {
  const buffers = [piece.buffer]
  return rest === null ? buffers : [...buffers, rest.numbers.buffer, rest.columns.buffer]
}

type FlatRow = ReadonlyMap<string, string>

class TableMaker {
  readonly #state: TableState
  readonly #check: () => void
  readonly #rowOf: (number: number) => FlatRow | null
  readonly #deadline = performance.now() + TABLE_PIECE_MS_MAX
  #rowCount = 0

  constructor(state: TableState, check: () => void, rowOf: (number: number) => FlatRow | null) {
    this.#state = state
    this.#check = check
    this.#rowOf = rowOf
  }

  /** Determines the columns. If the table is small enough, also writes it. */
  gather(): TableResult {
    const { numbers } = this.#state
    const names = new TableColumns(columnsOf(this.#state))
    const rows: FlatRow[] = []
    let { seen } = this.#state
    for (let size = 0; seen < numbers.length && this.#goesOn(size, TABLE_LOOKED_AT_MAX); seen++) {
      const row = this.#rowOf(numbers[seen] ?? 0)
      if (row === null) continue
      names.add(row.keys(), numbers.length)
      rows.push(row)
      for (const [name, cell] of row) size += name.length + cell.length
    }
    const columns = names.sorted()
    const isWhole = this.#state.seen === 0 && seen === numbers.length
    if (isWhole) {
      const lines = columns.length === 0 ? [] : [csvLine(columns)]
      for (const row of rows) lines.push(lineOf(row, columns))
      return { piece: bytesOf(lines), rest: null }
    }
    const text = bytesOf([JSON.stringify(columns)])
    return { piece: bytesOf([]), rest: { ...this.#state, seen, columns: text } }
  }

  /** Writes lines, with the header before the first one. */
  write(): TableResult {
    const { numbers } = this.#state
    const columns = columnsOf(this.#state)
    let { written } = this.#state
    const lines = written === 0 && columns.length > 0 ? [csvLine(columns)] : []
    for (
      let size = 0;
      written < numbers.length && this.#goesOn(size, TABLE_PIECE_BYTES_MAX);
      written++
    ) {
      const row = this.#rowOf(numbers[written] ?? 0)
      if (row === null) continue
      const line = lineOf(row, columns)
      lines.push(line)
      size += line.length
    }
    const rest = written === numbers.length ? null : { ...this.#state, written }
    return { piece: bytesOf(lines), rest }
  }

  #goesOn(size: number, sizeMax: number): boolean {
    this.#check()
    // Each part has at least one row, so that the table makes progress even on a slow machine.
    return this.#rowCount++ === 0 || (size < sizeMax && performance.now() < this.#deadline)
  }
}

function lineOf(row: FlatRow, columns: readonly string[]): string {
  return csvLine(columns.map((name) => row.get(name) ?? ''))
}

function columnsOf({ columns }: TableState): readonly string[] {
  // The cast is safe, because `gather` wrote this list of texts.
  return JSON.parse(new TextDecoder().decode(columns)) as readonly string[]
}
