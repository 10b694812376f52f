/** Plain data that the ingestion rules pass on. No behaviour. */
import type { JsonObject, OwnObject } from '../../base/json.ts'
import type { LossReason } from './drop-reasons.ts'

/** What an operator is warned of. Source: docs/compatibility/events.md, "Ingestion warnings". */
export const WARNING_TYPES = [
  'cannot_merge_already_identified',
  'cannot_merge_with_illegal_distinct_id',
  'ignored_invalid_timestamp',
  'event_timestamp_in_future',
  'invalid_process_person_profile',
  'invalid_event_when_process_person_profile_is_false',
  'cookieless_unsupported_event',
  'cookieless_missing_user_agent',
  'cookieless_missing_ip',
  'cookieless_missing_host',
  'message_size_too_large',
  'person_properties_size_violation',
  'client_ingestion_warning',
] as const
/** One of `WARNING_TYPES`. */
export type WarningType = (typeof WARNING_TYPES)[number]

/** One warning about one event; `details` are small and hold no property values of persons. */
export interface IngestionWarning {
  readonly type: WarningType
  readonly details: JsonObject
}

/** What the request says about each of its events. */
export interface EventContext {
  /** Arrival of the request, milliseconds. */
  readonly arrivedAtMs: number
  /** The client's clock when it sent the request, milliseconds; null when it gave none that is valid. */
  readonly sentAtMs: number | null
  /** The request gave a clock that is invalid: each of its events gets a warning. */
  readonly isSentAtInvalid: boolean
  /** The sender's address as stored in `$ip`, or '' when unknown. */
  readonly ip: string
  /** The project stores no addresses at all. */
  readonly isIpAnonymized: boolean
  readonly isHistorical: boolean
  /** JSON bytes of `properties` beyond which an event is dropped; 0 switches the limit off. */
  readonly propertiesBytesMax: number
}

/** How an event relates to its person. Source: docs/compatibility/persons.md, "Personless events". */
export const PERSON_MODES = ['full', 'propertyless', 'force_upgrade'] as const
/** One of `PERSON_MODES`. */
export type PersonMode = (typeof PERSON_MODES)[number]

/**
 * An event after normalisation, in its compact stored form: what can be derived from the rest
 * (automatic `$set` and `$set_once` entries) is left out and added again by `expandProperties`.
 */
export interface NormalisedEvent {
  readonly name: string
  readonly distinctId: string
  readonly timestampMs: number
  /**
   * Client properties after normalisation, without derived entries. Owned by the event: may be kept. What
   * was taken out has the value undefined: deleting a key makes V8 slow on the whole object.
   */
  readonly properties: OwnObject
  readonly elementsChain: string
  /** `$process_person_profile` is false, or `$cookieless_mode` is true: no person is made or changed. */
  readonly isPersonless: boolean
}

/** What became of one event of a request. */
export type EventOutcome =
  | {
      readonly kind: 'event'
      readonly event: NormalisedEvent
      readonly warnings: readonly IngestionWarning[]
    }
  | {
      readonly kind: 'drop'
      readonly reason: LossReason
      readonly warnings: readonly IngestionWarning[]
    }
