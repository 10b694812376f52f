/**
 * Finds the display name of a person and tells anonymous ids from chosen ones. Source: docs/compatibility/persons.md,
 * "Persons".
 */
import { propertyText } from '../filters/property-text.ts'

/** Matches UUIDs and the longer ids that the browser library stores in its cookie. */
const ANONYMOUS = /^(?:[a-z0-9]+-){4}[a-z0-9]+$/

/** Returns whether a library generated the id: five groups of lower-case letters and digits. */
export function isAnonymousId(distinctId: string): boolean {
  return ANONYMOUS.test(distinctId)
}

/** Returns the ids in their order, but with the chosen ids before the anonymous ones. */
export function chosenIdsFirst(distinctIds: readonly string[]): readonly string[] {
  const chosen = distinctIds.filter((id) => !isAnonymousId(id))
  if (chosen.length === 0 || chosen.length === distinctIds.length) return distinctIds
  return [...chosen, ...distinctIds.filter(isAnonymousId)]
}

/** Returns the property that a person is named by, or undefined if there is none. */
export function emailOf(properties: Readonly<Record<string, unknown>>): unknown {
  return Object.hasOwn(properties, 'email') ? properties['email'] : undefined
}

/**
 * Returns the display name of a person: the property `email` if it is not empty, otherwise the first chosen id,
 * otherwise the first id, otherwise the number of the person.
 */
export function personName(
  email: unknown,
  distinctIds: readonly string[],
  personId: number,
): string {
  if (saysSomething(email)) return propertyText(email)
  return distinctIds.find((id) => !isAnonymousId(id)) ?? distinctIds[0] ?? String(personId)
}

/**
 * Returns whether a value is not empty: neither missing, null, false, 0, an empty text, an empty list nor an empty
 * object.
 */
function saysSomething(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return Boolean(value)
  return Object.keys(value).length > 0
}
