/** The shapes of queries about persons, groups and cohorts, and of their answers. The store answers the queries. */
import type { RowsText } from '../../base/pages.ts'
import type { FilterGroup } from '../filters/filter-group.ts'

/** A person as the API shows it. */
export interface PersonView {
  /** The person number within the project. It begins at 1 and is never reused. */
  readonly id: number
  readonly name: string
  /**
   * The distinct ids. In lists, the oldest link comes first. For a single person, ids that are not anonymous come
   * first.
   */
  readonly distinct_ids: readonly string[]
  /** The number of distinct ids, if not all of them are shown. */
  readonly distinct_ids_count?: number
  readonly properties: Readonly<Record<string, unknown>>
  readonly created_at: string
  readonly uuid: string
  readonly is_identified: boolean
}

/** Identifies a person within a project: its number, or its uuid (lower case with hyphens). */
export type PersonReference = number | string

/** A query for a page of persons: newest `created_at` first, then uuid descending. All filters must hold. */
export interface PersonListQuery {
  readonly projectId: number
  readonly distinctId?: string
  /** The value that the property `email` must have. */
  readonly email?: string
  /**
   * A text to search for. It must occur in the property `email` (ignoring case), or be a distinct_id or the uuid of the
   * person.
   */
  readonly search?: string
  readonly properties?: FilterGroup
  readonly cohortId?: number
  readonly limit: number
  readonly offset: number
  /** The current time in milliseconds since 1970. Persons whose creation time is far in the future are left out. */
  readonly nowMs: number
}

/** One page of persons. */
export interface PersonPage {
  /** The number of all persons that match. */
  readonly count: number
  readonly results: readonly PersonView[]
}

/** The number of persons that have a value of a property. */
export interface ValueCount {
  readonly name: string
  readonly count: number
}

/** One entry of the activity log. Docs: docs/compatibility/persons.md, "Activity of persons". */
export interface ActivityView {
  readonly user: { readonly first_name: string; readonly email: string }
  readonly activity: 'updated' | 'delete_property' | 'deleted' | 'split_person'
  readonly scope: 'Person'
  readonly item_id: string
  readonly detail: {
    readonly changes: readonly unknown[] | null
    readonly name: string | null
    readonly short_id: null
    readonly type: null
    readonly trigger: null
  }
  readonly created_at: string
}

/** A page of the activity log, newest entry first. */
export interface ActivityPage {
  readonly totalCount: number
  readonly results: readonly ActivityView[]
}

/** One point of a timeline: an event after which the properties `crucialKeys` of the query have these values. */
export interface TimelinePoint {
  readonly timestamp: string
  readonly properties: Readonly<Record<string, unknown>>
  readonly relevant_event_count: number
}

/** A query for the timeline of one person. The times are in milliseconds since 1970, and both are inclusive. */
export interface TimelineQuery {
  readonly projectId: number
  readonly person: PersonReference
  /** The event names. An empty list means all events. */
  readonly eventNames: readonly string[]
  readonly crucialKeys: readonly string[]
  readonly fromMs: number
  readonly toMs: number
}

/** The points of a timeline. */
export interface TimelineRows extends RowsText {
  /** The time of the first point. Null if there is none. */
  readonly firstTimestamp: string | null
}
