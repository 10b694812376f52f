/**
 * The questions of the analytic routes of persons as one: what is answered, and which algorithm answers
 * it. Shapes of what crosses threads. Source: docs/compatibility/analytics.md, "Analytic person routes".
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
  /** How the rows are written. */
  readonly format: RowFormat
}

/** One page of an answer. */
export interface AnalyticAnswer {
  /**
   * A JSON list or a table in UTF-8, in memory of its own: persons and groups as the API shows them, for retention
   * objects of `person` and `appearances`.
   */
  readonly rows: Uint8Array<ArrayBuffer>
  readonly count: number
  /** Actors of all pages, those included that do not exist any more. */
  readonly total: number
  /** How many of them appear in each period; null for all but retention. */
  readonly totals: readonly number[] | null
  /** Another page may follow. */
  readonly isFull: boolean
  /** Places of the page that are here when it ended at its limit of bytes, else null. */
  readonly cutAfter: number | null
  /** Actors of the page that do not exist any more. */
  readonly missingPersons: number
}

/** Reads that the front hands to the threads for analytics. */
export interface AnalyticQueries {
  /**
   * Answers a question. `onCancel` is told what to call when nobody waits any more. Rejects with
   * `ServiceError`: 400, `query_too_large`, `query_timeout`, and 503 when too many questions wait.
   */
  analyse(query: AnalyticQuery, onCancel: (cancel: () => void) => void): Promise<AnalyticAnswer>
}

/** Answers a question. Throws 400 for what cannot be asked, and as `EventScanner.scan`. */
export function runQuestion(
  { kind, parameters }: AnalyticQuestion,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  // A question has the parameters of its kind.
  const answer = ANSWERS[kind] as (inquiry: Inquiry) => ActorPage
  return answer({ parameters, context, scanner })
}
