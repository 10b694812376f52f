/**
 * The fast path of ingestion: recognises regular capture bodies and cuts out their events without
 * building a single object (0.6 us an event with its copies, where decoding and JSON.parse took 5.6 on
 * the same batches of 100, a third of them not ASCII). It only says
 * yes; see `assembly.ts` for what counts as regular and for the memory layout.
 *
 * One instance serves one thread. What a scan found is valid until the next scan.
 */
import { readFileSync } from 'node:fs'

/** Bytes of one entry of the event table. */
export const TABLE_ENTRY_BYTES = 24
/** Set in the length word of an entry whose event came with a uuid of the client. */
export const HAS_CLIENT_UUID = 0x80000000

/** Copies up to this size are cheaper one byte at a time than through a view of the source. */
const LOOP_BYTES_MAX = 64

const RESULT_OFFSET = 1024
const RESULT_WORDS = 16
// Indexes of the result words; the same list stands in assembly.ts.
const EVENTS = 1
const TABLE = 2
const KEY_START = 3
const KEY_LENGTH = 4
const SENT_AT_KIND = 5
const SENT_AT_START = 6
const SENT_AT_LENGTH = 7
const HISTORICAL = 8

interface ScannerExports {
  readonly memory: WebAssembly.Memory
  reserve(inputBytes: number): number
  scan(inputBytes: number): number
}

/** A scanner with a memory of its own, which grows to the largest body it has seen. */
export class Scanner {
  readonly #exports: ScannerExports
  #bytes: Buffer
  #words: Uint32Array
  #inputOffset = 0
  #inputBytesMax = 0
  /** The key that was asked for last, which nearly all requests repeat: comparing is cheaper than making text. */
  #key = ''

  constructor() {
    const instance = new WebAssembly.Instance(compiled())
    // The exports are those of assembly.ts, compiled by the same build.
    this.#exports = instance.exports as unknown as ScannerExports
    this.#bytes = Buffer.from(this.#exports.memory.buffer)
    this.#words = new Uint32Array(this.#exports.memory.buffer, RESULT_OFFSET, RESULT_WORDS)
  }

  /**
   * True when the body is regular; then the properties below describe it. Linear in its size.
   * `body` must be valid UTF-8.
   */
  scan(body: Uint8Array): boolean {
    if (body.length > this.#inputBytesMax) {
      this.#inputOffset = this.#exports.reserve(body.length)
      this.#inputBytesMax = body.length
      this.#renewViews()
    }
    this.#bytes.set(body, this.#inputOffset)
    const isRegular = this.#exports.scan(body.length) === 1
    // The table grows while it is written, which moves the memory.
    if (this.#bytes.buffer !== this.#exports.memory.buffer) this.#renewViews()
    return isRegular
  }

  /** Bytes of its memory, which never shrinks. */
  get memoryBytes(): number {
    return this.#bytes.length
  }

  get eventCount(): number {
    return this.#word(EVENTS)
  }

  /** The project or personal key of the root. */
  get key(): string {
    const start = this.#inputOffset + this.#word(KEY_START)
    const length = this.#word(KEY_LENGTH)
    if (!isText(this.#bytes, start, length, this.#key)) {
      this.#key = this.#bytes.toString('latin1', start, start + length)
    }
    return this.#key
  }

  /** `sent_at` of the root as it was sent; undefined when absent or null. */
  get sentAt(): string | number | undefined {
    const kind = this.#word(SENT_AT_KIND)
    if (kind === 0) return undefined
    const start = this.#inputOffset + this.#word(SENT_AT_START)
    const text = this.#bytes.toString('utf8', start, start + this.#word(SENT_AT_LENGTH))
    return kind === 1 ? text : Number(text)
  }

  get isHistorical(): boolean {
    return this.#word(HISTORICAL) === 1
  }

  /** Offset in the body of the first event, 0 without events. */
  get eventsStart(): number {
    return this.eventCount === 0 ? 0 : this.#bytes.readUInt32LE(this.#word(TABLE))
  }

  /** Offset in the body behind the last event, 0 without events. */
  get eventsEnd(): number {
    const count = this.eventCount
    if (count === 0) return 0
    const entry = this.#word(TABLE) + (count - 1) * TABLE_ENTRY_BYTES
    return this.#bytes.readUInt32LE(entry) + (this.#bytes.readUInt32LE(entry + 4) & 0x7fffffff)
  }

  /** Bytes of the longest event, 0 without events. Linear in the number of events. */
  get longestEventBytes(): number {
    const start = this.#word(TABLE)
    const end = start + this.eventCount * TABLE_ENTRY_BYTES
    let longest = 0
    for (let entry = start; entry < end; entry += TABLE_ENTRY_BYTES) {
      longest = Math.max(longest, this.#bytes.readUInt32LE(entry + 4) & 0x7fffffff)
    }
    return longest
  }

  /** Copies the event table (TABLE_ENTRY_BYTES an event, offsets from the start of the body). */
  copyTable(target: Buffer, targetStart: number): void {
    const start = this.#word(TABLE)
    const length = this.eventCount * TABLE_ENTRY_BYTES
    if (length > LOOP_BYTES_MAX) {
      this.#bytes.copy(target, targetStart, start, start + length)
      return
    }
    const bytes = this.#bytes
    for (let index = 0; index < length; index++) {
      target[targetStart + index] = bytes[start + index] ?? 0
    }
  }

  /** Copies the body from `start` to `end`. */
  copyBody(target: Buffer, targetStart: number, start: number, end: number): void {
    const body = this.#bytes.subarray(this.#inputOffset + start, this.#inputOffset + end)
    // As `copy` does, which goes byte by byte where the target is shared memory.
    if (body.length > 0) target.fill(body, targetStart, targetStart + body.length)
  }

  #word(index: number): number {
    return this.#words[index] ?? 0
  }

  #renewViews(): void {
    this.#bytes = Buffer.from(this.#exports.memory.buffer)
    this.#words = new Uint32Array(this.#exports.memory.buffer, RESULT_OFFSET, RESULT_WORDS)
  }
}

/** Whether `length` bytes from `start` are `text` in Latin-1. */
export function isText(bytes: Uint8Array, start: number, length: number, text: string): boolean {
  if (text.length !== length) return false
  for (let index = 0; index < length; index++) {
    if (bytes[start + index] !== text.charCodeAt(index)) return false
  }
  return true
}

let compiledModule: WebAssembly.Module | undefined

function compiled(): WebAssembly.Module {
  if (compiledModule === undefined) {
    compiledModule = new WebAssembly.Module(readFileSync(new URL('scanner.wasm', import.meta.url)))
  }
  return compiledModule
}
