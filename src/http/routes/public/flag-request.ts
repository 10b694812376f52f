/**
 * Turns the body and the query of a flag request into a question for the flag rules. SDKs of ten years send the same
 * data under different names and in different encodings, and all of them are accepted here. Source: interface
 * description, section 2.8; docs/compatibility/decisions.md, "Flag requests".
 */
import { isUtf8 } from 'node:buffer'
import { ServiceError } from '../../../base/errors.ts'
import { isObject, type JsonObject } from '../../../base/json.ts'
import {
  DISTINCT_ID_POINTS_MAX,
  FLAG_BODY_BYTES_MAX,
  FLAG_BODY_VALUES_MAX,
} from '../../../base/limits.ts'
import { decodePayload, gunzip, isForm, isGzip } from '../../../rules/capture/decode.ts'
import { isEmptyValue } from '../../../rules/capture/fields.ts'
import { asBuffer } from '../../../rules/capture/form.ts'
import { parseJsonText } from '../../../rules/capture/json-text.ts'
import type { DecisionRequest, EvaluationRuntime } from '../../../rules/flags/types.ts'
import type { RequestHead } from '../../server/framing.ts'
import {
  DISTINCT_ID_BYTES_MAX,
  FLAG_HEADS_KNOWN_MAX,
  FLAG_HEADS_OF_QUERY_MAX,
  FLAG_KNOWN_UNITS_MAX,
  FLAG_LIST_ENTRIES_MAX,
} from '../limits.ts'
import type { AnswerShape } from './decide-answers.ts'

/**
 * Matches the user agent of a PostHog SDK: the name of the SDK, its version, and possibly more, such as the browser.
 */
const SDK_AGENT = /^posthog-(?:([^/]+)\/\s*\S)?/
/** The names that SDKs of clients give themselves. */
const CLIENT_SDKS = /^(?:js|android|ios|react-native|flutter)$/
/** The names that SDKs of servers give themselves. */
const SERVER_SDKS = /^(?:python|ruby|php|java|go|node|dotnet|elixir|rs|server)$/
const BROWSER_AGENT = /(?:Mozilla|Chrome|Safari|Firefox|Edge)\//
const SCRIPT_AGENT = /(?:python-requests|curl)\//

const DECODE_LIMITS = { decodedBytesMax: FLAG_BODY_BYTES_MAX }
const NO_PROPERTIES: JsonObject = Object.freeze({})
const NO_NAMES: readonly string[] = Object.freeze([])

/** The query parameters of a flag request. A missing parameter is '' or null. */
interface FlagQuery {
  /** The forms of answers that the parameter `v` asks for: one for `/decide/`, and one for `/flags/`. */
  readonly decideShape: AnswerShape
  readonly flagsShape: AnswerShape
  /** True if answers of `/flags/` must contain the configuration. */
  readonly isConfigWanted: boolean
  readonly token: string | null
  readonly apiKey: string | null
  readonly projectId: string | null
  /** The compression that the parameter `compression` declares, or `unknown` if it is not supported. */
  readonly compression: '' | 'gzip' | 'base64' | 'lz64' | 'unknown'
  readonly isSurveyFlagsOnly: boolean
}

const COMPRESSIONS: ReadonlyMap<string, FlagQuery['compression']> = new Map([
  ['', ''],
  ...['gzip', 'gzip-js'].map((name) => [name, 'gzip'] as const),
  ...['base64', 'b64'].map((name) => [name, 'base64'] as const),
  ...['lz64', 'lz-string'].map((name) => [name, 'lz64'] as const),
])
const DECIMAL_INTEGER = /^[+-]?\d{1,15}$/

/** The parts of a request's head that are still needed when the body has arrived. */
export interface FlagRequestHead {
  readonly contentType: string
  readonly contentEncoding: string
  readonly query: FlagQuery
  /** The runtime (client or server) from which the request seems to come. Null if it is unclear. */
  readonly guessedRuntime: EvaluationRuntime | null
}

