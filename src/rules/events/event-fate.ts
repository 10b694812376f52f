/** The shape of the fate of one event. */

/** The fate of an event, with all data that is still available. Times are in ISO 8601, UTC. */
export interface EventFate {
  readonly fate: 'stored' | 'waiting' | 'skipped' | 'dead_letter' | 'erased' | 'unknown'
  /** A sentence, or one of `DROP_REASONS`. */
  readonly because: string
  /** The sequence number. */
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
  /** The time at which it became a dead letter. */
  readonly stored_at?: string
  /** The types of the warnings about it. */
  readonly warnings?: readonly string[]
  /** The warning that explains why it was skipped. */
  readonly warning?: string
  /** The number of the log block. */
  readonly block?: number
  /** The number of the dead letter. `step` is the step that failed. */
  readonly letter?: number
  readonly step?: string
  /** The number of bytes of its JSON. `data` is the beginning of that JSON. */
  readonly bytes?: number
  readonly data?: string
}
