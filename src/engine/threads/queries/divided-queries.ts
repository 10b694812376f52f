/**
 * Divides a query among all analytics threads if this is worthwhile. The query is first sent to one thread. If it
 * concerns few events, or if most of its result is cached, this thread answers it. Otherwise each thread computes a
 * part, and one of them merges the parts and caches the result. If a query of the same shape was divided before, the
 * query is sent to all threads immediately, each for its part. All parts must come from the same state of the store. If
 * they do not, they are computed again, and after some attempts one thread computes the whole query. A repeated query
 * needs no thread as long as nothing was written (kept-answers.ts).
 *
 * While as many queries are being answered as there are threads, none of them is divided. All threads are busy anyway,
 * and the parts of a query would start at different times. Events that are stored in between would change the state of
 * the store, so that all parts would have to be computed again.
 */
import { keepNewest } from '../../../base/maps.ts'
import type { PageWish } from '../../../base/pages.ts'
import type { CallOptions, TaskRunner } from '../../../ports/task-runner.ts'
import type { EventPart } from '../../../rules/analytics/event-columns.ts'
import { isOfOneThread, rowsAsked, shapeOf } from '../../../rules/queries/kinds.ts'
import { LONG_WEIGHT } from '../call-kinds.ts'
import type { Calls } from '../call-table.ts'
import { QUERY_SHAPES_MAX, REMEMBERED_PARTS_MAX, REMEMBERED_QUERY_UNITS_MAX } from '../limits.ts'
import { KeptAnswers } from './kept-answers.ts'
import { memoryOfPart } from './packed-part.ts'
import { QueryRefresher } from './query-refresher.ts'
import type { QueryOutcome, QueryPart, QueryTask } from './query-tasks.ts'

/**
 * The number of attempts to get all parts from the same state of the store. Then one thread computes the whole query.
 */
const TRIES = 3

/** The pool that carries out queries. */
export interface QueryPool extends TaskRunner<Calls> {
  readonly analyticsThreads: number
  /**
   * Changes with each write to a store, and is null while a write is in progress (see `WorkerPool.writeMark`). If it is
   * undefined, writes cannot be noticed.
   */
  readonly writeMark?: number | null
}

interface Answered {
  readonly kind: 'answer'
  readonly text: Uint8Array<ArrayBuffer>
  /** The thread that answered. It may have cached the result. */
  readonly thread: number
}

interface Divided {
  readonly kind: 'divide'
  readonly by: EventPart['by']
  /** The results of all parts, or null if they are not computed yet. */
  readonly parts: readonly QueryPart[] | null
}

type DividedOutcome = Extract<QueryOutcome, { kind: 'divide' }>

/** Runs queries on the threads of a pool. */
export class DividedQueries {
  readonly #pool: QueryPool
  /** For each query, the thread that answered it last, and may have cached its result. */
  readonly #answerers = new Map<string, number>()
  readonly #refresher: QueryRefresher<QueryTask>
  readonly #kept: KeptAnswers
  /**
   * A counter for choosing the threads in turn. The chosen thread merges the parts, or answers a query that is not
   * divided.
   */
  #turns = 0
  /** The number of queries that are being answered, with those that wait for a thread. */
  #answering = 0
  /** For each project and query shape, whether the last such query was divided. */
  readonly #areDivided = new Map<string, boolean>()

