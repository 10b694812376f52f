/**
 * Runs the processing thread while the log contains unprocessed blocks, and measures how far behind processing is. It
 * pauses briefly between processing runs, so that a quiet server stores one segment for several requests instead of one
 * for each. While the main thread is busy, or many events keep arriving, it pauses longer and then makes one large
 * commit. If processing is too far behind, new events are refused (admission.ts).
 *
 * If processing fails, it is tried again. The processing thread records failed attempts and makes the next one smaller
 * (engine/processor/processing-attempts.ts). Until an attempt succeeds, the log keeps all events, and `/_health` is
 * degraded.
 */
import type { Clock } from '../../base/clock.ts'
import type { LiveWatch } from '../../rules/events/live-events.ts'
import { isShortage, type Shortage } from '../../store/faults.ts'
import type { WorkerPool } from '../threads/pool.ts'
import type { ProcessResult, ProcessTask } from '../threads/tasks.ts'
import { ThreadEndedError } from '../threads/thread-group.ts'
import { type DiskReserve, NOTHING_ACCEPTED } from './disk-reserve.ts'
import type { FrontLoad } from './front-load.ts'
import {
  CATCH_UP_MS_MAX,
  GATHER_EVENTS_MAX,
  PROCESSING_RETRY_MS_MAX,
  SHORTAGE_RETRY_MS_MAX,
  YIELD_EVENTS_MAX,
  YIELD_MS_MAX,
} from './limits.ts'

/**
 * The longest time for which the processing thread works before it reports its progress to the main thread, in
 * milliseconds.
 */
const TASK_BUDGET_MS = 500
/**
 * The pause before a processing run if few events wait, in milliseconds. An event becomes visible after about this
 * time.
 */
const GATHER_MS = 200
/**
 * The interval at which processing checks whether it can start, in milliseconds, while it waits because the main thread
 * is busy or because more events are expected.
 */
const YIELD_LOOK_MS = 50
/**
 * If at least `STEADY_EVENTS_MIN` events wait and more keep arriving, processing waits for a larger commit. It does not
 * wait if `STEADY_EVENTS_ENOUGH` events wait, because a larger commit would hardly be cheaper per event.
 */
const STEADY_EVENTS_MIN = 500
const STEADY_EVENTS_ENOUGH = 8192
/**
 * If nothing was processed for this time, in milliseconds, some persons are folded: the changes that are stored beside
 * their records are added to the records, which makes reading them faster.
 */
const FOLD_QUIET_MS = 2000
/** The pause before the first retry, in milliseconds. It doubles with each further failure. */
const RETRY_MS_FIRST = 10
/** While the disk has no space, processing checks again after this pause, in milliseconds. */
const EXHAUSTED_MS = 250
/**
 * While the disk has no space, processing nevertheless runs this often, in milliseconds. No event is processed, but
 * events are erased, which frees pages for the events that wait.
 */
const EXHAUSTED_RUN_MS = 5000
/**
 * While the main thread is busy, a commit may leave up to this number of events (half a segment) in the log. It can
 * thus end where a segment is full. A small segment would have to be merged later.
 */
const LEFT_EVENTS = 4096
/**
 * The speed of processing is measured in runs that process at least this many bytes. A smaller run is used only if it
 * was faster than the measured speed. If at least this many bytes wait, the lag is estimated from the speed.
 */
const RATE_BYTES_MIN = 1024 * 1024
/**
 * The speed is not measured for the first bytes after the start, up to this number. Until V8 has compiled the code,
 * processing takes several times as long.
 */
const COLD_BYTES = 16 * RATE_BYTES_MIN
/**
 * If the lag exceeds `LATE_MS` milliseconds, or `LATE_PART` of the largest allowed lag if that is less, the processing
 * thread gets the same CPU priority as the main thread. The waits of processing (`YIELD_MS_MAX`) are too short to cause
 * a lag of `LATE_MS`.
 */
const LATE_MS = 2000
const LATE_PART = 0.75
/**
 * Events that were refused because of the lag are accepted again when the lag has fallen to this share of its limit.
 */
export const LAG_RESUMED_PART = 0.5
/** Commits that arrive within this time, in milliseconds, share one entry of the backlog. */
const ENTRY_SPAN_MS = 20

