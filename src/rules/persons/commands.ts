/**
 * Changes that somebody asks for by name: of persons, groups, cohorts, actions and erasures. The front
 * hands them to the log, the processing thread carries them out in the order of the events. Shapes only.
 */
import type { Actor } from '../access/user.ts'
import type { DeadLetterOutcome } from '../events/dead-letters.ts'
import type { ErasureCommand, ErasureReceipt } from '../events/erasure.ts'
import type { ActionDraft, ActionView } from '../filters/actions.ts'
import type { CohortDraft, CohortView } from './cohort-shapes.ts'
import type { GroupTypeChange, GroupView } from './group-shapes.ts'
import type { PersonReference, PersonView } from './person-queries.ts'

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
  /** All of them, or none when there is no such type. */
  | { readonly kind: 'describe_group_types'; readonly types: readonly GroupTypeChange[] }
  /** With all its groups. The index is free for a new type. */
  | { readonly kind: 'delete_group_type'; readonly typeIndex: number }
  /** `needsMembers`: nothing is changed when none of the persons that it names exists. */
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
  /** None of the persons that a change of a cohort names exists, and it needs some. */
  | { readonly kind: 'no_members' }
  /** The properties would be too large; `bytesMax` is the limit. */
  | { readonly kind: 'too_large'; readonly bytesMax: number }

/** Changes that the front hands to the log. Rejects with 503 `server_error` when the log cannot take them. */
export interface PersonCommands {
  run(projectId: number, actor: Actor, command: PersonCommand): Promise<CommandResult>
}
