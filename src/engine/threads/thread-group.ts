/**
 * The threads of one kind. A thread may end unexpectedly: by an error outside its task, for lack of memory, or by an
 * exit. Its task is then refused, another thread replaces it, and the owner of the group is informed.
 *
 * If a thread ends within a write transaction, the damage cannot be repaired: LMDB holds the lock until the process
 * ends, and every later write would wait for it forever. The threads count their transactions in shared memory to
 * detect this. The process must then end.
 */
import { setFlagsFromString } from 'node:v8'
import { Piscina } from 'piscina'
import { OperatorError, ServiceError } from '../../base/errors.ts'
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
import type { Answered, Failed, Refused, Task } from './call-kinds.ts'
import { REPLACEMENT_MS_MAX, THREAD_FILES_MIN, TRANSACTION_MS_MAX } from './limits.ts'
import type { ThreadKind, ThreadSettings } from './tasks.ts'

const THREAD_ENTRY = new URL('../../thread.js', import.meta.url)
const LOOK_EVERY_MS = 10
/** The pause before a group starts threads again after its last thread has ended, in milliseconds. */
const RESTART_PAUSE_MS = 500
/**
 * A thread is assumed to hang if its transaction has been open for this long. The largest transactions take a second,
 * or minutes on a busy machine with a slow disk.
 */
const STUCK_MS_MIN = 180_000
const STUCK_LOOK_EVERY_MS = 5000

/** A thread that has ended unexpectedly. */
export interface ThreadDeath {
  readonly threads: ThreadKind
  /** The error that ended the thread, if it is known. */
  readonly cause: unknown
  /** True if another thread replaces the ended one. If false, the process must end. */
  readonly isReplaced: boolean
}

/** Thrown if the thread of a task has ended. It is then unknown whether the task was carried out. */
export class ThreadEndedError extends Error {
  override readonly name = 'ThreadEndedError'
  /** True if the thread was within a write transaction. This process must then not write any more. */
  readonly wasWriting: boolean

  constructor(wasWriting: boolean, cause: unknown) {
    super('the thread ended', { cause })
    this.wasWriting = wasWriting
  }
}

/** The options of a thread group. */
export interface ThreadGroupOptions {
  readonly kind: ThreadKind
  readonly settings: ThreadSettings
  /** The file that every thread runs. Default: thread.ts. */
  readonly entry?: URL | undefined
  readonly threadsMax: number
  /** The number of threads that are running even if there is no work. */
  readonly threadsMin: number
  readonly pool: NonNullable<ConstructorParameters<typeof Piscina>[0]>
  /**
   * V8 collects the garbage of a thread when its old objects and its memory outside the heap reach this size, in MiB.
   */
  readonly oldMib?: number
  readonly onDeath: (death: ThreadDeath) => void
}

/**
 * In a cluster, the result of a call that changes the catalogue. It contains the change, which is not written yet
 * (ports/change-log.ts).
 */
export class Proposed implements Decided<unknown> {
  readonly result: unknown
  readonly proposal: Proposal

  constructor(result: unknown, proposal: Proposal) {
    this.result = result
    this.proposal = proposal
  }
}

