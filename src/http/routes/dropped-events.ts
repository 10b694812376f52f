/**
 * Events that were accepted and are not stored, and how many they were. Source: docs/COMPATIBILITY.md,
 * "Dropped events". They hold what clients have sent, so the scope is that of events.
 */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import { DROPPED_DAYS_MAX, PAGE_EVENTS_DEFAULT, PAGE_EVENTS_MAX } from '../../base/limits.ts'
import type { DroppedQueries } from '../../engine/threads/calls.ts'
import { LOSS_REASONS } from '../../rules/capture/types.ts'
import type { DroppedEventsQuery } from '../../rules/events/dropped-events.ts'
import { authorise } from '../server/auth.ts'
import {
  limitParameter,
  textParameter,
  timeParameter,
  urlWithParameter,
} from '../server/query-string.ts'
import type { Answer } from '../server/respond.ts'
import { type ApiRequest, json, type Route } from '../server/router.ts'
import { baseUrl } from '../server/url.ts'
import { decodeDroppedCursor, encodeDroppedCursor } from '../shapes/dropped-events.ts'
import type { EventRoutesOptions } from './events.ts'

const PAGE = { default: PAGE_EVENTS_DEFAULT, max: PAGE_EVENTS_MAX }
const SCOPE = 'event:read'
const PATH = '/api/projects/:project_id/dropped_events/'
const KEPT_MS = DROPPED_DAYS_MAX * 86_400_000

/** What these routes work with. */
export interface DroppedRoutesOptions extends Omit<EventRoutesOptions, 'queries'> {
  readonly queries: DroppedQueries
  readonly clock: Pick<Clock, 'now'>
}

/** The routes under `/api/projects/:project_id/dropped_events/`. */
export function droppedRoutes(options: DroppedRoutesOptions): readonly Route[] {
  return [
    { method: 'GET', path: PATH, handler: (request) => listDropped(request, options) },
    { method: 'GET', path: `${PATH}counts/`, handler: (request) => countDropped(request, options) },
  ]
}

async function listDropped(request: ApiRequest, options: DroppedRoutesOptions): Promise<Answer> {
  const project = authorise(request, options.directory, SCOPE)
  const query = parseQuery(request, project.id, options.clock.now())
  // Before the wait: the address of the peer is lost when the client leaves.
  const base = baseUrl(request, options)
  const { results, nextCursor } = await options.queries.listDropped(query)
  const next =
    nextCursor === null
      ? null
      : urlWithParameter(request, base, 'cursor', encodeDroppedCursor(nextCursor))
  return json({ next, results })
}

async function countDropped(request: ApiRequest, options: DroppedRoutesOptions): Promise<Answer> {
  const project = authorise(request, options.directory, SCOPE)
  const afterMs = options.clock.now() - KEPT_MS
  return json({ results: await options.queries.countDropped(project.id, afterMs) })
}

/** Throws 400 `invalid_input` with the parameter as `attr`. Empty parameters count as absent. */
function parseQuery(request: ApiRequest, projectId: number, nowMs: number): DroppedEventsQuery {
  const reason = textParameter(request, 'reason')
  if (reason !== null && !LOSS_REASONS.some((known) => known === reason)) {
    const detail = `reason must be one of ${LOSS_REASONS.join(', ')}`
    throw new ServiceError('invalid_input', detail, { attr: 'reason' })
  }
  const afterMs = timeParameter(request, 'after')
  const beforeMs = timeParameter(request, 'before')
  const cursor = textParameter(request, 'cursor')
  return {
    projectId,
    limit: limitParameter(request, PAGE),
    afterMs: Math.max(afterMs ?? 0, nowMs - KEPT_MS),
    ...(reason === null ? {} : { reason }),
    ...(beforeMs === null ? {} : { beforeMs }),
    ...(cursor === null ? {} : { cursor: decodeDroppedCursor(cursor) }),
  }
}
