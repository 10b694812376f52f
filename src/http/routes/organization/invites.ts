/**
 * The routes of invitations. The server sends no email: the user who invites somebody passes the link on. Source:
 * PostHog's `organizations/:id/invites/`; docs/compatibility/organization.md, "Organization, users, keys, projects".
 */
import { ServiceError } from '../../../base/errors.ts'
import { timeText } from '../../../base/time.ts'
import type { InviteView } from '../../../engine/threads/organization-tasks.ts'
import { NEW_USER_LEVEL } from '../../../rules/access/levels.ts'
import { LIMITED_INVITE, mayHavePassword } from '../../../rules/access/organization.ts'
import { passwordObstacle } from '../../../rules/access/password.ts'
import { userSummary } from '../../../rules/access/user.ts'
import type { ConsoleSessions } from '../../console/console-sessions.ts'
import type { RateLimits } from '../../server/rate-limits.ts'
import { ANYBODY, byAdministrators, done, inOrganization, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { addressBehindProxies } from '../../server/url.ts'
import { existing } from '../collection.ts'
import { LOGIN_CODE_CHARACTERS_MAX, PASSWORD_CHARACTERS_MAX } from '../limits.ts'
import { keyBody, PERSONAL_KEY } from './keys.ts'
import { requireRank } from './members.ts'
import {
  ask,
  change,
  LEVEL,
  type OrganizationCall,
  type OrganizationServices,
  organizationCollection,
  USER_SUMMARY,
} from './organization-services.ts'

/** The services that the invitation routes need. */
export interface InviteServices extends OrganizationServices {
  readonly limits: Pick<RateLimits, 'attempt'>
  readonly sessions?: ConsoleSessions | undefined
}

const INVITE = is.namedObject('Invite', {
  id: is.UUID,
  target_email: is.TEXT,
  first_name: is.TEXT,
  level: LEVEL,
  emailing_attempt_made: is.about(is.BOOLEAN, 'False, because no e-mail is sent.'),
  is_expired: is.BOOLEAN,
  created_by: is.nullable(USER_SUMMARY),
  created_at: is.TIME,
  updated_at: is.TIME,
  expires_at: is.TIME,
  link: is.about(
    is.nullable(is.TEXT),
    'The code that accepts the invitation. It is shown only when the invitation is created, and is null afterward.',
  ),
})
const DRAFT = is.named(
  'InviteDraft',
  is.openObject({ target_email: is.TEXT }, { first_name: is.TEXT, level: LEVEL }),
)
const ACCEPTED = is.namedObject('AcceptedInvite', {
  user: USER_SUMMARY,
  personal_api_key: is.about(
    is.nullable(PERSONAL_KEY),
    'The key of the new user. Null if the request has a password.',
  ),
})

const collection = organizationCollection<InviteServices>('invites/')
const acceptRoute = routesOf<InviteServices>('/api/console/invites/', ANYBODY)

/** The routes that manage invitations, and the route that accepts one. */
export const INVITE_ROUTES = [
  ...collection({
    name: 'Invite',
    noun: 'an invitation',
    one: ':invite_id/',
    schema: INVITE,
    list: {
      says: 'Lists open invitations.',
      who: byAdministrators(inOrganization('organization:read')),
      items: (call) => ask(call, 'listInvites', undefined),
      show: (call, invite) => inviteBody(call, invite, null),
    },
    show: (call, { invite, text }: { readonly invite: InviteView; readonly text: string }) =>
      inviteBody(call, invite, `${call.base}/#invite=${text}`),
    create: {
      says: 'Invites a user. The invitation is valid for seven days.',
      body: DRAFT,
      async make(call) {
        const { user, grant } = call
        const { target_email: email, first_name: firstName = '', level } = call.body()
        const invited = level ?? NEW_USER_LEVEL
        requireRank(user, invited)
        return change(call, 'createInvite', {
          email,
          firstName,
          level: invited,
          createdById: user.id,
          // The key of the new user never has more rights than the key with which the invitation was made.
          scopes: grant.scopes,
          keyExpiresAtMs: grant.expiresAtMs,
        }).catch(nameTarget)
      },
    },
    remove: {
      says: 'Revokes an invitation.',
      run(call) {
        const id = existing(call.uuid('invite_id'), 'This invitation does not exist.')
        return change(call, 'deleteInvite', id)
      },
    },
  }),
  acceptRoute(
    'POST',
    'accept/',
    'acceptInvite',
    'Creates the invited user, who logs in with the password of the request or with the key in the answer.',
    {
      body: is.openObject(
        { code: is.text(LOGIN_CODE_CHARACTERS_MAX) },
        { first_name: is.TEXT, password: is.text(PASSWORD_CHARACTERS_MAX) },
      ),
      answers: { 201: done(ACCEPTED) },
      errors: [
        ...(['invalid_input', 'parse_error', 'request_too_large', 'throttled'] as const),
        ...(['unsupported_media_type', 'error', 'server_error'] as const),
      ],
      async handle(call) {
        const { request, services } = call
        const { code, first_name: firstName, password } = call.body()
        const { forwardedFor } = request.head
        const address = addressBehindProxies(
          request.peerAddress,
          forwardedFor,
          services.trustedProxies,
        )
        const find = () => ask(call, 'findInvite', code)
        const invite = await services.limits.attempt(address, find)
        const accept = async () => {
          const passwordHash = await hashFor(call, invite, password)
          // The valid code authenticates this request. The caller is set so that the audit log records the request.
          request.caller = { source: 'api', userId: null, keyId: null }
          const acceptance = { code, firstName, passwordHash }
          const { user, made } = await change(call, 'acceptInvite', acceptance)
          const personalKey = made === null ? null : keyBody(made.key, made.text)
          return { user: userSummary(user), personal_api_key: personalKey }
        }
        const passwords = password === undefined ? undefined : services.sessions?.passwords
        return passwords?.setting(`invitation ${invite?.id}`, accept) ?? accept()
      },
    },
  ),
]

/** Returns the hash of a password, or undefined if none was sent. Throws 400 if the password is not allowed. */
async function hashFor(
  { services }: { readonly services: Pick<InviteServices, 'sessions'> },
  invite: Pick<InviteView, 'email' | 'firstName' | 'scopes' | 'keyExpiresAtMs'> | null,
  password: string | undefined,
): Promise<string | undefined> {
  if (password === undefined || invite === null) return undefined
  const obstacle = mayHavePassword(invite) ? passwordObstacle(password, invite) : LIMITED_INVITE
  if (obstacle !== null) throw new ServiceError('invalid_input', obstacle, { attr: 'password' })
  if (services.sessions === undefined) {
    const detail = 'This server has no console. Accept the invitation without `password`.'
    throw new ServiceError('invalid_input', detail, { attr: 'password' })
  }
  return services.sessions.passwords.hash(password)
}

function inviteBody(
  { services }: Pick<OrganizationCall, 'services'>,
  invite: InviteView,
  link: string | null,
) {
  const { directory, clock } = services
  const host = directory.userById(invite.createdById)
  const createdAt = timeText(invite.createdAtMs)
  return {
    id: invite.id,
    target_email: invite.email,
    first_name: invite.firstName,
    level: invite.level,
    emailing_attempt_made: false,
    is_expired: invite.expiresAtMs <= clock.now(),
    created_by: host === null ? null : userSummary(host),
    created_at: createdAt,
    updated_at: createdAt,
    expires_at: timeText(invite.expiresAtMs),
    link,
  }
}

/** Renames the field of an error, because invitations call the e-mail address `target_email`. */
function nameTarget(error: unknown): never {
  if (!(error instanceof ServiceError) || error.attr !== 'email') throw error
  throw new ServiceError(error.code, error.message, { attr: 'target_email', cause: error })
}
