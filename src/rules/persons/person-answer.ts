/**
 * Persons and their activity as clients see them: which members, and how times are written. Source:
 * docs/compatibility/persons.md, "Persons".
 */
import { exactTimeText } from '../../base/time.ts'
import type { PersonView } from './person-queries.ts'

/** A person of the API. Interface description, section 2.6. */
export type PersonBody = Omit<PersonView, 'is_identified'>

/** The body of a person: these members, whatever else is known of it. */
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

/** The same object with its `created_at` and `timestamp` written that way. */
export function withWireTimes<T extends object>(value: T): T {
  const changed: Record<string, unknown> = {}
  for (const [name, member] of Object.entries(value)) {
    const isTime = name === 'created_at' || name === 'timestamp' || name === 'last_calculation'
    if (isTime && typeof member === 'string') changed[name] = exactTimeText(member)
  }
  return { ...value, ...changed }
}
