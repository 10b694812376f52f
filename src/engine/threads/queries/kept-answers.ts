/**
 * Finished answers of queries that are asked again and again, so that one that is asked while nothing has changed
 * needs no thread. Source: docs/ARCHITECTURE.md, "Queries".
 */
import { RecentValues } from '../../../base/maps.ts'
import { answerAt } from '../../../rules/queries/answer.ts'
import { KEPT_ANSWER_BYTES_MAX, KEPT_ANSWERS_BYTES_MAX } from '../limits.ts'
import type { QueryOutcome, QueryTask } from './query-tasks.ts'

interface KeptAnswer {
  /** What it answers. */
  readonly task: QueryTask
  readonly text: Uint8Array<ArrayBuffer>
  readonly sameUntilMs: number
}

/** The answers, all of one state of the stores. */
export class KeptAnswers {
  readonly #markNow: () => number | null
  #mark: number | null = null
  readonly #bytesMax: number
  #answers: RecentValues<KeptAnswer>

  /**
   * `markNow` says what has been written: another number than before, something new; null: something is being
   * written, or nobody knows.
   */
  constructor(markNow: () => number | null, bytesMax: number = KEPT_ANSWERS_BYTES_MAX) {
    this.#markNow = markNow
    this.#bytesMax = bytesMax
    this.#answers = noAnswers(bytesMax)
  }

  /** The text of the answer as it is now; null: a thread has to make it. `name` tells the query from others. */
  find(name: string, { nowMs }: QueryTask): Uint8Array<ArrayBuffer> | null {
    if (this.#mark === null || this.#markNow() !== this.#mark) return null
    const kept = this.#answers.get(name)
    if (kept === undefined || nowMs < kept.task.nowMs || nowMs > kept.sameUntilMs) return null
    return answerAt(kept.text, kept.task, nowMs)
  }

  /** Keeps what a thread answered, unless something may have been written since `mark`, which was before that. */
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
