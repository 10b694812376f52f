/** How persons and groups look to readers of the API. Pure functions. */
import { ServiceError } from '../../base/errors.ts'
import { PAGE_BYTES_MAX } from '../../base/limits.ts'
import { timeText } from '../../base/time.ts'
import type { GroupView } from './group-shapes.ts'
import { chosenIdsFirst, emailOf, personName } from './person-name.ts'
import type { PersonView } from './person-queries.ts'
import type { GroupState } from './person-world.ts'

/** What a view is made of; ids are texts in the order of their links. */
export interface PersonFacts {
  readonly id: number
  readonly uuid: string
  readonly createdAtMs: number
  readonly isIdentified: boolean
  readonly properties: Readonly<Record<string, unknown>>
  /** The first ones, as many as are shown or more. */
  readonly distinctIds: readonly string[]
  /** All of them. */
  readonly idCount: number
}

/** How many ids there are, when not all of them are shown. */
export function countOfIds(
  idCount: number,
  idsMax: number,
): { readonly distinct_ids_count?: number } {
  return idCount > idsMax ? { distinct_ids_count: idCount } : {}
}

/**
 * A person as the API shows it, with `idsMax` ids at most. In lists ids come in the order of their
 * links, for a single person those that somebody chose come first. Source: docs/compatibility/persons.md,
 * "Persons".
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

/** A group as the API shows it. */
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

/** 400 `query_too_large` for the points of a timeline with more than `PAGE_BYTES_MAX`. */
export function timelineTooLarge(): ServiceError {
  const detail = `the points would have more than ${PAGE_BYTES_MAX} bytes; ask for a shorter range`
  return new ServiceError('query_too_large', detail)
}
