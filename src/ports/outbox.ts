/**
 * The outbox: what processing has stored, for those who want to hear of it (streams, webhooks, sinks). One is in
 * the thread that processes. A subscriber asks for deliveries one by one, in the order of the commits. What it
 * does not fetch waits for it up to a limit; beyond, it is told which events it missed, and reads them from the
 * warehouse by their numbers.
 */
import type { NormalisedEvent, PersonMode } from '../rules/capture/types.ts'

/** A stored event. */
export interface OutboxRow {
  readonly projectId: number
  /** S of the event, unique within the project. */
  readonly sequence: number
  readonly uuid: string
  readonly event: NormalisedEvent
  /** D of its distinct_id. */
  readonly distinctIdNumber: number
  readonly createdAtMs: number
  readonly personMode: PersonMode
  readonly isHistorical: boolean
}

/** What one commit has stored, durably. */
export interface OutboxBatch {
  readonly kind: 'batch'
  /** The last block of the log that it covers. */
  readonly position: number
  /** By project in order of S. */
  readonly rows: readonly OutboxRow[]
  /** Persons that were changed or removed. */
  readonly persons: readonly { readonly projectId: number; readonly numbers: readonly number[] }[]
  /** Projects whose cohorts or group types were changed. */
  readonly definitions: readonly number[]
}

/** The subscriber was too slow: some batches were given up. Those that follow are whole again. */
export interface OutboxGap {
  readonly kind: 'gap'
  /** The last block of the log that it covers. */
  readonly position: number
  /** The events that were given up: S behind `after`, up to `through`. Whatever else changed must be read anew. */
  readonly missed: readonly {
    readonly projectId: number
    readonly after: number
    readonly through: number
  }[]
}

/** Whether a subscriber wants an event; asked once for each, in order, while the event is gathered. */
export type EventTest = (
  projectId: number,
  event: Pick<NormalisedEvent, 'name' | 'distinctId'>,
) => boolean

/** Somebody who listens. */
export interface Subscription {
  /** What has come and was not fetched; null: nothing. */
  take(): OutboxBatch | OutboxGap | null
  /** What comes next; waits for it. Null: the subscription has ended. One call at a time. */
  next(): Promise<OutboxBatch | OutboxGap | null>
  /** Ends it: what waits is forgotten. */
  close(): void
}

/** Where subscribers find it. */
export interface Outbox {
  /**
   * From the next commit on; not while events are gathered. `rowsMax`: events that may wait. With `wants`
   * the events that it refuses are left out, unless somebody else wants them: test them again.
   */
  subscribe(rowsMax: number, wants?: EventTest): Subscription
}

/** Where processing leaves it. */
export interface OutboxWriter {
  /** False: nobody listens, and nothing need be added. */
  readonly isWanted: boolean
  /** Whether to add this event; everybody is asked, once. */
  readonly wants: EventTest
  /** Notes an event of the next batch. */
  add(row: OutboxRow): void
  /** Drops the events added since the last commit, because they were not stored. */
  discard(): void
  /** After a commit: hands over what was added, and what else it says. */
  publish(commit: Omit<OutboxBatch, 'kind' | 'rows'>): void
}
