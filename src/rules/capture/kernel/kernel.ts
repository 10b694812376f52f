/**
 * The fast path of processing. It reads an accepted event into cells without building an object. A cell consists of the
 * number of a property and the number of its value. The kernel recognizes only usual events; every other event is left
 * to the slow path. `assembly.ts` describes which events are usual and how the memory is laid out, and `recognize.ts`
 * contains the rules.
 *
 * One instance serves one thread. The event that was read is valid until the next `read`.
 */
import { readFileSync } from 'node:fs'
import { COLUMN_BLOCK_ROWS } from '../limits.ts'
import { usualMomentAt } from '../timestamp.ts'
import type { ColumnBlock, EventCells, ValueSink } from '../types.ts'

/** The value of the cell is a text or JSON. The cell contains its memory address and its length. */
const CODE_TEXT = 0
/** The cell was taken out, so its property is not stored. */
const CODE_NONE = -1
/** The value of the cell is a number. */
const CODE_NUMBER = -2
/** The value of the cell is the distinct_id. */
const CODE_SELF = -3

/**
 * How the kernel treats a key. `refused`: it does not recognize the event. `usual`: it stores the property. `leftOut`:
 * it leaves the property out. `id`: it also uses the value as the distinct_id if the event has no other.
 */
export const KEY_KINDS = { refused: 0, usual: 1, leftOut: 2, id: 3 } as const

// The addresses and sizes below must be the same as in assembly.ts.
const RESULT = 1024
const ID_TEXT = 2048
const CELLS = 4096
const INPUT = 262_144
const INPUT_BYTES = 1_048_576
/**
 * The number of bytes of the log that are copied into the memory of the kernel at once. It is small enough that the
 * bytes are still in the CPU cache when they are read.
 */
const WINDOW_BYTES = 128 * 1024
const ENTRY_BYTES = 16
const CELL_WORDS = 4
const CELL_COUNT = 1000
const FIRST_CELL = CELLS / 4
const R_CELLS = RESULT / 4
const R_NAME = R_CELLS + 1
const R_ID_BYTES = R_CELLS + 2
const R_ID_START = R_CELLS + 3
const R_ID_LENGTH = R_CELLS + 4
const R_HAS_SENT_AT = R_CELLS + 5
const R_TIME_START = R_CELLS + 6
const R_TIME_LENGTH = R_CELLS + 7
const R_OFFSET = RESULT / 8 + 4
const R_SET = R_CELLS + 10
const R_SET_ONCE = R_CELLS + 12
/** The length in bytes of a timestamp in the usual form, with its quotes. */
const USUAL_TIMESTAMP_BYTES = 26
const NEEDS_PARSING = 2
const IS_ASCII = 1
const NAME_KEY = 0
const KEY_COUNT = 1536
const LEFT = 4096 + 1024 * 16 + KEY_COUNT * 64 + 4096 * 4
/** The address of the first block. Blocks lie after the dictionaries and the space that one event may add to them. */
const BLOCKS = INPUT + INPUT_BYTES + 65_536 + 26 * 1024 * 1024
const BLOCK_IDS = 32
const BLOCK_CODES = BLOCK_IDS + COLUMN_BLOCK_ROWS * 2
const BLOCK_BYTES = 24_640
const CODES = 4104

interface KernelExports {
  readonly memory: WebAssembly.Memory
  forget(secret: bigint): void
  isFull(): number
  entries(key: number): number
  reserve(length: number): void
  fill(table: number, row: number): number
  read(start: number, length: number): number
}

/** The rules that the kernel applies to keys. */
export interface KeyRules {
  /** Returns how the kernel treats the key of a property: one of KEY_KINDS. */
  kindOf(name: string): number
  /** Returns whether the property is stored exactly as it was sent, whatever its value. */
  isStoredAsSent(name: string): boolean
  /** Returns the value that is stored for a value that was sent. */
  valueOf(name: string, value: unknown): unknown
}

/**
 * A kernel with a memory of its own. The memory has a size of 52 MiB, but the operating system provides only the pages
 * that were written.
 */
export class EventKernel implements EventCells {
  readonly #exports: KernelExports
  readonly #rules: KeyRules
  readonly #drawSecret: () => bigint
  readonly #bytes: Buffer
  /** The whole memory as words. A cell takes four words; the first cell is at `FIRST_CELL`. */
  readonly #words: Int32Array
  readonly #numbers: Float64Array
  readonly #left: Uint16Array
  /** The memory addresses of the blocks that were released and can be used again. */
  readonly #freeBlocks: number[] = []
  #nextBlock = BLOCKS
  #source: Uint8Array | null = null
  #from = 0
  #to = 0
  /** The distinct_id of the current event as text. Null until a caller needs the text. */
  #id: string | null = null
  #names: string[] = []
  #values: unknown[][] = []
  #areStoredAsSent: boolean[] = []
  /**
   * The number of times that all keys and values were discarded. A key number or a code is valid only until this number
   * changes.
   */
  epoch = 0
  cellCount = 0
  readonly idFirstWord = ID_TEXT / 4
  readonly blockRows = COLUMN_BLOCK_ROWS
  addedCount = 0
  readonly addedNames: string[] = []
  readonly addedValues: unknown[] = []

