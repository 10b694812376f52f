/**
 * What the routes that log users in have in common: the services, the address of the client, and the answer with the new
 * session.
 */
import { timeText } from '../../../base/time.ts'
import { SESSION_PROOFS, sessionEndMs } from '../../../rules/access/console-session.ts'
import type { StoredPassword } from '../../../rules/access/password.ts'
import { userSummary } from '../../../rules/access/user.ts'
import type { ConsoleSessions } from '../../console/console-sessions.ts'
import { callerOf, type FullGrant, grantIn, userOf } from '../../server/auth.ts'
import type { Call } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { addressBehindProxies } from '../../server/url.ts'
import { USER_AGENT_CHARACTERS_MAX } from '../limits.ts'
import { LEVEL, type OrganizationServices, USER_MEMBERS } from './organization-services.ts'
import { visibleProjects } from './projects.ts'

/** The services that the session routes need. */
export interface SessionServices extends OrganizationServices {
  /** The console's sessions. Absent if there is no console, and then these routes do not exist. */
  readonly sessions?: ConsoleSessions | undefined
  /** The path of the console, which begins and ends with a slash. */
  readonly consolePath: string
  readonly directory: OrganizationServices['directory'] & {
    passwordOf(userId: number): StoredPassword | null
  }
}

/** A request to one of these routes. */
export type SessionCall = Pick<Call<SessionServices>, 'request' | 'services' | 'nowMs'>

/** A session as its user sees it. */
export const SESSION = is.namedObject('ConsoleSession', {
  user: is.object({ ...USER_MEMBERS, level: LEVEL }),
  scopes: is.list(is.TEXT),
  projects: is.list(
    is.object({
      id: is.WHOLE,
      name: is.TEXT,
      timezone: is.TEXT,
      api_token: is.TEXT,
      level: is.about(LEVEL, 'The level of the user in the project.'),
      scopes: is.about(
        is.nullable(is.list(is.TEXT)),
        'The scopes of the session in the project. Null if they are those of the session.',
      ),
    }),
  ),
  expires_at: is.about(is.TIME, 'When the session ends if it is not used.'),
  has_password: is.about(is.BOOLEAN, 'True if the user can log in with a password.'),
  started_with: is.choice(...SESSION_PROOFS),
})

/** Returns the console's sessions. */
export function sessionsOf({ services }: Pick<SessionCall, 'services'>): ConsoleSessions {
  if (services.sessions === undefined) throw new TypeError('This server has no console.')
  return services.sessions
}

/** Returns the address of the client, behind trusted proxies. */
export function addressOf({
  request,
  services,
}: Pick<SessionCall, 'request' | 'services'>): string {
  const { peerAddress, head } = request
  return addressBehindProxies(peerAddress, head.forwardedFor, services.trustedProxies)
}

/** Returns the client that logs in. Call it before any wait, because the peer address is lost when the client leaves. */
export function originOf(call: SessionCall) {
  const userAgent = call.request.head.userAgent.slice(0, USER_AGENT_CHARACTERS_MAX)
  return { address: addressOf(call), userAgent }
}

/**
 * Returns the body of a session that was just started, and makes its user the author of the request. Returns null if
 * there is no such session.
 */
export function startedSession(call: SessionCall, token: string | null) {
  const { request, services } = call
  services.refresh()
  const grant = token === null ? null : sessionsOf(call).open(token, true)
  if (grant === null) return null
  request.caller = callerOf(grant, 'console')
  request.objectId = String(grant.session.id)
  return sessionBody(call, grant)
}

/** Returns the body of a session: the user, and the user's rights. */
export function sessionBody(call: Pick<SessionCall, 'services' | 'nowMs'>, grant: FullGrant) {
  const user = userOf(grant)
  if (grant.session === undefined) throw new TypeError('The request has no session.')
  const { createdAtMs, startedWith } = grant.session
  const projects = visibleProjects({ services: call.services, grant })
  const used = { createdAtMs, lastSeenAtMs: call.nowMs }
  return {
    user: { ...userSummary(user), level: user.level },
    scopes: grant.scopes,
    projects: projects.map(({ id, name, timezone, apiKey }) => ({
      id,
      name,
      timezone,
      api_token: apiKey,
      level: userOf(grantIn(grant, id)).level,
      scopes: grant.projectLevels?.has(id) === true ? grantIn(grant, id).scopes : null,
    })),
    expires_at: timeText(sessionEndMs(used, grant.expiresAtMs)),
    has_password: call.services.directory.passwordOf(user.id) !== null,
    started_with: startedWith,
  }
}
