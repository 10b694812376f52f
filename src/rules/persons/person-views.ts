/** Builds the API views of persons and groups. All functions are pure. */
import { ServiceError } from '../../base/errors.ts'
import { PAGE_BYTES_MAX } from '../../base/limits.ts'
import { timeText } from '../../base/time.ts'
import type { GroupView } from './group-shapes.ts'
import { chosenIdsFirst, emailOf, personName } from './person-name.ts'
import type { PersonView } from './person-queries.ts'
import type { GroupState } from './person-repository.ts'

/** The facts that a view is built from. `distinctIds` is in the order in which the ids were linked to the person. */
export interface PersonFacts {
  readonly id: number
  readonly uuid: string
  readonly createdAtMs: number
  readonly isIdentified: boolean
  readonly properties: Readonly<Record<string, unknown>>
  /** The first distinct ids: at least as many as the view shows, if the person has so many. */
  readonly distinctIds: readonly string[]
  /** The number of all distinct ids. */
  readonly idCount: number
}

/** Returns the member `distinct_ids_count` if not all ids are shown, otherwise nothing. */
export function countOfIds(
  idCount: number,
  idsMax: number,
): { readonly distinct_ids_count?: number } {
  return idCount > idsMax ? { distinct_ids_count: idCount } : {}
}

/**
 * Returns a person as the API shows it, with at most `idsMax` distinct ids. In lists of persons, the ids are in the
 * order in which they were linked. For a single person, ids that no library generated come first (`chosenIdsFirst`).
 * Source: docs/compatibility/persons.md, "Persons".
 */
export function personView(facts: PersonFacts, isSingle: boolean, idsMax: number): PersonView {
  const { id, uuid, createdAtMs, isIdentified, properties, idCount, distinctIds } = facts
  const shown = distinctIds.slice(0, idsMax)
  return {
    id,
    name: personName(emailOf(properties), distinctIds, id),
    distinct_ids: isSingle ? chosenIdsFirst(shown) : shown,
    ...countOfIds(idCount, idsMax),
    properties,
    created_at: timeText(createdAtMs),
    uuid,
    is_identified: isIdentified,
  }
}

/** Returns a group as the API shows it. */
export function groupView(
  { typeIndex, key, createdAtMs }: Pick<GroupState, 'typeIndex' | 'key' | 'createdAtMs'>,
  properties: Readonly<Record<string, unknown>>,
): GroupView {
  return {
    group_type_index: typeIndex,
    group_key: key,
    group_properties: properties,
    created_at: timeText(createdAtMs),
  }
}

/** Returns the error 400 `query_too_large` for a timeline whose points have more than `PAGE_BYTES_MAX` bytes. */
export function timelineTooLarge(): ServiceError {
  const detail = `The timeline would have more than ${PAGE_BYTES_MAX} bytes. Choose a shorter range.`
  return new ServiceError('query_too_large', detail)
}
