/**
 * The route that answers analytic queries. A query goes to the analytics threads, and its answer comes back as
 * serialised text. Source: docs/compatibility/queries.md, "Requests".
 */
import { ServiceError } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import type { QueryAnswers } from '../../engine/threads/call-table.ts'
import type { QueryTask } from '../../engine/threads/queries/query-tasks.ts'
import { required } from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import {
  type AnyRoute,
  type Call,
  done,
  inProject,
  type Resource,
  type RouteServices,
  routesOf,
} from '../server/route.ts'
import * as is from '../server/schema.ts'
import { answerRow, inputOf } from './formats.ts'
import type { PersonDirectory } from './persons/person-services.ts'
import type { ComputeInsight } from './saved/saved-services.ts'

/** The services that the query route needs. */
export interface QueryServices extends RouteServices {
  readonly directory: PersonDirectory
  readonly numbers: QueryAnswers
}

const ANSWER = is.namedObject(
  'QueryAnswer',
  {
    results: is.about(is.ANY, 'The answer depends on the kind of the query.'),
    timezone: is.TEXT,
    is_cached: is.BOOLEAN,
    last_refresh: is.TIME,
    next_allowed_client_refresh: is.TIME,
    cache_key: is.TEXT,
    cache_target_age: is.ANY,
    calculation_trigger: is.ANY,
    query_status: is.ANY,
    error: is.ANY,
    hogql: is.ANY,
    timings: is.list(is.ANY),
    modifiers: is.ANY,
  },
  {
    hasMore: is.BOOLEAN,
    columns: is.list(is.TEXT),
    types: is.ANY,
    limit: is.WHOLE,
    offset: is.WHOLE,
    missing_actors_count: is.WHOLE,
    resolved_date_range: is.JSON_OBJECT,
    dateFrom: is.TEXT,
    dateTo: is.TEXT,
    samplingRate: is.JSON_OBJECT,
    usedPreAggregatedTables: is.BOOLEAN,
    // Experiments.
    kind: is.TEXT,
    metric: is.ANY,
    baseline: is.JSON_OBJECT,
    variant_results: is.list(is.JSON_OBJECT),
    stats_method: is.TEXT,
    outlier_bounds: is.list(is.ANY),
    cuped: is.JSON_OBJECT,
    primary_metrics: is.list(is.JSON_OBJECT),
    secondary_metrics: is.list(is.JSON_OBJECT),
    exposed_persons: is.JSON_OBJECT,
    persons_set_aside: is.WHOLE,
    persons_in_several_variants: is.WHOLE,
    sample_ratio_mismatch: is.JSON_OBJECT,
    sample_ratio: is.JSON_OBJECT,
    alpha: is.NUMBER,
    start_date: is.TIME,
    end_date: is.nullable(is.TIME),
    timeseries: is.list(is.JSON_OBJECT),
    total_exposures: is.JSON_OBJECT,
    date_range: is.JSON_OBJECT,
  },
)

const BODY = is.openObject(
  {},
  {
    query: is.about(
      is.ANY,
      'An object whose `kind` names the query, such as TrendsQuery. See the page about queries.',
    ),
    filters_override: is.about(is.ANY, 'Not supported. A value is refused.'),
  },
)

function routesBelow(base: string, id: string): readonly AnyRoute<QueryServices>[] {
  const route = routesOf<QueryServices>(`${base}:project_id/query/`, inProject('query:read'))
  return [
    route('POST', '', `post${id}`, 'Runs a query.', {
      body: BODY,
      answers: { 200: done(ANSWER) },
      errors: ['required', 'unsupported_kind', 'invalid_query', 'query_too_large', 'query_timeout'],
      audits: false,
      respond: answer,
    }),
    route('GET', ':id/', `get${id}`, 'Not supported, because answers are not stored.', {
      answers: {},
      isRefusal: true,
      respond: refuse(
        'There is no such query, because answers are not stored. Send the query again with POST.',
      ),
    }),
    route('POST', ':id/', `post${id}Part`, 'Not supported. There are no routes below a query.', {
      answers: {},
      isRefusal: true,
      audits: false,
      respond: refuse('There is no route below `query/`. Send the query to `query/` itself.'),
    }),
    route(
      'DELETE',
      ':id/',
      `delete${id}`,
      'Cancels a query. No query is ever running, so the answer is empty.',
      {
        answers: { 204: done() },
        audits: false,
        handle: () => {},
      },
    ),
  ]
}

/** The route for numbers over time, funnels, web pages and rows. */
export const QUERY_RESOURCE: Resource<QueryServices> = {
  name: 'Queries',
  sentence:
    'Analytic queries: trends, funnels, retention, paths, web analytics, and rows of events and persons.',
  segments: { id: is.about(is.TEXT, 'Name of the query.') },
  isTable: true,
  routes: [
    ...routesBelow('/api/projects/', 'Query'),
    ...routesBelow('/api/environments/', 'EnvironmentQuery'),
  ],
}

async function answer(call: Call<QueryServices, is.Schema<object>, typeof BODY>): Promise<Answer> {
  const { request, services, projectId } = call
  const { format } = inputOf(call)
  const { query, filters_override } = call.body()
  if (query === undefined || query === null) throw required('query')
  refuseOverride(filters_override)
  const task = taskOf(services, projectId, query, format)
  return answerRow(format, await services.numbers.answer(task, (cancel) => request.onLeave(cancel)))
}

function refuse(detail: string): () => never {
  return () => {
    throw new ServiceError('not_found', detail)
  }
}

/** Refuses filters that override those of the query, because they would change its meaning. */
function refuseOverride(override: unknown): void {
  const values = isObject(override) ? Object.values(override) : [override ?? null]
  const isEmpty = (value: unknown): boolean =>
    value === null || value === '' || (Array.isArray(value) && value.length === 0)
  if (values.every(isEmpty)) return
  const detail = '`filters_override` is not supported. Put the filters into the query.'
  throw new ServiceError('invalid_query', detail, { attr: 'filters_override' })
}

/** Returns the function that runs the queries of insights, in the same threads as the route. */
export function insightAnswers(
  services: Pick<QueryServices, 'numbers' | 'directory' | 'clock'>,
): ComputeInsight {
  return (projectId, question, format) => {
    const query: unknown = JSON.parse(question)
    return services.numbers.answer(taskOf(services, projectId, query, format), () => undefined)
  }
}

function taskOf(
  { directory, clock }: Pick<QueryServices, 'directory' | 'clock'>,
  projectId: number,
  query: unknown,
  format: QueryTask['format'],
): QueryTask {
  const project = directory.projectById(projectId)
  return {
    projectId,
    query,
    format,
    nowMs: clock.now(),
    timezone: project?.timezone ?? 'UTC',
    testAccountFilters: project?.testAccountFilters ?? [],
    pathCleaningFilters: project?.pathCleaningFilters ?? [],
    channelTypeRules: project?.customChannelTypeRules ?? [],
  }
}
