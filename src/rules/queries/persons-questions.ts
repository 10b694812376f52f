/**
 * The entry point for the questions of the analytic routes of persons: which persons or groups are behind a point of a
 * chart? Source: docs/compatibility/analytics.md, "Analytic person routes".
 */
import type { ActorPage, AnalyticContext, Inquiry } from '../analytics/analytic-query.ts'
import type { EventScanner } from '../analytics/event-columns.ts'
import { correlationActors } from '../analytics/funnel/correlation.ts'
import { funnelActors } from '../analytics/funnel/funnel.ts'
import { pathActors } from '../analytics/path/path.ts'
import type { AnalyticKind, AnalyticQuestion, ParametersOf } from '../analytics/questions.ts'
import { trendsActors } from '../analytics/trends.ts'
import { lifecycleActors } from './lifecycle-query.ts'
import { retentionActors } from './retention/retention-actors.ts'
import { stickinessActors } from './stickiness-query.ts'

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

/** Answers a question. Throws 400 for an invalid question, and as `EventScanner.scan`. */
export function runQuestion(
  { kind, parameters }: AnalyticQuestion,
  context: AnalyticContext,
  scanner: EventScanner,
): ActorPage {
  // A question has the parameters of its kind.
  const answer = ANSWERS[kind] as (inquiry: Inquiry) => ActorPage
  return answer({ parameters, context, scanner })
}
