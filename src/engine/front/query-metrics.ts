/** Counts and times analytic queries on their way to the threads that answer them. */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { AnalyticQueries } from '../../rules/analytics/analytics.ts'
import type { ServiceMetrics } from './service-metrics.ts'

/** Answers as `queries`. */
export function measuredQueries(
  queries: AnalyticQueries,
  metrics: Pick<ServiceMetrics, 'queries' | 'querySeconds'>,
  clock: Clock,
): AnalyticQueries {
  return {
    async analyse(query, onCancel) {
      const startedAtMs = clock.monotonic()
      const { kind } = query.question
      let outcome = 'ok'
      try {
        return await queries.analyse(query, onCancel)
      } catch (error) {
        outcome = error instanceof ServiceError ? 'refused' : 'failed'
        throw error
      } finally {
        metrics.queries.with(kind, outcome).value++
        metrics.querySeconds.with(kind).observe((clock.monotonic() - startedAtMs) / 1000)
      }
    },
  }
}
