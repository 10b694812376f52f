/** The port to the persons and groups behind a query: those of its project, on one snapshot. Shapes only. */
import type { JsonObject } from '../../base/json.ts'
import type { FilterGroup } from '../filters/filter-group.ts'
import type { PersonCandidate, PersonTest } from '../filters/person-filter.ts'
import type { GroupView } from '../persons/group-shapes.ts'

/** A living person. What costs something is read when it is asked for. */
export interface FoundPerson extends PersonCandidate {
  readonly uuid: string
  /** Milliseconds since 1970. */
  readonly createdAtMs: number
  readonly isIdentified: boolean
  readonly properties: JsonObject
  /** Characters of the JSON of all properties, about. */
  readonly propertyUnits: number
  /** The first ids in the order of their links, at most so many. */
  distinctIds(idsMax: number): readonly string[]
}

/** Persons and groups; synchronous, as it is used in a thread of the pool. */
export interface ActorSource {
  /** Null when there is no such person any more. `number`: P. */
  person(number: number): FoundPerson | null
  /** Null for a group that nothing is known of. */
  group(typeIndex: number, key: string): GroupView | null
  /**
   * P of all persons by an index, read as it is gone through: by `created_at` and uuid, or by uuid. Some may not
   * be there any more.
   */
  numbers(order: 'created_at' | 'id', isDescending: boolean): Iterable<number>
  /** A tree of filters on persons and cohorts as a test of `FoundPerson`. */
  personTest(filter: FilterGroup): PersonTest
}
