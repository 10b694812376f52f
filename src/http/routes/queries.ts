/**
 * The route that answers analytic queries. It sends a query to the analytics threads and receives the answer as
 * finished text. Source: docs/compatibility/queries.md, "Requests".
 */
import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import type { QueryAnswers } from '../../engine/threads/call-table.ts'
import type { OrganizationPort } from '../../engine/threads/organization-tasks.ts'
import type { QueryTask } from '../../engine/threads/queries/query-tasks.ts'
import { definitionOf } from '../../rules/experiments/edit/definition-of.ts'
import type { ExperimentDefinition } from '../../rules/experiments/experiment-definition.ts'
import type { Flag } from '../../rules/flags/types.ts'
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
import { EXPERIMENT_ANSWER_MEMBERS } from './experiments/experiment-results.ts'
import { answerRow, inputOf } from './formats.ts'
import type { PersonDirectory } from './persons/person-services.ts'
import type { ComputeInsight } from './saved/saved-services.ts'

/** The services that the query route needs. */
export interface QueryServices extends RouteServices {
  readonly directory: PersonDirectory
  readonly numbers: QueryAnswers
  /** Reads the stored experiments that queries name. */
  readonly queries: OrganizationPort
  readonly flags: {
    /** Returns a flag of a project, even if it is deleted. Returns null if there is no such flag. */
    flagById(projectId: number, id: number): Flag | null
  }
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
    ...EXPERIMENT_ANSWER_MEMBERS,
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
      'Does nothing. A query ends with its request, so there is none to cancel.',
      {
        answers: { 204: done() },
        audits: false,
        handle: () => {},
      },
    ),
  ]
}

/** The route of analytic queries: numbers over time, funnels, web pages, and rows of events and persons. */
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
  const task = await taskOf(services, projectId, query, format)
  return answerRow(format, await services.numbers.answer(task, (cancel) => request.onLeave(cancel)))
}

function refuse(detail: string): () => never {
  return () => {
    throw new ServiceError('not_found', detail)
  }
}

/**
 * Throws 400 for filters that override the filters of the query. They are not supported, and ignoring them would change
 * the meaning of the request.
 */
function refuseOverride(override: unknown): void {
  const values = isObject(override) ? Object.values(override) : [override ?? null]
  const isEmpty = (value: unknown): boolean =>
    value === null || value === '' || (Array.isArray(value) && value.length === 0)
  if (values.every(isEmpty)) return
  const detail = '`filters_override` is not supported. Put the filters into the query.'
  throw new ServiceError('invalid_query', detail, { attr: 'filters_override' })
}

/** Returns the function that runs the queries of insights. They run in the same threads as the queries of the route. */
export function insightAnswers(
  services: Pick<QueryServices, 'numbers' | TaskServices>,
): ComputeInsight {
  return async (projectId, question, format) => {
    const query: unknown = JSON.parse(question)
    const task = await taskOf(services, projectId, query, format)
    return services.numbers.answer(task, () => undefined)
  }
}

type TaskServices = 'directory' | 'clock' | 'queries' | 'flags'

async function taskOf(
  services: Pick<QueryServices, TaskServices>,
  projectId: number,
  query: unknown,
  format: QueryTask['format'],
): Promise<QueryTask> {
  const { directory, clock } = services
  // A query that names no stored experiment needs nothing from the store, so it is sent to the threads at once.
  const isAboutStored = isObject(query) && namesExperiment(query)
  const experiment = isAboutStored ? await storedExperiment(services, projectId, query) : undefined
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
    ...(experiment === undefined ? {} : { experiment }),
  }
}

/**
 * Returns true if a query names a stored experiment by its number. A query can also contain the whole experiment
 * instead.
 */
function namesExperiment({ kind, experiment, feature_flag: flag }: JsonObject): boolean {
  const isKind = kind === 'ExperimentQuery' || kind === 'ExperimentExposureQuery'
  return isKind && experiment === undefined && flag === undefined
}

/**
 * Returns the definition of the stored experiment named in a query. Returns undefined if there is none. Throws 400 if
 * the flag of the experiment can no longer have an experiment.
 */
async function storedExperiment(
  { queries, flags }: Pick<QueryServices, TaskServices>,
  projectId: number,
  { experiment_id: id }: JsonObject,
): Promise<ExperimentDefinition | undefined> {
  if (typeof id !== 'number') return undefined
  const view = await queries.organization('getExperiment', { projectId, id })
  if (view === null || view.experiment.isDeleted) return undefined
  const flag = flags.flagById(projectId, view.experiment.fields.flag_id)
  return flag === null ? undefined : definitionOf(view, flag)
}
