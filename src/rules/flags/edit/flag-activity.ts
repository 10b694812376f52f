/** The entries of the activity log of flags. Source: docs/compatibility/flags.md, "Activity of feature flags". */
import type { Actor } from '../../access/user.ts'
import type { FlagChange } from './flag-diff.ts'

/** An entry of the activity log. Source: docs/compatibility/flags.md, "Activity of feature flags". */
export interface FlagActivity {
  /** The UUID of the entry. */
  readonly id: string
  readonly activity: 'created' | 'updated' | 'deleted' | 'restored'
  /** The user who made the change. The user number 0 stands for the system. */
  readonly actor: Actor
  readonly flagId: number
  readonly key: string
  readonly changes: readonly FlagChange[]
  /** Why the change was made, or null if nobody gave a reason. */
  readonly note: string | null
  /** The time of the change as text, as it appears in answers. */
  readonly createdAt: string
}

/** Returns the JSON of an entry, as answers show it. */
export function activityJson({
  id,
  activity,
  actor,
  flagId,
  key,
  changes,
  note,
  createdAt,
}: FlagActivity): string {
  const isSystem = actor.userId === 0
  return JSON.stringify({
    id,
    user: isSystem
      ? { first_name: 'System', email: null, is_system: true }
      : { first_name: actor.firstName, email: actor.email },
    activity,
    scope: 'FeatureFlag',
    item_id: String(flagId),
    detail: {
      id: null,
      changes,
      merge: null,
      trigger: null,
      name: key,
      short_id: null,
      type: null,
      // JSON leaves out undefined members.
      note: note ?? undefined,
    },
    created_at: createdAt,
  })
}
