/** The route of the calling user. Source: docs/COMPATIBILITY.md, "Organization, users, keys, projects". */
import { ServiceError } from '../../base/errors.ts'
import type { Project } from '../../rules/access/organization.ts'
import { userSummary } from '../../rules/access/user.ts'
import { currentProjectId } from '../server/auth.ts'
import type { Answer } from '../server/respond.ts'
import { json, type Route } from '../server/router.ts'
import { organizationBody, projectBody } from '../shapes/organization.ts'
import {
  type OrganizationAccess,
  type OrganizationRoutesOptions,
  openUserAccess,
  organizationOf,
} from './organization-access.ts'

/** The route `/api/users/@me/`. */
export function userRoutes(options: OrganizationRoutesOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/api/users/:user_id/',
      handler: (request) => getUser(openUserAccess(request, options, 'user:read')),
    },
  ]
}

function getUser(access: OrganizationAccess): Answer {
  const { request, options, grant, user } = access
  const segment = request.parameter('user_id').toLowerCase()
  if (segment !== '@me' && segment !== user.uuid) {
    throw new ServiceError('not_found', 'a key shows the user whose it is: ask for @me')
  }
  const organization = organizationOf(options)
  const project = options.directory.projectById(currentProjectId(grant))
  const body = organizationBody(organization, user.level, visibleProjects(access))
  return json({
    ...userSummary(user),
    team: project === null ? null : projectBody(project, organization.id, user.level),
    organization: body,
    organizations: [body],
  })
}

/** The projects that the key may use, by id. */
export function visibleProjects({ options, grant }: OrganizationAccess): readonly Project[] {
  const { projectIds } = grant
  const projects = options.directory.projects()
  return projectIds === 'all' ? projects : projects.filter(({ id }) => projectIds.includes(id))
}
