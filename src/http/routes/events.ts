/**
 * The routes that read stored events and ingestion warnings. The worker pool does the reading. This file turns
 * parameters into queries, and adds to each page of results a link to the next page. Source:
 * docs/compatibility/events.md, "Reading events".
 *
 * All routes need the scope `event:read`, also those for warnings, because a warning describes an event.
 */
import { ServiceError } from '../../base/errors.ts'
import { DROPPED_DAYS_MAX } from '../../base/limits.ts'
import type { DroppedQueries, EventQueries } from '../../engine/threads/call-table.ts'
import { DROP_REASONS, LOSS_REASONS } from '../../rules/capture/drop-reasons.ts'
import { PERSON_MODES } from '../../rules/capture/types.ts'
import type { EventCursor } from '../../rules/events/event-queries.ts'
import { timeParameter } from '../server/input.ts'
import {
  CURSOR,
  decodeCursor,
  encodeCursor,
  LIMIT,
  limitOf,
  PAGE_LIMITS,
  urlWith,
} from '../server/pages.ts'
import {
  type AnyRoute,
  done,
  inProject,
  type Resource,
  type RouteServices,
  routesOf,
} from '../server/route.ts'
import * as is from '../server/schema.ts'
import { criteriaOf, EVENT_CRITERIA } from './event-criteria.ts'
import { EXPORT_ROUTES, type ExportServices } from './event-export.ts'
import { FATE_ROUTES, type FateServices } from './event-fates.ts'
import { STREAM_ROUTES, type StreamServices } from './event-stream.ts'
import { answerRow, answerRows, wholeRows, wishOf } from './formats.ts'

const KEPT_MS = DROPPED_DAYS_MAX * 86_400_000
const BLOCK_MAX = 2 ** 48 - 1
const PLACE_MAX = 2 ** 32 - 1

const EVENT_PERSON = is.namedObject(
  'EventPerson',
  {
    uuid: is.UUID,
    distinct_ids: is.list(is.TEXT),
    properties: is.JSON_OBJECT,
    is_identified: is.BOOLEAN,
    created_at: is.TIME,
  },
  { distinct_ids_count: is.WHOLE },
)
const EVENT = is.namedObject(
  'Event',
  {
    id: is.WHOLE,
    uuid: is.UUID,
    event: is.TEXT,
    distinct_id: is.TEXT,
    timestamp: is.TIME,
    created_at: is.TIME,
    properties: is.JSON_OBJECT,
    person: is.nullable(EVENT_PERSON),
    person_id: is.UUID,
    person_mode: is.choice(...PERSON_MODES),
    elements_chain: is.TEXT,
  },
  { historical_migration: is.BOOLEAN },
)
const WARNING = is.namedObject('IngestionWarning', {
  type: is.TEXT,
  timestamp: is.TIME,
  details: is.JSON_OBJECT,
  count: is.WHOLE,
})
const DROPPED = is.namedObject('DroppedEvent', {
  uuid: is.UUID,
  timestamp: is.about(is.TIME, 'When the event arrived.'),
  reason: is.choice(...LOSS_REASONS),
  event: is.nullable(is.TEXT),
  distinct_id: is.nullable(is.TEXT),
  data: is.about(is.TEXT, 'The first 1024 bytes of the event as JSON.'),
  bytes: is.about(is.WHOLE, 'Length of the JSON.'),
})
const DROPPED_COUNT = is.namedObject('DroppedCount', {
  hour: is.about(is.TIME, 'Start of the hour of arrival.'),
  reason: is.choice(...DROP_REASONS),
  count: is.WHOLE,
  last_seen_at: is.about(is.TIME, 'Arrival of the last of these events.'),
})
const REASON = is.refused(
  is.choice(...LOSS_REASONS),
  `\`reason\` must be one of ${LOSS_REASONS.join(', ')}.`,
)

/** The services that the routes of dropped events need. */
export interface DroppedServices extends RouteServices {
  readonly queries: DroppedQueries
}

/** The services that the routes of events need. */
export interface EventServices extends RouteServices {
  readonly queries: EventQueries
}

const droppedRoute = routesOf<DroppedServices>(
  '/api/projects/:project_id/',
  inProject('event:read'),
)
const route = routesOf<EventServices>('/api/projects/:project_id/', inProject('event:read'))

