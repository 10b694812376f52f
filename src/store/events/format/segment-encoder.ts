/**
 * Encodes a filled `SegmentBuilder` as the records of a segment (segment-format.ts). Ids and texts are in separate
 * groups, because they compress much worse in a common one.
 */

import { seal } from '../../lmdb/codec.ts'
import { groupKey, pairKey } from '../../lmdb/keys.ts'
import { SEGMENT_ROWS_MAX } from '../limits.ts'
import { ByteWriter } from './byte-writer.ts'
import type { ColumnBuilder } from './column-builder.ts'
import { SEGMENT_ROWS_TARGET, type SegmentBuilder } from './segment-builder.ts'
import {
  type ColumnEntry,
  type Directory,
  encodeGroup,
  encodeHeader,
  encodeTexts,
  MODE_DICTIONARY,
  MODE_MIRROR,
  MODE_PLAIN,
  NO_PART,
  type Part,
  ROLE_ELEMENTS,
  ROLE_NAME,
  ROLE_PROPERTY,
  ROLE_REST,
  UUID_HEAD_BYTES,
  UUID_TAIL_BYTES,
} from './segment-format.ts'
import { encodeNames } from './segment-names.ts'
import {
  VALUES_HEX,
  VALUES_JSON,
  VALUES_NUMBERS,
  VALUES_UUID,
  type ValuesPlan,
  writeIds,
  writeNumbers,
  writePresence,
} from './segment-values.ts'
import { sessionStarts } from './session-starts.ts'

/**
 * When a group of columns (segment-format.ts) has this number of bytes, it is closed. Groups must not be larger,
 * because reading one column decodes the whole group.
 */
const GROUP_BYTES = 64 * 1024
/**
 * A segment with fewer rows than this is stored in one group, because several records would cost more than they save.
 */
const SPLIT_ROWS_MIN = 256
/**
 * A segment with at least this number of bytes has several groups, even if it has few rows. If its events are large,
 * their times can then be read without their properties.
 */
const SPLIT_BYTES_MIN = 1024 * 1024
/**
 * A segment with fewer rows than this stores no facts about names (segment-names.ts), because it will soon be merged.
 * Until then, the names are read from its columns.
 */
const FACTS_ROWS_MIN = SEGMENT_ROWS_TARGET / 2
/**
 * A segment with at least this number of bytes stores facts, even if it has few rows. If its events are large, their
 * names can then be read without their properties.
 */
const FACTS_BYTES_MIN = 1024 * 1024
/**
 * The values of a property are *long* if together they have at least `LONG_COLUMN_BYTES_MIN` bytes, and on average at
 * least `LONG_VALUE_BYTES_MIN`. Long values get a group of their own, which is compressed for fast reading. Short
 * values share groups that are compressed with Brotli. Such groups are smaller but slower to read. That is acceptable,
 * because a query rarely needs all short values of a property.
 */
const LONG_COLUMN_BYTES_MIN = 32 * 1024
const LONG_VALUE_BYTES_MIN = 2048

/** A record with its checksum, ready to be stored. */
export interface SealedRecord {
  readonly key: Buffer
  readonly value: Buffer
}

/** A segment in the form of records, ready to be stored. */
export interface EncodedSegment {
  readonly firstSequence: number
  readonly rows: number
  readonly header: SealedRecord
  readonly groups: readonly SealedRecord[]
  /** The number of bytes of all records together. */
  readonly bytes: number
}

/**
 * A group that is being filled with parts of columns. An encoder has one for each kind of content: numbers and ids,
 * texts, bytes that cannot be compressed, and facts about names.
 */
class Area {
  readonly writer = new ByteWriter()
  readonly isCompressed: boolean
  group = -1

  constructor(isCompressed: boolean) {
    this.isCompressed = isCompressed
  }
}

/** Encodes segments, one after the other. Its buffers are reused. */
export class SegmentEncoder {
  readonly #index = new Area(true)
  readonly #text = new Area(true)
  readonly #raw = new Area(false)
  readonly #facts = new Area(true)
  #groups: SealedRecord[] = []
  #projectId = 0
  #firstSequence = 0
  #isSplit = true
  #quality = 0

