/**
 * Reads one segment: checks its checksums and decodes only the parts that are needed. A view is valid until the
 * reader's snapshot changes. The snapshot does not change while the caller runs synchronously.
 */
import { ServiceError } from '../../../base/errors.ts'
import { formatUuid } from '../../../base/ids.ts'
import { DamagedRecordError } from '../../faults.ts'
import { unseal } from '../../lmdb/codec.ts'
import type { Table } from '../../lmdb/environment.ts'
import { groupKey, numberInKey } from '../../lmdb/keys.ts'
import { need } from '../../lmdb/records.ts'
import { isAway, makeColumn } from './away-columns.ts'
import { ByteReader } from './byte-writer.ts'
import {
  type ColumnEntry,
  type Directory,
  decodeDirectory,
  decodeGroup,
  decodeSummary,
  MODE_DICTIONARY,
  MODE_MIRROR,
  type Part,
  ROLE_NAME,
  ROLE_PROPERTY,
  type SegmentSummary,
  UUID_HEAD_BYTES,
  UUID_TAIL_BYTES,
} from './segment-format.ts'
import {
  decodeValues,
  findRow,
  idBytes,
  jsonPlaces,
  readIds,
  readNumbers,
  readPresence,
  VALUES_HEX,
  VALUES_JSON,
  VALUES_NUMBERS,
  VALUES_UUID,
} from './segment-values.ts'

const HEADERS = 'segment_headers'
/**
 * If the JSON of a column has more bytes than this, not all of its values are parsed, but only those that are
 * requested.
 */
const LARGE_VALUES_BYTES = 1024 * 1024

/**
 * Says which rows have a value in a column, and which value each of them has, as parallel arrays:
 *
 *   row        0         1         2         3
 *   value      Chrome    (none)    Firefox   Chrome
 *
 *   present    0, 2, 3
 *   ids        0, 1, 0
 *   values     [Chrome, Firefox]
 */
export interface ColumnIndex {
  /** The numbers of the rows that have a value, ascending. */
  readonly present: Uint16Array
  /** For each row in `present`: the position of its value, from 0 on. */
  readonly ids: Uint16Array
}

/** A decoded column: which value each row has, and the values. */
export interface ColumnView extends ColumnIndex {
  readonly entry: ColumnEntry
  /** The distinct values. Empty for a mirror (column-builder.ts): there, the value of each row is its distinct_id. */
  readonly values: readonly unknown[]
}

/** The values of a column in their stored form, to be copied. They are valid as long as the view is. */
export interface StoredValues {
  /** The JSON texts of the values, or the bytes of their digits, one after another. */
  readonly bytes: Buffer
  /**
   * For JSON texts: the offset of each text in `bytes`, and at the end the offset at which a further text would begin.
   * Between two texts there is a comma. Null for other encodings.
   */
  readonly places: Uint32Array | null
  /** The values if they are numbers, otherwise null. */
  readonly numbers: Float64Array | null
}

/**
 * The fields by which a duplicate is recognized: name, distinct ID number and uuid. The uuid is given by 16 bytes of
 * `uuidBytes`, from an offset on.
 */
export interface RowIdentity {
  readonly uuidBytes: Uint8Array
  readonly uuidOffset: number
  readonly name: string
  readonly distinctId: number
}

/** One stored segment. A column is decoded when it is first needed, and then stays cached. */
export class SegmentView {
  readonly summary: SegmentSummary
  /** The number of bytes that all records of the segment take in the store. */
  readonly storedBytes: number
  readonly #groupTable: Table
  readonly #headerKey: Uint8Array
  readonly #sealed: Buffer
  readonly #header: Buffer
  readonly #groups = new Map<number, Buffer>()
  readonly #columns = new Map<ColumnEntry, ColumnView>()
  readonly #values = new Map<ColumnEntry, readonly unknown[]>()
  /** For each column whose JSON is large: the offsets of its values in the JSON. */
  readonly #places = new Map<ColumnEntry, Uint32Array>()
  /** For each column that was moved to the warehouse and rebuilt here: the entry from which it can be read. */
  readonly #made = new Map<ColumnEntry, ColumnEntry>()
  #heldBytes = 0
  #directory: Directory | null = null
  #timestamps: Float64Array | null = null
  #arrivals: Float64Array | null = null
  #distinctIds: Uint32Array | null = null
  #uuidHeads: Buffer | null = null
  #uuidTails: Buffer | null = null

