/**
 * Limits the answers that wait for their readers. The bytes that they hold together are bounded, and every answer must
 * be read at a minimum pace. A reader is cut off if it reads nothing for a while, or if it is too slow on average. If
 * there is no room for a new answer, the answers that have been stalled longest are cut off first. Memory that several
 * answers share is counted once.
 */
import { WAITING_ANSWERS_BYTES_MAX } from '../../base/limits.ts'
import type { Counter, Gauge, MetricFamily } from '../../base/metrics.ts'
import { ANSWER_LOOK_MS_MAX } from './limits.ts'

/** The bytes per second that a reader must take on average while an answer waits for it. */
const READER_BYTES_PER_SECOND_MIN = 64 * 1024
/** A reader that took nothing for this long may be cut off to make room. */
const YIELDS_AFTER_MS = 1000

/** An answer that is not sent completely yet. */
export interface WaitingAnswer {
  /** The bytes of memory that only this answer holds. */
  readonly heldBytes: number
  /** Memory that other answers may also hold, without duplicates. It is counted once for all of them. */
  readonly memory?: readonly ArrayBufferLike[]
  /** The number of bytes that the reader has taken. */
  readonly readBytes: number
  /** The milliseconds that the answer has waited for its reader before the current wait. */
  readonly waitedMs: number
  /** The start of the current wait in monotonic milliseconds; null while the answer does not wait. */
  readonly sinceMs: number | null
  /** Closes the connection and releases everything. */
  cut(): void
}

/** The metrics of waiting answers. */
export interface WaitingMetrics {
  readonly httpAnswerBytesWaiting: Gauge
  /** Counts readers that were cut off, by the label `reason`: `stalled`, `slow`, `room`. */
  readonly httpReadersCut: MetricFamily<Counter>
}

/** The limits for readers, and the metrics. */
export interface WaitingAnswersOptions {
  readonly metrics: WaitingMetrics
  /** The milliseconds without progress after which a reader is cut off. */
  readonly stallMs: number
  /** The most bytes that all answers hold; default `WAITING_ANSWERS_BYTES_MAX`. */
  readonly bytesMax?: number | undefined
  /** The least bytes per second that a reader must take; default `READER_BYTES_PER_SECOND_MIN`. */
  readonly bytesPerSecondMin?: number | undefined
}

/** All answers of a server that wait for their readers. */
export class WaitingAnswers {
  readonly #options: WaitingAnswersOptions
  readonly #bytesMax: number
  readonly #answers = new Set<WaitingAnswer>()
  /** The memory of waiting answers, with the number of answers that hold it. */
  readonly #holders = new Map<ArrayBufferLike, number>()
  #bytes = 0
  #timer: NodeJS.Timeout | null = null

  constructor(options: WaitingAnswersOptions) {
    this.#options = options
    this.#bytesMax = options.bytesMax ?? WAITING_ANSWERS_BYTES_MAX
  }

  /** Returns whether there is room for this memory. Memory that an answer already holds needs no more room. */
  hasRoomFor(memory: readonly ArrayBufferLike[]): boolean {
    let bytes = 0
    for (const one of memory) if (!this.#holders.has(one)) bytes += one.byteLength
    return bytes === 0 || this.hasRoom(bytes)
  }

  /**
   * Returns whether there is room for `bytes` more. If not, it cuts off stalled readers to make room, which takes a
   * pass over all answers.
   */
  hasRoom(bytes: number): boolean {
    // An answer that is larger than the limit is admitted if it is the only one.
    const isFree = (): boolean => this.#bytes === 0 || this.#bytes + bytes <= this.#bytesMax
    if (isFree()) return true
    const nowMs = performance.now()
    const stalled = [...this.#answers]
      .filter(({ sinceMs }) => sinceMs !== null && nowMs - sinceMs > YIELDS_AFTER_MS)
      .sort((a, b) => (a.sinceMs ?? 0) - (b.sinceMs ?? 0))
    for (const answer of stalled) {
      if (isFree()) return true
      this.#cut(answer, 'room')
    }
    return isFree()
  }

  /** Adds an answer. Every answer must be removed with `remove`. */
  add(answer: WaitingAnswer): void {
    this.#answers.add(answer)
    let bytes = answer.heldBytes
    for (const memory of answer.memory ?? []) {
      const holders = this.#holders.get(memory) ?? 0
      if (holders === 0) bytes += memory.byteLength
      this.#holders.set(memory, holders + 1)
    }
    this.changed(bytes)
    if (this.#timer !== null) return
    const everyMs = Math.min(ANSWER_LOOK_MS_MAX, this.#options.stallMs / 4)
    this.#timer = setInterval(() => this.#look(), everyMs)
  }

  /** Changes the count of held bytes by `bytes`, which may be negative. */
  changed(bytes: number): void {
    this.#bytes += bytes
    this.#options.metrics.httpAnswerBytesWaiting.value = this.#bytes
  }

  /** Removes an answer if it is among the waiting ones. */
  remove(answer: WaitingAnswer): void {
    if (!this.#answers.delete(answer)) return
    let bytes = answer.heldBytes
    for (const memory of answer.memory ?? []) {
      const holders = this.#holders.get(memory) ?? 0
      if (holders > 1) this.#holders.set(memory, holders - 1)
      else {
        this.#holders.delete(memory)
        bytes += memory.byteLength
      }
    }
    this.changed(-bytes)
    if (this.#answers.size > 0 || this.#timer === null) return
    clearInterval(this.#timer)
    this.#timer = null
  }

  #look(): void {
    const nowMs = performance.now()
    const { stallMs, bytesPerSecondMin = READER_BYTES_PER_SECOND_MIN } = this.#options
    for (const answer of [...this.#answers]) {
      const { sinceMs, waitedMs, readBytes } = answer
      if (sinceMs === null) continue
      const waitMs = nowMs - sinceMs
      const paceMs = stallMs + (readBytes / bytesPerSecondMin) * 1000
      if (waitMs > stallMs) this.#cut(answer, 'stalled')
      else if (waitedMs + waitMs > paceMs) this.#cut(answer, 'slow')
    }
  }

  #cut(answer: WaitingAnswer, reason: string): void {
    this.#options.metrics.httpReadersCut.with(reason).value++
    answer.cut()
    this.remove(answer)
  }
}
