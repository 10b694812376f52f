/** What can be asked about persons, groups and cohorts, and the answers. Shapes only: the store answers. */
import type { RowsText } from '../../base/pages.ts'
import type { FilterGroup } from '../filters/filter-group.ts'

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
