/** Calls about events: lists, those that were dropped, warnings, erasures and retention. */
import type { JsonObject } from '../../base/json.ts'
import { rowText } from '../../base/rows-writer.ts'
import type { DroppedEventsQuery } from '../../rules/events/dropped-events.ts'
import type { ErasureCriteria, RetentionRules } from '../../rules/events/erasure.ts'
import type { EventListQuery } from '../../rules/events/event-queries.ts'
import { eventView } from '../../rules/events/event-view.ts'
import type { LiveEvent } from '../../rules/events/live-events.ts'
import { long, page, short } from './call-kinds.ts'
import { allRows } from './pages.ts'

/** Lists of events, and what is known about those that were not stored as they came. */
export const EVENT_CALLS = {
  /** Rows of `EventView`. */
  listEvents: page(
    ({ stores, writer, check }, query: EventListQuery) =>
      stores.warehouse.eventRows(query, writer, check),
    ([{ limit }]) => limit,
  ),
  getEvent: short(({ warehouse }, projectId: number, uuid: string) => {
    const event = warehouse.getEvent(projectId, uuid)
    return event && rowText('json', event)
  }),
  /** Rows of `WarningView`, at most 1000, of some kilobytes at most. */
  listWarnings: page(
    ({ stores, writer }, projectId: number, limit: number) =>
      allRows(writer, stores.reader.listWarnings(projectId, limit)),
    ([, limit]) => limit,
  ),
}

/** Events that were stored just now. */
export const LIVE_CALLS = {
  /** JSON of each as `listEvents` has it. */
  liveEvents: short(({ reader }, events: readonly LiveEvent[]) => {
    const persons = reader.persons()
    return events.map(({ distinctIdNumber, ...event }) => {
      const person = persons.summaryOf(event.projectId, distinctIdNumber, event.sequence)
      const properties = JSON.parse(event.properties) as JsonObject
      return JSON.stringify(eventView({ ...event, properties }, person))
    })
  }),
}

/** Events that were not stored: a thousand at most, of a kilobyte each. */
export const DROPPED_CALLS = {
  listDropped: short(({ reader }, query: DroppedEventsQuery) => reader.listDropped(query)),
  /** Hours that end behind `afterMs`, newest first, each reason with its own line. */
  countDropped: short(({ reader }, projectId: number, afterMs: number) =>
    reader.countDropped(projectId, afterMs),
  ),
}

/** Erasures and retention. Estimates look into every segment that may matter. */
export const ERASURE_CALLS = {
  /** Rows of `ErasureReceipt`. */
  listErasures: page(
    ({ stores, writer }, projectId: number, limit: number, offset: number) => {
      const { count, results } = stores.reader.erasures().list(projectId, limit, offset)
      return { count, ...allRows(writer, results) }
    },
    ([, limit]) => limit,
  ),
  /** Erasures that are not done. */
  runningErasures: short(
    ({ reader }, projectId: number) => reader.erasures().list(projectId, 0, 0).runningCount,
  ),
  getErasure: short(({ reader }, projectId: number, id: number) =>
    reader.erasures().receipt(projectId, id),
  ),
  /** Null when there is no such person. */
  estimateErasure: long(({ stores }, projectId: number, criteria: ErasureCriteria) =>
    stores.reader.erasures().estimate(projectId, criteria),
  ),
  getRetention: short(({ reader }, projectId: number) => reader.erasures().retention(projectId)),
  /** `rules` null: those of the project. */
  planRetention: long(
    ({ stores }, projectId: number, rules: RetentionRules | null, nowMs: number) =>
      stores.reader.erasures().plan(projectId, rules, nowMs),
  ),
  /** Projects that have rules. */
  retainedProjects: short(({ reader }) => reader.erasures().retainedProjects()),
}
