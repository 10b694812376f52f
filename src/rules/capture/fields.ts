/**
 * The name and the distinct_id of an event as text, and the tests on JSON values that the ingestion
 * rules share. Source: docs/compatibility/events.md, "Event name" and "distinct_id".
 */

import type { JsonObject } from '../../base/json.ts'
import { DISTINCT_ID_POINTS_MAX, EVENT_NAME_UNITS_MAX } from '../../base/limits.ts'
import { cleanText } from './json-text.ts'
import { FIELD_JSON_UNITS_MAX } from './limits.ts'

/**
 * The name of an event, cut to 200 UTF-16 units (a pair cut in half becomes U+FFFD); null when it has
 * none. Names that are no text become their JSON text.
 */
export function eventName(event: JsonObject): string | null {
  const name = event['event']
  if (typeof name === 'string') return name === '' ? null : cutUnits(name, EVENT_NAME_UNITS_MAX)
  if (isEmptyValue(name)) return null
  return cutUnits(appendJson('', name, false), EVENT_NAME_UNITS_MAX)
}

/**
 * The distinct_id of an event: the first of `$distinct_id`, `distinct_id` and `properties.distinct_id`
 * that is neither absent nor null, as text. Null when there is none or it is blank: a blank one hides
 * those behind it.
 */
export function eventDistinctId(event: JsonObject, properties: JsonObject): string | null {
  const id = event['$distinct_id'] ?? event['distinct_id'] ?? properties['distinct_id']
  return id === undefined || id === null ? null : textOfId(id)
}

/**
 * An id of any JSON type as text: strings as they are, others as compact JSON with sorted keys; clean,
 * and cut to 200 code points. Null when it is blank. Neither trims nor changes case. Linear.
 */
export function textOfId(id: unknown): string | null {
  const text = cleanText(typeof id === 'string' ? id : appendJson('', id, true))
  // Most ids begin with a visible ASCII character.
  const first = text.charCodeAt(0)
  if (!(first > 0x20 && first < 0x7f) && text.trim() === '') return null
  return cutPoints(text, DISTINCT_ID_POINTS_MAX)
}

/** Absent, null, `""`, 0, false, `[]` or `{}`: what counts as not given. */
export function isEmptyValue(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return !value
  if (Array.isArray(value)) return value.length === 0
  for (const key in value) if (Object.hasOwn(value, key)) return false
  return true
}

/** At most `unitsMax` UTF-16 units of a clean text; a pair that is cut in half becomes U+FFFD. */
export function cutUnits(text: string, unitsMax: number): string {
  if (text.length <= unitsMax) return text
  const last = text.charCodeAt(unitsMax - 1)
  const isHalf = last >= 0xd800 && last <= 0xdbff
  return isHalf ? `${ownText(text, unitsMax - 1)}\ufffd` : ownText(text, unitsMax)
}

/** The beginning of a text, copied: a slice would keep the whole text in memory for as long as it lives. */
function ownText(text: string, units: number): string {
  return Buffer.from(text.slice(0, units), 'utf16le').toString('utf16le')
}

/** At most `pointsMax` code points of a clean text. */
export function cutPoints(text: string, pointsMax: number): string {
  if (text.length <= pointsMax) return text
  let position = 0
  for (let points = 0; points < pointsMax && position < text.length; points++) {
    const unit = text.charCodeAt(position)
    position += unit >= 0xd800 && unit <= 0xdbff ? 2 : 1
  }
  return position >= text.length ? text : ownText(text, position)
}

/**
 * `text` and the compact JSON of a value, if wanted with the keys of every object sorted by UTF-16 units.
 * Stops soon after FIELD_JSON_UNITS_MAX units: names and ids are cut far below, and a value may be huge.
 */
function appendJson(text: string, value: unknown, isSorted: boolean): string {
  if (typeof value === 'string') return text + JSON.stringify(value.slice(0, FIELD_JSON_UNITS_MAX))
  if (typeof value !== 'object' || value === null) return text + JSON.stringify(value)
  if (Array.isArray(value)) {
    let longer = `${text}[`
    for (let index = 0; index < value.length && longer.length < FIELD_JSON_UNITS_MAX; index++) {
      longer = appendJson(index === 0 ? longer : `${longer},`, value[index], isSorted)
    }
    return `${longer}]`
  }
  const object = value as JsonObject
  const keys = Object.keys(object)
  if (isSorted) keys.sort()
  let longer = `${text}{`
  for (let index = 0; index < keys.length && longer.length < FIELD_JSON_UNITS_MAX; index++) {
    const key = keys[index] ?? ''
    const name = JSON.stringify(key.slice(0, FIELD_JSON_UNITS_MAX))
    longer = appendJson(`${index === 0 ? longer : `${longer},`}${name}:`, object[key], isSorted)
  }
  return `${longer}}`
}
