/** What can be asked about stored events, and the answers. Shapes only; the store implements them. */
import type { RowsText } from '../../base/pages.ts'
import type { PropertyFilter } from '../filters/filter-group.ts'
import type { PersonView } from '../persons/person-queries.ts'

/** One stored event as a reader sees it. Source: docs/compatibility/events.md, "Stored events". */
export interface EventView {
  /** Position in the project's order of arrival, from 1. */
  readonly id: number
  readonly uuid: string
  readonly event: string
  readonly distinct_id: string
  /** ISO 8601, UTC, milliseconds. */
  readonly timestamp: string
  readonly created_at: string
  readonly properties: Readonly<Record<string, unknown>>
  readonly person: PersonSummary | null
  readonly person_id: string
  readonly person_mode: string
  readonly elements_chain: string
  readonly historical_migration?: true
}

/** The person who owns an event at the time of reading, with the first of its ids. */
export type PersonSummary = Omit<PersonView, 'id' | 'name'>

/** Which events of a project are wanted. */
export interface EventCriteria {
  readonly projectId: number
  readonly distinctId?: string
  readonly personId?: string
  readonly event?: string
  /** Only events with a later timestamp, milliseconds. */
  readonly afterMs?: number
  /** Only events with an earlier timestamp, milliseconds. */
  readonly beforeMs?: number
  readonly properties?: readonly PropertyFilter[]
}

/** A page of events, newest timestamp first; ties: latest arrival first. */
export interface EventListQuery extends EventCriteria {
  readonly limit: number
  /** Continue behind this event; from `nextCursor` of the page before. */
  readonly cursor?: EventCursor
}

/** An export, in order of arrival. */
export interface EventExportQuery extends EventCriteria {
  /** Only events behind this id; 0: from the first. */
  readonly afterId: number
  /** Events that are given together, at most; else those of a segment are. */
  readonly rowsMax?: number
}

/** What is left of an export, and how it is written: `ndjson` as `tenrec export` does. */
export interface EventExportTask extends EventExportQuery {
  readonly format: 'csv' | 'ndjson'
}

/** The last event of a page. Later arrivals never move what lies behind it. */
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

/** One line of the warnings log. */
export interface WarningView {
  readonly type: string
  readonly timestamp: string
  readonly details: Readonly<Record<string, unknown>>
  /** Occurrences of this type and key that this line stands for. */
  readonly count: number
}