/** The routes that read events and warnings. */
export const EVENT_ROUTES: readonly AnyRoute<EventServices>[] = [
  route('GET', 'events/', 'listEvents', 'Lists events, newest first.', {
    query: is.options({
      ...EVENT_CRITERIA,
      limit: LIMIT,
      cursor: CURSOR,
    }),
    answers: { 200: done(is.object({ next: is.nullable(is.TEXT), results: is.list(EVENT) })) },
    async respond(call) {
      const { request, services } = call
      const { limit, cursor } = call.query()
      const query = {
        ...criteriaOf(call, call.query()),
        limit: limitOf(limit, PAGE_LIMITS),
        ...(cursor === undefined ? {} : { cursor: decodeEventCursor(cursor) }),
      }
      const page = await services.queries.listEvents(query, wishOf(request, 'json'))
      const next =
        page.nextCursor === null
          ? null
          : urlWith(call, { cursor: encodeEventCursor(page.nextCursor) })
      return answerRows('json', page, 'results', { next })
    },
  }),
  route('GET', 'events/:uuid/', 'getEvent', 'Shows one event by its UUID.', {
    answers: { 200: done(EVENT) },
    async respond(call) {
      const uuid = call.uuid('uuid')
      const { queries } = call.services
      const event = uuid === null ? null : await queries.getEvent(call.projectId, uuid)
      if (event !== null) return answerRow('json', event)
      throw new ServiceError('not_found', 'The project has no event with this UUID.')
    },
  }),
  route(
    'GET',
    'ingestion_warnings/',
    'listIngestionWarnings',
    'Lists ingestion warnings, newest first.',
    {
      query: is.options({ limit: LIMIT }),
      answers: { 200: done(is.object({ next: is.NOTHING, results: is.list(WARNING) })) },
      async respond(call) {
        const limit = limitOf(call.query().limit, PAGE_LIMITS)
        const page = await call.services.queries.listWarnings(
          call.projectId,
          limit,
          wishOf(call.request, 'json'),
        )
        return answerRows('json', wholeRows(page), 'results', { next: null })
      },
    },
  ),
]

/**
 * The routes that read dropped events: events that were accepted but are not stored. docs/compatibility/events.md,
 * "Dropped events".
 */
const DROPPED_ROUTES: readonly AnyRoute<DroppedServices>[] = [
  droppedRoute(
    'GET',
    'dropped_events/',
    'listDroppedEvents',
    'Lists events that were accepted but not stored, newest first.',
    {
      query: is.options({
        reason: is.about(REASON, 'Return only events that were dropped for this reason.'),
        after: is.about(is.TEXT, 'Return only events that arrived after this time.'),
        before: is.about(is.TEXT, 'Return only events that arrived before this time.'),
        limit: LIMIT,
        cursor: CURSOR,
      }),
      answers: { 200: done(is.object({ next: is.nullable(is.TEXT), results: is.list(DROPPED) })) },
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
  droppedRoute(
    'GET',
    'dropped_events/counts/',
    'countDroppedEvents',
    'Counts the events that were accepted but not stored, by hour and reason.',
    {
      answers: { 200: done(is.object({ results: is.list(DROPPED_COUNT) })) },
      handle: async ({ services, projectId, nowMs }) => ({
        results: await services.queries.countDropped(projectId, nowMs - KEPT_MS),
      }),
    },
  ),
]

/** The routes of events, warnings and dropped events. */
export const EVENT_RESOURCE: Resource<
  EventServices & ExportServices & DroppedServices & StreamServices & FateServices
> = {
  name: 'Events',
  sentence: 'The stored events, and problems found while storing them.',
  routes: [...EVENT_ROUTES, ...EXPORT_ROUTES, ...DROPPED_ROUTES, ...STREAM_ROUTES, ...FATE_ROUTES],
}

/** Returns the text of a cursor. Clients must not interpret it. */
export function encodeEventCursor(cursor: EventCursor): string {
  return encodeCursor(`${cursor.timestampMs},${cursor.id}`)
}

/** Decodes a cursor from `encodeEventCursor`. Throws 400 `invalid_input` for any other text. */
export function decodeEventCursor(text: string): EventCursor {
  return decodeCursor(text, (cursor) => {
    const parts = /^(-?[0-9]{1,15}),([0-9]{1,15})$/.exec(cursor)
    return parts === null ? null : { timestampMs: Number(parts[1]), id: Number(parts[2]) }
  })
}

/** The position in the log of the last event on a page. The next page continues after it. */
interface DroppedCursor {
  /** The number of the log block, at most 48 bits. */
  readonly block: number
  /** The index of the event within the block, at most 32 bits. */
  readonly place: number
}

function encodeDroppedCursor({ block, place }: DroppedCursor): string {
  return encodeCursor(`${block},${place}`)
}

/** Decodes a cursor from `encodeDroppedCursor`. Throws 400 `invalid_input` for any other text. */
function decodeDroppedCursor(text: string): DroppedCursor {
  return decodeCursor(text, (cursor) => {
    const parts = /^([0-9]{1,15}),([0-9]{1,10})$/.exec(cursor)
    const block = Number(parts?.[1])
    const place = Number(parts?.[2])
    return block <= BLOCK_MAX && place <= PLACE_MAX ? { block, place } : null
  })
}
