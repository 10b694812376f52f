/**
 * Sets how many bytes of request line and headers uWebSockets.js reads. The library looks at the
 * environment once, when it is loaded: import this file before it. An operator's own value wins.
 */
import { HEADER_BYTES_MAX } from '../../base/limits.ts'

process.env['UWS_HTTP_MAX_HEADERS_SIZE'] ??= String(HEADER_BYTES_MAX)
