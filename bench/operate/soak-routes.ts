/**
 * The routes that the client of the bench `soak` calls in a loop: every GET route of the API description, except the
 * routes that accept events, which other parts of the load call.
 */
import { PROJECT_KEY } from '../daemon.ts'

/** The values of the names in paths. The client knows a value after it has created or found the object. */
export type SoakNames = ReadonlyMap<string, string>

/** One request. */
export interface SoakRead {
  /** The path. `{name}` stands for a value of `SoakNames`. */
  readonly path: string
  /** If true, the request contains the key of the project instead of the personal key. */
  readonly isWithProjectKey?: boolean
  /** If true, the answer never ends. The client disconnects as soon as the answer has begun. */
  readonly isEndless?: boolean
}

/** The paths that accept events, also with GET. */
const CAPTURE = ['/capture', '/batch', '/e', '/i/v0/e', '/track', '/engage', '/s', '/i/v0/ai/batch']
/** The paths that need a console session. The client has only keys. */
const OF_LOGIN = ['/api/console/session/']

/** The file of the SDK that the client requests. */
const SCRIPT = 'array.js'
const PROJECT = '/api/projects/1'
const ORGANIZATION = '/api/organizations/@current'
const TOKEN = `token=${PROJECT_KEY}`
/** The same time range in every request, so that the cost of a request does not grow with the stored data. */
const LATELY = 'date_from={since}'
const VIEW = { id: '$pageview', type: 'events', order: 0 }
const ONE_SERIES = `${LATELY}&entity_id=%24pageview&entity_type=events`
const SERIES = json([VIEW])
/** The series of an event name with few events, for questions over whole hours. */
const SIGN_IN = json({ id: '$identify', type: 'events' })
const RETAINED = `period=Hour&target_entity=${SIGN_IN}&returning_entity=${SIGN_IN}`
const FUNNEL = `${LATELY}&events=${json([VIEW, { id: '$autocapture', type: 'events', order: 1 }])}`
const CORRELATED = `funnel_correlation_type=events&funnel_correlation_person_entity=${json(VIEW)}`

const OF_PROJECT = [
  'events/?limit=100',
  'events/?limit=20&event=%24pageview',
  'events/{event}/',
  'events/{event}/fate/',
  'ingestion_fates/',
  'events/values/?key=%24browser',
  'events/export/?format=ndjson&distinct_id=soak-client',
  'sessions/property_definitions/',
  'event_definitions/',
  'event_definitions/{eventDefinition}/',
  'property_definitions/',
  'sessions/values/?key=%24channel_type',
  'insights/',
  'insights/{insight}/',
  'dashboards/',
  'insights/{insight}/sharing/',
  'dashboards/{dashboard}/',
  'dashboards/{dashboard}/sharing/',
  'annotations/',
  'annotations/{annotation}/',
  'experiments/',
  'experiments/{experiment}/',
  'experiment_holdouts/',
  'experiment_holdouts/{holdout}/',
  'experiment_saved_metrics/',
  'experiment_saved_metrics/{savedMetric}/',
  'feature_flags/usage/',
  'feature_flags/file/',
  'feature_flags/{flag}/usage/',
  'feature_flags/{flag}/explain/?distinct_id=somebody',
  'dropped_events/',
  'dropped_events/counts/',
  'ingestion_warnings/',
  'erasures/',
  'retention/',
  'actions/',
  'actions/{action}/',
  'persons/?limit=100',
  'persons/?search=user1',
  'persons/values/?key=plan',
  'persons/cohorts/?person_id={person}',
  'persons/activity/',
  'persons/{person}/',
  'persons/{person}/activity/',
  `persons/{person}/properties_timeline/?${LATELY}`,
  `persons/trends/?${ONE_SERIES}`,
  `persons/retention/?${RETAINED}`,
  `persons/stickiness/?${ONE_SERIES}&interval=hour&stickiness_days=1`,
  `persons/lifecycle/?${LATELY}&events=${SERIES}&interval=hour&lifecycle_type=new&target_date=-0d`,
  `persons/funnel/?${FUNNEL}&funnel_step=2`,
  `persons/path/?${LATELY}&limit=50`,
  `persons/funnel/correlation/?${FUNNEL}&${CORRELATED}`,
  'cohorts/',
  'cohorts/{cohort}/',
  'groups_types/',
  'groups/?group_type_index=0',
  'groups/find/?group_type_index=0&group_key={group}',
  'feature_flags/',
  'feature_flags/{flag}/',
  'scheduled_changes/',
  'scheduled_changes/{scheduled}/',
  'feature_flags/activity/',
  'feature_flags/{flag}/activity/',
  'feature_flags/{flag}/remote_config/',
  'feature_flags/evaluation_reasons/?distinct_id=somebody',
  'feature_flags/my_flags/',
  'feature_flags/local_evaluation/',
  'feature_flags/{flag}/role_access/',
  'feature_flags/{flag}/role_access/{roleAccess}/',
  'secret_keys/',
  'explicit_members/',
  'explicit_members/{projectMember}/',
  'erasures/{erasure}/',
]

