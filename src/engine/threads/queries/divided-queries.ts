/**
 * A query on all threads for analytics at once: one reads it and, when it concerns few events or remembers
 * most of what is asked for, answers; else each computes its part, and one of them merges, which remembers
 * what came out. What is like a query that was divided is asked of all threads at once, each for its part. All
 * parts have to be of the same state of the store: otherwise they are computed again, and at last by one thread
 * alone. What is asked again while nothing was written needs no thread (kept-answers.ts).
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

/** How often parts of different states are computed again. */
const TRIES = 3

/** Where queries are carried out. */
export interface QueryPool extends TaskRunner<Calls> {
  readonly analyticsThreads: number
  /** What is written, as `KeptAnswers` wants to know it. Absent: nobody knows. */
  readonly writeMark?: number | null
}

interface Answered {
  readonly kind: 'answer'
  readonly text: Uint8Array<ArrayBuffer>
  /** Who made it, and may remember what came out. */
  readonly thread: number
}

interface Divided {
  readonly kind: 'divide'
  readonly by: EventPart['by']
  /** Null: nobody has computed them. */
  readonly parts: readonly QueryPart[] | null
}

type DividedOutcome = Extract<QueryOutcome, { kind: 'divide' }>

/** Queries on the threads of a pool. */
export class DividedQueries {
  readonly #pool: QueryPool
  /** The number of the thread that answered a query, and may remember what came out. */
  readonly #answerers = new Map<string, number>()
  readonly #refresher: QueryRefresher<QueryTask>
  readonly #kept: KeptAnswers
  /** Whose turn it is to merge, or to answer what may be divided. */
  #turns = 0
  /** By project and shape: whether queries like that were divided. */
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

  /** Carries out a query on one thread, and keeps what it answers. */
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
    const count = this.#pool.analyticsThreads
    const leaving = forAll(onLeave)
    const known = this.#answerers.get(name)
    const asked = known ?? (isOfOneThread(task.query) ? task.projectId % count : null)
    const own = asked === null ? {} : { thread: asked }
    // A page of many rows lets what counts go first, so that nobody waits for a list of them.
    const weight = Math.max(LONG_WEIGHT, rowsAsked(task.query))
    const query: QueryTask = known === undefined ? task : { ...task, asked: 'again' }
    const shape = `${task.projectId} ${shapeOf(task.query)}`
    const isForAll = asked === null && count > 1 && this.#areDivided.get(shape) === true
    const options = { ...leaving, ...own, weight }
    const turn = this.#turns++ % count
    // All steps have the time of one query together, in which none waits for its turn or only reads it.
    let startedAtMs = 0
    const onTurn = (): void => {
      startedAtMs = performance.now()
    }
    const first = isForAll
      ? await this.#askAll(query, turn, { ...options, onTurn })
      : await this.#askOne(name, query, count > 1, options)
    if (!isForAll) onTurn()
    if (asked === null) {
      keepNewest(this.#areDivided, shape, first.kind === 'divide', QUERY_SHAPES_MAX)
    }
    if (first.kind === 'answer') {
      this.#remember(name, first.thread)
      return first.text
    }
    const rest = (): QueryTask => ({ ...task, spentMs: performance.now() - startedAtMs })
    let { parts } = first
    for (let attempt = 0; attempt < TRIES; attempt++) {
      parts ??= await Promise.all(
        Array.from({ length: count }, (_, index) => {
          const part: EventPart = { by: first.by, index, count }
          return this.#pool.run('queryPart', [rest(), part], { ...leaving, thread: index })
        }),
      )
      const toMerger = { ...leaving, thread: known ?? turn }
      const merged = await this.#merge(rest(), parts, toMerger)
      if (merged !== null) {
        this.#remember(name, merged.thread)
        return merged.text
      }
      parts = null
    }
    const whole = await this.#pool.run('query', [rest(), false], leaving)
    if (whole.kind === 'answer') return whole.text
    throw new TypeError('a query that may not be divided was divided')
  }

  /** One thread makes the answer of all parts; null: they are not of one state. */
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

  /** Asks one thread, which answers or says that the query is to be divided. */
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
   * Asks all threads at once, each for its part: what is to be divided needs no thread that says so first. Who can
   * answer all of it does, and the others are given up.
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
          // They saw different states, and one of them too few events.
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
