/**
 * What an event does to the properties of a person, as a text that can be kept until somebody has to know
 * them: applying it then leads to the same properties as applying the event would have.
 *
 * The text is compact JSON without line feeds: an array of slots and values of automatic properties
 * (automatic-properties.ts), then, where the event has any of them, an object with its `$set`, `$set_once`
 * and `$unset`. Stores hold it, so no slot may ever mean another property.
 */
import { isObject, type JsonObject } from '../../base/json.ts'
import { type AutomaticValues, SLOT_NAMES } from './automatic-properties.ts'
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

/** Whether an event sets or removes an e-mail address. */
export function namesEmail({ $set, $set_once, $unset }: JsonObject): boolean {
  if (isObject($set) && Object.hasOwn($set, 'email')) return true
  if (isObject($set_once) && Object.hasOwn($set_once, 'email')) return true
  return Array.isArray($unset) && $unset.includes('email')
}
