/** Prints the output of commands: aligned columns for people, one JSON object per line for programs. */
import { csvLine, flatRow } from '../../base/csv.ts'
import { CELL_CHARACTERS_MAX } from '../limits.ts'
import type { CommandIo } from './command.ts'

// Matches control characters and characters that change the direction of text. A stored name must not control the
// terminal.
const UNPRINTABLE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu

/**
 * Prints a record with one line for each value, or rows as a table with a header. If `isJson` is true, prints one line
 * of JSON for the record or for each row instead. The names of values are in snake_case, and the values are printed in
 * the order of the record.
 */
export function print(io: CommandIo, printed: object, isJson: boolean): void {
  if (isJson) for (const row of listOf(printed)) io.out(`${JSON.stringify(row)}\n`)
  else if (Array.isArray(printed)) printTable(io, listOf(printed))
  else printRecord(io, printed)
}

/**
 * Prints rows as comma-separated values, after a header with the names of all columns. Columns are in the order in
 * which their names first appear in the rows.
 */
export function printCsv(io: CommandIo, rows: readonly object[]): void {
  const cells = rows.map(flatRow)
  const names = [...new Set(cells.flatMap((row) => [...row.keys()]))]
  if (names.length > 0) io.out(csvLine(names))
  for (const row of cells) io.out(csvLine(names.map((name) => row.get(name) ?? '')))
}

function listOf(printed: object): readonly object[] {
  const rows: readonly object[] = Array.isArray(printed) ? printed : [printed]
  return rows
}

function printTable(io: CommandIo, rows: readonly object[]): void {
  const names = Object.keys(rows[0] ?? {})
  if (names.length === 0) return
  const cells = rows.map((row) => new Map(Object.entries(row)))
  const lines = [names, ...cells.map((row) => names.map((name) => cell(row.get(name))))]
  const widths = names.map((_, column) =>
    Math.max(...lines.map((line) => line[column]?.length ?? 0)),
  )
  for (const line of lines) {
    const padded = line.map((text, column) => text.padEnd(widths[column] ?? 0))
    io.out(`${padded.join('  ').trimEnd()}\n`)
  }
}

function printRecord(io: CommandIo, record: object): void {
  const width = Math.max(...Object.keys(record).map((name) => name.length))
  for (const [name, value] of Object.entries(record)) {
    io.out(`${name.padEnd(width)}  ${printable(textOf(value))}\n`)
  }
}

/** Returns indented JSON without control characters. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value, null, 2).split('\n').map(printable).join('\n')
}

/** Replaces the characters of a text that could control a terminal. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, '\ufffd')
}

/** Formats a time in milliseconds as ISO 8601 in UTC. Returns '' for null. */
export function isoTime(timeMs: number | null): string {
  return timeMs === null ? '' : new Date(timeMs).toISOString()
}

function cell(value: unknown): string {
  const text = printable(textOf(value))
  return text.length > CELL_CHARACTERS_MAX ? `${text.slice(0, CELL_CHARACTERS_MAX - 3)}...` : text
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'string' ? value : JSON.stringify(value)
}
