/**
 * Unpacks gzip files. A file may consist of several members (RFC 1952, section 2.2). If data that is not gzip follows a
 * member, Node's own decoder discards what it unpacked in its last step. This reader therefore finds the end of each
 * member itself.
 */
import { constants, crc32, createInflateRaw } from 'node:zlib'
import { OperatorError } from '../../base/errors.ts'

/** The first two bytes of each member, in hexadecimal digits. */
export const GZIP_MAGIC = '1f8b'
const [MAGIC_1, MAGIC_2] = [0x1f, 0x8b]
const METHOD_DEFLATE = 8
const FLAG_HEADER_CHECKSUM = 0x02
const FLAG_EXTRA = 0x04
const FLAG_NAME = 0x08
const FLAG_COMMENT = 0x10
const FLAGS_RESERVED = 0xe0
/** The size of the header fields that are not read: modification time, compression flags and operating system. */
const IGNORED_HEADER_BYTES = 6
/** The largest number of bytes that the decoder unpacks in one step. */
const STEP_BYTES = 1024 * 1024
/**
 * The same for a member that follows one with fewer bytes than this. Files of log programs and of `bgzip` consist of
 * thousands of short members, for which the larger buffer would be wasted.
 */
const SHORT_STEP_BYTES = 64 * 1024
const RETRY = 'Fetch the file again, and import it with --resume.'

/** A compressed file that is cut short or damaged. */
export class DamagedFileError extends OperatorError {
  /**
   * True if the damage begins directly after a complete member. The last line before the damage is then complete, too.
   */
  readonly isBetweenMembers: boolean

  constructor(message: string, isBetweenMembers = false) {
    super(message)
    this.isBetweenMembers = isBetweenMembers
  }
}

/**
 * Yields the unpacked content of a gzip file. `first` is its first chunk and `rest` yields the others. A chunk must
 * stay valid until `rest` is asked for the next one. At most one chunk and the output of two steps of the decoder are
 * in memory.
 *
 * Rejects with `DamagedFileError` if the file is cut short, or if data that is not gzip follows a member. Everything
 * before that point is yielded first. If a member itself is damaged, up to one step of the decoder before the damage is
 * lost. Zero bytes at the end of the file are padding.
 */
export async function* unpackGzip(
  path: string,
  first: Buffer,
  rest: AsyncGenerator<Buffer>,
): AsyncGenerator<Buffer> {
  const input = new PackedInput(path, first, rest)
  let step = STEP_BYTES
  do {
    await readHeader(input)
    let bytes = 0
    let checksum = 0
    for await (const chunk of inflate(input, step)) {
      bytes += chunk.length
      checksum = crc32(chunk, checksum)
      yield chunk
    }
    if ((await input.uint32()) !== checksum) throw input.damage('incorrect data check')
    if ((await input.uint32()) !== bytes % 2 ** 32) throw input.damage('incorrect length check')
    step = bytes < SHORT_STEP_BYTES ? SHORT_STEP_BYTES : STEP_BYTES
  } while (await findMember(input))
}

/** Reads the rest of a header, whose first two bytes have been read. */
async function readHeader(input: PackedInput): Promise<void> {
  if ((await input.byte()) !== METHOD_DEFLATE) throw input.damage('unknown compression method')
  const flags = await input.byte()
  if ((flags & FLAGS_RESERVED) !== 0) throw input.damage('unknown header flags set')
  await input.skip(IGNORED_HEADER_BYTES)
  if ((flags & FLAG_EXTRA) !== 0) {
    const low = await input.byte()
    await input.skip(low + (await input.byte()) * 256)
  }
  if ((flags & FLAG_NAME) !== 0) while ((await input.byte()) !== 0);
  if ((flags & FLAG_COMMENT) !== 0) while ((await input.byte()) !== 0);
  if ((flags & FLAG_HEADER_CHECKSUM) !== 0) await input.skip(2)
}

/**
 * Reads the first two bytes of the next member. Returns false at the end of the file. Throws `DamagedFileError` if other
 * data follows.
 */
