/**
 * From the JSON of a request to its events: the three shapes of a body, what the root says about all
 * events, and the structure that each event must have. The key is resolved between the two functions
 * here, because a wrong key is reported before a wrong event.
 * Source: docs/compatibility/ingestion.md, "Shapes of a body" and "Requests that are refused".
 */
import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'
import { EVENT_VALUES_MAX } from '../../base/limits.ts'
import type { BodyOutline } from './body-outline.ts'
import { captureEventShape } from './capture-schema.ts'
import { isEmptyValue } from './fields.ts'
import { parseJsonText } from './json-text.ts'

/** What depends on the path of a request. */
export interface EnvelopeOptions {
  /** `/engage`: every event is named `$identify`, whatever it says. */
  readonly isEngage: boolean
  /** Called now and then while an outlined body is parsed; it may throw, and then nobody goes on. */
  readonly checkTime?: (() => void) | undefined
}

/** Elements of an outlined body between two calls of `checkTime`. */
const ELEMENTS_BETWEEN_LOOKS = 256

/** A request body after parsing; nothing in it was checked against a schema yet. */
export interface Envelope {
  /** The root object; null when the root is an array. */
  readonly root: JsonObject | null
  /**
   * The elements, clean and in order. A single event is the root itself. Those of an outlined body are
   * parsed each time that they are asked for, and throw then if they are no JSON.
   */
  readonly events: Iterable<unknown>
  /** The events are the elements of an array or of `batch`, so that each may carry a key of its own. */
  readonly isBatch: boolean
  /** `batch` is there but no array; `events` is empty then and `checkEvents` refuses. */
  readonly isBatchMalformed: boolean
  /** `project_id` of the root object or of the first element of a root array; undefined when absent. */
  readonly projectId: unknown
  /** `sent_at` of the root object; undefined when absent. */
  readonly sentAt: unknown
  /** `historical_migration` of the root is true. */
  readonly isHistorical: boolean
}

/**
 * Parses a body in valid UTF-8. ServiceError `no_data` when it says nothing, `invalid_payload` when it
 * is not JSON, nested too deeply or a bare value. The events survive a round trip through JSON
 * unchanged. Linear. Source: docs/compatibility/ingestion.md, "JSON" and "Shapes of a body".
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
 * The same for a body whose outline is known: its root is parsed now, each element when it is asked for,
 * so that no more than one of them is in memory.
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
 * The events of an envelope, one by one, as long as each of them has the structure of an event, to be
 * stored as they are. Throws ServiceError `invalid_payload` that names the first element and field at
 * fault. Source: docs/compatibility/ingestion.md, "Requests that are refused".
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
    // An empty object must stay empty: it is refused.
    if (isObject(event) && !isEmptyValue(event)) (event as OwnObject)['event'] = '$identify'
  }
}
