/**
 * Threads of one kind, and what follows when one of them ends although nobody asked it to: a throw
 * outside of its task, no memory left, an exit. Its task is refused, another thread takes its place, and
 * whoever runs the daemon hears of it.
 *
 * One end is beyond repair: within a write transaction. LMDB keeps its lock for the rest of the process,
 * and every later write would wait for it without end. The threads count their transactions in shared
 * memory, so that this is seen; then the process has to end.
 */
import { setFlagsFromString } from 'node:v8'
import { Piscina } from 'piscina'
import { ServiceError } from '../../base/errors.ts'
import {
  memoryBoard,
  readBoard,
  shortageCount,
  type ThreadMemory,
} from '../../base/memory/memory-board.ts'
import { openFilesLeft } from '../../base/process-limits.ts'
import { refusal } from '../../base/refusals.ts'
import type { Decided, Proposal } from '../../ports/change-log.ts'
import { ALL_WRITES, CHANGING_WRITES, isShortage } from '../../store/faults.ts'
import type { Answered, Refused, Task } from './call-kinds.ts'
import { REPLACEMENT_MS_MAX, THREAD_FILES_MIN, TRANSACTION_MS_MAX } from './limits.ts'
import type { ThreadKind, ThreadSettings } from './tasks.ts'

const THREAD_ENTRY = new URL('../../thread.js', import.meta.url)
const LOOK_EVERY_MS = 10
/** The pause before a group begins anew whose last thread has ended. */
const RESTART_PAUSE_MS = 500
/**
 * A transaction that is open this long is that of a thread which hangs in its own end. The largest take a
 * second; a busy machine and a slow disk make minutes of it.
 */
const STUCK_MS_MIN = 180_000
const STUCK_LOOK_EVERY_MS = 5000

/** A thread that has ended unexpectedly. */
export interface ThreadDeath {
  readonly threads: ThreadKind
  /** What it ended of, as far as anybody knows. */
  readonly cause: unknown
  /** False: it cannot be replaced, and the process must end. */
  readonly isReplaced: boolean
}

/** The thread that ran a task has ended: whether the task was carried out is not known. */
export class ThreadEndedError extends Error {
  override readonly name = 'ThreadEndedError'
  /** It was within a write transaction: nothing may be written by this process any more. */
  readonly wasWriting: boolean

  constructor(wasWriting: boolean, cause: unknown) {
    super('the thread ended', { cause })
    this.wasWriting = wasWriting
  }
}

/** How a group is made. */
export interface ThreadGroupOptions {
  readonly kind: ThreadKind
  readonly settings: ThreadSettings
  /** The file that every thread runs; default thread.ts. */
  readonly entry?: URL | undefined
  readonly threadsMax: number
  /** Threads that are there without being asked for. */
  readonly threadsMin: number
  readonly pool: NonNullable<ConstructorParameters<typeof Piscina>[0]>
  /** What a thread may hold of old objects and of memory outside of its heap before V8 goes through it, MiB. */
  readonly oldMib?: number
  readonly onDeath: (death: ThreadDeath) => void
}

/** What a call has decided and not written (ports/change-log.ts). */
export class Proposed implements Decided<unknown> {
  readonly result: unknown
  readonly proposal: Proposal

  constructor(result: unknown, proposal: Proposal) {
    this.result = result
    this.proposal = proposal
  }
}

/** Threads that run one task each at a time. */
export class ThreadGroup {
  readonly #kind: ThreadKind
  #threads: Piscina
  readonly #options: Omit<ThreadGroupOptions, 'settings'>
  /** What threads are told that start from now on. */
  #settings: ThreadSettings
  readonly #threadsMin: number
  readonly #oldMib: number
  readonly #onDeath: (death: ThreadDeath) => void
  /** The write transactions of the threads, as `countWrites` counts them. */
  readonly #writes = new Int32Array(new SharedArrayBuffer(4 * Int32Array.BYTES_PER_ELEMENT))
  /** What the threads take. One that is replaced may tell something before the place of the last is free. */
  readonly #board: ReturnType<typeof memoryBoard>
  readonly #stuckTimer: NodeJS.Timeout
  #stuckMs = 0
  #writesSeen = 0
  #deaths = 0
  #cause: unknown
  /** Why pools were given up, for the tasks that waited in them. */
  readonly #givenUpFor = new WeakMap<Piscina, unknown>()
  #isClosing = false
  #running = 0
  #usedAtMs = 0
  #ending: Promise<void> = Promise.resolve()

