/**
 * The routes that show the fate of events: what happened to them, and especially why some are not stored.
 * docs/compatibility/events.md, "Fates".
 */
import { ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { DROPPED_DAYS_MAX } from '../../base/limits.ts'
import type { RefusedCaptures } from '../../engine/front/refused-captures.ts'
import type { FateQueries } from '../../engine/threads/call-table.ts'
import { DROP_REASONS } from '../../rules/capture/drop-reasons.ts'
import type { EventFate } from '../../rules/events/event-fate.ts'
import { type IngestionFate, sentenceOf } from '../../rules/events/ingestion-fates.ts'
import { FATE_BODY_UNITS_MAX, FATE_SAMPLES_MAX } from '../../rules/events/limits.ts'
import { type AnyRoute, done, inProject, type RouteServices, routesOf } from '../server/route.ts'
import * as is from '../server/schema.ts'

/** The services that these routes need. */
export interface FateServices extends RouteServices {
  readonly queries: Pick<FateQueries, 'eventFate' | 'ingestionFates'>
  readonly refused: Pick<RefusedCaptures, 'of'>
}

const KEPT_MS = DROPPED_DAYS_MAX * 86_400_000

const FATE = is.namedObject('EventFate', {
  uuid: is.UUID,
  status: is.about(
    is.choice('stored', 'waiting', 'dropped', 'dead_letter', 'erased', 'unknown'),
    'waiting: accepted but not processed yet. unknown: the server has no record of it.',
  ),
  reason: is.about(
    is.nullable(is.choice(...DROP_REASONS)),
    'Why the event is not stored, if that is known.',
  ),
  detail: is.about(is.TEXT, 'The result of the event, and what to do about it.'),
  received_at: is.about(is.nullable(is.TIME), 'When the event arrived.'),
  processed_at: is.about(
    is.nullable(is.TIME),
    'When the event became a dead letter. Null for all others.',
  ),
  event: is.nullable(is.TEXT),
  distinct_id: is.nullable(is.TEXT),
  warnings: is.about(is.list(is.TEXT), 'Types of the warnings about this event.'),
  dead_letter: is.about(is.nullable(is.WHOLE), 'Number of the dead letter.'),
  data: is.about(is.nullable(is.TEXT), 'The beginning of the JSON of a dropped event.'),
})
const SAMPLE = is.namedObject(
  'IngestionFateSample',
  {
    at: is.TIME,
    distinct_id: is.nullable(is.TEXT),
    event: is.nullable(is.TEXT),
    uuid: is.nullable(is.UUID),
    detail: is.TEXT,
  },
  {
    body: is.about(
      is.TEXT,
      `The beginning of the body of a refused request, up to ${FATE_BODY_UNITS_MAX} characters.`,
    ),
  },
)
const INGESTION_FATE = is.namedObject('IngestionFate', {
  reason: is.about(
    is.TEXT,
    `For accepted events, one of ${DROP_REASONS.join(', ')}. For refused requests, the error code.`,
  ),
  count: is.about(
    is.WHOLE,
    'The number of events in the last week, or of requests in the last day.',
  ),
  last_seen_at: is.about(is.TIME, 'Arrival of the last event or request.'),
  sentence: is.about(is.TEXT, 'What to do about this reason.'),
  samples: is.about(is.list(SAMPLE), `The newest samples, at most ${FATE_SAMPLES_MAX}.`),
})

const route = routesOf<FateServices>('/api/projects/:project_id/', inProject('event:read'))

/** The routes that show the fate of one event, and the fates of all events that are not stored. */
export const FATE_ROUTES: readonly AnyRoute<FateServices>[] = [
  route('GET', 'events/:event_id/fate/', 'getEventFate', 'Shows what happened to an event.', {
    answers: { 200: done(FATE) },
    async handle({ request, services, projectId, nowMs }) {
      const uuid = parseUuid(request.parameter('event_id'))
      if (uuid === null) throw new ServiceError('not_found', 'The ID of an event must be a UUID.')
      const query = { projectId, uuid, keptAfterMs: nowMs - KEPT_MS }
      return fateBody(formatUuid(uuid, 0), await services.queries.eventFate(query))
    },
  }),
  route(
    'GET',
    'ingestion_fates/',
    'listIngestionFates',
    'Lists the reasons why events were not stored, with samples.',
    {
      answers: { 200: done(is.object({ results: is.list(INGESTION_FATE) })) },
      async handle({ services, projectId, nowMs, grant }) {
        const dropped = await services.queries.ingestionFates(projectId, nowMs - KEPT_MS)
        // A refused request that names no project may have been meant for any project. It is therefore shown only to
        // keys that may use all projects.
        const refused = services.refused.of(projectId, grant.projectIds === 'all')
        return { results: merged([...dropped, ...refused]) }
      },
    },
  ),
]

function fateBody(uuid: string, { fate, because, ...known }: EventFate) {
  const reason =
    fate === 'dead_letter' ? fate : (DROP_REASONS.find((each) => each === because) ?? null)
  const { created_at, arrived_at, dropped_at, warned_at } = known
  return {
    uuid,
    status: fate === 'skipped' ? 'dropped' : fate,
    reason,
    detail: fate === 'skipped' && reason !== null ? sentenceOf(reason) : because,
    received_at: created_at ?? arrived_at ?? dropped_at ?? warned_at ?? null,
    processed_at: known.stored_at ?? null,
    event: known.event ?? null,
    distinct_id: known.distinct_id ?? null,
    warnings: known.warnings ?? (known.warning === undefined ? [] : [known.warning]),
    dead_letter: known.letter ?? null,
    data: known.data ?? null,
  }
}

/** Merges the fates that have the same reason. The reason with the latest event comes first. */
function merged(fates: readonly IngestionFate[]): readonly IngestionFate[] {
  const byReason = new Map<string, IngestionFate>()
  for (const fate of fates.toSorted((a, b) => (a.last_seen_at < b.last_seen_at ? 1 : -1))) {
    const { count, samples, ...first } = byReason.get(fate.reason) ?? {
      ...fate,
      count: 0,
      samples: [],
    }
    const all = [...samples, ...fate.samples].toSorted((a, b) => (a.at < b.at ? 1 : -1))
    byReason.set(fate.reason, {
      ...first,
      count: count + fate.count,
      samples: all.slice(0, FATE_SAMPLES_MAX),
    })
  }
  return [...byReason.values()]
}
