/**
 * Sets how many bytes of request line and headers uWebSockets.js accepts. The library reads an environment variable
 * when it is loaded, so this file must be imported before the library. If the operator has set the variable, its value
 * is kept.
 */
import { HEADER_BYTES_MAX } from '../../base/limits.ts'

const VARIABLE = 'UWS_HTTP_MAX_HEADERS_SIZE'

process.env[VARIABLE] ??= String(HEADER_BYTES_MAX)

/** Returns the limit for libraries that take it as an option. */
export function headerBytesMax(): number {
  const bytes = Number(process.env[VARIABLE])
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : HEADER_BYTES_MAX
}