/** The dependencies of a processing loop. */
export interface ProcessingLoopOptions {
  readonly pool: Pick<WorkerPool, 'run'>
  readonly clock: Clock
  /** Decides what processing may write: everything, only erasures, or nothing. */
  readonly disk: Pick<DiskReserve, 'isBelowFloor' | 'isExhausted'>
  readonly front: Pick<FrontLoad, 'isBusy'>
  /** The lag in milliseconds above which `isBehind` is true. */
  readonly lagMsMax: number
  /** Called before each processing run. Returns the events that live streams want. */
  readonly watches?: () => readonly LiveWatch[]
  /**
   * Called before each processing run. Returns the segments that were copied to ClickHouse since the last call, and the
   * erasures that were carried out there.
   */
  readonly copyNews?: () => Pick<ProcessTask, 'copied' | 'erasedCopies'>
  readonly onResult: (result: ProcessResult) => void
  /** Called if processing has failed and will be tried again. */
  readonly onTrouble?: (trouble: ProcessingTrouble) => void
  /**
   * Called if processing cannot continue: a commit failed, so that it is unknown which data is on disk, or the
   * processing thread cannot be replaced.
   */
  readonly onFailure: (cause: unknown) => void
}

/**
 * The kinds of failure after which processing is tried again. After `thread_ended`, the processing thread itself has
 * ended. The other kinds are those of `ProcessFailure`, but without `broken`.
 */
export const PROCESSING_TROUBLES = ['events', 'maintenance', 'shortage', 'thread_ended'] as const

/** A failure after which processing is tried again. */
export interface ProcessingTrouble {
  readonly kind: (typeof PROCESSING_TROUBLES)[number]
  readonly reason: string
  /** The number of failures since the last success. */
  readonly failures: number
}

/**
 * The sentences for `/_health`. Anybody can read them without a key, so they contain nothing that clients have sent.
 */
const SENTENCES: Readonly<Record<ProcessingTrouble['kind'] | Shortage, string>> = {
  events:
    'Processing fails. Smaller batches are tried, and an event that fails on its own becomes a dead letter.',
  maintenance:
    'A maintenance step of the store failed and is paused. The log of the daemon has the reason.',
  thread_ended:
    'The processing thread ended during its work. Smaller batches are tried, and an event that ends the thread on its own becomes a dead letter.',
  shortage: 'Processing waits until the machine has free resources again.',
  disk: 'Processing waits because the disk is full. Free some space.',
  files:
    'Processing waits because the process cannot open more files. Raise its limit (`ulimit -n`).',
  io: 'Processing waits because the disk does not answer reads. Check the disk.',
}

const NOTHING: ProcessResult = {
  processed: 0,
  last: 0,
  eventCount: 0,
  recognizedCount: 0,
  elapsedMs: 0,
  commitMs: 0,
  fates: [],
  commands: [],
  changedDefinitions: [],
  erased: [],
  isIdle: true,
  pausedSteps: [],
}

/** Replaces the worker pool on a machine that stores no events. */
export const NO_PROCESSING = { run: async (): Promise<never> => NOTHING as never }

interface Waiting {
  last: number
  bytes: number
  events: number
  readonly arrivedAtMs: number
}

/** Decides when the processing thread runs. */
export class ProcessingLoop {
  readonly #options: ProcessingLoopOptions
  /** The committed blocks that are not processed yet, oldest first. */
  #backlog: Waiting[] = []
  #backlogBytes = 0
  #backlogEvents = 0
  /** The number of events that an earlier process left in the log and that are not processed yet. */
  #eventsFromBefore = 0
  /** The number of bytes that were processed since the start. */
  #processedBytes = 0
  /** How many milliseconds processing takes for a byte of the log. 0 until it was measured. */
  #msPerByte = 0
  #isBehind = false
  #isRunning = false
  /** The time at which the last commit was on disk, in monotonic milliseconds. */
  #committedAtMs = 0
  /**
   * The time at which processing began to wait for the main thread or for more events, in monotonic milliseconds.
   * Undefined if it does not wait.
   */
  #yieldingSinceMs: number | undefined
  /** The time at which processing began to run last, in monotonic milliseconds. */
  #ranAtMs = 0
  /** True while the disk has no space for processing. The log keeps the unprocessed blocks. */
  #isPaused = false
  #isStopped = false
  #isHurried = false
  #timer: NodeJS.Timeout | undefined
  #foldTimer: NodeJS.Timeout | undefined
  #idleCallbacks: (() => void)[] = []
  /**
   * True if all blocks that were in the log at the start are processed. Undefined until the first result shows which
   * blocks these are.
   */
  #isCaughtUp: boolean | undefined
  #startedAtMs = 0
  /** The number of failures since the last success. `#sentence` is the sentence for the last failure. */
  #failures = 0
  #sentence = ''
  #pausedSteps: readonly string[] = []
  #lastAtStart = 0
  #catchUpCallbacks: (() => void)[] = []

