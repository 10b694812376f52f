/**
 * Processes the log: reads it in order, once, and stores its events. All effects of a range of the log are stored in
 * one transaction of the environment `events`, together with the position at the end of the range. After a crash at any
 * moment, processing continues at the last position and reaches the same state.
 *
 * An event that cannot be processed becomes a dead letter, so it does not stop processing. If a batch of events cannot
 * be stored, smaller batches are tried, until a batch contains only the failing event (processing-attempts.ts).
 * `attempt` returns an error in its result. The caller then closes the processor and opens a new one.
 */
import { randomBytes } from 'node:crypto'
import { SYSTEM_CLOCK } from '../../base/clock.ts'
import { DiskRoom } from '../../base/disk-room.ts'
import { formatUuid } from '../../base/ids.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { CachesOfThread } from '../../base/memory/memory-board.ts'
import type { LogExtent, LogOrigin, LogReader } from '../../ports/log.ts'
import type { CopiedSegment, ErasedJob, WarehouseWriter } from '../../ports/warehouse.ts'
import { COOKIELESS_ID, isCookieless, withVisitor } from '../../rules/capture/cookieless.ts'
import type { DropReason, LossReason } from '../../rules/capture/drop-reasons.ts'
import { eventDistinctId, eventName } from '../../rules/capture/fields.ts'
import { EventRecognizer } from '../../rules/capture/kernel/recognize.ts'
import {
  eventBytes,
  eventStart,
  eventUuidOffset,
  hasClientUuid,
  type LogRecord,
  RECORD_COMMAND,
  RECORD_IP_ANONYMIZED,
  readBlock,
} from '../../rules/capture/log-block.ts'
import { normalizeEvent } from '../../rules/capture/normalize.ts'
import type {
  EventCells,
  EventOutcome,
  IngestionWarning,
  NormalizedEvent,
} from '../../rules/capture/types.ts'
import type { DeadLetter } from '../../rules/events/dead-letter.ts'
import { applyEvent } from '../../rules/persons/apply-event.ts'
import { setGroupProperties } from '../../rules/persons/group-rules.ts'
import { PERSON_PROPERTIES_BYTES_MAX } from '../../rules/persons/limits.ts'
import { isAboutDeadLetters, readCommand } from '../../rules/persons/logged-command.ts'
import { FlagsVersion } from '../../store/catalog/organization-store.ts'
import type { BlockPart, ProcessingWriter } from '../../store/events/write/processing-writer.ts'
import {
  DamagedRecordError,
  type DamageListener,
  isBeyondRepair,
  isShortage,
} from '../../store/faults.ts'
import { DailySalts } from '../front/daily-salts.ts'
import type {
  CommandOutcome,
  ProcessFailure,
  ProcessResult,
  ThreadSettings,
} from '../threads/tasks.ts'
import { CommandRunner } from './command-runner.ts'
import { CommitRoom } from './commit-room.ts'
import { originOf, runDeadLetterCommand } from './dead-letter-commands.ts'
import type { EventEnrichment } from './event-enrichment.ts'
import { GATHERED_BYTES_MAX } from './limits.ts'
import { type LogPlace, type ProcessingAttempts, WHOLE } from './processing-attempts.ts'
import {
  type EventLimits,
  type Fates,
  parseEvent,
  type RecordStep,
  reasonOf,
  recordStep,
} from './record-step.ts'

/**
 * The number of events in one transaction, if the log contains enough. A transaction writes each changed person once,
 * so larger transactions write less. Processing this many events takes about a second.
 */
const COMMIT_EVENTS = 49_152
/**
 * A transaction may have more than `commitEvents` events, so that it ends where a segment is full. It has at most this
 * many times as many, unless a single block contains more.
 */
const COMMIT_EXCESS = 4 / 3
/**
 * The time for merging segments after a commit while the main thread is busy, in milliseconds. It is enough for one
 * merge.
 */
const MAINTAIN_MS_BUSY = 50
/** A transaction is committed after this number of bytes of blocks, even if these contain few events. */
const COMMIT_BYTES = 64 * 1024 * 1024
/**
 * After this many events, the memory of a transaction is compared with its limit again. It is also compared before each
 * event of at least `LARGE_EVENT_BYTES`.
 */
const LOOK_EVERY_EVENTS = 16
const LARGE_EVENT_BYTES = 65_536

