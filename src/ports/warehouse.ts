/**
 * The warehouse: where processed events rest, and what is asked of them. Each event of a project has a number
 * S, from 1 in order of processing; who sent it is a number D, whom it belongs to is looked up when it is
 * read. Persons, names of D, cohorts, commands and the position in the log are no part of it: they stay in
 * the store of the process that works with the warehouse, and so do erasure receipts.
 */
import type { CachesOfThread } from '../base/memory/memory-board.ts'
import type { RowsWriter } from '../base/rows-writer.ts'
import type { EventScanner } from '../rules/analytics/event-columns.ts'
import type { EventCells, NormalisedEvent, PersonMode } from '../rules/capture/types.ts'
import type { ErasureTarget } from '../rules/events/erasure-job.ts'
import type { EventListQuery, EventRows, EventView } from '../rules/events/event-queries.ts'

/** What tells an event from its duplicates. */
export interface EventIdentity {
  readonly projectId: number
  readonly event: NormalisedEvent
  /**
   * The properties of an event that was read without making an object of it: `properties` of the event are
   * then not those to be stored. Only for a warehouse that `takesCells`.
   */
  readonly cells?: EventCells | null
  /** 16 bytes of uuid begin at `uuidOffset`. They are copied. */
  readonly uuidBytes: Uint8Array
  readonly uuidOffset: number
  /** False: the server made the uuid, so that it cannot be a duplicate. */
  readonly hasClientUuid: boolean
}

/** That an event is no duplicate, and what was found out about it on the way. Valid until the next one. */
export interface Admission {
  readonly distinctId: number
}

/** A segment of which a copy is whole, compared byte by byte. */
export interface CopiedSegment {
  readonly projectId: number
  readonly firstSequence: number
  /** As it was then: whoever has changed the segment since has changed it, too. */
  readonly header: Uint8Array
}

/** The values of a column: JSON, or of elements what they are. */
export interface ColumnTexts {
  /** Numbers of the rows that have one, ascending. */
  readonly rows: Uint16Array
  readonly texts: readonly string[]
}

/** Where columns are that were given away. */
export interface ColumnSource {
  /**
   * A property of a segment, or the elements when `key` is null; `isAnew`: not what was remembered. Waits. Throws
   * `ServiceError` when there is no answer.
   */
  column(segment: SegmentPlace, key: string | null, isAnew: boolean): ColumnTexts
}

/** Which events a segment has. */
export interface SegmentPlace {
  readonly projectId: number
  readonly firstSequence: number
  readonly rows: number
}

/** What a commit wrote. */
export interface CommitStats {
  readonly rows: number
  readonly segments: number
  readonly bytes: number
}

/** A job that erases events, by project and number. */
export interface ErasedJob {
  readonly projectId: number
  readonly number: number
}

/** Events to be erased. */
export interface ErasureJob extends ErasedJob {
  readonly job: ErasureTarget
}

/**
 * The writing end; one, in the thread that processes. Events are gathered one by one and stored together:
 * `prepare`, then `store` within the transaction that holds the position behind them, then `settle`. What was
 * gathered and not stored is forgotten with the process, and then gathered again with the same numbers: a
 * warehouse that is not part of the transaction makes events durable in `prepare`, and overwrites those whose
 * S comes again.
 */
export interface WarehouseWriter {
  /** Whether events may come as cells. */
  readonly takesCells?: boolean
  /**
   * Null when the event is a duplicate: same project, uuid, name and D, stored or gathered. Nothing is added
   * yet. `isNew`: nobody has sent with this D before. Source: docs/compatibility/events.md, "Duplicates".
   */
  admit(event: EventIdentity, distinctId: number, isNew: boolean): Admission | null
  /**
   * Gathers the event that was admitted last as the next S of its project. `bytes`: those of its JSON. The
   * fields come one by one: an object made for each event by copying another costs microseconds. Throws, and
   * then has added nothing.
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
   * Events that a job means count as erased from now on, so that such an event may come again: when they are
   * erased in fact depends on the time that there is. More than once is the same as once.
   */
  order(job: ErasureJob): void
  /**
   * Jobs that were carried out and are not said to be done, each once in the life of this object. Where there are
   * copies elsewhere: also those that are said to be done, until the copies are forgotten.
   */
  takeCarriedOut(): readonly ErasedJob[]
  /** Nothing is left elsewhere of what these jobs mean. */
  forgetCopies?(jobs: readonly ErasedJob[]): void
  /** S of the newest event of a project, gathered or stored; 0 for none. */
  lastSequence(projectId: number): number
  /** Whether storing what is gathered now would leave nothing small behind. */
  readonly isFull: boolean
  /** The estimated memory of the events gathered since the last commit, in bytes. */
  readonly gatheredBytes: number
  /** Ends what was gathered. */
  prepare(): void
  /** Stores what was gathered. Only between `prepare` and `settle`. */
  store(): CommitStats
  /** The transaction is durable; `jobs` are to be erased from now on. */
  settle(jobs: readonly ErasureJob[]): void
  /** Lets go what copies elsewhere have, of segments that are as they were. */
  giveAway?(segments: readonly CopiedSegment[]): void
  /**
   * Erases and puts in order for about `budgetMs`; true when there is more to do. Not while events are
   * gathered. `isErasingOnly`: there is no room to write anew what is stored.
   */
  maintain(budgetMs: number, isErasingOnly?: boolean): boolean
  /** What its caches hold. */
  readonly caches?: CachesOfThread
  /** Gives up memory that can be filled again. Not while events are gathered. */
  release?(): void
}

/** What bounds one query. */
export interface ScanLimits {
  /** By the clock of `performance.now()`. Later: 504 `query_timeout`. */
  readonly deadlineMs: number
  /** Whether nobody waits for the answer any more. */
  readonly isCancelled: () => boolean
  /** Asked as often as the deadline, with the time of `performance.now()`; throws when the query takes too much memory. */
  readonly checkMemory?: (nowMs: number) => void
  /** Rows that one scan may find. More: 400 `query_too_large`. */
  readonly rowsMax?: number
}

/** The reading end; any number of them. It answers as of the last commit that it has seen. */
export interface Warehouse {
  /** Scans of the state of now for one query, valid until the next call. */
  scanner(limits: ScanLimits): EventScanner
  /**
   * A page of events, newest timestamp first, as text; it ends when `writer` is full, too. `check` is asked
   * before what takes long, and throws to give up.
   */
  eventRows(
    query: EventListQuery,
    writer: RowsWriter,
    check: (groupBytes?: number) => void,
  ): EventRows
  /** The newest event with a uuid (any common form), or null. */
  getEvent(projectId: number, uuid: string): EventView | null
}
