/**
 * The analytic routes of persons: who is behind a point of a chart. Parameters become a question for the
 * threads for analytics, its answer one of the forms that charts know. Source: docs/COMPATIBILITY.md,
 * "Analytic person routes", "Funnels and correlation" and "Paths".
 */
import { ServiceError } from '../../base/errors.ts'
import type { RowFormat } from '../../base/pages.ts'
import type {
  AnalyticAnswer,
  AnalyticQueries,
  AnalyticQuestion,
} from '../../rules/analytics/analytics.ts'
import {
  isCorrelationRequest,
  readCorrelationParameters,
  readFunnelParameters,
} from '../../rules/analytics/funnel/funnel-shapes.ts'
import { readPathParameters } from '../../rules/analytics/path/path-shapes.ts'
import {
  lifecycleMessage,
  type RowPage,
  readLifecycleParameters,
  readRetentionParameters,
  readStickinessParameters,
  readTrendsParameters,
  readTruth,
} from '../../rules/analytics/question-shapes.ts'
import { RequestParameters, urlWith } from '../server/parameters.ts'
import type { Answer } from '../server/respond.ts'
import { type ApiHandler, json, type Route } from '../server/router.ts'
import { answerRow, answerRows, formatOf } from './formats.ts'
import { type Access, openAccess, type PersonRoutesOptions } from './person-access.ts'

const PERSONS_PATH = '/api/projects/:project_id/persons/'

/** What these routes work with. */
export interface AnalyticRoutesOptions extends PersonRoutesOptions {
  readonly analytics: AnalyticQueries
}

/** Makes the question of a route out of its parameters. */
type ReadQuestion = (parameters: RequestParameters) => AnalyticQuestion

/** The analytic routes under `/api/projects/:project_id/persons/`. */
export function personAnalyticRoutes(options: AnalyticRoutesOptions): readonly Route[] {
  const route = (method: Route['method'], name: string, read: ReadQuestion): Route => {
    const handler: ApiHandler = (request) =>
      answerQuestion(openAccess(request, options, 'person:read'), options.analytics, read)
    return { method, path: `${PERSONS_PATH}${name}/`, handler, isRead: true }
  }
  return [
    route('GET', 'trends', readTrends),
    route('GET', 'lifecycle', readLifecycle),
    route('GET', 'retention', readRetention),
    route('GET', 'stickiness', readStickiness),
    route('GET', 'funnel', readFunnel),
    route('POST', 'funnel', readFunnel),
    route('GET', 'funnel/correlation', readCorrelation),
    route('POST', 'funnel/correlation', readCorrelation),
    route('GET', 'path', readPath),
    route('POST', 'path', readPath),
  ]
}

function readTrends(parameters: RequestParameters): AnalyticQuestion {
  return { kind: 'trends', parameters: readTrendsParameters(parameters) }
}

function readLifecycle(parameters: RequestParameters): AnalyticQuestion {
  return { kind: 'lifecycle', parameters: readLifecycleParameters(parameters) }
}

function readRetention(parameters: RequestParameters): AnalyticQuestion {
  return { kind: 'retention', parameters: readRetentionParameters(parameters) }
}

function readStickiness(parameters: RequestParameters): AnalyticQuestion {
  return { kind: 'stickiness', parameters: readStickinessParameters(parameters) }
}

/** Charts send questions about correlation to the route of funnels, too. */
function readFunnel(parameters: RequestParameters): AnalyticQuestion {
  if (isCorrelationRequest(parameters)) return readCorrelation(parameters)
  return { kind: 'funnel', parameters: readFunnelParameters(parameters) }
}

function readCorrelation(parameters: RequestParameters): AnalyticQuestion {
  return { kind: 'correlation', parameters: readCorrelationParameters(parameters) }
}

function readPath(parameters: RequestParameters): AnalyticQuestion {
  return { kind: 'path', parameters: readPathParameters(parameters) }
}

async function answerQuestion(
  access: Access,
  analytics: AnalyticQueries,
  read: ReadQuestion,
): Promise<Answer> {
  const { request, options, projectId } = access
  const parameters = new RequestParameters(request)
  const format = formatOf(request, parameters)
  let question: AnalyticQuestion
  try {
    question = read(parameters)
  } catch (error) {
    return missingParameter(error)
  }
  const project = options.directory.projectById(projectId)
  const nowMs = options.clock.now()
  const query = {
    projectId,
    nowMs,
    timezone: project?.timezone ?? 'UTC',
    testAccountFilters: project?.testAccountFilters ?? [],
    question,
    format,
  }
  const answer = await analytics.analyse(query, (cancel) => request.onLeave(cancel))
  return answerPage(access, parameters, format, question, answer)
}

/** A lifecycle without its parameters is answered in a form of its own. Throws any other error. */
function missingParameter(error: unknown): Answer {
  const message = error instanceof ServiceError ? lifecycleMessage(error) : null
  if (message === null || !(error instanceof ServiceError)) throw error
  return json({ ...error.toBody(), message }, error.status)
}

function answerPage(
  access: Access,
  parameters: RequestParameters,
  format: RowFormat,
  question: AnalyticQuestion,
  answer: AnalyticAnswer,
): Answer {
  const { rows, count, missingPersons } = answer
  if (format === 'csv') return answerRow(format, rows)
  const { next, initial } = pageLinks(access, parameters, question, answer)
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
    last_refresh: new Date(access.options.clock.now()).toISOString(),
    ...total,
  }
  return around('{"results":[{"people":', rows, { count }, page)
}

/** A body around finished rows: `inner` ends the object that they are in, `outer` that around its list. */
function around(opening: string, rows: Uint8Array, inner: object, outer: object): Answer {
  const members = JSON.stringify(inner).slice(1)
  const closing = `${members}],${JSON.stringify(outer).slice(1)}`
  const body = [Buffer.from(opening), rows, Buffer.from(`,${closing}`)]
  return { status: 200, contentType: 'application/json', body }
}

/** The same request at another place; what a body says about pages is repeated in the link. */
function pageLinks(
  { request, base }: Access,
  parameters: RequestParameters,
  question: AnalyticQuestion,
  { isFull, cutAfter }: AnalyticAnswer,
): { readonly next: string | null; readonly initial: string } {
  const prefix = question.kind === 'correlation' ? 'funnel_correlation_person_' : ''
  const { limit, offset }: RowPage = question.parameters.page
  const size = parameters.isInBody(`${prefix}limit`) ? { [`${prefix}limit`]: limit } : {}
  const link = (start: number): string =>
    urlWith(request, base, { ...size, [`${prefix}offset`]: start })
  return { next: isFull ? link(offset + (cutAfter ?? limit)) : null, initial: link(0) }
}
