/**
 * The format of a segment: up to some thousands of events of one project, in order of arrival, stored
 * by column. Events of a segment have consecutive sequences S from its key on.
 *
 * A segment is one header (table `segment_headers`) and some groups (table `segment_groups`). A group
 * holds the parts of several columns, one behind the other, compressed together: `method u8 (0 as it
 * is, 1 brotli), bytes u32 little-endian (before compression), content`. A reader decodes the groups of
 * the columns that it needs and no others.
 *
 * Header: `version u8 (2: columns were given away), reserved u8, groups u16, rows u32, stored bytes of the groups u32`, then float64
 * `first and last timestamp, first and last arrival` (milliseconds), all little-endian; then MessagePack
 * of `Directory`. The fixed part is enough to skip a segment by time.
 *
 * Fixed columns: timestamps and arrivals (numbers), distinct_id numbers (`base varint`, then as many
 * byte planes as the largest difference needs), modes (u8: person mode, +4 historical; absent when all
 * are 0), UUIDs (bytes 0-8 as nine planes; bytes 9-15 row by row, compressed only beside erased rows).
 */
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { pack, unpack } from '../../lmdb/codec.ts'

const FORMAT_VERSION = 1
/** The same, and most columns were given away (away-columns.ts). */
const FORMAT_AWAY = 2
const FIXED_BYTES = 44
const METHOD_RAW = 0
const METHOD_BROTLI = 1
const GROUP_HEAD_BYTES = 5
const CHUNK_BYTES_MIN = 16 * 1024
/** Groups below this size are stored as they are. */
const COMPRESSED_BYTES_MIN = 96
/** What Node can decompress at once; a group that we write is far below this. */
const GROUP_BYTES_MAX = 2 ** 32 - 1

/** Bytes of a UUID that are stored as planes; the rest is random in all common versions. */
export const UUID_HEAD_BYTES = 9
/** Bytes of a UUID that are stored row by row. */
export const UUID_TAIL_BYTES = 7

/** A property; `key` is its name. */
export const ROLE_PROPERTY = 0
/** The event name. */
export const ROLE_NAME = 1
/** The name of erased rows. The header counts them under it. */
export const ERASED_NAME = ''
/** `elements_chain`, where it is not empty. */
export const ROLE_ELEMENTS = 2
/** Objects of the properties that have no column of their own. */
export const ROLE_REST = 3

/** Values once, and an id for each row. */
export const MODE_DICTIONARY = 0
/** A value for each row that has one. */
export const MODE_PLAIN = 1
/** The value is the distinct_id of the row. */
export const MODE_MIRROR = 2

/** Where a part of a column lies: group, offset in it, bytes. */
export type Part = readonly [group: number, offset: number, bytes: number]

/** A part of no bytes. */
export const NO_PART: Part = [0, 0, 0]

/** One column as the directory describes it. */
export interface ColumnEntry {
  readonly key: string
  readonly role: number
  readonly mode: number
  readonly presence: number
  /** Rows that have a value. */
  readonly count: number
  readonly valueCount: number
  /** Encoding of the values, and digits of each value (segment-values.ts). */
  readonly encoding: number
  readonly width: number
  readonly index: Part
  readonly values: Part
}

/** Where everything is. */
export interface Directory {
  readonly timestamps: Part
  readonly arrivals: Part
  readonly distinctIds: Part
  readonly modes: Part
  readonly uuidHeads: Part
  readonly uuidTails: Part
  /** Event names with their numbers of events. */
  readonly names: readonly (readonly [name: string, count: number])[]
  readonly columns: readonly ColumnEntry[]
  /** What is known about all names (segment-names.ts); no part in a segment that does not carry it. */
  readonly facts: Part
  /** When the sessions of its events began, judged by their ids (session-stretches.ts); null: unknown. */
  readonly sessions: readonly number[] | null
}

/** The fixed part of a header. */
export interface SegmentSummary {
  readonly projectId: number
  /** S of the first row. */
  readonly firstSequence: number
  readonly rows: number
  readonly groups: number
  /** Bytes of all groups as stored, without the header. */
  readonly groupBytes: number
  readonly firstTimestampMs: number
  readonly lastTimestampMs: number
  readonly firstArrivalMs: number
  readonly lastArrivalMs: number
  /** The warehouse has the values of most columns, and the store has not. */
  readonly isAway: boolean
}

/** What a header says beyond its key. */
export type SegmentSpan = Omit<SegmentSummary, 'projectId' | 'firstSequence' | 'isAway'>

/** The bytes of a header; `isAway`: columns were given away. */
export function encodeHeader(span: SegmentSpan, directory: Directory, isAway = false): Buffer {
  const { timestamps, arrivals, distinctIds, modes, uuidHeads, uuidTails } = directory
  const { names, facts, sessions } = directory
  const columns = directory.columns.map((column): PackedColumn => {
    const { key, role, mode, presence, count, valueCount, encoding, width, index, values } = column
    return [key, role, mode, presence, count, valueCount, encoding, width, ...index, ...values]
  })
  const rest = pack([
    ...[timestamps, arrivals, distinctIds, modes, uuidHeads, uuidTails],
    ...[names, columns, facts, sessions],
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

/** The fixed part of a header. Throws RangeError on a version that this program does not know. */
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

/** The directory of a header whose checksum was checked. */
export function decodeDirectory(header: Buffer): Directory {
  type Parts = readonly [Part, Part, Part, Part, Part, Part]
  type PackedLater = readonly [Part?, Directory['sessions']?]
  type PackedDirectory = readonly [
    ...Parts,
    Directory['names'],
    readonly PackedColumn[],
    ...PackedLater,
  ]
  // Written by `encodeHeader`, and unchanged since: the checksum says so.
  const packed = unpack(header.subarray(FIXED_BYTES)) as PackedDirectory
  const [timestamps, arrivals, distinctIds, modes, uuidHeads, uuidTails, ...more] = packed
  const [names, columns, facts = NO_PART, sessions = null] = more
  const fixed = { timestamps, arrivals, distinctIds, modes, uuidHeads, uuidTails, names }
  // Older versions wrote none.
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
 * Brotli quality of segments that are written while events wait: a quarter less time than quality 1 for
 * 7 % more bytes (bench micro/segments); deflate level 1 takes three times as long for more bytes.
 */
export const QUALITY_FAST = 0
/** Brotli quality of merged segments, which stay. */
export const QUALITY_SMALL = 1

/** The stored form of a group, in two pieces; `quality` null: not compressed. */
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

function windowBits(bytes: number): number {
  return Math.min(18, Math.max(10, 32 - Math.clz32(bytes)))
}

/** The content of a group whose checksum was checked. */
export function decodeGroup(stored: Buffer): Buffer {
  const method = stored.readUInt8()
  const bytes = stored.readUInt32LE(1)
  const content = stored.subarray(GROUP_HEAD_BYTES)
  if (method === METHOD_RAW) return content
  if (method !== METHOD_BROTLI || bytes > GROUP_BYTES_MAX) {
    throw new RangeError('a group in an unknown form')
  }
  // One piece: by default a large output is put together from thousands.
  const chunkSize = Math.max(CHUNK_BYTES_MIN, bytes)
  return brotliDecompressSync(content, { maxOutputLength: bytes, chunkSize })
}