const NO_EXTENT: LogExtent = { first: 0, last: 0 }
/** The dependencies and options of processing. Closing the processor also closes the log and the store. */
export interface LogProcessorOptions {
  readonly settings: Pick<
    ThreadSettings,
    'dataDir' | 'isFlushDeferred' | 'logReach' | 'diskRoom' | keyof EventLimits
  >
  readonly log: LogReader
  /** The store, including the warehouse that contains the events. */
  readonly store: ProcessingWriter
  /** Called for each stored record that was skipped because it is damaged. */
  readonly onDamage: DamageListener
  /**
   * The number of events for one transaction. A transaction may have some more if they fill a segment. Default: 49,152.
   */
  readonly commitEvents?: number | undefined
  /** The number of bytes of blocks for one transaction. Default: 64 MiB. */
  readonly commitBytes?: number | undefined
  /**
   * The time in milliseconds for which daily salts are kept after their day, for events that are processed again.
   * Default: 0.
   */
  readonly secretsKeptMs?: number | undefined
  /** The enrichment of events. Default null: nothing is added. */
  readonly enrichment?: EventEnrichment | null | undefined
  /**
   * Whether to use the kernel (rules/capture/kernel/), which reads common events without parsing them. Tests set it to
   * false to compare the results.
   */
  readonly isKernelUsed?: boolean
  /** The record of failed attempts. Default: no record, and the complete batch is tried again after a failure. */
  readonly attempts?: ProcessingAttempts | undefined
  /** When a transaction uses this many bytes of memory, it is committed, even in the middle of a block. */
  readonly gatheredBytesMax?: number | undefined
}

/** The block whose events are currently being added. */
interface OpenBlock {
  readonly sequence: number
  readonly bytes: number
  readonly records: readonly LogRecord[]
  /** The index of the record that contains the next event. `index` is the index of the event in that record. */
  record: number
  index: number
  /** The number of events of the block that were already added. */
  done: number
  step: RecordStep | null
}

/** The results of one transaction, or of all transactions of a processing run. */
interface Outcomes {
  events: number
  /** The number of bytes of the blocks that were read completely. */
  bytes: number
  /** The number of bytes of the events that were added. */
  eventBytes: number
  recognized: number
  commitMs: number
  readonly fates: Map<number, Fates>
  readonly commands: CommandOutcome[]
}

/** The part of a processing run in which an error was thrown. */
type Work = 'events' | 'maintenance'

const NO_PART: BlockPart = { done: 0, dropped: 0 }

/** The work of the processing thread. There is one instance for each data directory. */
export class LogProcessor {
  readonly #log: LogReader
  readonly #store: ProcessingWriter
  readonly #warehouse: WarehouseWriter
  readonly #eventLimits: EventLimits
  readonly #commitEvents: number
  readonly #commitBytes: number
  readonly #room: CommitRoom
  /** The maximum number of bytes of blocks for the current transaction. */
  #uncommittedBytesMax = COMMIT_BYTES
  /** The largest number of bytes of events in one commit. It depends on the free space on the disk. */
  #roomBytesMax = Number.POSITIVE_INFINITY
  /** True if there is not enough space for the next commit. */
  #isWaiting = false
  readonly #commands: CommandRunner
  readonly #flags: FlagsVersion
  readonly #isFlushDeferred: boolean
  /** The range of the log's blocks when this object was created. */
  readonly #extentAtStart: LogExtent | null
  /**
   * True if the older blocks of the log are known to be on the disk, including blocks of an earlier process. If flushes
   * are not deferred, that is the case once the log has grown, because a new block is written only after everything
   * before it is on the disk.
   */
  #isLogFlushed = false
  #isDiskShort = false
  /** The number of the newest block in the log. */
  #last = 0
  readonly #onDamage: DamageListener
  readonly #salts: DailySalts
  readonly #enrichment: EventEnrichment | null
  readonly #recognizer = new EventRecognizer(() => randomBytes(8).readBigUInt64LE())
  readonly #canRecognize: boolean
  readonly #attempts: ProcessingAttempts | undefined
  readonly #gatheredBytesMax: number
  /** The number of the last block whose events are all stored. */
  #position: number
  /** The number of the last block whose events are all in the current transaction or already stored. */
  #gathered: number
  #open: OpenBlock | null = null
  /** The number of the block that is being processed, and the index that its next dropped event gets (`#place`). */
  #block = 0
  #place = 0
  /** The origin of the blocks that were added since the last commit: their position in the shared log of a cluster. */
  #origin: LogOrigin | undefined
  /** The results of the current transaction, which is not committed yet. */
  #uncommitted = newOutcomes()
  /** The results of the transactions that this processing run has committed. */
  #total = newOutcomes()
  /** If not null, the next event is not processed, but becomes a dead letter with this reason. */
  #setAside: string | null = null
  #work: Work = 'events'
  #hasFailed = false

