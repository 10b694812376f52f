/**
 * Checks the filters of a dashboard, which apply to every query on it. Source: docs/compatibility/saved.md,
 * "Dashboards".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import type { JsonObject } from '../../../base/json.ts'
import { planQuery } from '../../../rules/queries/kinds.ts'

/** A context in which a query can be planned. Whether the filters are valid does not depend on it. */
const CONTEXT = {
  projectId: 0,
  timezone: 'UTC',
  testAccountFilters: [],
  action: () => null,
  cohortName: () => null,
  firstEventMs: () => null,
}
const NUMBER = {
  kind: 'TrendsQuery',
  series: [{ kind: 'EventsNode' }],
  trendsFilter: { display: 'BoldNumber' },
}
/**
 * Filters are tested by putting them into a query, so an error names a member of this query. This table translates the
 * beginning of that name to the beginning of the filter's name, which the client has sent.
 */
const ATTRS: readonly (readonly [query: string, filters: string])[] = [
  ['dateRange.', 'filters.'],
  ['properties', 'filters.properties'],
]

/**
 * Throws 400 `invalid_input` for filters that would make every query on the dashboard fail, such as invalid dates or
 * properties.
 */
export function checkDashboardFilters(filters: JsonObject, nowMs: number): void {
  const { date_from, date_to, explicitDate, properties } = filters
  // The filters are appended to the list of filters of each query on the dashboard, so they must be a list.
  if (properties !== undefined && properties !== null && !Array.isArray(properties)) {
    throw invalidInput('filters.properties', 'must be a list of filters')
  }
  const under = {
    dateRange: {
      date_from: date_from ?? null,
      date_to: date_to ?? null,
      explicitDate: explicitDate ?? null,
    },
    properties: properties ?? [],
  }
  const fault = faultOf({ ...NUMBER, ...under }, nowMs)
  // Only queries of web analytics accept filters on sessions. The filters are therefore valid if the trends query or
  // the web query accepts them.
  if (fault !== null && faultOf({ kind: 'WebOverviewQuery', ...under }, nowMs) !== null) throw fault
}

function faultOf(query: JsonObject, nowMs: number): ServiceError | null {
  try {
    planQuery(query, { ...CONTEXT, nowMs })
    return null
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const { attr } = error
    const found = ATTRS.find(([name]) => attr?.startsWith(name))
    if (attr === null || found === undefined) return error
    const [name, renamed] = found
    const detail = error.message.replace(attr, attr.replace(name, renamed))
    return new ServiceError('invalid_input', detail, {
      attr: attr.replace(name, renamed),
      cause: error,
    })
  }
}
