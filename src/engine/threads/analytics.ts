/**
 * Runs the analytic queries about persons on a thread. A query sees the store as it was at one moment, has a time
 * limit, and is canceled when nobody waits for it any more. The answer is one page, so little data passes between
 * threads.
 */
import {
  type AnalyticAnswer,
  type AnalyticQuery,
  runQuestion,
} from '../../rules/analytics/analytics.ts'
import { actionSteps } from '../../rules/filters/actions.ts'
import type { LongTools } from './call-kinds.ts'
import { queryLimits } from './queries/query-limits.ts'

/** Runs a query until it is finished. Throws the errors with which `AnalyticQueries.analyse` rejects. */
export function runAnalytics(
  {
    stores,
    canceled,
  }: Pick<LongTools, 'canceled'> & {
    readonly stores: Pick<LongTools['stores'], 'reader' | 'warehouse' | 'queryMsMax'>
  },
  query: AnalyticQuery,
): AnalyticAnswer {
  const { question, format, ...facts } = query
  const { projectId } = facts
  const scanner = stores.warehouse.scanner(queryLimits({ stores, canceled }))
  const { persons, actors, position } = stores.reader.answers()
  const context = {
    ...facts,
    actions: (id: number) => {
      const action = persons.action(projectId, id)
      return action === null ? null : actionSteps(action.steps)
    },
  }
  return actors.answerOf(runQuestion(question, context, scanner), projectId, position, format)
}
