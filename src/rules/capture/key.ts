/**
 * Finds the project that a request belongs to: where the request has its key, and which project the key opens. Error
 * details never repeat a key. Source: docs/compatibility/ingestion.md, "Finding the key" and "Resolving the key".
 */
import { ServiceError } from '../../base/errors.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { KEY_CHARACTERS_MAX } from '../../base/limits.ts'
import type { Project, ProjectDirectory } from '../access/project-directory.ts'
import { CAPTURE_SCOPE, hasScope, type Scope, scopesIn } from '../access/scopes.ts'
import type { OuterFields, RawPayload } from './decode.ts'
import type { Envelope } from './envelope.ts'
import { isEmptyValue } from './fields.ts'
import { asBuffer } from './form.ts'
import { KEY_PROOF_EVENTS_MAX } from './limits.ts'

const PRINTABLE_ASCII = /^[\x20-\x7e]*$/
/**
 * Every JSON body that contains a key contains one of these texts: a name under which a key is sent, or the start of an
 * escape that may hide such a name.
 */
const KEY_TRACES = ['token', 'api_key', '\\u']
const DECIMAL_INTEGER = /^-?\d{1,15}$/

/** The parts of a request that can carry a key or a project id. */
export interface KeySources {
  readonly method: RawPayload['method']
  readonly query: OuterFields
  readonly form: OuterFields
  readonly envelope: Envelope
  /**
   * For capture v1, the key in `Authorization: Bearer`, or '' when absent. No other key of such a request counts.
   * Undefined for all other requests.
   */
  readonly bearer?: string | undefined
}

/**
 * Returns the key of a request, with whatever type it was sent. The order of precedence is: the `Authorization` header
 * of capture v1, the query of a GET request, the form, the root, and then the elements, which must all have the same
 * key. Throws ServiceError `missing_api_key` if there is no key, and `invalid_api_key` if the elements have different
 * keys. Source: docs/compatibility/ingestion.md, "Finding the key".
 */
export function findKey(sources: KeySources): unknown {
  const key = namedKey(sources) ?? (sources.envelope.isBatch ? commonKey(sources) : undefined)
  if (key !== undefined) return key
  throw missingKey()
}

/**
 * Returns the project that the key of a large request opens, before all of its events are parsed. Events are read only
 * up to the first one that has a key, because the other events must have the same key. `json` is the whole body.
 * Returns null if none of the first KEY_PROOF_EVENTS_MAX events has a key, because a later event may have one. Throws
 * like `findKey` and `resolveProject` if the key opens no project, or if `json` cannot contain a key.
 */
export function proveKey(
  sources: KeySources,
  json: Uint8Array,
  directory: ProjectDirectory,
): Project | null {
  const named = namedKey(sources)
  if (named !== undefined) return resolveProject(named, findProjectId(sources), directory)
  if (!KEY_TRACES.some((trace) => asBuffer(json).includes(trace))) throw missingKey()
  let looks = 0
  for (const event of sources.envelope.events) {
    const key = isObject(event) ? keyOf(event) : undefined
    if (key !== undefined) return resolveProject(key, findProjectId(sources), directory)
    if (++looks === KEY_PROOF_EVENTS_MAX) return null
  }
  throw missingKey()
}

/**
 * Returns the `project_id` of a request. The order of precedence is: the query, the form, the root object or the first
 * element of a root array. Returns undefined if there is none; null and '' count as none.
 */
export function findProjectId(sources: KeySources): unknown {
  const { query, form, envelope } = sources
  const id = query.projectId || form.projectId || envelope.projectId
  return id === null || id === '' ? undefined : id
}

/**
 * Returns the project that a key opens. A personal key must have `scope`, unless `scope` is null. Throws ServiceError
 * `invalid_api_key`, `invalid_personal_api_key` or `invalid_project` (with `project_id` as its `attr`). Source:
 * docs/compatibility/ingestion.md, "Resolving the key".
 */
export function resolveProject(
  key: unknown,
  projectId: unknown,
  directory: ProjectDirectory,
  scope: Scope | null = CAPTURE_SCOPE,
): Project {
  if (typeof key !== 'string' || key.length > KEY_CHARACTERS_MAX || !PRINTABLE_ASCII.test(key)) {
    throw invalidKey()
  }
  const project = directory.projectByKey(key)
  if (project !== null) return project
  const access = directory.personalKey(key)
  if (projectId === undefined || projectId === null || projectId === '') {
    if (access !== null) {
      throw invalidProject("A personal key needs 'project_id'. Send it, or use the project key.")
    }
    throw key.startsWith('phx_') ? invalidPersonalKey() : invalidKey()
  }
  const id = integerOf(projectId)
  if (id === null) throw invalidProject("'project_id' must be an integer.")
  if (access === null) throw invalidPersonalKey()
  if (scope !== null && !hasScope(scopesIn(access, id), scope)) throw powerlessKey(scope)
  const reached = directory.projectById(id)
  const isReachable = access.projects === 'all' || access.projects.includes(id)
  if (reached === null || !isReachable) {
    throw invalidProject(
      "The project does not exist, or the key may not use it. Check 'project_id', or send the project key.",
    )
  }
  return reached
}

/** Returns the key that a request has outside of its elements, or undefined if it has none there. */
function namedKey({ method, query, form, envelope, bearer }: KeySources): unknown {
  if (bearer === '') {
    const detail = "The request has no project key. Send it as 'Authorization: Bearer <key>'."
    throw new ServiceError('missing_api_key', detail)
  }
  if (bearer !== undefined) return bearer
  const ofQuery = method === 'GET' ? query.token || query.apiKey : undefined
  const named = ofQuery || form.apiKey || form.token
  if (named) return named
  return envelope.root === null ? undefined : keyOf(envelope.root)
}

/** Returns the key of an object: the first of `$token`, `token`, `api_key` and `properties.token` that is not empty. */
function keyOf(object: JsonObject): unknown {
  if (!isEmptyValue(object['$token'])) return object['$token']
  if (!isEmptyValue(object['token'])) return object['token']
  if (!isEmptyValue(object['api_key'])) return object['api_key']
  const properties = object['properties']
  if (!isObject(properties) || isEmptyValue(properties['token'])) return undefined
  return properties['token']
}

function commonKey({ envelope }: KeySources): unknown {
  let common: unknown
  for (const event of envelope.events) {
    const key = isObject(event) ? keyOf(event) : undefined
    if (key === undefined) continue
    if (common !== undefined && key !== common) {
      throw new ServiceError(
        'invalid_api_key',
        'The events of one request carry different project keys. Send one request for each key.',
      )
    }
    common = key
  }
  return common
}

function integerOf(value: unknown): number | null {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : null
  return typeof value === 'string' && DECIMAL_INTEGER.test(value) ? Number(value) : null
}

function missingKey(): ServiceError {
  return new ServiceError(
    'missing_api_key',
    "The request has no project key. Send it as 'api_key' beside the events.",
  )
}

function invalidKey(): ServiceError {
  return new ServiceError(
    'invalid_api_key',
    'The project key is not valid. Copy it from the settings of the project.',
  )
}

function invalidPersonalKey(): ServiceError {
  return new ServiceError(
    'invalid_personal_api_key',
    'The personal key is not valid. Use the key of the project instead.',
  )
}

function powerlessKey(scope: Scope): ServiceError {
  return new ServiceError(
    'invalid_personal_api_key',
    `The personal key lacks the scope ${scope}. Send events with the project key.`,
  )
}

function invalidProject(detail: string): ServiceError {
  return new ServiceError('invalid_project', detail, { attr: 'project_id' })
}
