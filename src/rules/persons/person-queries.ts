/**
 * What can be asked about persons, groups and cohorts, what can be changed, and the answers. Shapes only:
 * the store implements the questions, the processing thread the changes.
 */

import type {
  CountedRows,
  PageWish,
  RowFormat,
  RowsText,
  RowText,
  TextPieces,
} from '../../base/pages.ts'
import type { DeadLetterOutcome } from '../events/dead-letters.ts'
import type { ErasureCommand, ErasureReceipt } from '../events/erasure.ts'
import type { PropertyFilter } from '../events/event-queries.ts'
import type { ActionDraft, ActionView } from '../filters/actions.ts'

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

/** A tree of filters: all (`AND`) or one (`OR`) of `values` must hold. */
export interface FilterGroup {
  readonly type: 'AND' | 'OR'
  readonly values: readonly (FilterGroup | PropertyFilter)[]
}

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

/** A group of some type. */
export interface GroupView {
  readonly group_type_index: number
  readonly group_key: string
  readonly group_properties: Readonly<Record<string, unknown>>
  readonly created_at: string
}

/** A cohort: a fixed list of persons, or a tree of person filters. */
export interface CohortView {
  readonly id: number
  readonly name: string
  readonly description: string
  readonly groups: readonly unknown[]
  readonly deleted: boolean
  readonly filters: Readonly<Record<string, unknown>>
  readonly is_calculating: boolean
  readonly created_by: Readonly<Record<string, unknown>> | null
  readonly created_at: string
  readonly last_calculation: string | null
  readonly errors_calculating: number
  readonly count: number | null
  readonly is_static: boolean
}

/** Points of a timeline. */
export interface TimelineRows extends RowsText {
  /** Time of the first one; null when there is none. */
  readonly firstTimestamp: string | null
}

/** Groups in the order of their keys. */
export interface GroupRows extends RowsText {
  readonly nextCursor: string | null
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

/** Who asks for a change. */
export interface Actor {
  readonly userId: number
  readonly firstName: string
  readonly email: string
}

/**
 * A change that someone asks for. It goes through the log like an event, in the same order, and is
 * visible to every read when its result is known.
 */
export type PersonCommand =
  /** PATCH and update_property: an event `$set` on the first distinct_id, and an activity entry. */
  | {
      readonly kind: 'set_properties'
      readonly person: PersonReference
      readonly set: Readonly<Record<string, unknown>>
    }
  | { readonly kind: 'delete_property'; readonly person: PersonReference; readonly key: string }
  | {
      readonly kind: 'delete_person'
      readonly person: PersonReference
      readonly deletesEvents: boolean
    }
  | {
      readonly kind: 'split_person'
      readonly person: PersonReference
      readonly mainDistinctId: string | null
    }
  /** `tenrec person merge`: as `$merge_dangerously` on the distinct ids of the two. */
  | {
      readonly kind: 'merge_persons'
      readonly into: PersonReference
      readonly from: PersonReference
    }
  | {
      readonly kind: 'set_group_properties'
      readonly typeIndex: number
      readonly key: string
      readonly set: Readonly<Record<string, unknown>>
    }
  | { readonly kind: 'create_cohort'; readonly cohort: CohortDraft }
  | {
      readonly kind: 'update_cohort'
      readonly id: number
      readonly changes: Partial<CohortDraft> & { readonly deleted?: boolean }
    }
  | { readonly kind: 'create_action'; readonly action: ActionDraft }
  | {
      readonly kind: 'update_action'
      readonly id: number
      readonly changes: Partial<ActionDraft> & { readonly deleted?: boolean }
    }
  | ErasureCommand
  /** A decision with an anonymous id: see store/identity/flag-overrides.ts. */
  | {
      readonly kind: 'set_flag_overrides'
      readonly distinctIds: readonly string[]
      readonly flagKeys: readonly string[]
      readonly identifier: string
    }

/** What may be said about a cohort. */
export interface CohortDraft {
  readonly name: string
  readonly description: string
  readonly isStatic: boolean
  /** Dynamic: the tree of person filters. */
  readonly filters: FilterGroup | null
  /** Static: members to add. */
  readonly personUuids: readonly string[]
  readonly distinctIds: readonly string[]
}

/** What became of a command. */
export type CommandResult =
  | {
      readonly kind: 'done'
      readonly person?: PersonView
      readonly group?: GroupView
      readonly cohort?: CohortView
      readonly action?: ActionView
      readonly erasure?: ErasureReceipt
      readonly letters?: DeadLetterOutcome
    }
  | { readonly kind: 'not_found' }
  /** `main_distinct_id` is none of the person's. */
  | { readonly kind: 'unknown_distinct_id' }
  /** The properties would be too large; `bytesMax` is the limit. */
  | { readonly kind: 'too_large'; readonly bytesMax: number }

/** Changes that the front hands to the log. Rejects with 503 `server_error` when the log cannot take them. */
export interface PersonCommands {
  run(projectId: number, actor: Actor, command: PersonCommand): Promise<CommandResult>
}
