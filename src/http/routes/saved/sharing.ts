/** The routes of sharing insights and dashboards. Source: docs/compatibility/saved.md, "Sharing". */
import { optionalTimeText } from '../../../base/time.ts'
import { SHARING_SETTINGS, type SharedPlace, type Sharing } from '../../../rules/saved/saved.ts'
import { denied, requireScope } from '../../server/auth.ts'
import { type AnyRoute, done, inProject, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { ask, change } from '../organization/organization-services.ts'
import { existing, placeInPath, type SavedCall, type SavedServices } from './saved-services.ts'

const SETTINGS = is.options(
  Object.fromEntries(SHARING_SETTINGS.map((name) => [name, is.BOOLEAN])) as Record<
    (typeof SHARING_SETTINGS)[number],
    typeof is.BOOLEAN
  >,
)
const SHARING = is.namedObject('Sharing', {
  created_at: is.nullable(is.TIME),
  enabled: is.BOOLEAN,
  access_token: is.about(is.nullable(is.TEXT), 'Opens /shared/ and /embedded/.'),
  settings: is.nullable(SETTINGS),
  password_required: is.BOOLEAN,
  share_passwords: is.list(is.ANY),
})
const CHANGES = is.named(
  'SharingChanges',
  is.openObject(
    {},
    {
      enabled: is.BOOLEAN,
      settings: is.nullable(SETTINGS),
      password_required: is.about(
        is.BOOLEAN,
        'True is refused with 403, because passwords are not supported.',
      ),
    },
  ),
)

const route = routesOf<SavedServices>(
  '/api/projects/:project_id/',
  inProject('sharing_configuration:read'),
  inProject('sharing_configuration:write'),
)

/** The sharing settings of insights and dashboards. */
export const SHARING_RESOURCE: Resource<SavedServices> = {
  name: 'Sharing',
  sentence: 'Insights and dashboards for people without a key.',
  segments: { id: is.about(is.WHOLE, 'Number of the insight or the dashboard.') },
  routes: [...sharingRoutes('dashboards', 'dashboard'), ...sharingRoutes('insights', 'insight')],
}

function sharingRoutes(
  kind: SharedPlace['kind'],
  name: 'dashboard' | 'insight',
): readonly AnyRoute<SavedServices>[] {
  const title = name === 'dashboard' ? 'Dashboard' : 'Insight'
  const path = `${kind}/:id/sharing/`
  /** Returns the sharing of the object in the path. Throws 404. */
  const thing = async (call: SavedCall) => {
    const place = placeInPath(call)
    const { sharing, isDeleted, id, projectId } =
      kind === 'dashboards'
        ? existing(await ask(call, 'getDashboard', place), name)
        : existing(await ask(call, 'getInsight', place), name).insight
    existing(isDeleted ? null : id, name)
    return { sharing, place: { kind, id, projectId } }
  }
  /** Returns the sharing of the object in the path if the caller may change the object. */
  const own = (call: SavedCall) => {
    requireScope(call.grant, `${name}:write`)
    return thing(call)
  }
  return [
    route('GET', path, `get${title}Sharing`, `Shows how the ${name} is shared.`, {
      answers: { 200: done(SHARING) },
      handle: async (call) => sharingBody((await thing(call)).sharing),
    }),
    route(
      'PATCH',
      path,
      `patch${title}Sharing`,
      `Shares the ${name}. The key also needs ${name}:write.`,
      {
        body: CHANGES,
        answers: { 200: done(SHARING) },
        async handle(call) {
          const { place } = await own(call)
          const { enabled, settings, password_required: isLocked } = call.body()
          if (isLocked === true) throw denied('Passwords for shared pages are not supported.')
          const wanted = settings === undefined ? undefined : settingsOf(settings)
          const request = { ...place, enabled, settings: wanted }
          return sharingBody(await change(call, 'changeSharing', request))
        },
      },
    ),
    route(
      'POST',
      `${path}refresh/`,
      `refresh${title}Sharing`,
      `Gives the ${name} a new token. The key also needs ${name}:write.`,
      {
        answers: { 200: done(SHARING) },
        async handle(call) {
          const { place } = await own(call)
          return sharingBody(await change(call, 'refreshSharing', place))
        },
      },
    ),
  ]
}

/** Returns the known settings. Other members that a client sent are left out. */
function settingsOf(settings: is.TypeOf<typeof SETTINGS> | null) {
  const names = SHARING_SETTINGS.filter((name) => settings?.[name] !== undefined)
  return Object.fromEntries(names.map((name) => [name, settings?.[name] === true]))
}

function sharingBody(sharing: Sharing | null) {
  return {
    created_at: optionalTimeText(sharing?.createdAtMs ?? null),
    enabled: sharing?.isEnabled === true,
    access_token: sharing?.token ?? null,
    settings: sharing?.settings ?? null,
    password_required: false,
    share_passwords: [],
  }
}
