/**
 * The routes of the members of the organization. Source: docs/compatibility/organization.md,
 * "Organization, users, keys, projects".
 */
import { timeText } from '../../../base/time.ts'
import { NEW_USER_LEVEL, type UserLevel } from '../../../rules/access/levels.ts'
import type { User } from '../../../rules/access/organization.ts'
import { userSummary } from '../../../rules/access/user.ts'
import { denied, type KeyUser } from '../../server/auth.ts'
import * as is from '../../server/schema.ts'
import { existing } from '../collection.ts'
import {
  change,
  LEVEL,
  type OrganizationCall,
  type OrganizationServices,
  organizationCollection,
  USER_SUMMARY,
} from './organization-services.ts'

const MEMBER_SCHEMA = is.namedObject('Member', {
  id: is.about(is.UUID, 'UUID of the user.'),
  user: USER_SUMMARY,
  level: LEVEL,
  joined_at: is.TIME,
  updated_at: is.TIME,
})

const collection = organizationCollection<OrganizationServices>('members/')

/** The routes that list members, change their levels, and remove them. */
export const MEMBER_ROUTES = collection({
  name: 'Member',
  noun: 'a member',
  one: ':user_uuid/',
  schema: MEMBER_SCHEMA,
  list: {
    says: 'Lists the members.',
    items: ({ services }) => services.directory.users().filter(({ isActive }) => isActive),
    show: memberBody,
  },
  find: memberInPath,
  show: memberBody,
  create: {
    says: 'Creates a user, who has no key yet.',
    body: is.openObject({ email: is.TEXT }, { first_name: is.TEXT, level: LEVEL }),
    async make(call) {
      const { email, first_name: firstName = '', level = NEW_USER_LEVEL } = call.body()
      requireRank(call.user, level)
      return (await change(call, 'createUser', { email, firstName, level })).user
    },
  },
  get: { says: 'Shows one member.' },
  patch: {
    says: 'Changes the level of a member.',
    body: is.openObject({}, { level: LEVEL }),
    async change(call, member) {
      requireOther(call, member, 'level')
      const { level } = call.body()
      if (level === undefined) return member
      requireRank(call.user, level)
      return change(call, 'changeUser', { id: member.id, changes: { level } })
    },
  },
  remove: {
    run(call) {
      const member = memberInPath(call)
      requireOther(call, member, 'membership')
      return change(call, 'changeUser', { id: member.id, changes: { isActive: false } })
    },
  },
})

/** Returns the JSON of a member. The ID of a membership is the UUID of its user. */
function memberBody(_: MemberCall, user: User) {
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

/** Throws 403 if the member is the caller or has a higher level than the caller. */
function requireOther({ user }: MemberCall, member: User, what: string): void {
  if (member.id === user.id)
    throw denied(`You cannot change your own ${what}. Ask another administrator.`)
  requireRank(user, member.level)
}

/**
 * Throws 403 if the level is above the level of the caller. The caller can neither give such a level to anybody nor
 * take it away.
 */
export function requireRank(user: KeyUser, level: UserLevel): void {
  if (level > user.level)
    throw denied('Only owners can change owners or make another user an owner.')
}

/** Returns the active member named in the path. Throws 404 `not_found`. */
export function memberInPath(call: Pick<MemberCall, 'services' | 'uuid'>): User {
  const uuid = call.uuid('user_uuid')
  const users = call.services.directory.users()
  const member = users.find((user) => user.uuid === uuid && user.isActive)
  return existing(member, 'The organization has no such member.')
}
