/**
 * The memory of one thread. The thread reports how much memory it uses (base/memory/memory-board.ts). After it has been
 * idle for a while, it releases what it can. V8 releases memory only when it collects garbage, and it delays that in an
 * idle thread. An idle thread therefore starts the garbage collection itself.
 */
import { collectGarbage } from '../../base/memory/garbage.ts'
import {
  type CachesOfThread,
  type MemoryBoard,
  MemoryReport,
  ownMemory,
} from '../../base/memory/memory-board.ts'
import { IDLE_MEMORY_MS_MAX, MEMORY_TOLD_MS_MAX } from './limits.ts'

/** The stores of a thread, as far as their memory is concerned. */
export interface MemoryHolder {
  /** The sizes of the caches of the thread. */
  readonly caches?: CachesOfThread
  /** Evicts everything that can be computed or read again. */
  release?(): void
}

/** After this number of idle ticks, memory is released. A tick is a period of `TICK_MS`. */
const IDLE_TICKS = 2
const TICK_MS = IDLE_MEMORY_MS_MAX / (IDLE_TICKS + 1)
/**
 * A tick counts as idle if the thread works for at most this share of the tick. The share is not 0, because even an
 * idle thread sometimes checks for work.
 */
const IDLE_SHARE = 0.05
/**
 * Nothing is released if the memory of the thread has grown by less than this number of bytes since the last release.
 */
const GROWN_BYTES_MIN = 8 * 1024 ** 2

/** Reports and releases the memory of the thread in which it is created. */
export class ThreadMemory {
  readonly #report: MemoryReport
  readonly #holder: MemoryHolder
  #toldAtMs = Number.NEGATIVE_INFINITY
  #begunAtMs = 0
  #isRunning = false
  /** For how many milliseconds the thread has worked since the last tick. */
  #busyMs = 0
  #idleTicks = 0
  readonly #shortages: Int32Array
  #shortagesSeen = 0
  /** How many bytes the thread still used after the last release. */
  #restingBytes = 0

  constructor(board: MemoryBoard, holder: MemoryHolder) {
    this.#report = new MemoryReport(board)
    this.#shortages = board.shortages
    this.#holder = holder
    this.#tell()
    setInterval(() => this.#tick(), TICK_MS).unref()
  }

  /** Records that a call begins. */
  begin(): void {
    this.#isRunning = true
    this.#begunAtMs = performance.now()
  }

  /** Records that a call has ended. Costs almost nothing, except for some microseconds once a second. */
  end(): void {
    const nowMs = performance.now()
    this.#isRunning = false
    this.#busyMs += nowMs - this.#begunAtMs
    const shortages = Atomics.load(this.#shortages, 0)
    if (shortages !== this.#shortagesSeen) {
      this.#shortagesSeen = shortages
      this.#release()
    }
    if (nowMs - this.#toldAtMs >= MEMORY_TOLD_MS_MAX) this.#tell()
  }

  #tick(): void {
    if (this.#isRunning || this.#busyMs > TICK_MS * IDLE_SHARE) this.#idleTicks = 0
    else this.#idleTicks++
    this.#busyMs = 0
    if (this.#isRunning) return
    const shortages = Atomics.load(this.#shortages, 0)
    if (this.#idleTicks >= IDLE_TICKS || shortages !== this.#shortagesSeen) this.#release()
    this.#shortagesSeen = shortages
    this.#tell()
  }

  #release(): void {
    if (takenBytes() <= this.#restingBytes + GROWN_BYTES_MIN) return
    this.#holder.release?.()
    collectGarbage()
    this.#restingBytes = takenBytes()
    this.#idleTicks = 0
  }

  #tell(): void {
    this.#toldAtMs = performance.now()
    this.#report.tell(this.#holder.caches ?? {})
  }
}

function takenBytes(): number {
  const { heapUsedBytes, bufferBytes } = ownMemory()
  return heapUsedBytes + bufferBytes
}