  /**
   * Encodes the rows of a builder. The builder keeps its rows. The first row gets the sequence number `firstSequence`.
   * `quality` is one of `QUALITY_FAST` and `QUALITY_SMALL`.
   */
  encode(
    projectId: number,
    firstSequence: number,
    builder: SegmentBuilder,
    quality: number,
  ): EncodedSegment {
    const { rows } = builder
    if (rows === 0 || rows > SEGMENT_ROWS_MAX)
      throw new RangeError(`a segment cannot have ${rows} rows`)
    this.#groups = []
    this.#quality = quality
    this.#projectId = projectId
    this.#firstSequence = firstSequence
    this.#isSplit = rows >= SPLIT_ROWS_MIN || builder.bytes >= SPLIT_BYTES_MIN
    const directory = this.#writeColumns(builder)
    for (const area of [this.#index, this.#text, this.#raw, this.#facts]) this.#close(area)
    const groups = this.#groups
    const groupBytes = groups.reduce((sum, group) => sum + group.value.length, 0)
    const [firstTimestampMs, lastTimestampMs] = extremes(builder.timestamps, rows)
    const [firstArrivalMs, lastArrivalMs] = extremes(builder.arrivals, rows)
    const times = { firstTimestampMs, lastTimestampMs, firstArrivalMs, lastArrivalMs }
    const content = encodeHeader({ rows, groups: groups.length, groupBytes, ...times }, directory)
    const key = pairKey(projectId, firstSequence)
    const header = { key, value: seal(key, content) }
    return { firstSequence, rows, header, groups, bytes: groupBytes + header.value.length }
  }

  /** Releases the memory of its buffers. */
  release(): void {
    this.#groups = []
    for (const area of [this.#index, this.#text, this.#raw, this.#facts]) area.writer.release()
  }

  // Writes the columns. The columns that event lists and duplicate checks read come first, so that they are in one
  // group.
  #writeColumns(builder: SegmentBuilder): Directory {
    const { rows, names } = builder
    const counts = nameCounts(builder)
    const index = this.#isSplit ? this.#index : this.#text
    const timestamps = this.#part(index, (writer) => {
      writeNumbers(writer, builder.timestamps, rows)
    })
    const distinctIds = this.#part(index, (writer) => {
      writePlanes(writer, builder.distinctIds, rows)
    })
    const columns = [this.#writeColumn(names, ROLE_NAME, rows)]
    const uuidTails = this.#part(this.#isSplit ? this.#raw : this.#text, (writer) => {
      writeUuidTails(writer, builder.uuids, rows)
    })
    // Uuids are random bytes and cannot be compressed, unless there are erased events, whose uuids are zeros.
    const hasErased = builder.distinctIds.subarray(0, rows).includes(0)
    if (this.#isSplit) this.#close(this.#raw, hasErased)
    const arrivals = this.#part(index, (writer) => writeNumbers(writer, builder.arrivals, rows))
    const modes = this.#writeModes(index, builder)
    if (this.#isSplit) this.#close(index)
    const uuidHeads = this.#part(index, (writer) => writeUuidHeads(writer, builder.uuids, rows))
    if (this.#isSplit) this.#close(index)
    for (const column of builder.columns.values()) {
      if (column.count > 0) columns.push(this.#writeColumn(column, ROLE_PROPERTY, rows))
    }
    if (builder.elements.count > 0) {
      columns.push(this.#writeColumn(builder.elements, ROLE_ELEMENTS, rows))
    }
    if (builder.rest.count > 0) columns.push(this.#writeColumn(builder.rest, ROLE_REST, rows))
    const fixed = { timestamps, arrivals, distinctIds, modes, uuidHeads, uuidTails }
    const sessions = sessionStarts(builder)
    return { ...fixed, names: counts, columns, facts: this.#writeFacts(builder), sessions }
  }

  #writeColumn(column: ColumnBuilder, role: number, rows: number): ColumnEntry {
    if (role !== ROLE_NAME) column.settle(rows)
    const { ids, count, valueCount, key } = column
    const index = this.#isSplit ? this.#index : this.#text
    let presence = 0
    const indexPart = this.#part(index, (writer) => {
      presence = writePresence(writer, ids, rows, count)
      if (!column.isPlain && !column.isMirror) writeIds(writer, ids, rows, count, valueCount)
    })
    const mode = column.isMirror ? MODE_MIRROR : column.isPlain ? MODE_PLAIN : MODE_DICTIONARY
    const entry = { key, role, mode, presence, count, valueCount, index: indexPart }
    if (column.isMirror) return { ...entry, encoding: VALUES_JSON, width: 0, values: NO_PART }
    const plan = column.plan()
    const { encoding, width } = plan
    const values = this.#writeValues(column, role, plan)
    return { ...entry, encoding, width, values }
  }

  #writeValues(column: ColumnBuilder, role: number, plan: ValuesPlan): Part {
    const area = this.#areaOf(plan.encoding)
    const { writer } = area
    if (writer.length >= GROUP_BYTES) this.#close(area)
    const offset = writer.length
    column.write(writer, plan)
    const bytes = writer.length - offset
    const mayBeLong = role === ROLE_PROPERTY && plan.encoding === VALUES_JSON
    if (!mayBeLong || !isLong(bytes, column.valueCount)) return this.#partOf(area, offset)
    const group = this.#groups.length
    this.#groups.push(this.#sealed(group, encodeTexts(writer.view(offset), this.#quality)))
    writer.length = offset
    return [group, 0, bytes]
  }

  #writeFacts(builder: SegmentBuilder): Part {
    const { rest, rows, bytes } = builder
    // If properties share a column, the facts are stored. Otherwise a reader would have to parse all properties in that
    // column to learn their names.
    const isWorth = rest.count > 0 || rows >= FACTS_ROWS_MIN || bytes >= FACTS_BYTES_MIN
    if (!isWorth) return NO_PART
    const facts = encodeNames(builder)
    return this.#part(this.#facts, (writer) => writer.writeBytes(facts))
  }

  #areaOf(encoding: number): Area {
    if (!this.#isSplit) return this.#text
    if (encoding === VALUES_HEX || encoding === VALUES_UUID) return this.#raw
    return encoding === VALUES_NUMBERS ? this.#index : this.#text
  }

  #writeModes(area: Area, builder: SegmentBuilder): Part {
    const modes = builder.modes.subarray(0, builder.rows)
    let all = 0
    for (let row = 0; row < modes.length; row++) all |= modes[row] ?? 0
    if (all === 0) return NO_PART
    return this.#part(area, (writer) => writer.writeBytes(modes))
  }

  /** Calls `write` to append bytes to a group, and returns where these bytes are. */
  #part(area: Area, write: (writer: ByteWriter) => void): Part {
    if (area.writer.length >= GROUP_BYTES) this.#close(area)
    const offset = area.writer.length
    write(area.writer)
    return this.#partOf(area, offset)
  }

  #partOf(area: Area, offset: number): Part {
    const bytes = area.writer.length - offset
    if (bytes === 0) return NO_PART
    if (area.group < 0) {
      area.group = this.#groups.length
      // Reserve the number of the group. Its record is set when the group is closed.
      this.#groups.push({ key: groupKey(0, 0, 0), value: Buffer.alloc(0) })
    }
    return [area.group, offset, bytes]
  }

  #close(area: Area, isCompressed = area.isCompressed): void {
    if (area.group < 0) return
    const stored = encodeGroup(area.writer.view(), isCompressed ? this.#quality : null)
    this.#groups[area.group] = this.#sealed(area.group, stored)
    area.group = -1
    area.writer.clear()
  }

  #sealed(group: number, stored: readonly [head: Buffer, content: Buffer]): SealedRecord {
    const key = groupKey(this.#projectId, this.#firstSequence, group)
    return { key, value: seal(key, ...stored) }
  }
}

