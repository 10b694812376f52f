/**
 * The analytic routes of persons, which list the people behind a point in a chart. The parameters of a request become a
 * question for the analytics threads. The answer has the form that charts of this kind expect. Source:
 * docs/compatibility/analytics.md, "Analytic person routes", "Funnels and correlation" and "Paths".
 */
import { ServiceError } from '../../../base/errors.ts'
import type { RowFormat } from '../../../base/pages.ts'
import type { AnalyticAnswer } from '../../../rules/analytics/analytics.ts'
import { type RowPage, readTruth } from '../../../rules/analytics/question-shapes.ts'
import {
  type AnalyticKind,
  type AnalyticQuestion,
  isCorrelationRequest,
  lifecycleMessage,
  readQuestion,
} from '../../../rules/analytics/questions.ts'
import { urlWith } from '../../server/pages.ts'
import type { RequestParameters } from '../../server/parameters.ts'
import type { Answer } from '../../server/respond.ts'
import {
  type AnyRoute,
  done,
  inProject,
  type Resource,
  type RouteRecord,
  routesOf,
} from '../../server/route.ts'
import { json } from '../../server/router.ts'
import { type Members, openObject, type Schema } from '../../server/schema.ts'
import { answerRow, answerRows, inputOf } from '../formats.ts'
import {
  ACTOR_PAGE,
  CHART_ACTOR_PAGE,
  CORRELATION_QUERY,
  FUNNEL_QUERY,
  LIFECYCLE_QUERY,
  PATH_QUERY,
  RETENTION_PAGE,
  RETENTION_QUERY,
  STICKINESS_QUERY,
  TRENDS_QUERY,
} from './analytic-schemas.ts'
import type { PersonCall, PersonServices } from './person-services.ts'

/** The values in which the analytic routes differ from each other. */
type AnalyticRoute = Pick<RouteRecord, 'summary'> & {
  readonly name: string
  /** The end of the operation IDs, such as `Trends`. */
  readonly id: string
  readonly query: Schema
  readonly answer?: Schema
  readonly kind: AnalyticKind
}

const route = routesOf<PersonServices>(
  '/api/projects/:project_id/persons/',
  inProject('person:read'),
)

function recordOf({ answer = CHART_ACTOR_PAGE, kind }: AnalyticRoute) {
  return {
    answers: { 200: done(answer) },
    errors: ['query_timeout'],
    audits: false,
    respond: (call: PersonCall) => answerQuestion(call, kind),
  } as const
}

function get(spec: AnalyticRoute): AnyRoute<PersonServices> {
  const { name, id, summary, query } = spec
  return route('GET', `${name}/`, `get${id}`, summary, { ...recordOf(spec), query })
}

/**
 * Returns a GET route and a POST route for the same question. A client uses POST if the parameters are too long for a
 * URL.
 */
function getAndPost(spec: AnalyticRoute): readonly AnyRoute<PersonServices>[] {
  const { name, id, summary, query } = spec
  const record = { ...recordOf(spec), body: openObject({}, query['properties'] as Members) }
  return [get(spec), route('POST', `${name}/`, `post${id}`, summary, record)]
}

/** The routes that list the people behind a number in a chart. */
export const ANALYTIC_RESOURCE: Resource<PersonServices> = {
  name: 'Analytics',
  sentence:
    'The people behind a number of a chart. The parameters are those of the links in charts.',
  isTable: true,
  routes: [
    get({
      name: 'trends',
      id: 'TrendsPersons',
      summary: 'Lists the people of one point of a trend.',
      query: TRENDS_QUERY,
      kind: 'trends',
    }),
    get({
      name: 'lifecycle',
      id: 'LifecyclePersons',
      summary: 'Lists new, returning or lost people.',
      query: LIFECYCLE_QUERY,
      answer: ACTOR_PAGE,
      kind: 'lifecycle',
    }),
    get({
      name: 'retention',
      id: 'RetentionPersons',
      summary: 'Lists people by the periods in which they came back.',
      query: RETENTION_QUERY,
      answer: RETENTION_PAGE,
      kind: 'retention',
    }),
    get({
      name: 'stickiness',
      id: 'StickinessPersons',
      summary: 'Lists people by the number of periods in which they were active.',
      query: STICKINESS_QUERY,
      answer: ACTOR_PAGE,
      kind: 'stickiness',
    }),
    ...getAndPost({
      name: 'funnel',
      id: 'FunnelPersons',
      summary: 'Lists the people of one funnel step.',
      query: FUNNEL_QUERY,
      kind: 'funnel',
    }),
    ...getAndPost({
      name: 'funnel/correlation',
      id: 'CorrelationPersons',
      summary: 'Lists people of a funnel who have an event or property in common.',
      query: CORRELATION_QUERY,
      kind: 'correlation',
    }),
    ...getAndPost({
      name: 'path',
      id: 'PathPersons',
      summary: 'Lists people who followed a path.',
      query: PATH_QUERY,
      kind: 'path',
    }),
  ],
}

