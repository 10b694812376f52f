/**
 * The bytes of the log: what is durable when a request is answered 200. A block holds the accepted
 * requests of one commit, a record holds one request: its project, its times and its events as the
 * client wrote them, each already cut out and with its uuid decided, so that processing the same block
 * again gives the same events.
 *
 * All numbers are little-endian.
 *
 *   block   magic u32 "TNL1" | crc32 u32 of all that follows | records u32 | events u32 | records...
 *   record  bytes u32 (of the whole record) | project u32 | flags u32 | events u32
 *           | arrived at f64 ms | sent at f64 ms (NaN: none) | body start u32 | body bytes u32
 *           | address bytes u16 | reserved u16
 *           | table, 24 bytes an event: offset u32, length u32 (top bit: the uuid is the client's), uuid
 *           | address (ASCII) | body (UTF-8 JSON)
 *
 * A record with flag 8 holds a command: something that a person asked for and that takes its place among
 * the events.
 *
 * Offsets in the table count from where the body began in the request; subtract `body start`.
 */
import { crc32 } from 'node:zlib'
import { writeUuidV7 } from '../../base/ids.ts'
import { HAS_CLIENT_UUID, isText, TABLE_ENTRY_BYTES } from './scanner/scanner.ts'

const MAGIC = 0x314c4e54
const BLOCK_HEADER_BYTES = 16
const RECORD_HEADER_BYTES = 44
const LENGTH_MASK = 0x7fffffff
const CRC_START = 8
/** UTF-8 bytes of a UTF-16 unit. */
const UNIT_BYTES_MAX = 3

/** The batch was marked as an import of old events by its sender. */
export const RECORD_HISTORICAL = 1
/** The request carried a send time that could not be read. */
export const RECORD_INVALID_SENT_AT = 2
/** The project stores no addresses. */
export const RECORD_IP_ANONYMIZED = 4

/** The record holds one command instead of events: its only "event" is the JSON of it, with a uuid. */
export const RECORD_COMMAND = 8

/** The project takes no new group types. */
export const RECORD_GROUP_TYPES_CLOSED = 16

/** What a record says about its request. */
export interface RecordHeader {
  readonly projectId: number
  /** RECORD_* bits. */
  readonly flags: number
  readonly arrivedAtMs: number
  /** NaN when the client gave no send time. */
  readonly sentAtMs: number
  /** The sender's address, ASCII, at most 64 characters. */
  readonly address: string
}

/** Where the events of a record come from: a scanner, or events that were parsed and repaired. */
export interface RecordEvents {
  readonly eventCount: number
  readonly eventsStart: number
  readonly eventsEnd: number
  copyTable(target: Buffer, targetStart: number): void
  copyBody(target: Buffer, targetStart: number, start: number, end: number): void
}

/** A block that is being filled. It grows; `finish` hands its bytes out and makes it unusable. */
export class LogBlockWriter {
  #bytes: Buffer
  #length = BLOCK_HEADER_BYTES
  #recordCount = 0
  #eventCount = 0
  readonly #allocate: (bytes: number) => Buffer

  /** `buffer`: memory to fill, at least 64 bytes; when it is full, `allocate` makes a larger one in its place. */
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

  /** Adds one request; returns the bytes that it took. Events without a client's uuid get one of version 7. */
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

