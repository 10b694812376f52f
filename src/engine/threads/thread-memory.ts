/**
 * The memory of one thread: it tells what it takes (base/memory/memory-board.ts), and gives back what its work needed
 * once it has been idle for a while. V8 gives memory back when it goes through a heap, which it puts off in a
 * thread that does nothing; so an idle thread asks for that itself.
 */
import { collectGarbage } from '../../base/memory/garbage.ts'
import {
  type CachesOfThread,
  type MemoryBoard,
  MemoryReport,
  ownMemory,
} from '../../base/memory/memory-board.ts'
import { IDLE_MEMORY_MS_MAX, MEMORY_TOLD_MS_MAX } from './limits.ts'

/** What a thread works with, as far as its memory is concerned. */
export interface MemoryHolder {
  /** What its caches hold. */
  readonly caches?: CachesOfThread
  /** Gives up what can be made or read again. */
  release?(): void
}

/** Idle ticks after which memory is given back. */
const IDLE_TICKS = 2
const TICK_MS = IDLE_MEMORY_MS_MAX / (IDLE_TICKS + 1)
/** A thread that works less than this share of the time is idle: looking whether there is anything to do is no work. */
const IDLE_SHARE = 0.05
/** A thread that has taken less than this since it gave memory back last has nothing to give back. */
const GROWN_BYTES_MIN = 8 * 1024 ** 2

/** The memory of the calling thread. */
export class ThreadMemory {
  readonly #report: MemoryReport
  readonly #holder: MemoryHolder
  #toldAtMs = Number.NEGATIVE_INFINITY
  #begunAtMs = 0
  #isRunning = false
  /** Since the last tick. */
  #busyMs = 0
  #idleTicks = 0
  readonly #shortages: Int32Array
  #shortagesSeen = 0
  /** What the thread took when it had given memory back last. */
  #restingBytes = 0

  constructor(board: MemoryBoard, holder: MemoryHolder) {
    this.#report = new MemoryReport(board)
    this.#shortages = board.shortages
    this.#holder = holder
    this.#tell()
    setInterval(() => this.#tick(), TICK_MS).unref()
  }

  /** A call begins. */
  begin(): void {
    this.#isRunning = true
    this.#begunAtMs = performance.now()
  }

  /** A call has ended. Cost: nothing, or some microseconds once a second. */
  end(): void {
    const nowMs = performance.now()
    this.#isRunning = false
    this.#busyMs += nowMs - this.#begunAtMs
    const shortages = Atomics.load(this.#shortages, 0)
    if (shortages !== this.#shortagesSeen) {
      this.#shortagesSeen = shortages
      this.#giveBack()
    }
    if (nowMs - this.#toldAtMs >= MEMORY_TOLD_MS_MAX) this.#tell()
  }

  #tick(): void {
    if (this.#isRunning || this.#busyMs > TICK_MS * IDLE_SHARE) this.#idleTicks = 0
    else this.#idleTicks++
    this.#busyMs = 0
    if (this.#isRunning) return
    const shortages = Atomics.load(this.#shortages, 0)
    if (this.#idleTicks >= IDLE_TICKS || shortages !== this.#shortagesSeen) this.#giveBack()
    this.#shortagesSeen = shortages
    this.#tell()
  }

  #giveBack(): void {
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