/** The content of a flag request. Only its JSON form has been checked. */
export interface FlagRequest {
  /** The key, of whatever type the client has sent. Undefined if there is none. */
  readonly key: unknown
  readonly projectId: unknown
  /** True if the client wants an answer without flags. */
  readonly areFlagsDisabled: boolean
  /** The distinct ID, or null if it is missing. An empty text is a valid ID. */
  readonly distinctId: string | null
  readonly body: JsonObject
  /** The size of the body's JSON in bytes, or 0 if there is no body. */
  readonly jsonBytes: number
}

/**
 * A cache of the results of `keepHead` by query text. For each query text, it contains one entry for each combination
 * of content type, encoding and runtime. Nearly all requests repeat one of a few heads.
 */
const knownHeads = new Map<string, FlagRequestHead[]>()

/** Returns the parts of a request's head that are needed later. For equal heads, it usually returns the same object. */
export function keepHead(head: RequestHead): FlagRequestHead {
  const { contentType, contentEncoding, query: queryText } = head
  const guessedRuntime = guessRuntime(head)
  let heads = knownHeads.get(queryText)
  if (heads === undefined) {
    heads = []
    if (knownHeads.size >= FLAG_HEADS_KNOWN_MAX) knownHeads.clear()
    if (queryText.length <= FLAG_KNOWN_UNITS_MAX) knownHeads.set(queryText, heads)
  }
  for (const known of heads) {
    if (
      known.guessedRuntime === guessedRuntime &&
      known.contentType === contentType &&
      known.contentEncoding === contentEncoding
    ) {
      return known
    }
  }
  const made = { contentType, contentEncoding, query: readFlagQuery(queryText), guessedRuntime }
  const isShort = contentType.length + contentEncoding.length <= FLAG_KNOWN_UNITS_MAX
  if (isShort && heads.length < FLAG_HEADS_OF_QUERY_MAX) heads.push(made)
  return made
}

/**
 * Reads the body of a flag request. With `isEmptyAllowed`, an empty body counts as `{}`. Throws ServiceError
 * `malformed_data` or `request_too_large`. The time is linear in the size of the body, which is at most
 * FLAG_BODY_BYTES_MAX.
 */
export function readFlagRequest(
  head: FlagRequestHead,
  bytes: Uint8Array,
  isEmptyAllowed: boolean,
): FlagRequest {
  const json = jsonOf(head, bytes)
  const parsed = bytes.length === 0 ? undefined : parseJson(json)
  const body = parsed === undefined && isEmptyAllowed ? NO_PROPERTIES : parsed
  if (!isObject(body)) throw malformed('The body must be a JSON object.')
  const { query } = head
  const keys = [body['token'], body['$token'], body['api_key'], query.token, query.apiKey]
  const projectId = body['project_id'] ?? query.projectId
  return {
    key: keys.find((key) => !isEmptyValue(key)) ?? body['personal_api_key'],
    projectId: isEmptyValue(projectId) ? undefined : projectId,
    areFlagsDisabled: isTruthy(body['disable_flags']),
    distinctId: distinctIdOf(body['distinct_id'] ?? body['$distinct_id']),
    body,
    jsonBytes: json.length,
  }
}

/**
 * Returns the question for the flag rules. `distinctId` is the ID in the request, or the ID that was computed for a
 * visitor without cookies.
 */
