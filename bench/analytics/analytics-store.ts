/**
 * Stores the events of the bench `analytics` in a data directory without a running daemon. It uses the code that
 * processes accepted events: normalization, duplicates, persons, segments and merging. Only HTTP and the log are left
 * out, because with them it would take several times as long.
 */
import { normalizeEvent } from '../../src/rules/capture/normalize.ts'
import type { EventContext } from '../../src/rules/capture/types.ts'
import { applyEvent } from '../../src/rules/persons/apply-event.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../src/rules/persons/limits.ts'
import type { PersonContext } from '../../src/rules/persons/person-repository.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { WORKLOAD_DAYS, WORKLOAD_START_MS, type WorkloadEvent } from './analytics-workload.ts'

/** The number of the first project of a daemon. */
export const PROJECT_ID = 1

/** An upper bound for the bytes of one event as JSON. */
const EVENT_BYTES = 1000
const MAINTAIN_MS = 1000
/** All events count as having arrived on the day after the last event. */
const ARRIVED_AT_MS = WORKLOAD_START_MS + (WORKLOAD_DAYS + 1) * 86_400_000

/** The members of an event that are stored. */
export type StoredEvent = Pick<WorkloadEvent, 'name' | 'timeSeconds' | 'uuidBytes'> & {
  readonly properties: object
}

/** Stores events. Meanwhile, no other process may write to the folder, and no daemon may serve it. */
export class AnalyticStore {
  readonly #writer: ProcessingWriter
  readonly #context: EventContext = {
    arrivedAtMs: ARRIVED_AT_MS,
    sentAtMs: null,
    isSentAtInvalid: false,
    ip: '',
    isIpAnonymized: true,
    isHistorical: false,
    propertiesBytesMax: 0,
    aiPropertiesBytesMax: 0,
  }
  readonly #personContext: PersonContext = {
    projectId: PROJECT_ID,
    arrivedAtMs: ARRIVED_AT_MS,
    propertiesBytesMax: PERSON_PROPERTIES_BYTES_MAX,
  }

  constructor(dataDir: string) {
    this.#writer = new ProcessingWriter({ dataDir, isFlushDeferred: true })
  }

  /** Adds an event. Throws if the event would not be stored. It takes about 10 us. */
  add({ name, timeSeconds, uuidBytes, properties }: StoredEvent, distinctId: string): void {
    const timestamp = new Date(timeSeconds * 1000).toISOString()
    const given = { event: name, distinct_id: distinctId, timestamp, properties: { ...properties } }
    const outcome = normalizeEvent(given, this.#context, EVENT_BYTES)
    if (outcome.kind === 'drop') throw new Error(`an event was dropped: ${outcome.reason}`)
    const { event } = outcome
    const identity = { projectId: PROJECT_ID, event, uuidBytes, uuidOffset: 0, hasClientUuid: true }
    const admission = this.#writer.admit(identity)
    if (admission === null) throw new Error('an event was taken for a duplicate')
    const persons = this.#writer.persons(PROJECT_ID, event, admission)
    const { personMode } = applyEvent(event, EVENT_BYTES, persons, this.#personContext)
    this.#writer.append(identity, admission, ARRIVED_AT_MS, personMode, false, 0)
  }

  /** Stores the added events. The log stays empty, so the position in the log stays 0. */
  commit(): void {
    this.#writer.commit(0)
    this.#writer.warehouse.writeIndex?.()
  }

  /** Merges all segments that can be merged, as a daemon does when it is idle, and closes the folder. */
  async close(): Promise<void> {
    while (this.#writer.warehouse.maintain(MAINTAIN_MS));
    await this.#writer.close()
  }
}