  /** `drawSecret` returns random numbers. They keep an attacker from choosing values that slow the kernel down. */
  constructor(rules: KeyRules, drawSecret: () => bigint) {
    this.#rules = rules
    this.#drawSecret = drawSecret
    const newKey = (key: number, start: number, length: number): number =>
      this.#newKey(key, start, length)
    const instance = new WebAssembly.Instance(compiled(), { kernel: { newKey } })
    // The exports are declared in assembly.ts, which the same build compiles.
    this.#exports = instance.exports as unknown as KernelExports
    const { buffer } = this.#exports.memory
    this.#bytes = Buffer.from(buffer)
    this.#words = new Int32Array(buffer)
    this.#numbers = new Float64Array(buffer)
    this.#left = new Uint16Array(buffer, LEFT, CELL_COUNT)
    this.#forget()
  }

  /**
   * Releases the event that was read last, so that its bytes may change. If there is no room for more keys and values,
   * it discards all of them and begins a new epoch.
   */
  makeRoom(): void {
    this.#source = null
    if (this.#exports.isFull() !== 0) this.#forget()
  }

  /**
   * Reads an event and returns true if it is recognized. The members below then describe this event. The cost is
   * linear, about a third of the time of JSON.parse.
   */
  read(bytes: Uint8Array, start: number, length: number): boolean {
    if (bytes !== this.#source || start < this.#from || start + length > this.#to) {
      if (length > INPUT_BYTES) return false
      this.#load(bytes, start, length)
    }
    const isRead = this.#exports.read(INPUT + start - this.#from, length) === 1
    this.cellCount = this.#words[R_CELLS] ?? 0
    this.#id = null
    this.addedCount = 0
    return isRead
  }

  /** The code of the event name, which `nameOf` turns into the name. */
  get nameCode(): number {
    return this.#words[R_NAME] ?? 0
  }

  /** Returns the event name that a code stands for. */
  nameOf(code: number): string {
    return this.#valueOf(NAME_KEY, code) as string
  }

  get idWords(): Int32Array {
    return this.#words
  }

  get idBytes(): number {
    return this.#words[R_ID_BYTES] ?? 0
  }

  /** The distinct_id as it was sent. */
  get id(): string {
    this.#id ??= this.#readId()
    return this.#id
  }

  #readId(): string {
    const { idBytes } = this
    if (idBytes > 0) return this.#bytes.toString('latin1', ID_TEXT, ID_TEXT + idBytes)
    const start = this.#words[R_ID_START] ?? 0
    const text = this.#bytes.toString('utf8', start, start + (this.#words[R_ID_LENGTH] ?? 0))
    return JSON.parse(text) as string
  }

  /** True if the event has a field `sent_at` of its own. */
  get hasSentAt(): boolean {
    return this.#words[R_HAS_SENT_AT] === 1
  }

