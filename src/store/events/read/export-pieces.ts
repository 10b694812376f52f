/**
 * Prepares the texts from which the lines of an export are put together, called *chunks*. Each distinct value of a
 * column becomes one chunk: the key of the property, and the JSON of the value. Each row refers to its chunks, in the
 * order of the columns. Values that are stored as JSON are not parsed.
 */
import type { JsonBytes } from '../../../base/json-bytes.ts'
import {
  type ColumnEntry,
  MODE_MIRROR,
  ROLE_ELEMENTS,
  ROLE_PROPERTY,
  ROLE_REST,
} from '../format/segment-format.ts'
import { VALUES_UUID } from '../format/segment-values.ts'
import type { ColumnIndex, SegmentView, StoredValues } from '../format/segment-view.ts'

/** The text with which the member for the elements of an event begins. */
export const ELEMENTS_HEAD = '"elements_chain":'

const COMMA = 0x2c
const EMPTY_TEXT_BYTES = 2

/** The wanted rows of a segment, and the buffers for their chunks. */
export interface WantedRows {
  readonly view: SegmentView
  readonly count: number
  /** For each row of the segment: its position among the wanted rows, or -1. */
  readonly places: Int32Array
  /** For each wanted row: the offset of its distinct_id's chunk in `distinctJson`. */
  readonly distinctChunks: Uint32Array
  readonly distinctJson: JsonBytes
  /** The buffer for all other chunks. */
  readonly arena: JsonBytes
}

/**
 * The chunks of all properties, as parallel arrays. The chunks of wanted row `i` are `chunks[ends[i]]` up to, but not
 * including, `chunks[ends[i + 1]]`:
 *
 *   ends     0        2     3
 *   chunks   a   b  | a   |          row 0 has the chunks a and b, row 1 has the chunk a
 */
export interface PropertyChunks {
  /** The offset in the arena at which each chunk begins. A chunk is `,"key":value`, or empty. */
  readonly chunks: Uint32Array
  readonly ends: Uint32Array
}

/**
 * Writes the chunks of all properties. Throws `DamagedRecordError`. It takes about 15 ns for each value of each row.
 */
export function propertyChunks(wanted: WantedRows): PropertyChunks {
  const { view, count, places } = wanted
  const { rows } = view.summary
  const columns = view.directory.columns
    .filter(({ role }) => role === ROLE_PROPERTY || role === ROLE_REST)
    .map((entry) => ({ entry, index: view.indexOf(entry) }))
  const ends = new Uint32Array(count + 1)
  let ofAllRows = 0
  for (const { index } of columns) {
    if (index.present.length === rows) ofAllRows++
    else countRows(index.present, places, ends)
  }
  for (let place = 0; place < count; place++) {
    ends[place + 1] = (ends[place + 1] ?? 0) + (ends[place] ?? 0) + ofAllRows
  }
  const next = ends.slice()
  const chunks = new Uint32Array(ends[count] ?? 0)
  for (const { entry, index } of columns) {
    if (entry.mode === MODE_MIRROR) addMirror(wanted, entry, index, chunks, next)
    else addColumn(wanted, entry, index, chunks, next)
  }
  return { chunks, ends }
}

/**
 * Writes the member `"elements_chain":"...",` for each wanted row. Returns the offset at which each member begins. For
 * a row without elements, this is 0 or the offset of an empty text. Throws `DamagedRecordError`.
 */
export function elementChunks({ view, count, places, arena }: WantedRows): Uint32Array {
  const found = new Uint32Array(count)
  const entry = view.special(ROLE_ELEMENTS)
  if (entry === undefined) return found
  const { present, ids } = view.indexOf(entry)
  const stored = view.storedValues(entry)
  const starts = new Uint32Array(entry.valueCount)
  for (let index = 0; index < present.length; index++) {
    const place = places[present[index] ?? 0] ?? -1
    if (place < 0) continue
    const id = ids[index] ?? 0
    let start = starts[id] ?? 0
    if (start === 0) {
      start = arena.beginChunk()
      arena.writeText(ELEMENTS_HEAD)
      writeValue(arena, entry, stored, id)
      // If the text of the elements is empty, remove the member that was just written.
      if (arena.length === start + ELEMENTS_HEAD.length + EMPTY_TEXT_BYTES) arena.length = start
      else arena.writeByte(COMMA)
      arena.endChunk(start)
      starts[id] = start
    }
    found[place] = start
  }
  return found
}

