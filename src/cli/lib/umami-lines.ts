/**
 * Converts tables of Umami to lines of an import. A table is CSV with a header, or one JSON object per line. The output
 * has as many lines as the file, so that line numbers stay the same. It has empty lines for the header, for records
 * that are left out, and for the second and further lines of a record.
 */

import { isUtf8 } from 'node:buffer'
import { CsvReader } from '../../base/csv.ts'
import { OperatorError } from '../../base/errors.ts'
import { isObject, type JsonObject, type OwnObject, parseJson } from '../../base/json.ts'
import { getOrAdd } from '../../base/maps.ts'
import {
  UMAMI_COLUMNS,
  type UmamiRow,
  umamiEvent,
  umamiEventData,
} from '../../rules/capture/umami-row.ts'
import { IMPORT_EVENT_DATA_MAX, IMPORT_RECORD_CHARACTERS_MAX } from '../limits.ts'
import { type FaultListener, NOT_UTF8 } from './import-batch.ts'

/** The whole lines of a file, in blocks. */
export type LineBlocks = AsyncIterable<Buffer>

/** The properties of Umami's events, by `event_id`. */
export type UmamiEventData = ReadonlyMap<string, JsonObject>

const EVENT_DATA_COLUMNS = ['data_key', 'string_value', 'number_value']
const NO_DATA: JsonObject = {}

/**
 * Converts a file with the table `website_event` to blocks of lines, one JSON event on each line. If the last record of
 * the file has no end, the file may be incomplete. `onCut` is then called before the block of this record, so that the
 * block does not count as imported and a later import sends it again. Rejects with `OperatorError` for another table.
 */
export async function* umamiLines(
  blocks: LineBlocks,
  path: string,
  data: UmamiEventData,
  { onFault, onCut }: { readonly onFault: FaultListener; readonly onCut: () => void },
): AsyncGenerator<Buffer> {
  for await (const rows of rowsOf(blocks, path, UMAMI_COLUMNS, onFault)) {
    if (rows.some((row) => row.isCut)) onCut()
    const lines = rows.map(({ row, line, lineCount }) => {
      // Empty lines keep the line numbers of the following lines the same.
      const rest = '\n'.repeat(lineCount)
      if (row === null) return rest
      const event = umamiEvent(row, data.get(row.get('event_id') ?? '') ?? NO_DATA)
      if (typeof event !== 'string') return JSON.stringify(event) + rest
      onFault(line, event)
      return rest
    })
    if (lines.length > 0) yield Buffer.from(lines.join(''))
  }
}

/**
 * Reads a file with the table `event_data`. Rejects with `OperatorError` for another table, and if there are more than
 * `IMPORT_EVENT_DATA_MAX` values.
 */
export async function readUmamiEventData(
  blocks: LineBlocks,
  path: string,
  onFault: FaultListener,
): Promise<UmamiEventData> {
  const properties = new Map<string, OwnObject>()
  let count = 0
  for await (const rows of rowsOf(blocks, path, EVENT_DATA_COLUMNS, onFault)) {
    for (const { row, line } of rows) {
      if (row === null) continue
      if (++count > IMPORT_EVENT_DATA_MAX) {
        const most = IMPORT_EVENT_DATA_MAX.toLocaleString('en')
        throw new OperatorError(
          `${path} has more than ${most} values. Export and import the table month by month.`,
        )
      }
      const data = umamiEventData(row)
      if (typeof data === 'string') {
        onFault(line, data)
        continue
      }
      const [event, name, value] = data
      // A property with a name such as `__proto__` must become an ordinary property.
      Object.defineProperty(
        getOrAdd(properties, event, () => ({})),
        name,
        {
          value,
          enumerable: true,
          configurable: true,
        },
      )
    }
  }
  return properties
}

/** A record of a table, and how many lines of the file it has. */
interface FileRow {
  /** The record. Null for the header, for empty lines, and for records with faults. */
  readonly row: UmamiRow | null
  readonly line: number
  readonly lineCount: number
  /** True if the file may have been cut in this record, or in one that begins before it. */
  readonly isCut: boolean
}