  constructor(pool: QueryPool, keptAnswersBytesMax?: number) {
    this.#pool = pool
    this.#kept = new KeptAnswers(() => pool.writeMark ?? null, keptAnswersBytesMax)
    this.#refresher = new QueryRefresher(async ({ task, askedAtMs, thread }, onLeave) => {
      const nowMs = task.nowMs + Math.floor(performance.now() - askedAtMs)
      const ahead: QueryTask = { ...task, nowMs, asked: 'ahead' }
      const options = { onLeave, thread, weight: Number.POSITIVE_INFINITY }
      return (await this.#run(nameOf(task), ahead, false, options)).kind === 'answer'
    })
  }

  /** Call it after the store has changed. Begins to refresh the cached results of queries that are often repeated. */
  storeChanged(): void {
    this.#refresher.storeChanged()
  }

  /** Runs a query for which a client waits. Cancels the refreshes of other queries. */
  async during<Answer>(ask: () => Promise<Answer>, name = ''): Promise<Answer> {
    const end = this.#refresher.beginQuestion(name)
    try {
      return await ask()
    } finally {
      end()
    }
  }

  /** Answers a query; see `QueryAnswers.answer`. */
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

  /** Runs a query on one thread, and caches its answer. */
  async #run(
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
    this.#answering++
    try {
      return await this.#compute(name, task, onLeave)
    } finally {
      this.#answering--
    }
  }

  /** True if a thread would be idle without dividing a query. */
  get #mayDivide(): boolean {
    return this.#answering < this.#pool.analyticsThreads
  }

  async #compute(
    name: string,
    task: QueryTask,
    onLeave: PageWish['onLeave'],
  ): Promise<Uint8Array<ArrayBuffer>> {
    const count = this.#pool.analyticsThreads
    const leaving = forAll(onLeave)
    const known = this.#answerers.get(name)
    const asked = known ?? (isOfOneThread(task.query) ? task.projectId % count : null)
    const own = asked === null ? {} : { thread: asked }
    // Waiting queries that only count run before a query that lists many rows.
    const weight = Math.max(LONG_WEIGHT, rowsAsked(task.query))
    const query: QueryTask = known === undefined ? task : { ...task, asked: 'again' }
    const shape = `${task.projectId} ${shapeOf(task.query)}`
    const mayDivide = this.#mayDivide
    const isForAll = asked === null && mayDivide && this.#areDivided.get(shape) === true
    const options = { ...leaving, ...own, weight }
    const turn = this.#turns++ % count
    const watch = new StepWatch()
    const first = isForAll
      ? await watch.during((onTurn) => this.#askAll(query, turn, { ...options, onTurn }))
      : await this.#askOne(name, query, mayDivide, options)
    if (asked === null && mayDivide) {
      keepNewest(this.#areDivided, shape, first.kind === 'divide', QUERY_SHAPES_MAX)
    }
    if (first.kind === 'answer') {
      this.#remember(name, first.thread)
      return first.text
    }
    const rest = (): QueryTask => ({ ...task, spentMs: watch.spentMs })
    let { parts } = first
    for (let attempt = 0; attempt < TRIES && (parts !== null || this.#mayDivide); attempt++) {
      parts ??= await watch.during((onTurn) =>
        Promise.all(
          Array.from({ length: count }, (_, index) => {
            const part: EventPart = { by: first.by, index, count }
            const onPart = { ...leaving, thread: index, onTurn }
            return this.#pool.run('queryPart', [rest(), part], onPart)
          }),
        ),
      )
      const found = parts
      const toMerger = { ...leaving, thread: known ?? turn }
      const merged = await watch.during((onTurn) =>
        this.#merge(rest(), found, { ...toMerger, onTurn }),
      )
      if (merged !== null) {
        this.#remember(name, merged.thread)
        return merged.text
      }
      parts = null
    }
    const whole = await this.#askOne(name, rest(), false, { ...leaving, weight })
    if (whole.kind !== 'answer') throw new TypeError('a query that may not be divided was divided')
    this.#remember(name, whole.thread)
    return whole.text
  }

  /**
   * Merges all parts on one thread. Returns null if the parts come from different states of the store, or if the query
   * needs a newer state than that of the parts.
   */
  async #merge(
    task: QueryTask,
    parts: readonly QueryPart[],
    options: CallOptions & { readonly thread: number },
  ): Promise<Answered | null> {
    if (parts.some(({ state }) => state !== parts[0]?.state)) return null
    const transferList = parts.flatMap(({ found }) => found.flatMap(memoryOfPart))
    const merged = await this.#pool.run('queryMerge', [task, parts], { ...options, transferList })
    return merged.kind === 'stale' ? null : { ...merged, thread: options.thread }
  }

  /** Sends the query to one thread. The thread either answers the query or says how to divide it. */
  async #askOne(
    name: string,
    task: QueryTask,
    mayDivide: boolean,
    options: CallOptions,
  ): Promise<Answered | Divided> {
    let thread = 0
    const onTurn = (turn: number): void => {
      thread = turn
    }
    const outcome = await this.#run(name, task, mayDivide, { ...options, onTurn })
    if (outcome.kind === 'answer') return { ...outcome, thread }
    if (outcome.kind === 'divide') return { ...outcome, parts: null }
    throw new TypeError(`nobody asked for what is ${outcome.kind}`)
  }

  /**
   * Sends the query to all threads at once, each for its part. If one of them can answer the whole query, the work of
   * the others is canceled.
   */
  #askAll(task: QueryTask, answerer: number, options: CallOptions): Promise<Answered | Divided> {
    const count = this.#pool.analyticsThreads
    const giveUps: (() => void)[] = []
    const onLeave = (giveUp: () => void): void => {
      giveUps.push(giveUp)
      options.onLeave?.(giveUp)
    }
    const ask = async (index: number): Promise<QueryOutcome> => {
      const turn = { index, count, isAnswerer: index === answerer }
      return await this.#pool.run('query', [task, true, turn], {
        ...options,
        onLeave,
        thread: index,
      })
    }
    return new Promise((resolve, reject) => {
      const asked = Array.from({ length: count }, async (_, thread) => {
        const outcome = await ask(thread)
        if (outcome.kind !== 'answer') return outcome
        resolve({ ...outcome, thread })
        for (const giveUp of giveUps) giveUp()
        return outcome
      })
      Promise.all(asked)
        .then((outcomes) => {
          const divided = outcomes.filter(({ kind }) => kind === 'divide') as DividedOutcome[]
          const parts = divided.flatMap(({ part }) => part ?? [])
          const by = divided[0]?.by
          // Some threads may not have returned a part, because the threads have read different states of the store, and
          // only some of these states have enough events to divide the query. All parts are then computed again.
          if (by === undefined) throw new TypeError('nobody answers')
          resolve({ kind: 'divide', by, parts: parts.length === count ? parts : null })
        })
        .catch(reject)
    })
  }

  #remember(name: string, thread: number | undefined): void {
    if (name === '' || thread === undefined) return
    const queriesMax = REMEMBERED_PARTS_MAX * this.#pool.analyticsThreads
    keepNewest(this.#answerers, name, thread, queriesMax)
  }
}

