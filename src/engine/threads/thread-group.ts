/**
 * The threads of one kind, with the handling of a thread that ends unexpectedly: by an error outside of its task, for
 * lack of memory, or by an exit. Its task is refused, another thread replaces it, and the owner of the group is
 * notified.
 *
 * The end of a thread within a write transaction cannot be repaired. LMDB holds the lock until the process ends, and
 * every later write would wait for it forever. The threads count their transactions in shared memory to detect this.
 * The process must then end.
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
/** The pause before a group restarts after its last thread has ended. */
const RESTART_PAUSE_MS = 500
/**
 * A transaction that is open for this long belongs to a thread that hangs while it ends. The largest transactions take
 * a second, or minutes on a busy machine with a slow disk.
 */
const STUCK_MS_MIN = 180_000
const STUCK_LOOK_EVERY_MS = 5000

/** A thread that has ended unexpectedly. */
export interface ThreadDeath {
  readonly threads: ThreadKind
  /** The reason for its end, if it is known. */
  readonly cause: unknown
  /** False if it cannot be replaced and the process must end. */
  readonly isReplaced: boolean
}

/** The thread of a task has ended. It is unknown whether the task was carried out. */
export class ThreadEndedError extends Error {
  override readonly name = 'ThreadEndedError'
  /** True if the thread was within a write transaction: this process must not write any more. */
  readonly wasWriting: boolean

  constructor(wasWriting: boolean, cause: unknown) {
    super('the thread ended', { cause })
    this.wasWriting = wasWriting
  }
}

/** The options of a group. */
export interface ThreadGroupOptions {
  readonly kind: ThreadKind
  readonly settings: ThreadSettings
  /** The file that every thread runs. Default: thread.ts. */
  readonly entry?: URL | undefined
  readonly threadsMax: number
  /** The number of threads that are started in advance. */
  readonly threadsMin: number
  readonly pool: NonNullable<ConstructorParameters<typeof Piscina>[0]>
  /** The size of old objects and memory outside of the heap at which V8 collects the garbage of a thread, in MiB. */
  readonly oldMib?: number
  readonly onDeath: (death: ThreadDeath) => void
}

