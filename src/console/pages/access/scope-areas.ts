/**
 * The scopes of personal keys, grouped by area, for the dialog that creates a key. `scope-areas.test.ts` compares them
 * with the scopes of the daemon.
 */

/** An area of the API. `resources` are the parts of its scopes before the colon. */
export interface ScopeArea {
  readonly name: string
  readonly resources: readonly string[]
}

/** The areas in the order of the navigation rail. */
export const SCOPE_AREAS: readonly ScopeArea[] = [
  { name: 'Queries and charts', resources: ['query', 'insight', 'annotation', 'action'] },
  { name: 'Dashboards and shared links', resources: ['dashboard', 'sharing_configuration'] },
  { name: 'Events', resources: ['event', 'event_definition', 'property_definition'] },
  { name: 'Feature flags', resources: ['feature_flag'] },
  {
    name: 'Experiments',
    resources: ['experiment', 'experiment_holdout', 'experiment_saved_metric'],
  },
  { name: 'Persons, groups and cohorts', resources: ['person', 'group', 'cohort'] },
  { name: 'Activity logs', resources: ['activity_log'] },
  { name: 'Project settings and secret keys', resources: ['project'] },
  { name: 'Organization, members and health', resources: ['organization'] },
  { name: 'Own user and personal keys', resources: ['user', 'personal_api_key'] },
]

/** The resources that cannot be changed with a personal key, so that they have no scope `:write`. */
export const READ_ONLY_RESOURCES: readonly string[] = [
  'activity_log',
  'property_definition',
  'query',
  'user',
]

/** The access of a key to an area: none, only reading, or also changing. */
export type Access = 'none' | 'read' | 'write'

/** Returns the scopes that give access to an area. */
export function scopesOfArea({ resources }: ScopeArea, access: Access): readonly string[] {
  if (access === 'none') return []
  return resources.map((resource) =>
    access === 'write' && !READ_ONLY_RESOURCES.includes(resource)
      ? `${resource}:write`
      : `${resource}:read`,
  )
}

/** Returns true if an area has a scope that allows changes. */
export function canBeChanged({ resources }: ScopeArea): boolean {
  return resources.some((resource) => !READ_ONLY_RESOURCES.includes(resource))
}

/** A set of scopes for a common purpose. */
export interface ScopePreset {
  readonly id: string
  readonly name: string
  readonly scopes: readonly string[]
}

/** The presets, the one with the fewest rights first. */
export const SCOPE_PRESETS: readonly ScopePreset[] = [
  {
    id: 'read',
    name: 'Read everything',
    scopes: SCOPE_AREAS.flatMap((area) => scopesOfArea(area, 'read')),
  },
  {
    id: 'charts',
    name: 'Read charts, for Grafana and reports',
    scopes: [
      'query:read',
      'insight:read',
      'dashboard:read',
      'event_definition:read',
      'property_definition:read',
    ],
  },
  { id: 'flags', name: 'Change feature flags, for CI', scopes: ['feature_flag:write'] },
  { id: 'send', name: 'Send events from a server', scopes: ['event:write'] },
  { id: 'all', name: 'Everything that I may do', scopes: ['*'] },
]
