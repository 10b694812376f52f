/**
 * The route that shows the calling user. Source: docs/compatibility/organization.md, "Organization, users, keys,
 * projects".
 */
import { ServiceError } from '../../../base/errors.ts'
import { userSummary } from '../../../rules/access/user.ts'
import { currentProjectId } from '../../server/auth.ts'
import { callerWith, done, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { KEY_ROUTES } from './keys.ts'
import { ORGANIZATION, organizationBody } from './organization.ts'
import { type OrganizationServices, USER_MEMBERS } from './organization-services.ts'
import { PROJECT, projectBody, visibleProjects } from './projects.ts'

const route = routesOf<OrganizationServices>('/api/users/', callerWith('user:read'))

const USER = is.namedObject('User', {
  ...USER_MEMBERS,
  team: is.nullable(PROJECT),
  organization: ORGANIZATION,
  organizations: is.list(ORGANIZATION),
})

/** The routes of the calling user and of this user's personal keys. */
export const USER_RESOURCE: Resource<OrganizationServices> = {
  name: 'User and personal keys',
  sentence: 'The user who owns the key, and the other keys of that user.',
  segments: { id: is.about(is.WHOLE, 'Key number.') },
  routes: [
    route('GET', ':user_id/', 'getUser', 'Shows the caller.', {
      answers: { 200: done(USER) },
      handle(call) {
        const { services, grant, user } = call
        const segment = call.request.parameter('user_id').toLowerCase()
        if (segment !== '@me' && segment !== user.uuid) {
          throw new ServiceError('not_found', 'A key can show only its own user. Ask for `@me`.')
        }
        const project = services.directory.projectById(currentProjectId(grant))
        const organization = organizationBody(call, visibleProjects(call))
        return {
          ...userSummary(user),
          team: project === null ? null : projectBody(call, project),
          organization,
          organizations: [organization],
        }
      },
    }),
    ...KEY_ROUTES,
  ],
}
