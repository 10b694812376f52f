/**
 * Append sessions, in which the main thread sends no message for an append. As long as appends follow each other, the
 * writer thread stays in one call, the session. The main thread writes into shared memory which block to append, and
 * wakes the writer thread. The writer thread writes the result into the same memory and wakes the main thread. A commit
 * therefore copies, transfers and allocates nothing.
 *
 * One word in shared memory says which thread has to act next:
 *
 *   WAITING --main thread hands over a block--> HANDED --writer thread: block is durable--> WAITING
 *   WAITING --writer thread after an idle time, or main thread--> CLOSED
 *
 * A session also ends when the call of the writer thread ends, because an append was refused, the log has failed, or
 * the thread has ended. The current append is then rejected.
 */
import type { LogAppender } from '../../../ports/log.ts'
import {
  APPEND_MEMORIES_MAX,
  APPEND_MEMORY_BYTES_MAX,
  APPEND_SESSION_IDLE_MS_MAX,
} from '../limits.ts'
import type { AppendResult, AppendTask } from '../tasks.ts'

const WAITING = 0
const HANDED = 1
const CLOSED = 2

/** The index in `words` of the word that says which side has to act. */
const TURN = 0
/**
 * Two further indexes into `words`. At `MEMORY` is the number of the shared buffer that contains the block, or
 * NO_BLOCK. At `BLOCK_BYTES` is the length of the block in bytes.
 */
const MEMORY = 1
const BLOCK_BYTES = 2
const WORDS = 4
const NO_BLOCK = -1

/** Indexes into `numbers`. Each number is the member of `AppendTask` or `AppendResult` with the same name. */
const TRIM_THROUGH = 0
const LAST = 1
const COMMIT_MS = 2
const PARTITION = 3
const NUMBERS = 4

/** The memory that both ends of a session share. */
export interface AppendSession {
  readonly words: Int32Array
  readonly numbers: Float64Array
  /** The shared buffers that can contain a block. The word at `MEMORY` is an index into this list. */
  readonly memories: readonly SharedArrayBuffer[]
}

/** The open session, and the function that settles its current append. */
interface Open extends AppendSession {
  settle: ((cause?: unknown) => void) | null
}

// TypeScript declares `waitAsync` only in its library ES2024.
type WaitAsync = (words: Int32Array, index: number, value: number) => { value: unknown }
const { waitAsync } = Atomics as unknown as { readonly waitAsync: WaitAsync }

/** The calls that the main thread sends to the writer thread. Both reject with the error of the call. */
export interface AppendCalls {
  append(task: AppendTask): Promise<AppendResult>
  /** Runs a session. Settles when the session has ended. */
  serve(session: AppendSession): Promise<void>
}

/** The main thread's side of append sessions. */
export class AppendSessions {
  readonly #calls: AppendCalls
  #memories: readonly SharedArrayBuffer[] = []
  #open: Open | null = null
  #usedAtMs = Number.NEGATIVE_INFINITY

  constructor(calls: AppendCalls) {
    this.#calls = calls
  }

  /**
   * Appends like `LogAppender.append`, one append at a time. The append uses a separate call instead of a session if
   * its block is not in shared memory, or if it follows after a pause.
   */
  async append(task: AppendTask): Promise<AppendResult> {
    try {
      const memory = memoryOf(task)
      const isRare = performance.now() - this.#usedAtMs > APPEND_SESSION_IDLE_MS_MAX
      if (memory !== undefined && !isRare) return await this.#hand(task, memory)
      this.#close()
      return await this.#calls.append(task)
    } finally {
      this.#usedAtMs = performance.now()
    }
  }

