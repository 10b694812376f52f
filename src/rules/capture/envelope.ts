/**
 * Turns the JSON of a request into its events. It handles the three shapes of a body, the fields of the root that apply
 * to all events, and the structure that each event must have. The caller looks up the key between `parseEnvelope` and
 * `checkEvents`, because a wrong key is reported before a wrong event. Source: docs/compatibility/ingestion.md, "Shapes
 * of a body" and "Requests that are refused".
 */
import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'
import { EVENT_VALUES_MAX } from '../../base/limits.ts'
import type { BodyOutline } from './body-outline.ts'
import { captureEventShape } from './capture-schema.ts'
import { isEmptyValue } from './fields.ts'
import { parseJsonText } from './json-text.ts'

/** The options that depend on the path of a request. */
export interface EnvelopeOptions {
  /** True for `/engage`, where every event is named `$identify`, regardless of the name that was sent. */
  readonly isEngage: boolean
  /** Called from time to time while a body is parsed element by element. An error that it throws stops the parsing. */
  readonly checkTime?: (() => void) | undefined
}

/** The number of elements that are parsed between two calls of `checkTime`. */
const ELEMENTS_BETWEEN_LOOKS = 256

/** A request body after parsing. No part of it has been checked against a schema yet. */
export interface Envelope {
  /** The root object, or null if the root is an array. */
  readonly root: JsonObject | null
  /**
   * The events, in order and with values that can be stored. If the body is a single event, this is the only event. If
   * the body is parsed element by element, each loop over the events parses them again, and the loop throws when it
   * reaches an element that is not JSON.
   */
  readonly events: Iterable<unknown>
  /** True if the events are the elements of an array or of `batch`. Each event may then carry a key of its own. */
  readonly isBatch: boolean
  /** True if `batch` exists but is not an array. In that case `events` is empty and `checkEvents` throws. */
  readonly isBatchMalformed: boolean
  /** The field `project_id` of the root object or of the first element of a root array. Undefined when absent. */
  readonly projectId: unknown
  /** The field `sent_at` of the root object. Undefined when absent. */
  readonly sentAt: unknown
  /** True if `historical_migration` of the root is true. */
  readonly isHistorical: boolean
}

/**
 * Parses a body in valid UTF-8. Its values are changed where needed so that they can be stored and written as JSON
 * again without a change. Throws ServiceError `no_data` if the body is empty, and `invalid_payload` if it is not JSON,
 * is nested too deeply, or is neither an object nor an array. The cost is linear. Source:
 * docs/compatibility/ingestion.md, "JSON" and "Shapes of a body".
 */
export function parseEnvelope(json: Uint8Array, options: EnvelopeOptions): Envelope {
  const value = parseJsonText(json, EVENT_VALUES_MAX)
  if (isEmptyValue(value)) {
    throw new ServiceError('no_data', 'The request holds no events. Send them as JSON in the body.')
  }
  if (Array.isArray(value)) {
    const events: readonly unknown[] = value
    if (options.isEngage) nameIdentify(events)
    const first = events[0]
    return {
      root: null,
      events,
      isBatch: true,
      isBatchMalformed: false,
      projectId: isObject(first) ? first['project_id'] : undefined,
      sentAt: undefined,
      isHistorical: false,
    }
  }
  if (!isObject(value)) {
    throw new ServiceError(
      'invalid_payload',
      'The body must be a JSON object or an array of events.',
    )
  }
  const isBatch = Object.hasOwn(value, 'batch')
  const batch: unknown = value['batch']
  const events: readonly unknown[] = isBatch ? (Array.isArray(batch) ? batch : []) : [value]
  if (options.isEngage) nameIdentify(events)
  return {
    root: value,
    events,
    isBatch,
    isBatchMalformed: isBatch && !Array.isArray(batch),
    projectId: value['project_id'],
    sentAt: value['sent_at'],
    isHistorical: value['historical_migration'] === true,
  }
}

/**
 * Returns the envelope of a body with an outline. The root is parsed immediately, but each element only when it is
 * read, so that memory holds at most one parsed element.
 */
export function outlinedEnvelope(outline: BodyOutline, options: EnvelopeOptions): Envelope {
  const envelope = parseEnvelope(outline.root, options)
  if (!outline.hasElements) return envelope
  return { ...envelope, events: { [Symbol.iterator]: () => elementsOf(outline, options) } }
}

function* elementsOf(outline: BodyOutline, options: EnvelopeOptions): Generator<unknown> {
  for (let index = 0; index < outline.elementCount; index++) {
    if (index % ELEMENTS_BETWEEN_LOOKS === 0) options.checkTime?.()
    const event = parseJsonText(outline.element(index))
    if (options.isEngage) nameIdentify([event])
    if (index >= outline.elementsFrom) yield event
  }
}

/**
 * Yields the events of an envelope, ready to be stored, after checking the structure of each. Throws ServiceError
 * `invalid_payload`, which names the first element and field that are wrong. Source: docs/compatibility/ingestion.md,
 * "Requests that are refused".
 */
export function* checkEvents(envelope: Envelope): Generator<JsonObject> {
  if (envelope.isBatchMalformed) {
    throw new ServiceError('invalid_payload', "'batch' must be an array of events.")
  }
  let index = 0
  for (const event of envelope.events) {
    if (!captureEventShape.matches(event)) throw refusal(event, index, envelope.isBatch)
    yield event
    index++
  }
}

function refusal(event: unknown, index: number, isBatch: boolean): ServiceError {
  const problem = captureEventShape.problemOf(event)
  const place = isBatch ? `Event ${index} (counted from 0)` : 'The event'
  const field = problem === null || problem.field === '' ? '' : `: '${problem.field}'`
  const message = problem?.message ?? 'has the wrong shape'
  return new ServiceError('invalid_payload', `${place}${field} ${message}.`)
}

function nameIdentify(events: readonly unknown[]): void {
  for (const event of events) {
    // An empty object must stay empty, because it is refused.
    if (isObject(event) && !isEmptyValue(event)) (event as OwnObject)['event'] = '$identify'
  }
}
