/** How commands print: aligned columns for people, one JSON object a line for programs. */

import { CELL_CHARACTERS_MAX } from '../limits.ts'
import type { CommandIo } from './command.ts'

/** One row: names in snake_case, in the order of printing. */
export type Row = Readonly<Record<string, unknown>>

// Control characters, and what changes the direction of text: a stored name must not steer a terminal.
const UNPRINTABLE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu

/** Prints rows below their names, or as JSON lines. */
export function printRows(io: CommandIo, rows: readonly Row[], isJson: boolean): void {
  if (isJson) {
    for (const row of rows) io.out(`${JSON.stringify(row)}\n`)
    return
  }
  const [first] = rows
  if (first === undefined) return
  const names = Object.keys(first)
  const lines = [names, ...rows.map((row) => names.map((name) => cell(row[name])))]
  const widths = names.map((_, column) =>
    Math.max(...lines.map((line) => line[column]?.length ?? 0)),
  )
  for (const line of lines) {
    const padded = line.map((text, column) => text.padEnd(widths[column] ?? 0))
    io.out(`${padded.join('  ').trimEnd()}\n`)
  }
}

/** Prints one row with a line for each value, or as one JSON line. */
export function printRecord(io: CommandIo, row: Row, isJson: boolean): void {
  if (isJson) {
    io.out(`${JSON.stringify(row)}\n`)
    return
  }
  const width = Math.max(...Object.keys(row).map((name) => name.length))
  for (const [name, value] of Object.entries(row)) {
    io.out(`${name.padEnd(width)}  ${printable(textOf(value))}\n`)
  }
}

/** A text without anything that a terminal would obey. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, '\ufffd')
}

/** ISO 8601, UTC; '' for null. */
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