/** The threads of one kind. Each runs one task at a time. */
export class ThreadGroup {
  readonly #kind: ThreadKind
  #threads: Piscina
  readonly #options: Omit<ThreadGroupOptions, 'settings'>
  /** The settings for threads that start from now on. */
  #settings: ThreadSettings
  readonly #threadsMin: number
  readonly #oldMib: number
  readonly #onDeath: (death: ThreadDeath) => void
  /** Counts of the write transactions of all threads of the group; see `countWrites`. */
  readonly #writes = new Int32Array(new SharedArrayBuffer(4 * Int32Array.BYTES_PER_ELEMENT))
  /**
   * The memory figures of the threads. It has more slots than there are threads, because a new thread may report before
   * the slot of an ended thread is free.
   */
  readonly #board: ReturnType<typeof memoryBoard>
  readonly #stuckTimer: NodeJS.Timeout
  #stuckMs = 0
  #writesSeen = 0
  #deaths = 0
  #cause: unknown
  /** The reason why each replaced pool was replaced. Tasks that waited in the pool are refused with this reason. */
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
      // Threads of a replaced pool are ignored, because they were ended on purpose.
      if (threads === this.#threads) this.#died()
    })
    // Called if a thread ended with an error while it had no task.
    threads.on('error', (cause: unknown) => {
      this.#cause = cause
    })
    return threads
  }

  /**
   * For how many milliseconds the threads of the group have been idle. 0 if a thread is busy, or if there are no
   * threads.
   */
  get idleMs(): number {
    const isIdle = this.#running === 0 && this.#threads.threads.length > 0
    return isIdle ? performance.now() - this.#usedAtMs : 0
  }

  /**
   * Ends all threads, which frees all of their memory. Call it only while they are idle, and only for a group that
   * starts threads when they are needed. The next task starts threads with the given `settings`.
   */
  async end(settings: ThreadSettings = this.#settings): Promise<void> {
    const ended = this.#threads
    this.#settings = settings
    this.#threads = this.#open()
    this.#ending = endThreads(ended)
    await this.#ending
  }

  /** True if the group has a thread, or if the process can still open the files that a new thread needs. */
  get mayStart(): boolean {
    if (this.#threadsMin > 0 || this.#threads.threads.length > 0) return true
    return openFilesLeft() >= THREAD_FILES_MIN
  }

  /** The number of tasks that wait for a thread. */
  get queueSize(): number {
    return this.#threads.queueSize
  }

  /**
   * Runs a task. If the task proposes a change of the shared catalogue, resolves with a `Proposed`. Rejects with the
   * `ServiceError` with which the task was refused, with `ThreadEndedError` if its thread ended, or with the error that
   * the task threw. Only a `ServiceError` or `OperatorError` keeps its class.
   */
  async run(task: Task, transferList: readonly ArrayBuffer[] = []): Promise<unknown> {
    const threads = this.#threads
    const deaths = this.#deaths
    let answer: unknown
    const isFirst = threads.threads.length === 0
    if (isFirst && !this.mayStart) throw refusal('files_full')
    const isStarting = this.#oldMib > 0 && isFirst
    // V8 reads this flag when it creates the heap of a thread. There is no other way to set the value.
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
    // run-task.ts returns some errors as values instead of throwing them, because a thrown error loses its class
    // between threads.
    const given = answer as Answered | Refused | Failed
    if ('refusal' in given) {
      throw ServiceError.fromBody(given.refusal, given.retryAfterSeconds)
    }
    if ('failure' in given) {
      throw new OperatorError(given.failure.message, { exitCode: given.failure.exitCode })
    }
    const { result, proposal } = given
    return proposal === undefined ? result : new Proposed(result, proposal)
  }

  /** Runs a task like `run`. If the thread ends, rejects with a refusal (503) that can be sent to a client. */
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

  /** The memory that each running thread reported last. */
  get memory(): readonly ThreadMemory[] {
    return readBoard(this.#board, new Set(this.#threads.threads.map(({ threadId }) => threadId)))
  }

  /**
   * The number of write transactions that the threads have begun. Only transactions that change data which readers see
   * are counted. Null while one of them is open.
   */
  get writesBegun(): number | null {
    // The order of these two reads matters: if the first read counts a transaction that is still open, the second read
    // notices that it is open.
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
    // The death is reported in the next turn of the event loop, because the error that ended the thread arrives within
    // this turn.
    setImmediate(() => void this.#report(this.#cause))
  }

  async #report(cause: unknown): Promise<void> {
    const isReplaced = !(await this.#hasLeftWrite())
    if (this.#isClosing) return
    this.#onDeath({ threads: this.#kind, cause, isReplaced })
    if (isReplaced) this.#awaitReplacement(cause)
  }

  /**
   * Call it after a thread has ended. Checks after a while whether the group has a thread again. If a thread ends while
   * it loads its code, Piscina does not start another one, and waiting tasks would wait forever. If the group has no
   * thread, there are two cases. If the process could not open the files of the code, or if the group can be without
   * threads, a new pool is opened. Otherwise `onDeath` reports that the process must end.
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
   * Replaces a pool that has no threads by a new one. Tasks that wait in the old pool are refused with
   * `ThreadEndedError`.
   */
  #beginAnew(cause: unknown): void {
    const ended = this.#threads
    this.#deaths++
    this.#givenUpFor.set(ended, cause)
    this.#threads = this.#open()
    void ended.destroy()
  }

  /**
   * Detects a write transaction that does not end. Adds up the intervals between checks instead of comparing the time
   * with that of the start, because the process may be paused for a while.
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
   * Returns whether an ended thread has left a transaction open. Other threads may have transactions open at the same
   * time, so the function first waits for their end.
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

/** Lets each thread close its stores, and then ends the threads. Call it only while they have no tasks. */
async function endThreads(threads: Piscina): Promise<void> {
  const closing = threads.threads.map(() => threads.run({ call: 'close', values: [] }))
  // Errors are ignored. If a thread has ended in the meantime, its stores are already closed.
  await Promise.allSettled(closing)
  await threads.destroy()
}
