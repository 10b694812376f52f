/**
 * Checks whether a metric can be computed, before it is stored. The check reads the metric as a query does. Source:
 * docs/compatibility/experiments.md, "Metrics".
 */
import type { JsonObject } from '../../../base/json.ts'
import { QueryFields } from '../query-fields.ts'
import type { QueryContext } from '../query-kind.ts'
import { readMetric } from './experiment-plan.ts'

/** Finds every action, because an action of a stored metric may be created or deleted later. */
const ANY_PROJECT: Omit<QueryContext, 'nowMs'> = {
  projectId: 0,
  timezone: 'UTC',
  testAccountFilters: [],
  action: () => ({ name: '', steps: [] }),
  cohortName: () => null,
  firstEventMs: () => null,
}

/**
 * Throws 400 `invalid_query` if no query can compute a metric. `path` is the path to the metric. The error contains it.
 */
export function checkMetricQuery(metric: JsonObject, path: string, nowMs: number): void {
  readMetric(new QueryFields(metric, path), null, { ...ANY_PROJECT, nowMs })
}
