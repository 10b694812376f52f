/** The reasons why an accepted event is not stored. Documents, filters and counts are derived from this one table. */

/**
 * Maps each reason to whether it is a loss. An event with such a reason is stored nowhere except among the dropped
 * events. Source: docs/compatibility/events.md, "Events that are not stored".
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
/** A reason of the table. */
export type DropReason = keyof typeof DROPS
/** A reason that is a loss. */
export type LossReason = {
  [Reason in DropReason]: (typeof DROPS)[Reason] extends true ? Reason : never
}[DropReason]
/** All reasons. */
export const DROP_REASONS = Object.keys(DROPS) as readonly DropReason[]
/** The reasons that are a loss. */
export const LOSS_REASONS = DROP_REASONS.filter((reason): reason is LossReason => DROPS[reason])
