/** What can be asked about events that were accepted and are not stored. Shapes only. */

/** An event that was accepted and is not stored. Source: docs/compatibility/events.md, "Dropped events". */
export interface DroppedEventView {
  readonly uuid: string
  /** Arrival: ISO 8601, UTC, milliseconds. */
  readonly timestamp: string
  /** One of `LOSS_REASONS`. */
  readonly reason: string
  /** Its name and distinct_id; null when it has none. */
  readonly event: string | null
  readonly distinct_id: string | null
  /** The beginning of its JSON as it was accepted. */
  readonly data: string
  /** Bytes of its whole JSON. */
  readonly bytes: number
}

/** A page of dropped events, newest arrival first. */
export interface DroppedEventsQuery {
  readonly projectId: number
  readonly reason?: string
  /** Only later arrivals, milliseconds. */
  readonly afterMs: number
  /** Only earlier arrivals, milliseconds. */
  readonly beforeMs?: number
  readonly limit: number
  readonly cursor?: DroppedEventCursor
}

/** The last event of a page: its block of the log, and its place there. */
export interface DroppedEventCursor {
  readonly block: number
  readonly place: number
}

/** One page of dropped events. */
export interface DroppedEventPage {
  readonly results: readonly DroppedEventView[]
  readonly nextCursor: DroppedEventCursor | null
}

/** How many events of a project were not stored for a reason in an hour. */
export interface DroppedCount {
  /** Begin of the hour of arrival: ISO 8601, UTC. */
  readonly hour: string
  /** One of `DROP_REASONS`. */
  readonly reason: string
  readonly count: number
}
