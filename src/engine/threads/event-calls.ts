/** Calls about events: lists, those that were dropped, warnings, erasures and retention. */
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
import { newestBackup } from '../../store/care/backup/backups.ts'
import { long, page, short } from './call-kinds.ts'
import { type FateQuery, fateOf } from './event-fate.ts'
import { FATE_EVENTS_READ_MAX, FATE_LETTERS_READ_MAX } from './limits.ts'
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

/** What the status of a daemon needs of the disk. */
export const STATUS_CALLS = {
  /** When the newest backup beside the data directory was made, ISO 8601; null: there is none that can be read. */
  lastBackup: short(({ settings }) => {
    try {
      return newestBackup(`${settings.dataDir}-backups`)?.createdAt ?? null
    } catch {
      return null
    }
  }),
}

/** What became of events. */
export const FATE_CALLS = {
  eventFate: long(({ stores }, query: FateQuery) => fateOf(stores.reader, stores.log, query)),
  /** Reasons for which events of a project are not stored, arrived after `afterMs`. */
  ingestionFates: short(({ reader }, projectId: number, afterMs: number) => {
    const limit = FATE_EVENTS_READ_MAX
    const { results } = reader.listDropped({ projectId, afterMs, limit })
    const letters = reader.newestLetters({ limit: FATE_LETTERS_READ_MAX, offset: 0 }).results
    const own = letters.filter((letter) => letter.projectId === projectId)
    const samples = own.slice(0, FATE_SAMPLES_MAX).map(letterSample)
    return droppedFates(reader.countDropped(projectId, afterMs), results, samples)
  }),
  /** Rows of `DeadLetterView`, newest first. */
  listLetters: page(
    ({ stores, writer }, limit: number, offset: number) => {
      const { count, results } = stores.reader.newestLetters({ limit, offset })
      writer.addAll(results.map(letterView))
      return { count, ...writer.finish() }
    },
    ([limit]) => limit,
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