/** Yields the rows of each block. */
async function* rowsOf(
  blocks: LineBlocks,
  path: string,
  needed: readonly string[],
  onFault: FaultListener,
): AsyncGenerator<readonly FileRow[]> {
  const reader = new CsvReader(IMPORT_RECORD_CHARACTERS_MAX)
  let columns: readonly string[] | null = null
  let isJson: boolean | null = null
  let line = 0
  /** True if all blocks since the start of the current record are in UTF-8. */
  let isRecordUtf = true
  const takeRecords = (chunk: string, isChunkUtf: boolean, isLast: boolean): readonly FileRow[] => {
    const rows: FileRow[] = []
    isRecordUtf = isChunkUtf && (isRecordUtf || !reader.isWaiting)
    for (const record of reader.records(chunk, isLast)) {
      const { cells } = record
      let fault = record.fault
      if (fault === null && !isRecordUtf && cells.some((cell) => cell.includes('\ufffd')))
        fault = NOT_UTF8
      if (fault !== null) onFault(record.line, fault)
      const isRow = columns !== null && fault === null && cells.length > 1
      const row = columns !== null && isRow ? rowOfCells(columns, cells) : null
      const { line, lineCount } = record
      // When `isLast` is true, the first record has no end (a line break or a closing quote), so the file may have been
      // cut in this record.
      rows.push({ row, line, lineCount, isCut: isLast })
      columns ??= checkedColumns(cells, path, needed)
    }
    return rows
  }
  for await (const block of blocks) {
    const text = block.toString('utf8')
    const isUtf = isUtf8(block)
    isJson ??= text.startsWith('{')
    if (!isJson) {
      yield takeRecords(text, isUtf, false)
      continue
    }
    const chunk = text.endsWith('\n') ? text.slice(0, -1) : text
    const isEnded = chunk !== text
    const lines = chunk.split('\n')
    yield lines.map((json, index) => {
      line++
      const row = isUtf || !json.includes('\ufffd') ? rowOfJson(json) : NOT_UTF8
      if (typeof row === 'string') onFault(line, row)
      const isCut = !isEnded && index === lines.length - 1
      return { row: typeof row === 'string' ? null : row, line, lineCount: 1, isCut }
    })
  }
  if (isJson === false) yield takeRecords('', true, true)
}

function checkedColumns(
  columns: readonly string[],
  path: string,
  needed: readonly string[],
): readonly string[] {
  if (columns.some((name) => name.includes('\r'))) {
    throw new OperatorError(
      `${path} has line breaks that consist of a carriage return only. Convert them, for example with 'tr "\\r" "\\n"'.`,
    )
  }
  const twice = columns.find((name, index) => name !== '' && columns.indexOf(name) !== index)
  if (twice !== undefined) {
    throw new OperatorError(
      `${path} has two columns named ${twice}. Name the columns of each table in the query, as described in docs/MIGRATING.md.`,
    )
  }
  const missing = needed.filter((name) => !columns.includes(name))
  if (missing.length === 0) return columns
  throw new OperatorError(
    `${path} has no column ${missing.join(', ')}, so it is not the table with one row for each event. See docs/MIGRATING.md.`,
  )
}

function rowOfCells(columns: readonly string[], cells: readonly string[]): UmamiRow {
  return new Map(columns.map((name, index) => [name, cells[index] ?? '']))
}

/** Returns the row of a line of JSON, null for a blank line, or the reason why the line is not a row. */
function rowOfJson(line: string): UmamiRow | string | null {
  if (line.trim() === '') return null
  const row = parseJson(line)
  if (!isObject(row)) return 'it is not a JSON object'
  const isText = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value)
  const entries = Object.entries(row).filter(([, value]) => isText(value))
  return new Map(entries.map(([name, value]) => [name, String(value)]))
}
