/** Why an accepted event is not stored: one table, from which documents, filters and counts derive. */

/**
 * Why an accepted event is not stored, and whether that is a loss: nothing of it is stored anywhere but among
 * the dropped ones. Source: docs/compatibility/events.md, "Events that are not stored".
 */
const DROPS = {
  no_event_name: true,
  no_distinct_id: true,
  ignored_event: true,
  client_ingestion_warning: true,
  personless_person_event: true,
  cookieless_person_event: true,
  duplicate: false,
  properties_too_large: true,
  dead_letter: false,
} as const
/** A reason of that table. */
export type DropReason = keyof typeof DROPS
/** A reason that is a loss. */
export type LossReason = {
  [Reason in DropReason]: (typeof DROPS)[Reason] extends true ? Reason : never
}[DropReason]
/** All reasons. */
export const DROP_REASONS = Object.keys(DROPS) as readonly DropReason[]
/** Those that are a loss. */
export const LOSS_REASONS = DROP_REASONS.filter((reason): reason is LossReason => DROPS[reason])
