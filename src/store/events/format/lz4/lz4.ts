/**
 * Compresses and decompresses long texts in the LZ4 block format, in WebAssembly. Decompressing is several times as
 * fast as with the codecs of Node.js. docs/decisions/053-codec-of-long-texts.md compares the alternatives.
 *
 * The module reads and writes only its own memory, so the bytes are divided into chunks that are compressed alone.
 * Every thread that uses the module needs memory for two chunks, whatever the size of the texts is:
 *
 *   texts     |      1 MiB      |      1 MiB      |  rest  |
 *   packed    bytes u32 | block | bytes u32 | block | bytes u32 | block
 *
 * A chunk that does not become smaller is stored as it is. Its number of bytes is then the same before and after.
 */
import { readFileSync } from 'node:fs'

/** Every chunk but the last has this many bytes. Part of the format. */
const CHUNK_BYTES = 1024 * 1024
const HEAD_BYTES = 4
/** Memory of the module. assembly.ts contains the same end of the table. */
const TABLE_END = 1024 + 8 * 32_768
/** The module copies 16 bytes at a time, so it reads and writes up to 15 bytes too far. */
const MARGIN_BYTES = 64
const INPUT = TABLE_END
const OUTPUT = INPUT + CHUNK_BYTES + MARGIN_BYTES
const MEMORY_BYTES = OUTPUT + CHUNK_BYTES + MARGIN_BYTES
const PAGE_BYTES = 65_536
/** The pages of the compiled module (asconfig.json). */
const INITIAL_PAGES = 1

interface Lz4Exports {
  readonly memory: WebAssembly.Memory
  /** Returns the end of the block, or 0 if it might be longer than the room. */
  readonly packFast: Convert
  readonly packSmall: Convert
  /** Returns 1, or 0 if the block is damaged. */
  readonly unpack: Convert
}

type Convert = (source: number, sourceEnd: number, target: number, targetEnd: number) => number

let engine: Engine | undefined

/**
 * Compresses bytes. With `isSmall` it takes more than twice as long for about 12 % fewer bytes. The result may be
 * longer than the bytes, by 4 bytes for each MiB.
 */
export function packTexts(content: Uint8Array, isSmall: boolean): Buffer {
  engine ??= new Engine()
  const { packFast, packSmall, memory } = engine
  const pack = isSmall ? packSmall : packFast
  const parts: Uint8Array[] = []
  for (let at = 0; at < content.length; at += CHUNK_BYTES) {
    const chunk = content.subarray(at, at + CHUNK_BYTES)
    memory.set(chunk, INPUT)
    const end = pack(INPUT, INPUT + chunk.length, OUTPUT, OUTPUT + chunk.length)
    const head = Buffer.alloc(HEAD_BYTES)
    const packed = end === 0 ? chunk : memory.slice(OUTPUT, end)
    head.writeUInt32LE(packed.length)
    parts.push(head, packed)
  }
  return Buffer.concat(parts)
}

/**
 * Returns the `bytes` bytes from which `packTexts` made `packed`. Throws RangeError if they are not exactly as many.
 * Memory for them is allocated only if `packed` has as many chunks.
 */
export function unpackTexts(packed: Buffer, bytes: number): Buffer {
  const ends = chunkEnds(packed)
  if (ends.length !== Math.ceil(bytes / CHUNK_BYTES)) throw damaged()
  engine ??= new Engine()
  const { unpack, memory } = engine
  const content = Buffer.allocUnsafeSlow(bytes)
  let from = 0
  let to = 0
  for (const end of ends) {
    const length = Math.min(CHUNK_BYTES, bytes - to)
    const start = from + HEAD_BYTES
    if (end - start > length) throw damaged()
    if (end - start === length) content.set(packed.subarray(start, end), to)
    else {
      memory.set(packed.subarray(start, end), INPUT)
      const isWhole = unpack(INPUT, INPUT + end - start, OUTPUT, OUTPUT + length) === 1
      if (!isWhole) throw damaged()
      content.set(memory.subarray(OUTPUT, OUTPUT + length), to)
    }
    from = end
    to += length
  }
  return content
}

/** Returns the end of each chunk. Throws RangeError unless the last one ends with the bytes. */
function chunkEnds(packed: Buffer): readonly number[] {
  const ends: number[] = []
  let end = 0
  while (end < packed.length) {
    if (end + HEAD_BYTES > packed.length) throw damaged()
    end += HEAD_BYTES + packed.readUInt32LE(end)
    ends.push(end)
  }
  if (end !== packed.length) throw damaged()
  return ends
}

function damaged(): RangeError {
  return new RangeError('compressed texts that are damaged')
}

class Engine {
  readonly packFast: Convert
  readonly packSmall: Convert
  readonly unpack: Convert
  readonly memory: Uint8Array

  constructor() {
    const file = new URL('lz4.wasm', import.meta.url)
    const instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(file)))
    // The exports are declared in assembly.ts, which the same build compiles.
    const exports = instance.exports as unknown as Lz4Exports
    exports.memory.grow(Math.ceil(MEMORY_BYTES / PAGE_BYTES) - INITIAL_PAGES)
    this.packFast = exports.packFast
    this.packSmall = exports.packSmall
    this.unpack = exports.unpack
    this.memory = new Uint8Array(exports.memory.buffer)
  }
}
