/**
 * Columns of a segment that were moved to the warehouse, that is, to ClickHouse. The store no longer has their values.
 * When a query needs them, the store fetches them from the warehouse and rebuilds the columns byte for byte. The header
 * and the fixed columns (times, distinct ID numbers, names and uuids) stay in the store. The header records the length
 * of each moved column, so that a rebuilt column can be checked.
 */
import { refusal } from '../../../base/refusals.ts'
import type { ColumnSource, ColumnTexts } from '../../../ports/warehouse.ts'
import { ByteWriter } from './byte-writer.ts'
import { ColumnBuilder } from './column-builder.ts'
import {
  type ColumnEntry,
  type Directory,
  MODE_DICTIONARY,
  MODE_MIRROR,
  MODE_PLAIN,
  NO_PART,
  type Part,
  ROLE_ELEMENTS,
  ROLE_NAME,
  ROLE_REST,
  type SegmentSummary,
} from './segment-format.ts'
import { planValues, VALUES_JSON, writeIds, writePresence, writeValues } from './segment-values.ts'

/**
 * A column that was rebuilt from the warehouse: its directory entry, and the content of the group to which the entry
 * refers.
 */
export interface MadeColumn {
  readonly entry: ColumnEntry
  readonly group: Buffer
}

let source: ColumnSource | null = null

/**
 * Sets the object by which this thread reads columns that were moved to the warehouse. With null, the thread cannot
 * read such columns.
 */
export function setColumnSource(columns: ColumnSource | null): void {
  source = columns
}

/** A part (`Part`) with this group number was moved to the warehouse. No stored group has this number. */
const AWAY_GROUP = 0xffff

/**
 * Returns whether columns of a segment may be moved to the warehouse. This is false if some properties share a column,
 * because the warehouse finds columns by the names of their properties.
 */
export function mayGiveAway({ columns }: Directory): boolean {
  return !columns.some(({ role }) => role === ROLE_REST)
}

/** Returns whether a column always stays in the store, because it contains the event names. */
export function staysHere({ role }: ColumnEntry): boolean {
  return role === ROLE_NAME
}

/** Returns the entry of a column after its move to the warehouse. */
export function awayEntry(entry: ColumnEntry): ColumnEntry {
  return { ...entry, index: awayPart(entry.index), values: awayPart(entry.values) }
}

function awayPart([, , bytes]: Part): Part {
  return bytes === 0 ? NO_PART : [AWAY_GROUP, 0, bytes]
}

/** Returns whether a column was moved to the warehouse. */
export function isAway({ index, values }: ColumnEntry): boolean {
  return index[0] === AWAY_GROUP || values[0] === AWAY_GROUP
}

/**
 * Fetches a moved column and rebuilds it as group number `group`. Throws `ServiceError` if the warehouse does not
 * answer or lacks some of the values, so that a query fails instead of returning a wrong result.
 */
export function makeColumn(segment: SegmentSummary, entry: ColumnEntry, group: number): MadeColumn {
  if (source === null) throw refusal('warehouse_unset')
  const key = entry.role === ROLE_ELEMENTS ? null : entry.key
  for (const isAnew of [false, true]) {
    const found = source.column(segment, key, isAnew)
    const made = columnOf(entry, found, segment.rows, group)
    if (isSame(made.entry, entry)) return made
  }
  throw refusal('warehouse_incomplete')
}

/** Encodes values as a column, with the same bytes that the segment encoder would write. */
export function columnOf(
  { key, role, mode }: ColumnEntry,
  { rows: present, texts }: ColumnTexts,
  rows: number,
  group: number,
): MadeColumn {
  const column = new ColumnBuilder(key, rows)
  column.isMirror = mode === MODE_MIRROR
  const known = new Map<string, unknown>()
  for (const [at, row] of present.entries()) {
    if (column.isMirror) {
      column.putMirror(row)
      continue
    }
    const text = texts[at] ?? ''
    let value = known.get(text)
    if (value === undefined) {
      value = role === ROLE_ELEMENTS ? text : (JSON.parse(text) as unknown)
      known.set(text, value)
    }
    column.put(row, value)
  }
  column.settle(rows)
  const { ids, count, values } = column
  const writer = new ByteWriter()
  const presence = writePresence(writer, ids, rows, count)
  if (!column.isPlain && !column.isMirror) writeIds(writer, ids, rows, count, values.length)
  const indexBytes = writer.length
  const plan = planValues(values)
  if (!column.isMirror) writeValues(writer, values, plan)
  const valueBytes = writer.length - indexBytes
  const made: ColumnEntry = {
    key,
    role,
    presence,
    count,
    valueCount: values.length,
    mode: column.isMirror ? MODE_MIRROR : column.isPlain ? MODE_PLAIN : MODE_DICTIONARY,
    encoding: column.isMirror ? VALUES_JSON : plan.encoding,
    width: column.isMirror ? 0 : plan.width,
    index: indexBytes === 0 ? NO_PART : [group, 0, indexBytes],
    values: valueBytes === 0 ? NO_PART : [group, indexBytes, valueBytes],
  }
  return { entry: made, group: Buffer.from(writer.view()) }
}

/** Returns whether a rebuilt column has the length and the number of values that the column had before it was moved. */
export function isSame(made: ColumnEntry, entry: ColumnEntry): boolean {
  const figures = ({
    mode,
    presence,
    count,
    valueCount,
    encoding,
    width,
    index,
    values,
  }: ColumnEntry) =>
    [mode, presence, count, valueCount, encoding, width, index[2], values[2]].join(' ')
  return figures(made) === figures(entry)
}
