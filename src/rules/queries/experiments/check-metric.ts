/**
 * Checks whether a metric can be computed, before it is stored. The check reads the metric as a query does. Source:
 * docs/compatibility/experiments.md, "Metrics".
 */
import type { JsonObject } from '../../../base/json.ts'
import { QueryFields } from '../query-fields.ts'
import type { QueryContext } from '../query-kind.ts'
import { readMetric } from './experiment-plan.ts'

/**
 * A context in which every action exists, because a stored metric may use an action that is created or deleted later.
 */
const ANY_PROJECT: Omit<QueryContext, 'nowMs'> = {
  projectId: 0,
  timezone: 'UTC',
  testAccountFilters: [],
  action: () => ({ name: '', steps: [] }),
  cohortName: () => null,
  firstEventMs: () => null,
}

/**
 * Throws 400 `invalid_query` if no query can compute a metric. The error text contains `path`, the path to the metric
 * within the request.
 */
export function checkMetricQuery(metric: JsonObject, path: string, nowMs: number): void {
  readMetric(new QueryFields(metric, path), null, { ...ANY_PROJECT, nowMs })
}
