/**
 * Compresses and decompresses long texts in the LZ4 block format, in WebAssembly. Decompressing is several times as
 * fast as with the codecs of Node.js. docs/decisions/053-codec-of-long-texts.md compares the alternatives.
 *
 * The WebAssembly module can access only its own memory. So the texts are divided into chunks, and each chunk is
 * compressed separately. A thread that uses the module then needs memory for only two chunks, whatever the size of the
 * texts:
 *
 *   texts     |      1 MiB      |      1 MiB      |  rest  |
 *   packed    bytes u32 | block | bytes u32 | block | bytes u32 | block
 *
 * A chunk that does not become smaller is stored uncompressed. It can be recognized because its number of bytes is the
 * same as before compression.
 */
import { readFileSync } from 'node:fs'

/** Every chunk except the last has this many bytes. The number is part of the format. */
const CHUNK_BYTES = 1024 * 1024
const HEAD_BYTES = 4
/** The address in the memory of the module at which the hash table ends. assembly.ts contains the same number. */
const TABLE_END = 1024 + 8 * 32_768
/**
 * The number of unused bytes that must follow each block in the memory of the module. The module copies 16 bytes at a
 * time, so it reads and writes up to 15 bytes too far.
 */
const MARGIN_BYTES = 64
const INPUT = TABLE_END
const OUTPUT = INPUT + CHUNK_BYTES + MARGIN_BYTES
const MEMORY_BYTES = OUTPUT + CHUNK_BYTES + MARGIN_BYTES
const PAGE_BYTES = 65_536
/** The number of memory pages that the compiled module has at its start, as in asconfig.json. */
const INITIAL_PAGES = 1

interface Lz4Exports {
  readonly memory: WebAssembly.Memory
  /** Returns the address at which the block ends, or 0 if the block might not fit. */
  readonly packFast: Convert
  readonly packSmall: Convert
  /** Returns 1 if the output was filled exactly, or 0 if the block is damaged. */
  readonly unpack: Convert
}

type Convert = (source: number, sourceEnd: number, target: number, targetEnd: number) => number

let engine: Engine | undefined

/**
 * Compresses bytes. If `isSmall` is true, the result is about 12 % smaller, but compression takes more than twice as
 * long. The result may be longer than the input, by 4 bytes for each MiB.
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
 * Decompresses the result of `packTexts`. Throws RangeError if it does not contain exactly `bytes` bytes. It checks
 * that `packed` has the right number of chunks before it allocates memory for the result.
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

/** Returns the offset at which each chunk ends. Throws RangeError unless the last chunk ends at the end of `packed`. */
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
  return new RangeError('the compressed texts are damaged')
}

class Engine {
  readonly packFast: Convert
  readonly packSmall: Convert
  readonly unpack: Convert
  readonly memory: Uint8Array

  constructor() {
    const file = new URL('lz4.wasm', import.meta.url)
    const instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(file)))
    // The cast is right: assembly.ts, from which the module is compiled, declares these exports.
    const exports = instance.exports as unknown as Lz4Exports
    exports.memory.grow(Math.ceil(MEMORY_BYTES / PAGE_BYTES) - INITIAL_PAGES)
    this.packFast = exports.packFast
    this.packSmall = exports.packSmall
    this.unpack = exports.unpack
    this.memory = new Uint8Array(exports.memory.buffer)
  }
}
