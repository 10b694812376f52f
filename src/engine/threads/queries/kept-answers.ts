/**
 * Caches the finished answers of queries on the main thread, so that a repeated query needs no thread as long as
 * nothing has changed. Source: docs/ARCHITECTURE.md, "Queries".
 */
import { RecentValues } from '../../../base/maps.ts'
import { answerAt } from '../../../rules/queries/answer-formats.ts'
import { KEPT_ANSWER_BYTES_MAX, KEPT_ANSWERS_BYTES_MAX } from '../limits.ts'
import type { QueryOutcome, QueryTask } from './query-tasks.ts'

interface KeptAnswer {
  /** The query to which `text` is the answer. */
  readonly task: QueryTask
  readonly text: Uint8Array<ArrayBuffer>
  readonly sameUntilMs: number
}

/** The cached answers. All of them come from the same state of the stores. */
export class KeptAnswers {
  readonly #markNow: () => number | null
  #mark: number | null = null
  readonly #bytesMax: number
  #answers: RecentValues<KeptAnswer>

  /**
   * `markNow` returns a number that changes with each write. It returns null while a write is in progress, or if writes
   * cannot be noticed.
   */
  constructor(markNow: () => number | null, bytesMax: number = KEPT_ANSWERS_BYTES_MAX) {
    this.#markNow = markNow
    this.#bytesMax = bytesMax
    this.#answers = noAnswers(bytesMax)
  }

  /**
   * Returns the text of a cached answer that is still valid, or null if a thread has to compute the answer. `name`
   * identifies the query.
   */
  find(name: string, { nowMs }: QueryTask): Uint8Array<ArrayBuffer> | null {
    if (this.#mark === null || this.#markNow() !== this.#mark) return null
    const kept = this.#answers.get(name)
    if (kept === undefined || nowMs < kept.task.nowMs || nowMs > kept.sameUntilMs) return null
    return answerAt(kept.text, kept.task, nowMs)
  }

  /**
   * Caches an answer that a thread has computed. Does nothing if something may have been written in the meantime.
   * `mark` is the result of `markNow` before the query began.
   */
  keep(name: string, task: QueryTask, outcome: QueryOutcome, mark: number | null): void {
    if (outcome.kind !== 'answer' || outcome.sameUntilMs < task.nowMs || name === '') return
    const { text, sameUntilMs } = outcome
    if (mark === null || mark !== this.#markNow() || text.length > KEPT_ANSWER_BYTES_MAX) return
    if (mark !== this.#mark) this.#answers = noAnswers(this.#bytesMax)
    this.#mark = mark
    this.#answers.keep(name, { task, text, sameUntilMs })
  }
}

function noAnswers(bytesMax: number): RecentValues<KeptAnswer> {
  return new RecentValues(bytesMax, ({ text }) => text.length)
}
