/**
 * A query on all threads for analytics at once: one reads it and, when it concerns few events or remembers
 * most of what is asked for, answers; else each computes its part, and one of them merges, which remembers
 * what came out. All parts have to be of the same state of the store: otherwise they are computed again, and
 * at last by one thread alone.
 */
import { keepNewest } from '../../../base/maps.ts'
import type { PageWish } from '../../../base/pages.ts'
import type { TaskRunner } from '../../../ports/task-runner.ts'
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import { isOfOneThread, rowsAsked } from '../../../rules/queries/kinds.ts'
import { LONG_WEIGHT } from '../call-kinds.ts'
import type { Calls } from '../call-table.ts'
import { REMEMBERED_PARTS_MAX, REMEMBERED_QUERY_UNITS_MAX } from '../limits.ts'
import { memoryOfPart } from './packed-part.ts'
import { QueryRefresher } from './query-refresher.ts'
import type { QueryTask } from './query-tasks.ts'

/** How often parts of different states are computed again. */
const TRIES = 3

/** Queries on the threads of a pool. */
export class DividedQueries {
  readonly #pool: TaskRunner<Calls> & { readonly analyticsThreads: number }
  /** The number of the thread that answered a query, and may remember what came out. */
  readonly #answerers = new Map<string, number>()
  readonly #refresher: QueryRefresher<QueryTask>
  #merges = 0

  constructor(pool: TaskRunner<Calls> & { readonly analyticsThreads: number }) {
    this.#pool = pool
    this.#refresher = new QueryRefresher(async ({ task, askedAtMs, thread }, onLeave) => {
      const nowMs = task.nowMs + Math.floor(performance.now() - askedAtMs)
      const ahead: QueryTask = { ...task, nowMs, isAhead: true }
      const options = { onLeave, thread, weight: Number.POSITIVE_INFINITY }
      const outcome = await pool.run('query', [ahead, false], options)
      return outcome.kind === 'ahead' && outcome.isRemembered
    })
  }

  /** What is asked again and again is brought up to date. */
  eventsStored(): void {
    this.#refresher.eventsStored()
  }

  /** Whatever the threads do ahead gives way to a question that somebody waits for. */
  async during<Answer>(ask: () => Promise<Answer>, name = ''): Promise<Answer> {
    const end = this.#refresher.beginQuestion(name)
    try {
      return await ask()
    } finally {
      end()
    }
  }

  /** As `QueryAnswers.answer`. */
  answer(task: QueryTask, onLeave: PageWish['onLeave']): Promise<Uint8Array<ArrayBuffer>> {
    const name = nameOf(task)
    return this.during(() => this.#answer(name, task, onLeave), name)
  }

  async #answer(
    name: string,
    task: QueryTask,
    onLeave: PageWish['onLeave'],
  ): Promise<Uint8Array<ArrayBuffer>> {
    const count = this.#pool.analyticsThreads
    const leaving = forAll(onLeave)
    const known = this.#answerers.get(name)
    const asked = known ?? (isOfOneThread(task.query) ? task.projectId % count : null)
    const own = asked === null ? {} : { thread: asked }
    if (known !== undefined) {
      this.#refresher.keep(name, { task, askedAtMs: performance.now(), thread: known })
    }
    let turn: number | undefined
    const onTurn = (thread: number): void => {
      turn = thread
    }
    // A page of many rows lets what counts go first, so that nobody waits for a list of them.
    const weight = Math.max(LONG_WEIGHT, rowsAsked(task.query))
    const options = { ...leaving, ...own, weight, onTurn }
    const first = await this.#pool.run('query', [task, count > 1], options)
    if (first.kind === 'answer') {
      this.#remember(name, turn)
      return first.text
    }
    if (first.kind === 'ahead') throw new TypeError('a query was taken for one that nobody asked')
    // All that follows has the time of one query together.
    const startedAtMs = performance.now()
    const rest = (): QueryTask => ({ ...task, spentMs: performance.now() - startedAtMs })
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const parts = await Promise.all(
        Array.from({ length: count }, (_, index) => {
          const part: EventPart = { by: first.by, index, count }
          return this.#pool.run('queryPart', [rest(), part], { ...leaving, thread: index })
        }),
      )
      const [one] = parts
      if (one === undefined || parts.some(({ state }) => state !== one.state)) continue
      const transferList = parts.flatMap(({ found }) => memoryOfPart(found))
      const thread = known ?? this.#merges++ % count
      const toMerger = { ...leaving, transferList, thread }
      const merged = await this.#pool.run('queryMerge', [rest(), parts], toMerger)
      if (merged.kind === 'stale') continue
      this.#remember(name, thread)
      return merged.text
    }
    const whole = await this.#pool.run('query', [rest(), false], leaving)
    if (whole.kind === 'answer') return whole.text
    throw new TypeError('a query that may not be divided was divided')
  }

  #remember(name: string, thread: number | undefined): void {
    if (name === '' || thread === undefined) return
    const queriesMax = REMEMBERED_PARTS_MAX * this.#pool.analyticsThreads
    keepNewest(this.#answerers, name, thread, queriesMax)
  }
}

/** What tells a query from others; empty: it is too long to be kept. */
function nameOf({ projectId, query }: QueryTask): string {
  const text = JSON.stringify(query)
  return text.length > REMEMBERED_QUERY_UNITS_MAX ? '' : `${projectId} ${text}`
}

/** Lets several calls be given up together. */
function forAll(onLeave: PageWish['onLeave']): Pick<PageWish, 'onLeave'> {
  const cancels = new Set<() => void>()
  let hasLeft = false
  onLeave(() => {
    hasLeft = true
    for (const cancel of cancels) cancel()
  })
  return {
    onLeave(cancel) {
      cancels.add(cancel)
      if (hasLeft) cancel()
    },
  }
}
