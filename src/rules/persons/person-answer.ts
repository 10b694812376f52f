/**
 * Persons and their activity in the form that clients receive: the members, and the form of times. Source:
 * docs/compatibility/persons.md, "Persons".
 */
import { exactTimeText } from '../../base/time.ts'
import type { PersonView } from './person-queries.ts'

/** A person as the API returns it; see `personBody`. */
export type PersonBody = Omit<PersonView, 'is_identified'>

/** Returns the body of a person in an answer. It has only the members that the API documents. */
export function personBody(person: PersonBody): PersonBody {
  const { id, name, distinct_ids, distinct_ids_count, properties, created_at, uuid } = person
  return {
    id,
    name,
    distinct_ids,
    ...(distinct_ids_count === undefined ? {} : { distinct_ids_count }),
    properties,
    created_at: exactTimeText(created_at),
    uuid,
  }
}

/** Returns a copy of an object in which `created_at`, `timestamp` and `last_calculation` have the form of the API. */
export function withWireTimes<T extends object>(value: T): T {
  const changed: Record<string, unknown> = {}
  for (const [name, member] of Object.entries(value)) {
    const isTime = name === 'created_at' || name === 'timestamp' || name === 'last_calculation'
    if (isTime && typeof member === 'string') changed[name] = exactTimeText(member)
  }
  return { ...value, ...changed }
}
