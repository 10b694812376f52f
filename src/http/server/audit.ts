/**
 * The audit of private routes. `HttpServer.routes` wraps every route that may change something, so that
 * none can be forgotten; what only reads although its method says otherwise is marked as such. An entry is
 * durable before the answer leaves: a change of flags or of the organization stores it in its own
 * transaction (`ApiRequest.noting`), the others and refusals are noted here. docs/OPERATIONS.md,
 * "Audit log".
 */
import type { Clock } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import { AUDIT_ANSWER_BYTES_MAX, AUDIT_OBJECT_CHARACTERS_MAX } from './limits.ts'
import type { Answer } from './respond.ts'
import type { ApiHandler, ApiRequest, AuditNote, Route } from './router.ts'
import { addressBehind, type TrustedProxies } from './url.ts'

const CREATED = 201
/** Parameters that name whose object it is, not the object. */
const OWNER_PARAMETERS = ['project_id', 'org_id']
/** Beginnings of keys: whoever puts one into a path shall not find it here. */
const KEY_PATTERN = /^ph[cxs]_/

/** Where entries go, and what they take. */
export interface AuditOptions {
  /** Resolves when the entry is durable. */
  readonly record: (entry: AuditEntry) => Promise<void>
  readonly clock: Clock
  readonly trustedProxies: TrustedProxies
}

/** Whether requests to a route are noted: those whose method can change something. */
export function isAudited({ method, isRead }: Route): boolean {
  return method !== 'GET' && method !== 'HEAD' && isRead !== true
}

/**
 * The handler of a route with an entry for each request with a valid key, whatever became of it. Requests
 * without one are not noted: strangers could push everything else out of the log.
 */
export function audited(route: Route, options: AuditOptions): ApiHandler {
  const { record, clock, trustedProxies } = options
  return async (request) => {
    // Before any wait: the peer is forgotten when the client leaves.
    const address = addressBehind(request.peerAddress, request.head.forwardedFor, trustedProxies)
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

/** The id in the last place of the path, or null. */
function objectInPath(request: ApiRequest): string | null {
  let found: string | null = null
  for (const [name, text] of request.parameters) {
    if (!OWNER_PARAMETERS.includes(name)) found = text
  }
  if (found === null || KEY_PATTERN.test(found)) return null
  return found.slice(0, AUDIT_OBJECT_CHARACTERS_MAX)
}

/** The id of what was made, as the answer tells it; null for an answer in any other form. Never throws. */
function createdId({ status, contentType, body, madeId }: Answer): string | null {
  if (status !== CREATED) return null
  if (madeId !== undefined) return madeId
  const isWhole = typeof body === 'string' || body instanceof Uint8Array
  const isJson = contentType.startsWith('application/json')
  if (!isJson || !isWhole || body.length > AUDIT_ANSWER_BYTES_MAX) return null
  return idInJson(typeof body === 'string' ? body : Buffer.from(body).toString())
}

/** What was done is noted whatever an answer looks like: a text that is no JSON has no id. */
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
