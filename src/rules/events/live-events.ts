/** The shapes of live streams: the requests to the processing thread, and the stored events that it returns. */
import type { EventFacts } from './event-view.ts'

/** The events of a project that a stream shows. */
export interface LiveFilter {
  readonly projectId: number
  /** The names of the events that are shown. An empty list means all names. */
  readonly events: readonly string[]
  /** The distinct_id whose events are shown. Null means the events of everybody. */
  readonly distinctId: string | null
}

/** A filter in the form that is sent to the processing thread. */
export interface LiveWatch extends LiveFilter {
  /** The number of the stream. */
  readonly id: number
  /** The maximum number of events that the stream may receive now. Further events are counted, but not sent. */
  readonly eventsMax: number
}

/** A stored event on its way to a stream. */
export interface LiveEvent extends Omit<EventFacts, 'properties'> {
  /** The distinct ID number. */
  readonly distinctIdNumber: number
  /** The JSON of the event's properties. */
  readonly properties: string
}

/** The events that one processing run (see docs/CONCEPTS.md) has found for a stream. */
export interface LiveFound {
  /** The number of the stream. */
  readonly id: number
  readonly events: readonly LiveEvent[]
  /** The number of events that the filter selects, but that are not in `events`. */
  readonly missed: number
}
