/** What decisions look up: properties that are in memory anyway, and values that are too large to be compared. */
import type { JsonObject } from '../../base/json.ts'
import type { PropertyLookup } from './types.ts'

/**
 * Stands for a list or an object that is too large to be read for a decision: the property is there, and a flag
 * that compares it fails. Only explanations show what it says.
 */
export const UNREAD_VALUE: object = Object.freeze({
  too_large: 'The value is a list or an object that is too large to be compared.',
})

/** Looks up members of an object. */
export function lookupIn(members: JsonObject): PropertyLookup {
  return { get: (name) => (Object.hasOwn(members, name) ? members[name] : undefined) }
}
