/**
 * The format of a segment: up to some thousands of consecutive events of one project, in order of arrival, stored by
 * column. The key of a segment contains the sequence number of its first event.
 *
 *   table segment_headers   project, first sequence          -> header
 *   table segment_groups    project, first sequence, group   -> group
 *
 *   header   version u8 (2: columns were moved to the warehouse) | reserved u8 | groups u16 | rows u32
 *            | stored bytes of the groups u32
 *            | first and last timestamp, first and last arrival, float64, milliseconds
 *            | `Directory` as MessagePack
 *   group    method u8 (0 not compressed, 1 brotli, 2 long texts) | bytes before compression u32 | content
 *
 * All numbers are little-endian. The fixed part of the header, up to the times, is enough to decide whether a segment
 * can be skipped because of its times. A group contains parts of several columns, one after another, which are
 * compressed together. A reader decodes only the groups with the columns that it needs. If a property has long texts,
 * its values have a group of their own, which is fast to decompress (lz4/lz4.ts): a filter reads all of them, and
 * spends most of its time on decompressing.
 *
 * The fixed columns, one value for each row:
 *
 * | column               | format                                                                              |
 * |----------------------|-------------------------------------------------------------------------------------|
 * | timestamps, arrivals | numbers (segment-values.ts)                                                         |
 * | distinct ID numbers  | `base varint`, then as many byte planes as the largest difference needs             |
 * | modes                | u8: person mode, + 4 if historical; absent if all are 0                             |
 * | UUIDs                | bytes 0-8 as nine planes; bytes 9-15 row by row, compressed only if rows are erased |
 */
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { pack, unpack } from '../../lmdb/codec.ts'
import { packTexts, unpackTexts } from './lz4/lz4.ts'

const FORMAT_VERSION = 1
/** The format version of a segment if most of its columns were moved to the warehouse (away-columns.ts). */
const FORMAT_AWAY = 2
const FIXED_BYTES = 44
const METHOD_RAW = 0
const METHOD_BROTLI = 1
const METHOD_TEXTS = 2
/**
 * If LZ4 makes texts smaller by more than this factor, they are very repetitive, and Brotli is used instead. For each
 * 255 bytes of a repetition, LZ4 needs one byte, and Brotli almost nothing.
 */
const REPETITIVE_FACTOR = 16
const GROUP_HEAD_BYTES = 5
const CHUNK_BYTES_MIN = 16 * 1024
/** A group with fewer bytes than this is stored uncompressed. */
const COMPRESSED_BYTES_MIN = 96
/** The largest number of bytes that Node.js can decompress with one call. The groups of Tenrec are much smaller. */
const GROUP_BYTES_MAX = 2 ** 32 - 1

/**
 * The number of bytes at the beginning of a UUID that are stored as byte planes: first the first byte of all rows, then
 * the second, and so on. The other bytes are random in all common versions.
 */
export const UUID_HEAD_BYTES = 9
/** The number of bytes at the end of a UUID that are stored row by row. */
export const UUID_TAIL_BYTES = 7

/** The role of a column with the values of one property. The `key` of the column is the name of the property. */
export const ROLE_PROPERTY = 0
/** The role of the column of event names. */
export const ROLE_NAME = 1
/** The event name that erased rows have. The directory counts the erased rows under this name. */
export const ERASED_NAME = ''
/**
 * The role of the column with the `elements_chain` of each event. An event with an empty `elements_chain` has no value.
 */
export const ROLE_ELEMENTS = 2
/**
 * The role of a column that several properties share. The value of a row is an object, which contains the properties of
 * the row that have no column of their own.
 */
export const ROLE_REST = 3

/** The mode of a column that stores each value once, and for each row the number of its value. */
export const MODE_DICTIONARY = 0
/** The mode of a column that stores the values of the rows one after another, even if some of them are equal. */
export const MODE_PLAIN = 1
/** The mode of a column that stores no values, because each value is the distinct_id of its row. */
export const MODE_MIRROR = 2

/** Where a part of a column is: the number of its group, the offset in the group, and the number of bytes. */
export type Part = readonly [group: number, offset: number, bytes: number]

/** The part of a column that has no bytes. */
export const NO_PART: Part = [0, 0, 0]