function countRows(present: Uint16Array, places: Int32Array, ends: Uint32Array): void {
  for (let index = 0; index < present.length; index++) {
    const place = places[present[index] ?? 0] ?? -1
    if (place >= 0) ends[place + 1] = (ends[place + 1] ?? 0) + 1
  }
}

/** Adds the chunks of a mirror: a column whose values are the distinct_ids of its rows. */
function addMirror(
  { places, distinctChunks, distinctJson, arena }: WantedRows,
  { key }: ColumnEntry,
  { present }: ColumnIndex,
  chunks: Uint32Array,
  next: Uint32Array,
): void {
  const prefix = Buffer.from(`,${JSON.stringify(key)}:`)
  for (let index = 0; index < present.length; index++) {
    const place = places[present[index] ?? 0] ?? -1
    if (place < 0) continue
    const start = arena.beginChunk()
    arena.writeBytes(prefix, 0, prefix.length)
    arena.copyChunk(distinctJson, distinctChunks[place] ?? 0)
    arena.endChunk(start)
    const position = next[place] ?? 0
    chunks[position] = start
    next[place] = position + 1
  }
}

function addColumn(
  { view, places, arena }: WantedRows,
  entry: ColumnEntry,
  { present, ids }: ColumnIndex,
  chunks: Uint32Array,
  next: Uint32Array,
): void {
  const stored = view.storedValues(entry)
  const prefix = Buffer.from(entry.role === ROLE_REST ? ',' : `,${JSON.stringify(entry.key)}:`)
  // For each value: the offset of its chunk. 0 means that the value is not written yet; no chunk has the offset 0.
  const starts = new Uint32Array(entry.valueCount)
  for (let index = 0; index < present.length; index++) {
    const place = places[present[index] ?? 0] ?? -1
    if (place < 0) continue
    const id = ids[index] ?? 0
    let start = starts[id] ?? 0
    if (start === 0) {
      start = arena.beginChunk()
      writeMember(arena, prefix, entry, stored, id)
      arena.endChunk(start)
      starts[id] = start
    }
    const position = next[place] ?? 0
    chunks[position] = start
    next[place] = position + 1
  }
}

/**
 * Writes `,"key":value` for a property. For an object with properties that share a column, it writes the members of the
 * object, without the braces.
 */
function writeMember(
  arena: JsonBytes,
  prefix: Buffer,
  entry: ColumnEntry,
  stored: StoredValues,
  id: number,
): void {
  if (entry.role === ROLE_REST) {
    const { bytes, places } = stored
    const start = places?.[id] ?? 0
    const end = (places?.[id + 1] ?? 0) - 1
    if (end - start <= 2) return
    arena.writeBytes(prefix, 0, prefix.length)
    arena.writeBytes(bytes, start + 1, end - 1)
  } else {
    arena.writeBytes(prefix, 0, prefix.length)
    writeValue(arena, entry, stored, id)
  }
}

function writeValue(
  arena: JsonBytes,
  entry: ColumnEntry,
  { bytes, places, numbers }: StoredValues,
  id: number,
): void {
  const start = places?.[id] ?? 0
  // The values form a JSON array. The byte before the next value is a comma or the closing bracket, so this value ends
  // before that byte.
  const end = (places?.[id + 1] ?? 0) - 1
  if (places !== null) arena.writeBytes(bytes, start, end)
  else if (numbers !== null) arena.writeNumber(numbers[id] ?? 0)
  else {
    const width = entry.width / 2
    if (entry.encoding === VALUES_UUID) arena.writeUuid(bytes, id * width)
    else arena.writeHex(bytes, id * width, width)
  }
}
