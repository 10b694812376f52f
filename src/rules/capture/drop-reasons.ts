/** Why an accepted event is not stored: one table, from which documents, filters and counts derive. */

/**
 * Why an accepted event is not stored. Source: docs/compatibility/events.md, "Events that are not stored". `isLoss`:
 * nothing of it is stored anywhere but among the dropped ones.
 */
const DROPS = {
  no_event_name: { isLoss: true },
  no_distinct_id: { isLoss: true },
  ignored_event: { isLoss: true },
  client_ingestion_warning: { isLoss: true },
  personless_person_event: { isLoss: true },
  cookieless_person_event: { isLoss: true },
  duplicate: { isLoss: false },
  properties_too_large: { isLoss: true },
  dead_letter: { isLoss: false },
} as const
/** A reason of that table. */
export type DropReason = keyof typeof DROPS
/** A reason that is a loss. */
export type LossReason = {
  [Reason in DropReason]: (typeof DROPS)[Reason]['isLoss'] extends true ? Reason : never
}[DropReason]
/** All reasons. */
export const DROP_REASONS = Object.keys(DROPS) as readonly DropReason[]
/** Those that are a loss. */
export const LOSS_REASONS = DROP_REASONS.filter(
  (reason) => DROPS[reason].isLoss,
) as readonly LossReason[]