  constructor(options: ProcessingLoopOptions) {
    this.#options = options
  }

  /** The number of bytes in the log that are not processed. Only commits since the start are counted. */
  get backlogBytes(): number {
    return this.#backlogBytes
  }

  /** The number of events in the log that are not processed, including those that an earlier process accepted. */
  get waitingEvents(): number {
    return this.#backlogEvents + this.#eventsFromBefore
  }

  /**
   * The age of the oldest event that is not processed, in milliseconds. 0 if there is none. Only commits since the start
   * are considered.
   */
  get oldestAgeMs(): number {
    const oldest = this.#backlog[0]
    return oldest === undefined ? 0 : this.#options.clock.monotonic() - oldest.arrivedAtMs
  }

  /**
   * The age of the oldest event that is not processed, in milliseconds. Unlike `oldestAgeMs`, it also considers events
   * that an earlier process accepted. For these, it is the time since the start of processing.
   */
  get waitingAgeMs(): number {
    if (this.#eventsFromBefore === 0) return this.oldestAgeMs
    return this.#options.clock.monotonic() - this.#startedAtMs
  }

  /** The estimated time until an event that is accepted now can be read, in milliseconds. */
  get lagMs(): number {
    const isEstimated = this.#backlogBytes >= RATE_BYTES_MIN
    return Math.max(this.oldestAgeMs, isEstimated ? this.#backlogBytes * this.#msPerByte : 0)
  }

  /**
   * True from the moment at which the lag exceeds its limit until it has fallen to half of the limit. It stays false
   * until the blocks that an earlier process left in the log are processed.
   */
  get isBehind(): boolean {
    return this.#isBehind
  }

  /** The sentences for `/_health`. The list is empty if processing works. */
  get troubles(): readonly string[] {
    const steps = this.#pausedSteps
    const paused =
      steps.length === 0
        ? []
        : [`Maintenance steps of the store failed and are paused: ${steps.join(', ')}.`]
    return this.#failures === 0 ? paused : [this.#sentence, ...paused]
  }

  /**
   * Starts processing, beginning with the blocks that an earlier process left in the log. `eventsFromBefore` is the
   * number of events in these blocks.
   */
  start(eventsFromBefore = 0): void {
    this.#eventsFromBefore = eventsFromBefore
    this.#startedAtMs = this.#options.clock.monotonic()
    this.#schedule(0)
  }

  /**
   * True if everything that was accepted before the start is processed and can be read. Also true half a minute after
   * the start, and while the disk has no space: the daemon then reports that it is ready, because waiting longer would
   * not help.
   */
  get isCaughtUp(): boolean {
    if (this.#isCaughtUp === true || this.#isPaused) return true
    return this.#options.clock.monotonic() - this.#startedAtMs > CATCH_UP_MS_MAX
  }

  /** Resolves when all blocks that were in the log at the start are processed, or after `timeoutMs`. */
  async caughtUp(timeoutMs: number): Promise<void> {
    if (this.#isCaughtUp === true) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs)
      this.#catchUpCallbacks.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  /** Records a commit that is on disk. `last` is the number of its last block. */
  committed(last: number, bytes: number, events: number): void {
    const now = this.#options.clock.monotonic()
    this.#committedAtMs = now
    const newest = this.#backlog.at(-1)
    if (newest !== undefined && now - newest.arrivedAtMs < ENTRY_SPAN_MS) {
      newest.last = last
      newest.bytes += bytes
      newest.events += events
    } else {
      this.#backlog.push({ last, bytes, events, arrivedAtMs: now })
    }
    this.#backlogBytes += bytes
    this.#backlogEvents += events
    this.#noteLag()
    const eventsMax = this.#yieldingSinceMs === undefined ? GATHER_EVENTS_MAX : YIELD_EVENTS_MAX
    this.#schedule(this.#backlogEvents > eventsMax ? 0 : GATHER_MS)
  }

  /** Starts the next processing run at once, because a caller waits for blocks in the log. */
  hurry(): void {
    this.#isHurried = true
    this.#schedule(0)
  }

  /** Schedules a processing run, because there is work that does not come from the log. */
  look(): void {
    this.#schedule(GATHER_MS)
  }

  /** Resolves when everything is processed, or after `timeoutMs`. Unprocessed blocks stay in the log. */
  async finish(timeoutMs: number): Promise<void> {
    if (this.#backlog.length > 0 || this.#isRunning || this.#isCaughtUp !== true) {
      this.hurry()
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs)
        this.#idleCallbacks.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    }
    this.abandon()
    while (this.#isRunning) await new Promise((resolve) => setTimeout(resolve, 5))
  }

  /** Stops without waiting for the events that are not processed yet. They stay in the log. */
  abandon(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    clearTimeout(this.#foldTimer)
  }

  #schedule(delayMs: number): void {
    if (this.#isRunning || this.#isStopped) return
    if (this.#timer !== undefined) {
      if (delayMs > 0) return
      clearTimeout(this.#timer)
    }
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#isYielding()) this.#schedule(YIELD_LOOK_MS)
      else void this.#run()
    }, delayMs)
  }

  /**
   * Returns whether processing should wait, to leave the CPU cores to the main thread or to collect more events for one
   * commit.
   */
  #isYielding(): boolean {
    const now = this.#options.clock.monotonic()
    const events = this.#backlogEvents
    const isSteady =
      now - this.#committedAtMs < YIELD_LOOK_MS &&
      events >= STEADY_EVENTS_MIN &&
      events < STEADY_EVENTS_ENOUGH
    if (this.#isUrgent || !(isSteady || this.#options.front.isBusy)) return false
    this.#yieldingSinceMs ??= now
    const waitedMs = Math.max(this.oldestAgeMs, now - this.#yieldingSinceMs)
    // The wait is limited to half of the largest allowed lag, so that waiting alone does not cause refusals.
    const waitMsMax = Math.min(YIELD_MS_MAX, this.#options.lagMsMax / 2)
    return waitedMs < waitMsMax && events <= YIELD_EVENTS_MAX
  }

  /**
   * True if processing must not wait: because a client waits for a change, because the daemon is about to end, or
   * because blocks of an earlier process are left.
   */
  get #isUrgent(): boolean {
    return this.#isHurried || this.#idleCallbacks.length > 0 || this.#isCaughtUp !== true
  }

  /**
   * Returns how many events the next processing run must commit at least. While the main thread is busy, a run makes
   * one commit, and may leave the last events in the log if they would not fill a segment.
   */
  #commitSize(): Pick<ProcessTask, 'commitEventsMin'> {
    if (this.#isUrgent || !this.#options.front.isBusy) return {}
    const events = this.#backlogEvents
    return { commitEventsMin: events > 2 * LEFT_EVENTS ? events - LEFT_EVENTS : events }
  }

  /**
   * Resolves the promises of `caughtUp` and `finish`, because the disk has no space and nothing is processed for a
   * while. Then schedules the next check of the disk.
   */
  #pause(): void {
    for (const callback of this.#catchUpCallbacks.splice(0)) callback()
    for (const callback of this.#idleCallbacks.splice(0)) callback()
    this.#schedule(EXHAUSTED_MS)
  }

  async #run(isQuiet = false): Promise<void> {
    const { disk, clock } = this.#options
    clearTimeout(this.#foldTimer)
    this.#isPaused = disk.isExhausted
    const nowMs = clock.monotonic()
    if (this.#isPaused && nowMs - this.#ranAtMs < EXHAUSTED_RUN_MS) {
      this.#pause()
      return
    }
    this.#ranAtMs = nowMs
    const task = {
      budgetMs: TASK_BUDGET_MS,
      isDiskShort: disk.isBelowFloor(NOTHING_ACCEPTED),
      lateInMs: Math.min(LATE_MS, this.#options.lagMsMax * LATE_PART) - this.lagMs,
      watches: this.#options.watches?.() ?? [],
      ...this.#options.copyNews?.(),
      isQuiet,
      ...this.#commitSize(),
    }
    this.#isRunning = true
    this.#isHurried = false
    this.#yieldingSinceMs = undefined
    let result: ProcessResult
    try {
      result = await this.#options.pool.run('process', [task])
    } catch (cause) {
      this.#isRunning = false
      if (cause instanceof ThreadEndedError && !cause.wasWriting) {
        const shortage = isShortage(cause.cause) ?? undefined
        this.#retry({ kind: 'thread_ended', reason: messageOf(cause.cause) }, shortage)
        return
      }
      this.#giveUp(cause)
      return
    }
    this.#isRunning = false
    this.#noteCatchUp(result)
    this.#forget(result)
    this.#noteLag()
    this.#pausedSteps = result.pausedSteps
    this.#options.onResult(result)
    const { failure } = result
    if (result.eventCount > 0 || failure === undefined) this.#failures = 0
    if (failure !== undefined) {
      const { kind, reason, shortage } = failure
      if (kind === 'broken') this.#giveUp(new Error(reason))
      else this.#retry({ kind, reason }, shortage)
      return
    }
    if (this.#backlog.length > 0 || this.#isCaughtUp !== true) {
      const isFull = this.#backlogEvents > GATHER_EVENTS_MAX
      this.#schedule(this.#isUrgent || isFull ? 0 : GATHER_MS)
      return
    }
    for (const callback of this.#idleCallbacks.splice(0)) callback()
    if (!result.isIdle) this.#schedule(GATHER_MS)
    else if (result.mayFold === true) this.#foldLater(result.folded ? GATHER_MS : FOLD_QUIET_MS)
  }

  /** Tries again after a pause that grows with each failure. */
  #retry(failure: Pick<ProcessingTrouble, 'kind' | 'reason'>, shortage?: Shortage): void {
    const { kind, reason } = failure
    this.#failures++
    this.#sentence = SENTENCES[shortage ?? kind]
    this.#options.onTrouble?.({ kind, reason, failures: this.#failures })
    // The pauses stay short after a shortage. It can end at any moment, and a failed attempt costs little.
    const delayMsMax = shortage === undefined ? PROCESSING_RETRY_MS_MAX : SHORTAGE_RETRY_MS_MAX
    const delayMs = Math.min(delayMsMax, RETRY_MS_FIRST * 2 ** Math.min(this.#failures, 16))
    // During a short pause, callers of `caughtUp` and `finish` continue to wait. Before a long pause, their promises
    // are resolved, although not everything is processed.
    if (delayMs >= EXHAUSTED_MS) {
      for (const callback of this.#catchUpCallbacks.splice(0)) callback()
      for (const callback of this.#idleCallbacks.splice(0)) callback()
    }
    this.#schedule(delayMs)
  }

  #giveUp(cause: unknown): void {
    this.#isStopped = true
    for (const callback of this.#catchUpCallbacks.splice(0)) callback()
    this.#options.onFailure(cause)
  }

  /**
   * Folds some persons (see `FOLD_QUIET_MS`) when nothing was processed for some time. Every processing run restarts
   * that time.
   */
  #foldLater(delayMs: number): void {
    if (this.#isStopped) return
    this.#foldTimer = setTimeout(() => {
      if (this.#isRunning || this.#timer !== undefined) return
      if (this.#options.front.isBusy) this.#foldLater(FOLD_QUIET_MS)
      else void this.#run(true)
    }, delayMs)
  }

  #noteCatchUp({ processed, last, eventCount }: ProcessResult): void {
    if (this.#isCaughtUp === true) return
    if (this.#isCaughtUp === undefined) this.#lastAtStart = last
    this.#isCaughtUp = processed >= this.#lastAtStart
    // Blocks are processed in order, so these events are from before.
    this.#eventsFromBefore = Math.max(0, this.#eventsFromBefore - eventCount)
    if (!this.#isCaughtUp) return
    this.#eventsFromBefore = 0
    for (const callback of this.#catchUpCallbacks.splice(0)) callback()
  }

  #forget({ processed, elapsedMs }: ProcessResult): void {
    const bytesBefore = this.#backlogBytes
    let index = 0
    for (const entry of this.#backlog) {
      if (entry.last > processed) break
      this.#backlogBytes -= entry.bytes
      this.#backlogEvents -= entry.events
      index++
    }
    this.#backlog.splice(0, index)
    const bytes = bytesBefore - this.#backlogBytes
    const isCold = this.#processedBytes < COLD_BYTES
    this.#processedBytes += bytes
    if (bytes === 0 || isCold) return
    const msPerByte = elapsedMs / bytes
    // If few bytes were processed, most of the time may have been spent on other work. Such a run may lower the
    // estimate of the time per byte, but not raise it.
    if (bytes < RATE_BYTES_MIN && msPerByte >= this.#msPerByte) return
    this.#msPerByte = ((this.#msPerByte || msPerByte) + msPerByte) / 2
  }

  #noteLag(): void {
    const { lagMsMax } = this.#options
    const limitMs = this.#isBehind ? lagMsMax * LAG_RESUMED_PART : lagMsMax
    this.#isBehind = this.#isCaughtUp === true && this.lagMs > limitMs
  }
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}
