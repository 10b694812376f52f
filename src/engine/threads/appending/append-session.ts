/**
 * Appends one after the other without a message each. While commits follow each other the writer thread stays
 * in one call, a session: the front writes into shared memory what to append and wakes the thread, which
 * writes there what came of it and wakes the front. Nothing is copied, transferred or allocated for a commit.
 *
 * One word says whose turn it is, so that neither can miss the other:
 *
 *   WAITING --front--> HANDED --thread, when it is durable--> WAITING
 *   WAITING --the thread, after a while, or the front--> CLOSED
 *
 * How a session ends otherwise is how its call ends: a refusal, a failed log and the end of the thread reject
 * the append that is on its way.
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

/** Places in `words`. */
const TURN = 0
/** Which memory holds the block, or NO_BLOCK, and how many bytes of it. */
const MEMORY = 1
const BLOCK_BYTES = 2
const WORDS = 4
const NO_BLOCK = -1

/** Places in `numbers`, as in `AppendTask` and `AppendResult`. */
const TRIM_THROUGH = 0
const LAST = 1
const COMMIT_MS = 2
const PARTITION = 3
const NUMBERS = 4

/** What both ends of a session share. */
export interface AppendSession {
  readonly words: Int32Array
  readonly numbers: Float64Array
  /** Where blocks may lie. */
  readonly memories: readonly SharedArrayBuffer[]
}

/** The session that is open, and how the append on its way is told what came of it. */
interface Open extends AppendSession {
  settle: ((cause?: unknown) => void) | null
}

// TypeScript 6 has it in the library of 2024 only.
type WaitAsync = (words: Int32Array, index: number, value: number) => { value: unknown }
const { waitAsync } = Atomics as unknown as { readonly waitAsync: WaitAsync }

/** What the front's end works with; both reject as the thread's call does. */
export interface AppendCalls {
  append(task: AppendTask): Promise<AppendResult>
  /** Settles when the session has ended. */
  serve(session: AppendSession): Promise<void>
}

/** The front's end. */
export class AppendSessions {
  readonly #calls: AppendCalls
  #memories: readonly SharedArrayBuffer[] = []
  #open: Open | null = null
  #usedAtMs = Number.NEGATIVE_INFINITY

  constructor(calls: AppendCalls) {
    this.#calls = calls
  }

  /** As `LogAppender.append`, one at a time. Blocks in other memory, and the first for a while, are calls of their own. */
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

  /** A session whose first append is handed over already. */
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

  /** The end of the session may be heard of before that of its last append. */
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
        // Between its word and its call the thread may have been held up: then that call, which was for the append
        // before, wakes whoever waits for this one.
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

/** The thread's end: appends what is handed over until nothing has come for a while. Throws as `append` of the log. */
export async function serveAppends(
  logOf: (partition: number) => LogAppender,
  session: AppendSession,
): Promise<void> {
  const { words, numbers } = session
  for (;;) {
    Atomics.wait(words, TURN, WAITING, APPEND_SESSION_IDLE_MS_MAX)
    // Nothing came, unless it comes right now.
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

/** Where the only block of a task lies; null without a block, undefined when it cannot be handed over. */
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

/** Ends the waiting of the other side; false when that has been done. */
function turn({ words }: AppendSession, state: typeof HANDED | typeof CLOSED): boolean {
  if (Atomics.compareExchange(words, TURN, WAITING, state) !== WAITING) return false
  Atomics.notify(words, TURN)
  return true
}
