/**
 * One column of a segment that is being filled: which rows have a value, and which value each of them has. A column
 * starts as a *dictionary*, which contains each distinct value once. If nearly all of its first values differ, the
 * column continues as a *plain* list, which contains the values of the rows one after another. If each value is the
 * distinct_id of its row, the column is a *mirror*, and needs no values at all:
 *
 *   row                  0         1         2         3
 *   value                Chrome    Firefox   (none)    Chrome
 *
 *   dictionary  ids      1         2         0         1        values  [Chrome, Firefox]
 *   plain       ids      1         1         0         1        values  [Chrome, Firefox, Chrome]
 *   mirror      ids      1         1         0         1        values  [], each value is the distinct_id of its row
 *
 * Processing runs this code more often than any other, for about 25 values of each event (bench `micro/segments`). So
 * it allocates memory only for new values. The kernel (rules/capture/kernel/) reads events into cells, one for each
 * property. It writes most cells directly into the memory of the column. Only cells that it cannot write reach this
 * code.
 */

import { jsonOf } from '../../../base/json.ts'
import { grown } from '../../../rules/analytics/growing-arrays.ts'
import type { ColumnBlock, EventCells } from '../../../rules/capture/types.ts'
import type { ByteWriter } from './byte-writer.ts'
import { PlainValues } from './plain-values.ts'
import { planValues, type ValuesPlan, writeValues } from './segment-values.ts'
import { valueBytes } from './value-bytes.ts'

/** When a dictionary gets this number of distinct values, it may become a plain list (see `#isNearlyUnique`). */
const PLAIN_DECISION_VALUES = 256
/**
 * A dictionary becomes a plain list if the list is hardly larger: if it has at most 9/8 as many values, and at most 9/8
 * as many bytes.
 */
const PLAIN_PARTS_PER_8 = 9
const NO_IDS = new Uint16Array(0)

/** One column of the segment that is being filled. */
export class ColumnBuilder {
  readonly key: string
  /**
   * For each row: the position of its value, counted from 1, or 0 without a value. In a plain column or a mirror, every
   * number other than 0 only means that the row has a value.
   */
  ids: Uint16Array
  isPlain = false
  /** Set by `makeDictionary`. The column then stays a dictionary until the segment ends. */
  #mustStayDictionary = false
  /** The distinct values of a dictionary. Not used if the column is plain. */
  #values: unknown[] = []
  readonly #plain = new PlainValues()
  #lookup = new Map<unknown, number>()
  #objects: Map<string, number> | null = null
  /**
   * For each code that the kernel has given to a value: the position of the value in `#values`, or 0 if the code has
   * not occurred in this column yet.
   */
  #idsByCode: Uint16Array = NO_IDS
  /** No code from this number on has occurred in this column, so the rest of `#idsByCode` is all zeros. */
  #codesEnd = 0
  /**
   * The memory that this column shares with the kernel. The kernel finds `ids`, `#idsByCode` and `#state` in it. Null
   * while the column is not in that memory.
   */
  #block: ColumnBlock | null = null
  /** Two numbers: the value of `count`, and 1 if `isMirror` is true. The kernel changes them too. */
  #state: Int32Array = new Int32Array(2)
  // The value of the last row. It is compared first: consecutive rows often have the same value, and a comparison is
  // cheaper than hashing a text.
  #lastValue: unknown = undefined
  #lastId = 0

  constructor(key: string, capacity: number) {
    this.key = key
    this.ids = new Uint16Array(capacity)
  }

  /** The number of rows that have a value. */
  get count(): number {
    return this.#state[0] ?? 0
  }

  set count(count: number) {
    this.#state[0] = count
  }

  /** True if the column is a mirror so far: every value is the distinct_id of its row. `values` is then empty. */
  get isMirror(): boolean {
    return this.#state[1] === 1
  }

  set isMirror(isMirror: boolean) {
    this.#state[1] = isMirror ? 1 : 0
  }

  /** The distinct values of a dictionary. In a plain column, the values of the rows one after another. */
  get values(): readonly unknown[] {
    return this.isPlain ? this.#plain.list : this.#values
  }

  get valueCount(): number {
    return this.isPlain ? this.#plain.count : this.#values.length
  }

  /** In a plain column, the first value that is not null. Null if there is none. */
  get firstPlain(): unknown {
    return this.#plain.first
  }

