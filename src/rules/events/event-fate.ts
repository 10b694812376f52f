/** The shape of the fate of one event. */

/** The fate of an event, with all data that is still available. Times are in ISO 8601, UTC. */
export interface EventFate {
  readonly fate: 'stored' | 'waiting' | 'skipped' | 'dead_letter' | 'erased' | 'unknown'
  /** A sentence, or one of `DROP_REASONS`. */
  readonly because: string
  /** The sequence number of the event. */
  readonly id?: number
  readonly event?: string | null
  readonly distinct_id?: string | null
  readonly timestamp?: string
  readonly person_id?: string
  /**
   * The arrival time. The name of the member depends on the fate: an event may be stored, waiting, a dead letter or
   * dropped. `warned_at` is the time of the warning about it.
   */
  readonly created_at?: string
  readonly arrived_at?: string
  readonly dropped_at?: string
  readonly warned_at?: string
  /** The time at which the event became a dead letter. */
  readonly stored_at?: string
  /** The types of the ingestion warnings about the event. */
  readonly warnings?: readonly string[]
  /** The ingestion warning that explains why the event was skipped. */
  readonly warning?: string
  /** The number of the log block that contains the event. */
  readonly block?: number
  /** The number of the dead letter. `step` is the step that failed. */
  readonly letter?: number
  readonly step?: string
  /** The number of bytes of the event's JSON. `data` is the beginning of this JSON. */
  readonly bytes?: number
  readonly data?: string
}
