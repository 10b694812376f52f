/** Persons, their activity, analytics, actions, groups and cohorts: their resources and routes. */
import { bindAll, type Resource } from '../server/route.ts'
import type { Route } from '../server/router.ts'
import { about, TEXT_OR_NUMBER } from '../server/schema.ts'
import { ACTION_RESOURCE, type ActionServices } from './actions.ts'
import { COHORT_RESOURCE } from './cohorts.ts'
import { GROUP_RESOURCE } from './groups.ts'
import { ACTIVITY_ROUTES } from './person-activity.ts'
import { ANALYTIC_RESOURCE, type AnalyticServices } from './person-analytics.ts'
import type { PersonServices } from './person-services.ts'
import { PERSON_ROUTES } from './persons.ts'

/** What all of them work with. */
export type PersonApiOptions = ActionServices & AnalyticServices

/** Persons, apart from analytics. */
export const PERSON_RESOURCE: Resource<PersonServices> = {
  name: 'Persons',
  sentence: 'Users as events made them. Parameters may stand in the query or in a JSON body.',
  segments: { id: about(TEXT_OR_NUMBER, 'Number or uuid of the person.') },
  isTable: true,
  routes: [...PERSON_ROUTES, ...ACTIVITY_ROUTES],
}

/** The routes under `/api/projects/:project_id/` about persons, actions, groups and cohorts. */
export function personApiRoutes(services: PersonApiOptions): readonly Route[] {
  return [
    ...bindAll([PERSON_RESOURCE, GROUP_RESOURCE, COHORT_RESOURCE], services),
    ...bindAll([ANALYTIC_RESOURCE], services),
    ...bindAll([ACTION_RESOURCE], services),
  ]
}