/** The decision of a call whose changes are not written yet (ports/change-log.ts). */
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
  /** The settings of threads that start from now on. */
  #settings: ThreadSettings
  readonly #threadsMin: number
  readonly #oldMib: number
  readonly #onDeath: (death: ThreadDeath) => void
  /** The write transactions of the threads, as `countWrites` counts them. */
  readonly #writes = new Int32Array(new SharedArrayBuffer(4 * Int32Array.BYTES_PER_ELEMENT))
  /**
   * The memory figures of the threads. It has spare slots, because a new thread may report before the slot of the old
   * one is free.
   */
  readonly #board: ReturnType<typeof memoryBoard>
  readonly #stuckTimer: NodeJS.Timeout
  #stuckMs = 0
  #writesSeen = 0
  #deaths = 0
  #cause: unknown
  /** The reasons why pools were replaced, for the tasks that waited in them. */
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
      // Threads of a replaced pool were ended on purpose, because they were idle.
      if (threads === this.#threads) this.#died()
    })
    // The error of a thread that ended without a task.
    threads.on('error', (cause: unknown) => {
      this.#cause = cause
    })
    return threads
  }

  /** The milliseconds for which its threads have been idle; 0 if they are busy, or there are none. */
  get idleMs(): number {
    const isIdle = this.#running === 0 && this.#threads.threads.length > 0
    return isIdle ? performance.now() - this.#usedAtMs : 0
  }

  /**
   * Ends the idle threads of a group that has no minimum number of threads. All of their memory is free afterwards. The
   * next task starts new threads with these `settings`.
   */
  async end(settings: ThreadSettings = this.#settings): Promise<void> {
    const ended = this.#threads
    this.#settings = settings
    this.#threads = this.#open()
    this.#ending = endThreads(ended)
    await this.#ending
  }

  /** True if the group has a thread, or the process can open the files that a new thread needs. */
  get mayStart(): boolean {
    if (this.#threadsMin > 0 || this.#threads.threads.length > 0) return true
    return openFilesLeft() >= THREAD_FILES_MIN
  }

  /** The number of tasks that wait for a thread. */
  get queueSize(): number {
    return this.#threads.queueSize
  }

  /**
   * Runs a task. If it proposes a change of the shared catalogue, resolves with a `Proposed`. Rejects with the
   * `ServiceError` with which the task was refused, with `ThreadEndedError` if its thread has ended, or with the error
   * that it threw.
   */
  async run(task: Task, transferList: readonly ArrayBuffer[] = []): Promise<unknown> {
    const threads = this.#threads
    const deaths = this.#deaths
    let answer: unknown
    const isFirst = threads.threads.length === 0
    if (isFirst && !this.mayStart) throw refusal('files_full')
    const isStarting = this.#oldMib > 0 && isFirst
    // V8 reads this flag when a heap is created, and offers no other way to set the value.
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
    // As returned by run-task.ts: a failure for the client is a value.
    const given = answer as Answered | Refused
    if ('refusal' in given) {
      throw ServiceError.fromBody(given.refusal, given.retryAfterSeconds)
    }
    const { result, proposal } = given
    return proposal === undefined ? result : new Proposed(result, proposal)
  }

  /** Like `run`, for a client that waits for the answer: the end of the thread becomes a refusal with 503. */
  async ask(task: Task, transferList: readonly ArrayBuffer[] = []): Promise<unknown> {
    try {
      return await this.run(task, transferList)
    } catch (cause) {
      if (!(cause instanceof ThreadEndedError)) throw cause
      throw refusal('thread_ended', { cause })
    }
  }

  /** Lets every thread close its stores, then ends all threads. Call it when no task is running any more. */
  async close(): Promise<void> {
    await Promise.all(this.#threads.threads.map(() => this.run({ call: 'close', values: [] })))
    this.#isClosing = true
    clearInterval(this.#stuckTimer)
    await Promise.all([this.#threads.destroy(), this.#ending])
  }

  /** The last reported memory of each thread that has started. */
  get memory(): readonly ThreadMemory[] {
    return readBoard(this.#board, new Set(this.#threads.threads.map(({ threadId }) => threadId)))
  }

  /** The number of transactions that its threads have begun and that change readable data; null while one is open. */
  get writesBegun(): number | null {
    // The order matters: a transaction that is counted here and still open is detected below.
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
    // The error of the task that it ran arrives within this turn of the event loop, and with it the cause.
    setImmediate(() => void this.#report(this.#cause))
  }

  async #report(cause: unknown): Promise<void> {
    const isReplaced = !(await this.#hasLeftWrite())
    if (this.#isClosing) return
    this.#onDeath({ threads: this.#kind, cause, isReplaced })
    if (isReplaced) this.#awaitReplacement(cause)
  }

  /**
   * Checks whether the group has a thread again after one has ended. If a thread ends while it loads its code, Piscina
   * starts no other one, and tasks that wait for a thread would wait forever. If the process could not open the files
   * of the code, the group restarts until the shortage is over. For any other cause the process must end, unless the
   * group works without a running thread.
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

  /**
   * Opens a new pool in place of one without threads. The tasks that wait in it are refused with `ThreadEndedError`.
   */
  #beginAnew(cause: unknown): void {
    const ended = this.#threads
    this.#deaths++
    this.#givenUpFor.set(ended, cause)
    this.#threads = this.#open()
    void ended.destroy()
  }

  /**
   * Detects a transaction that does not end. It counts checks instead of elapsed time, because the process itself may
   * have been paused.
   */
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

  /**
   * Returns true if an open transaction belongs to a thread that has ended. Other threads may have open transactions
   * too.
   */
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
  // A thread that has ended in the meantime has nothing open any more.
  await Promise.allSettled(closing)
  await threads.destroy()
}