  /**
   * `sealed` is the header with its checksum, as it is stored under `key`. The constructor and all methods throw
   * `DamagedRecordError`.
   */
  constructor(groups: Table, key: Uint8Array, sealed: Buffer) {
    this.#groupTable = groups
    this.#headerKey = key
    this.#sealed = sealed
    this.#header = unseal(HEADERS, key, sealed)
    this.summary = this.#guard(() =>
      decodeSummary(numberInKey(key, 0), numberInKey(key, 4), this.#header),
    )
    this.storedBytes = this.summary.groupBytes + sealed.length
  }

  /** The approximate number of bytes of the decoded groups and values. */
  get heldBytes(): number {
    return this.#heldBytes
  }

  /** Returns whether `header`, a header with its checksum, is equal to the header of this segment. */
  hasHeader(header: Buffer): boolean {
    return header.equals(this.#sealed)
  }

  /** The header with its checksum, as it is stored. */
  get header(): Uint8Array {
    return this.#sealed
  }

  /** Returns the decoded bytes of a part. */
  partBytes(part: Part): Buffer {
    return part[2] === 0 ? Buffer.alloc(0) : this.#guard(() => this.#slice(part))
  }

  get directory(): Directory {
    this.#directory ??= this.#guard(() => decodeDirectory(this.#header))
    return this.#directory
  }

  /**
   * The facts about the names of events and properties that the segment stores (segment-names.ts). Null if it stores
   * none.
   */
  get facts(): Buffer | null {
    const { facts } = this.directory
    return facts[2] === 0 ? null : this.#guard(() => this.#slice(facts))
  }

  /** The number of bytes of the values of all columns, after decompression. */
  get valueBytes(): number {
    return this.directory.columns.reduce((sum, { values }) => sum + values[2], 0)
  }

  /**
   * The number of bytes of the largest group with values, after decompression. To read one value, at most this group is
   * decompressed.
   */
  get largestGroupBytes(): number {
    const ends = this.directory.columns.map(({ values }) => values[1] + values[2])
    return ends.reduce((max, end) => Math.max(max, end), 0)
  }

  get timestamps(): Float64Array {
    this.#timestamps ??= this.#numbers(this.directory.timestamps)
    return this.#timestamps
  }

  get arrivals(): Float64Array {
    this.#arrivals ??= this.#numbers(this.directory.arrivals)
    return this.#arrivals
  }

  /** The distinct ID number of each row. */
  get distinctIds(): Uint32Array {
    this.#distinctIds ??= this.#guard(() => this.#readPlanes(this.directory.distinctIds))
    return this.#distinctIds
  }

  /** Returns the mode byte of a row, whose meaning segment-builder.ts describes. */
  modeOf(row: number): number {
    const part = this.directory.modes
    if (part[2] === 0) return 0
    return this.#group(part[0])[part[1] + row] ?? 0
  }

  /** The event names. The ids of rows are positions in `values`. */
  get names(): ColumnView {
    const entry = this.directory.columns.find((column) => column.role === ROLE_NAME)
    if (entry === undefined)
      throw new DamagedRecordError(HEADERS, this.#headerKey, 'the segment has no event names')
    return this.column(entry)
  }

  nameOf(row: number): string {
    const { ids, values } = this.names
    return String(values[ids[row] ?? 0])
  }

  /** Returns the directory entry of a property, or undefined if the property has no column. */
  property(key: string): ColumnEntry | undefined {
    return this.directory.columns.find(
      (column) => column.role === ROLE_PROPERTY && column.key === key,
    )
  }

  /**
   * Returns the directory entry of the only column with a role, such as `ROLE_ELEMENTS`, or undefined if there is none.
   * `role` must not be `ROLE_PROPERTY`.
   */
  special(role: number): ColumnEntry | undefined {
    return this.directory.columns.find((column) => column.role === role)
  }

  column(entry: ColumnEntry): ColumnView {
    let view = this.#columns.get(entry)
    if (view === undefined) {
      const here = this.#here(entry)
      view = this.#guard(() => this.#readColumn(here))
      this.#columns.set(entry, view)
    }
    return view
  }

  /** Returns which rows have a value in a column. Decodes no values and caches nothing. */
  indexOf(entry: ColumnEntry): ColumnIndex {
    const here = this.#here(entry)
    return this.#guard(() => this.#readIndex(here))
  }

  /**
   * Returns the values of a column in their stored form, without an object for each value. The column must not be a
   * mirror, which stores no values. Caches nothing.
   */
  storedValues(entry: ColumnEntry): StoredValues {
    const here = this.#here(entry)
    return this.#guard(() => {
      const bytes = this.#slice(here.values)
      const { encoding, valueCount } = here
      const isJson = encoding === VALUES_JSON
      const isNumbers = encoding === VALUES_NUMBERS
      return {
        bytes,
        places: isJson ? jsonPlaces(bytes, valueCount) : null,
        numbers: isNumbers ? readNumbers(new ByteReader(bytes, 0), bytes, valueCount) : null,
      }
    })
  }