/** One column in the directory of a segment. */
export interface ColumnEntry {
  readonly key: string
  readonly role: number
  readonly mode: number
  readonly presence: number
  /** The number of rows that have a value in this column. */
  readonly count: number
  readonly valueCount: number
  /** How the values are encoded, and the number of digits of each value (segment-values.ts). */
  readonly encoding: number
  readonly width: number
  readonly index: Part
  readonly values: Part
}

/** The directory of a segment. It says where each part is. */
export interface Directory {
  readonly timestamps: Part
  readonly arrivals: Part
  readonly distinctIds: Part
  readonly modes: Part
  readonly uuidHeads: Part
  readonly uuidTails: Part
  /** The event names of the segment, each with the number of its events. */
  readonly names: readonly (readonly [name: string, count: number])[]
  readonly columns: readonly ColumnEntry[]
  /** The facts about all names (segment-names.ts). An empty part if the segment does not store them. */
  readonly facts: Part
  /**
   * The ranges of time in which the sessions of the segment started, according to their ids (session-starts.ts). Null
   * if these ranges are unknown.
   */
  readonly sessions: readonly number[] | null
}

/** The fixed part of a segment's header, and the key under which the header is stored. */
export interface SegmentSummary {
  readonly projectId: number
  readonly firstSequence: number
  readonly rows: number
  readonly groups: number
  /** The number of bytes that all groups take in the store, without the header. */
  readonly groupBytes: number
  readonly firstTimestampMs: number
  readonly lastTimestampMs: number
  readonly firstArrivalMs: number
  readonly lastArrivalMs: number
  /** True if most columns were moved to the warehouse. */
  readonly isAway: boolean
}

/** The fixed part of a header, without the values that come from its key. */
export type SegmentSpan = Omit<SegmentSummary, 'projectId' | 'firstSequence' | 'isAway'>

/** Returns the bytes of a header. Set `isAway` if columns of the segment were moved to the warehouse. */
export function encodeHeader(span: SegmentSpan, directory: Directory, isAway = false): Buffer {
  const { timestamps, arrivals, distinctIds, modes, uuidHeads, uuidTails } = directory
  const { names, facts, sessions } = directory
  const columns = directory.columns.map((column): PackedColumn => {
    const { key, role, mode, presence, count, valueCount, encoding, width, index, values } = column
    return [key, role, mode, presence, count, valueCount, encoding, width, ...index, ...values]
  })
  const rest = pack([
    timestamps,
    arrivals,
    distinctIds,
    modes,
    uuidHeads,
    uuidTails,
    names,
    columns,
    facts,
    sessions,
  ])
  const header = Buffer.allocUnsafe(FIXED_BYTES + rest.length)
  header.writeUInt8(isAway ? FORMAT_AWAY : FORMAT_VERSION)
  header.writeUInt8(0, 1)
  header.writeUInt16LE(span.groups, 2)
  header.writeUInt32LE(span.rows, 4)
  header.writeUInt32LE(span.groupBytes, 8)
  header.writeDoubleLE(span.firstTimestampMs, 12)
  header.writeDoubleLE(span.lastTimestampMs, 20)
  header.writeDoubleLE(span.firstArrivalMs, 28)
  header.writeDoubleLE(span.lastArrivalMs, 36)
  header.set(rest, FIXED_BYTES)
  return header
}

/** Decodes the fixed part of a header. Throws RangeError if this version of Tenrec does not support the format. */
export function decodeSummary(
  projectId: number,
  firstSequence: number,
  header: Buffer,
): SegmentSummary {
  const version = header.readUInt8()
  if (version !== FORMAT_VERSION && version !== FORMAT_AWAY) {
    throw new RangeError(`segment format ${version} was written by another version of Tenrec`)
  }
  return {
    projectId,
    firstSequence,
    groups: header.readUInt16LE(2),
    rows: header.readUInt32LE(4),
    groupBytes: header.readUInt32LE(8),
    firstTimestampMs: header.readDoubleLE(12),
    lastTimestampMs: header.readDoubleLE(20),
    firstArrivalMs: header.readDoubleLE(28),
    lastArrivalMs: header.readDoubleLE(36),
    isAway: version === FORMAT_AWAY,
  }
}

