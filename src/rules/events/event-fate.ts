/** The answer to the question of what happened to one event. */

/** The fate of an event, with all data that is still available. Times are in ISO 8601, UTC. */
export interface EventFate {
  readonly fate: 'stored' | 'waiting' | 'skipped' | 'dead_letter' | 'erased' | 'unknown'
  /** The reason for the fate: a sentence, or one of `DROP_REASONS`. */
  readonly because: string
  /** The sequence number of the event. */
  readonly id?: number
  readonly event?: string | null
  readonly distinct_id?: string | null
  readonly timestamp?: string
  readonly person_id?: string
  /**
   * At most one of the members from here to `warned_at` is present. The member contains the arrival time of the event.
   * It is `created_at` for a stored event, `arrived_at` for a waiting event or a dead letter, and `dropped_at` for a
   * skipped event. If Tenrec has only a warning about a skipped event, it is `warned_at`, the time of the warning.
   */
  readonly created_at?: string
  readonly arrived_at?: string
  readonly dropped_at?: string
  readonly warned_at?: string
  /** For a dead letter: the time at which the event could not be processed and became a dead letter. */
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