async function findMember(input: PackedInput): Promise<boolean> {
  const end = input.offset
  const chunk = await input.unread()
  if (chunk === null) return false
  if (chunk[0] === 0) {
    if (!(await input.skipZeros())) return false
    throw new DamagedFileError(
      `${input.path} has zero bytes after ${end.toLocaleString('en')} bytes, in the middle of its data. The part before them was sent. ${RETRY}`,
      true,
    )
  }
  if ((await input.byte()) === MAGIC_1 && (await input.byte()) === MAGIC_2) return true
  throw new DamagedFileError(
    `${input.path} has other data than gzip after ${end.toLocaleString('en')} bytes. The part before it was sent. ${RETRY}`,
    true,
  )
}

/** Yields the unpacked data of one member, and leaves the input directly after it. */
async function* inflate(input: PackedInput, chunkSize: number): AsyncGenerator<Buffer> {
  // With this flush mode, the decoder returns even the last data before the end of a file that is cut short.
  const inflater = createInflateRaw({ chunkSize, finishFlush: constants.Z_SYNC_FLUSH })
  let isCut = false
  /** The total size of the chunks that the decoder has read to their end. */
  let takenBytes = 0
  /** Writes chunk after chunk to the decoder, each when the decoder and the reader of its output are ready for it. */
  const feed = async (): Promise<void> => {
    try {
      const chunk = await input.unread()
      if (inflater.destroyed) return
      if (chunk === null) {
        isCut = true
        inflater.end()
        return
      }
      inflater.write(chunk, (error) => {
        // If the decoder has not read the whole chunk, the member ends within the chunk.
        if (error != null || inflater.bytesWritten < takenBytes + chunk.length) return
        takenBytes += chunk.length
        input.take(chunk.length)
        void feed()
      })
    } catch (error) {
      inflater.destroy(error instanceof Error ? error : new Error(String(error)))
    }
  }
  void feed()
  try {
    for await (const chunk of inflater) if (Buffer.isBuffer(chunk)) yield chunk
  } catch (error) {
    if (error instanceof Error && 'code' in error && String(error.code).startsWith('Z_')) {
      throw input.damage(
        error.message,
        'The part before the damage was sent, except for up to 1 MiB of lines directly before it.',
      )
    }
    throw error
  } finally {
    inflater.destroy()
  }
  if (isCut) throw input.cut()
  input.take(inflater.bytesWritten - takenBytes)
}

/** The bytes of a compressed file, in order. */
class PackedInput {
  readonly path: string
  /** The number of bytes that were read. */
  offset = 2
  readonly #rest: AsyncGenerator<Buffer>
  #chunk: Buffer

  /** `first` begins with the first two bytes of a member. */
  constructor(path: string, first: Buffer, rest: AsyncGenerator<Buffer>) {
    this.path = path
    this.#chunk = first.subarray(2)
    this.#rest = rest
  }

  /**
   * Returns the rest of the current chunk, or the next chunk if nothing is left. Returns null at the end of the file.
   */
  async unread(): Promise<Buffer | null> {
    while (this.#chunk.length === 0) {
      const next = await this.#rest.next()
      if (next.done === true) return null
      this.#chunk = next.value
    }
    return this.#chunk
  }

  /** Marks bytes of the current chunk as read. */
  take(count: number): void {
    this.offset += count
    this.#chunk = this.#chunk.subarray(count)
  }

  async byte(): Promise<number> {
    const [byte] = (await this.unread()) ?? []
    if (byte === undefined) throw this.cut()
    this.take(1)
    return byte
  }

  async uint32(): Promise<number> {
    let value = 0
    for (let unit = 1; unit < 2 ** 32; unit *= 256) value += (await this.byte()) * unit
    return value
  }

  async skip(count: number): Promise<void> {
    for (let left = count; left > 0; left--) await this.byte()
  }

  /** Skips zero bytes. Returns false if the rest of the file consists of them. */
  async skipZeros(): Promise<boolean> {
    for (;;) {
      const chunk = await this.unread()
      if (chunk === null) return false
      const zeros = chunk.findIndex((byte) => byte !== 0)
      if (zeros >= 0) return true
      this.take(chunk.length)
    }
  }

  damage(reason: string, sent = 'The readable part was sent.'): DamagedFileError {
    return new DamagedFileError(
      `${this.path} is damaged or cut short (${reason}). ${sent} ${RETRY}`,
    )
  }

  cut(): DamagedFileError {
    return this.damage('unexpected end of file')
  }
}
