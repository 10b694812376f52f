/**
 * Limits the answers that wait until their clients read them. They may hold a limited number of bytes together, and a
 * client must read at a minimum pace. A client is cut off if it reads nothing for a while, or if it is too slow on
 * average. If there is no room for a new answer, the answers that have waited longest without progress are cut off
 * first. Memory that several answers share is counted once.
 */
import { WAITING_ANSWERS_BYTES_MAX } from '../../base/limits.ts'
import type { Counter, Gauge, MetricFamily } from '../../base/metrics.ts'
import { ANSWER_LOOK_MS_MAX } from './limits.ts'

/** How many bytes per second a client must take on average while an answer waits for it. */
const READER_BYTES_PER_SECOND_MIN = 64 * 1024
/** A client that has read nothing for this many milliseconds may be cut off to make room for another answer. */
const YIELDS_AFTER_MS = 1000

/** An answer that has not been sent completely. */
export interface WaitingAnswer {
  /** How many bytes of memory only this answer holds. */
  readonly heldBytes: number
  /**
   * The buffers of the answer that other answers may share, without duplicates. A buffer that several answers share is
   * counted once.
   */
  readonly memory?: readonly ArrayBufferLike[]
  /** How many bytes of the answer the client has read. */
  readonly readBytes: number
  /** For how many milliseconds the answer has waited for its client, without the current wait. */
  readonly waitedMs: number
  /**
   * The time at which the current wait began, in milliseconds of the monotonic clock. Null if the answer does not wait.
   */
  readonly sinceMs: number | null
  /** Closes the connection and releases everything that the answer holds. */
  cut(): void
}

/** The metrics of waiting answers. */
export interface WaitingMetrics {
  readonly httpAnswerBytesWaiting: Gauge
  /**
   * Counts the clients that were cut off. The label `reason` is `stalled` (the client read nothing), `slow` (too slow
   * on average) or `room` (cut off to make room for another answer).
   */
  readonly httpReadersCut: MetricFamily<Counter>
}

/** The limits for clients that read answers, and the metrics. */
export interface WaitingAnswersOptions {
  readonly metrics: WaitingMetrics
  /** After this many milliseconds without progress, a client is cut off. */
  readonly stallMs: number
  /** How many bytes all waiting answers may hold together. The default is `WAITING_ANSWERS_BYTES_MAX`. */
  readonly bytesMax?: number | undefined
  /** How many bytes per second a client must read on average. The default is `READER_BYTES_PER_SECOND_MIN`. */
  readonly bytesPerSecondMin?: number | undefined
}

/** All answers of a server that wait until their clients read them. */
export class WaitingAnswers {
  readonly #options: WaitingAnswersOptions
  readonly #bytesMax: number
  readonly #answers = new Set<WaitingAnswer>()
  /** How many waiting answers hold each buffer. */
  readonly #holders = new Map<ArrayBufferLike, number>()
  #bytes = 0
  #timer: NodeJS.Timeout | null = null

  constructor(options: WaitingAnswersOptions) {
    this.#options = options
    this.#bytesMax = options.bytesMax ?? WAITING_ANSWERS_BYTES_MAX
  }

  /** Returns true if there is room for this memory. Memory that a waiting answer already holds needs no more room. */
  hasRoomFor(memory: readonly ArrayBufferLike[]): boolean {
    let bytes = 0
    for (const one of memory) if (!this.#holders.has(one)) bytes += one.byteLength
    return bytes === 0 || this.hasRoom(bytes)
  }

  /**
   * Returns true if there is room for `bytes` more. To make room, it first cuts off clients that do not read. That
   * takes a pass over all answers.
   */
  hasRoom(bytes: number): boolean {
    // An answer that is larger than the limit is admitted if no other answer waits.
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

  /** Adds an answer. The caller must later call `remove`. */
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

  /** Adds `bytes`, which may be negative, to the number of held bytes. */
  changed(bytes: number): void {
    this.#bytes += bytes
    this.#options.metrics.httpAnswerBytesWaiting.value = this.#bytes
  }

  /** Removes an answer. Does nothing if the answer was already removed. */
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
