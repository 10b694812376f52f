/**
 * Turns the bytes of a request into the bytes of its JSON: finds the payload and undoes its layers of compression and
 * base64. Every layer is bounded, and every step is linear.
 * Source: docs/compatibility/ingestion.md, "Reading the payload" and "Compression".
 */
import { isUtf8 } from 'node:buffer'
import * as zlib from 'node:zlib'
import { ServiceError } from '../../base/errors.ts'
import { decodeBase64 } from './base64.ts'
import { asBuffer, decodePercent, parseForm, replaceByte } from './form.ts'
import { ZSTD_FRAMES_MAX, ZSTD_WINDOW_LOG_MAX } from './limits.ts'
import { decodeLz64 } from './lz64.ts'

/** A request as it arrived: header values as they were sent ('' when absent), the query without `?`, and the body. */
export interface RawPayload {
  readonly method: 'GET' | 'POST'
  readonly contentType: string
  readonly contentEncoding: string
  readonly query: string
  readonly body: Uint8Array
}

/** The limits of `decodePayload`. */
export interface DecodeLimits {
  /** The maximum number of bytes that gzip or lz64 may decode to. A larger output throws `request_too_large`. */
  readonly decodedBytesMax: number
  /**
   * The maximum number of bytes of lz64, which takes many times longer to decode than gzip. A larger text throws
   * `SlowBodyError`. Without this limit, every size is accepted.
   */
  readonly slowBytesMax?: number
}

/** Thrown when a body takes longer to check than the caller has time for. Another thread may still check it. */
export class SlowBodyError extends ServiceError {
  constructor() {
    const detail = 'The body takes too long to check. Send fewer events in one request.'
    super('request_too_large', detail)
  }
}

/**
 * The fields outside of the JSON that ingestion reads in addition to `data`. They are the fields of a form body, or the
 * parameters of a query. An absent field is undefined.
 */
export interface OuterFields {
  /** The field `api_key`. In the query, `api_key` and `token` are used only if the request is a GET. */
  readonly apiKey: string | undefined
  readonly token: string | undefined
  readonly compression: string | undefined
  /** The field `sent_at`. */
  readonly sentAt: string | undefined
  /**
   * The query parameter `_` of old browser clients: the time that the client's clock showed when it sent the request.
   */
  readonly underscore: string | undefined
  readonly projectId: string | undefined
  readonly beacon: string | undefined
}

/** The JSON of a request, and the fields that were sent outside of the JSON. */
export interface DecodedPayload {
  /** Valid UTF-8 without byte order mark. It may share memory with the body, and it is not yet known to be JSON. */
  readonly json: Uint8Array
  readonly form: OuterFields
  readonly query: OuterFields
}

/** The kinds of compression that a client may declare. */
export type CompressionHint = 'gzip' | 'lz64' | 'base64'

/** The parts of `node:zlib` that only Node 22.15 and later have. */
interface ZstdOfNode {
  readonly zstdDecompressSync: (
    compressed: Uint8Array,
    options: {
      readonly maxOutputLength: number
      readonly params: Record<number, number>
      readonly info: true
    },
  ) => { readonly buffer: Buffer; readonly engine: { readonly bytesWritten: number } }
  readonly constants: { readonly ZSTD_d_windowLogMax: number }
}

/** The encodings that only the capture v1 paths accept. Gzip is not in the set, because all paths accept it. */
const ENCODINGS_OF_V1 = new Set(['deflate', 'br', 'zstd'])
/** The values of `Content-Encoding` that declare no encoding. */
const NO_ENCODING = new Set(['', 'identity'])
const FORM_NAMES = ['api_key', 'token', 'compression', 'sent_at', 'project_id', 'data']
const QUERY_NAMES = [...FORM_NAMES, '_', 'beacon']
const FORM_STARTS = ['data=', '_=', 'ip=', 'compression='] as const
const SPACE = 0x20
const PLUS = 0x2b

const NO_FIELDS: OuterFields = Object.freeze(outerFields(new Map()))

/**
 * Finds and decodes the payload of a request. Plain JSON is returned without a copy. Throws ServiceError `no_data` if
 * nothing was sent, `invalid_payload` if the payload cannot be decoded, or `request_too_large`. Source:
 * docs/compatibility/ingestion.md, "Reading the payload".
 */
