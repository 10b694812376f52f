/**
 * Builds the OpenAPI 3.1 document from the records of all routes, in their order. If several routes have the same error
 * response, the document contains it once. docs/compatibility/api.md, "API description".
 */
import { ERROR_CODES } from '../../base/errors.ts'
import { VERSION } from '../../base/version.ts'
import { DESCRIPTION } from '../routes/description.ts'
import { HEALTH } from '../routes/health.ts'
import { PRIVATE_RESOURCES } from '../routes/private-api.ts'
import { CAPTURE } from '../routes/public/capture.ts'
import { FLAG_DECISIONS, REMOTE_CONFIG } from '../routes/public/flag-routes.ts'
import { OFREP } from '../routes/public/ofrep.ts'
import { isJsonText } from '../server/input.ts'
import {
  type CredentialKind,
  type Described,
  type DescribedResource,
  refusalsOf,
  type Who,
} from '../server/route.ts'
import type { Members, Schema } from '../server/schema.ts'
import * as is from '../server/schema.ts'
import { Schemas } from './published.ts'

/** All resources that the document describes, in its order. */
export const RESOURCES: readonly DescribedResource[] = [
  CAPTURE,
  FLAG_DECISIONS,
  REMOTE_CONFIG,
  OFREP,
  ...PRIVATE_RESOURCES,
  HEALTH,
  DESCRIPTION,
]

const ERROR = is.namedObject('Error', {
  type: is.choice(...new Set(Object.values(ERROR_CODES).map(({ type }) => type))),
  code: is.choice(...Object.keys(ERROR_CODES)),
  detail: is.about(
    is.TEXT,
    'A sentence for people that says what is wrong and what to do about it.',
  ),
  attr: is.about(is.nullable(is.TEXT), 'The name of the field or parameter at fault, or null.'),
})

/** The schemas of the parameters in paths. A resource may have its own schema for the same name. */
const SEGMENTS: Members = {
  project_id: is.about(is.TEXT_OR_NUMBER, 'Project number, or @current.'),
  org_id: is.about(is.TEXT, 'Organization ID, or @current.'),
  user_id: is.about(is.TEXT, 'UUID of the caller, or @me.'),
  user_uuid: is.about(is.UUID, 'UUID of the user.'),
  uuid: is.about(is.UUID, 'UUID of the event.'),
  event_id: is.about(is.UUID, 'UUID of the event.'),
  action_id: is.about(is.WHOLE, 'Action number.'),
  cohort_id: is.about(is.WHOLE, 'Cohort number.'),
  role_id: is.about(is.UUID, 'Role ID.'),
  parent_lookup_feature_flag_id: is.about(is.WHOLE, 'Flag number.'),
  key: is.about(is.TEXT, 'Flag key.'),
}

const SECURITY_SCHEMES: Readonly<Record<Exclude<CredentialKind, 'none'>, Schema>> = {
  personalKey: {
    type: 'http',
    scheme: 'bearer',
    description:
      'A personal API key (phx_...). It can also be sent as personal_api_key in a JSON body or in the query. The roles that an operation lists are scopes of the key.',
  },
  secretKey: {
    type: 'http',
    scheme: 'bearer',
    description: 'A secret key of the project (phs_...). It can only read flag definitions.',
  },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: '__Host-tenrec',
    description:
      'A session of the console. Over plain HTTP the cookie is named tenrec. A session also needs the header X-Tenrec-Console: 1 (or unattended, which does not extend the session). It has the rights of the personal key with which it was started.',
  },
  projectKey: {
    type: 'apiKey',
    in: 'query',
    name: 'token',
    description:
      'The project key (phc_...). A body carries it as the member api_key or token, which OpenAPI security schemes cannot express.',
  },
  projectKeyBearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'The project key (phc_...).',
  },
  projectKeyHeader: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description: 'The project key (phc_...). It can also be sent as a Bearer token.',
  },
}

const STATUS_MEANINGS: Readonly<Record<number, string>> = {
  400: 'Part of the request is not valid.',
  401: 'The key is missing or not valid.',
  403: 'The key or its user is not allowed to do this.',
  404: 'The resource does not exist.',
  409: 'Another change was made to the same resource in the meantime.',
  413: 'The body is too large.',
  415: 'The media type of the body is not supported.',
  429: 'A limit was exceeded. Retry-After says when to try again.',
  500: 'An internal server error.',
  503: 'The request cannot be handled now. Retry-After says when to try again.',
  504: 'The query took too long.',
}
const JSON_TYPE = 'application/json'
const FORMAT = is.about(is.choice('json', 'csv'), 'With csv, the answer is a table.')

