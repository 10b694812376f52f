/**
 * Adds many persons to a static cohort. The persons are written to the log as commands. The members of cohorts by
 * behavior reach the store in the same way (cohort-schedule.ts).
 */
import type { Actor } from '../../rules/access/user.ts'
import type { PersonCommands } from '../../rules/persons/commands.ts'
import { COHORT_CHANGES_MAX } from './limits.ts'

/** A static cohort, and the persons to add. */
export interface AddedMembers {
  readonly projectId: number
  readonly cohortId: number
  readonly actor: Actor
  /** One distinct ID number of each person. */
  readonly distinctIds: Uint32Array
}

/**
 * Adds persons to a static cohort. Persons that were deleted meanwhile are left out. Resolves with false if the cohort
 * no longer exists. Rejects with 503 if the log accepts nothing.
 */
export async function addMembers(
  commands: PersonCommands,
  { projectId, cohortId, actor, distinctIds }: AddedMembers,
): Promise<boolean> {
  for (let from = 0; from < distinctIds.length; from += COHORT_CHANGES_MAX) {
    const { kind } = await commands.run(projectId, actor, {
      kind: 'set_cohort_members',
      id: cohortId,
      revision: null,
      added: [...distinctIds.subarray(from, from + COHORT_CHANGES_MAX)],
      removed: [],
      end: null,
    })
    if (kind !== 'done') return false
  }
  return true
}
