/** The port to the persons and groups of a query's project, on one snapshot. This file contains only shapes. */
import type { JsonObject } from '../../base/json.ts'
import type { FilterGroup } from '../filters/filter-group.ts'
import type { BehaviorTests, PersonCandidate, PersonTest } from '../filters/person-filter.ts'
import type { GroupView } from '../persons/group-shapes.ts'

/** An existing person. Members that are expensive to read are read on access. */
export interface FoundPerson extends PersonCandidate {
  readonly uuid: string
  /** The time of creation, in milliseconds since 1970. */
  readonly createdAtMs: number
  readonly isIdentified: boolean
  readonly properties: JsonObject
  /** The approximate number of characters of the JSON of all properties. */
  readonly propertyUnits: number
  /** Returns the first distinct ids in the order of their links, at most `idsMax`. */
  distinctIds(idsMax: number): readonly string[]
}

/** The persons and groups. The port is synchronous, because it is used in a thread of the pool. */
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
   * Returns the test of a tree of filters on persons and cohorts. `behavior` tests its filters on behavior. The default
   * is to leave them out.
   */
  personTest(filter: FilterGroup, behavior?: BehaviorTests): PersonTest
}