  #hand(task: AppendTask, memory: SharedArrayBuffer | null): Promise<AppendResult> {
    if (memory !== null && !this.#memories.includes(memory)) {
      this.#close()
      this.#memories = [memory, ...this.#memories].slice(0, APPEND_MEMORIES_MAX)
    }
    const open = this.#open
    if (open !== null) write(open, task, memory)
    const isHanded = open !== null && turn(open, HANDED)
    return this.#result(open !== null && isHanded ? open : this.#begin(task, memory))
  }

  /** Begins a session and hands over its first append. */
  #begin(task: AppendTask, memory: SharedArrayBuffer | null): Open {
    const bytes = WORDS * Int32Array.BYTES_PER_ELEMENT + NUMBERS * Float64Array.BYTES_PER_ELEMENT
    const shared = new SharedArrayBuffer(bytes)
    const words = new Int32Array(shared, 0, WORDS)
    const numbers = new Float64Array(shared, words.byteLength, NUMBERS)
    const open: Open = { words, numbers, memories: this.#memories, settle: null }
    write(open, task, memory)
    turn(open, HANDED)
    this.#open = open
    const end = (cause: unknown): void => {
      if (this.#open === open) this.#open = null
      open.settle?.(cause)
    }
    this.#calls.serve({ words, numbers, memories: this.#memories }).then(end, end)
    return open
  }

  /**
   * Resolves with the result of the current append. The writer thread wakes this thread for it, or the session's call
   * ends. Whichever happens first settles the promise.
   */
  #result(open: Open): Promise<AppendResult> {
    return new Promise((resolve, reject) => {
      const settle = (cause?: unknown): void => {
        open.settle = null
        const [, last = 0, commitMs = 0] = open.numbers
        if (isHanded()) reject(cause)
        else resolve({ last, commitMs })
      }
      const isHanded = (): boolean => Atomics.load(open.words, TURN) === HANDED
      const wait = (): void => {
        const { value } = waitAsync(open.words, TURN, HANDED)
        if (value instanceof Promise) void value.then(look)
        else look()
      }
      const look = (): void => {
        if (open.settle !== settle) return
        // The writer thread stores that an append is done before it calls `notify`. The next append may begin between
        // these two steps. `notify` then wakes the waiter of the next append too early, so that waiter must wait again.
        if (isHanded()) wait()
        else settle()
      }
      open.settle = settle
      wait()
    })
  }

  #close(): void {
    if (this.#open !== null) turn(this.#open, CLOSED)
    this.#open = null
  }
}

/**
 * The writer thread's side of a session. Performs appends until none has come for a while. Throws the errors of
 * `LogAppender.append`.
 */
export async function serveAppends(
  logOf: (partition: number) => LogAppender,
  session: AppendSession,
): Promise<void> {
  const { words, numbers } = session
  for (;;) {
    Atomics.wait(words, TURN, WAITING, APPEND_SESSION_IDLE_MS_MAX)
    // If no append has come in time, `turn` closes the session. If an append has come, `turn` returns false, and the
    // append is performed below.
    if (turn(session, CLOSED) || Atomics.load(words, TURN) === CLOSED) return
    const startedAt = performance.now()
    const log = logOf(numbers[PARTITION] ?? 0)
    numbers[LAST] = await log.append(handedBlocks(session), numbers[TRIM_THROUGH] ?? 0)
    numbers[COMMIT_MS] = performance.now() - startedAt
    Atomics.store(words, TURN, WAITING)
    Atomics.notify(words, TURN)
  }
}

function handedBlocks({ words, memories }: AppendSession): readonly Buffer[] {
  const memory = memories[words[MEMORY] ?? NO_BLOCK]
  return memory === undefined ? [] : [Buffer.from(memory, 0, words[BLOCK_BYTES])]
}

/**
 * Returns the memory that contains the only block of a task. Returns null if the task has no block, and undefined if
 * the append needs a separate call.
 */
function memoryOf({ blocks }: AppendTask): SharedArrayBuffer | null | undefined {
  const [block, ...others] = blocks
  if (block === undefined) return null
  const { buffer } = block
  const isKept = buffer instanceof SharedArrayBuffer && others.length === 0
  return isKept && buffer.byteLength <= APPEND_MEMORY_BYTES_MAX ? buffer : undefined
}

function write(open: Open, task: AppendTask, memory: SharedArrayBuffer | null): void {
  const { words, numbers, memories } = open
  words[MEMORY] = memory === null ? NO_BLOCK : memories.indexOf(memory)
  words[BLOCK_BYTES] = task.blocks[0]?.bytes ?? 0
  numbers[TRIM_THROUGH] = task.trimThrough
  numbers[PARTITION] = task.partition ?? 0
}

/**
 * If the word at `TURN` is WAITING, changes it to `state`, wakes the other thread, and returns true. Otherwise returns
 * false.
 */
function turn({ words }: AppendSession, state: typeof HANDED | typeof CLOSED): boolean {
  if (Atomics.compareExchange(words, TURN, WAITING, state) !== WAITING) return false
  Atomics.notify(words, TURN)
  return true
}