  constructor(options: LogProcessorOptions) {
    const { settings, log, store, onDamage, commitEvents = COMMIT_EVENTS } = options
    this.#commitEvents = commitEvents
    this.#commitBytes = options.commitBytes ?? COMMIT_BYTES
    this.#enrichment = options.enrichment ?? null
    this.#onDamage = onDamage
    this.#log = log
    this.#store = store
    this.#warehouse = store.warehouse
    this.#room = new CommitRoom(store, new DiskRoom(settings.diskRoom))
    const isWanted = options.isKernelUsed !== false
    this.#canRecognize =
      isWanted && this.#enrichment === null && this.#warehouse.takesCells === true
    this.#eventLimits = settings
    this.#commands = new CommandRunner(this.#store, PERSON_PROPERTIES_BYTES_MAX)
    this.#flags = new FlagsVersion(settings.dataDir)
    this.#salts = new DailySalts(settings.dataDir, options.secretsKeptMs)
    this.#position = this.#store.readPosition()
    this.#gathered = this.#position
    this.#attempts = options.attempts
    this.#gatheredBytesMax = options.gatheredBytesMax ?? GATHERED_BYTES_MAX
    this.#isFlushDeferred = settings.isFlushDeferred
    this.#extentAtStart = this.#log.extent()
  }

  /**
   * Processes blocks of the log for about `budgetMs` milliseconds. If time is left and the disk is not short of space,
   * it also erases events and merges segments. If `commitEventsMin` is given, it makes only one commit, of at least
   * this many events if the log has them. That commit ends where a segment is full, and hardly any time is spent on
   * merging. `onBlock` is called after each block. Throws if `attempt` returns a `failure`.
   */
  run(...task: Parameters<LogProcessor['attempt']>): ProcessResult {
    const result = this.attempt(...task)
    if (result.failure !== undefined) throw new Error(result.failure.reason)
    return result
  }

