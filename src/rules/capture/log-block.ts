/**
 * The binary format of the log. A block contains the accepted requests of one commit. The block is durable before these
 * requests are answered with 200. A record contains one request: its project, its times and its events as the client
 * wrote them. Each event is already cut out, and its uuid is decided, so that processing the same block again produces
 * the same events.
 *
 * All numbers are little-endian.
 *
 *   block   magic u32 "TNL1" | crc32 u32 of all bytes after it | records u32 | events u32 | records...
 *   record  bytes u32 (of the whole record) | project u32 | flags u32 | events u32
 *           | arrived at f64 ms | sent at f64 ms (NaN: none) | body start u32 | body bytes u32
 *           | address bytes u16 | reserved u16
 *           | table, 24 bytes an event: offset u32, length u32 (top bit: the uuid is the client's), uuid
 *           | address (ASCII) | body (UTF-8 JSON)
 *
 * A record with flag 8 holds a command: an action that a user requested and that is processed in order with the events.
 *
 * Offsets in the table count from the start of the request body. Subtract `body start` to get an offset in the stored
 * body.
 */
import { crc32 } from 'node:zlib'
import { writeUuidV7 } from '../../base/ids.ts'
import { HAS_CLIENT_UUID, isText, TABLE_ENTRY_BYTES } from './scanner/scanner.ts'

const MAGIC = 0x314c4e54
const BLOCK_HEADER_BYTES = 16
const RECORD_HEADER_BYTES = 44
const LENGTH_MASK = 0x7fffffff
const CRC_START = 8
/** The maximum number of UTF-8 bytes of one UTF-16 unit. */
const UNIT_BYTES_MAX = 3

/** Bit of `flags`: the sender marked the batch as an import of old events. */
export const RECORD_HISTORICAL = 1
/** Bit of `flags`: the request contained a send time that could not be read. */
export const RECORD_INVALID_SENT_AT = 2
/** Bit of `flags`: the project does not store IP addresses. */
export const RECORD_IP_ANONYMIZED = 4

/**
 * Bit of `flags`: the record contains one command instead of events. The command is stored like an event: its JSON,
 * with a uuid.
 */
export const RECORD_COMMAND = 8

/** Bit of `flags`: the project accepts no new group types. */
export const RECORD_GROUP_TYPES_CLOSED = 16

/** The fields of a record that describe its request. */
export interface RecordHeader {
  readonly projectId: number
  /** A combination of the RECORD_* bits. */
  readonly flags: number
  readonly arrivedAtMs: number
  /** The time at which the client sent the request, by its own clock, in milliseconds. NaN if the client sent none. */
  readonly sentAtMs: number
  /** The sender's IP address in ASCII, at most 64 characters. */
  readonly address: string
}

/** The events of a request: from a scanner, or from a body that had to be parsed and repaired. */
export interface RecordEvents {
  readonly eventCount: number
  readonly eventsStart: number
  readonly eventsEnd: number
  copyTable(target: Buffer, targetStart: number): void
  copyBody(target: Buffer, targetStart: number, start: number, end: number): void
}

/** A block that is being filled. It grows as needed. `finish` returns its bytes and makes the writer unusable. */
export class LogBlockWriter {
  #bytes: Buffer
  #length = BLOCK_HEADER_BYTES
  #recordCount = 0
  #eventCount = 0
  readonly #allocate: (bytes: number) => Buffer

  /**
   * `buffer` is the memory that is filled first, at least 64 bytes. When it is full, `allocate` creates a larger buffer
   * that replaces it.
   */
  constructor(buffer: Buffer, allocate: (bytes: number) => Buffer = Buffer.allocUnsafeSlow) {
    this.#bytes = buffer
    this.#allocate = allocate
  }

  get bytes(): number {
    return this.#length
  }

  get recordCount(): number {
    return this.#recordCount
  }

  get eventCount(): number {
    return this.#eventCount
  }