export function decisionRequestOf(
  request: FlagRequest,
  head: FlagRequestHead,
  distinctId: string,
  nowMs: number,
): DecisionRequest {
  const { body } = request
  const personProperties = objectOf(body['person_properties'] ?? body['$properties'])
  return {
    distinctId,
    groups: objectOf(body['groups'] ?? body['$groups']),
    personProperties,
    groupProperties: objectOf(body['group_properties'] ?? body['$group_properties']),
    anonDistinctId: identifierOf(body['$anon_distinct_id'] ?? body['anon_distinct_id']),
    deviceId:
      identifierOf(body['$device_id'] ?? body['device_id']) ??
      identifierOf(personProperties['$device_id']),
    nowMs,
    flagKeys: textsOf(body['flag_keys_to_evaluate'] ?? body['flag_keys']),
    evaluationContexts:
      textsOf(body['evaluation_contexts'] ?? body['evaluation_environments']) ?? NO_NAMES,
    evaluationRuntime: runtimeOf(body['evaluation_runtime'], head.guessedRuntime),
    isSurveyFlagsOnly: head.query.isSurveyFlagsOnly,
  }
}

/**
 * Returns a distinct ID as text, shortened to the maximum length. Returns null for a value that is neither a text nor a
 * number. An empty text is a valid ID here, but not in events.
 */
export function distinctIdOf(value: unknown): string | null {
  if (typeof value === 'number') return String(value)
  if (typeof value !== 'string') return null
  // In UTF-8, a text has at most three times as many bytes as it has UTF-16 units.
  if (value.length * 3 <= DISTINCT_ID_BYTES_MAX) return value
  if (Buffer.byteLength(value) <= DISTINCT_ID_BYTES_MAX) return value
  const points = [...value.slice(0, DISTINCT_ID_POINTS_MAX * 2)]
  return points.slice(0, DISTINCT_ID_POINTS_MAX).join('')
}

/** Returns the JSON of a body as bytes. Returns no bytes if there is no body. */
function jsonOf(head: FlagRequestHead, bytes: Uint8Array): Uint8Array {
  const { compression } = head.query
  if (compression === 'unknown') {
    throw malformed(
      '`compression` must be gzip, gzip-js, base64 or lz64. Leave it out for plain JSON.',
    )
  }
  const isPlain = compression === '' && head.contentEncoding === '' && bytes[0] === 0x7b
  if (isPlain || bytes.length === 0) return asUtf8(bytes)
  return refusing(() => unwrap(head, bytes))
}

function parseJson(json: Uint8Array): unknown {
  return refusing(() => parseJsonText(json, FLAG_BODY_VALUES_MAX, 'all'))
}

/** Calls `read`, and replaces its errors by the errors with which flag requests are refused. */
function refusing<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    if (error.code === 'request_too_large') {
      const limits = `${FLAG_BODY_BYTES_MAX} bytes when decoded or ${FLAG_BODY_VALUES_MAX} values`
      const detail = `The body has more than ${limits}. Send fewer properties.`
      throw new ServiceError('request_too_large', detail)
    }
    throw malformed(
      'The body cannot be decoded. Send a JSON object, plain or compressed with gzip.',
    )
  }
}

/** Returns the JSON text in a body that is compressed, form-encoded or encoded with base64. */
function unwrap(head: FlagRequestHead, bytes: Uint8Array): Uint8Array {
  const isZipped = isGzip(bytes)
  const body = asUtf8(isZipped ? gunzip(bytes, DECODE_LIMITS) : bytes)
  const payload = {
    method: 'POST',
    contentType: head.contentType,
    contentEncoding: isZipped ? '' : head.contentEncoding,
    query: isZipped || head.query.compression === '' ? '' : `compression=${head.query.compression}`,
    body,
  } as const
  try {
    return decodePayload(payload, DECODE_LIMITS).json
  } catch (error) {
    const isWithoutField = error instanceof ServiceError && error.code === 'no_data'
    if (!isWithoutField || !isForm(head.contentType)) throw error
    // The form has no field `data`, so the whole form is the data.
    return decodePayload({ ...payload, contentType: '' }, DECODE_LIMITS).json
  }
}

/**
 * Returns the same bytes if they are UTF-8, or if they are compressed with gzip. Otherwise returns a copy in which
 * every invalid byte is replaced by U+FFFD.
 */
