/**
 * Parts of the property lookups of decisions: a lookup in an object, and the marker for a value that is too large to be
 * compared.
 */
import type { JsonObject } from '../../base/json.ts'
import type { PropertyLookup } from './types.ts'

/**
 * Stands for a list or an object that is too large to be read for a decision. The property exists, and a flag that
 * compares it fails. Only explanations show the text of the marker.
 */
export const UNREAD_VALUE: object = Object.freeze({
  too_large: 'The value is a list or an object that is too large to be compared.',
})

/** Returns a lookup that finds the members of an object. */
export function lookupIn(members: JsonObject): PropertyLookup {
  return { get: (name) => (Object.hasOwn(members, name) ? members[name] : undefined) }
}
