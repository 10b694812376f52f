/**
 * The warehouse stores processed events and answers queries about them. Each event of a project has a sequence number:
 * 1, 2, 3 and so on in order of processing. Its sender is stored as a distinct ID number; the person is looked up when
 * the event is read. Persons, the names of distinct ID numbers, cohorts, commands and the position in the log are not
 * part of the warehouse. They stay in the store of the process that works with the warehouse, and so do erasure
 * receipts.
 */
import type { CachesOfThread } from '../base/memory/memory-board.ts'
import type { RowsWriter } from '../base/rows-writer.ts'
import type { EventScanner } from '../rules/analytics/event-columns.ts'
import type { EventCells, NormalisedEvent, PersonMode } from '../rules/capture/types.ts'
import type { ErasureTarget } from '../rules/events/erasure-job.ts'
import type { EventListQuery, EventRows, EventView } from '../rules/events/event-queries.ts'

/** The fields that identify an event and its duplicates. */
export interface EventIdentity {
  readonly projectId: number
  readonly event: NormalisedEvent
  /**
   * The properties of an event that was read without building an object of them. If they are present, `properties` of
   * the event are not the ones to store. Only a warehouse with `takesCells` accepts them.
   */
  readonly cells?: EventCells | null
  /** The 16 bytes of the uuid start at `uuidOffset`. The warehouse copies them. */
  readonly uuidBytes: Uint8Array
  readonly uuidOffset: number
  /** False if the server made the uuid. Such an event cannot be a duplicate. */
  readonly hasClientUuid: boolean
}

/** The result of admitting an event that is no duplicate. It is valid until the next event is admitted. */
export interface Admission {
  readonly distinctId: number
}

/** A segment whose copy is complete and was compared byte by byte. */
export interface CopiedSegment {
  readonly projectId: number
  readonly firstSequence: number
  /** The header at the time of the comparison. Every later change of the segment changes its header too. */
  readonly header: Uint8Array
}

/** The values of a column: property values as JSON, elements as their text. */
export interface ColumnTexts {
  /** The numbers of the rows that have a value, ascending. */
  readonly rows: Uint16Array
  readonly texts: readonly string[]
}

/** Reads columns that the local store has given away to the warehouse. */
export interface ColumnSource {
  /**
   * Returns a property of a segment, or the elements if `key` is null. `isAnew` bypasses the cache. Blocks the calling
   * thread. Throws `ServiceError` if there is no answer.
   */
  column(segment: SegmentPlace, key: string | null, isAnew: boolean): ColumnTexts
}

/** Identifies the events of one segment. */
export interface SegmentPlace {
  readonly projectId: number
  readonly firstSequence: number
  readonly rows: number
}

/** The numbers of rows, segments and bytes that a commit wrote. */
export interface CommitStats {
  readonly rows: number
  readonly segments: number
  readonly bytes: number
}

/** A job that erases events, identified by its project and number. */
export interface ErasedJob {
  readonly projectId: number
  readonly number: number
}

/** An erasure job with the events to erase. */
export interface ErasureJob extends ErasedJob {
  readonly job: ErasureTarget
}

/**
 * The writing end; there is one, in the thread that processes. Events are gathered one by one and stored together:
 * first `prepare`, then `store` within the transaction that stores the new position in the log, then `settle`. Events
 * that were gathered but not stored are lost if the process ends, and are gathered again later with the same sequence
 * numbers. A warehouse that is not part of the transaction therefore makes events durable in `prepare`, and overwrites
 * events whose sequence numbers are used again.
 */
export interface WarehouseWriter {
  /** True if `append` accepts properties as cells. */
  readonly takesCells?: boolean
  /**
   * Returns null if the event is a duplicate: an event with the same project, uuid, name and distinct ID number is
   * stored or gathered already. Adds nothing yet. `isNew` tells that the distinct ID number was not used before.
   * Source: docs/compatibility/events.md, "Duplicates".
   */
  admit(event: EventIdentity, distinctId: number, isNew: boolean): Admission | null
  /**
   * Gathers the event that was admitted last under the next sequence number of its project. `bytes` is the size of its
   * JSON. If it throws, nothing was added. The fields are separate parameters, because copying them into a new object
   * for each event costs microseconds.
   */
  append(
    event: EventIdentity,
    admission: Admission,
    createdAtMs: number,
    personMode: PersonMode,
    isHistorical: boolean,
    bytes: number,
  ): void
  /**
   * Treats the events of a job as erased from now on, so that the same events may be sent again. When they are removed
   * from storage depends on the idle time of the thread. Calling it again has no further effect.
   */
  order(job: ErasureJob): void
  /**
   * Returns the jobs that were carried out but are not yet recorded as done. Each job is returned once in the lifetime
   * of this object. If there are copies elsewhere, jobs that are recorded as done are returned too, until
   * `forgetCopies` is called for them.
   */
  takeCarriedOut(): readonly ErasedJob[]
  /** Reports that no copy elsewhere holds events of these jobs any more. */
  forgetCopies?(jobs: readonly ErasedJob[]): void
  /** Returns the sequence number of the newest event of a project, gathered or stored, or 0 if there is none. */
  lastSequence(projectId: number): number
  /** True if storing the gathered events now would leave no small segment. */
  readonly isFull: boolean
  /** The estimated memory of the events gathered since the last commit, in bytes. */
  readonly gatheredBytes: number
  /** Encodes the gathered events into segments, so that `store` can store them. */
  prepare(): void
  /** Stores the gathered events. Must be called between `prepare` and `settle`. */
  store(): CommitStats
  /** Called after the transaction is durable. `jobs` are to be erased from now on. */
  settle(jobs: readonly ErasureJob[]): void
  /** Removes columns that have copies elsewhere from segments that have not changed since they were copied. */
  giveAway?(segments: readonly CopiedSegment[]): void
  /**
   * Erases events and merges segments for about `budgetMs`. Returns true if more work remains. Must not be called while
   * events are gathered. `isErasingOnly` skips merging, because there is no room to rewrite stored segments.
   */
  maintain(budgetMs: number, isErasingOnly?: boolean): boolean
  /** The sizes of its caches. */
  readonly caches?: CachesOfThread
  /** Frees memory that can be filled again. Must not be called while events are gathered. */
  release?(): void
}

/** The limits of one query. */
export interface ScanLimits {
  /** The time by `performance.now()` after which the query fails with 504 `query_timeout`. */
  readonly deadlineMs: number
  /** Returns true if nobody waits for the answer any more. */
  readonly isCancelled: () => boolean
  /**
   * Called as often as the deadline is checked, with the time of `performance.now()`. Throws if the query takes too
   * much memory.
   */
  readonly checkMemory?: (nowMs: number) => void
  /** The number of rows that one scan may find. A scan that finds more fails with 400 `query_too_large`. */
  readonly rowsMax?: number
}

/**
 * The reading end. There may be any number of readers. Each one reads the state of the last commit that it has seen.
 */
export interface Warehouse {
  /** Returns a scanner of the current state for one query. It is valid until the next call. */
  scanner(limits: ScanLimits): EventScanner
  /**
   * Returns a page of events as text, newest timestamp first. The page also ends when `writer` is full. `check` is
   * called before each expensive step, and throws to cancel the read.
   */
  eventRows(
    query: EventListQuery,
    writer: RowsWriter,
    check: (groupBytes?: number) => void,
  ): EventRows
  /** Returns the newest event with this uuid, in any common form, or null. */
  getEvent(projectId: number, uuid: string): EventView | null
}
