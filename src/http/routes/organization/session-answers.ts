/**
 * The common part of the routes that log users in: the services, the IP address of the client, and the answer with the
 * new session.
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
  /** The sessions of the console. Absent if there is no console. The session routes do not exist then. */
  readonly sessions?: ConsoleSessions | undefined
  /** The path under which the console is served. It begins and ends with a slash. */
  readonly consolePath: string
  readonly directory: OrganizationServices['directory'] & {
    passwordOf(userId: number): StoredPassword | null
  }
}

/** A request to one of the session routes. */
export type SessionCall = Pick<Call<SessionServices>, 'request' | 'services' | 'nowMs'>

/** A session in an answer to its user. */
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
        'The scopes of the session in this project. Null if they do not differ from `scopes` of the session.',
      ),
    }),
  ),
  expires_at: is.about(is.TIME, 'When the session ends if it is not used.'),
  has_password: is.about(is.BOOLEAN, 'True if the user can log in with a password.'),
  started_with: is.choice(...SESSION_PROOFS),
})

/** Returns the sessions of the console. */
export function sessionsOf({ services }: Pick<SessionCall, 'services'>): ConsoleSessions {
  if (services.sessions === undefined) throw new TypeError('This server has no console.')
  return services.sessions
}

/** Returns the IP address of the client. If the request came through trusted proxies, it is taken from their header. */
export function addressOf({
  request,
  services,
}: Pick<SessionCall, 'request' | 'services'>): string {
  const { peerAddress, head } = request
  return addressBehindProxies(peerAddress, head.forwardedFor, services.trustedProxies)
}

/**
 * Returns the IP address and the user agent of the client that logs in. Call it before anything asynchronous, because
 * the peer address is lost when the client leaves.
 */
export function originOf(call: SessionCall) {
  const userAgent = call.request.head.userAgent.slice(0, USER_AGENT_CHARACTERS_MAX)
  return { address: addressOf(call), userAgent }
}

/**
 * Returns the body of the answer for a session that was just started, or null if there is no session with this token.
 * The audit log then names the user of the session as the author of the request.
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

/** Returns the body that describes a session: its user, and the rights of this user. */
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
