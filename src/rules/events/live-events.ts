/** What streams of events ask of processing, and what it has stored for them. Shapes only. */
import type { EventFacts } from './event-view.ts'

/** Which events of a project a stream shows. */
export interface LiveFilter {
  readonly projectId: number
  /** Their names; none: all. */
  readonly events: readonly string[]
  /** Null: anybody's. */
  readonly distinctId: string | null
}

/** The same on its way to the thread that processes. */
export interface LiveWatch extends LiveFilter {
  /** Number of the stream. */
  readonly id: number
  /** Events that it may be shown now; further ones are counted. */
  readonly eventsMax: number
}

/** A stored event on its way to a stream. */
export interface LiveEvent extends Omit<EventFacts, 'properties'> {
  /** D of its distinct_id. */
  readonly distinctIdNumber: number
  /** JSON of its properties. */
  readonly properties: string
}

/** What a run of processing has stored for a stream. */
export interface LiveFound {
  /** Number of the stream. */
  readonly id: number
  readonly events: readonly LiveEvent[]
  /** Further ones. */
  readonly missed: number
}
