/**
 * Reads one line of an import. The line may have any of these forms: an event as Tenrec exports it; an event as SDKs
 * send it; an event, or a whole page of events, as the events API of PostHog lists it; or an event as the batch exports
 * of PostHog write it, with properties as JSON text and times without a zone.
 *
 * The result is a list of events for `/batch/` that always have a uuid and a time. A line that is sent twice is
 * therefore stored once, and an event never gets the time of the import. An event that the daemon would refuse, drop or
 * give another time is reported as a fault, with the reason. Source: docs/OPERATIONS.md, "Export and import".
 */
import { ServiceError } from '../../base/errors.ts'
import { parseUuid, uuidV5 } from '../../base/ids.ts'
import { isObject, type JsonObject, type OwnObject, parseJson } from '../../base/json.ts'
import { DISTINCT_ID_POINTS_MAX, EVENT_NAME_UNITS_MAX } from '../../base/limits.ts'
import type { LossReason } from './drop-reasons.ts'
import { elementsChain } from './elements-chain.ts'
import { isTimestampUsable } from './event-time.ts'
import { cutPoints, cutUnits } from './fields.ts'
import { parseJsonText } from './json-text.ts'
import { IMPORT_VALUE_SHOWN_UNITS_MAX } from './limits.ts'
import { normalizeEvent } from './normalize.ts'
import { parseTimestamp } from './timestamp.ts'

/** The name space in which uuids are made for events that came without one. */
const NAMESPACE = '6e1b6d0e-58a0-5b0e-9b7f-2f6f3c1a7d44'

/** For each reason why the daemon would drop an event, the text of the fault. */
const LOSSES: Record<LossReason, string> = {
  no_event_name: 'it has an event without a name',
  no_distinct_id: 'it has an event with a blank distinct_id',
  ignored_event: 'events of this name are never stored',
  client_ingestion_warning: 'it is a message of an SDK, not an event',
  personless_person_event: 'its event changes a person, but `$process_person_profile` is false',
  cookieless_person_event: 'its event changes a person, but `$cookieless_mode` allows no person',
  properties_too_large:
    'its properties are larger than the setting `event_properties_limit` or, for `$ai_` events, `ai_event_properties_limit` allows',
}

/** The events and the faults of a line. */
export interface ImportedLine {
  /** The JSON of each event for `/batch/`. */
  readonly events: readonly string[]
  /** The reasons why parts of the line were left out. Empty if nothing was left out. */
  readonly faults: readonly string[]
}

/** The time and the limits by which the daemon decides whether it stores an event. */
export interface ImportContext {
  /** Milliseconds since 1970. An event whose time is too far after this moment is a fault. */
  readonly nowMs: number
  /** The maximum number of JSON bytes of the properties of an event. 0 switches the limit off. */
  readonly propertiesBytesMax: number
  /**
   * The maximum number of JSON bytes of the properties of an event whose name begins with `$ai_`. 0 switches the limit
   * off.
   */
  readonly aiPropertiesBytesMax: number
}

/** The reason why an event of a line cannot be imported. */
class LineFault extends Error {}

/**
 * Reads a line (UTF-8, without its newline). `lineNumber` counts from 1 and goes into the uuid of an event that has
 * none. An empty line has no events and no faults.
 */
export function readImportLine(
  line: Buffer,
  lineNumber: number,
  context: ImportContext,
): ImportedLine {
  let value: unknown
  try {
    value = parseJsonText(line)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const isDeep = parseJson(line.toString('utf8')) !== undefined
    return { events: [], faults: [isDeep ? error.message : 'it is not a JSON object'] }
  }
  if (value === undefined) return { events: [], faults: [] }
  if (!isObject(value)) {
    const isList = Array.isArray(value)
    const fault = isList ? 'it is a list. Write one event per line' : 'it is not a JSON object'
    return { events: [], faults: [fault] }
  }
  const events: string[] = []
  const faults: string[] = []
  const list = listOf(value)
  const isPage = list === value['results']
  for (const [index, item] of list.entries()) {
    // In a page, each event is hashed with its own text. Hashing the whole line for each event would take quadratic
    // time.
    const seed = (): string =>
      `${lineNumber}.${index}.${item === value ? line.toString('utf8') : JSON.stringify(item)}`
    try {
      events.push(eventJson(item, isPage, seed, context))
    } catch (error) {
      if (!(error instanceof LineFault)) throw error
      faults.push(error.message)
    }
  }
  return { events, faults }
}

