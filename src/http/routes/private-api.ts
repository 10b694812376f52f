/** The table of all resources that are used with personal keys, in the order of the API description. */
import type { SharedRequest } from '../../engine/threads/saved-tasks.ts'
import { Passwords } from '../console/passwords.ts'
import { bindAll, type Resource } from '../server/route.ts'
import type { Route } from '../server/router.ts'
import { ERASURE_RESOURCE, type ErasureServices } from './erasures.ts'
import { DEFINITION_RESOURCE, type DefinitionServices } from './event-definitions.ts'
import type { ExportServices } from './event-export.ts'
import type { FateServices } from './event-fates.ts'
import type { StreamServices } from './event-stream.ts'
import { type DroppedServices, EVENT_RESOURCE, type EventServices } from './events.ts'
import type { ExperimentServices } from './experiments/experiment-access.ts'
import { EXPERIMENT_RESOURCE } from './experiments/experiments.ts'
import { HOLDOUT_RESOURCE } from './experiments/holdouts.ts'
import { SAVED_METRIC_RESOURCE } from './experiments/saved-metrics.ts'
import type { FlagServices } from './flags/flag-access.ts'
import { type CopyServices, FLAG_COPY_RESOURCE } from './flags/flag-copies.ts'
import { FLAG_RESOURCE } from './flags/flags.ts'
import { SCHEDULED_RESOURCE } from './flags/scheduled-changes.ts'
import { USER_RESOURCE } from './organization/caller.ts'
import { ORGANIZATION_RESOURCE, type ServerServices } from './organization/organization.ts'
import { PROJECT_RESOURCE } from './organization/projects.ts'
import { ROLE_ACCESS_RESOURCE } from './organization/role-access.ts'
import { ROLE_RESOURCE } from './organization/roles.ts'
import type { SessionServices } from './organization/session-answers.ts'
import { SESSION_RESOURCE } from './organization/sessions.ts'
import { ACTION_RESOURCE } from './persons/actions.ts'
import { COHORT_RESOURCE } from './persons/cohorts.ts'
import { GROUP_RESOURCE } from './persons/groups.ts'
import { ANALYTIC_RESOURCE } from './persons/person-analytics.ts'
import type { PersonServices } from './persons/person-services.ts'
import { PERSON_RESOURCE } from './persons/persons.ts'
import { insightAnswers, QUERY_RESOURCE, type QueryServices } from './queries.ts'
import { ANNOTATION_RESOURCE } from './saved/annotations.ts'
import { DASHBOARD_RESOURCE } from './saved/dashboards.ts'
import { INSIGHT_RESOURCE } from './saved/insights.ts'
import type { SavedServices } from './saved/saved-services.ts'
import { SHARED_RESOURCE } from './saved/shared.ts'
import { keptResults, sharedRuns } from './saved/shared-results.ts'
import { SHARING_RESOURCE } from './saved/sharing.ts'

/** The services that all private resources need together. */
export type PrivateServices = EventServices &
  ExportServices &
  DroppedServices &
  StreamServices &
  FateServices &
  FlagServices &
  ExperimentServices &
  CopyServices &
  ErasureServices &
  DefinitionServices &
  PersonServices &
  QueryServices &
  SavedServices &
  SessionServices &
  ServerServices

/** All private resources, for projects and for the organization. */
export const PRIVATE_RESOURCES: readonly Resource<PrivateServices>[] = [
  EVENT_RESOURCE,
  DEFINITION_RESOURCE,
  PERSON_RESOURCE,
  ANALYTIC_RESOURCE,
  QUERY_RESOURCE,
  ERASURE_RESOURCE,
  ACTION_RESOURCE,
  COHORT_RESOURCE,
  GROUP_RESOURCE,
  INSIGHT_RESOURCE,
  DASHBOARD_RESOURCE,
  ANNOTATION_RESOURCE,
  SHARING_RESOURCE,
  SHARED_RESOURCE,
  FLAG_RESOURCE,
  EXPERIMENT_RESOURCE,
  HOLDOUT_RESOURCE,
  SAVED_METRIC_RESOURCE,
  FLAG_COPY_RESOURCE,
  SCHEDULED_RESOURCE,
  ROLE_ACCESS_RESOURCE,
  ROLE_RESOURCE,
  ORGANIZATION_RESOURCE,
  PROJECT_RESOURCE,
  USER_RESOURCE,
  SESSION_RESOURCE,
]

const PROJECT_PATH = '/api/projects/:project_id/'
const ENVIRONMENT_PATH = '/api/environments/:project_id/'

/** Returns the routes under `/api/` that are used with personal keys, and the routes of shared pages. */
export function privateRoutes(
  services: Omit<PrivateServices, 'computeInsight' | 'computeShared' | 'showShared' | 'passwords'>,
): readonly Route[] {
  const computeInsight = insightAnswers(services)
  const computeShared = keptResults(computeInsight, services.clock)
  const hasConsole = services.sessions !== undefined
  const resources = PRIVATE_RESOURCES.filter((one) => hasConsole || one !== SESSION_RESOURCE)
  const { queries } = services
  const showShared = sharedRuns((request: SharedRequest) =>
    queries.organization('showShared', request),
  )
  const passwords = services.sessions?.passwords ?? new Passwords()
  const own = { computeInsight, computeShared, showShared, passwords }
  const routes = bindAll(resources, { ...services, ...own })
  return [...routes, ...underEnvironments(routes)]
}

/**
 * Returns copies of the routes of a project under `/api/environments/`, a path that PostHog's pages and clients use. A
 * project has one environment, which has the same number. A route that already exists under that path is not copied.
 */
function underEnvironments(routes: readonly Route[]): readonly Route[] {
  const taken = new Set(routes.map(({ method, path }) => `${method} ${path}`))
  return routes
    .filter(({ path }) => path.startsWith(PROJECT_PATH))
    .map((route) => ({ ...route, path: ENVIRONMENT_PATH + route.path.slice(PROJECT_PATH.length) }))
    .filter(({ method, path }) => !taken.has(`${method} ${path}`))
}