  /** Returns the JSON of all values of a column, which must be stored as JSON. The caller must not change the bytes. */
  storedJson(entry: ColumnEntry): Buffer {
    const here = this.#here(entry)
    return this.#guard(() => this.#slice(here.values))
  }

  /**
   * Returns the position of a row among the rows that have a value in a column, or -1 if the row has none. Does not
   * decode the whole column.
   */
  placeOf(entry: ColumnEntry, row: number): number {
    const { index, presence, count } = this.#here(entry)
    if (count === this.summary.rows) return row
    return findRow(this.#group(index[0]), index[1], presence, count, row)
  }

  /**
   * Returns the value at a position that `placeOf` has returned. The column must not be a mirror, which stores no
   * values. Decodes values, but not the index.
   */
  valueAt(column: ColumnEntry, place: number): unknown {
    const entry = this.#here(column)
    const { mode, index, count, valueCount } = entry
    const planes = mode === MODE_DICTIONARY ? idBytes(valueCount) : 0
    let position = mode === MODE_DICTIONARY ? 0 : place
    if (planes > 0) {
      // The ids are at the end of the column's index.
      const content = this.#group(index[0])
      const low = index[1] + index[2] - planes * count + place
      position = content[low] ?? 0
      if (planes === 2) position += (content[low + count] ?? 0) * 256
    }
    const { encoding, width, values } = entry
    if (encoding === VALUES_JSON && values[2] > LARGE_VALUES_BYTES) {
      return this.#largeValue(entry, position)
    }
    const isDigits = encoding === VALUES_HEX || encoding === VALUES_UUID
    if (!isDigits || this.#values.has(entry)) return this.#valuesOf(entry)[position]
    // Texts that are stored as digits all take the same number of bytes, so one text can be read without the others.
    const content = this.#group(values[0])
    const start = values[1] + (position * width) / 2
    const reader = new ByteReader(content, start)
    return decodeValues(reader, content, start + width / 2, 1, encoding, width)[0]
  }

  uuidOf(row: number): string {
    const bytes = new Uint8Array(16)
    this.copyUuid(row, bytes, 0)
    return formatUuid(bytes, 0)
  }

  /** Writes the uuid of a row, which has 16 bytes, to `target`. */
  copyUuid(row: number, target: Uint8Array, offset: number): void {
    this.#uuidHeads ??= this.#slice(this.directory.uuidHeads)
    this.#uuidTails ??= this.#slice(this.directory.uuidTails)
    const { rows } = this.summary
    for (let plane = 0; plane < UUID_HEAD_BYTES; plane++) {
      target[offset + plane] = this.#uuidHeads[plane * rows + row] ?? 0
    }
    for (let index = 0; index < UUID_TAIL_BYTES; index++) {
      target[offset + UUID_HEAD_BYTES + index] = this.#uuidTails[row * UUID_TAIL_BYTES + index] ?? 0
    }
  }

  /** Returns whether the segment contains a sequence number of a project. */
  holds(projectId: number, sequence: number): boolean {
    const { summary } = this
    return (
      projectId === summary.projectId &&
      sequence >= summary.firstSequence &&
      sequence < summary.firstSequence + summary.rows
    )
  }

  /** Returns whether the event in a row has this uuid, name and distinct ID number. */
  isRow(row: number, identity: RowIdentity): boolean {
    if (this.distinctIds[row] !== identity.distinctId) return false
    if (this.nameOf(row) !== identity.name) return false
    const uuid = new Uint8Array(16)
    this.copyUuid(row, uuid, 0)
    return uuid.every((byte, index) => byte === identity.uuidBytes[identity.uuidOffset + index])
  }

  /**
   * Returns the number of the last row with this uuid in the rows from `first` to `last`, or -1 if there is none. To
   * save time, the whole uuids are compared only if two of their last bytes match.
   */
  findUuid(uuid: Uint8Array, last = this.summary.rows - 1, first = 0): number {
    this.#uuidTails ??= this.#slice(this.directory.uuidTails)
    const tails = this.#uuidTails
    const candidate = new Uint8Array(16)
    for (let row = last; row >= first; row--) {
      const start = row * UUID_TAIL_BYTES
      if (tails[start] !== uuid[9] || tails[start + 6] !== uuid[15]) continue
      this.copyUuid(row, candidate, 0)
      if (candidate.every((byte, index) => byte === uuid[index])) return row
    }
    return -1
  }

  /**
   * Returns the entry from which a column can be read. If the column was moved to the warehouse, it is fetched and
   * rebuilt first.
   */
  #here(entry: ColumnEntry): ColumnEntry {
    if (!isAway(entry)) return entry
    let here = this.#made.get(entry)
    if (here === undefined) {
      here = this.#make(entry)
      this.#made.set(entry, here)
    }
    return here
  }

  #make(column: ColumnEntry): ColumnEntry {
    const number = this.summary.groups + this.#made.size
    const { entry, group } = makeColumn(this.summary, column, number)
    this.#groups.set(number, group)
    this.#heldBytes += group.length
    return entry
  }