/** Returns the events in a line: the entries of `results` or `batch`, or the line itself if it is a single event. */
function listOf(value: JsonObject): readonly unknown[] {
  for (const field of ['results', 'batch'] as const) {
    const list = value[field]
    if (Array.isArray(list) && value['event'] === undefined) return list
  }
  return [value]
}

function eventJson(
  item: unknown,
  isInPage: boolean,
  seed: () => string,
  context: ImportContext,
): string {
  if (!isObject(item)) throw new LineFault('it has an event that is not a JSON object')
  const event = eventOf(item, isInPage, seed, context)
  const json = JSON.stringify(event)
  const outcome = normalizeEvent(
    event,
    {
      arrivedAtMs: context.nowMs,
      sentAtMs: null,
      isSentAtInvalid: false,
      ip: '',
      isIpAnonymized: false,
      isHistorical: true,
      propertiesBytesMax: context.propertiesBytesMax,
      aiPropertiesBytesMax: context.aiPropertiesBytesMax,
    },
    Buffer.byteLength(json),
  )
  if (outcome.kind === 'drop') throw new LineFault(LOSSES[outcome.reason])
  return json
}

function eventOf(
  item: JsonObject,
  isInPage: boolean,
  seed: () => string,
  { nowMs }: ImportContext,
): JsonObject {
  const name = item['event']
  if (typeof name !== 'string' || name === '') throw new LineFault('it has an event without a name')
  if (cutUnits(name, EVENT_NAME_UNITS_MAX) !== name) {
    throw new LineFault(`the name of its event has more than ${EVENT_NAME_UNITS_MAX} characters`)
  }
  const properties: OwnObject = { ...(objectOf(item, 'properties') ?? {}) }
  const distinctId = item['$distinct_id'] ?? item['distinct_id'] ?? properties['distinct_id']
  if (distinctId === undefined || distinctId === null) {
    throw new LineFault('it has an event without a distinct_id')
  }
  if (typeof distinctId !== 'string' && typeof distinctId !== 'number') {
    throw new LineFault(
      `its distinct_id is neither a text nor a number: ${jsonExcerpt(distinctId)}`,
    )
  }
  // The daemon would cut the ID. Different persons could then get the same ID.
  if (cutPoints(String(distinctId), DISTINCT_ID_POINTS_MAX) !== String(distinctId)) {
    throw new LineFault(`its distinct_id has more than ${DISTINCT_ID_POINTS_MAX} characters`)
  }
  const timestampMs = timeOf(item, properties, nowMs)
  addMissing(properties, '$elements_chain', chainOf(item))
  addMissing(properties, '$ip', textOf(item['ip']))
  return {
    uuid: uuidOf(item, isInPage, seed),
    event: name,
    distinct_id: distinctId,
    timestamp: new Date(timestampMs).toISOString(),
    properties,
    ...updatesOf(item, properties),
  }
}

/**
 * Copies `$set`, `$set_once` and `$unset` of the event itself into its properties. If the properties already have a
 * member with the same name, the event's own member is not copied but returned. It then stays outside of the
 * properties, and the daemon merges both.
 */
function updatesOf(item: JsonObject, properties: OwnObject): JsonObject {
  const updates: OwnObject = {}
  const add = (key: string, value: unknown): void => {
    addMissing(Object.hasOwn(properties, key) ? updates : properties, key, value)
  }
  add('$set', objectOf(item, '$set') ?? objectOf(item, 'set'))
  add('$set_once', objectOf(item, '$set_once') ?? objectOf(item, 'set_once'))
  add('$unset', item['$unset'] ?? null)
  return updates
}

