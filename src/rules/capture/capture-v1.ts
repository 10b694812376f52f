/**
 * Capture v1, the protocol of `/i/v1/analytics/events`. Headers carry the key and the version of the SDK, a few
 * properties have typed fields of their own, and the answer reports the result of each event. Events are written to the
 * log in the form of `/batch/`, so that the code that processes the log handles only one form.
 * Source: docs/compatibility/ingestion.md, "Capture v1".
 */
import { ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'
import type { Envelope } from './envelope.ts'
import { eventDistinctId, eventName, isEmptyValue } from './fields.ts'
import { SDK_INFO_UNITS_MAX } from './limits.ts'
import { ParsedEvents } from './log-block.ts'
import { parseTimestamp } from './timestamp.ts'

/** The values of the headers of a capture v1 request. A header that is absent has the value ''. */
export interface CaptureV1Headers {
  /** The key in `Authorization: Bearer`. */
  readonly key: string
  /** The header `PostHog-Sdk-Info`, in the form `name/version`. */
  readonly sdkInfo: string
  /** The header `PostHog-Request-Timestamp`: the time that the client's clock showed when it sent the request. */
  readonly sentAt: string
}

/** The result of one event, as SDKs read it. */
interface EventResult {
  /**
   * `ok` and `warning` mean that the event was accepted. `drop` means that it is not stored and that sending it again
   * does not help.
   */
  readonly result: 'ok' | 'warning' | 'drop'
  readonly details?: string
}

/** The events of a request and the answer to it. */
interface CaptureV1Events {
  readonly events: ParsedEvents
  /** JSON: `{"results": {"<uuid as it was sent>": {"result", "details"?}}}`. */
  readonly answer: string
}

const OK: EventResult = { result: 'ok' }
const ACCEPTED_RESULT = /\{"result":"(?:ok|warning)"[^}]*\}/g
const LIMITED_RESULT = JSON.stringify({ result: 'drop', details: 'daily_limit_reached' })
const NO_PROPERTIES: JsonObject = {}

/**
 * For each member of `options`: its name, the event property that it becomes, and the function that reads its value.
 */
const OPTIONS = [
  ['cookieless_mode', '$cookieless_mode', flagOf],
  ['disable_skew_correction', '$ignore_sent_at', flagOf],
  ['process_person_profile', '$process_person_profile', flagOf],
  ['product_tour_id', '$product_tour_id', textOf],
] as const

/** Returns the key of an `Authorization` header with the scheme `Bearer`, or ''. */
export function bearerKey(authorization: string): string {
  const isBearer = authorization.slice(0, 7).toLowerCase() === 'bearer '
  return isBearer ? authorization.slice(7).trim() : ''
}

/**
 * Reads the events of a body and changes each into the form of `/batch/`. If an event cannot be stored because a field
 * has a wrong type, it is left out and reported in the answer. An event without a name or a `distinct_id` is reported
 * too, but it is written to the log, because processing counts it as a dropped event.
 *
 * Throws ServiceError `invalid_payload` if there is no `batch`, if an event is not an object, or if an event has no
 * UUID or the UUID of another event of the request. The answer identifies events by their UUIDs. Throws `no_data` if
 * there are no events.
 */
export function takeCaptureV1(
  envelope: Envelope,
  { sdkInfo }: CaptureV1Headers,
  bytesExpected: number,
): CaptureV1Events {
  if (envelope.root === null || !envelope.isBatch || envelope.isBatchMalformed) {
    throw new ServiceError('invalid_payload', "'batch' must be an array of events.")
  }
  const sdk = readSdkInfo(sdkInfo)
  const events = new ParsedEvents([], [], bytesExpected)
  const results = new Map<string, EventResult>()
  const uuids = new Set<string>()
  let index = 0
  for (const event of envelope.events) {
    if (!isObject(event) || isEmptyValue(event)) throw invalidEvent(index, 'must be an object.')
    const uuid = event['uuid']
    const uuidText = typeof uuid === 'string' ? uuid.trim() : ''
    const uuidBytes = parseUuid(uuidText)
    if (uuidBytes === null) throw invalidEvent(index, "needs a 'uuid' that is a UUID.")
    uuids.add(formatUuid(uuidBytes, 0))
    if (uuids.size === index) throw invalidEvent(index, "has the 'uuid' of an earlier event.")
    const problem = moveFields(event as OwnObject, sdk)
    if (problem === null) events.add(JSON.stringify(event), uuidBytes)
    results.set(uuidText, problem ?? resultOf(event))
    index++
  }
  if (index === 0) {
    const detail = "The request holds no events. Send them in 'batch'."
    throw new ServiceError('no_data', detail)
  }
  return { events, answer: JSON.stringify({ results: Object.fromEntries(results) }) }
}