  /**
   * Adds one request and returns the number of bytes that it took. Events without a client uuid get a UUID of version
   * 7.
   */
  add(header: RecordHeader, events: RecordEvents): number {
    const count = events.eventCount
    const bodyStart = events.eventsStart
    const bodyBytes = events.eventsEnd - bodyStart
    const start = this.#length
    const tableStart = start + RECORD_HEADER_BYTES
    const addressStart = tableStart + count * TABLE_ENTRY_BYTES
    const bodyOffset = addressStart + header.address.length
    const end = bodyOffset + bodyBytes
    if (end > this.#bytes.length) this.#grow(end)
    const bytes = this.#bytes
    bytes.writeUInt32LE(end - start, start)
    bytes.writeUInt32LE(header.projectId, start + 4)
    bytes.writeUInt32LE(header.flags, start + 8)
    bytes.writeUInt32LE(count, start + 12)
    bytes.writeDoubleLE(header.arrivedAtMs, start + 16)
    bytes.writeDoubleLE(header.sentAtMs, start + 24)
    bytes.writeUInt32LE(bodyStart, start + 32)
    bytes.writeUInt32LE(bodyBytes, start + 36)
    bytes.writeUInt16LE(header.address.length, start + 40)
    bytes.writeUInt16LE(0, start + 42)
    events.copyTable(bytes, tableStart)
    nameEvents(bytes, tableStart, addressStart, header.arrivedAtMs)
    writeAddress(bytes, addressStart, header.address)
    events.copyBody(bytes, bodyOffset, bodyStart, events.eventsEnd)
    this.#length = end
    this.#recordCount++
    this.#eventCount += count
    return end - start
  }

  /** Returns the finished block without its checksum. `seal` adds the checksum on the thread that writes the log. */
  finish(): Buffer {
    this.#bytes.writeUInt32LE(MAGIC, 0)
    this.#bytes.writeUInt32LE(0, 4)
    this.#bytes.writeUInt32LE(this.#recordCount, 8)
    this.#bytes.writeUInt32LE(this.#eventCount, 12)
    return this.#bytes.subarray(0, this.#length)
  }

  #grow(bytes: number): void {
    let size = this.#bytes.length * 2
    while (size < bytes) size *= 2
    const larger = this.#allocate(size)
    this.#bytes.copy(larger, 0, 0, this.#length)
    this.#bytes = larger
  }
}

/** The fields at the beginning of a block, before its records. */
export interface LogBlockHead {
  /** The number of bytes before the first record. */
  readonly headBytes: number
  readonly records: number
  readonly events: number
}

/** Returns whether bytes begin as a block does. The block may still be damaged. */
export function isBlockStart(bytes: Buffer): boolean {
  return bytes.length >= BLOCK_HEADER_BYTES && bytes.readUInt32LE(0) === MAGIC
}

/** Reads the fields at the beginning of a finished block, with or without its checksum. */
export function readBlockHead(block: Buffer): LogBlockHead {
  const [records, events] = [block.readUInt32LE(8), block.readUInt32LE(12)]
  return { headBytes: BLOCK_HEADER_BYTES, records, events }
}

/**
 * Returns a block, with its checksum, that contains records copied from other blocks. `bodies` contains the records,
 * one after the other.
 */
export function sealedBlock(bodies: Uint8Array, records: number, events: number): Buffer {
  const block = Buffer.allocUnsafe(BLOCK_HEADER_BYTES + bodies.length)
  block.writeUInt32LE(MAGIC, 0)
  block.writeUInt32LE(records, 8)
  block.writeUInt32LE(events, 12)
  block.set(bodies, BLOCK_HEADER_BYTES)
  seal(block)
  return block
}

/** Writes the checksum into a finished block and returns it. The cost is linear, about 0.2 ms a megabyte. */
export function seal(block: Buffer): number {
  const checksum = crc32(block.subarray(CRC_START))
  block.writeUInt32LE(checksum, 4)
  return checksum
}

/** One record of a block that is being read. `bytes` is valid only as long as the memory of the block. */
export interface LogRecord {
  readonly projectId: number
  readonly flags: number
  readonly eventCount: number
  readonly arrivedAtMs: number
  readonly sentAtMs: number
  readonly address: string
  /** The bytes of the whole block. */
  readonly bytes: Buffer
  /** The offset of the event table in `bytes`. */
  readonly tableStart: number
  /** The number to add to an offset of the table to get an offset in `bytes`. */
  readonly bodyShift: number
}

/**
 * Returns the records of a block in order. Throws if the magic number, the checksum or the lengths are wrong, so that
 * no part of a damaged block is ever read as an event.
 */
export function readBlock(block: Buffer): readonly LogRecord[] {
  if (!isBlockStart(block)) {
    throw new RangeError('the log block does not begin with its magic number')
  }
  if (block.readUInt32LE(4) !== crc32(block.subarray(CRC_START))) {
    throw new RangeError('the log block does not match its checksum')
  }
  const records: LogRecord[] = []
  // A DataView reads a whole number at once, while a Buffer reads it byte by byte.
  const view = new DataView(block.buffer, block.byteOffset, block.length)
  let position = BLOCK_HEADER_BYTES
  // The IP address of the record before. Records that follow each other often have the same sender, and comparing the
  // bytes is cheaper than creating another string.
  let address = ''
  while (position < block.length) {
    const recordBytes = view.getUint32(position, true)
    const eventCount = view.getUint32(position + 12, true)
    const tableStart = position + RECORD_HEADER_BYTES
    const addressStart = tableStart + eventCount * TABLE_ENTRY_BYTES
    const bodyOffset = addressStart + view.getUint16(position + 40, true)
    const bodyBytes = view.getUint32(position + 36, true)
    if (
      bodyOffset + bodyBytes !== position + recordBytes ||
      position + recordBytes > block.length
    ) {
      throw new RangeError('the lengths in the log block are inconsistent')
    }
    if (!isText(block, addressStart, bodyOffset - addressStart, address)) {
      address = block.toString('latin1', addressStart, bodyOffset)
    }
    records.push({
      projectId: view.getUint32(position + 4, true),
      flags: view.getUint32(position + 8, true),
      eventCount,
      arrivedAtMs: view.getFloat64(position + 16, true),
      sentAtMs: view.getFloat64(position + 24, true),
      address,
      bytes: block,
      tableStart,
      bodyShift: bodyOffset - view.getUint32(position + 32, true),
    })
    position += recordBytes
  }
  return records
}

