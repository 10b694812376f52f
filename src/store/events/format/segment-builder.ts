/**
 * A segment that is being filled in memory. Each project that got events since the last commit has a builder. The
 * builder's memory is reused for the next segment of the project.
 */

import { grown } from '../../../rules/analytics/growing-arrays.ts'
import {
  type ColumnBlock,
  type EventCells,
  type NormalizedEvent,
  PERSON_MODES,
  type PersonMode,
} from '../../../rules/capture/types.ts'
import { SEGMENT_COLUMN_KEY_BYTES_MAX, SEGMENT_COLUMNS_MAX } from '../limits.ts'
import { ColumnBuilder } from './column-builder.ts'

/** The number of rows of a full segment. */
export const SEGMENT_ROWS_TARGET = 8192
/**
 * A segment whose properties have this number of bytes is full, whatever its number of rows. Reading one event decodes
 * whole columns, so larger segments would make that slow.
 */
export const SEGMENT_BYTES_TARGET = 32 * 1024 * 1024
const CAPACITY_FIRST = 128
/** Added to the stored person mode (`PersonMode` in rules/capture/types.ts) of a row if its event is historical. */
const MODE_HISTORICAL = 4

/** Returns the byte that stores two facts about a row: its person mode, and whether its event is historical. */
export function modeByte(mode: PersonMode, isHistorical: boolean): number {
  return PERSON_MODES.indexOf(mode) + (isHistorical ? MODE_HISTORICAL : 0)
}

/** Returns the person mode that a mode byte stores. */
export function personModeOf(byte: number): PersonMode {
  return PERSON_MODES[byte & (MODE_HISTORICAL - 1)] ?? 'full'
}

/** Returns whether a mode byte marks a historical event. */
export function isHistoricalMode(byte: number): boolean {
  return (byte & MODE_HISTORICAL) !== 0
}

/** Collects rows and stores them by column. */
export class SegmentBuilder {
  rows = 0
  /** The number of bytes of all events in the segment, as JSON. `ProcessingWriter.append` adds to it. */
  bytes = 0
  timestamps = new Float64Array(CAPACITY_FIRST)
  arrivals = new Float64Array(CAPACITY_FIRST)
  distinctIds = new Uint32Array(CAPACITY_FIRST)
  modes = new Uint8Array(CAPACITY_FIRST)
  uuids = new Uint8Array(CAPACITY_FIRST * 16)
  names = new ColumnBuilder('', CAPACITY_FIRST)
  elements = new ColumnBuilder('', CAPACITY_FIRST)
  rest = new ColumnBuilder('', CAPACITY_FIRST)
  columns = new Map<string, ColumnBuilder>()
  readonly #textOf: (distinctId: number) => string
  #capacity = CAPACITY_FIRST
  /**
   * The columns of the last event's properties, in the order in which that event had them. Most events have the same
   * keys in the same order, so the columns of the next event are found without a lookup.
   */
  #order: ColumnBuilder[] = []
  /** The columns, by the numbers that the kernel (rules/capture/kernel/) has given to their keys. */
  #byKey: (ColumnBuilder | undefined)[] = []
  #epoch = -1
  #cells: EventCells | null = null
  /**
   * The memory in which the kernel (rules/capture/kernel/) finds the columns that it may fill. Null if the kernel must
   * not fill any column.
   */
  #table: ColumnBlock | null = null

  /** `textOf` returns the text of a distinct ID number of the project. */
  constructor(textOf: (distinctId: number) => string) {
    this.#textOf = textOf
  }

