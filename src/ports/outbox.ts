/**
 * The outbox hands the events that processing has stored to subscribers (streams, webhooks, sinks). It is not the
 * outbox of a cluster machine, which is a log of accepted events. There is one outbox, in the thread that processes. A
 * subscriber fetches deliveries one by one, in the order of the commits. Deliveries that it has not fetched wait for
 * it, up to a limit. Beyond the limit, the outbox drops deliveries and reports which events were in them. The
 * subscriber then reads these events from the warehouse by their sequence numbers.
 */
import type { NormalizedEvent, PersonMode } from '../rules/capture/types.ts'

/** A stored event, as subscribers receive it. */
export interface OutboxRow {
  readonly projectId: number
  /** The sequence number of the event, unique within the project. */
  readonly sequence: number
  readonly uuid: string
  readonly event: NormalizedEvent
  /** The distinct ID number of the event's distinct_id. */
  readonly distinctIdNumber: number
  readonly createdAtMs: number
  readonly personMode: PersonMode
  readonly isHistorical: boolean
}

/** The changes that one commit has stored durably: new events, and the persons and definitions that changed. */
export interface OutboxBatch {
  readonly kind: 'batch'
  /** The number of the last log block that the commit covers. */
  readonly position: number
  /** The stored events, for each project in the order of their sequence numbers. */
  readonly rows: readonly OutboxRow[]
  /** The persons that were changed or removed. */
  readonly persons: readonly { readonly projectId: number; readonly numbers: readonly number[] }[]
  /** The projects whose cohorts or group types were changed. */
  readonly definitions: readonly number[]
}

/** Tells a subscriber that was too slow that some batches were dropped. The batches after the gap are complete. */
export interface OutboxGap {
  readonly kind: 'gap'
  /** The number of the last log block whose events are in the gap. */
  readonly position: number
  /**
   * For each project, the events that were dropped: those with sequence numbers above `after`, up to and including
   * `through`. The subscriber must also reload persons and definitions, because their changes were dropped too.
   */
  readonly missed: readonly {
    readonly projectId: number
    readonly after: number
    readonly through: number
  }[]
}

/**
 * Returns true if a subscriber wants an event. The outbox calls it once for each event, in order, while a commit is
 * prepared.
 */
export type EventTest = (
  projectId: number,
  event: Pick<NormalizedEvent, 'name' | 'distinctId'>,
) => boolean

/** A subscription to the outbox, which one subscriber uses. */
export interface Subscription {
  /** Returns the next delivery that waits for the subscriber, or null if there is none. */
  take(): OutboxBatch | OutboxGap | null
  /**
   * Waits for the next delivery. Resolves with null when the subscription has ended. Only one call may wait at a time.
   */
  next(): Promise<OutboxBatch | OutboxGap | null>
  /** Ends the subscription and drops the deliveries that wait for it. */
  close(): void
}

/** The interface with which subscribers register. */
export interface Outbox {
  /**
   * Subscribes to all commits after this call. Do not call it while a commit is prepared. At most `rowsMax` events wait
   * for the subscriber. An event for which `wants` returns false may still be in the batches, because another
   * subscriber wants it. The subscriber must therefore test each event that it receives.
   */
  subscribe(rowsMax: number, wants?: EventTest): Subscription
}

/** The interface with which the processing thread fills the outbox. */
export interface OutboxWriter {
  /** False if there is no subscriber, so that no event needs to be added. */
  readonly isWanted: boolean
  /** Returns true if any subscriber wants this event. It asks every subscriber, and each one only once. */
  readonly wants: EventTest
  /** Adds an event to the next batch. */
  add(row: OutboxRow): void
  /** Drops the events that were added since the last commit, because they were not stored. */
  discard(): void
  /**
   * Must be called after a commit. Delivers the events that were added, together with the other changes of the commit.
   */
  publish(commit: Omit<OutboxBatch, 'kind' | 'rows'>): void
}
