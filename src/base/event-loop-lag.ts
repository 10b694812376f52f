/** Measures the event loop lag: how late timers fire because other work blocked the event loop. */
import type { Clock } from './clock.ts'
import type { Gauge } from './metrics.ts'

const LAG_PROBE_MS = 100
const LAG_WINDOW_MS = 15_000

/**
 * Measures how late a timer fires, and writes the worst lag of this window of 15 seconds and the window before it to a
 * gauge.
 */
export class EventLoopLag {
  readonly #clock: Clock
  readonly #gauge: Gauge
  #timer: NodeJS.Timeout | undefined
  #dueMs = 0
  #windowEndMs = 0
  #worstSeconds = 0
  #worstBeforeSeconds = 0

  constructor(gauge: Gauge, clock: Clock) {
    this.#gauge = gauge
    this.#clock = clock
  }

  /** Starts to measure, ten times a second. The timer does not keep the process alive. */
  start(): void {
    const startMs = this.#clock.monotonic()
    this.#dueMs = startMs + LAG_PROBE_MS
    this.#windowEndMs = startMs + LAG_WINDOW_MS
    this.#timer = setInterval(() => {
      this.#probe()
    }, LAG_PROBE_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #probe(): void {
    const nowMs = this.#clock.monotonic()
    if (nowMs > this.#windowEndMs) {
      this.#windowEndMs = nowMs + LAG_WINDOW_MS
      this.#worstBeforeSeconds = this.#worstSeconds
      this.#worstSeconds = 0
    }
    this.#worstSeconds = Math.max(this.#worstSeconds, (nowMs - this.#dueMs) / 1000)
    this.#gauge.value = Math.max(this.#worstSeconds, this.#worstBeforeSeconds)
    this.#dueMs = nowMs + LAG_PROBE_MS
  }
}
