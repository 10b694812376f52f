/** Estimates the memory of a JSON value without creating its text. */

/** The number of bytes that a number, a boolean or null is estimated to take. */
const SCALAR_BYTES = 8
/** The number of bytes that the braces, quotes and commas around a value are estimated to take. */
const AROUND_BYTES = 4

/** Returns the approximate number of bytes of a value's JSON text. Each character counts as one byte. */
export function valueBytes(value: unknown): number {
  if (typeof value === 'string') return value.length + AROUND_BYTES
  if (typeof value !== 'object' || value === null) return SCALAR_BYTES
  let bytes = AROUND_BYTES
  // This is a loop and not a recursion, because values may be nested as deeply as a request body allows.
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