export function decodePayload(request: RawPayload, limits: DecodeLimits): DecodedPayload {
  const queryFields = request.query === '' ? null : parseQuery(request.query)
  const query = queryFields === null ? NO_FIELDS : outerFields(queryFields)
  if (request.method === 'GET') {
    const data = queryFields?.get('data')
    if (data === undefined) throw noData()
    const hint = hintOf(query.compression)
    return { json: decodeLayers(data, hint, limits), form: NO_FIELDS, query }
  }
  const isUrlEncoded = isForm(request.contentType)
  let body = request.body
  let isInflated = false
  if (isUrlEncoded && isGzip(body)) {
    body = gunzip(body, limits)
    isInflated = true
  }
  if (isUrlEncoded ? !startsLikeJson(body) : startsLikeForm(body)) {
    const fields = parseForm(body, FORM_NAMES)
    const data = fields.get('data')
    if (data !== undefined || isUrlEncoded) {
      if (data === undefined || data.length === 0) throw noData()
      const form = outerFields(fields)
      const header = isInflated ? '' : request.contentEncoding
      const hint = hintOf(query.compression) ?? hintOf(form.compression) ?? hintOf(header)
      return { json: decodeLayers(data, hint, limits), form, query }
    }
  }
  if (isInflated) return { json: toJsonBytes(body, null, limits), form: NO_FIELDS, query }
  const hint = compressionHint(query.compression, request.contentEncoding)
  const encoding = encodingOf(request)
  if (hint === null && ENCODINGS_OF_V1.has(encoding) && !isGzip(body) && !isUtf8(body)) {
    throw invalid(`The body is compressed with ${encoding}. Send it with gzip, or uncompressed.`)
  }
  return { json: decodeLayers(body, hint, limits), form: NO_FIELDS, query }
}

/**
 * Decodes the body of a capture v1 request. Its SDKs also compress with deflate (RFC 1950), Brotli and zstd. Throws
 * ServiceError `unsupported_media_type` for an unknown encoding, and for zstd if this version of Node cannot decompress
 * it. Otherwise it throws the same errors as `decodePayload`.
 */
export function decodeCaptureV1(request: RawPayload, limits: DecodeLimits): DecodedPayload {
  const encoding = encodingOf(request)
  if (encoding !== 'deflate' && encoding !== 'br' && encoding !== 'zstd') {
    const isKnown = NO_ENCODING.has(encoding) || hintOf(encoding) !== null
    if (!isKnown && !isGzip(request.body)) {
      throw new ServiceError(
        'unsupported_media_type',
        'The value of `Content-Encoding` is not supported. Send the body with gzip, deflate, br or zstd, or uncompressed and without this header.',
      )
    }
    return decodePayload(request, limits)
  }
  const body = decompress(request.body, encoding, limits)
  return decodePayload({ ...request, contentEncoding: '', body }, limits)
}

/** Returns the query parameters that ingestion reads. `query` is the raw text without `?`. The cost is linear. */
export function readQuery(query: string): OuterFields {
  return query === '' ? NO_FIELDS : outerFields(parseQuery(query))
}

/**
 * Returns the declared compression: the query parameter `compression` if it names a known kind, otherwise the header
 * `Content-Encoding`. Returns null if neither names a known kind. Case does not matter.
 */
export function compressionHint(
  queryValue: string | undefined,
  contentEncoding: string,
): CompressionHint | null {
  return hintOf(queryValue) ?? hintOf(contentEncoding)
}

/** Returns whether the media type of a `Content-Type` is `application/x-www-form-urlencoded`. */
export function isForm(contentType: string): boolean {
  const semicolon = contentType.indexOf(';')
  const mediaType = semicolon === -1 ? contentType : contentType.slice(0, semicolon)
  return mediaType.trim().toLowerCase() === 'application/x-www-form-urlencoded'
}

/** Returns whether bytes begin like gzip, regardless of the declared compression. */
export function isGzip(bytes: Uint8Array): boolean {
  return bytes.length > 2 && bytes[0] === 0x1f && bytes[1] === 0x8b && bytes[2] === 0x08
}

/** Undoes every layer of a payload: first compression, then base64. */
function decodeLayers(
  payload: Uint8Array,
  hint: CompressionHint | null,
  limits: DecodeLimits,
): Uint8Array {
  if (payload.length === 0) throw noData()
  if (isGzip(payload)) return toJsonBytes(gunzip(payload, limits), null, limits)
  if (hint === 'gzip') {
    const compressed = decodeBase64(unescapeBase64(payload))
    if (compressed === null || !isGzip(compressed)) {
      throw invalid(
        'The body was declared as gzip but is not. Compress it, or remove the parameter `compression` and the header `Content-Encoding`.',
      )
    }
    return toJsonBytes(gunzip(compressed, limits), null, limits)
  }
  if (hint === 'lz64') {
    if (payload.length > (limits.slowBytesMax ?? Number.POSITIVE_INFINITY))
      throw new SlowBodyError()
    const text = replaceByte(trimSpace(payload), SPACE, PLUS).toString('latin1')
    return toJsonBytes(Buffer.from(decodeLz64(text, limits.decodedBytesMax)), null, limits)
  }
  return toJsonBytes(payload, hint, limits)
}

