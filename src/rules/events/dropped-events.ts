/** The shapes of queries about dropped events, which were accepted but not stored, and of their answers. */

/** An event that was accepted but not stored. Source: docs/compatibility/events.md, "Dropped events". */
export interface DroppedEventView {
  readonly uuid: string
  /** The arrival time in ISO 8601, UTC, with milliseconds. */
  readonly timestamp: string
  /** One of `LOSS_REASONS`. */
  readonly reason: string
  /** The name of the event. It is null if the event has none; the same applies to `distinct_id`. */
  readonly event: string | null
  readonly distinct_id: string | null
  /** The beginning of its JSON as it was accepted. */
  readonly data: string
  /** The number of bytes of its whole JSON. */
  readonly bytes: number
}

/** A query for a page of dropped events, newest arrival first. */
export interface DroppedEventsQuery {
  readonly projectId: number
  readonly reason?: string
  /** Only events that arrived later, in milliseconds. */
  readonly afterMs: number
  /** Only events that arrived earlier, in milliseconds. */
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
  /** The arrival of the last of these events, in ISO 8601, UTC. For events counted by an earlier version, the hour. */
  readonly last_seen_at: string
}
