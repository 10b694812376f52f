/**
 * The warehouse stores processed events and answers queries about them. Each event of a project has a sequence number:
 * 1, 2, 3 and so on in order of processing. The sender of an event is stored as a distinct ID number, and the person is
 * looked up when the event is read. Persons, the distinct_ids that the numbers stand for, cohorts, commands, erasure
 * receipts and the position in the log are not part of the warehouse. They stay in the store of the process that works
 * with the warehouse.
 */
import type { CachesOfThread } from '../base/memory/memory-board.ts'
import type { RowsWriter } from '../base/rows-writer.ts'
import type { EventScanner } from '../rules/analytics/event-columns.ts'
import type { EventCells, NormalizedEvent, PersonMode } from '../rules/capture/types.ts'
import type { ErasureTarget } from '../rules/events/erasure-job.ts'
import type { EventListQuery, EventRows, EventView } from '../rules/events/event-queries.ts'

/** An event with its UUID, by which duplicates are found. */
export interface EventIdentity {
  readonly projectId: number
  readonly event: NormalizedEvent
  /**
   * The properties of the event as cells, if its JSON was read without building an object. Cells are then stored
   * instead of the `properties` of `event`. Only a warehouse with `takesCells` accepts them.
   */
  readonly cells?: EventCells | null
  /** The memory that contains the UUID: the 16 bytes from `uuidOffset` on. The warehouse copies them. */
  readonly uuidBytes: Uint8Array
  readonly uuidOffset: number
  /** False if the server chose the UUID. Such an event cannot be a duplicate. */
  readonly hasClientUuid: boolean
}

/**
 * The ID numbers of an event that is not a duplicate, as `admit` returns them. Valid until the next event is admitted.
 */
export interface Admission {
  readonly distinctId: number
}

/** A segment of which ClickHouse has a complete copy. The copy was compared with the segment byte by byte. */
export interface CopiedSegment {
  readonly projectId: number
  readonly firstSequence: number
  /**
   * The bytes of the segment's header at the time of the comparison. If the header is still equal, the segment has not
   * changed.
   */
  readonly header: Uint8Array
}

/** The values of one column for some rows: the values of a property as JSON, or the texts of elements. */
export interface ColumnTexts {
  /** The indexes of the rows that have a value, ascending. */
  readonly rows: Uint16Array
  readonly texts: readonly string[]
}

