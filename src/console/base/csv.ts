/** Writes rows as CSV (RFC 4180). */

/** The most rows of a file. For larger lists, readers must use the command line or the API. */
export const CSV_ROWS_MAX = 10_000
/**
 * The most cells of a file, the same as in the CSV tables of the daemon. A limit is needed because each row of a list
 * of events can add columns.
 */
const CSV_CELLS_MAX = 5_000_000

/**
 * Matches the start of a formula. As in the CSV tables of the daemon, this includes full-width signs, and characters
 * that a spreadsheet ignores before a sign.
 */
const FORMULA_START = /^(?:[\t\r\n]|[\p{C}\p{Z}\p{DI}\u2800]*[=+\-@＝＋－＠﹦﹢﹣﹫−])/u
const NUMBER = /^ *[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/

/**
 * Returns rows as CSV, with a column for each name that occurs in at least one row. As in the CSV tables of the daemon,
 * a nested value gets a column of its own, which is named by its path, such as `properties.plan`. A list stays one cell
 * with JSON.
 */
export function csvOf(rows: readonly object[]): string {
  const flat = rows.map((row) => new Map(cellsOf(row, '')))
  const head = [...new Set(flat.flatMap((cells) => [...cells.keys()]))]
  if (head.length * flat.length > CSV_CELLS_MAX) {
    throw new Error('The file would have too many cells. Use the command line or the API instead.')
  }
  const lines = flat.map((cells) => head.map((name) => cells.get(name)))
  return [head, ...lines].map((cells) => `${cells.map(csvCell).join(',')}\r\n`).join('')
}

function cellsOf(value: object, path: string): (readonly [name: string, value: unknown])[] {
  return Object.entries(value).flatMap(([key, member]: [string, unknown]) => {
    const isNested = typeof member === 'object' && member !== null && !Array.isArray(member)
    return isNested ? cellsOf(member, `${path}${key}.`) : [[path + key, member] as const]
  })
}

/**
 * Returns a value as a CSV cell. If a spreadsheet would run the value as a formula, the cell begins with an apostrophe.
 */
function csvCell(value: unknown): string {
  const words = typeof value === 'string' ? value : JSON.stringify(value ?? '').replace(/^""$/, '')
  const safe = FORMULA_START.test(words) && !NUMBER.test(words) ? `'${words}` : words
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
