/** What can be asked about persons, groups and cohorts, and the answers. Shapes only: the store answers. */

import type {
  CountedRows,
  PageWish,
  RowFormat,
  RowsText,
  RowText,
  TextPieces,
} from '../../base/pages.ts'
import type { FilterGroup } from '../filters/filter-group.ts'
import type { CohortView } from './cohort-shapes.ts'
import type { GroupRows } from './group-shapes.ts'

/** A person as the API shows it. Interface description, section 2.6. */
export interface PersonView {
  /** Number within the project, from 1, never reused. */
  readonly id: number
  readonly name: string
  /** Oldest link first in lists; a single person: non-anonymous ids first. */
  readonly distinct_ids: readonly string[]
  /** How many there are, when not all are shown. */
  readonly distinct_ids_count?: number
  readonly properties: Readonly<Record<string, unknown>>
  readonly created_at: string
  readonly uuid: string
  readonly is_identified: boolean
}

/** A number or a uuid (lower case with hyphens), both within one project. */
export type PersonReference = number | string

/** A page of persons: newest `created_at` first, then uuid descending. All filters are joined by AND. */
export interface PersonListQuery {
  readonly projectId: number
  readonly distinctId?: string
  /** Property `email` equal to this text. */
  readonly email?: string
  /** `email` contains it (ignoring case), or a distinct_id or the uuid equals it. */
  readonly search?: string
  readonly properties?: FilterGroup
  readonly cohortId?: number
  readonly limit: number
  readonly offset: number
  /** Now, milliseconds: persons of the far future are left out. */
  readonly nowMs: number
}

/** One page of persons. */
export interface PersonPage {
  /** All that match. */
  readonly count: number
  readonly results: readonly PersonView[]
}

/** How often a value of a property occurs among persons. */
export interface ValueCount {
  readonly name: string
  readonly count: number
}

/** One entry of the activity log. Docs: COMPATIBILITY.md, "Activity of persons". */
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

/** A page of activity, newest first. */
export interface ActivityPage {
  readonly totalCount: number
  readonly results: readonly ActivityView[]
}

/** Point of a timeline: from this event on the properties that matter looked like this. */
export interface TimelinePoint {
  readonly timestamp: string
  readonly properties: Readonly<Record<string, unknown>>
  readonly relevant_event_count: number
}

/** A timeline of one person; times in milliseconds, both inclusive. */
export interface TimelineQuery {
  readonly projectId: number
  readonly person: PersonReference
  /** Event names; empty: all events. */
  readonly eventNames: readonly string[]
  readonly crucialKeys: readonly string[]
  readonly fromMs: number
  readonly toMs: number
}

/** Points of a timeline. */
export interface TimelineRows extends RowsText {
  /** Time of the first one; null when there is none. */
  readonly firstTimestamp: string | null
}

/** Reads that the front hands to the pool. Each uses one read transaction, a table one for each piece. */
export interface PersonQueries {
  /** JSON: a table is made by `personTable`. */
  listPersons(query: PersonListQuery, wish: PageWish): Promise<CountedRows>
  /**
   * The persons of a list as a table: as a whole when it is small, else made while it is read. Rejects with
   * 400 when it has too many cells.
   */
  personTable(query: PersonListQuery, onLeave: PageWish['onLeave']): Promise<RowText | TextPieces>
  /** With the ids from place `firstId` on. */
  getPerson(
    projectId: number,
    person: PersonReference,
    format: RowFormat,
    firstId: number,
  ): Promise<RowText | null>
  /** Who it is; null when there is no such person. */
  findPerson(projectId: number, person: PersonReference): Promise<{ readonly uuid: string } | null>
  /** Rows of `ValueCount`. */
  personValues(
    projectId: number,
    key: string,
    contains: string | null,
    wish: PageWish,
  ): Promise<RowsText>
  /** Rows of `ActivityView`. `person` null: of the whole project. Null when there is no such person. */
  personActivity(
    projectId: number,
    person: PersonReference | null,
    offset: number,
    limit: number,
    wish: PageWish,
  ): Promise<CountedRows | null>
  /** Rows of `TimelinePoint`. Null when there is no such person. */
  propertiesTimeline(query: TimelineQuery, wish: PageWish): Promise<TimelineRows | null>
  groupTypes(
    projectId: number,
  ): Promise<readonly { group_type: string; group_type_index: number }[]>
  listGroups(
    projectId: number,
    typeIndex: number,
    search: string | null,
    limit: number,
    cursor: string | null,
    wish: PageWish,
  ): Promise<GroupRows>
  findGroup(
    projectId: number,
    typeIndex: number,
    key: string,
    format: RowFormat,
  ): Promise<RowText | null>
  /** Rows of `CohortView`. */
  listCohorts(
    projectId: number,
    limit: number,
    offset: number,
    wish: PageWish,
  ): Promise<CountedRows>
  /** All cohorts that are not deleted, without counts of members. */
  knownCohorts(projectId: number): Promise<readonly CohortView[]>
  getCohort(projectId: number, id: number, wish: PageWish): Promise<RowText | null>
  /** Cohorts, not deleted, that the person belongs to; null when there is no such person. */
  cohortsOfPerson(
    projectId: number,
    person: PersonReference,
    wish: PageWish,
  ): Promise<RowsText | null>
}