  /** Begins the next row. The caller then sets its values in `names`, in the columns of `columnOf`, and so on. */
  beginRow(
    distinctId: number,
    timestampMs: number,
    arrivedAtMs: number,
    mode: number,
    uuidBytes: Uint8Array,
    uuidOffset: number,
  ): number {
    const row = this.rows
    if (row === this.#capacity) this.#grow()
    this.rows = row + 1
    this.distinctIds[row] = distinctId
    this.timestamps[row] = timestampMs
    this.arrivals[row] = arrivedAtMs
    this.modes[row] = mode
    const { uuids } = this
    const start = row * 16
    for (let index = 0; index < 16; index++)
      uuids[start + index] = uuidBytes[uuidOffset + index] ?? 0
    return row
  }

  /** Sets the event name of a row. `nameId` is the position of the name in `names.values`, from 1 on. */
  setName(row: number, nameId: number): void {
    this.names.ids[row] = nameId
    this.names.count++
  }

  /** Sets the properties and elements of the newest row. */
  putEvent(row: number, event: NormalizedEvent): void {
    if (event.elementsChain !== '') this.elements.put(row, event.elementsChain)
    const { properties } = event
    const order = this.#order
    let position = 0
    let rest: Record<string, unknown> | null = null
    // `for in` is safe here, because objects from JSON inherit no enumerable keys. It is used because it creates no
    // array of keys.
    for (const key in properties) {
      const value = properties[key]
      if (value === undefined) continue
      let column = order[position]
      if (column === undefined || column.key !== key) {
        const found = this.#columnAt(position, key)
        if (found === null) {
          rest ??= {}
          addOwn(rest, key, value)
          continue
        }
        column = found
      }
      position++
      this.#putValue(column, row, value, event)
    }
    if (rest !== null) this.rest.put(row, rest)
  }

  /** Sets the properties and elements of the newest row from an event that was read into cells. */
  putCells(row: number, event: NormalizedEvent, cells: EventCells): void {
    if (event.elementsChain !== '') this.elements.put(row, event.elementsChain)
    if (cells.epoch !== this.#epoch || cells !== this.#cells) this.#beginEpoch(cells)
    const byKey = this.#byKey
    let rest: Record<string, unknown> | null = null
    const left = cells.fill(this.#table, row)
    for (let index = 0; index < left; index++) {
      const cell = cells.leftAt(index)
      const key = cells.keyAt(cell)
      const column = byKey[key] ?? this.#columnOfKey(key, cells)
      if (column === null) {
        rest ??= {}
        addOwn(rest, cells.nameOfKey(key), cells.valueAt(cell))
        continue
      }
      const code = cells.codeAt(cell)
      const mayMirror = column.isMirror || column.count === 0
      if (code > 0 && !mayMirror) column.putCell(row, cells, cell, code)
      else if (code <= 0 && !mayMirror && column.putUncoded(row, cells, cell)) continue
      else if (mayMirror && cells.isId(cell)) {
        column.isMirror = true
        column.putMirror(row)
      } else this.#putValue(column, row, cells.valueAt(cell), event)
    }
    for (let index = 0; index < cells.addedCount; index++) {
      const name = cells.addedNames[index] ?? ''
      const column = this.columnOf(name)
      const value = cells.addedValues[index]
      if (column === null) {
        rest ??= {}
        addOwn(rest, name, value)
      } else this.#putValue(column, row, value, event)
    }
    if (rest !== null) this.rest.put(row, rest)
  }

  /** Removes the newest row, even if only some of its values are set. */
  abandonRow(): void {
    const row = this.rows - 1
    for (const column of [this.names, this.elements, this.rest]) column.remove(row)
    for (const column of this.columns.values()) column.remove(row)
    this.rows = row
  }

  /** Returns the column of a property. Returns null if the property gets no column of its own and must share one. */
  columnOf(key: string): ColumnBuilder | null {
    const known = this.columns.get(key)
    if (known !== undefined) return known
    if (this.columns.size >= SEGMENT_COLUMNS_MAX) return null
    if (
      key.length * 3 > SEGMENT_COLUMN_KEY_BYTES_MAX &&
      Buffer.byteLength(key) > SEGMENT_COLUMN_KEY_BYTES_MAX
    ) {
      return null
    }
    const column = new ColumnBuilder(key, this.#capacity)
    this.columns.set(key, column)
    return column
  }

  readonly textOfRow = (row: number): string => this.#textOf(this.distinctIds[row] ?? 0)

  /**
   * Turns a mirror (column-builder.ts) into an ordinary column. `rows` is the number of rows before the one that is
   * being added.
   */
  unmirror(column: ColumnBuilder, rows: number): void {
    column.unmirror(rows, this.textOfRow)
  }

  /** Discards all rows, and keeps the columns and their memory for the next segment. */
  reset(): void {
    const { rows } = this
    this.names.reset(rows)
    this.elements.reset(rows)
    this.rest.reset(rows)
    // The number of columns is limited. When more than half of the limit is used, remove the columns that the last
    // segment did not use, to make room for others.
    const isCrowded = this.columns.size > SEGMENT_COLUMNS_MAX / 2
    for (const [key, column] of this.columns) {
      if (isCrowded && column.count === 0) {
        if (this.#cells !== null) column.detach(this.#cells, rows)
        this.columns.delete(key)
      } else column.reset(rows)
    }
    if (isCrowded) {
      this.#order = []
      this.#forgetKeys()
    }
    this.rows = 0
    this.bytes = 0
  }

  #putValue(column: ColumnBuilder, row: number, value: unknown, event: NormalizedEvent): void {
    if ((column.isMirror || column.count === 0) && value === event.distinctId) {
      column.isMirror = true
      column.putMirror(row)
      return
    }
    if (column.isMirror) column.unmirror(row, this.textOfRow)
    column.put(row, value)
  }

  /**
   * Moves the columns out of the memory that they share with the kernel (rules/capture/kernel/), and releases that
   * memory.
   */
  release(): void {
    const cells = this.#cells
    if (cells === null) return
    for (const column of this.columns.values()) column.detach(cells, this.rows)
    this.#forgetKeys()
    if (this.#table !== null) cells.releaseBlock(this.#table)
    this.#table = null
  }

  #columnOfKey(key: number, cells: EventCells): ColumnBuilder | null {
    const column = this.columnOf(cells.nameOfKey(key))
    if (column === null) return null
    this.#byKey[key] = column
    if (this.#table !== null) this.#table.columns[key] = column.attach(cells, this.rows)
    return column
  }

  #beginEpoch(cells: EventCells): void {
    if (this.#cells !== cells) this.release()
    this.#cells = cells
    this.#epoch = cells.epoch
    this.#forgetKeys()
    for (const column of this.columns.values()) column.forgetCodes()
  }

  #forgetKeys(): void {
    this.#byKey = []
    this.#table?.columns.fill(0)
  }

  #columnAt(position: number, key: string): ColumnBuilder | null {
    const column = this.columnOf(key)
    if (column !== null) this.#order[position] = column
    return column
  }

  #grow(): void {
    const capacity = this.#capacity * 2
    this.#capacity = capacity
    this.timestamps = grown(this.timestamps, capacity)
    this.arrivals = grown(this.arrivals, capacity)
    this.distinctIds = grown(this.distinctIds, capacity)
    this.modes = grown(this.modes, capacity)
    this.uuids = grown(this.uuids, capacity * 16)
    for (const column of [this.names, this.elements, this.rest]) column.grow(capacity)
    const cells = this.#cells
    const isFitting = cells !== null && capacity <= cells.blockRows
    if (!isFitting) this.release()
    for (const column of this.columns.values()) column.grow(capacity)
    if (!isFitting || this.#table !== null) return
    // If there are only a few rows, moving the columns into the memory of the kernel (rules/capture/kernel/) costs more
    // than it saves.
    this.#forgetKeys()
    this.#table = cells.takeBlock()
  }
}

/** Sets a property on the object itself, even if its name is `__proto__` or that of another inherited member. */
export function addOwn(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    })
  } else target[key] = value
}