/** Builds the document. The caller should keep it, because building it takes some milliseconds. */
export function buildDocument(): Schema {
  const paths: Record<string, Record<string, Schema>> = {}
  const schemas = new Schemas()
  const responses = errorResponses(schemas)
  for (const resource of RESOURCES) {
    for (const record of resource.routes) {
      if (record.isRefusal === true) continue
      const path = record.path.replace(/:(\w+)/g, '{$1}')
      const item = paths[path] ?? {}
      item[record.method.toLowerCase()] = describe(resource, record, schemas)
      paths[path] = item
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tenrec',
      version: VERSION,
      description:
        'Events, persons and feature flags. Every path works with and without one slash at its end. Every error has the same four members.',
    },
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    servers: [{ url: '/' }],
    tags: RESOURCES.map(({ name, sentence }) => ({ name, description: sentence })),
    paths,
    components: {
      schemas: schemas.published(),
      responses,
      securitySchemes: SECURITY_SCHEMES,
    },
  }
}

function describe(resource: DescribedResource, record: Described, schemas: Schemas): Schema {
  const { id, summary, query = {}, body, who } = record
  const hasTable = resource.isTable === true && hasJson(record)
  const members = {
    ...((query['properties'] ?? {}) as Members),
    ...(hasTable ? { format: FORMAT } : {}),
  }
  const needed = (query['required'] ?? []) as readonly string[]
  const parameters = [
    ...segmentsOf(resource, record, schemas),
    ...Object.entries(members).map(([name, schema]) =>
      describeParameter(name, schema, needed.includes(name), schemas),
    ),
  ]
  return {
    tags: [resource.name],
    operationId: id,
    summary,
    security: securityOf(who),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: describeBody(record, body, schemas) }),
    responses: describeAnswers(record, hasTable, schemas),
  }
}

/** Returns true if the successful answer of a route is JSON. */
function hasJson({ answers }: Described): boolean {
  return Object.entries(answers).some(
    ([status, { schema }]) => status.startsWith('2') && schema !== undefined,
  )
}

function segmentsOf(
  { segments = {} }: DescribedResource,
  { path }: Described,
  schemas: Schemas,
): readonly Schema[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => {
    const schema = segments[name] ?? SEGMENTS[name]
    if (schema === undefined) throw new TypeError(`${path}: the parameter ${name} has no schema`)
    return { ...describeParameter(name, schema, true, schemas), in: 'path' }
  })
}

function describeParameter(
  name: string,
  schema: Schema,
  isRequired: boolean,
  schemas: Schemas,
): Schema {
  const { description, ...published } = schemas.publish(schema)
  return {
    name,
    in: 'query',
    description,
    ...(isRequired ? { required: true } : {}),
    ...(isJsonText(schema)
      ? { content: { [JSON_TYPE]: { schema: published } } }
      : { schema: published }),
  }
}

function describeBody({ bodyTypes = [] }: Described, schema: Schema, schemas: Schemas): Schema {
  const others = bodyTypes.map((type) => [type, { schema: is.TEXT }])
  return {
    ...(isBodyRequired(schema) ? { required: true } : {}),
    content: { [JSON_TYPE]: { schema: schemas.publish(schema) }, ...Object.fromEntries(others) },
  }
}

/** Returns true if a request must have a body. A body may be left out if it is an object without required members. */
function isBodyRequired({ type, required = [] }: Schema): boolean {
  return type !== 'object' || (required as readonly string[]).length > 0
}

function securityOf({ credentials, scope }: Who): readonly Schema[] {
  return credentials.map((kind) => {
    if (kind === 'none') return {}
    return { [kind]: kind === 'personalKey' && scope !== null ? [scope] : [] }
  })
}

function describeAnswers(record: Described, hasTable: boolean, schemas: Schemas): Schema {
  const responses: Record<string, Schema> = {}
  for (const code of refusalsOf(record)) {
    const { status } = ERROR_CODES[code]
    responses[status] = { $ref: `#/components/responses/Error${status}` }
  }
  for (const [status, { description, schema: own, type }] of Object.entries(record.answers)) {
    const content: Record<string, Schema> = {}
    // If an answer has no schema, but the route can also answer an error with this status, such as 404, the schema of
    // errors is used.
    const schema = own ?? (status in responses ? ERROR : undefined)
    if (schema !== undefined) content[JSON_TYPE] = { schema: schemas.publish(schema) }
    if (schema !== undefined && hasTable && status.startsWith('2')) {
      content['text/csv'] = { schema: is.TEXT }
    }
    if (type !== undefined) content[type] = { schema: is.TEXT }
    const hasBody = Object.keys(content).length > 0
    responses[status] = { description, ...(hasBody ? { content } : {}) }
  }
  responses['default'] = { $ref: '#/components/responses/Error' }
  return responses
}

function errorResponses(schemas: Schemas): Schema {
  const content = { [JSON_TYPE]: { schema: schemas.publish(ERROR) } }
  const entries = Object.entries(STATUS_MEANINGS).map(([status, meaning]): [string, Schema] => {
    const codes = Object.entries(ERROR_CODES)
      .filter(([, code]) => code.status === Number(status))
      .map(([code]) => code)
    return [`Error${status}`, { description: `${meaning} Codes: ${codes.join(', ')}.`, content }]
  })
  return {
    Error: { description: 'Any other error, such as 405 for an unsupported method.', content },
    ...Object.fromEntries(entries),
  }
}
