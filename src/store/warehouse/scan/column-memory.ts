/**
 * Where decoded columns of large segments lie, for all threads of analytics at once (base/shared-blocks.ts): who
 * decodes a column first spares the others the work, and the memory. A block has the numbers of a column as they
 * are, and behind them, as JSON, its texts, of which each thread makes values of its own.
 */
import { createHash } from 'node:crypto'
import {
  type Block,
  type BlockShare,
  NAME_WORDS,
  SharedBlocks,
} from '../../../base/shared-blocks.ts'

/** Numbers of a column. */
export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array

/** How a column is told apart and put together again. */
export interface ColumnForm<Column> {
  numbersOf(column: Column): readonly Numbers[]
  /** What JSON can say. */
  restOf(column: Column): unknown
  columnOf(numbers: readonly Numbers[], rest: unknown): Column
}

/** A column, and the block that it lies in. */
export interface PlacedColumn<Column> {
  readonly column: Column
  readonly block: Block
}

const KINDS = [Uint8Array, Uint16Array, Uint32Array, Float64Array] as const
const ALIGNMENT = 8
const PADDING = new Uint8Array(ALIGNMENT)
/** Words of the head of a block: how many bytes of JSON, and how many lists of numbers there are. */
const HEAD_WORDS = 2
/** And for each of these: its kind, and its length. */
const LIST_WORDS = 2

/** The columns of all threads as one of them sees them. */
export class ColumnMemory {
  readonly #blocks: SharedBlocks

  constructor({ shared, index }: BlockShare) {
    this.#blocks = new SharedBlocks(shared, index)
  }

  /** Bytes of the columns of all threads. */
  get usedBytes(): number {
    return this.#blocks.usedBytes
  }

  /** A query begins: columns that are found from now on stay as they are until it ends. */
  begin(): void {
    this.#blocks.begin()
  }

  end(): void {
    this.#blocks.end()
  }

  /** Whether a column that was found before is still where it was. */
  isThere(block: Block): boolean {
    return this.#blocks.use(block)
  }

  /** A column that some thread has decoded, or null. */
  find<Column>(name: Uint32Array, form: ColumnForm<Column>): PlacedColumn<Column> | null {
    return placed(this.#blocks.find(name), form)
  }

  /** Keeps a column for all threads; null: there is no room. Cost: a copy. */
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

/** Names of the columns of one segment: nobody can write another that has the same. `identity`: all it is made of. */
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
  // The constructors of all kinds take both kinds of memory; said of them together, they only take one.
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
