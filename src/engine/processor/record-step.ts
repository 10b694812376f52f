/** The state of a log record while its events are processed: the data that they share, and the event at hand. */
import type { JsonObject } from '../../base/json.ts'
import type { EventIdentity } from '../../ports/warehouse.ts'
import type { DropReason } from '../../rules/capture/drop-reasons.ts'
import {
  type LogRecord,
  RECORD_GROUP_TYPES_CLOSED,
  RECORD_HISTORICAL,
  RECORD_INVALID_SENT_AT,
  RECORD_IP_ANONYMIZED,
} from '../../rules/capture/log-block.ts'
import type { EventCells, EventContext, NormalizedEvent } from '../../rules/capture/types.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../rules/persons/limits.ts'
import type { PersonContext } from '../../rules/persons/person-repository.ts'

/** How many events of a project were stored, and how many were dropped for each reason. */
export interface Fates {
  stored: number
  readonly drops: Partial<Record<DropReason, number>>
}

/** The data that all events of a record share. */
export interface RecordStep {
  readonly record: LogRecord
  readonly eventContext: EventContext
  readonly personContext: PersonContext
  readonly fates: Fates
  /** The current event. One object is reused for all events, because creating an object for each event costs time. */
  readonly identity: EventAtHand
}

interface EventAtHand extends EventIdentity {
  event: NormalizedEvent
  cells: EventCells | null
  uuidOffset: number
  hasClientUuid: boolean
}

/** A placeholder until there is a current event. */
const NO_EVENT: NormalizedEvent = {
  name: '',
  distinctId: '',
  timestampMs: 0,
  properties: {},
  elementsChain: '',
  isPersonless: true,
}

/** The size limits of events. `recordStep` copies them to `EventContext`. */
export type EventLimits = Pick<EventContext, 'propertiesBytesMax' | 'aiPropertiesBytesMax'>

/**
 * Returns the state for a record. `limits` become part of the `EventContext`. Processing later increases the counts in
 * `fates`.
 */
export function recordStep(record: LogRecord, limits: EventLimits, fates: Fates): RecordStep {
  const { projectId, arrivedAtMs } = record
  const isHistorical = (record.flags & RECORD_HISTORICAL) !== 0
  return {
    record,
    eventContext: {
      arrivedAtMs,
      sentAtMs: Number.isNaN(record.sentAtMs) ? null : record.sentAtMs,
      isSentAtInvalid: (record.flags & RECORD_INVALID_SENT_AT) !== 0,
      // Imported old events did not happen on the machine that imports them, so its IP address is not used.
      ip: isHistorical ? '' : record.address,
      isIpAnonymized: (record.flags & RECORD_IP_ANONYMIZED) !== 0,
      isHistorical,
      propertiesBytesMax: limits.propertiesBytesMax,
      aiPropertiesBytesMax: limits.aiPropertiesBytesMax,
    },
    personContext: {
      projectId,
      arrivedAtMs,
      propertiesBytesMax: PERSON_PROPERTIES_BYTES_MAX,
      isHistorical,
      areGroupTypesClosed: (record.flags & RECORD_GROUP_TYPES_CLOSED) !== 0,
    },
    fates,
    // List the members one by one instead of spreading an object: V8 copies a spread property by property, which took a
    // third of the time of processing single events.
    identity: {
      projectId,
      event: NO_EVENT,
      cells: null,
      uuidBytes: record.bytes,
      uuidOffset: 0,
      hasClientUuid: false,
    },
  }
}

/**
 * Returns the JSON object that begins at `start`. The log contains only JSON objects, because events are checked when
 * they are accepted.
 */
export function parseEvent(bytes: Buffer, start: number, length: number): JsonObject {
  return JSON.parse(bytes.toString('utf8', start, start + length)) as JsonObject
}

/** Returns the text of an error for a dead letter. */
export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)
}