  /** The finished block, without its checksum: `seal` adds that on the thread that writes the log. */
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

/** What a block says before its records. */
export interface LogBlockHead {
  /** How many bytes that is. */
  readonly headBytes: number
  readonly records: number
  readonly events: number
}

/** Reads what a finished block says before its records, sealed or not. */
export function readBlockHead(block: Buffer): LogBlockHead {
  const [records, events] = [block.readUInt32LE(8), block.readUInt32LE(12)]
  return { headBytes: BLOCK_HEADER_BYTES, records, events }
}

/** A sealed block of the records of others, one behind the other. */
export function sealedBlock(bodies: Uint8Array, records: number, events: number): Buffer {
  const block = Buffer.allocUnsafe(BLOCK_HEADER_BYTES + bodies.length)
  block.writeUInt32LE(MAGIC, 0)
  block.writeUInt32LE(records, 8)
  block.writeUInt32LE(events, 12)
  block.set(bodies, BLOCK_HEADER_BYTES)
  seal(block)
  return block
}

/** Writes the checksum of a finished block into it, and answers it. Linear, about 0.2 ms a megabyte. */
export function seal(block: Buffer): number {
  const checksum = crc32(block.subarray(CRC_START))
  block.writeUInt32LE(checksum, 4)
  return checksum
}

/** One record of a block that is being read; its buffer is only valid while the block is. */
export interface LogRecord {
  readonly projectId: number
  readonly flags: number
  readonly eventCount: number
  readonly arrivedAtMs: number
  readonly sentAtMs: number
  readonly address: string
  /** The block's bytes. */
  readonly bytes: Buffer
  /** Offset of the event table in `bytes`. */
  readonly tableStart: number
  /** What to add to an offset of the table to get an offset in `bytes`. */
  readonly bodyShift: number
}

/**
 * The records of a block in order. Throws when magic, checksum or lengths do not fit: nothing of a
 * damaged block is ever taken for an event.
 */
export function readBlock(block: Buffer): readonly LogRecord[] {
  if (block.length < BLOCK_HEADER_BYTES || block.readUInt32LE(0) !== MAGIC) {
    throw new RangeError('the log block does not begin with its mark')
  }
  if (block.readUInt32LE(4) !== crc32(block.subarray(CRC_START))) {
    throw new RangeError('the log block does not match its checksum')
  }
  const records: LogRecord[] = []
  // Numbers of a Buffer are read byte by byte, those of a view at once.
  const view = new DataView(block.buffer, block.byteOffset, block.length)
  let position = BLOCK_HEADER_BYTES
  // Neighbours often come from one sender: comparing is cheaper than making another text.
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
      throw new RangeError('the lengths in the log block do not fit')
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

/** Where event `index` of a record begins in its bytes. */
export function eventStart(record: LogRecord, index: number): number {
  return record.bytes.readUInt32LE(record.tableStart + index * TABLE_ENTRY_BYTES) + record.bodyShift
}

/** How many bytes event `index` of a record has. */
export function eventBytes(record: LogRecord, index: number): number {
  return record.bytes.readUInt32LE(record.tableStart + index * TABLE_ENTRY_BYTES + 4) & LENGTH_MASK
}

/** Offset in the record's bytes of the 16 bytes of the uuid of event `index`. */
export function eventUuidOffset(record: LogRecord, index: number): number {
  return record.tableStart + index * TABLE_ENTRY_BYTES + 8
}

/** True when the uuid of event `index` is the client's own. */
export function hasClientUuid(record: LogRecord, index: number): boolean {
  const word = record.bytes.readUInt32LE(record.tableStart + index * TABLE_ENTRY_BYTES + 4)
  return word >= HAS_CLIENT_UUID
}

/** Events that were parsed: written again as JSON, one behind the other, with a table like a scanner's. */
export class ParsedEvents implements RecordEvents {
  readonly eventsStart = 0
  eventCount = 0
  #body: Buffer
  #bodyBytes = 0
  #table: Buffer

  /** `texts`: the JSON of each event; `uuids`: the 16 bytes of each client uuid, or null. */
  constructor(
    texts: readonly string[] = [],
    uuids: readonly (Uint8Array | null)[] = [],
    bytesExpected = 1024,
  ) {
    this.#body = Buffer.allocUnsafe(bytesExpected)
    this.#table = Buffer.allocUnsafe(Math.max(32, texts.length) * TABLE_ENTRY_BYTES)
    for (const [index, text] of texts.entries()) this.add(text, uuids[index] ?? null)
  }

  /** Adds an event: its JSON, and the 16 bytes of its client uuid or null. */
  add(text: string, uuid: Uint8Array | null): void {
    const start = this.#bodyBytes
    const entry = this.eventCount * TABLE_ENTRY_BYTES
    // Counting bytes costs as much as writing them: only where it may be too tight.
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

/** Memory with the first `used` bytes of another and room for `more`: the same one if there is. */
function withRoom(buffer: Buffer, used: number, more: number): Buffer {
  if (used + more <= buffer.length) return buffer
  const larger = Buffer.allocUnsafe(Math.max(used + more, 2 * buffer.length))
  buffer.copy(larger, 0, 0, used)
  return larger
}

/** Byte by byte, as Latin-1: a call out of JavaScript costs more than an address has characters. */
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
