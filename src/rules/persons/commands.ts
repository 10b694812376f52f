/**
 * Commands: explicit changes to persons, groups, cohorts, actions and erasures. The main thread writes them to the log,
 * and the processing thread executes them in order with the events. This file contains only shapes.
 */
import type { Actor } from '../access/user.ts'
import type { DeadLetterOutcome } from '../events/dead-letters.ts'
import type { ErasureCommand, ErasureReceipt } from '../events/erasure.ts'
import type { ActionDraft, ActionView } from '../filters/actions.ts'
import type { CalculationEnd, CohortDraft, CohortView } from './cohort-shapes.ts'
import type { GroupTypeChange, GroupView } from './group-shapes.ts'
import type { PersonReference, PersonView } from './person-queries.ts'

/**
 * An explicit change that a user requests. It goes through the log in order with the events. Once the caller has the
 * result, every read returns the changed data.
 */
export type PersonCommand =
  /**
   * Used by the routes PATCH and update_property. Acts like an event with `$set` on the first distinct_id of the
   * person, and adds an activity entry.
   */
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
  /** The command `tenrec person merge`: acts like `$merge_dangerously` on the distinct ids of the two persons. */
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
  /** Changes all given group types, or none if one of them does not exist. */
  | { readonly kind: 'describe_group_types'; readonly types: readonly GroupTypeChange[] }
  /** Deletes a group type with all its groups. Its index can then be used for a new type. */
  | { readonly kind: 'delete_group_type'; readonly typeIndex: number }
  /**
   * Creates a cohort. If `needsMembers` is true and none of the persons in the command exists, nothing is created. In
   * the same case, `update_cohort` changes nothing.
   */
  | {
      readonly kind: 'create_cohort'
      readonly cohort: CohortDraft
      readonly needsMembers?: boolean
    }
  | {
      readonly kind: 'update_cohort'
      readonly id: number
      readonly changes: Partial<CohortDraft> & { readonly deleted?: boolean }
      readonly needsMembers?: boolean
    }
  /** Requests a calculation of the members of a cohort. Nothing happens if the cohort has no filter on behavior. */
  | { readonly kind: 'count_cohort'; readonly id: number }
  /**
   * Stores changes of the calculated members of a cohort, unless the rule of the cohort has changed since `revision`.
   * Many changes are split into several commands, of which only the last one has an `end`. For a static cohort,
   * `revision` and `end` are null.
   */
  | {
      readonly kind: 'set_cohort_members'
      readonly id: number
      readonly revision: number | null
      /**
       * The new members, each as a distinct ID number. The member is the person that owns this distinct ID when the
       * command is executed, even if persons were merged meanwhile.
       */
      readonly added: readonly number[]
      /** The person numbers of persons that are no longer members. */
      readonly removed: readonly number[]
      readonly end: CalculationEnd | null
    }
  | { readonly kind: 'create_action'; readonly action: ActionDraft }
  | {
      readonly kind: 'update_action'
      readonly id: number
      readonly changes: Partial<ActionDraft> & { readonly deleted?: boolean }
    }
  | ErasureCommand
  /** Stores flag overrides that a decision with an anonymous id made; see store/identity/flag-overrides.ts. */
  | {
      readonly kind: 'set_flag_overrides'
      readonly distinctIds: readonly string[]
      readonly flagKeys: readonly string[]
      readonly identifier: string
    }

/** The result of a command. */
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
  /** `main_distinct_id` is not a distinct_id of the person. */
  | { readonly kind: 'unknown_distinct_id' }
  /** The change of the cohort needs members, but none of the named persons exists. */
  | { readonly kind: 'no_members' }
  /** The new rule of the cohort leads back to the cohort. */
  | { readonly kind: 'circle' }
  /** The properties would become too large. `bytesMax` is the limit. */
  | { readonly kind: 'too_large'; readonly bytesMax: number }

/** Executes changes by writing them to the log. Rejects with 503 `server_error` if the log cannot accept them. */
export interface PersonCommands {
  run(projectId: number, actor: Actor, command: PersonCommand): Promise<CommandResult>
}
