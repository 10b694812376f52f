/**
 * Reads the name and the distinct_id of an event as text, and provides the tests on JSON values that the ingestion
 * rules share. Source: docs/compatibility/events.md, "Event name" and "distinct_id".
 */

import type { JsonObject } from '../../base/json.ts'
import { DISTINCT_ID_POINTS_MAX, EVENT_NAME_UNITS_MAX } from '../../base/limits.ts'
import { cleanText } from './json-text.ts'
import { FIELD_JSON_UNITS_MAX } from './limits.ts'

/**
 * Returns the name of an event, cut to 200 UTF-16 units, or null if it has none. A surrogate pair that is cut in half
 * becomes U+FFFD. A name that is not a text becomes its JSON text.
 */
export function eventName(event: JsonObject): string | null {
  const name = event['event']
  if (typeof name === 'string') return name === '' ? null : cutUnits(name, EVENT_NAME_UNITS_MAX)
  if (isEmptyValue(name)) return null
  return cutUnits(appendJson('', name, false), EVENT_NAME_UNITS_MAX)
}

/**
 * Returns the distinct_id of an event as text. It is the first of `$distinct_id`, `distinct_id` and
 * `properties.distinct_id` that is neither absent nor null. Returns null if the three fields are absent or null. Also
 * returns null if the field that was chosen is blank, even if a later field is not.
 */
export function eventDistinctId(event: JsonObject, properties: JsonObject): string | null {
  const id = event['$distinct_id'] ?? event['distinct_id'] ?? properties['distinct_id']
  return id === undefined || id === null ? null : textOfId(id)
}

/**
 * Returns an id of any JSON type as text. A string stays as it is; another value becomes compact JSON with sorted keys.
 * The text is cleaned and cut to 200 code points, but neither trimmed nor changed in case. Returns null if it is blank.
 * The cost is linear.
 */
export function textOfId(id: unknown): string | null {
  const text = cleanText(typeof id === 'string' ? id : appendJson('', id, true))
  // Fast path: most ids begin with a visible ASCII character, so they are not blank.
  const first = text.charCodeAt(0)
  if (!(first > 0x20 && first < 0x7f) && text.trim() === '') return null
  return cutPoints(text, DISTINCT_ID_POINTS_MAX)
}

/** Returns whether a value counts as not given: absent, null, `""`, 0, false, `[]` or `{}`. */
export function isEmptyValue(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return !value
  if (Array.isArray(value)) return value.length === 0
  for (const key in value) if (Object.hasOwn(value, key)) return false
  return true
}

/** Cuts a clean text to at most `unitsMax` UTF-16 units. A surrogate pair that is cut in half becomes U+FFFD. */
export function cutUnits(text: string, unitsMax: number): string {
  if (text.length <= unitsMax) return text
  const last = text.charCodeAt(unitsMax - 1)
  const isHalf = last >= 0xd800 && last <= 0xdbff
  return isHalf ? `${ownText(text, unitsMax - 1)}\ufffd` : ownText(text, unitsMax)
}

/**
 * Returns a copy of the first `units` UTF-16 units of a text. V8 would keep the whole text in memory as long as a slice
 * of it is used.
 */
function ownText(text: string, units: number): string {
  return Buffer.from(text.slice(0, units), 'utf16le').toString('utf16le')
}

/** Cuts a clean text to at most `pointsMax` code points. */
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
 * Appends the compact JSON of a value to `text`. If `isSorted` is true, the keys of every object are sorted by UTF-16
 * units. The function stops soon after FIELD_JSON_UNITS_MAX units, because a value may be huge, and names and ids are
 * cut at a much smaller length.
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