function asUtf8(bytes: Uint8Array): Uint8Array {
  if (isUtf8(bytes) || isGzip(bytes)) return bytes
  return Buffer.from(asBuffer(bytes).toString('utf8'))
}

function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : NO_PROPERTIES
}

/** Returns a text that is not empty, or a number as text. Returns null for anything else. */
function identifierOf(value: unknown): string | null {
  const id = distinctIdOf(value)
  return id === '' ? null : id
}

/** Returns the texts in a list, or null if the value is not a list. */
function textsOf(value: unknown): readonly string[] | null {
  if (!Array.isArray(value)) return null
  const texts: string[] = []
  for (const entry of value) {
    if (typeof entry === 'string') texts.push(entry)
    if (texts.length === FLAG_LIST_ENTRIES_MAX) break
  }
  return texts
}

function runtimeOf(value: unknown, guessed: EvaluationRuntime | null): EvaluationRuntime | null {
  if (typeof value !== 'string') return guessed
  const runtime = value.toLowerCase()
  return runtime === 'client' || runtime === 'server' ? runtime : 'all'
}

/**
 * Guesses whether a request that names no runtime comes from a user's device or from a server, because a flag may be
 * limited to one of them. Returns null if neither is recognized.
 */
function guessRuntime(
  head: Pick<RequestHead, 'userAgent' | 'origin' | 'isFromPage'>,
): EvaluationRuntime | null {
  const named = agentRuntime(head.userAgent)
  if (named !== null) return named
  return head.origin !== '' || head.isFromPage ? 'client' : null
}

/** Returns the runtime that a user agent belongs to, or null. The user agent of an unknown SDK says nothing. */
function agentRuntime(userAgent: string): EvaluationRuntime | null {
  const sdk = SDK_AGENT.exec(userAgent)
  if (sdk !== null) {
    const name = sdk[1] ?? ''
    if (CLIENT_SDKS.test(name)) return 'client'
    return SERVER_SDKS.test(name) ? 'server' : null
  }
  if (BROWSER_AGENT.test(userAgent)) return 'client'
  return SCRIPT_AGENT.test(userAgent) ? 'server' : null
}

/** Returns true if a value is true, or is one of the other values that older servers treated as true. */
function isTruthy(value: unknown): boolean {
  return value === true || value === 1 || value === '1' || value === 'true' || value === 'True'
}

function malformed(detail: string): ServiceError {
  return new ServiceError('malformed_data', detail)
}

/** Reads a query text without its `?`. Unknown parameters are ignored. */
function readFlagQuery(text: string): FlagQuery {
  const parameters = new URLSearchParams(text)
  const version = parameters.get('v')
  const config = parameters.get('config')
  return {
    decideShape: decideShape(version),
    flagsShape: flagsShape(version),
    isConfigWanted: config === null ? version === null : config === 'true',
    token: parameters.get('token'),
    apiKey: parameters.get('api_key'),
    projectId: parameters.get('project_id'),
    compression:
      COMPRESSIONS.get((parameters.get('compression') ?? '').trim().toLowerCase()) ?? 'unknown',
    isSurveyFlagsOnly: isTruthy(parameters.get('only_evaluate_survey_feature_flags')),
  }
}

/**
 * Returns the form of the answer for a value of the parameter `v`. A value that is not an integer means 2, because an
 * SDK once sent its own version number.
 */
function decideShape(version: string | null): AnswerShape {
  const text = version?.trim() ?? ''
  if (text === '') return 'decide1'
  if (!DECIMAL_INTEGER.test(text)) return 'decide2'
  const number = Number(text)
  if (number <= 1) return 'decide1'
  if (number === 2) return 'decide2'
  return number === 3 ? 'decide3' : 'decide4'
}

function flagsShape(version: string | null): AnswerShape {
  const text = version?.trim() ?? ''
  if (text === '') return 'flags2'
  return DECIMAL_INTEGER.test(text) && Number(text) >= 2 ? 'flags2' : 'flags1'
}
