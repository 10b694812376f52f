/** Calls about events: lists, dropped events, warnings, erasures and retention. */
import type { JsonObject } from '../../base/json.ts'
import { rowText } from '../../base/rows-writer.ts'
import { letterSample, letterView } from '../../rules/events/dead-letter.ts'
import type { DroppedEventsQuery } from '../../rules/events/dropped-events.ts'
import type { ErasureCriteria, RetentionRules } from '../../rules/events/erasure.ts'
import type { EventListQuery } from '../../rules/events/event-queries.ts'
import { eventView } from '../../rules/events/event-view.ts'
import { droppedFates } from '../../rules/events/ingestion-fates.ts'
import { FATE_SAMPLES_MAX } from '../../rules/events/limits.ts'
import type { LiveEvent } from '../../rules/events/live-events.ts'
import { newestBackup } from '../../store/maintenance/backup/backups.ts'
import { long, page, short } from './call-kinds.ts'
import { type FateQuery, fateOf } from './event-fate.ts'
import { FATE_EVENTS_READ_MAX, FATE_LETTERS_READ_MAX } from './limits.ts'
import { allRows } from './pages.ts'

/** Calls about stored events and about ingestion warnings. */
export const EVENT_CALLS = {
  /** Returns rows of `EventView`. */
  listEvents: page(
    ({ stores, writer, check }, query: EventListQuery) =>
      stores.warehouse.eventRows(query, writer, check),
    ([{ limit }]) => limit,
  ),
  getEvent: short(({ warehouse }, projectId: number, uuid: string) => {
    const event = warehouse.getEvent(projectId, uuid)
    return event && rowText('json', event)
  }),
  /** Returns rows of `WarningView`: at most 1000, of some kilobytes each. */
  listWarnings: page(
    ({ stores, writer }, projectId: number, limit: number) =>
      allRows(writer, stores.reader.listWarnings(projectId, limit)),
    ([, limit]) => limit,
  ),
}

/** Calls about events that have just been stored. */
export const LIVE_CALLS = {
  /** Returns the JSON of each event, in the form of `listEvents`. */
  liveEvents: short(({ reader }, events: readonly LiveEvent[]) => {
    const persons = reader.persons()
    return events.map(({ distinctIdNumber, ...event }) => {
      const person = persons.summaryOf(event.projectId, distinctIdNumber, event.sequence)
      const properties = JSON.parse(event.properties) as JsonObject
      return JSON.stringify(eventView({ ...event, properties }, person))
    })
  }),
}

/** Calls about dropped events. A list has at most a thousand, of about a kilobyte each. */
export const DROPPED_CALLS = {
  listDropped: short(({ reader }, query: DroppedEventsQuery) => reader.listDropped(query)),
  /**
   * Returns how many events were dropped in each hour for each reason, newest hour first. Only hours that end after
   * `afterMs` are included.
   */
  countDropped: short(({ reader }, projectId: number, afterMs: number) =>
    reader.countDropped(projectId, afterMs),
  ),
}

/** Calls about the disk, for `tenrec status`. */
export const STATUS_CALLS = {
  /** Returns the time of the newest backup beside the data directory, in ISO 8601, or null if no backup can be read. */
  lastBackup: short(({ settings }) => {
    try {
      return newestBackup(`${settings.dataDir}-backups`)?.createdAt ?? null
    } catch {
      return null
    }
  }),
}

/** Calls about the fate of events. */
export const FATE_CALLS = {
  eventFate: long(({ stores }, query: FateQuery) => fateOf(stores.reader, stores.log, query)),
  /**
   * Returns how many events of a project that arrived after `afterMs` were not stored, for each reason, with samples.
   */
  ingestionFates: short(({ reader }, projectId: number, afterMs: number) => {
    const limit = FATE_EVENTS_READ_MAX
    const { results } = reader.listDropped({ projectId, afterMs, limit })
    const letters = reader.newestLetters({ limit: FATE_LETTERS_READ_MAX, offset: 0 }).results
    const own = letters.filter((letter) => letter.projectId === projectId)
    const samples = own.slice(0, FATE_SAMPLES_MAX).map(letterSample)
    return droppedFates(reader.countDropped(projectId, afterMs), results, samples)
  }),
  /** Returns rows of `DeadLetterView`, newest first. */
  listLetters: page(
    ({ stores, writer }, limit: number, offset: number) => {
      const { count, results } = stores.reader.newestLetters({ limit, offset })
      writer.addAll(results.map(letterView))
      return { count, ...writer.finish() }
    },
    ([limit]) => limit,
  ),
}

/** Calls about erasures and retention. Estimates read every segment that may contain matching events. */
export const ERASURE_CALLS = {
  /** Returns rows of `ErasureReceipt`. */
  listErasures: page(
    ({ stores, writer }, projectId: number, limit: number, offset: number) => {
      const { count, results } = stores.reader.erasures().list(projectId, limit, offset)
      return { count, ...allRows(writer, results) }
    },
    ([, limit]) => limit,
  ),
  /** Returns the number of erasures that are still running. */
  runningErasures: short(
    ({ reader }, projectId: number) => reader.erasures().list(projectId, 0, 0).runningCount,
  ),
  getErasure: short(({ reader }, projectId: number, id: number) =>
    reader.erasures().receipt(projectId, id),
  ),
  /** Returns an estimate of an erasure, or null if the person does not exist. */
  estimateErasure: long(({ stores }, projectId: number, criteria: ErasureCriteria) =>
    stores.reader.erasures().estimate(projectId, criteria),
  ),
  getRetention: short(({ reader }, projectId: number) => reader.erasures().retention(projectId)),
  /**
   * Returns how much the retention rules of a project would remove. If `rules` is not null, it replaces these rules.
   */
  planRetention: long(
    ({ stores }, projectId: number, rules: RetentionRules | null, nowMs: number) =>
      stores.reader.erasures().plan(projectId, rules, nowMs),
  ),
  /** Returns the projects that have retention rules. */
  retainedProjects: short(({ reader }) => reader.erasures().retainedProjects()),
}
