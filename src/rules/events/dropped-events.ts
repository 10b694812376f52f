/** The shapes of queries about dropped events, which were accepted but not stored, and of their answers. */

/** An event that was accepted but not stored. Source: docs/compatibility/events.md, "Dropped events". */
export interface DroppedEventView {
  readonly uuid: string
  /** The arrival time in ISO 8601, UTC, with milliseconds. */
  readonly timestamp: string
  /** One of `LOSS_REASONS`. */
  readonly reason: string
  /** The name of the event, or null if the event has none. `distinct_id` is null if the event has no distinct_id. */
  readonly event: string | null
  readonly distinct_id: string | null
  /** The beginning of the event's JSON as it was accepted. */
  readonly data: string
  /** The number of bytes of the event's whole JSON. */
  readonly bytes: number
}

/** A query for a page of dropped events, newest arrival first. */
export interface DroppedEventsQuery {
  readonly projectId: number
  readonly reason?: string
  /** Selects only events that arrived later than this time in milliseconds. */
  readonly afterMs: number
  /** Selects only events that arrived earlier than this time in milliseconds. */
  readonly beforeMs?: number
  readonly limit: number
  readonly cursor?: DroppedEventCursor
}

/** The last event of a page: its block of the log, and its position in the block. */
export interface DroppedEventCursor {
  readonly block: number
  readonly place: number
}

/** One page of dropped events. */
export interface DroppedEventPage {
  readonly results: readonly DroppedEventView[]
  readonly nextCursor: DroppedEventCursor | null
}

/** The number of events of a project that were not stored for one reason in one hour. */
export interface DroppedCount {
  /** The start of the hour of arrival, in ISO 8601, UTC. */
  readonly hour: string
  /** One of `DROP_REASONS`. */
  readonly reason: string
  readonly count: number
  /**
   * The time at which the last of these events arrived, in ISO 8601, UTC. For events that an earlier version counted,
   * it is the start of the hour.
   */
  readonly last_seen_at: string
}
