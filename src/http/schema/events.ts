/** The description of reading events and ingestion warnings. docs/COMPATIBILITY.md, "Reading events". */
import { PERSON_MODES } from '../../ingest/types.ts'
import { eventFiltersShape } from '../../wire/event-list.ts'
import { published } from './published.ts'
import {
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
  EventPerson: object({
    uuid: UUID,
    distinct_ids: list(TEXT),
    properties: JSON_OBJECT,
    is_identified: BOOLEAN,
    created_at: TIME,
  }),
  EventFilters: published(eventFiltersShape.schema),
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
  ],
}
