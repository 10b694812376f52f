/**
 * The routes of the members of the organization. Source: docs/compatibility/organization.md,
 * "Organization, users, keys, projects".
 */
import { ServiceError } from '../../../base/errors.ts'
import { timeText } from '../../../base/time.ts'
import { USER_LEVELS, type UserLevel } from '../../../rules/access/levels.ts'
import type { User } from '../../../rules/access/organization.ts'
import { userSummary } from '../../../rules/access/user.ts'
import { denied, type KeyUser } from '../../server/auth.ts'
import { pageOfList } from '../../server/pages.ts'
import { done } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import {
  change,
  LEVEL,
  listing,
  type OrganizationCall,
  type OrganizationServices,
  organizationRoutes,
  USER_SUMMARY,
} from './organization-services.ts'

const [LOWEST] = USER_LEVELS

const MEMBER_SCHEMA = is.namedObject('Member', {
  id: is.about(is.UUID, 'UUID of the user.'),
  user: USER_SUMMARY,
  level: LEVEL,
  joined_at: is.TIME,
  updated_at: is.TIME,
})

const route = organizationRoutes<OrganizationServices>('members/')

/** The routes of members and their levels. */
export const MEMBER_ROUTES = [
  route('GET', '', 'listMembers', 'Lists the members.', {
    ...listing(MEMBER_SCHEMA),
    handle(call) {
      const members = call.services.directory.users().filter(({ isActive }) => isActive)
      return pageOfList(call, members, memberBody)
    },
  }),
  route('POST', '', 'createMember', 'Creates a user, who has no key yet.', {
    body: is.openObject({ email: is.TEXT }, { first_name: is.TEXT, level: LEVEL }),
    answers: { 201: done(MEMBER_SCHEMA) },
    async handle(call) {
      const { email, first_name: firstName = '', level = LOWEST.number } = call.body()
      requireRank(call.user, level)
      return memberBody((await change(call, 'createUser', { email, firstName, level })).user)
    },
  }),
  route('GET', ':user_uuid/', 'getMember', 'Shows one member.', {
    answers: { 200: done(MEMBER_SCHEMA) },
    handle: (call) => memberBody(memberInPath(call)),
  }),
  route('PATCH', ':user_uuid/', 'patchMember', 'Changes the level of a member.', {
    body: is.openObject({}, { level: LEVEL }),
    answers: { 200: done(MEMBER_SCHEMA) },
    async handle(call) {
      const member = otherMember(call, 'level')
      const { level } = call.body()
      if (level === undefined) return memberBody(member)
      requireRank(call.user, level)
      return memberBody(await change(call, 'changeUser', { id: member.id, changes: { level } }))
    },
  }),
  route('DELETE', ':user_uuid/', 'deleteMember', 'Removes a member.', {
    answers: { 204: done() },
    handle(call) {
      const { id } = otherMember(call, 'membership')
      return change(call, 'changeUser', { id, changes: { isActive: false } })
    },
  }),
]

/** Returns the body of a member. The ID of a membership is the UUID of its user. */
function memberBody(user: User) {
  const joinedAt = timeText(user.createdAtMs)
  return {
    id: user.uuid,
    user: userSummary(user),
    level: user.level,
    joined_at: joinedAt,
    updated_at: joinedAt,
  }
}

type MemberCall = Pick<OrganizationCall, 'services' | 'user' | 'uuid'>

/** Returns the member in the path. Throws 403 for the caller, and for a member above the caller. */
function otherMember(call: MemberCall, what: string): User {
  const member = memberInPath(call)
  if (member.id === call.user.id) throw denied(`You cannot change your own ${what}.`)
  requireRank(call.user, member.level)
  return member
}

/** Throws 403 if the level is above that of the caller, who may then neither give nor take it. */
export function requireRank(user: KeyUser, level: UserLevel): void {
  if (level > user.level)
    throw denied('Only owners can change owners or make another user an owner.')
}

function memberInPath(call: MemberCall): User {
  const uuid = call.uuid('user_uuid')
  const users = call.services.directory.users()
  const member = users.find((user) => user.uuid === uuid && user.isActive)
  if (member !== undefined) return member
  throw new ServiceError('not_found', 'The organization has no such member.')
}
