/**
 * The interface through which queries read the persons and groups of their project. All calls read the same snapshot.
 * This file contains only types.
 */
import type { JsonObject } from '../../base/json.ts'
import type { FilterGroup } from '../filters/filter-group.ts'
import type { BehaviorTests, PersonCandidate, PersonTest } from '../filters/person-filter.ts'
import type { GroupView } from '../persons/group-shapes.ts'

/** An existing person. A member that is expensive to read is read when it is accessed. */
export interface FoundPerson extends PersonCandidate {
  readonly uuid: string
  /** The time of creation, in milliseconds since 1970. */
  readonly createdAtMs: number
  readonly isIdentified: boolean
  readonly properties: JsonObject
  /** The approximate number of characters in the JSON of all properties of the person. */
  readonly propertyUnits: number
  /** Returns the first `idsMax` distinct ids of the person, in the order in which they were linked to it. */
  distinctIds(idsMax: number): readonly string[]
}

/** The persons and groups of a project. All methods are synchronous, because they are used in a worker thread. */
export interface ActorSource {
  /** Returns the person with a person number, or null if it no longer exists. */
  person(number: number): FoundPerson | null
  /** Returns a group, or null if nothing is stored about it. */
  group(typeIndex: number, key: string): GroupView | null
  /**
   * Yields the numbers of all persons from an index, which is read during the iteration. The order is by `created_at`
   * and uuid, or by uuid. Some persons may no longer exist.
   */
  numbers(order: 'created_at' | 'id', isDescending: boolean): Iterable<number>
  /**
   * Returns a test for filters on persons and cohorts. `behavior` tests the filters on behavior. If it is absent, these
   * filters are left out.
   */
  personTest(filter: FilterGroup, behavior?: BehaviorTests): PersonTest
}
