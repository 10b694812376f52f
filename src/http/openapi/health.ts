/** The description of the description itself. */
import { choice, operation, type Resource } from './types.ts'

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
