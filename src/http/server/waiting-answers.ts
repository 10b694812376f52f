/**
 * Answers that wait for their readers. What they hold together is bounded, and each has to be read at some
 * pace: who reads nothing for a while is cut off, who reads too slowly over the whole answer too, and when
 * there is no room for a new answer those go first that have stood still the longest. Memory that several answers
 * share is counted once.
 */
import { WAITING_ANSWERS_BYTES_MAX } from '../../base/limits.ts'
import type { Counter, Gauge, MetricFamily } from '../../base/metrics.ts'
import { ANSWER_LOOK_MS_MAX } from './limits.ts'

/** Bytes a second that a reader takes at least, over the time in which an answer waited for it. */
const READER_BYTES_PER_SECOND_MIN = 64 * 1024
/** A reader that took nothing for this long may be cut off to make room. */
const YIELDS_AFTER_MS = 1000

/** An answer that is not out yet. */
export interface WaitingAnswer {
  /** Bytes of memory that no other answer holds. */
  readonly heldBytes: number
  /** Memory that other answers may hold, too, each once: it is counted once for all of them. */
  readonly memory?: readonly ArrayBufferLike[]
  /** Bytes that its reader has taken. */
  readonly readBytes: number
  /** Milliseconds that it has waited for its reader before now. */
  readonly waitedMs: number
  /** When it began to wait, monotonic milliseconds; null while it waits for nobody. */
  readonly sinceMs: number | null
  /** Ends the connection, and gives everything back. */
  cut(): void
}

/** What is counted. */
export interface WaitingMetrics {
  readonly httpAnswerBytesWaiting: Gauge
  /** Label `reason`: `stalled`, `slow`, `room`. */
  readonly httpReadersCut: MetricFamily<Counter>
}

/** How long readers may take, and what to count with. */
export interface WaitingAnswersOptions {
  readonly metrics: WaitingMetrics
  /** Milliseconds without progress after which a reader is cut off. */
  readonly stallMs: number
  /** Default `WAITING_ANSWERS_BYTES_MAX`. */
  readonly bytesMax?: number | undefined
  /** Default `READER_BYTES_PER_SECOND_MIN`. */
  readonly bytesPerSecondMin?: number | undefined
}

/** All answers of a server that wait. */
export class WaitingAnswers {
  readonly #options: WaitingAnswersOptions
  readonly #bytesMax: number
  readonly #answers = new Set<WaitingAnswer>()
  /** Memory of answers, and how many of them hold it. */
  readonly #holders = new Map<ArrayBufferLike, number>()
  #bytes = 0
  #timer: NodeJS.Timeout | null = null

  constructor(options: WaitingAnswersOptions) {
    this.#options = options
    this.#bytesMax = options.bytesMax ?? WAITING_ANSWERS_BYTES_MAX
  }

  /** Whether there is room for this memory; that which an answer holds already takes no more. */
  hasRoomFor(memory: readonly ArrayBufferLike[]): boolean {
    let bytes = 0
    for (const one of memory) if (!this.#holders.has(one)) bytes += one.byteLength
    return bytes === 0 || this.hasRoom(bytes)
  }

  /** Whether there is room for so many bytes more; makes some if it can. Cost: a look at all answers. */
  hasRoom(bytes: number): boolean {
    // One that is larger than the limit is alone.
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

  /** Takes an answer in; it must be given back with `remove`. */
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

  /** An answer holds so many bytes more, or less. */
  changed(bytes: number): void {
    this.#bytes += bytes
    this.#options.metrics.httpAnswerBytesWaiting.value = this.#bytes
  }

  /** Gives an answer back; does nothing when it is not there. */
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
