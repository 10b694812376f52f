/** Draws small charts with characters, for tables on a terminal. */
import type { JsonObject } from '../../base/json.ts'
import { BAR_COLUMNS_MAX } from '../limits.ts'
import type { CommandInput } from './command.ts'

const COLUMNS_DEFAULT = 80
const BAR_COLUMNS_MIN = 10
/** The character at index n fills n eighths of a column of the terminal. */
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'] as const
const HEIGHTS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const

/**
 * Returns a bar for a number. The largest number has a bar of `columns` characters, and a smaller one a proportionally
 * shorter bar.
 */
export function bar(value: number, largest: number, columns: number): string {
  if (!(value > 0) || !(largest > 0)) return ''
  // A small value must look different from zero.
  const eighths = Math.max(1, Math.round((Math.min(value, largest) / largest) * columns * 8))
  return '█'.repeat(eighths >> 3) + (EIGHTHS[eighths & 7] ?? '')
}

/**
 * Returns a small column chart: one character for each share from 0 to 1. If there are too many shares, each character
 * stands for several neighboring shares and shows the largest of them.
 */
export function heights(shares: readonly number[]): string {
  const last = HEIGHTS.length - 1
  const step = (share: number): number => Math.min(last, Math.max(0, Math.round(share * last)))
  const width = Math.ceil(shares.length / BAR_COLUMNS_MAX)
  let text = ''
  for (let start = 0; start < shares.length; start += width) {
    text += HEIGHTS[step(Math.max(...shares.slice(start, start + width)))] ?? ''
  }
  return text
}

/** Adds a bar for the value in `column` to each row, if the rows are printed on a terminal and have this column. */
export function withBars(
  { io, isJson }: CommandInput,
  rows: readonly JsonObject[],
  column: string,
): readonly JsonObject[] {
  if (isJson || !io.machine.isTerminal || !Object.hasOwn(rows[0] ?? {}, column)) return rows
  const numbers = rows.map((row) => Number(row[column] ?? 0))
  const largest = Math.max(0, ...numbers)
  const columns = barColumns(rows, io.terminalColumns ?? COLUMNS_DEFAULT)
  return rows.map((row, index) => {
    return { ...row, chart: bar(numbers[index] ?? 0, largest, columns) }
  })
}

/** Returns the number of terminal columns that are left for bars. */
function barColumns(rows: readonly JsonObject[], terminalColumns: number): number {
  const names = Object.keys(rows[0] ?? {})
  const widths = names.map((name) =>
    Math.max(name.length, ...rows.map((row) => String(row[name] ?? '').length)),
  )
  const left = terminalColumns - widths.reduce((sum, width) => sum + width + 2, 0)
  return Math.min(BAR_COLUMNS_MAX, Math.max(BAR_COLUMNS_MIN, left))
}
