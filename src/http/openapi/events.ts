/** The description of reading events, ingestion warnings and dropped events. docs/COMPATIBILITY.md, "Reading events". */
import { DROP_REASONS, LOSS_REASONS, PERSON_MODES } from '../../rules/capture/types.ts'
import { eventFiltersShape } from '../shapes/event-list.ts'
import { published } from './published.ts'
import {
  about,
  BOOLEAN,
  choice,
  JSON_OBJECT,
  jsonText,
  list,
  type Members,
  nullable,
  object,
  operation,
  optional,
  PRIVATE_ERRORS,
  type Resource,
  ref,
  TEXT,
  TIME,
  UUID,
  WHOLE,
} from './types.ts'

const PATH = '/api/projects/:project_id/events/'
const DROPPED_PATH = '/api/projects/:project_id/dropped_events/'
const LIMIT = optional('limit', WHOLE, 'Rows of a page: 100 when absent, 1000 at most.')

/** Stored events and warnings. */
export const EVENT_COMPONENTS: Members = {
  Event: object(
    {
      id: WHOLE,
      uuid: UUID,
      event: TEXT,
      distinct_id: TEXT,
      timestamp: TIME,
      created_at: TIME,
      properties: JSON_OBJECT,
      person: nullable(ref('EventPerson')),
      person_id: UUID,
      person_mode: choice(...PERSON_MODES),
      elements_chain: TEXT,
    },
    { historical_migration: BOOLEAN },
  ),
  EventPerson: object(
    {
      uuid: UUID,
      distinct_ids: list(TEXT),
      properties: JSON_OBJECT,
      is_identified: BOOLEAN,
      created_at: TIME,
    },
    { distinct_ids_count: WHOLE },
  ),
  EventFilters: published(eventFiltersShape.schema),
  DroppedEvent: object({
    uuid: UUID,
    timestamp: about(TIME, 'Its arrival.'),
    reason: choice(...LOSS_REASONS),
    event: nullable(TEXT),
    distinct_id: nullable(TEXT),
    data: about(TEXT, 'The first 1024 bytes of its JSON.'),
    bytes: about(WHOLE, 'The length of its JSON.'),
  }),
  DroppedCount: object({
    hour: about(TIME, 'The begin of the hour of arrival.'),
    reason: choice(...DROP_REASONS),
    count: WHOLE,
  }),
  IngestionWarning: object({ type: TEXT, timestamp: TIME, details: JSON_OBJECT, count: WHOLE }),
}

/** Events and warnings. */
export const EVENT_RESOURCE: Resource = {
  name: 'Events',
  sentence: 'Events as they are stored, and what went wrong when they were.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  operations: [
    operation(`GET ${PATH}`, 'listEvents', 'Lists events, the newest first.', {
      scope: 'event:read',
      query: [
        optional('event', TEXT, 'Only events of this name.'),
        optional('distinct_id', TEXT, 'Only events with this distinct_id.'),
        optional('person_id', UUID, 'Only events that this person owns now.'),
        optional('after', TEXT, 'Only events with a later timestamp.'),
        optional('before', TEXT, 'Only events with an earlier timestamp.'),
        jsonText('properties', ref('EventFilters'), 'Tests that must all hold.'),
        LIMIT,
        optional('cursor', TEXT, 'Where to go on; it comes in next.'),
      ],
      answer: object({ next: nullable(TEXT), results: list(ref('Event')) }),
    }),
    operation(`GET ${PATH}:uuid/`, 'getEvent', 'Shows the event with a uuid.', {
      scope: 'event:read',
      answer: ref('Event'),
    }),
    operation(
      'GET /api/projects/:project_id/ingestion_warnings/',
      'listIngestionWarnings',
      'Lists what was odd about events, the newest first.',
      {
        scope: 'event:read',
        query: [LIMIT],
        answer: object({ next: { type: 'null' }, results: list(ref('IngestionWarning')) }),
      },
    ),
    operation(
      `GET ${DROPPED_PATH}`,
      'listDroppedEvents',
      'Lists events that were accepted and are not stored, the newest first.',
      {
        scope: 'event:read',
        query: [
          optional('reason', choice(...LOSS_REASONS), 'Only those that were dropped for it.'),
          optional('after', TEXT, 'Only later arrivals.'),
          optional('before', TEXT, 'Only earlier arrivals.'),
          LIMIT,
          optional('cursor', TEXT, 'Where to go on; it comes in next.'),
        ],
        answer: object({ next: nullable(TEXT), results: list(ref('DroppedEvent')) }),
      },
    ),
    operation(
      `GET ${DROPPED_PATH}counts/`,
      'countDroppedEvents',
      'Counts accepted events that are not stored, by hour and reason.',
      { scope: 'event:read', answer: object({ results: list(ref('DroppedCount')) }) },
    ),
  ],
}
