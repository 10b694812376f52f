/**
 * Lists of objects as comma-separated values (RFC 4180). Nested values become columns of their own, named by their
 * path. Source: docs/compatibility/api.md, "CSV".
 */
import { ServiceError } from './errors.ts'
import { TABLE_CELLS_MAX, TABLE_HEADER_BYTES_MAX } from './limits.ts'

/** The content type of CSV answers. */
export const CSV_TYPE = 'text/csv; charset=utf-8'

const NEEDS_QUOTES = /[",\r\n]/
/**
 * A text that spreadsheets read as a formula. Some programs ignore blanks at the start of a cell, and treat the
 * full-width sign `＝` or the small sign `﹦` as `=`.
 */
const FORMULA_START = /^(?:[\t\r\n]|[\p{C}\p{Z}\p{DI}\u2800]*[=+\-@＝＋－＠﹦﹢﹣﹫−])/u
const BLANKS_AT_START = /^ +/
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/

/**
 * Returns a header line and one line for each object, or '' if there are no columns. Columns are sorted by name. Throws
 * 400 `invalid_input` if the table has too many cells. Cost: linear in the number of cells.
 */
export function toCsv(rows: readonly object[]): string {
  const columns = new TableColumns()
  const flatRows = rows.map((row) => flatRow(row))
  for (const flat of flatRows) columns.add(flat.keys(), rows.length)
  const names = columns.sorted()
  if (names.length === 0) return ''
  return [names, ...flatRows.map((flat) => names.map((name) => flat.get(name) ?? ''))]
    .map(csvLine)
    .join('')
}

/** Collects the column names of a table while its rows are read. */
export class TableColumns {
  readonly #names: Set<string>
  #bytes = 0

  constructor(names: readonly string[] = []) {
    this.#names = new Set(names)
    for (const name of names) this.#bytes += name.length
  }

  /** Adds the columns of a row. Throws 400 `invalid_input` if a table of `rowCount` rows has too many cells. */
  add(names: Iterable<string>, rowCount: number): void {
    for (const name of names) {
      if (this.#names.has(name)) continue
      this.#names.add(name)
      this.#bytes += name.length
    }
    const isTooLarge =
      this.#names.size * rowCount > TABLE_CELLS_MAX || this.#bytes > TABLE_HEADER_BYTES_MAX
    if (isTooLarge) throw tooManyCells()
  }

  sorted(): readonly string[] {
    return [...this.#names].sort()
  }
}

/** Returns the cells of a row by the names of their columns. */
export function flatRow(row: object): ReadonlyMap<string, string> {
  const flat = new Map<string, string>()
  flatten(row, '', flat, new Map())
  return flat
}

/** Returns a line of cells, including its line end. */
export function csvLine(cells: readonly string[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

/**
 * Returns one cell. If a spreadsheet would read the text as a formula, the cell begins with an apostrophe, because
 * anybody on the internet can send properties and their names. Numbers stay unchanged.
 */
export function csvCell(text: string): string {
  const guarded = isFormula(text) ? `'${text}` : text
  return NEEDS_QUOTES.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded
}

function isFormula(text: string): boolean {
  return FORMULA_START.test(text) && !NUMBER.test(text.replace(BLANKS_AT_START, ''))
}

/**
 * For each name that a row has more than once, the number that the next value of this name gets: 3 after `name (2)`.
 */
type NextNumbers = Map<string, number>

/** Adds each value inside `value` to `flat`, under its path. The recursion is as deep as the JSON is nested. */
function flatten(
  value: unknown,
  name: string,
  flat: Map<string, string>,
  numbers: NextNumbers,
): void {
  if (typeof value === 'object' && value !== null) {
    const prefix = name === '' ? '' : `${name}.`
    for (const [key, member] of Object.entries(value)) flatten(member, prefix + key, flat, numbers)
    return
  }
  if (value !== undefined) flat.set(freeName(name, flat, numbers), textOf(value))
}

/**
 * Returns the name if the row has no value of this name yet. Otherwise, returns the name with a number, as in `a.b
 * (2)`. For example, the key `a.b` and the key `b` inside `a` have the same name. Anybody can send an event with
 * thousands of equal names, so the search for a free number begins after the last number that was given to the name.
 */
function freeName(name: string, flat: ReadonlyMap<string, string>, numbers: NextNumbers): string {
  if (!flat.has(name)) return name
  let number = numbers.get(name) ?? 2
  while (flat.has(`${name} (${number})`)) number++
  numbers.set(name, number + 1)
  return `${name} (${number})`
}

function textOf(value: unknown): string {
  if (value === null) return ''
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  return String(value)
}

function tooManyCells(): ServiceError {
  const detail = `The table would have more than ${TABLE_CELLS_MAX} cells. Request fewer rows, or JSON.`
  return new ServiceError('invalid_input', detail, { attr: 'format' })
}

/**
 * Returns the records of a table, each as a list of cells with all their blanks. Throws 400 `invalid_input` with `attr`
 * if a quoted cell has no closing quote, or if other text follows its closing quote. In both cases a quote is probably
 * missing, and the cell may have swallowed the lines after it. Cost: linear in the text.
 */
export function* csvRecords(
  text: string,
  separator: string,
  attr: string,
): Generator<readonly string[]> {
  let position = text.startsWith('\ufeff') ? 1 : 0
  let cells: string[] = []
  while (position < text.length) {
    const { cell, end } = readCell(text, position, separator, attr)
    cells.push(cell)
    position = end + 1
    if (text[end] === separator) continue
    if (text[end] === '\r' && text[position] === '\n') position++
    yield cells
    cells = []
  }
  if (cells.length > 0) yield cells
}

/** Returns a cell, and the position of the separator or line break after it. */
function readCell(
  text: string,
  start: number,
  separator: string,
  attr: string,
): { cell: string; end: number } {
  const isEnd = (sign: string | undefined): boolean =>
    sign === undefined || sign === separator || sign === '\n' || sign === '\r'
  const isQuoted = text[start] === '"'
  let quote = start
  if (isQuoted) {
    do {
      quote = text.indexOf('"', quote + 1)
      if (quote < 0)
        throw new ServiceError('invalid_input', 'A quoted cell has no closing quote.', { attr })
      if (text[quote + 1] === '"') quote++
      else break
    } while (quote < text.length)
  }
  let end = isQuoted ? quote + 1 : start
  while (!isEnd(text[end])) end++
  if (!isQuoted) return { cell: text.slice(start, end), end }
  if (text.slice(quote + 1, end).trim() !== '') {
    const line = text.slice(0, start).split('\n').length
    const detail = `Line ${line} has a quoted cell that goes on after its closing quote.`
    throw new ServiceError('invalid_input', detail, { attr })
  }
  return { cell: text.slice(start + 1, quote).replaceAll('""', '"'), end }
}

/** Returns the text that `csvCell` put an apostrophe in front of, or null if the cell has no such apostrophe. */
export function unguardedCell(cell: string): string | null {
  if (!cell.startsWith("'")) return null
  const text = cell.slice(1)
  return isFormula(text) ? text : null
}

/** A record of a table, or the reason why a line is not a record. */
export interface CsvRecord {
  readonly cells: readonly string[]
  /** The number of the line on which the record begins, from 1, and how many lines the record has. */
  readonly line: number
  readonly lineCount: number
  /** The reason why the line is not a record. Null if it is one. */
  readonly fault: string | null
}

const NO_CELLS: readonly string[] = []

/**
 * Parses a table that arrives in parts. A record may start in one part and end in a later one. A quoted cell may
 * contain line breaks only if the record is well formed: each quoted cell ends with a quote before a comma or line end,
 * and the record has as many cells as the header. Otherwise a quote was never closed: only the line with that quote is
 * reported as a fault, and parsing continues on the next line.
 */
export class CsvReader {
  readonly #charactersMax: number
  #rest = ''
  #line = 1
  #columns = 0

  /** If a record is longer than `charactersMax`, it is treated like a record with a quote that was never closed. */
  constructor(charactersMax = Number.POSITIVE_INFINITY) {
    this.#charactersMax = charactersMax
  }

  /** Whether a record has begun whose end has not arrived yet. */
  get isWaiting(): boolean {
    return this.#rest !== ''
  }

  /** Yields the records that end in `chunk`. `isLast` is true for the last part of the table. */
  *records(chunk: string, isLast = false): Generator<CsvRecord> {
    let text = this.#rest + chunk
    if (this.#line === 1 && text.startsWith('\ufeff')) text = text.slice(1)
    const isCut = isLast && text !== '' && !text.endsWith('\n')
    if (isCut) text += '\n'
    let start = 0
    while (start < text.length) {
      const found = readRecord(text, start)
      const isWaiting = found === null && !isLast && text.length - start <= this.#charactersMax
      if (isWaiting) break
      if (found === null || !this.#isWhole(found)) {
        const lineFeed = text.indexOf('\n', start)
        if (lineFeed < 0) break
        const fault = 'a quoted cell in it has no closing quote'
        start = lineFeed + 1
        yield { cells: NO_CELLS, line: this.#line++, lineCount: 1, fault }
        continue
      }
      const { cells, lineCount, end } = found
      if (this.#columns === 0) this.#columns = cells.length
      const isAtEnd = isCut && end === text.length
      const fault = this.#faultOf(cells, isAtEnd)
      yield { cells, line: this.#line, lineCount, fault }
      this.#line += lineCount
      start = end
    }
    this.#rest = text.slice(start)
  }

  /**
   * Returns the fault of a record with these cells, or null if there is none. A record with too few cells may be the
   * first half of a record that was broken at a line break, so it is a fault, too. A blank line is not a fault.
   * `isLast` is true for a record that the end of the file cuts off.
   */
  #faultOf(cells: readonly string[], isLast: boolean): string | null {
    if (cells.length > this.#columns) return 'it has more cells than the header'
    const isBlank = cells.length === 1 && cells[0]?.trim() === ''
    if (cells.length === this.#columns || isBlank) return null
    return isLast ? 'the file ends in the middle of it' : 'it has fewer cells than the header'
  }

  #isWhole({ cells, lineCount, isStrict }: FoundRecord): boolean {
    if (lineCount === 1) return true
    return isStrict && (this.#columns === 0 || cells.length === this.#columns)
  }
}

interface FoundRecord {
  readonly cells: readonly string[]
  readonly lineCount: number
  /** True if each quoted cell ends with a quote. */
  readonly isStrict: boolean
  /** The offset of the next record. */
  readonly end: number
}

/** Returns the record that begins at `start`, or null if its end has not arrived yet. */
function readRecord(text: string, start: number): FoundRecord | null {
  const cells: string[] = []
  let isStrict = true
  for (let position = start; ; ) {
    const end = cellEnd(text, position)
    if (end === null) return null
    const cell = text.slice(position, end)
    if (cell.startsWith('"') && !isQuoted(cell)) isStrict = false
    cells.push(cellText(cell))
    position = end + 1
    if (text[end] === ',') continue
    let lineCount = 1
    for (let at = text.indexOf('\n', start); at < end; at = text.indexOf('\n', at + 1)) lineCount++
    return { cells, lineCount, isStrict, end: position }
  }
}

/** Tests whether a cell is a single quoted text and nothing else. */
function isQuoted(cell: string): boolean {
  const text = cell.endsWith('\r') ? cell.slice(0, -1) : cell
  if (text.length < 2 || !text.endsWith('"')) return false
  const inner = text.slice(1, -1)
  return !(inner.includes('"') && inner.replaceAll('""', '').includes('"'))
}

/** Returns the offset of the comma or line feed after a cell, or null if it has not arrived yet. */
function cellEnd(text: string, start: number): number | null {
  let position = start
  if (text[start] === '"') {
    do {
      const quote = text.indexOf('"', position + 1)
      if (quote < 0) return null
      position = quote + 1
    } while (text[position] === '"')
  }
  while (position < text.length && text[position] !== ',' && text[position] !== '\n') position++
  return position < text.length ? position : null
}

function cellText(cell: string): string {
  const text = cell.endsWith('\r') ? cell.slice(0, -1) : cell
  const isQuoted = text.length > 1 && text.startsWith('"') && text.endsWith('"')
  return isQuoted ? text.slice(1, -1).replaceAll('""', '"') : text
}
