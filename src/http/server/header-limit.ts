/**
 * Sets how many bytes of request line and headers uWebSockets.js reads. The library looks at the
 * environment once, when it is loaded: import this file before it. An operator's own value wins.
 */
import { HEADER_BYTES_MAX } from '../../base/limits.ts'

const VARIABLE = 'UWS_HTTP_MAX_HEADERS_SIZE'

process.env[VARIABLE] ??= String(HEADER_BYTES_MAX)

/** The same limit for libraries that have to be told. */
export function headerBytesMax(): number {
  const bytes = Number(process.env[VARIABLE])
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : HEADER_BYTES_MAX
}
