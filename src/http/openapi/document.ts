/**
 * The OpenAPI 3.1 document, made from the tables of this folder. Answers that several operations share
 * stand in it once; the order is that of the tables. docs/COMPATIBILITY.md, "API description".
 */
import { ERROR_CODES } from '../../base/errors.ts'
import { VERSION } from '../../base/version.ts'
import { ANALYTIC_COMPONENTS, ANALYTIC_RESOURCE } from './analytics.ts'
import { CAPTURE_COMPONENTS, CAPTURE_RESOURCE } from './capture.ts'
import {
  DECISION_COMPONENTS,
  DECISION_RESOURCE,
  OFREP_RESOURCE,
  REMOTE_CONFIG_RESOURCE,
} from './decisions.ts'
import { ERASURE_COMPONENTS, ERASURE_RESOURCE } from './erasures.ts'
import { EVENT_COMPONENTS, EVENT_RESOURCE } from './events.ts'
import { FLAG_COMPONENTS, FLAG_RESOURCE } from './flags.ts'
import { DESCRIPTION_RESOURCE, HEALTH_RESOURCE } from './health.ts'
import {
  ORGANIZATION_COMPONENTS,
  ORGANIZATION_RESOURCE,
  PROJECT_RESOURCE,
  USER_RESOURCE,
} from './organization.ts'
import { PERSON_COMPONENTS, PERSON_RESOURCE } from './persons.ts'
import { ROLE_ACCESS_RESOURCE, ROLE_COMPONENTS, ROLE_RESOURCE } from './roles.ts'
import { ACTION_RESOURCE, COHORT_RESOURCE, GROUP_RESOURCE, SET_COMPONENTS } from './sets.ts'
import {
  choice,
  type Door,
  type Members,
  nullable,
  type Operation,
  object,
  type Parameter,
  type Resource,
  ref,
  type Schema,
  TEXT,
  TEXT_OR_NUMBER,
  UUID,
  WHOLE,
} from './types.ts'

/** Everything that is served, in the order of the document. */
const RESOURCES: readonly Resource[] = [
  CAPTURE_RESOURCE,
  DECISION_RESOURCE,
  REMOTE_CONFIG_RESOURCE,
  OFREP_RESOURCE,
  EVENT_RESOURCE,
  PERSON_RESOURCE,
  ANALYTIC_RESOURCE,
  ERASURE_RESOURCE,
  ACTION_RESOURCE,
  COHORT_RESOURCE,
  GROUP_RESOURCE,
  FLAG_RESOURCE,
  ROLE_ACCESS_RESOURCE,
  ROLE_RESOURCE,
  ORGANIZATION_RESOURCE,
  PROJECT_RESOURCE,
  USER_RESOURCE,
  HEALTH_RESOURCE,
  DESCRIPTION_RESOURCE,
]

const COMPONENTS: Members = {
  Error: object({
    type: choice(...new Set(Object.values(ERROR_CODES).map(({ type }) => type))),
    code: choice(...Object.keys(ERROR_CODES)),
    detail: { ...TEXT, description: 'What is wrong and the way out, for people.' },
    attr: { ...nullable(TEXT), description: 'The field or parameter at fault.' },
  }),
  ...CAPTURE_COMPONENTS,
  ...DECISION_COMPONENTS,
  ...EVENT_COMPONENTS,
  ...PERSON_COMPONENTS,
  ...ANALYTIC_COMPONENTS,
  ...ERASURE_COMPONENTS,
  ...SET_COMPONENTS,
  ...FLAG_COMPONENTS,
  ...ROLE_COMPONENTS,
  ...ORGANIZATION_COMPONENTS,
}

/** What names in paths stand for, unless a resource says otherwise. */
const SEGMENTS: NonNullable<Resource['segments']> = {
  project_id: [TEXT_OR_NUMBER, 'Number of the project, or @current.'],
  org_id: [TEXT, 'Id of the organization, or @current.'],
  user_id: [TEXT, 'Uuid of the caller, or @me.'],
  user_uuid: [UUID, 'Uuid of the user.'],
  uuid: [UUID, 'Uuid of the event.'],
  action_id: [WHOLE, 'Number of the action.'],
  cohort_id: [WHOLE, 'Number of the cohort.'],
  role_id: [UUID, 'Id of the role.'],
  parent_lookup_feature_flag_id: [WHOLE, 'Number of the flag.'],
  key: [TEXT, 'Key of the flag.'],
}

const SECURITY_SCHEMES: Readonly<Record<Exclude<Door, 'none'>, Schema>> = {
  personalKey: {
    type: 'http',
    scheme: 'bearer',
    description:
      'A personal key (phx_...), also as personal_api_key in a JSON body or the query. The roles that an operation names are scopes of the key.',
  },
  secretKey: {
    type: 'http',
    scheme: 'bearer',
    description: 'A secret key of the project (phs_...), which only reads definitions of flags.',
  },
  projectKey: {
    type: 'apiKey',
    in: 'query',
    name: 'token',
    description:
      'The key of a project (phc_...). In a body it is the member api_key or token, which OpenAPI has no scheme for.',
  },
  projectKeyHeader: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description: 'The key of a project (phc_...); also as Bearer token.',
  },
}