/**
 * Returns the uuid of an event. The events API of PostHog writes the uuid as `id`. The field `id` is therefore used in
 * a page of that API, and in a single event that has `elements` or `person`, because only that API writes these fields.
 * In all other events, `id` may be the ID of a user. An event without a uuid gets one that is computed from `seed()`.
 */
function uuidOf(item: JsonObject, isInPage: boolean, seed: () => string): string {
  const { id, uuid } = item
  if (uuid === undefined || uuid === null || uuid === '') {
    const isListed = isInPage || Object.hasOwn(item, 'elements') || Object.hasOwn(item, 'person')
    const isUuid = isListed && typeof id === 'string' && parseUuid(id) !== null
    return isUuid ? id : uuidV5(NAMESPACE, seed())
  }
  if (typeof uuid === 'string' && parseUuid(uuid) !== null) return uuid
  throw new LineFault(`its uuid is not a UUID: ${jsonExcerpt(uuid)}`)
}

/**
 * Returns the time of an event in milliseconds since 1970. The client of BigQuery writes a time as an object with the
 * member `value`.
 */
function timeOf(item: JsonObject, properties: JsonObject, nowMs: number): number {
  const given = item['timestamp']
  const value = isObject(given) && Object.hasOwn(given, 'value') ? given['value'] : given
  if (value === undefined || value === null || value === '') {
    const hint =
      properties['time'] === undefined
        ? ''
        : '. Mixpanel has the time in properties.time, in the time zone of the project. Write it as timestamp, in UTC'
    throw new LineFault(`it has no timestamp${hint}`)
  }
  const timestampMs = parseTimestamp(value)
  if (timestampMs === null) {
    throw new LineFault(`its timestamp has an unknown format: ${jsonExcerpt(given)}`)
  }
  if (!isTimestampUsable(timestampMs, nowMs)) {
    throw new LineFault(`its timestamp is more than 23 hours in the future: ${jsonExcerpt(given)}`)
  }
  return timestampMs
}

function addMissing(properties: OwnObject, key: string, value: unknown): void {
  if (value !== null && !Object.hasOwn(properties, key)) properties[key] = value
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/**
 * Returns a field that is an object, or the JSON text of an object. Returns null if the field is absent or has no
 * members.
 */
function objectOf(item: JsonObject, field: string): JsonObject | null {
  const given = item[field]
  if (given === undefined || given === null || given === '') return null
  const value = typeof given === 'string' ? parsedText(given) : given
  if (value === null) return null
  if (!isObject(value))
    throw new LineFault(`its ${field} is not a JSON object: ${jsonExcerpt(given)}`)
  return Object.keys(value).length === 0 ? null : value
}

/**
 * Returns the value of a JSON text that is inside of another JSON text, or undefined if it is not JSON. The inner value
 * must be cleaned too, because escapes in the inner text can stand for characters that cannot be stored.
 */
function parsedText(text: string): unknown {
  try {
    return parseJsonText(Buffer.from(text))
  } catch (error) {
    if (error instanceof ServiceError) return undefined
    throw error
  }
}

/**
 * Returns the elements chain of an event, or null if there is none. An event of the events API has a list of elements
 * instead, from which the chain is built.
 */
function chainOf(item: JsonObject): string | null {
  const chain = textOf(item['elements_chain'])
  if (chain !== null) return chain
  const elements = item['elements']
  if (!Array.isArray(elements) || elements.length === 0) return null
  return elementsChain(elements.filter(isObject).map(sentElement))
}

/** Returns an element from the events API with its fields renamed to the names that SDKs send. */
function sentElement(element: JsonObject): JsonObject {
  const { text, attr_class, attr_id, href, attributes, ...rest } = element
  const sent: OwnObject = { ...rest }
  if (isObject(attributes)) Object.assign(sent, attributes)
  if (text) sent['$el_text'] = text
  if (attr_class)
    sent['attr__class'] = Array.isArray(attr_class) ? attr_class.join(' ') : attr_class
  if (attr_id) sent['attr__id'] = attr_id
  if (href) sent['attr__href'] = href
  return sent
}

function jsonExcerpt(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, IMPORT_VALUE_SHOWN_UNITS_MAX)
}
