/**
 * The entry point for the questions of the analytic routes of persons: selects the algorithm that answers a question.
 * It also contains the types of the data that is passed between threads. Source: docs/compatibility/analytics.md,
 * "Analytic person routes".
 */

import type { RowFormat } from '../../base/pages.ts'
import type { ActorPage, AnalyticContext, Inquiry } from './analytic-query.ts'
import type { EventScanner } from './event-columns.ts'
import { correlationActors } from './funnel/correlation.ts'
import { funnelActors } from './funnel/funnel.ts'
import { lifecycleActors } from './lifecycle.ts'
import { pathActors } from './path/path.ts'
import type { AnalyticKind, AnalyticQuestion, ParametersOf } from './questions.ts'
import { retentionActors } from './retention.ts'
import { stickinessActors } from './stickiness.ts'
import { trendsActors } from './trends.ts'

const ANSWERS: {
  readonly [Kind in AnalyticKind]: (inquiry: Inquiry<ParametersOf<Kind>>) => ActorPage
} = {
  trends: trendsActors,
  funnel: funnelActors,
  correlation: correlationActors,
  lifecycle: lifecycleActors,
  path: pathActors,
  retention: retentionActors,
  stickiness: stickinessActors,
}

/** A question about a project. */
export interface AnalyticQuery extends Omit<AnalyticContext, 'actions'> {
  readonly question: AnalyticQuestion
  /** The format of the rows. */
  readonly format: RowFormat
}

/** One page of the answer to a question. */
export interface AnalyticAnswer {
  /**
   * The rows in UTF-8, as a JSON list or a table. No other array uses the same memory. A row is a person or group as
   * the API shows it. For retention, a row is an object with the members `person` and `appearances`.
   */
  readonly rows: Uint8Array<ArrayBuffer>
  readonly count: number
  /** The number of actors on all pages, including actors that no longer exist. */
  readonly total: number
  /** The number of actors that appear in each period. Null except for retention. */
  readonly totals: readonly number[] | null
  /** True if another page may follow. */
  readonly isFull: boolean
  /**
   * If the page ended early because of its maximum size in bytes: the number of actors before the end, including actors
   * that no longer exist. Otherwise null.
   */
  readonly cutAfter: number | null
  /** The number of actors of the page that no longer exist. */
  readonly missingPersons: number
}

/** The interface through which the HTTP routes ask questions. The questions are answered on the analytics threads. */
export interface AnalyticQueries {
  /**
   * Answers a question. `onCancel` receives the function to call when the client no longer waits for the answer.
   * Rejects with `ServiceError`: 400, `query_too_large`, `query_timeout`, or 503 if too many questions wait.
   */
  analyse(query: AnalyticQuery, onCancel: (cancel: () => void) => void): Promise<AnalyticAnswer>
}

/** Answers a question. Throws 400 for an invalid question, and the same errors as `EventScanner.scan`. */
export function runQuestion(
  { kind, parameters }: AnalyticQuestion,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  // TypeScript cannot see that `parameters` are the parameters of this `kind`.
  const answer = ANSWERS[kind] as (inquiry: Inquiry) => ActorPage
  return answer({ parameters, context, scanner })
}
