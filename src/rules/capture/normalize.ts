/**
 * Turns an accepted event into the event that is stored, or into the reason why it is not stored. It runs once for each
 * event, takes ownership of the event object and changes it in place. The handling of duplicates, quotas, group numbers
 * and persons needs state, so it is in other modules. Source: docs/compatibility/events.md, "Events that are not
 * stored" and "Stored events".
 */

import { isObject, type JsonObject, type OwnObject } from '../../base/json.ts'
import type { LossReason } from './drop-reasons.ts'
import { elementsChain } from './elements-chain.ts'
import { eventTime, NO_WARNINGS, sharedIsoText } from './event-time.ts'
import { cutUnits, eventDistinctId, eventName, isEmptyValue } from './fields.ts'
import { WARNING_UNITS_MAX } from './limits.ts'
import type { EventContext, EventOutcome, IngestionWarning, WarningType } from './types.ts'

const REDACTED = '[redacted]'
/** The start of the names `$ai_generation`, `$ai_trace`, `$ai_span`, `$ai_embedding` and others. */
const AI_NAME_START = '$ai_'
const NO_NAME = drop('no_event_name')
const NO_DISTINCT_ID = drop('no_distinct_id')
const IGNORED = drop('ignored_event')

/**
 * Normalizes one event and returns the form in which it is stored, or the reason why it is dropped. The structure of
 * the event must have been checked, and it must be clean (no lone surrogates, NUL, `__proto__` or infinite numbers).
 * The function takes ownership of the event and changes it. `rawBytes` is the number of bytes of the event's JSON. The
 * function measures the JSON of the properties only if `rawBytes` exceeds their limit. It never throws for a value that
 * JSON can express.
 */
export function normalizeEvent(
  event: JsonObject,
  context: EventContext,
  rawBytes: number,
): EventOutcome {
  const name = eventName(event)
  if (name === null) return NO_NAME
  const given = event['properties']
  const properties: OwnObject = isObject(given) ? given : {}
  const distinctId = eventDistinctId(event, properties)
  if (distinctId === null) return NO_DISTINCT_ID
  if (name.charCodeAt(0) === 0x24) {
    const refused = dropByName(name, distinctId, properties)
    if (refused !== null) return refused
  }
  mergeExplicitUpdates(event, properties)
  const bytesMax = propertiesBytesMaxOf(name, context)
  if (bytesMax > 0 && rawBytes > bytesMax) {
    const bytes = Buffer.byteLength(JSON.stringify(properties))
    if (bytes > bytesMax) {
      const cause = warning('message_size_too_large', name, distinctId, { bytes })
      return drop('properties_too_large', cause)
    }
  }
  const time = eventTime(event, properties, context)
  let warnings = time.warnings
  const profile = properties['$process_person_profile']
  const isPersonless = profile === false || properties['$cookieless_mode'] === true
  if (profile !== false && profile !== undefined) {
    properties['$process_person_profile'] = undefined
    if (profile !== true) {
      warnings = [...warnings, warning('invalid_process_person_profile', name, distinctId)]
    }
  }
  if (isPersonless) removePersonFields(properties)
  else if (name === '$groupidentify') removeUpdates(properties)
  setSender(properties, context, time.sentAtMs)
  const chain = takeElements(properties)
  if (properties['$heatmap_data'] !== undefined) properties['$heatmap_data'] = undefined
  if (properties['token'] !== undefined) properties['token'] = redacted(properties['token'])
  return {
    kind: 'event',
    event: {
      name,
      distinctId,
      timestampMs: time.timestampMs,
      properties,
      elementsChain: chain,
      isPersonless,
    },
    warnings,
  }
}

/**
 * Returns the maximum number of JSON bytes of the properties of an event. 0 means that there is no maximum. Events of
 * language models have a maximum of their own, which is never smaller than the maximum of other events.
 */
function propertiesBytesMaxOf(name: string, context: EventContext): number {
  const { propertiesBytesMax, aiPropertiesBytesMax } = context
  if (propertiesBytesMax === 0 || !name.startsWith(AI_NAME_START)) return propertiesBytesMax
  return aiPropertiesBytesMax === 0 ? 0 : Math.max(propertiesBytesMax, aiPropertiesBytesMax)
}

/**
 * Returns the outcome for an event that must be dropped because of its name, or null if the name is no reason to drop
 * it.
 */
