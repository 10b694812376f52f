/** The description of erasures and retention. docs/COMPATIBILITY.md, "Erasure and retention". */
import {
  about,
  BODY_ERRORS,
  BOOLEAN,
  choice,
  list,
  type Members,
  nullable,
  object,
  openObject,
  operation,
  PRIVATE_ERRORS,
  pageOf,
  pageParameters,
  type Resource,
  ref,
  TEXT,
  TIME,
  UUID,
  WHOLE,
} from './types.ts'

const ERASURES = '/api/projects/:project_id/erasures/'
const RETENTION = '/api/projects/:project_id/retention/'
const DRY_RUN = about(BOOLEAN, 'Only says how much would go.')
const DATED_RULES = list(object({ event: nullable(TEXT), before: nullable(TIME) }))

/** Receipts, rules and estimates. */
export const ERASURE_COMPONENTS: Members = {
  Erasure: object({
    id: WHOLE,
    origin: choice('person', 'request', 'retention'),
    status: choice('running', 'done', 'incomplete'),
    requested_by: about(nullable(TEXT), 'E-mail address; null for the daemon itself.'),
    requested_at: TIME,
    finished_at: nullable(TIME),
    criteria: object({
      event: nullable(TEXT),
      after: nullable(TIME),
      before: nullable(TIME),
      distinct_id: nullable(TEXT),
      person_id: nullable(UUID),
      rules: about(DATED_RULES, 'Retention: what goes of which name, null for the others.'),
      arrived_through: about(nullable(TIME), 'Retention by size: the newest arrival that goes.'),
    }),
    events_removed: WHOLE,
    bytes_released: WHOLE,
    segments_unreadable: about(WHOLE, 'Damaged ones, which were left alone.'),
  }),
  ErasurePage: pageOf('Erasure'),
  ErasureRequest: object(
    {},
    {
      event: about(TEXT, 'Name of the events.'),
      after: about(TEXT, 'Events from this moment on.'),
      before: about(TEXT, 'Events before this moment.'),
      distinct_id: about(TEXT, 'Events that were sent with this id.'),
      person_id: about(UUID, 'Events of this person.'),
      dry_run: DRY_RUN,
    },
  ),
  ErasureEstimate: object({ dry_run: BOOLEAN, events: WHOLE, bytes: WHOLE }),
  NamedRetention: object({
    event: TEXT,
    days: about(nullable(WHOLE), 'With null they are kept for ever.'),
  }),
  EventRetention: object({
    days: nullable(WHOLE),
    bytes_max: nullable(WHOLE),
    events: list(ref('NamedRetention')),
    bytes: about(WHOLE, 'Bytes of the events as they are stored now.'),
  }),
  RetentionRequest: object(
    {},
    {
      days: nullable(WHOLE),
      bytes_max: nullable(WHOLE),
      events: list(ref('NamedRetention')),
      dry_run: DRY_RUN,
    },
  ),
  RetentionPlan: object({
    dry_run: BOOLEAN,
    events: WHOLE,
    bytes: WHOLE,
    rules: DATED_RULES,
    arrived_through: nullable(TIME),
    is_running: BOOLEAN,
  }),
}

/** Erasures and retention. */
export const ERASURE_RESOURCE: Resource = {
  name: 'Erasures',
  sentence: 'Events that were removed for good, and how long events are kept.',
  doors: ['personalKey'],
  errors: PRIVATE_ERRORS,
  segments: { id: [WHOLE, 'Number of the erasure.'] },
  operations: [
    operation(`GET ${ERASURES}`, 'listErasures', 'Lists receipts, the newest first.', {
      scope: 'person:read',
      query: pageParameters(10_000),
      answer: ref('ErasurePage'),
    }),
    operation(`POST ${ERASURES}`, 'createErasure', 'Removes events for good, in the background.', {
      scope: 'person:write',
      body: ref('ErasureRequest'),
      answer: ref('Erasure'),
      status: 202,
      otherAnswers: { 200: ['Only asked how much would go.', ref('ErasureEstimate')] },
      errors: [...BODY_ERRORS, 429],
    }),
    operation(`GET ${ERASURES}:id/`, 'getErasure', 'Shows a receipt.', {
      scope: 'person:read',
      answer: ref('Erasure'),
    }),
    operation(`GET ${RETENTION}`, 'getEventRetention', 'Shows how long events are kept.', {
      scope: 'project:read',
      answer: ref('EventRetention'),
    }),
    operation(`PUT ${RETENTION}`, 'putEventRetention', 'Says how long events are kept.', {
      scope: 'project:write',
      body: ref('RetentionRequest'),
      answer: { anyOf: [ref('EventRetention'), ref('RetentionPlan')] },
      errors: BODY_ERRORS,
    }),
    operation(`POST ${RETENTION}run/`, 'runEventRetention', 'Removes now what is kept too long.', {
      scope: 'project:write',
      body: openObject({}, { dry_run: DRY_RUN }),
      isBodyOptional: true,
      answer: ref('Erasure'),
      status: 202,
      otherAnswers: { 200: ['Nothing has to go, or it was only asked.', ref('RetentionPlan')] },
      errors: BODY_ERRORS,
    }),
  ],
}