  /**
   * Returns false if no text with this number of characters can be among the values. True means only that there may be
   * one, because the values are not read.
   */
  mayHold(characters: number): boolean {
    return !this.isPlain || this.#plain.mayHold(characters)
  }

  /** Makes room for rows up to `capacity`. */
  grow(capacity: number): void {
    if (this.#block === null || capacity > this.ids.length) this.ids = grown(this.ids, capacity)
  }

  /**
   * Moves the column into memory that it shares with the kernel, so that the kernel can fill it. Returns the address of
   * that memory, or 0 if no memory is available.
   */
  attach(cells: Pick<EventCells, 'takeBlock'>, rows: number): number {
    if (this.#block !== null) return this.#block.address
    const block = cells.takeBlock()
    if (block === null) return 0
    block.ids.set(this.ids.subarray(0, rows))
    block.codes.set(this.#idsByCode.subarray(0, this.#codesEnd))
    block.state.set(this.#state)
    this.ids = block.ids
    this.#idsByCode = block.codes
    this.#state = block.state
    this.#block = block
    return block.address
  }

  /**
   * Moves the column, with its first `rows` rows, out of the memory that it shares with the kernel, and releases that
   * memory.
   */
  detach(cells: Pick<EventCells, 'releaseBlock'>, rows: number): void {
    const block = this.#block
    if (block === null) return
    this.#block = null
    this.ids = block.ids.slice()
    this.#idsByCode = block.codes.slice(0, this.#codesEnd)
    this.#state = block.state.slice()
    block.ids.fill(0, 0, rows)
    block.codes.fill(0, 0, this.#codesEnd)
    block.state.fill(0)
    cells.releaseBlock(block)
  }

  /** Discards the contents, for the next segment. `rows` is the number of rows in the segment that ended. */
  reset(rows: number): void {
    if (this.count === 0 && this.valueCount === 0) return
    this.ids.fill(0, 0, rows)
    this.#values = []
    this.count = 0
    this.isPlain = false
    this.#mustStayDictionary = false
    this.#plain.reset()
    this.isMirror = false
    this.#lastValue = undefined
    this.#lookup.clear()
    this.#objects = null
    this.#clearCodes()
  }

  /** Sets the value of a row to any JSON value. Call it for the rows in ascending order. */
  put(row: number, value: unknown): void {
    if (typeof value === 'object' && value !== null) {
      this.#putObject(row, value)
      return
    }
    this.count++
    if (this.isPlain) {
      this.#plain.push(value)
      this.ids[row] = 1
      return
    }
    if (value === this.#lastValue) {
      this.ids[row] = this.#lastId
      return
    }
    let id = this.#lookup.get(value)
    const isNew = id === undefined
    if (id === undefined) {
      id = this.#values.push(value)
      this.#lookup.set(value, id)
    }
    this.ids[row] = id
    this.#lastValue = value
    this.#lastId = id
    if (isNew && id === PLAIN_DECISION_VALUES) this.#decide(row)
  }

  /** Sets the value of a row from a cell. `code` is the code that the kernel has given to the value, from 1 on. */
  putCell(row: number, cells: EventCells, cell: number, code: number): void {
    const known = this.#idsByCode[code] ?? 0
    if (known !== 0) {
      this.count++
      this.ids[row] = known
      return
    }
    this.put(row, cells.valueAt(cell))
    if (this.isPlain) return
    if (code >= this.#idsByCode.length) this.#idsByCode = grown(this.#idsByCode, code * 2 + 16)
    this.#idsByCode[code] = this.ids[row] ?? 0
    if (code >= this.#codesEnd) this.#codesEnd = code + 1
  }

  /**
   * Sets the value of a row from a cell that has no code. Returns false if the value cannot be copied from the cell.
   * The caller must then call `put` with the value.
   */
  putUncoded(row: number, cells: EventCells, cell: number): boolean {
    if (!this.isPlain || !cells.copyValue(cell, this.#plain)) return false
    this.count++
    this.ids[row] = 1
    return true
  }

  /** Chooses the encoding of the values. */
  plan(): ValuesPlan {
    return this.isPlain ? this.#plain.plan() : planValues(this.#values)
  }

  /** Writes the values in the encoding that `plan` has chosen. */
  write(writer: ByteWriter, plan: ValuesPlan): void {
    if (this.isPlain) this.#plain.write(writer, plan)
    else writeValues(writer, this.#values, plan)
  }

  /** Discards the codes of the values, because the kernel will give new ones. */
  forgetCodes(): void {
    this.#clearCodes()
  }

  /**
   * Sets the value of a row to a value that the column already has, given by its position. Must not be called for a
   * plain column or a mirror.
   */
  putKnown(row: number, id: number): void {
    this.count++
    this.ids[row] = id
  }

  /** Records that the value of a row is the distinct_id of that row. Call it only while `isMirror` is true. */
  putMirror(row: number): void {
    this.count++
    this.ids[row] = 1
  }

  /** Removes the value of the last row. */
  remove(row: number): void {
    if (this.ids[row] === 0) return
    this.ids[row] = 0
    this.count--
    if (this.isPlain) this.#plain.pop()
    // A column without any value may become a mirror. The kernel does not support mirrors, so discard the codes of the
    // column.
    if (this.count === 0) this.#clearCodes()
  }

  /** Turns a mirror of the distinct_ids into an ordinary column. */
  unmirror(rows: number, textOfRow: (row: number) => string): void {
    const ids = this.ids.slice(0, rows)
    this.isMirror = false
    this.count = 0
    for (let row = 0; row < rows; row++) if (ids[row] !== 0) this.put(row, textOfRow(row))
  }

  /**
   * Returns the position of a value, from 1 on. If the value is new, it is added, without a row that has it. Must not
   * be called for a plain column.
   */
  idOf(value: string): number {
    let id = this.#lookup.get(value)
    if (id === undefined) {
      id = this.#values.push(value)
      this.#lookup.set(value, id)
    }
    return id
  }

  /** Turns a dictionary into a plain list if nearly every row that has a value has a different one. */
  settle(rows: number): void {
    if (this.isPlain || this.isMirror || this.#values.length < PLAIN_DECISION_VALUES) return
    if (this.#isNearlyUnique(rows)) this.#makePlain(rows)
  }

  /**
   * Turns a plain list of `rows` rows back into a dictionary, which stays one until the segment ends. Call it before
   * adding values that repeat in many rows.
   */
  makeDictionary(rows: number): void {
    if (!this.isPlain) return
    const list = this.#plain.list
    const ids = this.ids.slice(0, rows)
    this.isPlain = false
    this.#mustStayDictionary = true
    this.#lastValue = undefined
    this.count = 0
    let next = 0
    for (let row = 0; row < rows; row++) if (ids[row] !== 0) this.put(row, list[next++])
    this.#plain.reset()
  }

  // Two objects are the same value if their JSON texts are equal.
  #putObject(row: number, value: object): void {
    const text = this.isPlain ? '' : jsonOf(value)
    this.count++
    if (this.isPlain) {
      this.#plain.push(value)
      this.ids[row] = 1
      return
    }
    this.#objects ??= new Map<string, number>()
    let id = this.#objects.get(text)
    if (id === undefined) {
      id = this.#values.push(value)
      this.#objects.set(text, id)
      this.ids[row] = id
      if (id === PLAIN_DECISION_VALUES) this.#decide(row)
      return
    }
    this.ids[row] = id
  }

  #decide(row: number): void {
    if (this.#isNearlyUnique(row + 1)) this.#makePlain(row + 1)
  }

  /**
   * Returns whether a list with one value for each row would be hardly larger than the dictionary. The bytes are
   * compared too, and not only the numbers of values: a list repeats a long text for each row that has it.
   */
  #isNearlyUnique(rows: number): boolean {
    const values = this.#values
    if (this.#mustStayDictionary || this.count * 8 > values.length * PLAIN_PARTS_PER_8) return false
    const sizes = values.map(valueBytes)
    let listBytes = 0
    for (let row = 0; row < rows; row++) listBytes += sizes[(this.ids[row] ?? 0) - 1] ?? 0
    const dictionaryBytes = sizes.reduce((sum, size) => sum + size, 0)
    return listBytes * 8 <= dictionaryBytes * PLAIN_PARTS_PER_8
  }

  #clearCodes(): void {
    this.#idsByCode.fill(0, 0, this.#codesEnd)
    this.#codesEnd = 0
  }

  #makePlain(rows: number): void {
    const { ids } = this
    const values = this.#values
    const plain: unknown[] = []
    for (let row = 0; row < rows; row++) {
      const id = ids[row] ?? 0
      if (id === 0) continue
      plain.push(values[id - 1])
      ids[row] = 1
    }
    this.#values = []
    this.#plain.begin(plain)
    this.isPlain = true
    this.#clearCodes()
    this.#lookup.clear()
    this.#objects = null
  }
}