/**
 * Returns the answer to a request whose project has reached its daily limit. Each event that `answer` calls accepted is
 * reported as dropped, because it was not stored.
 */
export function limitedAnswer(answer: string): string {
  return answer.replace(ACCEPTED_RESULT, LIMITED_RESULT)
}

/**
 * Moves the fields of capture v1 into the properties, where `/batch/` expects them. Returns a result with the reason if
 * the event cannot be stored, otherwise null.
 */
function moveFields(
  event: OwnObject,
  sdk: { readonly name: string; readonly version: string } | null,
): EventResult | null {
  const given = event['properties'] ?? {}
  if (!isObject(given)) return drop('malformed_event_properties')
  const properties: OwnObject = given
  const distinctId = event['distinct_id']
  if (typeof distinctId === 'string') event['distinct_id'] = distinctId.trim()
  const options = event['options'] ?? {}
  if (!isObject(options)) return drop('invalid_options')
  for (const [option, property, read] of OPTIONS) {
    const value = options[option]
    if (value === undefined || value === null) continue
    const known = read(value)
    if (known === null) return drop('invalid_options')
    properties[property] = known
  }
  if (typeof event['session_id'] === 'string') properties['$session_id'] = event['session_id']
  if (typeof event['window_id'] === 'string') properties['$window_id'] = event['window_id']
  if (sdk !== null) {
    properties['$lib'] = sdk.name
    properties['$lib_version'] = sdk.version
  }
  event['properties'] = properties
  event['options'] = undefined
  event['session_id'] = undefined
  event['window_id'] = undefined
  return null
}

function resultOf(event: JsonObject): EventResult {
  if (eventName(event) === null) return drop('missing_event_name')
  const properties = event['properties']
  const distinctId = eventDistinctId(event, isObject(properties) ? properties : NO_PROPERTIES)
  if (distinctId === null) return drop('missing_distinct_id')
  const timestamp = event['timestamp']
  const isTimed = !isEmptyValue(timestamp) && parseTimestamp(timestamp) === null
  return isTimed ? { result: 'warning', details: 'invalid_event_timestamp' } : OK
}

/**
 * Reads `name/version`. The text is split at the last slash, because names may contain slashes. Returns null if a part
 * is missing or the text is too long.
 */
function readSdkInfo(sdkInfo: string): { readonly name: string; readonly version: string } | null {
  const slash = sdkInfo.lastIndexOf('/')
  if (slash === -1 || sdkInfo.length > SDK_INFO_UNITS_MAX) return null
  const name = sdkInfo.slice(0, slash).trim()
  const version = sdkInfo.slice(slash + 1).trim()
  return name === '' || version === '' ? null : { name, version }
}

function flagOf(value: unknown): boolean | null {
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return value !== 0
  const text = typeof value === 'string' ? value.trim().toLowerCase() : ''
  if (text === 'true' || text === '1') return true
  return text === 'false' || text === '0' ? false : null
}

function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value
  return Number.isInteger(value) ? String(value) : null
}

function drop(details: string): EventResult {
  return { result: 'drop', details }
}

function invalidEvent(index: number, problem: string): ServiceError {
  return new ServiceError('invalid_payload', `Event ${index} (counted from 0) ${problem}`)
}
