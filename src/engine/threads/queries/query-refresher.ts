/**
 * Queries that are asked again and again, as those of a dashboard are, brought up to date as events are stored, so
 * that the next asking finds its answer made. That is work which nobody waits for: it is given up for whoever asks
 * for anything else, and takes no more than a share of the time. Source: docs/ARCHITECTURE.md, "Queries".
 */
import { type Clock, SYSTEM_CLOCK } from '../../../base/clock.ts'
import { keepNewest } from '../../../base/maps.ts'
import type { PageWish } from '../../../base/pages.ts'
import {
  QUERY_REFRESH_MS_MAX,
  QUERY_REFRESH_SAVED_MS_MAX,
  REFRESHED_QUERIES_MAX,
} from '../limits.ts'

/** Questions are mostly asked one after the other. */
const QUIET_MS = 20
/** The part of all time that this work may take. */
const SHARE = 1 / 5

/** A query, and the thread that remembers it. */
export interface RefreshedQuery<Task> {
  /** As it was asked last. */
  readonly task: Task
  /** When that was: milliseconds of `performance.now`. */
  readonly askedAtMs: number
  readonly thread: number
}

/** Brings one up to date. False: nothing of it is remembered. Rejects when it was given up. */
export type Refresh<Task> = (
  query: RefreshedQuery<Task>,
  onLeave: PageWish['onLeave'],
) => Promise<boolean>

interface Running {
  readonly name: string
  readonly giveUp: () => void
}

/** What became of one: it is up to date, or not worth it, or has to be begun again. */
type Outcome = 'done' | 'forgotten' | 'given up'

/** The queries of all threads. */
export class QueryRefresher<Task> {
  readonly #refresh: Refresh<Task>
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #savedMsMax: number
  readonly #queries = new Map<string, RefreshedQuery<Task>>()
  /** By thread. */
  readonly #running = new Map<number, Running>()
  #isDue = false
  #isAtWork = false
  /** Time that this work may take now; below 0: it has taken more. As of `#countedAtMs`. */
  #savedMs: number
  #countedAtMs: number
  /** How long each took last, by its name; milliseconds. */
  readonly #tookMs = new Map<string, number>()
  /** Questions that somebody waits for. */
  #asked = 0
  #quietAtMs = 0

  /** `savedMsMax`: as `QUERY_REFRESH_SAVED_MS_MAX`. */
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

  /** A query was asked again; `name` tells it from others. */
  keep(name: string, query: RefreshedQuery<Task>): void {
    keepNewest(this.#queries, name, query, REFRESHED_QUERIES_MAX)
  }

  /** A question is asked: whatever else is at work gives way. Call what comes back when it is answered. */
  beginQuestion(name: string): () => void {
    this.#asked++
    for (const running of this.#running.values()) if (running.name !== name) running.giveUp()
    return () => {
      this.#asked--
      this.#quietAtMs = this.#clock.monotonic() + QUIET_MS
    }
  }

  /** Events were stored, or merged. */
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

  /** How long there is no time for this work. */
  #restMs(): number {
    const nowMs = this.#clock.monotonic()
    const comeMs = (nowMs - this.#countedAtMs) * SHARE
    this.#savedMs = Math.min(this.#savedMsMax, this.#savedMs + comeMs)
    this.#countedAtMs = nowMs
    return Math.max(0, -this.#savedMs / SHARE)
  }

  async #workOn(thread: number): Promise<void> {
    // What takes long is the last: most of what is asked soon is ready by then.
    const left = [...this.#queries]
      .filter(([, query]) => query.thread === thread)
      .sort(([one], [other]) => this.#costMs(one) - this.#costMs(other))
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      const [name, query] = one
      while (this.#asked > 0 || this.#clock.monotonic() < this.#quietAtMs) await pause(QUIET_MS)
      const isOld = this.#clock.monotonic() - query.askedAtMs > QUERY_REFRESH_MS_MAX
      const outcome = isOld ? 'forgotten' : await this.#outcomeOf(name, query)
      // Whoever asks meanwhile is heard.
      if (outcome === 'forgotten' && this.#queries.get(name) === query) this.#queries.delete(name)
      // Newer events begin another round.
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
      // Refused: the next one to ask hears why, if that lasts.
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
