/**
 * The routes of the members of a project: users who have a level of their own in this project. Source: PostHog's
 * `explicit_members/`; docs/compatibility/organization.md, "Access to projects".
 */
import { ServiceError } from '../../../base/errors.ts'
import { timeText } from '../../../base/time.ts'
import { isAdministrator } from '../../../rules/access/levels.ts'
import type { ProjectMembership } from '../../../rules/access/organization.ts'
import { userSummary } from '../../../rules/access/user.ts'
import { denied } from '../../server/auth.ts'
import { byAdministrators, type Call, inProject } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf, existing } from '../collection.ts'
import {
  change,
  LEVEL,
  type OrganizationServices,
  PROJECT_LEVEL,
  USER_SUMMARY,
} from './organization-services.ts'

const MEMBER = is.namedObject('ProjectMember', {
  id: is.about(is.UUID, 'UUID of the user.'),
  user: is.nullable(USER_SUMMARY),
  level: PROJECT_LEVEL,
  parent_level: is.about(LEVEL, 'The level in the organization.'),
  effective_level: LEVEL,
  joined_at: is.TIME,
  updated_at: is.TIME,
})

type MemberCall = Pick<Call<OrganizationServices>, 'services' | 'uuid' | 'projectId'>

const collection = collectionOf<OrganizationServices>(
  '/api/projects/:project_id/explicit_members/',
  inProject('project:read'),
  byAdministrators(inProject('project:write')),
)

/** The routes of the members of a project. */
export const PROJECT_MEMBER_ROUTES = collection({
  name: 'ProjectMember',
  noun: 'a member of the project',
  one: ':user_uuid/',
  schema: MEMBER,
  list: {
    says: 'Lists the users who have a level of their own in the project.',
    items: ({ services, projectId }) => services.directory.projectMembers(projectId),
    show: memberBody,
  },
  find: memberInPath,
  show: memberBody,
  create: {
    says: 'Gives a user a level in the project.',
    body: is.openObject({ user_uuid: is.CLIENT_UUID, level: PROJECT_LEVEL }),
    make(call) {
      const { user_uuid: uuid, level } = call.body()
      const user = call.services.directory.users().find((one) => one.uuid === uuid.toLowerCase())
      if (user === undefined) {
        throw new ServiceError('does_not_exist', 'There is no such user.', { attr: 'user_uuid' })
      }
      const member = { projectId: call.projectId, userId: user.id, level }
      return change(call, 'addProjectMember', member, user.uuid)
    },
  },
  get: {},
  patch: {
    says: 'Changes the level of a member of the project.',
    body: is.openObject({}, { level: PROJECT_LEVEL }),
    change(call, member) {
      requireOther(call, member)
      const { level = member.level } = call.body()
      const { projectId, userId } = member
      return change(call, 'changeProjectMember', { projectId, userId, level })
    },
  },
  remove: {
    says: 'Removes a member of the project. The user then has the level of the organization.',
    run(call) {
      const member = memberInPath(call)
      requireOther(call, member)
      const { projectId, userId } = member
      return change(call, 'removeProjectMember', { projectId, userId })
    },
  },
})

/** Throws 403 if the member is the caller. */
function requireOther({ user }: Pick<Call, 'user'>, { userId }: ProjectMembership): void {
  if (userId === user.id)
    throw denied('You cannot change your own membership. Ask another administrator.')
}

function memberInPath(call: MemberCall): ProjectMembership {
  const { directory } = call.services
  const uuid = call.uuid('user_uuid')
  const member = directory
    .projectMembers(call.projectId)
    .find(({ userId }) => directory.userById(userId)?.uuid === uuid)
  return existing(member, 'The project has no such member.')
}

function memberBody({ services }: Pick<MemberCall, 'services'>, member: ProjectMembership) {
  const user = services.directory.userById(member.userId)
  const parent = user?.level ?? member.level
  return {
    id: user?.uuid ?? '',
    user: user === null ? null : userSummary(user),
    level: member.level,
    parent_level: parent,
    // Administrators of the organization keep their level in every project.
    effective_level: Math.max(member.level, isAdministrator(parent) ? parent : 0),
    joined_at: timeText(member.joinedAtMs),
    updated_at: timeText(member.updatedAtMs),
  }
}
