/** The description of the routes for those who watch the process, and of the description itself. */
import { choice, list, object, operation, type Resource, type Schema, TEXT } from './types.ts'

const HEALTH: Schema = object({
  status: choice('ok', 'degraded', 'unavailable'),
  reasons: list(TEXT),
})
const UNAVAILABLE = { 503: ['Events are not accepted; the reasons say why.', HEALTH] } as const

const WATCHED = [
  ['/_livez/', 'Liveness', 'Whether the process runs.', { answer: HEALTH }],
  [
    '/_readyz/',
    'Readiness',
    'Whether events are accepted.',
    { answer: HEALTH, otherAnswers: UNAVAILABLE },
  ],
  [
    '/_health/',
    'Health',
    'Whether anything is served: degraded while events are refused, and reads and decisions go on.',
    { answer: HEALTH, otherAnswers: UNAVAILABLE },
  ],
  [
    '/metrics/',
    'Metrics',
    'Metrics in the text format of Prometheus.',
    { answerType: 'text/plain' },
  ],
] as const

/** Liveness, readiness and metrics. docs/OPERATIONS.md, "Health". */
export const HEALTH_RESOURCE: Resource = {
  name: 'Health and metrics',
  sentence: 'For those who watch the process. No key is needed.',
  doors: ['none'],
  errors: [],
  operations: WATCHED.flatMap(([path, id, sentence, rest]) => [
    operation(`GET ${path}`, `get${id}`, sentence, rest),
    operation(`HEAD ${path}`, `head${id}`, `The headers of GET ${path}.`),
  ]),
}

/** The description of the API. docs/COMPATIBILITY.md, "API description". */
export const DESCRIPTION_RESOURCE: Resource = {
  name: 'API description',
  sentence: 'This description. No key is needed.',
  doors: ['none'],
  errors: [],
  operations: [
    operation('GET /api/schema/', 'getSchema', 'Describes every route as OpenAPI 3.1.', {
      query: [
        {
          name: 'format',
          schema: choice('json', 'html'),
          sentence: 'With html a page for people, the same as /api/docs/.',
        },
      ],
      answer: { type: 'object', additionalProperties: true },
      emptyAnswers: { 304: 'The tag in If-None-Match is that of the description.' },
      errors: [404],
    }),
    operation('GET /openapi.json/', 'getOpenapi', 'The same as /api/schema/.', {
      answer: { type: 'object', additionalProperties: true },
      emptyAnswers: { 304: 'The tag in If-None-Match is that of the description.' },
    }),
    operation('GET /api/docs/', 'getDocs', 'Describes every route as a page for people.', {
      answerType: 'text/html',
      emptyAnswers: { 304: 'The tag in If-None-Match is that of the page.' },
    }),
  ],
}