  /** The timestamp as it was sent, or '' if there is none. */
  get timestamp(): string {
    const start = this.#words[R_TIME_START] ?? 0
    if (start === 0) return ''
    const text = this.#bytes.toString('utf8', start, start + (this.#words[R_TIME_LENGTH] ?? 0))
    return text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1)
  }

  /**
   * The moment of the timestamp in milliseconds if it has the usual form. Otherwise NaN, and the caller must parse
   * `timestamp`.
   */
  get usualTimestampMs(): number {
    const start = this.#words[R_TIME_START] ?? 0
    if (start === 0 || this.#words[R_TIME_LENGTH] !== USUAL_TIMESTAMP_BYTES) return Number.NaN
    return usualMomentAt(this.#bytes, start + 1)
  }

  /** The milliseconds between the event and the moment at which it was sent, or NaN if the event has no offset. */
  get offsetMs(): number {
    return this.#numbers[R_OFFSET] ?? Number.NaN
  }

  /** The `$set` of the event itself, outside of its properties. Undefined if there is none. */
  get rootSet(): unknown {
    return this.#objectAt(R_SET)
  }

  /** The `$set_once` of the event itself, outside of its properties. Undefined if there is none. */
  get rootSetOnce(): unknown {
    return this.#objectAt(R_SET_ONCE)
  }

  #objectAt(word: number): unknown {
    const start = this.#words[word] ?? 0
    if (start === 0) return undefined
    return JSON.parse(this.#bytes.toString('utf8', start, start + (this.#words[word + 1] ?? 0)))
  }

  keyAt(cell: number): number {
    return this.#words[FIRST_CELL + cell * CELL_WORDS] ?? 0
  }

  codeAt(cell: number): number {
    return this.#words[FIRST_CELL + cell * CELL_WORDS + 1] ?? 0
  }

  /** Marks a cell as taken out, so that its property is not stored. */
  takeOut(cell: number): void {
    this.#words[FIRST_CELL + cell * CELL_WORDS + 1] = CODE_NONE
  }

  isId(cell: number): boolean {
    return this.codeAt(cell) === CODE_SELF
  }

  isTakenOut(cell: number): boolean {
    return this.codeAt(cell) === CODE_NONE
  }

  nameOfKey(key: number): string {
    return this.#names[key] ?? ''
  }

  add(name: string, value: unknown): void {
    this.addedNames[this.addedCount] = name
    this.addedValues[this.addedCount++] = value
  }

  valueAt(cell: number): unknown {
    const word = FIRST_CELL + cell * CELL_WORDS
    const key = this.#words[word] ?? 0
    const code = this.#words[word + 1] ?? 0
    if (code > 0) return this.#values[key]?.[code] ?? this.#valueOf(key, code)
    if (code === CODE_NUMBER) return this.#numbers[word / 2 + 1]
    if (code === CODE_SELF) return this.id
    const start = this.#words[word + 2] ?? 0
    const lengthWord = this.#words[word + 3] ?? 0
    const end = start + (lengthWord >>> 2)
    const name = this.#names[key] ?? ''
    if ((lengthWord & NEEDS_PARSING) !== 0) {
      return this.#rules.valueOf(name, JSON.parse(this.#bytes.toString('utf8', start, end)))
    }
    const isAscii = (lengthWord & IS_ASCII) !== 0
    const text = isAscii
      ? this.#bytes.toString('latin1', start + 1, end - 1)
      : this.#bytes.toString('utf8', start + 1, end - 1)
    return this.#rules.valueOf(name, text)
  }

  fill(table: ColumnBlock | null, row: number): number {
    return this.#exports.fill(table === null ? 0 : table.address, row)
  }

  leftAt(index: number): number {
    return this.#left[index] ?? 0
  }

  takeBlock(): ColumnBlock | null {
    const { buffer } = this.#exports.memory
    let address = this.#freeBlocks.pop()
    if (address === undefined) {
      address = this.#nextBlock
      if (address + BLOCK_BYTES > buffer.byteLength) return null
      this.#nextBlock += BLOCK_BYTES
    }
    return {
      address,
      state: new Int32Array(buffer, address, 2),
      ids: new Uint16Array(buffer, address + BLOCK_IDS, COLUMN_BLOCK_ROWS),
      codes: new Uint16Array(buffer, address + BLOCK_CODES, CODES),
      columns: new Int32Array(buffer, address, KEY_COUNT),
    }
  }

  releaseBlock({ address }: ColumnBlock): void {
    this.#freeBlocks.push(address)
  }

  copyValue(cell: number, sink: ValueSink): boolean {
    const word = FIRST_CELL + cell * CELL_WORDS
    const code = this.#words[word + 1] ?? 0
    if (code === CODE_NUMBER) {
      if (sink.takesNumbers) sink.pushNumber(this.#numbers[word / 2 + 1] ?? 0)
      return sink.takesNumbers
    }
    const lengthWord = this.#words[word + 3] ?? 0
    const isSimple = code === CODE_TEXT && (lengthWord & (IS_ASCII | NEEDS_PARSING)) === IS_ASCII
    if (
      !isSimple ||
      !sink.takesBytes ||
      !(this.#areStoredAsSent[this.#words[word] ?? 0] ?? false)
    ) {
      return false
    }
    const start = this.#words[word + 2] ?? 0
    sink.pushBytes(this.#bytes, start, start + (lengthWord >>> 2))
    return true
  }

  #valueOf(key: number, code: number): unknown {
    const values = this.#values[key] ?? []
    const known = values[code]
    if (known !== undefined) return known
    const entry = (this.#exports.entries(key) + (code - 1) * ENTRY_BYTES) / 4
    const start = this.#words[entry] ?? 0
    const text = this.#bytes.toString('utf8', start, start + (this.#words[entry + 1] ?? 0))
    const parsed: unknown = JSON.parse(text)
    // Many events share the value, so it is frozen.
    if (typeof parsed === 'object' && parsed !== null) Object.freeze(parsed)
    const value = this.#rules.valueOf(this.#names[key] ?? '', parsed)
    values[code] = value
    this.#values[key] = values
    return value
  }

  #newKey(key: number, start: number, length: number): number {
    const name = Buffer.from(this.#exports.memory.buffer, start, length).toString()
    this.#names[key] = name
    this.#values[key] = []
    this.#areStoredAsSent[key] = this.#rules.isStoredAsSent(name)
    return this.#rules.kindOf(name)
  }

  #load(bytes: Uint8Array, start: number, length: number): void {
    this.#source = bytes
    this.#from = start
    this.#to = Math.min(bytes.length, start + Math.max(length, WINDOW_BYTES))
    this.#bytes.set(bytes.subarray(start, this.#to), INPUT)
    this.#exports.reserve(this.#to - start)
  }

  #forget(): void {
    this.#exports.forget(this.#drawSecret())
    this.#names = []
    this.#values = []
    this.epoch++
  }
}

let compiledModule: WebAssembly.Module | undefined

function compiled(): WebAssembly.Module {
  compiledModule ??= new WebAssembly.Module(readFileSync(new URL('kernel.wasm', import.meta.url)))
  return compiledModule
}