const OF_ORGANIZATION = [
  'feature_flags/{flag}/',
  '',
  'members/',
  'members/{user}/',
  'roles/',
  'roles/{role}/',
  'audit_log/',
  'roles/{role}/role_memberships/',
  'resource_access/',
  'resource_access/{resourceAccess}/',
  'invites/',
  'identities/',
  'status/',
  'dead_letters/',
  'projects/',
]

/** All requests, in the order in which they are sent. */
export const SOAK_READS: readonly SoakRead[] = [
  ...OF_PROJECT.map((path) => ({ path: `${PROJECT}/${path}` })),
  ...OF_ORGANIZATION.map((path) => ({ path: `${ORGANIZATION}/${path}` })),
  ...[
    '/api/projects/',
    `${PROJECT}/`,
    '/api/users/@me/',
    '/api/personal_api_keys/',
    '/api/organizations/',
    '/api/personal_api_keys/@current/',
    '/api/personal_api_keys/{key}/',
    `/flags/?${TOKEN}&distinct_id=somebody`,
    `/decide/?v=3&${TOKEN}&distinct_id=somebody`,
    `/flags/definitions/?${TOKEN}`,
    `/api/feature_flag/local_evaluation/?${TOKEN}`,
    `/api/feature_flag/?${TOKEN}`,
    `/array/${PROJECT_KEY}/config`,
    `/array/${PROJECT_KEY}/config.js`,
    `/array/${PROJECT_KEY}/array.js`,
    `/static/${SCRIPT}`,
    `/static/1/${SCRIPT}`,
    `/api/surveys/?${TOKEN}`,
    `/api/early_access_features/?${TOKEN}`,
    `/api/web_experiments/?${TOKEN}`,
    `/api/product_tours/?${TOKEN}`,
    '/_livez/',
    '/_readyz/',
    '/_health/',
    '/metrics/',
    '/api/schema/',
    '/api/docs/',
    '/openapi.json/',
    '/shared/{share}/',
    '/embedded/{share}/',
    '/api/console/sessions/',
    '/api/console/oidc/',
  ].map((path) => ({ path })),
  { path: '/ofrep/v1/configuration', isWithProjectKey: true },
  { path: `/ofrep/v1/event_stream?${TOKEN}`, isWithProjectKey: true, isEndless: true },
  { path: `/flags/changes?${TOKEN}`, isWithProjectKey: true, isEndless: true },
  { path: `${PROJECT}/events/stream/`, isEndless: true },
]

/** Returns the path of a request with the names replaced. Throws if the value of a name is not known. */
export function addressOf({ path }: SoakRead, names: SoakNames): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = names.get(name)
    if (value === undefined) throw new Error(`the client of the soak has no ${name}`)
    return value
  })
}

/** Returns the GET routes of an API description that no request covers. */
export function routesNotAsked(document: unknown): readonly string[] {
  const paths = SOAK_READS.map(({ path }) => withoutEnd(path))
  return getRoutes(document).filter((route) => {
    if (CAPTURE.includes(route) || OF_LOGIN.includes(route)) return false
    const words = withoutEnd(route).split('/')
    return !paths.some((path) => isSame(words, path.split('/')))
  })
}

/** Returns whether a path matches a route. A parameter of the route matches a name in the path, or any segment. */
function isSame(route: readonly string[], path: readonly string[]): boolean {
  if (route.length !== path.length) return false
  return route.every((word, index) => {
    const asked = path[index] ?? ''
    if (!word.startsWith('{')) return word === asked
    return asked.startsWith('{') || ['1', '@current', '@me', PROJECT_KEY, SCRIPT].includes(asked)
  })
}

function withoutEnd(path: string): string {
  return path.replace(/\?.*/, '').replace(/\/$/, '')
}

function getRoutes(document: unknown): readonly string[] {
  if (typeof document !== 'object' || document === null || !('paths' in document)) return []
  const { paths } = document
  if (typeof paths !== 'object' || paths === null) return []
  return Object.entries(paths).flatMap(([path, methods]: [string, unknown]) =>
    typeof methods === 'object' && methods !== null && 'get' in methods ? [path] : [],
  )
}

function json(value: unknown): string {
  return encodeURIComponent(JSON.stringify(value))
}