function isLong(bytes: number, valueCount: number): boolean {
  return bytes >= LONG_COLUMN_BYTES_MIN && bytes >= valueCount * LONG_VALUE_BYTES_MIN
}

function extremes(values: Float64Array, rows: number): readonly [number, number] {
  let least = Number.POSITIVE_INFINITY
  let greatest = Number.NEGATIVE_INFINITY
  for (let row = 0; row < rows; row++) {
    const value = values[row] ?? 0
    if (value < least) least = value
    if (value > greatest) greatest = value
  }
  return [least, greatest]
}

function nameCounts(builder: SegmentBuilder): readonly (readonly [string, number])[] {
  const { ids, values } = builder.names
  const counts = new Uint32Array(values.length + 1)
  for (let row = 0; row < builder.rows; row++) {
    const id = ids[row] ?? 0
    counts[id] = (counts[id] ?? 0) + 1
  }
  return values.map((name, index) => [String(name), counts[index + 1] ?? 0] as const)
}

/**
 * Writes `base varint, planes u8`, and then the bytes of `value - base` plane by plane, the lowest bytes of all rows
 * first:
 *
 *   values  1000 1001 1300   base 1000, 2 planes   00 01 2c | 00 00 01
 */
function writePlanes(writer: ByteWriter, values: Uint32Array, rows: number): void {
  let base = values[0] ?? 0
  let greatest = base
  for (let row = 1; row < rows; row++) {
    const value = values[row] ?? 0
    if (value < base) base = value
    if (value > greatest) greatest = value
  }
  const planes = Math.ceil((32 - Math.clz32(greatest - base)) / 8)
  writer.writeVarint(base)
  writer.writeVarint(planes)
  let offset = writer.take(planes * rows)
  const { bytes } = writer
  for (let shift = 0; shift < planes * 8; shift += 8) {
    for (let row = 0; row < rows; row++) {
      bytes[offset++] = (((values[row] ?? 0) - base) >>> shift) & 255
    }
  }
}

function writeUuidHeads(writer: ByteWriter, uuids: Uint8Array, rows: number): void {
  let offset = writer.take(UUID_HEAD_BYTES * rows)
  const { bytes } = writer
  for (let plane = 0; plane < UUID_HEAD_BYTES; plane++) {
    for (let row = 0, from = plane; row < rows; row++, from += 16) {
      bytes[offset++] = uuids[from] ?? 0
    }
  }
}

function writeUuidTails(writer: ByteWriter, uuids: Uint8Array, rows: number): void {
  let offset = writer.take(UUID_TAIL_BYTES * rows)
  const { bytes } = writer
  for (let row = 0; row < rows; row++) {
    const end = row * 16 + 16
    for (let from = end - UUID_TAIL_BYTES; from < end; from++) bytes[offset++] = uuids[from] ?? 0
  }
}
