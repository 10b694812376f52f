/**
 * Queries that are asked again and again, as those of a dashboard are, brought up to date as events are stored, so
 * that the next asking finds its answer made. That is work which nobody waits for: it is given up for whoever asks
 * for anything else, and takes no more than a share of the time. Source: docs/ARCHITECTURE.md, "Queries".
 */
import { keepNewest } from '../../../base/maps.ts'
import type { PageWish } from '../../../base/pages.ts'
import { QUERY_REFRESH_MS_MAX, REFRESHED_QUERIES_MAX } from '../limits.ts'

/** Events are mostly stored in several commits one after the other. */
const REFRESH_WAIT_MS = 20
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

/** The queries of all threads. */
export class QueryRefresher<Task> {
  readonly #refresh: Refresh<Task>
  readonly #queries = new Map<string, RefreshedQuery<Task>>()
  /** By thread. */
  readonly #running = new Map<number, Running>()
  #isDue = false
  #isAtWork = false
  #restsUntilMs = 0

  constructor(refresh: Refresh<Task>) {
    this.#refresh = refresh
  }

  /** A query was asked again; `name` tells it from others. */
  keep(name: string, query: RefreshedQuery<Task>): void {
    keepNewest(this.#queries, name, query, REFRESHED_QUERIES_MAX)
  }

  /** A query is asked, of this thread or of any: others give way. */
  giveWay(name: string, thread: number | undefined): void {
    for (const [number, running] of this.#running) {
      if (running.name === name || (thread !== undefined && number !== thread)) continue
      running.giveUp()
      this.#isDue = true
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
      const restMs = this.#restsUntilMs - performance.now()
      await new Promise((resolve) => {
        setTimeout(resolve, Math.max(restMs, REFRESH_WAIT_MS)).unref()
      })
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
    for (const [name, query] of [...this.#queries]) {
      if (query.thread !== thread) continue
      const isOld = performance.now() - query.askedAtMs > QUERY_REFRESH_MS_MAX
      // Whoever asks meanwhile is heard.
      if (isOld || !(await this.#isKept(name, query))) {
        if (this.#queries.get(name) === query) this.#queries.delete(name)
      }
    }
  }

  async #isKept(name: string, query: RefreshedQuery<Task>): Promise<boolean> {
    const { thread } = query
    try {
      return await this.#refresh(query, (giveUp) => this.#running.set(thread, { name, giveUp }))
    } catch {
      // Given up or refused: the next one to ask hears why, if that lasts.
      return true
    } finally {
      this.#running.delete(thread)
    }
  }
}
