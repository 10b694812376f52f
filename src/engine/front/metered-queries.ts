/** Counts and times analytic queries on their way to the threads that answer them. */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type {
  AnalyticAnswer,
  AnalyticQueries,
  AnalyticQuery,
} from '../../rules/analytics/analytics.ts'
import type { ServiceMetrics } from './service-metrics.ts'

/** Answers as the queries behind it. */
export class MeteredQueries implements AnalyticQueries {
  readonly #queries: AnalyticQueries
  readonly #metrics: Pick<ServiceMetrics, 'queries' | 'querySeconds'>
  readonly #clock: Clock

  constructor(
    queries: AnalyticQueries,
    metrics: Pick<ServiceMetrics, 'queries' | 'querySeconds'>,
    clock: Clock,
  ) {
    this.#queries = queries
    this.#metrics = metrics
    this.#clock = clock
  }

  async analyse(
    query: AnalyticQuery,
    onCancel: (cancel: () => void) => void,
  ): Promise<AnalyticAnswer> {
    const startedAtMs = this.#clock.monotonic()
    const { kind } = query.question
    let outcome = 'ok'
    try {
      return await this.#queries.analyse(query, onCancel)
    } catch (error) {
      outcome = error instanceof ServiceError ? 'refused' : 'failed'
      throw error
    } finally {
      this.#metrics.queries.with(kind, outcome).value++
      const elapsedMs = this.#clock.monotonic() - startedAtMs
      this.#metrics.querySeconds.with(kind).observe(elapsedMs / 1000)
    }
  }
}
