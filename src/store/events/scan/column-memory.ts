/**
 * The memory in which decoded columns of large segments are cached (base/shared-blocks.ts). All threads that answer
 * analytic queries share it. So if one thread has decoded a column, the others need neither time nor memory for it. One
 * block contains one column:
 *
 *   head      bytes of the JSON u32 | number of lists u32 | for each list: kind u32, length u32
 *   lists     the numbers of the column as they are, each list aligned to 8 bytes
 *   rest      the texts as JSON, from which each thread creates its own values
 */
import { createHash } from 'node:crypto'
import {
  type Block,
  type BlockShare,
  NAME_WORDS,
  SharedBlocks,
} from '../../../base/shared-blocks.ts'

/** The types of lists of numbers that a block can contain. */
export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array

/** Divides a column into lists of numbers and the rest, and puts it together again. */
export interface ColumnForm<Column> {
  numbersOf(column: Column): readonly Numbers[]
  /** Returns the part of a column that is stored as JSON. */
  restOf(column: Column): unknown
  columnOf(numbers: readonly Numbers[], rest: unknown): Column
}

/** A column, and the block of shared memory in which it is. */
export interface PlacedColumn<Column> {
  readonly column: Column
  readonly block: Block
}

const KINDS = [Uint8Array, Uint16Array, Uint32Array, Float64Array] as const
const ALIGNMENT = 8
const PADDING = new Uint8Array(ALIGNMENT)
/**
 * The number of words at the beginning of a block: one with the number of bytes of the JSON, and one with the number of
 * lists.
 */
const HEAD_WORDS = 2
/** The number of words for each list: one with its kind, and one with its length. */
const LIST_WORDS = 2

/** Gives one thread access to the shared columns. */
export class ColumnMemory {
  readonly #blocks: SharedBlocks

  constructor({ shared, index }: BlockShare) {
    this.#blocks = new SharedBlocks(shared, index)
  }

  /** The number of bytes of all shared columns, which all threads use together. */
  get usedBytes(): number {
    return this.#blocks.usedBytes
  }

  /**
   * Must be called at the beginning of a query. Columns that are found after this call stay unchanged until the query
   * ends.
   */
  begin(): void {
    this.#blocks.begin()
  }

  end(): void {
    this.#blocks.end()
  }

  /** Returns whether a column that was found earlier is still in its block, and was not evicted. */
  isThere(block: Block): boolean {
    return this.#blocks.use(block)
  }

  /** Returns a column that this or another thread has decoded, or null if there is none. */
  find<Column>(name: Uint32Array, form: ColumnForm<Column>): PlacedColumn<Column> | null {
    return placed(this.#blocks.find(name), form)
  }

  /** Stores a column for all threads. Its numbers are copied. Returns null if there is no room. */
  put<Column>(
    name: Uint32Array,
    column: Column,
    form: ColumnForm<Column>,
  ): PlacedColumn<Column> | null {
    const numbers = form.numbersOf(column)
    const rest = Buffer.from(JSON.stringify(form.restOf(column)))
    const head = new Uint32Array(HEAD_WORDS + LIST_WORDS * numbers.length)
    head.set([rest.length, numbers.length])
    for (const [index, list] of numbers.entries()) {
      const kind = KINDS.findIndex((one) => list instanceof one)
      head.set([kind, list.length], HEAD_WORDS + LIST_WORDS * index)
    }
    const parts = [head, ...numbers].flatMap(({ buffer, byteOffset, byteLength }) => {
      const padding = PADDING.subarray(0, aligned(byteLength) - byteLength)
      return [new Uint8Array(buffer, byteOffset, byteLength), padding]
    })
    return placed(this.#blocks.put(name, [...parts, rest]), form)
  }
}

/**
 * Returns a function that makes names for the columns of one segment. `identity` must contain everything that
 * determines the contents of the segment. Then no column of another segment gets the same name.
 */
export function columnNames(...identity: readonly (string | Uint8Array)[]) {
  const segment = createHash('sha256')
  for (const part of identity) segment.update(part)
  return (column: string): Uint32Array => {
    const digest = segment.copy().update(column).digest()
    return Uint32Array.from({ length: NAME_WORDS }, (_, word) => digest.readUInt32LE(4 * word))
  }
}

function placed<Column>(
  block: Block | null,
  form: ColumnForm<Column>,
): PlacedColumn<Column> | null {
  if (block === null) return null
  const { buffer, byteOffset } = block.bytes
  const [restBytes = 0, count = 0] = new Uint32Array(buffer, byteOffset, HEAD_WORDS)
  const headWords = HEAD_WORDS + LIST_WORDS * count
  const head = new Uint32Array(buffer, byteOffset, headWords)
  // The cast is needed because each constructor accepts both `ArrayBuffer` and `SharedArrayBuffer`, but the union of
  // the constructors accepts only `ArrayBuffer`.
  const memory = buffer as ArrayBuffer
  let at = byteOffset + aligned(head.byteLength)
  const numbers: Numbers[] = []
  for (let word = HEAD_WORDS; word < headWords; word += LIST_WORDS) {
    const Kind = KINDS[head[word] ?? 0] ?? Uint8Array
    const list = new Kind(memory, at, head[word + 1])
    numbers.push(list)
    at += aligned(list.byteLength)
  }
  const rest: unknown = JSON.parse(Buffer.from(memory, at, restBytes).toString())
  return { column: form.columnOf(numbers, rest), block }
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
}
