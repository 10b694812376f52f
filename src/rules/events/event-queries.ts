/** The shapes of queries about stored events and of their answers. The store implements the queries. */
import type { RowsText } from '../../base/pages.ts'
import type { PropertyFilter } from '../filters/filter-group.ts'
import type { PersonView } from '../persons/person-queries.ts'

/** One stored event as a reader sees it. Source: docs/compatibility/events.md, "Stored events". */
export interface EventView {
  /** The sequence number of the event: its rank in the order in which the events of the project arrived, from 1. */
  readonly id: number
  readonly uuid: string
  readonly event: string
  readonly distinct_id: string
  /** The time of the event in ISO 8601, UTC, with milliseconds. */
  readonly timestamp: string
  readonly created_at: string
  readonly properties: Readonly<Record<string, unknown>>
  readonly person: PersonSummary | null
  readonly person_id: string
  readonly person_mode: string
  readonly elements_chain: string
  readonly historical_migration?: true
}

/** The person that owns an event at the time of reading, with the first of its distinct ids. */
export type PersonSummary = Omit<PersonView, 'id' | 'name'>

/** The criteria for events of a project. */
export interface EventCriteria {
  readonly projectId: number
  readonly distinctId?: string
  readonly personId?: string
  readonly event?: string
  /** Selects only events with a later timestamp than this, in milliseconds. */
  readonly afterMs?: number
  /** Selects only events with an earlier timestamp than this, in milliseconds. */
  readonly beforeMs?: number
  readonly properties?: readonly PropertyFilter[]
}

/** A query for a page of events, newest timestamp first. For equal timestamps, the latest arrival comes first. */
export interface EventListQuery extends EventCriteria {
  readonly limit: number
  /** The page begins after this event. The value is the `nextCursor` of the page before. */
  readonly cursor?: EventCursor
}

/** An export of events in the order of arrival. */
export interface EventExportQuery extends EventCriteria {
  /** Selects only events with a greater id than this. 0 selects all events. */
  readonly afterId: number
  /**
   * The maximum number of events in one batch. Without this member, a batch contains the selected events of one
   * segment.
   */
  readonly rowsMax?: number
}

/**
 * The part of an export that is not done yet, and the format of the export. `ndjson` is the format of `tenrec export`.
 */
export interface EventExportTask extends EventExportQuery {
  readonly format: 'csv' | 'ndjson'
}

/** The last event of a page. Events that arrive later never change the pages after it. */
export interface EventCursor {
  readonly timestampMs: number
  readonly id: number
}

/** One page of a list of events. */
export interface EventPage {
  readonly results: readonly EventView[]
  readonly nextCursor: EventCursor | null
}

/** One page of a list of events as JSON. */
export interface EventRows extends RowsText {
  readonly nextCursor: EventCursor | null
}

/** One line of the log of ingestion warnings. */
export interface WarningView {
  readonly type: string
  readonly timestamp: string
  readonly details: Readonly<Record<string, unknown>>
  /**
   * The number of warnings that the line represents. They have the same type and the same `distinct_id` or `field` in
   * their details, and arrived within an hour.
   */
  readonly count: number
}
