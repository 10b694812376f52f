/**
 * What an event does to the properties of a person, as a text that can be kept until somebody has to know
 * them: applying it then leads to the same properties as applying the event would have.
 *
 * The text is compact JSON without line feeds: an array of slots and values of automatic properties
 * (automatic-properties.ts), then, where the event has any of them, an object with its `$set`, `$set_once`
 * and `$unset`. Stores hold it, so no slot may ever mean another property.
 */
import { isObject, type JsonObject } from '../../base/json.ts'
import { type AutomaticValues, SLOT_NAMES, SLOT_OF } from './automatic-properties.ts'
import { PropertyTable } from './property-table.ts'
import { updateProperties } from './property-updates.ts'

/** What the updates of a normalised event are, or null when there are none; `automatic` as for `updateProperties`. About 2 us for 20 automatic properties. */
export function deltaOf(event: JsonObject, automatic: AutomaticValues | undefined): string | null {
  const parts = automatic === undefined ? PropertyTable.automaticOf(event) : partsOf(automatic)
  const { $set, $set_once, $unset } = event
  if ($set !== undefined || $set_once !== undefined || $unset !== undefined) {
    parts.push({ $set, $set_once, $unset })
  }
  return parts.length === 0 ? null : JSON.stringify(parts)
}

function partsOf({ count, slots, values }: AutomaticValues): unknown[] {
  const parts: unknown[] = []
  for (let index = 0; index < count; index++) parts.push(slots[index], values[index])
  return parts
}

/** Applies a delta, whatever size it leads to; true when it changed something. */
export function applyDelta(table: PropertyTable, delta: string): boolean {
  const event: Record<string, unknown> = {}
  // Deltas are made by `deltaOf`.
  const parts = JSON.parse(delta) as unknown[]
  for (let index = 0; index < parts.length; index += 2) {
    const part = parts[index]
    if (isObject(part)) Object.assign(event, part)
    else event[SLOT_NAMES[Number(part)] ?? ''] = parts[index + 1]
  }
  // A character may take three bytes.
  return updateProperties(table, event, delta.length * 3, 0) === 'changed'
}

/**
 * Applies a delta to properties as an object, as `applyDelta` does to a table, for who only reads them: a fifth
 * of the cost. Not for objects or deltas with a member `__proto__`.
 */
export function applyDeltaToObject(properties: Record<string, unknown>, delta: string): void {
  const parts = JSON.parse(delta) as unknown[]
  const last = parts.at(-1)
  // An object behind all pairs; as a value of a pair it stands at an odd place.
  const given: JsonObject = parts.length % 2 === 1 && isObject(last) ? last : NO_UPDATES
  const { $set, $set_once, $unset } = given
  const set = isObject($set) ? $set : NO_UPDATES
  const once = isObject($set_once) ? $set_once : NO_UPDATES
  const unset = Array.isArray($unset) ? $unset.filter((name) => isWithin(properties, name)) : []
  Object.assign(properties, set)
  for (let index = 0; index + 1 < parts.length; index += 2) {
    const slot = Number(parts[index])
    const latest = SLOT_NAMES[slot] ?? ''
    const first = SLOT_NAMES[slot + 1] ?? ''
    if (set[latest] === undefined) properties[latest] = parts[index + 1]
    if (once[first] === undefined && properties[first] === undefined) {
      properties[first] = parts[index + 1]
    }
  }
  for (const name in once) {
    if (!Object.hasOwn(properties, name)) properties[name] = once[name]
  }
  for (const name of unset) delete properties[name]
}

/** A delta, parsed once for who reads several properties. */
export interface ParsedDelta {
  /** Slots and values of automatic properties, one behind the other. */
  readonly parts: readonly unknown[]
  readonly set: JsonObject
  readonly once: JsonObject
  readonly unset: readonly unknown[]
}

/** Parses a delta for `propertyAfter`. */
export function parseDelta(delta: string): ParsedDelta {
  const parts = JSON.parse(delta) as unknown[]
  // An object behind all pairs; as a value of a pair it stands at an odd place.
  const last = parts.length % 2 === 1 ? parts.pop() : null
  const { $set, $set_once, $unset } = isObject(last) ? last : NO_UPDATES
  return {
    parts,
    set: isObject($set) ? $set : NO_UPDATES,
    once: isObject($set_once) ? $set_once : NO_UPDATES,
    unset: Array.isArray($unset) ? $unset : [],
  }
}

/**
 * What a delta makes of one property, undefined standing for one that is not there: the same as `applyDelta` makes
 * of it within a table. What a delta does to a property does not depend on others.
 */
export function propertyAfter(
  { parts, set, once, unset }: ParsedDelta,
  name: string,
  before: unknown,
): unknown {
  if (before !== undefined && unset.includes(name)) return undefined
  const isSet = Object.hasOwn(set, name)
  const isOnce = Object.hasOwn(once, name)
  let value = isSet ? set[name] : before
  const slot = SLOT_OF.get(name)
  if (slot !== undefined) {
    const isLatest = slot % 2 === 0
    const source = isLatest ? slot : slot - 1
    for (let index = 0; index + 1 < parts.length; index += 2) {
      if (Number(parts[index]) !== source) continue
      if (isLatest ? !isSet : !isOnce && value === undefined) value = parts[index + 1]
    }
  }
  return value === undefined && isOnce ? once[name] : value
}

const NO_UPDATES: JsonObject = Object.freeze({})

function isWithin(properties: Readonly<Record<string, unknown>>, name: unknown): name is string {
  return typeof name === 'string' && Object.hasOwn(properties, name)
}

/** Whether an event sets or removes an e-mail address. */
export function namesEmail({ $set, $set_once, $unset }: JsonObject): boolean {
  if (isObject($set) && Object.hasOwn($set, 'email')) return true
  if (isObject($set_once) && Object.hasOwn($set_once, 'email')) return true
  return Array.isArray($unset) && $unset.includes('email')
}
