/**
 * Columns that a segment has given away: the warehouse has their values, and they are made again of what it answers,
 * byte for byte as they were. What is fixed stays in the store: times, D, names, uuids; and so does the header, which
 * says how long each column has to be.
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

/** A column that was made again: its entry, whose parts lie in a group of their own. */
export interface MadeColumn {
  readonly entry: ColumnEntry
  readonly group: Buffer
}

let source: ColumnSource | null = null

/** Says where this thread finds columns that were given away. */
export function setColumnSource(columns: ColumnSource | null): void {
  source = columns
}

/** Stands for the group of a part that was given away. */
const AWAY_GROUP = 0xffff

/** Whether a segment may give columns away: those that share one are not found elsewhere by their names. */
export function mayGiveAway({ columns }: Directory): boolean {
  return !columns.some(({ role }) => role === ROLE_REST)
}

/** Whether a column stays in any case. */
export function staysHere({ role }: ColumnEntry): boolean {
  return role === ROLE_NAME
}

/** The entry of a column that is given away. */
export function awayEntry(entry: ColumnEntry): ColumnEntry {
  return { ...entry, index: awayPart(entry.index), values: awayPart(entry.values) }
}

function awayPart([, , bytes]: Part): Part {
  return bytes === 0 ? NO_PART : [AWAY_GROUP, 0, bytes]
}

/** Whether a column was given away. */
export function isAway({ index, values }: ColumnEntry): boolean {
  return index[0] === AWAY_GROUP || values[0] === AWAY_GROUP
}

/**
 * Makes a column again as group `group`. Throws `ServiceError` when the warehouse does not answer, or does not have
 * what was given away: then there is no answer, never a wrong one.
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

/** The column of these values, as an encoder writes it. */
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
    ...{ key, role, presence, count, valueCount: values.length },
    mode: column.isMirror ? MODE_MIRROR : column.isPlain ? MODE_PLAIN : MODE_DICTIONARY,
    encoding: column.isMirror ? VALUES_JSON : plan.encoding,
    width: column.isMirror ? 0 : plan.width,
    index: indexBytes === 0 ? NO_PART : [group, 0, indexBytes],
    values: valueBytes === 0 ? NO_PART : [group, indexBytes, valueBytes],
  }
  return { entry: made, group: Buffer.from(writer.view()) }
}

/** Whether a column that was made again is as long, and of as many values, as the one that was given away. */
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
