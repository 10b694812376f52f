/**
 * Records requests to private routes in the audit log. `HttpServer.routes` wraps every route that may change something,
 * so that no route can be forgotten. A POST route that only reads has `isRead: true` and is not recorded. An entry is
 * durable before the answer is sent. A change of flags or of the organization stores its entry in its own transaction
 * (`ApiRequest.noting`). For all other changes, and for refusals, the entry is stored here. docs/OPERATIONS.md, "Audit
 * log".
 */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import { AUDIT_ANSWER_BYTES_MAX, AUDIT_OBJECT_CHARACTERS_MAX } from './limits.ts'
import type { Answer } from './respond.ts'
import type { ApiHandler, ApiRequest, AuditNote, Route } from './router.ts'
import { addressBehindProxies, type TrustedProxies } from './url.ts'

const CREATED = 201
/** The path parameters that name the project or organization of an object, and not the object itself. */
const OWNER_PARAMETERS = ['project_id', 'org_id']
/** The beginning of a key. If a client puts a key into a path, the key must not appear in the log. */
const KEY_PATTERN = /^ph[cxs]_/

/** Where entries are stored, and the services that are needed to make them. */
export interface AuditOptions {
  /** Stores an entry. Resolves when it is durable. */
  readonly record: (entry: AuditEntry) => Promise<void>
  readonly clock: Clock
  readonly trustedProxies: TrustedProxies
}

/**
 * Returns true if requests to a route are recorded: if the method could change something and the route is not marked as
 * one that only reads.
 */
export function isAudited({ method, isRead }: Route): boolean {
  return method !== 'GET' && method !== 'HEAD' && isRead !== true
}

/**
 * Wraps the handler of a route, so that each request with a valid key gets an entry, whatever its result. Requests
 * without a valid key are not recorded, because strangers could otherwise push all other entries out of the log.
 */
export function audited(route: Route, options: AuditOptions): ApiHandler {
  const { record, clock, trustedProxies } = options
  return async (request) => {
    // The address is read before anything asynchronous, because it is lost when the client leaves.
    const address = addressBehindProxies(
      request.peerAddress,
      request.head.forwardedFor,
      trustedProxies,
    )
    const entryOf = (status: number): AuditEntry | undefined =>
      request.caller === null
        ? undefined
        : {
            atMs: clock.now(),
            ...request.caller,
            account: null,
            address,
            projectId: request.projectId,
            method: route.method,
            route: route.path,
            objectId: objectInPath(request) ?? request.objectId,
            status,
          }
    const { successStatus } = route
    const audit: AuditNote = {
      entry: () => (successStatus === undefined ? undefined : entryOf(successStatus)),
      isStored: false,
    }
    request.audit = audit
    const note = async (status: number, madeId: string | null): Promise<void> => {
      const left = audit.isStored ? undefined : entryOf(status)
      if (left !== undefined) await record({ ...left, objectId: madeId ?? left.objectId })
    }
    let answer: Answer
    try {
      answer = await route.handler(request)
    } catch (error) {
      await note(error instanceof ServiceError ? error.status : 500, null)
      throw error
    }
    await note(answer.status, createdId(answer))
    return answer
  }
}

/** Returns the last ID in the path, or null if there is none. */
function objectInPath(request: ApiRequest): string | null {
  let found: string | null = null
  for (const [name, text] of request.parameters) {
    if (!OWNER_PARAMETERS.includes(name)) found = text
  }
  if (found === null || KEY_PATTERN.test(found)) return null
  return found.slice(0, AUDIT_OBJECT_CHARACTERS_MAX)
}

/**
 * Returns the ID in the answer to a request that created an object. Returns null if the answer has another form. Never
 * throws.
 */
function createdId({ status, contentType, body, madeId }: Answer): string | null {
  if (status !== CREATED) return null
  if (madeId !== undefined) return madeId
  const isWhole = typeof body === 'string' || body instanceof Uint8Array
  const isJson = contentType.startsWith('application/json')
  if (!isJson || !isWhole || body.length > AUDIT_ANSWER_BYTES_MAX) return null
  return idInJson(typeof body === 'string' ? body : Buffer.from(body).toString())
}

/**
 * Returns the member `id` of a JSON text. Returns null if there is none or if the text is not valid JSON. It does not
 * throw, because the change must be recorded in any case.
 */
function idInJson(text: string): string | null {
  let made: unknown
  try {
    made = JSON.parse(text)
  } catch {
    return null
  }
  if (typeof made !== 'object' || made === null || !Object.hasOwn(made, 'id')) return null
  const { id } = made as { readonly id: unknown }
  return typeof id === 'string' || typeof id === 'number' ? String(id) : null
}