  /**
   * Does the same as `run`, but never throws. The `failure` of the result contains the error, and the other members
   * describe what was committed before it. After a failure, the caller must close this object and open another one.
   */
  attempt(
    budgetMs: number,
    isDiskShort = false,
    commitEventsMin?: number,
    onBlock?: () => void,
  ): ProcessResult {
    const begunAt = performance.now()
    this.#isDiskShort = isDiskShort
    this.#total = newOutcomes()
    this.#uncommitted = newOutcomes()
    let elapsedMs = 0
    try {
      this.#work = 'events'
      const deadline = this.#process(budgetMs, commitEventsMin, onBlock)
      elapsedMs = performance.now() - begunAt
      this.#work = 'maintenance'
      const isDone = this.#maintain(deadline, commitEventsMin !== undefined)
      const isBusy = commitEventsMin !== undefined || this.#total.events > 0
      const isIdle = !this.#releaseFreePages(isDone, deadline, isBusy) && isDone
      const deadLetters = this.#store.deadLetters.takeCounts()
      const freeBytes = this.#store.reusableBytes()
      this.#room.noteReusable(freeBytes)
      const released = this.#store.takeReleaseNews()
      return { ...this.#answer(elapsedMs), deadLetters, freeBytes, released, isIdle }
    } catch (cause) {
      elapsedMs ||= performance.now() - begunAt
      return { ...this.#answer(elapsedMs), failure: this.#failed(cause) }
    }
  }

  /** Returns the result for everything that this processing run has committed so far. */
  #answer(elapsedMs: number): ProcessResult {
    const { events, recognized, commitMs, fates, commands } = this.#total
    return {
      processed: this.#position,
      last: this.#last,
      eventCount: events,
      recognizedCount: recognized,
      elapsedMs,
      fates: [...fates].map(([projectId, fate]) => ({ projectId, ...fate })),
      commitMs,
      commands,
      changedDefinitions: this.#takeChangedDefinitions(),
      erased: this.#warehouse.takeCarriedOut(),
      geoIp: this.#enrichment?.takeGeoIpCounts(),
      isIdle: false,
      pausedSteps: this.#attempts?.pausedSteps ?? [],
    }
  }

  /** Returns the result for a call that failed before it processed an event. */
  emptyResult(): ProcessResult {
    this.#total = newOutcomes()
    return this.#answer(0)
  }

  /**
   * Adds and commits events until the budget is used up. Returns the moment at which the budget ends, in milliseconds
   * of the monotonic clock.
   */
  #process(budgetMs: number, commitEventsMin?: number, onBlock?: () => void): number {
    const isOneCommit = commitEventsMin !== undefined
    const commitEvents = this.#commitEvents
    const eventsMin = Math.max(1, Math.min(commitEventsMin ?? commitEvents, commitEvents))
    this.#enrichment?.refresh()
    this.#last = this.#lastBlock()
    // The budget starts after the log was read. Each call therefore makes at least one commit if there is anything to
    // commit.
    const deadline = performance.now() + budgetMs
    this.#isWaiting = false
    while (this.#position < this.#last && performance.now() < deadline) {
      this.#isWaiting = !this.#writeIndex()
      if (this.#isWaiting) break
      if (this.#open === null) this.#openBlock(this.#position + 1)
      const { bytes, events } = leftOf(this.#open)
      const bytesMax = this.#room.bytesMax(bytes, events)
      // Without enough space, the events stay in the log.
      this.#isWaiting = bytesMax === 0 && bytes > 0
      if (this.#isWaiting) break
      this.#uncommittedBytesMax = Math.max(1, Math.min(this.#commitBytes, bytesMax))
      this.#roomBytesMax = bytesMax
      this.#gather(eventsMin, onBlock)
      this.#commit()
      this.#last = this.#lastBlock()
      if (isOneCommit) break
    }
    return deadline
  }

  /**
   * Writes the index of UUIDs if it is due. Returns false if events must wait until the disk has space for it. An error
   * counts as an error of maintenance, because all events that are in the index are stored.
   */
  #writeIndex(): boolean {
    this.#work = 'maintenance'
    if ((this.#warehouse.writeIndex?.() ?? 0) > 0) this.#room.measureAnew()
    this.#work = 'events'
    const { indexBytesDue = 0 } = this.#warehouse
    if (indexBytesDue > 0) this.#room.wait(indexBytesDue)
    return indexBytesDue === 0
  }

  /** Adds events to the current transaction until it is large enough or reaches a limit. */
  #gather(eventsMin: number, onBlock?: () => void): void {
    const plan = this.#attempts?.plan(this.#placeInLog) ?? WHOLE
    this.#setAside = plan.setAside
    const eventsMax = plan.setAside === null ? plan.eventsMax : 1
    const uncommitted = this.#uncommitted
    this.#attempts?.begin(this.#placeInLog, Number.isFinite(eventsMax) ? eventsMax : 0)
    for (;;) {
      const isFirst = uncommitted.events === 0
      if (this.#open === null) {
        if (this.#gathered >= this.#last) return
        if (!isFirst && this.#isEnough(eventsMin)) return
        if (uncommitted.events >= eventsMax) return
        this.#openBlock(this.#gathered + 1)
      }
      const open = this.#open
      if (open === null) continue
      const expected = uncommitted.events + eventsOf(open.records) - open.done
      this.#attempts?.grow(Math.min(expected, eventsMax))
      if (!this.#addEvents(open, eventsMax)) return
      this.#closeBlock(open)
      onBlock?.()
    }
  }

  #commit(): void {
    const startedAt = performance.now()
    const { done } = this.#open ?? { done: 0 }
    const part = { done, dropped: done === 0 ? 0 : this.#place }
    this.#room.begin(this.#uncommitted.eventBytes)
    this.#store.commit(this.#gathered, this.#seen(this.#gathered), this.#origin, part)
    this.#room.end()
    this.#position = this.#gathered
    this.#origin = undefined
    if (this.#open !== null) this.#open.step = null
    this.#attempts?.succeeded()
    addOutcomes(this.#total, this.#uncommitted)
    this.#total.commitMs += performance.now() - startedAt
    this.#uncommitted = newOutcomes()
  }

  /** Erases events and merges segments while there is time. Returns true if it has found that no such work is left. */
  #maintain(deadline: number, isOneCommit: boolean): boolean {
    const isCaughtUp = this.#position >= this.#last
    // Remove old salts only when no block waits, because waiting blocks may need them.
    if (isCaughtUp) this.#salts.forget(SYSTEM_CLOCK.now())
    // A client may wait for the result of this call. In that case, the next call does the merging.
    const isAwaited = this.#total.commands.length > 0 || this.#store.changedDefinitions.size > 0
    const isTime = isOneCommit || this.#isWaiting || isCaughtUp
    if (isAwaited || this.#isDiskShort || !isTime) return false
    const isBusy = isOneCommit || this.#total.events > 0
    const maintainMs = isBusy ? MAINTAIN_MS_BUSY : deadline - performance.now()
    this.#store.note(this.#seen(this.#position))
    return !this.#warehouse.maintain(maintainMs, this.#isWaiting || !this.#room.mayMerge)
  }

  /**
   * Returns free pages of the data file to the file system. It does so when no merge or erasure is left that would use
   * the pages, or immediately if the disk is short of space. Returns true if more pages can be returned.
   */
  #releaseFreePages(isMaintained: boolean, deadline: number, isBusy: boolean): boolean {
    const isShort = this.#isDiskShort || this.#isWaiting
    return (isMaintained || isShort) && this.#store.releaseFreePages(deadline, isBusy)
  }

  /** Returns the kind of an error, and records the error so that the next attempt is smaller. */
  #failed(cause: unknown): ProcessFailure {
    this.#hasFailed = true
    const reason = reasonOf(cause)
    const attempts = this.#attempts
    // `isBeyondRepair` means that LMDB itself found the disk full. The content of its memory is then undefined.
    if (isBeyondRepair(cause)) return { kind: 'broken', reason }
    const shortage = isShortage(cause)
    if (shortage !== null) {
      if (this.#work === 'events') attempts?.withdraw()
      return { kind: 'shortage', shortage, reason }
    }
    if (this.#work === 'events') attempts?.threw(reason)
    return { kind: this.#work, reason }
  }

  /** True if there are persons to fold; see `fold`. */
  get mayFold(): boolean {
    return this.#store.mayFold
  }

  /** The sizes of the caches that processing uses. */
  get caches(): CachesOfThread {
    return this.#store.caches
  }

  /** Releases cached memory. Its content can be read again. */
  release(): void {
    this.#store.release()
  }

  /**
   * Folds some persons: adds their stored changes (*deltas*) to their records, so that later reads are faster. Call it
   * when there is nothing else to do. If there is nothing to fold, it counts properties instead. Returns 0 if there was
   * nothing to do at all.
   */
  fold(): number {
    return this.#store.fold()
  }

  /** Does the same as `fold`, but returns an error instead of throwing it. */
  attemptFold(): number | ProcessFailure {
    this.#work = 'maintenance'
    try {
      return this.fold()
    } catch (cause) {
      return this.#failed(cause)
    }
  }

  /**
   * Tells the event store which segments ClickHouse has a copy of, and which erasures were carried out there
   * (`giveAway` and `forgetCopies` of `WarehouseWriter`). Returns an error instead of throwing it.
   */
  tellOfCopies(
    segments: readonly CopiedSegment[],
    jobs: readonly ErasedJob[],
  ): ProcessFailure | undefined {
    if (segments.length === 0 && jobs.length === 0) return undefined
    this.#work = 'maintenance'
    try {
      this.#warehouse.giveAway?.(segments)
      this.#warehouse.forgetCopies?.(jobs)
      return undefined
    } catch (cause) {
      return this.#failed(cause)
    }
  }

  /**
   * Closes everything. First stores the last version of the environment `flags` that was seen, but not if something has
   * failed or the disk is short of space.
   */
  async close(): Promise<void> {
    if (!this.#isDiskShort && !this.#hasFailed) this.#store.note(this.#seen(this.#position))
    await this.#store.close()
    await this.#log.close()
    await this.#flags.close()
  }

  /** Returns the number of the newest block in the log. */
  #lastBlock(): number {
    this.#log.refresh()
    const extent = this.#log.extent()
    const { first, last } = extent ?? NO_EXTENT
    const { first: firstAtStart, last: lastAtStart } = this.#extentAtStart ?? NO_EXTENT
    if (first !== firstAtStart || last !== lastAtStart) this.#isLogFlushed = !this.#isFlushDeferred
    return extent?.last ?? this.#position
  }

  /**
   * Returns what is stored together with the position `sequence`: the number of the block up to which the log is surely
   * on disk, and the version of the environment `flags`.
   */
  #seen(sequence: number): Parameters<ProcessingWriter['note']>[0] {
    return {
      logThrough: this.#isLogFlushed ? sequence : 0,
      flagsVersion: this.#flags.readIfSound(),
    }
  }

  /** The position in the log after the last event that was added. */
  get #placeInLog(): LogPlace {
    return { position: this.#gathered, done: this.#open?.done ?? this.#storedPart }
  }

  /** The number of events of the next block that are already stored. Valid only while no block is open. */
  get #storedPart(): number {
    return this.#gathered === this.#store.readPosition() ? this.#store.part.done : 0
  }

  /**
   * Returns whether the current transaction should be committed. The best moment is when its last segment is full,
   * because a full segment needs no merge later.
   */
  #isEnough(eventsMin: number): boolean {
    const { bytes, events } = this.#uncommitted
    if (bytes >= this.#uncommittedBytesMax) return true
    if (events < eventsMin) return false
    return events >= Math.floor(this.#commitEvents * COMMIT_EXCESS) || this.#warehouse.isFull
  }

  /**
   * Opens a block at its first event that is not stored yet. A missing block is skipped. An unreadable block becomes a
   * dead letter, and is then treated as a block without events.
   */
  #openBlock(sequence: number): void {
    this.#block = sequence
    const { done, dropped } =
      sequence === this.#store.readPosition() + 1 ? this.#store.part : NO_PART
    this.#place = dropped
    const bytes = this.#log.block(sequence)
    // The log has no block with this number: it was removed after processing, or was never written.
    if (bytes === undefined) {
      this.#gathered = sequence
      return
    }
    this.#recognizer.beginBlock()
    let records: readonly LogRecord[]
    try {
      records = readBlock(bytes)
    } catch (cause) {
      this.#store.addDeadLetter({ projectId: 0, step: 'read', reason: reasonOf(cause), raw: bytes })
      records = []
    }
    this.#store.beginBlock(records.at(-1)?.arrivedAtMs)
    const open = { sequence, bytes: bytes.length, records, record: 0, index: 0, done, step: null }
    let left = done
    for (; left > 0 && left >= (records[open.record]?.eventCount ?? left + 1); open.record++) {
      left -= records[open.record]?.eventCount ?? 0
    }
    open.index = left
    this.#open = open
  }

  #closeBlock(open: OpenBlock): void {
    this.#store.endBlock()
    this.#uncommitted.bytes += open.bytes
    this.#gathered = open.sequence
    this.#open = null
    const origin = this.#log.origin?.(open.sequence)
    if (origin === undefined) return
    this.#origin = { ...origin, places: { ...this.#origin?.places, ...origin.places } }
  }

  /** Adds the events of a block. Returns false if the transaction reaches a limit before the end of the block. */
  #addEvents(open: OpenBlock, eventsMax: number): boolean {
    const uncommitted = this.#uncommitted
    let looked = 0
    for (let record = open.records[open.record]; record !== undefined; ) {
      for (; open.index < record.eventCount; open.index++) {
        if (uncommitted.events >= eventsMax) return false
        if (uncommitted.eventBytes >= this.#roomBytesMax) return false
        const bytes = eventBytes(record, open.index)
        const isToLook = ++looked >= LOOK_EVERY_EVENTS || bytes >= LARGE_EVENT_BYTES
        if (isToLook && uncommitted.events > 0) {
          looked = 0
          if (this.#store.gatheredBytes >= this.#gatheredBytesMax) return false
        }
        this.#addOne(open, record)
        open.done++
        uncommitted.events++
        uncommitted.eventBytes += bytes
      }
      open.record++
      open.index = 0
      open.step = null
      record = open.records[open.record]
    }
    return true
  }

  #addOne(open: OpenBlock, record: LogRecord): void {
    const reason = this.#setAside
    this.#setAside = null
    if (reason !== null) {
      this.#store.addDeadLetter(this.#letterOf(record, open.index, reason))
      if ((record.flags & RECORD_COMMAND) !== 0) {
        this.#uncommitted.commands.push({ uuid: uuidOf(record, open.index), result: null })
      } else this.#countDrop(this.#stepOf(record), 'dead_letter')
      return
    }
    if ((record.flags & RECORD_COMMAND) !== 0) this.#runCommand(record)
    else {
      open.step ??= this.#stepOf(record)
      this.#tryEvent(open.step, open.index)
    }
  }

  #letterOf(record: LogRecord, index: number, reason: string): DeadLetter {
    const start = eventStart(record, index)
    const raw = record.bytes.subarray(start, start + eventBytes(record, index))
    const { projectId } = record
    if ((record.flags & RECORD_COMMAND) !== 0) return { projectId, step: 'command', reason, raw }
    return { projectId, step: 'process', reason, raw, origin: originOf(record, index) }
  }

  #stepOf(record: LogRecord): RecordStep {
    const noFates = (): Fates => ({ stored: 0, drops: {} })
    const fates = getOrAdd(this.#uncommitted.fates, record.projectId, noFates)
    return recordStep(record, this.#eventLimits, fates)
  }

  /** Adds the events of a dead letter that is replayed. */
  #addRecord(record: LogRecord): void {
    const step = this.#stepOf(record)
    for (let index = 0; index < record.eventCount; index++) this.#tryEvent(step, index)
  }

  #tryEvent(step: RecordStep, index: number): void {
    try {
      this.#addEvent(step, index)
    } catch (cause) {
      // A shortage or a broken store is not the fault of the event, so the event does not become a dead letter.
      if (isShortage(cause) !== null || isBeyondRepair(cause)) throw cause
      if (cause instanceof DamagedRecordError) this.#onDamage(cause)
      this.#countDrop(step, 'dead_letter')
      this.#store.addDeadLetter(this.#letterOf(step.record, index, reasonOf(cause)))
    }
  }

  #addEvent(step: RecordStep, index: number): void {
    const { record, eventContext } = step
    const start = eventStart(record, index)
    const sentBytes = eventBytes(record, index)
    const recognizer = this.#canRecognize ? this.#recognizer : null
    const usual = recognizer?.recognize(record.bytes, start, sentBytes, eventContext) ?? null
    if (usual !== null) {
      this.#uncommitted.recognized++
      this.#storeEvent(step, index, usual, sentBytes, this.#recognizer.cells)
      return
    }
    const given = parseEvent(record.bytes, start, sentBytes)
    const enrichment = this.#enrichment
    // The IP address is read first, because normalization and the IDs of cookieless visitors remove it from the event.
    const address = enrichment?.addressOf(given, eventContext.ip)
    const normalized = normalizeEvent(given, eventContext, sentBytes)
    const isEnriched = enrichment !== null && normalized.kind === 'event'
    const length = sentBytes + (isEnriched ? enrichment.enrich(normalized.event, address) : 0)
    const outcome = this.#identify(normalized, record)
    if (outcome.warnings.length > 0) this.#warn(record, index, outcome.warnings)
    if (outcome.kind === 'drop') {
      this.#drop(record, index, given, outcome.reason)
      this.#countDrop(step, outcome.reason)
      return
    }
    this.#storeEvent(step, index, outcome.event, length, null)
  }

  /** Stores an event. `bytes` is the length of its JSON. If `cells` is null, the properties are in the event itself. */
  #storeEvent(
    step: RecordStep,
    index: number,
    event: NormalizedEvent,
    bytes: number,
    cells: EventCells | null,
  ): void {
    const { record, identity } = step
    identity.event = event
    identity.cells = cells
    identity.uuidOffset = eventUuidOffset(record, index)
    identity.hasClientUuid = hasClientUuid(record, index)
    // Duplicates are detected first, because a duplicate must not change a person.
    const admission = this.#store.admit(identity)
    if (admission === null) {
      this.#countDrop(step, 'duplicate')
      return
    }
    const persons = this.#store.persons(record.projectId, event, admission)
    const applied = applyEvent(event, bytes, persons, step.personContext)
    if (applied.warnings.length > 0) this.#warn(record, index, applied.warnings)
    if (applied.groupKeys.length > 0) {
      setGroupProperties(event.properties, applied.groupKeys, cells)
    }
    const { arrivedAtMs, isHistorical } = step.eventContext
    this.#store.append(identity, admission, arrivedAtMs, applied.personMode, isHistorical, bytes)
    step.fates.stored++
  }

  /** Records a dropped event, with the beginning of its JSON as it was sent. */
  #drop(record: LogRecord, index: number, given: JsonObject, reason: LossReason): void {
    const start = eventStart(record, index)
    const uuidOffset = eventUuidOffset(record, index)
    const properties = isObject(given['properties']) ? given['properties'] : {}
    const distinctId = eventDistinctId(given, properties)
    // The JSON may contain an IP address, which must not be stored for anonymized and cookieless events. The JSON of
    // these events is therefore left out.
    const isPrivate =
      (record.flags & RECORD_IP_ANONYMIZED) !== 0 ||
      distinctId === COOKIELESS_ID ||
      properties['$cookieless_mode'] === true
    this.#store.dropped.add({
      projectId: record.projectId,
      block: this.#block,
      place: this.#place++,
      arrivedAtMs: record.arrivedAtMs,
      reason,
      uuid: record.bytes.subarray(uuidOffset, uuidOffset + 16),
      event: eventName(given),
      distinctId,
      json: record.bytes.subarray(start, start + (isPrivate ? 0 : eventBytes(record, index))),
    })
  }