const SURROGATE_PAIR_BYTES = 6

/**
 * Decodes a payload that is no longer gzip or lz64 into its JSON text. The payload may still be base64 of JSON, or
 * base64 of gzip of JSON.
 */
function toJsonBytes(
  payload: Uint8Array,
  hint: CompressionHint | null,
  limits: DecodeLimits,
): Uint8Array {
  if (payload.length === 0) throw noData()
  if (!isUtf8(payload)) throw invalid('The body is not valid UTF-8. Send JSON as UTF-8.')
  const text = withoutByteOrderMark(payload)
  if (startsLikeJson(text)) return text
  let decoded: Uint8Array | null = decodeBase64(unescapeBase64(text))
  if (decoded !== null && isGzip(decoded)) decoded = gunzip(decoded, limits)
  if (decoded !== null) {
    const json = withoutByteOrderMark(isUtf8(decoded) ? decoded : mendUtf8(decoded))
    if (startsLikeJson(json)) return json
  }
  if (hint === 'base64' && trimSpace(text).length > 0) {
    throw invalid(
      'The body was declared as base64 but does not contain JSON. Send JSON or base64 of JSON.',
    )
  }
  return text
}

/**
 * Repairs bytes that are not valid UTF-8. posthog-js up to version 1.150 encodes a character above U+FFFF as two
 * surrogates of three bytes each; such a pair becomes the character. Every other invalid sequence becomes U+FFFD.
 */
function mendUtf8(bytes: Uint8Array): Uint8Array {
  const mended = Buffer.from(bytes)
  let length = 0
  for (let index = 0; index < bytes.length; index++) {
    const pair = surrogatePair(bytes, index)
    if (pair === null) {
      mended[length++] = bytes[index] ?? 0
    } else {
      length += mended.write(String.fromCodePoint(pair), length, 'utf8')
      index += SURROGATE_PAIR_BYTES - 1
    }
  }
  const text = mended.subarray(0, length)
  return isUtf8(text) ? text : Buffer.from(text.toString('utf8'))
}

/**
 * Returns the code point of the pair of surrogates at `index`, which are three bytes each, or null if there is none.
 */
function surrogatePair(bytes: Uint8Array, index: number): number | null {
  const unit = (start: number): number =>
    (((bytes[start] ?? 0) & 0x0f) << 12) |
    (((bytes[start + 1] ?? 0) & 0x3f) << 6) |
    ((bytes[start + 2] ?? 0) & 0x3f)
  if (bytes[index] !== 0xed || bytes[index + 3] !== 0xed) return null
  if (index + SURROGATE_PAIR_BYTES > bytes.length) return null
  const high = unit(index)
  const low = unit(index + 3)
  if (high < 0xd800 || high > 0xdbff || low < 0xdc00 || low > 0xdfff) return null
  return (high - 0xd800) * 0x400 + (low - 0xdc00) + 0x1_0000
}

/** Decompresses gzip within the limit. Throws ServiceError `invalid_payload` or `request_too_large`. */
export function gunzip(compressed: Uint8Array, limits: DecodeLimits): Uint8Array {
  try {
    return zlib.gunzipSync(compressed, { maxOutputLength: limits.decodedBytesMax })
  } catch (error) {
    if (isBeyondOutput(error)) throw tooLarge()
    throw invalid(
      'The body begins like gzip but is damaged or incomplete. Compress it again, or send it uncompressed.',
    )
  }
}

function decompress(
  compressed: Uint8Array,
  encoding: 'deflate' | 'br' | 'zstd',
  limits: DecodeLimits,
): Uint8Array {
  const options = { maxOutputLength: limits.decodedBytesMax }
  try {
    if (encoding === 'br') return zlib.brotliDecompressSync(compressed, options)
    if (encoding === 'deflate') return zlib.inflateSync(compressed, options)
    return unzstd(compressed, limits)
  } catch (error) {
    if (error instanceof ServiceError) throw error
    if (isBeyondOutput(error)) throw tooLarge()
    throw invalid(
      `The body was declared as ${encoding} but is not, or is damaged or incomplete. Compress it again, or send it uncompressed.`,
    )
  }
}

/**
 * Decompresses all frames of zstd (RFC 8878). Throws ServiceError `unsupported_media_type` if this version of Node
 * cannot decompress zstd, and the errors of `node:zlib`.
 */
