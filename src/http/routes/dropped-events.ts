/**
 * Events that were accepted and are not stored, and how many they were. Source: docs/compatibility/events.md,
 * "Dropped events". They hold what clients have sent, so the scope is that of events.
 */
import { DROPPED_DAYS_MAX } from '../../base/limits.ts'
import type { DroppedQueries } from '../../engine/threads/call-table.ts'
import { DROP_REASONS, LOSS_REASONS } from '../../rules/capture/drop-reasons.ts'
import {
  CURSOR,
  decodeCursor,
  encodeCursor,
  LIMIT,
  limitOf,
  PAGE_LIMITS,
  urlWith,
} from '../server/pages.ts'
import { timeParameter } from '../server/query-string.ts'
import { type AnyRoute, done, inProject, type RouteServices, routesOf } from '../server/route.ts'
import * as is from '../server/schema.ts'

const KEPT_MS = DROPPED_DAYS_MAX * 86_400_000
const BLOCK_MAX = 2 ** 48 - 1
const PLACE_MAX = 2 ** 32 - 1

const EVENT = is.namedObject('DroppedEvent', {
  uuid: is.UUID,
  timestamp: is.about(is.TIME, 'Its arrival.'),
  reason: is.choice(...LOSS_REASONS),
  event: is.nullable(is.TEXT),
  distinct_id: is.nullable(is.TEXT),
  data: is.about(is.TEXT, 'The first 1024 bytes of its JSON.'),
  bytes: is.about(is.WHOLE, 'The length of its JSON.'),
})
const COUNT = is.namedObject('DroppedCount', {
  hour: is.about(is.TIME, 'The begin of the hour of arrival.'),
  reason: is.choice(...DROP_REASONS),
  count: is.WHOLE,
})
const REASON = is.refused(
  is.choice(...LOSS_REASONS),
  `reason must be one of ${LOSS_REASONS.join(', ')}`,
)

/** What these routes work with. */
export interface DroppedServices extends RouteServices {
  readonly queries: DroppedQueries
}

const route = routesOf<DroppedServices>(
  '/api/projects/:project_id/dropped_events/',
  inProject('event:read'),
)

/** The routes under `/api/projects/:project_id/dropped_events/`. */
export const DROPPED_ROUTES: readonly AnyRoute<DroppedServices>[] = [
  route(
    'GET',
    '',
    'listDroppedEvents',
    'Lists events that were accepted and are not stored, the newest first.',
    {
      query: is.options({
        reason: is.about(REASON, 'Only those that were dropped for it.'),
        after: is.about(is.TEXT, 'Only later arrivals.'),
        before: is.about(is.TEXT, 'Only earlier arrivals.'),
        limit: LIMIT,
        cursor: CURSOR,
      }),
      answers: { 200: done(is.object({ next: is.nullable(is.TEXT), results: is.list(EVENT) })) },
      async handle(call) {
        const { request, services, projectId, nowMs } = call
        const { reason, limit, cursor } = call.query()
        const afterMs = timeParameter(request, 'after')
        const beforeMs = timeParameter(request, 'before')
        const { results, nextCursor } = await services.queries.listDropped({
          projectId,
          limit: limitOf(limit, PAGE_LIMITS),
          afterMs: Math.max(afterMs ?? 0, nowMs - KEPT_MS),
          ...(reason === undefined ? {} : { reason }),
          ...(beforeMs === null ? {} : { beforeMs }),
          ...(cursor === undefined ? {} : { cursor: decodeDroppedCursor(cursor) }),
        })
        if (nextCursor === null) return { next: null, results }
        return { next: urlWith(call, { cursor: encodeDroppedCursor(nextCursor) }), results }
      },
    },
  ),
  route(
    'GET',
    'counts/',
    'countDroppedEvents',
    'Counts accepted events that are not stored, by hour and reason.',
    {
      answers: { 200: done(is.object({ results: is.list(COUNT) })) },
      handle: async ({ services, projectId, nowMs }) => ({
        results: await services.queries.countDropped(projectId, nowMs - KEPT_MS),
      }),
    },
  ),
]

/** The last event of a page, from which the next page goes on. */
interface DroppedCursor {
  /** At most 48 bits. */
  readonly block: number
  /** At most 32 bits. */
  readonly place: number
}

function encodeDroppedCursor({ block, place }: DroppedCursor): string {
  return encodeCursor(`${block},${place}`)
}

/** Throws 400 `invalid_input` for what `encodeDroppedCursor` did not make. */
function decodeDroppedCursor(text: string): DroppedCursor {
  return decodeCursor(text, (cursor) => {
    const parts = /^([0-9]{1,15}),([0-9]{1,10})$/.exec(cursor)
    const block = Number(parts?.[1])
    const place = Number(parts?.[2])
    return block <= BLOCK_MAX && place <= PLACE_MAX ? { block, place } : null
  })
}
