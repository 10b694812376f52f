/** Writes rows as CSV (RFC 4180). */

/** The most rows of a file. Larger lists are exported with the command line or the API. */
export const CSV_ROWS_MAX = 10_000
/** The most cells of a file, as in the daemon's own tables. Rows of events can each bring columns of their own. */
const CSV_CELLS_MAX = 5_000_000

/**
 * Matches the start of a formula. Like the daemon's own tables, it covers full-width signs, and characters that a
 * spreadsheet ignores before a sign.
 */
const FORMULA_START = /^(?:[\t\r\n]|[\p{C}\p{Z}\p{DI}\u2800]*[=+\-@＝＋－＠﹦﹢﹣﹫−])/u
const NUMBER = /^ *[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/

/**
 * Returns rows as CSV, with a column for every name that occurs in any row. As in the daemon's own tables, a nested
 * value has a column of its own, which is named by its path: `properties.plan`. Lists stay JSON.
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

/** Returns a CSV cell. A value that a spreadsheet would run as a formula gets a quote before it. */
function csvCell(value: unknown): string {
  const words = typeof value === 'string' ? value : JSON.stringify(value ?? '').replace(/^""$/, '')
  const safe = FORMULA_START.test(words) && !NUMBER.test(words) ? `'${words}` : words
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
