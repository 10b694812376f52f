/**
 * Caches the results of shared pages. Anybody with the URL may request a page as often as the rate limits allow.
 * Requests at the same time therefore share one computation, and a result is cached for a limited time. It is cached as
 * the bytes that a thread wrote, which all answers share.
 */
import type { Clock } from '../../../base/clock.ts'
import { ServiceError } from '../../../base/errors.ts'
import {
  SHARED_RESULT_AGE_MS_MAX,
  SHARED_RESULTS_BYTES_MAX,
  SHARED_RESULTS_MAX,
} from '../limits.ts'
import type { ComputeInsight } from './saved-services.ts'

interface Kept {
  readonly atMs: number
  readonly result: Promise<Uint8Array>
  /**
   * The estimated number of bytes of the entry: those of its name, and those of its result as soon as it has arrived.
   */
  bytes: number
}

/**
 * Returns a function that computes results and caches each for a limited time. An error that would occur again is
 * cached, too. If there are too many results, the least recently used ones are evicted.
 */
export function keptResults(
  compute: ComputeInsight,
  clock: Pick<Clock, 'monotonic'>,
): ComputeInsight {
  const results = new KeptResults(clock)
  return (projectId, question, format) =>
    results.get(`${projectId} ${format} ${question}`, () => compute(projectId, question, format))
}

class KeptResults {
  readonly #clock: Pick<Clock, 'monotonic'>
  /** The cached results, the least recently used first. */
  readonly #kept = new Map<string, Kept>()
  #bytes = 0
  #timer: NodeJS.Timeout | null = null

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  get(name: string, make: () => Promise<Uint8Array>): Promise<Uint8Array> {
    this.#forgetOld()
    const before = this.#kept.get(name)
    if (before !== undefined) {
      this.#kept.delete(name)
      this.#kept.set(name, before)
      return before.result
    }
    const made: Kept = { atMs: this.#clock.monotonic(), result: make(), bytes: name.length }
    this.#kept.set(name, made)
    this.#bytes += made.bytes
    this.#makeRoom()
    made.result.then(
      ({ length }) => this.#grow(name, made, length),
      (error: unknown) => {
        const isLasting = error instanceof ServiceError && error.retryAfterSeconds === null
        if (!isLasting && this.#kept.get(name) === made) this.#forget(name, made)
      },
    )
    this.#timer ??= setTimeout(() => this.#sweep(), SHARED_RESULT_AGE_MS_MAX).unref()
    return made.result
  }

  #grow(name: string, made: Kept, bytes: number): void {
    if (this.#kept.get(name) !== made) return
    made.bytes += bytes
    this.#bytes += bytes
    this.#makeRoom()
  }

  #makeRoom(): void {
    for (const [name, kept] of this.#kept) {
      const isRoom =
        this.#bytes <= SHARED_RESULTS_BYTES_MAX && this.#kept.size <= SHARED_RESULTS_MAX
      if (isRoom) return
      this.#forget(name, kept)
    }
  }

  #forgetOld(): void {
    const untilMs = this.#clock.monotonic() - SHARED_RESULT_AGE_MS_MAX
    for (const [name, kept] of this.#kept) if (kept.atMs <= untilMs) this.#forget(name, kept)
  }

  #forget(name: string, kept: Kept): void {
    this.#kept.delete(name)
    this.#bytes -= kept.bytes
  }

  /** Removes the results that are too old, so that their memory is released even if nobody requests them any more. */
  #sweep(): void {
    this.#forgetOld()
    this.#timer =
      this.#kept.size === 0
        ? null
        : setTimeout(() => this.#sweep(), SHARED_RESULT_AGE_MS_MAX).unref()
  }
}

/**
 * Returns a function that calls `run`, but not at the same time as another call for an equal request. Requests must be
 * plain data. All equal requests that arrive during a call share one later call, because the current call may miss
 * changes that were made before they arrived.
 */
export function sharedRuns<Request extends object, Value>(
  run: (request: Request) => Promise<Value>,
): (request: Request) => Promise<Value> {
  const running = new Map<string, Promise<Value>>()
  const waiting = new Map<string, Promise<Value>>()
  const start = (name: string, request: Request): Promise<Value> => {
    const end = (): void => {
      if (running.get(name) === result) running.delete(name)
    }
    const result = run(request)
    running.set(name, result)
    result.then(end, end)
    return result
  }
  return (request) => {
    const name = JSON.stringify(request)
    const current = running.get(name)
    if (current === undefined) return start(name, request)
    const before = waiting.get(name)
    if (before !== undefined) return before
    const begin = (): Promise<Value> => {
      waiting.delete(name)
      return start(name, request)
    }
    const next = current.then(begin, begin)
    waiting.set(name, next)
    return next
  }
}
