/** The state of a log record during processing: the facts that all of its events share. */
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
import type { EventCells, EventContext, NormalisedEvent } from '../../rules/capture/types.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../rules/persons/limits.ts'
import type { PersonContext } from '../../rules/persons/person-world.ts'

/** The number of stored and dropped events of a project. */
export interface Fates {
  stored: number
  readonly drops: Partial<Record<DropReason, number>>
}

/** The facts that all events of a record share. */
export interface RecordStep {
  readonly record: LogRecord
  readonly eventContext: EventContext
  readonly personContext: PersonContext
  readonly fates: Fates
  /**
   * The identity of the current event. One object is reused for all events, because allocating one for each costs time.
   */
  readonly identity: EventAtHand
}

interface EventAtHand extends EventIdentity {
  event: NormalisedEvent
  cells: EventCells | null
  uuidOffset: number
  hasClientUuid: boolean
}

/** A placeholder until there is an event. */
const NO_EVENT: NormalisedEvent = {
  name: '',
  distinctId: '',
  timestampMs: 0,
  properties: {},
  elementsChain: '',
  isPersonless: true,
}

/** The limits of events that `EventContext` contains. */
export type EventLimits = Pick<EventContext, 'propertiesBytesMax' | 'aiPropertiesBytesMax'>

/** Returns the step of a record. `limits` are passed to `EventContext`; `fates` are incremented. */
export function recordStep(record: LogRecord, limits: EventLimits, fates: Fates): RecordStep {
  const { projectId, arrivedAtMs } = record
  const isHistorical = (record.flags & RECORD_HISTORICAL) !== 0
  return {
    record,
    eventContext: {
      arrivedAtMs,
      sentAtMs: Number.isNaN(record.sentAtMs) ? null : record.sentAtMs,
      isSentAtInvalid: (record.flags & RECORD_INVALID_SENT_AT) !== 0,
      // The machine that imports old events is not where they happened.
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
    // Written out: V8 copies spread literals property by property, which was a third of the processing time of single
    // events.
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
 * Returns the JSON object at `start`. The log contains nothing else, because events are validated when they are
 * accepted.
 */
export function parseEvent(bytes: Buffer, start: number, length: number): JsonObject {
  return JSON.parse(bytes.toString('utf8', start, start + length)) as JsonObject
}

/** Returns the reason that a dead letter states. */
export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)
}
