/** How large a JSON value is, roughly: what counts when memory is divided, without making its text. */

/** A number, a boolean or null: what it takes in memory. */
const SCALAR_BYTES = 8
/** Braces, quotes and commas around what a value consists of. */
const AROUND_BYTES = 4

/** The size of a JSON value in bytes of its text, where one character counts as one byte. */
export function valueBytes(value: unknown): number {
  if (typeof value === 'string') return value.length + AROUND_BYTES
  if (typeof value !== 'object' || value === null) return SCALAR_BYTES
  let bytes = AROUND_BYTES
  // Not recursive: a value may be nested as deep as a body allows.
  const open: object[] = [value]
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    for (const [key, own] of Object.entries(part) as [string, unknown][]) {
      bytes += key.length + AROUND_BYTES
      if (typeof own === 'string') bytes += own.length
      else if (typeof own === 'object' && own !== null) open.push(own)
      else bytes += SCALAR_BYTES
    }
  }
  return bytes
}