/**
 * Measures how long the steps of a query run. All steps together must not exceed the time limit of one query. The limit
 * does not include the time for which a step waits for a thread.
 */
class StepWatch {
  /** The sum of the running times of all finished steps, in milliseconds. */
  spentMs = 0

  /**
   * Runs a step. `onTurn` must be called each time a thread begins with the step or with a part of it. The last of these
   * calls counts, because threads that began earlier may have had to wait for the other parts. A part that began
   * earlier can therefore have run for longer than what is counted.
   */
  async during<Result>(step: (onTurn: () => void) => Promise<Result>): Promise<Result> {
    let startedAtMs = performance.now()
    const result = await step(() => {
      startedAtMs = performance.now()
    })
    this.spentMs += performance.now() - startedAtMs
    return result
  }
}

/** Returns a text that identifies a query, or '' if the query is too long for its answer to be cached. */
function nameOf(task: QueryTask): string {
  const { projectId, query, format, timezone, experiment = null } = task
  const { testAccountFilters, pathCleaningFilters, channelTypeRules } = task
  const rules = [testAccountFilters, pathCleaningFilters, channelTypeRules]
  const text = JSON.stringify([projectId, query, format, timezone, rules, experiment])
  return text.length > REMEMBERED_QUERY_UNITS_MAX ? '' : text
}

/** Returns an `onLeave` for several calls. All of them are canceled when the client leaves. */
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
