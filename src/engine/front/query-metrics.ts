/** Counts analytic queries and measures how long they take, including the time for which they wait for a thread. */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { AnalyticQueries } from '../../rules/analytics/analytics.ts'
import { kindName } from '../../rules/queries/kinds.ts'
import type { QueryAnswers } from '../threads/call-table.ts'
import type { ServiceMetrics } from './service-metrics.ts'

/** Wraps the methods of `queries` so that each call is counted and measured. */
export function measuredQueries(
  queries: AnalyticQueries & QueryAnswers,
  metrics: Pick<ServiceMetrics, 'queries' | 'querySeconds'>,
  clock: Clock,
): AnalyticQueries & QueryAnswers {
  const measured = async <Answer>(kind: string, ask: () => Promise<Answer>): Promise<Answer> => {
    const startedAtMs = clock.monotonic()
    let outcome = 'ok'
    try {
      return await ask()
    } catch (error) {
      outcome = error instanceof ServiceError ? 'refused' : 'failed'
      throw error
    } finally {
      metrics.queries.with(kind, outcome).value++
      metrics.querySeconds.with(kind).observe((clock.monotonic() - startedAtMs) / 1000)
    }
  }
  return {
    analyse: (query, onCancel) =>
      measured(query.question.kind, () => queries.analyse(query, onCancel)),
    answer: (task, onCancel) =>
      measured(kindName(task.query), () => queries.answer(task, onCancel)),
  }
}