  #countDrop({ record, fates }: RecordStep, reason: DropReason): void {
    fates.drops[reason] = (fates.drops[reason] ?? 0) + 1
    this.#store.dropped.count(record.projectId, record.arrivedAtMs, reason)
  }

  /** Replaces the distinct_id of a cookieless event by the ID that is computed for its visitor. */
  #identify(outcome: EventOutcome, { projectId, address, arrivedAtMs }: LogRecord): EventOutcome {
    if (outcome.kind === 'drop' || !isCookieless(outcome.event)) return outcome
    const saltOf = (day: string): Uint8Array => this.#salts.saltOf(day)
    const visitor = withVisitor(outcome.event, { projectId, address, arrivedAtMs, saltOf })
    return { ...visitor, warnings: [...outcome.warnings, ...visitor.warnings] }
  }

  #warn(record: LogRecord, index: number, warnings: readonly IngestionWarning[]): void {
    const uuid = formatUuid(record.bytes, eventUuidOffset(record, index))
    for (const { type, details } of warnings) {
      const warning = { type, details: { uuid, ...details } }
      this.#store.addWarning(record.projectId, record.arrivedAtMs, warning)
    }
  }

  /**
   * Runs a command of a client. If the command throws an error, the command becomes a dead letter and the client gets
   * an error.
   */
  #runCommand(record: LogRecord): void {
    const start = eventStart(record, 0)
    const bytes = record.bytes.subarray(start, start + eventBytes(record, 0))
    const uuidOffset = eventUuidOffset(record, 0)
    const uuid = formatUuid(record.bytes, uuidOffset)
    try {
      const command = readCommand(bytes)
      if (isAboutDeadLetters(command)) {
        const letters = runDeadLetterCommand(this.#store.deadLetters, command.command, (held) =>
          this.#addRecord(held),
        )
        this.#uncommitted.commands.push({ uuid, result: { kind: 'done', letters } })
        return
      }
      const uuidBytes = record.bytes.subarray(uuidOffset, uuidOffset + 16)
      const result = this.#commands.run(record.projectId, command, uuidBytes)
      this.#store.noteErasures(record.projectId)
      this.#uncommitted.commands.push({ uuid, result })
    } catch (cause) {
      if (isShortage(cause) !== null || isBeyondRepair(cause)) throw cause
      if (cause instanceof DamagedRecordError) this.#onDamage(cause)
      this.#store.addDeadLetter(this.#letterOf(record, 0, reasonOf(cause)))
      this.#uncommitted.commands.push({ uuid, result: null })
    }
  }

  #takeChangedDefinitions(): readonly number[] {
    const projects = [...this.#store.changedDefinitions]
    this.#store.changedDefinitions.clear()
    return projects
  }
}

