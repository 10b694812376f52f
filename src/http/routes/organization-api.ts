/** All routes of the organization, users, roles, role access, projects and keys as one table. */
import { bindAll } from '../server/route.ts'
import type { Route } from '../server/router.ts'
import { auditLogRoutes } from './audit-log.ts'
import { type DeadLetterRoutesOptions, deadLetterRoutes } from './dead-letters.ts'
import { keyRoutes } from './keys.ts'
import { organizationRoutes } from './organization.ts'
import type { OrganizationServices } from './organization-services.ts'
import { projectRoutes } from './projects.ts'
import { roleAccessRoutes } from './role-access.ts'
import { ROLE_RESOURCE } from './roles.ts'
import { userRoutes } from './users.ts'

/** The routes about who may do what. */
export function organizationApiRoutes(
  options: DeadLetterRoutesOptions & OrganizationServices,
): readonly Route[] {
  return [
    ...organizationRoutes(options),
    ...auditLogRoutes(options),
    ...deadLetterRoutes(options),
    ...bindAll([ROLE_RESOURCE], options),
    ...roleAccessRoutes(options),
    ...userRoutes(options),
    ...projectRoutes(options),
    ...keyRoutes(options),
  ]
}