async function answerQuestion(call: PersonCall, kind: AnalyticKind): Promise<Answer> {
  const { request, services, projectId, nowMs } = call
  const { parameters, format } = inputOf(call)
  let question: AnalyticQuestion
  try {
    // Charts request correlations from the route of funnels, too.
    const isCorrelation = kind === 'funnel' && isCorrelationRequest(parameters)
    question = readQuestion(isCorrelation ? 'correlation' : kind, parameters)
  } catch (error) {
    return missingParameter(error)
  }
  const project = services.directory.projectById(projectId)
  const query = {
    projectId,
    nowMs,
    timezone: project?.timezone ?? 'UTC',
    testAccountFilters: project?.testAccountFilters ?? [],
    question,
    format,
  }
  const answer = await services.analytics.analyse(query, (cancel) => request.onLeave(cancel))
  return pageOfPeople(call, parameters, format, question, answer)
}

/**
 * Returns the answer if `error` says that a lifecycle request lacks a required parameter. The body of the answer has
 * the additional member `message`. Throws any other error again.
 */
function missingParameter(error: unknown): Answer {
  const message = error instanceof ServiceError ? lifecycleMessage(error) : null
  if (message === null || !(error instanceof ServiceError)) throw error
  return json({ ...error.toBody(), message }, error.status)
}

function pageOfPeople(
  call: PersonCall,
  parameters: RequestParameters,
  format: RowFormat,
  question: AnalyticQuestion,
  answer: AnalyticAnswer,
): Answer {
  const { rows, count, missingPersons } = answer
  if (format === 'csv') return answerRow(format, rows)
  const { next, initial } = pageLinks(call, parameters, question, answer)
  const isTotalWanted = readTruth(parameters, 'include_total')
  const total = isTotalWanted ? { total: answer.total } : {}
  if (question.kind === 'retention') {
    const totals = isTotalWanted ? { ...total, totals: answer.totals } : {}
    const behind = { next, missing_persons: missingPersons, ...totals }
    return answerRows(format, answer, 'result', {}, behind)
  }
  if (question.kind === 'lifecycle' || question.kind === 'stickiness') {
    return around('{"results":[{"people":', rows, { count }, { next, ...total })
  }
  const page = {
    next,
    initial,
    missing_persons: missingPersons,
    is_cached: false,
    last_refresh: new Date(call.services.clock.now()).toISOString(),
    ...total,
  }
  return around('{"results":[{"people":', rows, { count }, page)
}

/**
 * Returns an answer with rows that a worker thread has written as text: `opening`, the rows, the members of `inner`,
 * and the members of `outer`. For example, `{"results":[{"people":[...],"count":3}],"next":null}` has `count` from
 * `inner` and `next` from `outer`.
 */
function around(opening: string, rows: Uint8Array, inner: object, outer: object): Answer {
  const members = JSON.stringify(inner).slice(1)
  const closing = `${members}],${JSON.stringify(outer).slice(1)}`
  const body = [Buffer.from(opening), rows, Buffer.from(`,${closing}`)]
  return { status: 200, contentType: 'application/json', body }
}

/**
 * Returns the URLs of other pages of the same request. If the page size was in the body, the URLs contain it as a
 * parameter.
 */
function pageLinks(
  call: PersonCall,
  parameters: RequestParameters,
  question: AnalyticQuestion,
  { isFull, cutAfter }: AnalyticAnswer,
): { readonly next: string | null; readonly initial: string } {
  const prefix = question.kind === 'correlation' ? 'funnel_correlation_person_' : ''
  const { limit, offset }: RowPage = question.parameters.page
  const size = parameters.isInBody(`${prefix}limit`) ? { [`${prefix}limit`]: limit } : {}
  const link = (start: number): string => urlWith(call, { ...size, [`${prefix}offset`]: start })
  return { next: isFull ? link(offset + (cutAfter ?? limit)) : null, initial: link(0) }
}