function dropByName(name: string, distinctId: string, properties: JsonObject): EventOutcome | null {
  switch (name) {
    case '$snapshot':
    case '$snapshot_items':
    case '$performance_event':
    case '$$heatmap':
      return IGNORED
    case '$$client_ingestion_warning': {
      const message = properties['$$client_ingestion_warning_message']
      const text = typeof message === 'string' ? message : (JSON.stringify(message) ?? '')
      const details = { distinct_id: distinctId, message: cutUnits(text, WARNING_UNITS_MAX) }
      return drop('client_ingestion_warning', { type: 'client_ingestion_warning', details })
    }
    case '$identify':
    case '$create_alias':
    case '$merge_dangerously':
    case '$groupidentify': {
      if (properties['$cookieless_mode'] === true && name !== '$groupidentify') {
        const cause = warning('cookieless_unsupported_event', name, distinctId)
        return drop('cookieless_person_event', cause)
      }
      if (properties['$process_person_profile'] !== false) return null
      const type = 'invalid_event_when_process_person_profile_is_false'
      return drop('personless_person_event', warning(type, name, distinctId))
    }
    default:
      return null
  }
}

/** Merges the `$set`, `$set_once` and `$unset` of the event itself into the same members of its properties. */
function mergeExplicitUpdates(event: JsonObject, properties: OwnObject): void {
  mergeObject(event['$set'], properties, '$set')
  mergeObject(event['$set_once'], properties, '$set_once')
  const top = event['$unset']
  const inner = properties['$unset']
  if (top === undefined && inner === undefined) return
  const names = new Set<string>()
  collectNames(inner, names)
  collectNames(top, names)
  if (names.size > 0) properties['$unset'] = [...names]
  else if (inner !== undefined) properties['$unset'] = undefined
}

/**
 * Merges the member `$set` or `$set_once` of the event itself (`top`) into the same member of its properties. If both
 * contain a key, the value of the event itself wins. A value that is not an object is ignored.
 */
function mergeObject(top: unknown, properties: OwnObject, field: '$set' | '$set_once'): void {
  const inner = properties[field]
  if (top === undefined && inner === undefined) return
  if (isObject(inner)) {
    if (isObject(top)) Object.assign(inner, top)
  } else if (isObject(top)) properties[field] = top
  else if (inner !== undefined) properties[field] = undefined
}

function collectNames(unset: unknown, names: Set<string>): void {
  if (Array.isArray(unset)) {
    for (const name of unset) if (typeof name === 'string') names.add(name)
  } else if (isObject(unset)) {
    for (const name of Object.keys(unset)) names.add(name)
  }
}

function removePersonFields(properties: OwnObject): void {
  removeUpdates(properties)
  if (properties['$group_0'] !== undefined) properties['$group_0'] = undefined
  if (properties['$group_1'] !== undefined) properties['$group_1'] = undefined
  if (properties['$group_2'] !== undefined) properties['$group_2'] = undefined
  if (properties['$group_3'] !== undefined) properties['$group_3'] = undefined
  if (properties['$group_4'] !== undefined) properties['$group_4'] = undefined
}

// Removes the updates of the person from the properties. They are set to undefined, because `delete` makes an object
// slower to read for good. Keys that do not exist are not added.
function removeUpdates(properties: OwnObject): void {
  if (properties['$set'] !== undefined) properties['$set'] = undefined
  if (properties['$set_once'] !== undefined) properties['$set_once'] = undefined
  if (properties['$unset'] !== undefined) properties['$unset'] = undefined
}

function setSender(properties: OwnObject, context: EventContext, sentAtMs: number | null): void {
  const given = properties['$ip']
  if (context.isIpAnonymized) {
    if (given !== undefined) properties['$ip'] = undefined
  } else if (context.ip !== '' && (given === undefined || isEmptyValue(given))) {
    properties['$ip'] = context.ip
  }
  if (sentAtMs !== null) properties['$sent_at'] = sharedIsoText(sentAtMs)
}

/**
 * Removes `$elements` and `$elements_chain` from the properties, and returns the elements chain, or '' if there is
 * none.
 */
function takeElements(properties: OwnObject): string {
  const text = properties['$elements_chain']
  const elements = properties['$elements']
  if (text === undefined && elements === undefined) return ''
  if (text !== undefined) properties['$elements_chain'] = undefined
  if (elements !== undefined) properties['$elements'] = undefined
  if (typeof text === 'string' && text !== '') return text
  return Array.isArray(elements) ? elementsChain(elements) : ''
}

/**
 * Returns the value that is stored for a property `token`. A personal key that a client sent by mistake is redacted,
 * because everybody who reads events could read it.
 */
export function redacted(token: unknown): unknown {
  return typeof token === 'string' && token.startsWith('phx_') ? REDACTED : token
}

function warning(
  type: WarningType,
  event: string,
  distinctId: string,
  more: JsonObject = {},
): IngestionWarning {
  return { type, details: { event, distinct_id: distinctId, ...more } }
}

function drop(reason: LossReason, cause?: IngestionWarning): EventOutcome {
  return { kind: 'drop', reason, warnings: cause === undefined ? NO_WARNINGS : [cause] }
}