function unzstd(compressed: Uint8Array, { decodedBytesMax }: DecodeLimits): Uint8Array {
  const { zstdDecompressSync, constants } = zlib as typeof zlib & Partial<ZstdOfNode>
  if (zstdDecompressSync === undefined) {
    throw new ServiceError(
      'unsupported_media_type',
      'The body is compressed with zstd, which this server can read only on Node 22.15 or later. Send it with gzip, deflate or br, or uncompressed.',
    )
  }
  const params = { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG_MAX }
  const frames: Buffer[] = []
  let decoded = 0
  // Node decompresses only the first frame and ignores the bytes after it, which may be further events.
  for (let at = 0; at < compressed.length; ) {
    if (frames.length >= ZSTD_FRAMES_MAX) {
      throw invalid(`The body has more than ${ZSTD_FRAMES_MAX} zstd frames. Send it as one frame.`)
    }
    // Node throws if `maxOutputLength` is 0, so it is at least 1. If the limit is used up, the check of `decoded` below
    // refuses this one byte.
    const maxOutputLength = Math.max(1, decodedBytesMax - decoded)
    const { buffer, engine } = zstdDecompressSync(compressed.subarray(at), {
      maxOutputLength,
      params,
      info: true,
    })
    if (engine.bytesWritten === 0)
      throw invalid('The body is not complete zstd. Compress it again, or send it uncompressed.')
    at += engine.bytesWritten
    decoded += buffer.length
    if (decoded > decodedBytesMax) throw tooLarge()
    frames.push(buffer)
  }
  return frames.length === 1 ? (frames[0] ?? new Uint8Array(0)) : Buffer.concat(frames)
}

function isBeyondOutput(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE'
}

/** Undoes the escapes that transports add to a base64 text: decodes `%XX` and turns spaces back into plus signs. */
function unescapeBase64(text: Uint8Array): Buffer {
  return replaceByte(decodePercent(trimSpace(text)), SPACE, PLUS)
}

function encodingOf(request: RawPayload): string {
  return request.contentEncoding.trim().toLowerCase()
}

function hintOf(value: string | undefined): CompressionHint | null {
  if (value === undefined || value === '') return null
  switch (value.trim().toLowerCase()) {
    case 'gzip':
    case 'gzip-js':
      return 'gzip'
    case 'lz64':
    case 'lz-string':
      return 'lz64'
    case 'base64':
    case 'b64':
      return 'base64'
    default:
      return null
  }
}

function parseQuery(query: string): Map<string, Buffer> {
  return parseForm(Buffer.from(query), QUERY_NAMES)
}

function outerFields(fields: Map<string, Buffer>): OuterFields {
  return {
    apiKey: textOf(fields, 'api_key'),
    token: textOf(fields, 'token'),
    compression: textOf(fields, 'compression'),
    sentAt: textOf(fields, 'sent_at'),
    underscore: textOf(fields, '_'),
    projectId: textOf(fields, 'project_id'),
    beacon: textOf(fields, 'beacon'),
  }
}

/** Returns a field as text. Bytes that are not UTF-8 become U+FFFD, which no key and no number contains. */
function textOf(fields: Map<string, Buffer>, name: string): string | undefined {
  return fields.get(name)?.toString('utf8')
}

function startsLikeForm(body: Uint8Array): boolean {
  const first = body[0]
  // The codes of d, _, i and c, the first letters of FORM_STARTS. Most bodies begin with another character, so no
  // string is created for them.
  if (first !== 0x64 && first !== 0x5f && first !== 0x69 && first !== 0x63) return false
  const start = asBuffer(body.subarray(0, 16)).toString('latin1')
  return FORM_STARTS.some((prefix) => start.startsWith(prefix))
}

function startsLikeJson(text: Uint8Array): boolean {
  for (const byte of text) {
    if (isSpace(byte)) continue
    return byte === 0x7b || byte === 0x5b
  }
  return false
}

function trimSpace(text: Uint8Array): Uint8Array {
  let start = 0
  let end = text.length
  while (start < end && isSpace(text[start])) start++
  while (end > start && isSpace(text[end - 1])) end--
  return text.subarray(start, end)
}

function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function withoutByteOrderMark(text: Uint8Array): Uint8Array {
  return text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf ? text.subarray(3) : text
}

function noData(): ServiceError {
  return new ServiceError('no_data', 'The request holds no events. Send them as JSON in the body.')
}

function tooLarge(): ServiceError {
  return new ServiceError(
    'request_too_large',
    'The decompressed body is too large. Send fewer events in one request.',
  )
}

function invalid(detail: string): ServiceError {
  return new ServiceError('invalid_payload', detail)
}