  /**
   * Returns one value of a column without decoding the other values, because all values together would take much
   * memory.
   */
  #largeValue(entry: ColumnEntry, position: number): unknown {
    const known = this.#values.get(entry)
    if (known !== undefined) return known[position]
    return this.#guard(() => {
      const bytes = this.#slice(entry.values)
      let places = this.#places.get(entry)
      if (places === undefined) {
        places = jsonPlaces(bytes, entry.valueCount)
        this.#places.set(entry, places)
      }
      const end = (places[position + 1] ?? 0) - 1
      return JSON.parse(bytes.toString('utf8', places[position], end)) as unknown
    })
  }

  #readColumn(entry: ColumnEntry): ColumnView {
    const { present, ids } = this.#readIndex(entry)
    const values = entry.mode === MODE_MIRROR ? [] : this.#valuesOf(entry)
    return { entry, present, ids, values }
  }

  #readIndex(entry: ColumnEntry): ColumnIndex {
    const { count, presence, valueCount, mode } = entry
    const index = entry.index[2] === 0 ? Buffer.alloc(0) : this.#group(entry.index[0])
    const reader = new ByteReader(index, entry.index[1])
    const present = readPresence(reader, index, presence, this.summary.rows, count)
    if (mode === MODE_DICTIONARY) {
      return { present, ids: readIds(index, reader.offset, count, valueCount) }
    }
    const ids = new Uint16Array(count)
    if (mode !== MODE_MIRROR) for (let place = 0; place < count; place++) ids[place] = place
    return { present, ids }
  }

  #valuesOf(entry: ColumnEntry): readonly unknown[] {
    let values = this.#values.get(entry)
    if (values !== undefined) return values
    const { valueCount, encoding, width } = entry
    const [group, offset, bytes] = entry.values
    const content = this.#group(group)
    const reader = new ByteReader(content, offset)
    values = this.#guard(() =>
      decodeValues(reader, content, offset + bytes, valueCount, encoding, width),
    )
    this.#values.set(entry, values)
    this.#heldBytes += bytes
    return values
  }

  #numbers(part: Part): Float64Array {
    return this.#guard(() => {
      const content = this.#group(part[0])
      return readNumbers(new ByteReader(content, part[1]), content, this.summary.rows)
    })
  }

  #readPlanes(part: Part): Uint32Array {
    const { rows } = this.summary
    const content = this.#group(part[0])
    const reader = new ByteReader(content, part[1])
    const base = reader.readVarint()
    const planes = reader.readVarint()
    const values = new Uint32Array(rows).fill(base)
    let { offset } = reader
    for (let plane = 0, factor = 1; plane < planes; plane++, factor *= 256) {
      for (let row = 0; row < rows; row++) {
        values[row] = (values[row] ?? 0) + (content[offset++] ?? 0) * factor
      }
    }
    return values
  }

  #slice(part: Part): Buffer {
    return this.#group(part[0]).subarray(part[1], part[1] + part[2])
  }

  #group(group: number): Buffer {
    let content = this.#groups.get(group)
    if (content === undefined) {
      const key = groupKey(this.summary.projectId, this.summary.firstSequence, group)
      const stored = need(this.#groupTable, key)
      try {
        content = decodeGroup(stored)
      } catch (cause) {
        throw damagedSegment(this.#groupTable.name, key, cause)
      }
      this.#groups.set(group, content)
      this.#heldBytes += content.length
    }
    return content
  }

  #guard<T>(read: () => T): T {
    try {
      return read()
    } catch (cause) {
      if (cause instanceof DamagedRecordError || cause instanceof ServiceError) throw cause
      throw damagedSegment(HEADERS, this.#headerKey, cause)
    }
  }
}

/** Returns the error for a record of a segment that cannot be decoded, although its checksum matches. */
export function damagedSegment(table: string, key: Uint8Array, cause: unknown): DamagedRecordError {
  const what = cause instanceof Error ? cause.message : 'cannot be read'
  return new DamagedRecordError(table, key, what)
}
