/** The description of the ingestion endpoints. docs/COMPATIBILITY.md, "Ingestion endpoints". */

import { CAPTURE_SCOPE } from '../../rules/access/scopes.ts'
import { captureEventShape } from '../../rules/capture/capture-schema.ts'
import { CAPTURE_PATHS } from '../routes/public/capture.ts'
import { published } from './published.ts'
import {
  about,
  BOOLEAN,
  choice,
  list,
  type Members,
  type Operation,
  object,
  openObject,
  operation,
  optional,
  type Resource,
  ref,
  required,
  type Schema,
  TEXT,
  TEXT_OR_NUMBER,
} from './types.ts'

const COMPRESSION = optional(
  'compression',
  choice('gzip', 'gzip-js', 'base64', 'b64', 'lz64', 'lz-string'),
  'How the payload is wrapped. Gzip is recognised without it.',
)
const SHARED = [
  COMPRESSION,
  optional('sent_at', TEXT, 'When the client sent the request, by its own clock.'),
  optional('_', TEXT, 'The same in milliseconds since 1970.'),
  optional('beacon', choice('1'), 'The page is being closed: the answer is 204.'),
  optional(
    'project_id',
    TEXT,
    `The project, for a personal key (scope ${CAPTURE_SCOPE}) in place of a project key.`,
  ),
]
const ACCEPTED = object({ status: choice(1) }, { quota_limited: list(TEXT) })
const EVENT_MEMBERS: Members = {
  event: about(TEXT, 'The name; an event without one is not stored.'),
  distinct_id: about(TEXT_OR_NUMBER, 'Who did it. It may also stand in properties.'),
  timestamp: about(TEXT_OR_NUMBER, 'When; the time of arrival when absent.'),
}
const KEY_MEMBERS: Members = {
  api_key: about(TEXT, 'The key of the project; also as token.'),
}

/** Requests of the ingestion endpoints. */
export const CAPTURE_COMPONENTS: Members = {
  CaptureEvent: withMembers(published(captureEventShape.schema), {
    ...EVENT_MEMBERS,
    ...KEY_MEMBERS,
  }),
  CaptureBatch: openObject(
    { batch: list(ref('CaptureEvent')) },
    {
      ...KEY_MEMBERS,
      sent_at: about(TEXT, 'When the client sent the request, by its own clock.'),
      historical_migration: about(BOOLEAN, 'The events are old ones from another place.'),
      project_id: about(
        TEXT_OR_NUMBER,
        `The project, for a personal key (scope ${CAPTURE_SCOPE}) as api_key.`,
      ),
    },
  ),
  CaptureBody: {
    description:
      'One event, several in batch, or a list; the key stands in the body or in an event.',
    anyOf: [ref('CaptureBatch'), ref('CaptureEvent'), list(ref('CaptureEvent'))],
  },
}

/** `/capture/` and its other names. */
export const CAPTURE_RESOURCE: Resource = {
  name: 'Ingestion',
  sentence: 'Sends events. All paths take the same bodies; 200 means that the events are on disk.',
  doors: ['none'],
  errors: [400, 401, 500, 503],
  operations: Object.keys(CAPTURE_PATHS).flatMap(operationsOf),
}

function operationsOf(path: string): readonly Operation[] {
  const name = nameOf(path)
  const shared = {
    answer: ACCEPTED,
    emptyAnswers: { 204: 'Accepted, and the query has beacon=1.' },
  } as const
  return [
    operation(`POST /${path.slice(1)}`, `post${name}`, `Sends events to ${path}.`, {
      ...shared,
      query: SHARED,
      body: ref('CaptureBody'),
      bodyTypes: ['text/plain', 'application/x-www-form-urlencoded', 'application/octet-stream'],
      errors: [413],
    }),
    operation(`GET /${path.slice(1)}`, `get${name}`, 'Sends events in the query.', {
      ...shared,
      doors: ['projectKey'],
      query: [
        required('data', TEXT, 'The payload: JSON, or base64 of it.'),
        ...SHARED,
        optional('api_key', TEXT, 'The key of the project, if there is no token.'),
      ],
      errors: [413],
    }),
    operation(`OPTIONS /${path.slice(1)}`, `options${name}`, 'Answers a browser that asks first.', {
      answer: ACCEPTED,
    }),
  ]
}

/** `/i/v0/e` is `IV0E`. */
function nameOf(path: string): string {
  const words = path.split('/').filter((word) => word !== '')
  const name = words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')
  return `Events${name}`
}

function withMembers(schema: Schema, members: Members): Schema {
  const properties = { ...members, ...(schema['properties'] as Members) }
  return { ...schema, properties, additionalProperties: true }
}
