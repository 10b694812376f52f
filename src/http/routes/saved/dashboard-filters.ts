/** Checks the filters of a dashboard, which every query on it is asked under. Source: docs/compatibility/saved.md, "Dashboards". */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import type { JsonObject } from '../../../base/json.ts'
import { planQuery } from '../../../rules/queries/kinds.ts'

/** What a query needs to be read. Whether a text is a date depends on none of it. */
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
/** Where members of these queries come from. */
const ATTRS: readonly (readonly [query: string, filters: string])[] = [
  ['dateRange.', 'filters.'],
  ['properties', 'filters.properties'],
]

/** Throws 400 `invalid_input` for filters that no query could be asked under: dates or properties that cannot be read. */
export function checkDashboardFilters(filters: JsonObject, nowMs: number): void {
  const { date_from, date_to, properties } = filters
  // Queries on a dashboard take properties besides their own, so these are a list.
  if (properties !== undefined && properties !== null && !Array.isArray(properties)) {
    throw invalidInput('filters.properties', 'must be a list of filters')
  }
  const under = {
    dateRange: { date_from: date_from ?? null, date_to: date_to ?? null },
    properties: properties ?? [],
  }
  const fault = faultOf({ ...NUMBER, ...under }, nowMs)
  // Only queries of web analytics take properties of sessions.
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
