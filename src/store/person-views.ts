/** How persons look to readers of the API. Pure functions. */

import { chosenIdsFirst, personName } from '../query/person-name.ts'
import type { PersonView } from '../query/persons.ts'

/** What a view is made of; ids are texts in the order of their links. */
export interface PersonFacts {
  readonly number: number
  readonly uuid: string
  readonly createdAtMs: number
  readonly isIdentified: boolean
  readonly properties: Readonly<Record<string, unknown>>
  readonly distinctIds: readonly string[]
}

/** ISO 8601, UTC; fractions of a second only when there are any, as microseconds. */
export function isoTime(timeMs: number): string {
  const text = new Date(timeMs).toISOString()
  return text.endsWith('.000Z') ? `${text.slice(0, -5)}Z` : `${text.slice(0, -1)}000Z`
}

/**
 * A person as the API shows it. In lists ids come in the order of their links, for a single person those
 * that somebody chose come first. Source: docs/COMPATIBILITY.md, "Persons".
 */
export function personView(facts: PersonFacts, isSingle: boolean): PersonView {
  const { number, uuid, createdAtMs, isIdentified, properties, distinctIds } = facts
  const email = Object.hasOwn(properties, 'email') ? properties['email'] : undefined
  return {
    id: number,
    name: personName(email, distinctIds, number),
    distinct_ids: isSingle ? chosenIdsFirst(distinctIds) : distinctIds,
    properties,
    created_at: isoTime(createdAtMs),
    uuid,
    is_identified: isIdentified,
  }
}
