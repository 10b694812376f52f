/**
 * A message of the shared log. It contains some blocks that one machine (the *edge*) has accepted, in order. Pure
 * functions, except for the memory of the encoder.
 *
 * All numbers are little-endian.
 *
 *   message  magic u32 "TNM1" | flags u32 (1: compressed) | edge, 16 bytes | blocks u32 | bytes of all bodies u32
 *            | for each block: place f64, bytes of its body u32, records u32, events u32
 *            | bodies: the records of a block (rules/capture/log-block.ts), one after the other
 *
 * **Places** identify the blocks of an edge: `run * 2^40 + number`. `number` is the block's number in the outbox. If an
 * edge is killed while it sends a block, the stream may have the block while the log of the outbox does not. The next
 * block then gets the same number. The run tells these two blocks apart: each start of the outbox begins a new run, and
 * so does a failed append to its log.
 */
import { brotliDecompressSync, constants, createBrotliCompress } from 'node:zlib'
import { readBlockHead, sealedBlock } from '../rules/capture/log-block.ts'
import { MESSAGE_KEPT_BYTES_MAX } from './limits.ts'

const MAGIC = 0x314d4e54
const COMPRESSED = 1
const HEAD_BYTES = 32
const ENTRY_BYTES = 20
const RUN = 2 ** 40
/**
 * Messages with fewer bytes than this are not compressed. They come from a quiet machine. Compression would delay its
 * events, and would save little: small messages cost the brokers more by their number than by their bytes.
 */
const COMPRESSED_BYTES_MIN = 4096
/**
 * Brotli with a window of 256 KiB. Compared with 4 MiB, bodies become 3 % larger, and an edge uses a seventh less CPU
 * time.
 */
const PARAMS = { [constants.BROTLI_PARAM_QUALITY]: 1, [constants.BROTLI_PARAM_LGWIN]: 18 }
/**
 * The size of the compressor's output buffer, as a fraction of the body's size. One buffer is usually enough; otherwise
 * zlib allocates more.
 */
const CHUNK_PART = 0.2
const CHUNK_BYTES_MIN = 16 * 1024

/** Returns the place of a block, from the run of its outbox and its number there. */
export function placeOf(run: number, number: number): number {
  return run * RUN + number
}

/** Returns the number of a block in its outbox. */
export function numberOf(place: number): number {
  return place % RUN
}

/** A block that is to be sent, with its place. */
export interface PlacedBlock {
  readonly place: number
  /** The block, as `LogBlockWriter.finish` returns it. Its checksum is not used. */
  readonly block: Buffer
}

interface BlockEntry {
  readonly place: number
  readonly bytes: number
  readonly records: number
  readonly events: number
}

/** The decoded beginning of a message: everything before the bodies of the blocks. */
export interface MessageHead {
  /** The name of the edge, as hex digits. */
  readonly edge: string
  readonly blocks: readonly BlockEntry[]
}

/** Encodes the messages of one edge, one at a time. */
export class MessageEncoder {
  readonly #edge: Uint8Array
  /**
   * Memory for the bodies of one message, which is used again for the next one. It must not change while it is being
   * compressed.
   */
  #bodies = Buffer.alloc(0)

  constructor(edge: Uint8Array) {
    this.#edge = edge
  }

  /**
   * Encodes a message of at least one block. Compression runs on one of Node's own threads. The caller may reuse the
   * memory of the blocks as soon as the call returns, even before the promise resolves. Do not encode another message
   * before the promise resolves.
   */
  async encode(blocks: readonly PlacedBlock[]): Promise<Buffer> {
    const heads = blocks.map(({ block }) => readBlockHead(block))
    const bytes = blocks.reduce((sum, { block }) => sum + block.length, 0)
    const headsBytes = heads.reduce((sum, { headBytes }) => sum + headBytes, 0)
    const bodies = this.#memoryOf(bytes - headsBytes)
    const head = Buffer.alloc(HEAD_BYTES + ENTRY_BYTES * blocks.length)
    const isCompressed = bodies.length >= COMPRESSED_BYTES_MIN
    head.writeUInt32LE(MAGIC, 0)
    head.writeUInt32LE(isCompressed ? COMPRESSED : 0, 4)
    head.set(this.#edge, 8)
    head.writeUInt32LE(blocks.length, 24)
    head.writeUInt32LE(bodies.length, 28)
    let end = 0
    for (const [index, { place, block }] of blocks.entries()) {
      const at = HEAD_BYTES + index * ENTRY_BYTES
      const { headBytes, records, events } = heads[index] ?? { headBytes: 0, records: 0, events: 0 }
      head.writeDoubleLE(place, at)
      head.writeUInt32LE(block.length - headBytes, at + 8)
      head.writeUInt32LE(records, at + 12)
      head.writeUInt32LE(events, at + 16)
      bodies.set(block.subarray(headBytes), end)
      end += block.length - headBytes
    }
    return Buffer.concat([head, ...(isCompressed ? await compress(bodies) : [bodies])])
  }

  #memoryOf(bytes: number): Buffer {
    if (bytes > MESSAGE_KEPT_BYTES_MAX) return Buffer.allocUnsafeSlow(bytes)
    if (this.#bodies.length < bytes) this.#bodies = Buffer.allocUnsafeSlow(bytes)
    return this.#bodies.subarray(0, bytes)
  }
}

/** Reads the head of a message. Throws RangeError if it is not a message. */
export function readHead(message: Buffer): MessageHead {
  if (message.length < HEAD_BYTES || message.readUInt32LE(0) !== MAGIC) {
    throw new RangeError('a message of the shared log does not begin with its mark')
  }
  const blocks = Array.from({ length: message.readUInt32LE(24) }, (_, index) => {
    const at = HEAD_BYTES + index * ENTRY_BYTES
    return {
      place: message.readDoubleLE(at),
      bytes: message.readUInt32LE(at + 8),
      records: message.readUInt32LE(at + 12),
      events: message.readUInt32LE(at + 16),
    }
  })
  return { edge: message.toString('hex', 8, 24), blocks }
}

/**
 * Returns the blocks of a message, each with its checksum, in the order of the head. Throws RangeError if the lengths
 * do not match, and the errors of zlib.
 */
export function readBlocks(message: Buffer): readonly Buffer[] {
  const { blocks } = readHead(message)
  const body = message.subarray(HEAD_BYTES + ENTRY_BYTES * blocks.length)
  const isCompressed = (message.readUInt32LE(4) & COMPRESSED) !== 0
  const bodies = isCompressed ? brotliDecompressSync(body) : body
  const bytes = blocks.reduce((sum, block) => sum + block.bytes, 0)
  if (bodies.length !== bytes || bytes !== message.readUInt32LE(28)) {
    throw new RangeError('the lengths in a message of the shared log do not fit')
  }
  let end = 0
  return blocks.map(({ bytes, records, events }) => {
    end += bytes
    return sealedBlock(bodies.subarray(end - bytes, end), records, events)
  })
}

async function compress(bytes: Buffer): Promise<readonly Buffer[]> {
  const chunkSize = Math.max(CHUNK_BYTES_MIN, Math.ceil(bytes.length * CHUNK_PART))
  const stream = createBrotliCompress({ params: PARAMS, chunkSize })
  stream.end(bytes)
  // The cast is right: streams of zlib yield Buffers.
  return (await stream.toArray()) as readonly Buffer[]
}