  constructor(options: ThreadGroupOptions) {
    const { kind, threadsMax, threadsMin, onDeath } = options
    this.#kind = kind
    this.#threadsMin = threadsMin
    this.#oldMib = options.oldMib ?? 0
    this.#onDeath = onDeath
    this.#board = memoryBoard(2 * threadsMax, options.settings.shortages ?? shortageCount())
    const { settings, ...others } = options
    this.#options = others
    this.#settings = settings
    this.#threads = this.#open()
    this.#stuckTimer = setInterval(() => this.#lookForStuck(), STUCK_LOOK_EVERY_MS).unref()
  }

  #open(): Piscina {
    const { kind, entry = THREAD_ENTRY, threadsMax, threadsMin, pool } = this.#options
    const told = { kind, openWrites: this.#writes, memory: this.#board }
    const workerData: ThreadSettings = { ...this.#settings, ...told }
    const threads = new Piscina({
      ...pool,
      filename: entry.href,
      workerData,
      minThreads: threadsMin,
      maxThreads: threadsMax,
      concurrentTasksPerWorker: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      recordTiming: false,
    })
    threads.on('workerDestroy', () => {
      // Threads of an older pool were ended on purpose, because they were idle.
      if (threads === this.#threads) this.#died()
    })
    // The end of a thread that had no task.
    threads.on('error', (cause: unknown) => {
      this.#cause = cause
    })
    return threads
  }

  /** For how long its threads have had nothing to do, milliseconds; 0: they have, or there are none. */
  get idleMs(): number {
    const isIdle = this.#running === 0 && this.#threads.threads.length > 0
    return isIdle ? performance.now() - this.#usedAtMs : 0
  }

  /**
   * Ends the threads of a group that starts without any, which have nothing to do: the next task starts new ones,
   * which are told `settings`. All memory that they took is free then.
   */
  async end(settings: ThreadSettings = this.#settings): Promise<void> {
    const ended = this.#threads
    this.#settings = settings
    this.#threads = this.#open()
    this.#ending = endThreads(ended)
    await this.#ending
  }

  /** Whether it has a thread, or the process can open the files that a thread begins with. */
  get mayStart(): boolean {
    if (this.#threadsMin > 0 || this.#threads.threads.length > 0) return true
    return openFilesLeft() >= THREAD_FILES_MIN
  }

  /** Tasks that wait for a thread. */
  get queueSize(): number {
    return this.#threads.queueSize
  }

  /**
   * Runs a task; what it would change of a shared catalogue comes as `Proposed`. Rejects with the `ServiceError` that it was refused with, with `ThreadEndedError` when its
   * thread has ended, and with what it threw.
   */
  async run(task: Task, transferList: readonly ArrayBuffer[] = []): Promise<unknown> {
    const threads = this.#threads
    const deaths = this.#deaths
    let answer: unknown
    const isFirst = threads.threads.length === 0
    if (isFirst && !this.mayStart) throw refusal('files_full')
    const isStarting = this.#oldMib > 0 && isFirst
    // V8 reads it when a heap begins, for which there is no other way to say it.
    if (isStarting) setFlagsFromString(`--initial-old-space-size=${this.#oldMib}`)
    this.#running++
    try {
      answer = await threads.run(task, { transferList: [...transferList] })
    } catch (error) {
      if (this.#deaths === deaths) throw error
      const cause = this.#givenUpFor.get(threads) ?? error
      this.#cause = cause
      throw new ThreadEndedError(this.#isWriting, cause)
    } finally {
      this.#running--
      this.#usedAtMs = performance.now()
      if (isStarting) setFlagsFromString('--initial-old-space-size=0')
    }
    // As run-task.ts gives it: a failure that is the client's to know comes as a value.
    const given = answer as Answered | Refused
    if ('refusal' in given) {
      throw ServiceError.fromBody(given.refusal, given.retryAfterSeconds)
    }
    const { result, proposal } = given
    return proposal === undefined ? result : new Proposed(result, proposal)
  }

  /** As `run`, for somebody who waits for an answer: the end of the thread is a refusal with 503. */
  async ask(task: Task, transferList: readonly ArrayBuffer[] = []): Promise<unknown> {
    try {
      return await this.run(task, transferList)
    } catch (cause) {
      if (!(cause instanceof ThreadEndedError)) throw cause
      throw refusal('thread_ended', { cause })
    }
  }

  /** Lets every thread close its stores, then ends them. Call when no task is running any more. */
  async close(): Promise<void> {
    await Promise.all(this.#threads.threads.map(() => this.run({ call: 'close', values: [] })))
    this.#isClosing = true
    clearInterval(this.#stuckTimer)
    await Promise.all([this.#threads.destroy(), this.#ending])
  }

  /** The memory of each thread that has started, as it told it last. */
  get memory(): readonly ThreadMemory[] {
    return readBoard(this.#board, new Set(this.#threads.threads.map(({ threadId }) => threadId)))
  }

  /** How many transactions that change what is read its threads have begun; null while one is open. */
  get writesBegun(): number | null {
    // In this order: one that is counted here and still open is seen below.
    const begun = Atomics.load(this.#writes, CHANGING_WRITES + 1)
    return Atomics.load(this.#writes, CHANGING_WRITES) > 0 ? null : begun
  }

  get #isWriting(): boolean {
    return Atomics.load(this.#writes, ALL_WRITES) > 0
  }

  #died(): void {
    if (this.#isClosing) return
    this.#deaths++
    this.#cause = undefined
    // The task that it ran is told in this turn, and with it the cause.
    setImmediate(() => void this.#report(this.#cause))
  }

  async #report(cause: unknown): Promise<void> {
    const isReplaced = !(await this.#hasLeftWrite())
    if (this.#isClosing) return
    this.#onDeath({ threads: this.#kind, cause, isReplaced })
    if (isReplaced) this.#awaitReplacement(cause)
  }

  /**
   * Looks whether the group has a thread again after one has ended. Piscina starts no other thread once a thread has ended
   * while it loaded its code, and tasks that wait for a thread would wait for good. If the process could not open the files
   * of the code, the group begins anew until the shortage is over. For any other cause the process must end, unless
   * the group needs no thread to be there.
   */
  #awaitReplacement(cause: unknown): void {
    const isRestarted = this.#threadsMin === 0 || isShortage(cause) === 'files'
    const look = (): void => {
      if (this.#isClosing || this.#threads.threads.length > 0) return
      if (isRestarted) this.#beginAnew(cause)
      else this.#onDeath({ threads: this.#kind, cause, isReplaced: false })
    }
    setTimeout(look, isRestarted ? RESTART_PAUSE_MS : REPLACEMENT_MS_MAX).unref()
  }

  /** Opens a new pool in place of one without threads. The tasks that wait in it are refused with `ThreadEndedError`. */
  #beginAnew(cause: unknown): void {
    const ended = this.#threads
    this.#deaths++
    this.#givenUpFor.set(ended, cause)
    this.#threads = this.#open()
    void ended.destroy()
  }

  /** Counts looks, not hours: a process that stood still must not take its own pause for a fault. */
  #lookForStuck(): void {
    const writes = Atomics.load(this.#writes, ALL_WRITES + 1)
    const isSame = this.#isWriting && writes === this.#writesSeen
    this.#writesSeen = writes
    this.#stuckMs = isSame ? this.#stuckMs + STUCK_LOOK_EVERY_MS : 0
    if (this.#stuckMs < STUCK_MS_MIN) return
    this.#stuckMs = 0
    const cause = new Error('a write transaction does not end')
    this.#onDeath({ threads: this.#kind, cause, isReplaced: false })
  }

  /** Whether a transaction is open that no thread will end; other threads may have theirs. */
  async #hasLeftWrite(): Promise<boolean> {
    if (this.#threads.options.maxThreads === 1) return this.#isWriting
    for (let waitedMs = 0; waitedMs < TRANSACTION_MS_MAX; waitedMs += LOOK_EVERY_MS) {
      if (!this.#isWriting) return false
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
    return this.#isWriting
  }
}

/** Lets threads without a task close their stores, then ends them. */
async function endThreads(threads: Piscina): Promise<void> {
  const closing = threads.threads.map(() => threads.run({ call: 'close', values: [] }))
  // One that has ended meanwhile has nothing open any more.
  await Promise.allSettled(closing)
  await threads.destroy()
}
