/** All routes of persons, their activity, groups and cohorts as one table. */
import type { Route } from '../router.ts'
import { cohortRoutes } from './cohorts.ts'
import { groupRoutes } from './groups.ts'
import type { PersonRoutesOptions } from './person-access.ts'
import { personActivityRoutes } from './person-activity.ts'
import { personRoutes } from './persons.ts'

/** The routes under `/api/projects/:project_id/` about persons, groups and cohorts. */
export function personApiRoutes(options: PersonRoutesOptions): readonly Route[] {
  return [
    ...personRoutes(options),
    ...personActivityRoutes(options),
    ...groupRoutes(options),
    ...cohortRoutes(options),
  ]
}
