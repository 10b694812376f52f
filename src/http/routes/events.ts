/**
 * Reading stored events and ingestion warnings. The reads themselves run in the pool; here parameters
 * become a query, and a page becomes an envelope with a link to the next one.
 * Source: docs/COMPATIBILITY.md, "Reading events".
 *
 * All three routes need the scope `event:read`: a warning tells about events and nothing else.
 */

import { ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { PAGE_EVENTS_DEFAULT, PAGE_EVENTS_MAX } from '../../base/limits.ts'
import type { EventQueries } from '../../engine/threads/calls.ts'
import type { EventListQuery } from '../../rules/events/event-queries.ts'
import { authorise, type KeyDirectory } from '../server/auth.ts'
import {
  limitParameter,
  textParameter,
  timeParameter,
  urlWithParameter,
} from '../server/query-string.ts'
import type { Answer } from '../server/respond.ts'
import type { ApiRequest, Route } from '../server/router.ts'
import { baseUrl, type TrustedProxies } from '../server/url.ts'
import { decodeEventCursor, encodeEventCursor, parseEventFilters } from '../shapes/event-list.ts'
import { answerRow, answerRows, wholeRows, wishOf } from './formats.ts'

const PAGE = { default: PAGE_EVENTS_DEFAULT, max: PAGE_EVENTS_MAX }
const SCOPE = 'event:read'
const EVENTS_PATH = '/api/projects/:project_id/events/'

/** What these routes work with. */
export interface EventRoutesOptions {
  readonly directory: KeyDirectory
  readonly queries: EventQueries
  /** For links, without a path; null takes the address from the request. */
  readonly publicUrl: string | null
  readonly trustedProxies: TrustedProxies
}

/** The routes under `/api/projects/:project_id/` that read events. */
export function eventRoutes(options: EventRoutesOptions): readonly Route[] {
  return [
    { method: 'GET', path: EVENTS_PATH, handler: (request) => listEvents(request, options) },
    {
      method: 'GET',
      path: `${EVENTS_PATH}:uuid/`,
      handler: (request) => getEvent(request, options),
    },
    {
      method: 'GET',
      path: '/api/projects/:project_id/ingestion_warnings/',
      handler: (request) => listWarnings(request, options),
    },
  ]
}

async function listEvents(request: ApiRequest, options: EventRoutesOptions): Promise<Answer> {
  const project = authorise(request, options.directory, SCOPE)
  const query = parseListQuery(request, project.id)
  // Before the wait: the address of the peer is lost when the client leaves.
  const base = baseUrl(request, options)
  const page = await options.queries.listEvents(query, wishOf(request, 'json'))
  const next =
    page.nextCursor === null
      ? null
      : urlWithParameter(request, base, 'cursor', encodeEventCursor(page.nextCursor))
  return answerRows('json', page, 'results', { next })
}

async function getEvent(request: ApiRequest, options: EventRoutesOptions): Promise<Answer> {
  const project = authorise(request, options.directory, SCOPE)
  const bytes = parseUuid(request.parameter('uuid'))
  const event =
    bytes === null ? null : await options.queries.getEvent(project.id, formatUuid(bytes, 0))
  if (event === null) {
    throw new ServiceError('not_found', 'the project has no event with this uuid')
  }
  return answerRow('json', event)
}

async function listWarnings(request: ApiRequest, options: EventRoutesOptions): Promise<Answer> {
  const project = authorise(request, options.directory, SCOPE)
  const limit = limitParameter(request, PAGE)
  const page = await options.queries.listWarnings(project.id, limit, wishOf(request, 'json'))
  return answerRows('json', wholeRows(page), 'results', { next: null })
}

/** Throws 400 `invalid_input` with the parameter as `attr`. Empty parameters count as absent. */
function parseListQuery(request: ApiRequest, projectId: number): EventListQuery {
  const distinctId = textParameter(request, 'distinct_id')
  const personId = personParameter(request)
  const event = textParameter(request, 'event')
  const afterMs = timeParameter(request, 'after')
  const beforeMs = timeParameter(request, 'before')
  const properties = textParameter(request, 'properties')
  const cursor = textParameter(request, 'cursor')
  return {
    projectId,
    limit: limitParameter(request, PAGE),
    ...(distinctId === null ? {} : { distinctId }),
    ...(personId === null ? {} : { personId }),
    ...(event === null ? {} : { event }),
    ...(afterMs === null ? {} : { afterMs }),
    ...(beforeMs === null ? {} : { beforeMs }),
    ...(properties === null ? {} : { properties: parseEventFilters(properties) }),
    ...(cursor === null ? {} : { cursor: decodeEventCursor(cursor) }),
  }
}

function personParameter(request: ApiRequest): string | null {
  const text = textParameter(request, 'person_id')
  if (text === null) return null
  const bytes = parseUuid(text)
  if (bytes === null) {
    throw new ServiceError('invalid_input', 'person_id must be a uuid', { attr: 'person_id' })
  }
  return formatUuid(bytes, 0)
}