/** Decodes the directory in a header. The caller must have checked the checksum of the header. */
export function decodeDirectory(header: Buffer): Directory {
  type Parts = readonly [Part, Part, Part, Part, Part, Part]
  type PackedLater = readonly [Part?, Directory['sessions']?]
  type PackedDirectory = readonly [
    ...Parts,
    Directory['names'],
    readonly PackedColumn[],
    ...PackedLater,
  ]
  // The cast is right: `encodeHeader` wrote the directory, and its checksum matches.
  const packed = unpack(header.subarray(FIXED_BYTES)) as PackedDirectory
  const [timestamps, arrivals, distinctIds, modes, uuidHeads, uuidTails, ...more] = packed
  const [names, columns, facts = NO_PART, sessions = null] = more
  const fixed = { timestamps, arrivals, distinctIds, modes, uuidHeads, uuidTails, names }
  // Segments of older versions have no facts and no sessions.
  return { ...fixed, columns: columns.map(decodeColumn), facts, sessions }
}

type PackedNumbers = readonly [number, number, number, number, number, number, number]
type PackedColumn = readonly [key: string, ...PackedNumbers, ...index: Part, ...values: Part]

function decodeColumn(packed: PackedColumn): ColumnEntry {
  const [key, role, mode, presence, count, valueCount, encoding, width, ...parts] = packed
  const [indexGroup, indexStart, indexBytes, ...values] = parts
  const index: Part = [indexGroup, indexStart, indexBytes]
  return { key, role, mode, presence, count, valueCount, encoding, width, index, values }
}

/**
 * The Brotli quality of segments that are written while events wait. Compared with quality 1, it takes a quarter less
 * time and gives 7 % more bytes (bench micro/segments). Deflate with level 1 takes three times as long and gives more
 * bytes.
 */
export const QUALITY_FAST = 0
/** The Brotli quality of merged segments, most of which are never written again. */
export const QUALITY_SMALL = 1

/**
 * Returns a group in its stored form, in two parts: its head and its content. If `quality` is null, the content is not
 * compressed.
 */
export function encodeGroup(content: Buffer, quality: number | null): readonly [Buffer, Buffer] {
  const head = Buffer.allocUnsafe(GROUP_HEAD_BYTES)
  head.writeUInt32LE(content.length, 1)
  if (quality !== null && content.length >= COMPRESSED_BYTES_MIN) {
    const packed = brotliCompressSync(content, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: quality,
        [constants.BROTLI_PARAM_LGWIN]: windowBits(content.length),
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      },
    })
    if (packed.length < content.length) {
      head.writeUInt8(METHOD_BROTLI)
      return [head, packed]
    }
  }
  head.writeUInt8(METHOD_RAW)
  return [head, content]
}

/**
 * Returns a group of long texts in its stored form, in two parts: its head and its content. `quality` is one of
 * `QUALITY_FAST` and `QUALITY_SMALL`.
 */
export function encodeTexts(content: Buffer, quality: number): readonly [Buffer, Buffer] {
  const packed = packTexts(content, quality !== QUALITY_FAST)
  if (packed.length >= content.length) return encodeGroup(content, null)
  if (packed.length * REPETITIVE_FACTOR < content.length) return encodeGroup(content, quality)
  const head = Buffer.allocUnsafe(GROUP_HEAD_BYTES)
  head.writeUInt8(METHOD_TEXTS)
  head.writeUInt32LE(content.length, 1)
  return [head, packed]
}

function windowBits(bytes: number): number {
  return Math.min(18, Math.max(10, 32 - Math.clz32(bytes)))
}

/**
 * Returns the content of a group. The caller must have checked the checksum of the group. Throws if the method is
 * unknown, or if decompression gives more bytes than the head of the group says.
 */
export function decodeGroup(stored: Buffer): Buffer {
  const method = stored.readUInt8()
  const bytes = stored.readUInt32LE(1)
  const content = stored.subarray(GROUP_HEAD_BYTES)
  if (method === METHOD_RAW) return content
  if (method === METHOD_TEXTS) return unpackTexts(content, bytes)
  if (method !== METHOD_BROTLI || bytes > GROUP_BYTES_MAX) {
    throw new RangeError('the group has an unknown form')
  }
  // With this option, the output is written into one buffer. Otherwise, Node.js would join a large output from
  // thousands of chunks.
  const chunkSize = Math.max(CHUNK_BYTES_MIN, bytes)
  return brotliDecompressSync(content, { maxOutputLength: bytes, chunkSize })
}
