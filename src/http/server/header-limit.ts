/**
 * Sets how many bytes of request line and headers uWebSockets.js reads. The library reads the environment variable
 * once, when it is loaded, so import this file before the library. A value that the operator has set is kept.
 */
import { HEADER_BYTES_MAX } from '../../base/limits.ts'

const VARIABLE = 'UWS_HTTP_MAX_HEADERS_SIZE'

process.env[VARIABLE] ??= String(HEADER_BYTES_MAX)

/** Returns the same limit, for libraries that take it as an option. */
export function headerBytesMax(): number {
  const bytes = Number(process.env[VARIABLE])
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : HEADER_BYTES_MAX
}
