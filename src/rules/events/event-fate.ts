/** What became of one event. Shapes only. */

/** The fate of an event, with whatever is still known of it. Times are ISO 8601, UTC. */
export interface EventFate {
  readonly fate: 'stored' | 'waiting' | 'skipped' | 'dead_letter' | 'erased' | 'unknown'
  /** A sentence, or one of `DROP_REASONS`. */
  readonly because: string
  /** S. */
  readonly id?: number
  readonly event?: string | null
  readonly distinct_id?: string | null
  readonly timestamp?: string
  readonly person_id?: string
  /** Arrival, of one that is stored, waits or is a dead letter, or was dropped; and of the warning about it. */
  readonly created_at?: string
  readonly arrived_at?: string
  readonly dropped_at?: string
  readonly warned_at?: string
  /** When it became a dead letter. */
  readonly stored_at?: string
  /** Types of the warnings about it. */
  readonly warnings?: readonly string[]
  /** The warning that tells why it was skipped. */
  readonly warning?: string
  /** Of the log. */
  readonly block?: number
  /** Number of the dead letter, and what failed. */
  readonly letter?: number
  readonly step?: string
  /** Bytes of its JSON, and the beginning of that. */
  readonly bytes?: number
  readonly data?: string
}
