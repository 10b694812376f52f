/**
 * How a person is called, and which of its ids say something. Source: docs/compatibility/persons.md, "Persons".
 */
import { propertyText } from '../filters/property-text.ts'

/** UUIDs, and the longer ids that the browser library keeps in its cookie. */
const ANONYMOUS = /^(?:[a-z0-9]+-){4}[a-z0-9]+$/

/** Whether a library made up the id: five groups of lower-case letters and digits. */
export function isAnonymousId(distinctId: string): boolean {
  return ANONYMOUS.test(distinctId)
}

/** The ids in their order, but those that somebody chose before the anonymous ones. */
export function chosenIdsFirst(distinctIds: readonly string[]): readonly string[] {
  const chosen = distinctIds.filter((id) => !isAnonymousId(id))
  if (chosen.length === 0 || chosen.length === distinctIds.length) return distinctIds
  return [...chosen, ...distinctIds.filter(isAnonymousId)]
}

/** The property that persons are called by; undefined when there is none. */
export function emailOf(properties: Readonly<Record<string, unknown>>): unknown {
  return Object.hasOwn(properties, 'email') ? properties['email'] : undefined
}

/**
 * What a person is called: the property `email` when it says something; else the first id that somebody
 * chose, else the first one; else the id of the person.
 */
export function personName(
  email: unknown,
  distinctIds: readonly string[],
  personId: number,
): string {
  if (saysSomething(email)) return propertyText(email)
  return distinctIds.find((id) => !isAnonymousId(id)) ?? distinctIds[0] ?? String(personId)
}

/** Neither missing, null, false, 0, empty text, nor an empty list or object. */
function saysSomething(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return Boolean(value)
  return Object.keys(value).length > 0
}
