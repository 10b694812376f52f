/**
 * Queries that are asked again and again, as those of a dashboard are, brought up to date as events are stored, so
 * that the next asking finds its answer made. That is work which nobody waits for: it is given up for whoever asks
 * for anything else, and takes no more than a share of the time. Source: docs/ARCHITECTURE.md, "Queries".
 */
import { keepNewest } from '../../../base/maps.ts'
import type { PageWish } from '../../../base/pages.ts'
import { QUERY_REFRESH_MS_MAX, REFRESHED_QUERIES_MAX } from '../limits.ts'

/** Events are mostly stored in several commits one after the other, and questions asked one after the other. */
const QUIET_MS = 20
/** The rest behind a round, in lengths of that round. */
const REST_SHARE = 4

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
  readonly #queries = new Map<string, RefreshedQuery<Task>>()
  /** By thread. */
  readonly #running = new Map<number, Running>()
  #isDue = false
  #isAtWork = false
  #restsUntilMs = 0
  /** Questions that somebody waits for. */
  #asked = 0
  #quietAtMs = 0

  constructor(refresh: Refresh<Task>) {
    this.#refresh = refresh
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
      this.#quietAtMs = performance.now() + QUIET_MS
    }
  }

  /** Events were stored. */
  eventsStored(): void {
    this.#isDue = true
    if (this.#isAtWork || this.#queries.size === 0) return
    this.#isAtWork = true
    void this.#work()
  }

  async #work(): Promise<void> {
    while (this.#isDue && this.#queries.size > 0) {
      await pause(Math.max(this.#restsUntilMs - performance.now(), QUIET_MS))
      this.#isDue = false
      const startedAtMs = performance.now()
      const threads = new Set([...this.#queries.values()].map(({ thread }) => thread))
      await Promise.all([...threads].map((thread) => this.#workOn(thread)))
      const endedAtMs = performance.now()
      this.#restsUntilMs = endedAtMs + (endedAtMs - startedAtMs) * REST_SHARE
    }
    this.#isAtWork = false
  }

  async #workOn(thread: number): Promise<void> {
    const left = [...this.#queries].filter(([, query]) => query.thread === thread)
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      const [name, query] = one
      while (this.#asked > 0 || performance.now() < this.#quietAtMs) await pause(QUIET_MS)
      const isOld = performance.now() - query.askedAtMs > QUERY_REFRESH_MS_MAX
      const outcome = isOld ? 'forgotten' : await this.#outcomeOf(name, query)
      // Whoever asks meanwhile is heard.
      if (outcome === 'forgotten' && this.#queries.get(name) === query) this.#queries.delete(name)
      // Newer events begin another round.
      if (outcome === 'given up' && !this.#isDue) left.push(one)
    }
  }

  async #outcomeOf(name: string, query: RefreshedQuery<Task>): Promise<Outcome> {
    const { thread } = query
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
    }
  }
}

function pause(durationMs: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, durationMs).unref())
}