/** Returns the offset in `record.bytes` at which event `index` begins. */
export function eventStart(record: LogRecord, index: number): number {
  return record.bytes.readUInt32LE(record.tableStart + index * TABLE_ENTRY_BYTES) + record.bodyShift
}

/** Returns the number of bytes of event `index`. */
export function eventBytes(record: LogRecord, index: number): number {
  return record.bytes.readUInt32LE(record.tableStart + index * TABLE_ENTRY_BYTES + 4) & LENGTH_MASK
}

/** Returns the offset in `record.bytes` at which the 16 bytes of the uuid of event `index` begin. */
export function eventUuidOffset(record: LogRecord, index: number): number {
  return record.tableStart + index * TABLE_ENTRY_BYTES + 8
}

/** Returns whether the client chose the uuid of event `index`. */
export function hasClientUuid(record: LogRecord, index: number): boolean {
  const word = record.bytes.readUInt32LE(record.tableStart + index * TABLE_ENTRY_BYTES + 4)
  return word >= HAS_CLIENT_UUID
}

/**
 * Events that were parsed and are written as JSON again, one after the other, with a table in the format of the
 * scanner.
 */
export class ParsedEvents implements RecordEvents {
  readonly eventsStart = 0
  eventCount = 0
  #body: Buffer
  #bodyBytes = 0
  #table: Buffer

  /**
   * `texts` contains the JSON of each event. `uuids` contains for each event the 16 bytes of the uuid that the client
   * sent, or null.
   */
  constructor(
    texts: readonly string[] = [],
    uuids: readonly (Uint8Array | null)[] = [],
    bytesExpected = 1024,
  ) {
    this.#body = Buffer.allocUnsafe(bytesExpected)
    this.#table = Buffer.allocUnsafe(Math.max(32, texts.length) * TABLE_ENTRY_BYTES)
    for (const [index, text] of texts.entries()) this.add(text, uuids[index] ?? null)
  }

  /** Adds an event. `text` is its JSON, and `uuid` the 16 bytes of the uuid that the client sent, or null. */
  add(text: string, uuid: Uint8Array | null): void {
    const start = this.#bodyBytes
    const entry = this.eventCount * TABLE_ENTRY_BYTES
    // Counting the bytes costs as much as writing them, so they are counted only if the space may be too small.
    if (start + text.length * UNIT_BYTES_MAX > this.#body.length) {
      this.#body = withRoom(this.#body, start, Buffer.byteLength(text))
    }
    this.#table = withRoom(this.#table, entry, TABLE_ENTRY_BYTES)
    const length = this.#body.write(text, start)
    this.#table.writeUInt32LE(start, entry)
    this.#table.writeUInt32LE(uuid === null ? length : length + HAS_CLIENT_UUID, entry + 4)
    if (uuid === null) this.#table.fill(0, entry + 8, entry + TABLE_ENTRY_BYTES)
    else this.#table.set(uuid, entry + 8)
    this.#bodyBytes += length
    this.eventCount++
  }

  get eventsEnd(): number {
    return this.#bodyBytes
  }

  copyTable(target: Buffer, targetStart: number): void {
    this.#table.copy(target, targetStart, 0, this.eventCount * TABLE_ENTRY_BYTES)
  }

  copyBody(target: Buffer, targetStart: number, start: number, end: number): void {
    this.#body.copy(target, targetStart, start, end)
  }
}

/**
 * Returns a buffer with the first `used` bytes of the given one and room for `more`. Returns the same buffer if it has
 * enough room.
 */
function withRoom(buffer: Buffer, used: number, more: number): Buffer {
  if (used + more <= buffer.length) return buffer
  const larger = Buffer.allocUnsafe(Math.max(used + more, 2 * buffer.length))
  buffer.copy(larger, 0, 0, used)
  return larger
}

/**
 * Writes the IP address byte by byte as Latin-1. Calling a native function would cost more than writing these few
 * characters.
 */
function writeAddress(bytes: Buffer, start: number, address: string): void {
  for (let index = 0; index < address.length; index++) {
    bytes[start + index] = address.charCodeAt(index)
  }
}

function nameEvents(bytes: Buffer, tableStart: number, tableEnd: number, timeMs: number): void {
  for (let entry = tableStart; entry < tableEnd; entry += TABLE_ENTRY_BYTES) {
    if ((bytes[entry + 7] ?? 0) < 0x80) writeUuidV7(bytes, entry + 8, timeMs)
  }
}
