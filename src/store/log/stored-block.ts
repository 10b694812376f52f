/**
 * The form in which a frame stores a block. A client can send some kilobytes that become megabytes of repeated text.
 * Such a block is deflated, so that it takes little of the disk, and because deflating this text costs less than
 * writing it. Other blocks are stored as they are, because deflating them would cost more. Text that repeats itself
 * only after about a kilobyte or more is also stored as it is, because a short sample does not show the repetition.
 *
 *   deflated block   bytes of the block u32 | the block as raw deflate
 */
import { constants, deflateRawSync, inflateRawSync } from 'node:zlib'
import { LOG_DEFLATED_BYTES_MIN } from './limits.ts'

/**
 * A block is deflated if a sample of it shrinks to this fraction of its size or less. Samples of ordinary events stay
 * larger.
 */
const SAMPLE_PART = 0.1
/** If the deflated block is larger than this fraction of the block, the block is stored as it is. */
const DEFLATED_PART = 0.5
/**
 * The sample consists of this number of parts at random offsets, so that a client cannot know which bytes are sampled.
 */
const SAMPLE_PIECES = 4
const SAMPLE_PIECE_BYTES = 1024
/** The fastest level finds the repetitions that matter here. */
const OPTIONS = { level: 1 }
const HEAD_BYTES = 4
/** A part of a deflated block that contains its first bytes: the table of codes before them has at most 600 bytes. */
const DEFLATED_START_BYTES = 1024

/** A block as it is stored. */
export interface StoredBlock {
  readonly isDeflated: boolean
  readonly bytes: Buffer
  /** The block itself, and its checksum without its first 8 bytes. */
  readonly block: Buffer
  readonly checksum: number
}

/** Returns the form in which a block is stored. The block must not change before it is written. */
export function storedBlock(block: Buffer, checksum: number): StoredBlock {
  const whole = { isDeflated: false, bytes: block, block, checksum }
  if (block.length < LOG_DEFLATED_BYTES_MIN || !isRepetitive(sampleOf(block))) return whole
  const deflated = deflateRawSync(block, OPTIONS)
  if (deflated.length > block.length * DEFLATED_PART) return whole
  const head = Buffer.allocUnsafe(HEAD_BYTES)
  head.writeUInt32LE(block.length)
  return { isDeflated: true, bytes: Buffer.concat([head, deflated]), block, checksum }
}

/**
 * Inflates a deflated block. If that fails because the bytes are damaged, returns the bytes unchanged. The caller then
 * notices that they do not match the checksum of the block.
 */
export function inflateBlock(stored: Buffer): Buffer {
  try {
    const maxOutputLength = stored.readUInt32LE()
    return inflateRawSync(stored.subarray(HEAD_BYTES), { maxOutputLength })
  } catch {
    return stored
  }
}

/**
 * Returns the first bytes of a block from its deflated form, without inflating all of it. Returns no bytes if they are
 * damaged.
 */
export function inflateStart(stored: Buffer): Buffer {
  try {
    const start = stored.subarray(HEAD_BYTES, HEAD_BYTES + DEFLATED_START_BYTES)
    return inflateRawSync(start, { finishFlush: constants.Z_SYNC_FLUSH })
  } catch {
    return Buffer.alloc(0)
  }
}

function sampleOf(block: Buffer): Buffer {
  const pieces = Array.from({ length: SAMPLE_PIECES }, () => {
    const start = Math.floor(Math.random() * (block.length - SAMPLE_PIECE_BYTES))
    return block.subarray(start, start + SAMPLE_PIECE_BYTES)
  })
  return Buffer.concat(pieces)
}

function isRepetitive(sample: Buffer): boolean {
  return deflateRawSync(sample, OPTIONS).length <= sample.length * SAMPLE_PART
}
