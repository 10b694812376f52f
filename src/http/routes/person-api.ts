/** All routes of persons, their activity, analytics, actions, groups and cohorts as one table. */
import type { Route } from '../server/router.ts'
import { type ActionRoutesOptions, actionRoutes } from './actions.ts'
import { cohortRoutes } from './cohorts.ts'
import { groupRoutes } from './groups.ts'
import { personActivityRoutes } from './person-activity.ts'
import { type AnalyticRoutesOptions, personAnalyticRoutes } from './person-analytics.ts'
import { personRoutes } from './persons.ts'

/** What all of them work with. */
export type PersonApiOptions = ActionRoutesOptions & AnalyticRoutesOptions

/** The routes under `/api/projects/:project_id/` about persons, actions, groups and cohorts. */
export function personApiRoutes(options: PersonApiOptions): readonly Route[] {
  return [
    ...personRoutes(options),
    ...personActivityRoutes(options),
    ...personAnalyticRoutes(options),
    ...actionRoutes(options),
    ...groupRoutes(options),
    ...cohortRoutes(options),
  ]
}
