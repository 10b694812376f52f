/**
 * Refreshes the results of repeated queries, such as those of a dashboard, when events are stored, so that the next
 * request finds its answer ready. No client waits for this work. It is canceled when a client sends any other query,
 * and it may use only a share of the time. Source: docs/ARCHITECTURE.md, "Queries".
 */
import { type Clock, SYSTEM_CLOCK } from '../../../base/clock.ts'
import { keepNewest } from '../../../base/maps.ts'
import type { PageWish } from '../../../base/pages.ts'
import {
  QUERY_REFRESH_MS_MAX,
  QUERY_REFRESH_SAVED_MS_MAX,
  REFRESHED_QUERIES_MAX,
} from '../limits.ts'

/** The pause after a client's query, in milliseconds. Another query of the same client usually follows immediately. */
const QUIET_MS = 20
/** The share of the time that refreshing may use on average. */
const SHARE = 1 / 5

/** A query, and the thread that has its result cached. */
export interface RefreshedQuery<Task> {
  /** The query as a client last sent it. */
  readonly task: Task
  /** The time at which a client last sent the query, in milliseconds of the monotonic clock. */
  readonly askedAtMs: number
  readonly thread: number
}

/**
 * Refreshes the answer of one query. Resolves with false if the thread has cached nothing for the query. Rejects if the
 * refresh was canceled.
 */
export type Refresh<Task> = (
  query: RefreshedQuery<Task>,
  onLeave: PageWish['onLeave'],
) => Promise<boolean>

interface Running {
  readonly name: string
  readonly giveUp: () => void
}

/**
 * The outcome of a refresh. `done`: the answer was refreshed, or the refresh failed. `forgotten`: the query will not be
 * refreshed any more. `given up`: the refresh was canceled and must start again.
 */
type Outcome = 'done' | 'forgotten' | 'given up'

/** The repeated queries of all threads. */
export class QueryRefresher<Task> {
  readonly #refresh: Refresh<Task>
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #savedMsMax: number
  readonly #queries = new Map<string, RefreshedQuery<Task>>()
  /** The refresh that is running on each thread. */
  readonly #running = new Map<number, Running>()
  #isDue = false
  #isAtWork = false
  /**
   * How many milliseconds refreshing may use, as calculated at `#countedAtMs`. Negative if it has used more than its
   * share.
   */
  #savedMs: number
  #countedAtMs: number
  /** The duration of the last refresh of each query, in milliseconds. */
  readonly #tookMs = new Map<string, number>()
  /** The number of queries that clients are waiting for. */
  #asked = 0
  #quietAtMs = 0

  /** `savedMsMax` is explained at its default, `QUERY_REFRESH_SAVED_MS_MAX`. */
  constructor(
    refresh: Refresh<Task>,
    savedMsMax: number = QUERY_REFRESH_SAVED_MS_MAX,
    clock: Pick<Clock, 'monotonic'> = SYSTEM_CLOCK,
  ) {
    this.#refresh = refresh
    this.#clock = clock
    this.#countedAtMs = clock.monotonic()
    this.#savedMsMax = savedMsMax
    this.#savedMs = savedMsMax
  }

  /** Records that a client has sent a query. From now on, its answer is refreshed. `name` identifies the query. */
  keep(name: string, query: RefreshedQuery<Task>): void {
    keepNewest(this.#queries, name, query, REFRESHED_QUERIES_MAX)
  }

  /**
   * Records that a client has sent a query, and cancels all refreshes of other queries. Call the returned function when
   * the query is answered.
   */
  beginQuestion(name: string): () => void {
    this.#asked++
    for (const running of this.#running.values()) if (running.name !== name) running.giveUp()
    return () => {
      this.#asked--
      this.#quietAtMs = this.#clock.monotonic() + QUIET_MS
    }
  }

  /** Call it after the store has changed: events were stored, or segments were merged. */
  storeChanged(): void {
    this.#isDue = true
    if (this.#isAtWork || this.#queries.size === 0) return
    this.#isAtWork = true
    void this.#work()
  }

  async #work(): Promise<void> {
    while (this.#isDue && this.#queries.size > 0) {
      await pause(this.#restMs())
      this.#isDue = false
      const startedAtMs = this.#clock.monotonic()
      const threads = new Set([...this.#queries.values()].map(({ thread }) => thread))
      await Promise.all([...threads].map((thread) => this.#workOn(thread)))
      this.#savedMs -= this.#clock.monotonic() - startedAtMs
    }
    this.#isAtWork = false
  }

  /** Returns the number of milliseconds until refreshing may continue. */
  #restMs(): number {
    const nowMs = this.#clock.monotonic()
    const comeMs = (nowMs - this.#countedAtMs) * SHARE
    this.#savedMs = Math.min(this.#savedMsMax, this.#savedMs + comeMs)
    this.#countedAtMs = nowMs
    return Math.max(0, -this.#savedMs / SHARE)
  }

  async #workOn(thread: number): Promise<void> {
    // Slow queries are refreshed last, so that most answers are ready if a client asks soon.
    const left = [...this.#queries]
      .filter(([, query]) => query.thread === thread)
      .sort(([one], [other]) => this.#costMs(one) - this.#costMs(other))
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      const [name, query] = one
      while (this.#asked > 0 || this.#clock.monotonic() < this.#quietAtMs) await pause(QUIET_MS)
      const isOld = this.#clock.monotonic() - query.askedAtMs > QUERY_REFRESH_MS_MAX
      const outcome = isOld ? 'forgotten' : await this.#outcomeOf(name, query)
      // If a client has sent the query again in the meantime, the query is kept.
      if (outcome === 'forgotten' && this.#queries.get(name) === query) this.#queries.delete(name)
      // A canceled refresh is started again. If newer events have arrived, this is not needed, because all queries are
      // then refreshed again.
      if (outcome === 'given up' && !this.#isDue) left.push(one)
    }
  }

  #costMs(name: string): number {
    return this.#tookMs.get(name) ?? 0
  }

  async #outcomeOf(name: string, query: RefreshedQuery<Task>): Promise<Outcome> {
    const { thread } = query
    const startedAtMs = this.#clock.monotonic()
    let isGivenUp = false
    try {
      const isRemembered = await this.#refresh(query, (giveUp) =>
        this.#running.set(thread, {
          name,
          giveUp: () => {
            isGivenUp = true
            giveUp()
          },
        }),
      )
      return isRemembered ? 'done' : 'forgotten'
    } catch {
      // The refresh was canceled, or it failed. If it failed and the reason persists, the next client that sends the
      // query gets the error.
      return isGivenUp ? 'given up' : 'done'
    } finally {
      this.#running.delete(thread)
      keepNewest(this.#tookMs, name, this.#clock.monotonic() - startedAtMs, REFRESHED_QUERIES_MAX)
    }
  }
}

function pause(durationMs: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, durationMs).unref())
}