const STATUS_MEANINGS: Readonly<Record<number, string>> = {
  400: 'Something in the request cannot be used.',
  401: 'There is no key, or it is not valid.',
  403: 'The key or its user may not do this.',
  404: 'There is no such thing.',
  409: 'Somebody else has changed the same meanwhile.',
  413: 'The body is too large.',
  415: 'The body has a media type that is not taken.',
  429: 'Too much was asked for; Retry-After says when to try again.',
  500: 'A fault of the server.',
  503: 'It cannot be done now; Retry-After says when to try again.',
  504: 'The query took too long.',
}
const JSON_TYPE = 'application/json'
const FORMAT: Parameter = {
  name: 'format',
  schema: choice('json', 'csv'),
  sentence: 'With csv the answer is a table.',
}

/** The document. Some milliseconds of work: build it once. */
export function buildDocument(): Schema {
  const paths: Record<string, Record<string, Schema>> = {}
  for (const resource of RESOURCES) {
    for (const operation of resource.operations) {
      const path = operation.path.replace(/:(\w+)/g, '{$1}')
      const item = paths[path] ?? {}
      item[operation.method.toLowerCase()] = describe(resource, operation)
      paths[path] = item
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tenrec',
      version: VERSION,
      description:
        'Events, persons and feature flags. Every path answers with and without one slash at its end. Every error has the same four members.',
    },
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    servers: [{ url: '/' }],
    tags: RESOURCES.map(({ name, sentence }) => ({ name, description: sentence })),
    paths,
    components: {
      schemas: COMPONENTS,
      responses: errorResponses(),
      securitySchemes: SECURITY_SCHEMES,
    },
  }
}

function describe(resource: Resource, operation: Operation): Schema {
  const { id, sentence, query = [], body } = operation
  const hasFormat = resource.isTable === true && operation.answer !== undefined
  const parameters = [
    ...segmentsOf(resource, operation),
    ...[...query, ...(hasFormat ? [FORMAT] : [])].map((parameter) =>
      describeParameter(parameter, 'query'),
    ),
  ]
  return {
    tags: [resource.name],
    operationId: id,
    summary: sentence,
    security: securityOf(operation.doors ?? resource.doors, operation.scope),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: describeBody(operation, body) }),
    responses: describeAnswers(resource, operation),
  }
}

function segmentsOf({ segments = {} }: Resource, { path }: Operation): readonly Schema[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => {
    const meaning = segments[name] ?? SEGMENTS[name]
    if (meaning === undefined) throw new TypeError(`${path}: nothing is said about ${name}`)
    const [schema, sentence] = meaning
    return describeParameter({ name, schema, sentence, isRequired: true }, 'path')
  })
}

function describeParameter(parameter: Parameter, place: 'path' | 'query'): Schema {
  const { name, schema, sentence, isRequired, isJson } = parameter
  return {
    name,
    in: place,
    description: sentence,
    ...(isRequired === true ? { required: true } : {}),
    ...(isJson === true ? { content: { [JSON_TYPE]: { schema } } } : { schema }),
  }
}

function describeBody({ bodyTypes = [], isBodyOptional }: Operation, schema: Schema): Schema {
  const others = bodyTypes.map((type) => [type, { schema: TEXT }])
  return {
    ...(isBodyOptional === true ? {} : { required: true }),
    content: { [JSON_TYPE]: { schema }, ...Object.fromEntries(others) },
  }
}

function securityOf(doors: readonly Door[], scope: string | undefined): readonly Schema[] {
  return doors.map((door) => {
    if (door === 'none') return {}
    return { [door]: door === 'personalKey' && scope !== undefined ? [scope] : [] }
  })
}

function describeAnswers(resource: Resource, operation: Operation): Schema {
  const { answer, answerType, status = 200, emptyAnswers = {}, otherAnswers = {} } = operation
  const responses: Record<string, Schema> = {}
  for (const code of [...resource.errors, ...(operation.errors ?? [])]) {
    responses[code] = { $ref: `#/components/responses/Error${code}` }
  }
  const content: Record<string, Schema> = {}
  if (answer !== undefined) content[JSON_TYPE] = { schema: answer }
  if (answer !== undefined && resource.isTable === true) content['text/csv'] = { schema: TEXT }
  if (answerType !== undefined) content[answerType] = { schema: TEXT }
  const hasBody = Object.keys(content).length > 0
  responses[status] = { description: 'Done.', ...(hasBody ? { content } : {}) }
  for (const [code, description] of Object.entries(emptyAnswers)) responses[code] = { description }
  for (const [code, [description, schema]] of Object.entries(otherAnswers)) {
    responses[code] = { description, content: { [JSON_TYPE]: { schema } } }
  }
  responses['default'] = { $ref: '#/components/responses/Error' }
  return responses
}

function errorResponses(): Schema {
  const content = { [JSON_TYPE]: { schema: ref('Error') } }
  const entries = Object.entries(STATUS_MEANINGS).map(([status, meaning]): [string, Schema] => {
    const codes = Object.entries(ERROR_CODES)
      .filter(([, code]) => code.status === Number(status))
      .map(([code]) => code)
    return [`Error${status}`, { description: `${meaning} Codes: ${codes.join(', ')}.`, content }]
  })
  return {
    Error: { description: 'Any other refusal, such as 405 for another method.', content },
    ...Object.fromEntries(entries),
  }
}
