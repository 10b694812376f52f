/**
 * A query on all threads for analytics at once: one reads it and, when it concerns few events or remembers
 * most of what is asked for, answers; else each computes its part, and one of them merges, which remembers
 * what came out. All parts have to be of the same state of the store: otherwise they are computed again, and
 * at last by one thread alone.
 */
import { keepNewest } from '../../../base/maps.ts'
import type { PageWish } from '../../../base/pages.ts'
import type { CallOptions, TaskRunner } from '../../../ports/task-runner.ts'
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import { isOfOneThread, rowsAsked } from '../../../rules/queries/kinds.ts'
import { LONG_WEIGHT } from '../call-kinds.ts'
import type { Calls } from '../call-table.ts'
import { REMEMBERED_PARTS_MAX, REMEMBERED_QUERY_UNITS_MAX } from '../limits.ts'
import { KeptAnswers } from './kept-answers.ts'
import { memoryOfPart } from './packed-part.ts'
import { QueryRefresher } from './query-refresher.ts'
import type { QueryOutcome, QueryTask } from './query-tasks.ts'

/** How often parts of different states are computed again. */
const TRIES = 3

/** Where queries are carried out. */
export interface QueryPool extends TaskRunner<Calls> {
  readonly analyticsThreads: number
  /** What is written, as `KeptAnswers` wants to know it. Absent: nobody knows. */
  readonly writeMark?: number | null
}

/** Queries on the threads of a pool. */
export class DividedQueries {
  readonly #pool: QueryPool
  /** The number of the thread that answered a query, and may remember what came out. */
  readonly #answerers = new Map<string, number>()
  readonly #refresher: QueryRefresher<QueryTask>
  readonly #kept: KeptAnswers
  #merges = 0

  constructor(pool: QueryPool) {
    this.#pool = pool
    this.#kept = new KeptAnswers(() => pool.writeMark ?? null)
    this.#refresher = new QueryRefresher(async ({ task, askedAtMs, thread }, onLeave) => {
      const nowMs = task.nowMs + Math.floor(performance.now() - askedAtMs)
      const ahead: QueryTask = { ...task, nowMs, asked: 'ahead' }
      const options = { onLeave, thread, weight: Number.POSITIVE_INFINITY }
      return (await this.#first(nameOf(task), ahead, false, options)).kind === 'answer'
    })
  }

  /** What is asked again and again is brought up to date. */
  storeChanged(): void {
    this.#refresher.storeChanged()
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
    const thread = this.#answerers.get(name)
    if (thread !== undefined) {
      this.#refresher.keep(name, { task, askedAtMs: performance.now(), thread })
    }
    const kept = this.#kept.find(name, task)
    if (kept !== null) return Promise.resolve(kept)
    return this.during(() => this.#answer(name, task, onLeave), name)
  }

  /** Asks one thread, and keeps what it answers. */
  async #first(
    name: string,
    task: QueryTask,
    mayDivide: boolean,
    options: CallOptions,
  ): Promise<QueryOutcome> {
    const mark = this.#pool.writeMark ?? null
    const outcome = await this.#pool.run('query', [task, mayDivide], options)
    this.#kept.keep(name, task, outcome, mark)
    return outcome
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
    let turn: number | undefined
    const onTurn = (thread: number): void => {
      turn = thread
    }
    // A page of many rows lets what counts go first, so that nobody waits for a list of them.
    const weight = Math.max(LONG_WEIGHT, rowsAsked(task.query))
    const options = { ...leaving, ...own, weight, onTurn }
    const query: QueryTask = known === undefined ? task : { ...task, asked: 'again' }
    const first = await this.#first(name, query, count > 1, options)
    if (first.kind === 'answer') {
      this.#remember(name, turn)
      return first.text
    }
    if (first.kind === 'forgotten')
      throw new TypeError('a query was taken for one that nobody asked')
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
function nameOf(task: QueryTask): string {
  const { projectId, query, format, timezone } = task
  const { testAccountFilters, pathCleaningFilters, channelTypeRules } = task
  const rules = [testAccountFilters, pathCleaningFilters, channelTypeRules]
  const text = JSON.stringify([projectId, query, format, timezone, rules])
  return text.length > REMEMBERED_QUERY_UNITS_MAX ? '' : text
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