/** Reads columns that the local store has removed because ClickHouse has a copy of them. */
export interface ColumnSource {
  /**
   * Returns one column of a segment: the values of the property `key`, or the elements if `key` is null. `isAnew`
   * bypasses the cache. Blocks the calling thread. Throws `ServiceError` if the warehouse does not answer.
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

/** Identifies an erasure job whose events are erased from the store: its project, and its number within the project. */
export interface ErasedJob {
  readonly projectId: number
  readonly number: number
}

/** An erasure job, with a description of the events to erase. */
export interface ErasureJob extends ErasedJob {
  readonly job: ErasureTarget
}

/**
 * The interface through which events are written. There is one writer, in the thread that processes. Events are
 * gathered one by one and stored together: first `prepare`, then `store` within the transaction that stores the new
 * position in the log, then `settle`. Events that were gathered but not stored are lost if the process ends. They are
 * gathered again later, with the same sequence numbers. A warehouse that is not part of the transaction therefore makes
 * events durable in `prepare`, and overwrites events whose sequence numbers are used again.
 */
export interface WarehouseWriter {
  /** True if `append` accepts properties as cells. */
  readonly takesCells?: boolean
  /**
   * Checks an event before `append`, and adds nothing yet. Returns null if the event is a duplicate: if an event with
   * the same project, UUID, name and distinct ID number is already stored or gathered. `isNew` means that the distinct
   * ID number was not used before. Source: docs/compatibility/events.md, "Duplicates".
   */
  admit(event: EventIdentity, distinctId: number, isNew: boolean): Admission | null
  /**
   * Gathers the event that was admitted last, under the next sequence number of its project. `bytes` is the size of the
   * event's JSON. If it throws, nothing was added. The fields are separate parameters, because copying them into a new
   * object for each event costs microseconds.
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
   * Treats the events of a job as erased from now on, so that clients may send the same events again. `maintain` later
   * removes them from the disk, when the thread has time for it. Calling `order` twice for a job is harmless.
   */
  order(job: ErasureJob): void
  /**
   * Returns the erasure jobs whose events have been removed since the last call. The first call after a start also
   * returns jobs whose events were removed earlier, but that are not yet recorded as done. If ClickHouse has copies of
   * events, it also returns jobs for which `forgetCopies` was not called yet. Each job is returned once in the lifetime
   * of this object.
   */
  takeCarriedOut(): readonly ErasedJob[]
  /**
   * Must be called when ClickHouse no longer has copies of the events of these jobs. After a restart, `takeCarriedOut`
   * does not return these jobs again.
   */
  forgetCopies?(jobs: readonly ErasedJob[]): void
  /** Returns the sequence number of the newest event of a project, gathered or stored, or 0 if there is none. */
  lastSequence(projectId: number): number
  /**
   * True if the gathered events fill their segments. Storing them now then leaves no small segment to be merged later.
   */
  readonly isFull: boolean
  /** The estimated memory of the events gathered since the last commit, in bytes. */
  readonly gatheredBytes: number
  /** Encodes the gathered events into segments, so that `store` can store them. */
  prepare(): void
  /** Stores the gathered events. Must be called between `prepare` and `settle`. */
  store(): CommitStats
  /**
   * Must be called when the transaction of `store` is durable. `jobs` are the erasure jobs that the transaction has
   * stored; `maintain` carries them out from now on.
   */
  settle(jobs: readonly ErasureJob[]): void
  /**
   * Maintains the index of UUIDs as far as processing needs it: writes it to the disk, if enough of it is only in memory
   * and the disk has enough space. Returns the estimated number of written bytes. Must be called after `settle`, and not
   * while events are gathered.
   */
  writeIndex?(): number
  /**
   * The number of bytes that must be free for `writeIndex` before more events may be gathered. 0 if events may be
   * gathered now, which is nearly always the case.
   */
  readonly indexBytesDue?: number
  /**
   * Removes columns of which ClickHouse has copies. A segment that has changed since it was compared keeps its columns.
   */
  giveAway?(segments: readonly CopiedSegment[]): void
  /**
   * Erases events and merges segments for about `budgetMs` milliseconds. Returns true if more work remains. Must not be
   * called while events are gathered. With `isErasingOnly`, segments are not merged, because there is no room on the
   * disk to rewrite them.
   */
  maintain(budgetMs: number, isErasingOnly?: boolean): boolean
  /** The number of bytes in each cache of this writer, and the limits of the caches. */
  readonly caches?: CachesOfThread
  /** Releases memory that is only a cache. Must not be called while events are gathered. */
  release?(): void
}

/** The limits of one query. */
export interface ScanLimits {
  /** The time, on the clock of `performance.now()`, after which the query fails with 504 `query_timeout`. */
  readonly deadlineMs: number
  /** Returns true if nobody waits for the answer any more. */
  readonly isCanceled: () => boolean
  /**
   * Called as often as the deadline is checked, with the current time of `performance.now()`. Throws, and so ends the
   * query, if the query takes too much memory.
   */
  readonly checkMemory?: (nowMs: number) => void
  /** The largest number of rows that one scan may find. A scan that finds more fails with 400 `query_too_large`. */
  readonly rowsMax?: number
}

/**
 * The interface through which events are read. There may be any number of readers. Each reader reads the state of the
 * latest commit that it has seen.
 */
export interface Warehouse {
  /** Returns a scanner for one query, which reads the current state. It is valid until the next call. */
  scanner(limits: ScanLimits): EventScanner
  /**
   * Returns a page of events as text, newest timestamp first. The page also ends when `writer` is full. The reader
   * calls `check` before each expensive step. To cancel the read, `check` throws.
   */
  eventRows(
    query: EventListQuery,
    writer: RowsWriter,
    check: (groupBytes?: number) => void,
  ): EventRows
  /** Returns the newest event with this UUID, or null. The UUID may have any of the common forms. */
  getEvent(projectId: number, uuid: string): EventView | null
}