function newOutcomes(): Outcomes {
  return {
    events: 0,
    bytes: 0,
    eventBytes: 0,
    recognized: 0,
    commitMs: 0,
    fates: new Map(),
    commands: [],
  }
}

/** Adds the results of a committed transaction to the results of the processing run. */
function addOutcomes(total: Outcomes, stored: Outcomes): void {
  total.events += stored.events
  total.recognized += stored.recognized
  for (const command of stored.commands) total.commands.push(command)
  for (const [projectId, { stored: count, drops }] of stored.fates) {
    const fates = getOrAdd(total.fates, projectId, (): Fates => ({ stored: 0, drops: {} }))
    fates.stored += count
    // The cast is safe, because only drop reasons are keys of `drops`.
    for (const reason of Object.keys(drops) as DropReason[]) {
      fates.drops[reason] = (fates.drops[reason] ?? 0) + (drops[reason] ?? 0)
    }
  }
}

/** Returns the size of the unprocessed rest of a block. */
function leftOf(open: OpenBlock | null): { readonly bytes: number; readonly events: number } {
  if (open === null) return { bytes: 0, events: 0 }
  const count = eventsOf(open.records)
  const events = count - open.done
  return { bytes: count === 0 ? open.bytes : (open.bytes * events) / count, events }
}

function eventsOf(records: readonly LogRecord[]): number {
  return records.reduce((sum, { eventCount }) => sum + eventCount, 0)
}

function uuidOf(record: LogRecord, index: number): string {
  return formatUuid(record.bytes, eventUuidOffset(record, index))
}
