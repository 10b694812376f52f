/** The reasons why an accepted event is not stored. Documents, filters and counts are derived from this one table. */

/**
 * For each reason, whether the event is lost: true if it is stored nowhere except among the dropped events. Source:
 * docs/compatibility/events.md, "Events that are not stored".
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
/** A key of `DROPS`. */
export type DropReason = keyof typeof DROPS
/** A reason for which an event is lost. */
export type LossReason = {
  [Reason in DropReason]: (typeof DROPS)[Reason] extends true ? Reason : never
}[DropReason]
/** All reasons, in the order of `DROPS`. */
export const DROP_REASONS = Object.keys(DROPS) as readonly DropReason[]
/** The reasons for which an event is lost. */
export const LOSS_REASONS = DROP_REASONS.filter((reason): reason is LossReason => DROPS[reason])
