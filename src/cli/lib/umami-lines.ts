/**
 * Umami's tables as lines of an import: CSV with a header, or rows as JSON objects, one a line. One line
 * comes out for each record, empty for the header and for what is left out, so that numbers of lines are
 * numbers of records.
 */

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
import type { FaultListener } from './import-batch.ts'

/** Blocks of whole lines of a file. */
export type LineBlocks = AsyncIterable<Buffer>

/** Properties of events by `event_id`. */
export type UmamiEventData = ReadonlyMap<string, JsonObject>

const EVENT_DATA_COLUMNS = ['data_key', 'string_value', 'number_value']
const NO_DATA: JsonObject = {}

/**
 * The lines of a file of `website_event`, in blocks. Rejects with `OperatorError` for another table, and
 * for a record that is too long.
 */
export async function* umamiLines(
  blocks: LineBlocks,
  path: string,
  data: UmamiEventData,
  onFault: FaultListener,
): AsyncGenerator<Buffer> {
  let number = 0
  for await (const rows of rowsOf(blocks, path, UMAMI_COLUMNS)) {
    const lines = rows.map((row) => {
      number++
      if (row === null) return ''
      const event = umamiEvent(row, data.get(row.get('event_id') ?? '') ?? NO_DATA)
      if (typeof event !== 'string') return JSON.stringify(event)
      onFault(number, event)
      return ''
    })
    if (lines.length > 0) yield Buffer.from(`${lines.join('\n')}\n`)
  }
}

/** What a file of `event_data` says. Rejects as `umamiLines`, and with `OperatorError` for too many values. */
export async function readUmamiEventData(
  blocks: LineBlocks,
  path: string,
): Promise<UmamiEventData> {
  const data = new Map<string, OwnObject>()
  let count = 0
  for await (const rows of rowsOf(blocks, path, EVENT_DATA_COLUMNS)) {
    for (const row of rows) {
      if (row === null) continue
      if (++count > IMPORT_EVENT_DATA_MAX) {
        const most = IMPORT_EVENT_DATA_MAX.toLocaleString('en')
        throw new OperatorError(`${path} has more than ${most} values: import month by month`)
      }
      const [event, name, value] = umamiEventData(row)
      // A name such as __proto__ is a name like any other.
      Object.defineProperty(
        getOrAdd(data, event, () => ({})),
        name,
        {
          value,
          enumerable: true,
          configurable: true,
        },
      )
    }
  }
  return data
}

/** The rows of each block, null for what is none: the header and empty lines. */
async function* rowsOf(
  blocks: LineBlocks,
  path: string,
  needed: readonly string[],
): AsyncGenerator<readonly (UmamiRow | null)[]> {
  const reader = new CsvReader()
  let columns: readonly string[] | null = null
  let isJson: boolean | null = null
  for await (const block of blocks) {
    const text = block.toString('utf8')
    const piece = text.endsWith('\n') ? text : `${text}\n`
    isJson ??= text.startsWith('{')
    if (isJson) {
      yield piece.slice(0, -1).split('\n').map(rowOfJson)
      continue
    }
    const rows: (UmamiRow | null)[] = []
    for (const cells of reader.records(piece)) {
      rows.push(columns === null || cells.length < 2 ? null : rowOfCells(columns, cells))
      columns ??= checkedColumns(cells, path, needed)
    }
    if (reader.pendingCharacters > IMPORT_RECORD_CHARACTERS_MAX) {
      throw new OperatorError(`${path} has a quoted cell without an end, or one that is too long`)
    }
    yield rows
  }
}

function checkedColumns(
  columns: readonly string[],
  path: string,
  needed: readonly string[],
): readonly string[] {
  const missing = needed.filter((name) => !columns.includes(name))
  if (missing.length === 0) return columns
  throw new OperatorError(
    `${path} has no column ${missing.join(', ')}: it is not the table that holds events one by one (docs/MIGRATING.md)`,
  )
}

function rowOfCells(columns: readonly string[], cells: readonly string[]): UmamiRow {
  return new Map(columns.map((name, index) => [name, cells[index] ?? '']))
}

function rowOfJson(line: string): UmamiRow | null {
  if (line.trim() === '') return null
  const row = parseJson(line)
  const isText = (value: unknown) => typeof value === 'string' || typeof value === 'number'
  const entries = Object.entries(isObject(row) ? row : NO_DATA).filter(([, value]) => isText(value))
  return new Map(entries.map(([name, value]) => [name, String(value)]))
}
