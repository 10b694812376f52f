/**
 * The questions of the analytic routes of persons as one: what can be asked, what is answered, and which
 * algorithm answers it. Shapes of what crosses threads. Source: docs/compatibility/analytics.md, "Analytic person
 * routes".
 */

import type { RowFormat } from '../../base/pages.ts'
import type { ActorPage, AnalyticContext } from './analytic-query.ts'
import type { EventScanner } from './event-columns.ts'
import { correlationActors } from './funnel/correlation.ts'
import { funnelActors } from './funnel/funnel.ts'
import type { CorrelationParameters, FunnelParameters } from './funnel/funnel-shapes.ts'
import { lifecycleActors } from './lifecycle.ts'
import { pathActors } from './path/path.ts'
import type { PathParameters } from './path/path-shapes.ts'
import type {
  LifecycleParameters,
  RetentionParameters,
  StickinessParameters,
  TrendsParameters,
} from './question-shapes.ts'
import { retentionRows } from './retention.ts'
import { stickinessActors } from './stickiness.ts'
import { trendsActors } from './trends.ts'

/** What is asked. */
export type AnalyticQuestion =
  | { readonly kind: 'trends'; readonly parameters: TrendsParameters }
  | { readonly kind: 'funnel'; readonly parameters: FunnelParameters }
  | { readonly kind: 'correlation'; readonly parameters: CorrelationParameters }
  | { readonly kind: 'lifecycle'; readonly parameters: LifecycleParameters }
  | { readonly kind: 'path'; readonly parameters: PathParameters }
  | { readonly kind: 'retention'; readonly parameters: RetentionParameters }
  | { readonly kind: 'stickiness'; readonly parameters: StickinessParameters }

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

/** A page of an answer before its persons are looked up. */
export interface AnalyticPage extends ActorPage {
  /** For each actor; null for all but retention. */
  readonly appearances: readonly (readonly number[])[] | null
  /** As in `AnalyticAnswer`. */
  readonly totals: readonly number[] | null
}

/** Answers a question. Throws 400 for what cannot be asked, and as `EventScanner.scan`. */
export function runQuestion(
  question: AnalyticQuestion,
  context: AnalyticContext,
  scanner: EventScanner,
): AnalyticPage {
  if (question.kind !== 'retention') {
    return { ...actorsOf(question, context, scanner), appearances: null, totals: null }
  }
  const { rows, isFull, total, totals } = retentionRows(question.parameters, context, scanner)
  return {
    actors: rows.map(({ person }) => ({ kind: 'person', person, value: null })),
    appearances: rows.map(({ appearances }) => appearances),
    isFull,
    total,
    totals,
  }
}

function actorsOf(
  question: Exclude<AnalyticQuestion, { readonly kind: 'retention' }>,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  switch (question.kind) {
    case 'trends':
      return trendsActors(question.parameters, context, scanner)
    case 'funnel':
      return funnelActors(question.parameters, context, scanner)
    case 'correlation':
      return correlationActors(question.parameters, context, scanner)
    case 'lifecycle':
      return lifecycleActors(question.parameters, context, scanner)
    case 'path':
      return pathActors(question.parameters, context, scanner)
    case 'stickiness':
      return stickinessActors(question.parameters, context, scanner)
  }
}
