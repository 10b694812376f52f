/** All routes of the organization, users, roles, role access, projects and keys as one table. */
import type { Route } from '../router.ts'
import { keyRoutes } from './keys.ts'
import { organizationRoutes } from './organization.ts'
import type { OrganizationRoutesOptions } from './organization-access.ts'
import { projectRoutes } from './projects.ts'
import { roleAccessRoutes } from './role-access.ts'
import { roleRoutes } from './roles.ts'
import { userRoutes } from './users.ts'

/** The routes about who may do what. */
export function organizationApiRoutes(options: OrganizationRoutesOptions): readonly Route[] {
  return [
    ...organizationRoutes(options),
    ...roleRoutes(options),
    ...roleAccessRoutes(options),
    ...userRoutes(options),
    ...projectRoutes(options),
    ...keyRoutes(options),
  ]
}
