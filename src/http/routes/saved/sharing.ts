/** The routes for sharing insights and dashboards. Source: docs/compatibility/saved.md, "Sharing". */
import { randomBytes } from 'node:crypto'
import { invalidInput } from '../../../base/errors.ts'
import { given } from '../../../base/json.ts'
import { optionalTimeText, timeText } from '../../../base/time.ts'
import { parseTimestamp } from '../../../rules/capture/timestamp.ts'
import { SHARE_NOTE_CHARACTERS_MAX } from '../../../rules/saved/limits.ts'
import {
  SHARING_SETTINGS,
  type SharedPlace,
  type SharePassword,
  type Sharing,
} from '../../../rules/saved/saved.ts'
import { accessOf, requirePasswordRoom } from '../../../rules/saved/shared-access.ts'
import { requireScope } from '../../server/auth.ts'
import { type AnyRoute, done, inProject, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { PASSWORD_CHARACTERS_MAX } from '../limits.ts'
import { ask, change } from '../organization/organization-services.ts'
import { existing, placeInPath, type SavedCall, type SavedServices } from './saved-services.ts'

const SETTINGS = is.options(
  Object.fromEntries(SHARING_SETTINGS.map((name) => [name, is.BOOLEAN])) as Record<
    (typeof SHARING_SETTINGS)[number],
    typeof is.BOOLEAN
  >,
)
/** The minimum length of a password in characters, the same as in PostHog. */
const PASSWORD_CHARACTERS_LEAST = 8
/** How many random bytes a password has that the server chooses. */
const PASSWORD_BYTES = 15

const PASSWORD = {
  id: is.WHOLE,
  created_at: is.TIME,
  note: is.TEXT,
  created_by_email: is.TEXT,
}
const SHARING = is.namedObject('Sharing', {
  created_at: is.nullable(is.TIME),
  enabled: is.BOOLEAN,
  access_token: is.about(
    is.nullable(is.TEXT),
    'The token in the URL of the shared page: /shared/<token>/ or /embedded/<token>/.',
  ),
  settings: is.nullable(SETTINGS),
  password_required: is.BOOLEAN,
  share_passwords: is.list(is.object({ ...PASSWORD, is_active: is.BOOLEAN })),
  expires_at: is.about(
    is.nullable(is.TIME),
    'When the link stops working. Null means that it does not expire.',
  ),
  range_changes_allowed: is.about(is.BOOLEAN, 'Whether readers may choose another time range.'),
  embedding_allowed: is.about(
    is.BOOLEAN,
    'Whether pages of other origins may show the page in a frame.',
  ),
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
        'If true, the link shows nothing without one of its passwords.',
      ),
      expires_at: is.nullable(is.TEXT),
      range_changes_allowed: is.BOOLEAN,
      embedding_allowed: is.BOOLEAN,
    },
  ),
)
const PASSWORD_DRAFT = is.named(
  'SharePasswordDraft',
  is.openObject(
    {},
    {
      raw_password: is.about(
        is.text(PASSWORD_CHARACTERS_MAX),
        'The password. If it is missing or empty, the answer has a random one.',
      ),
      note: is.text(SHARE_NOTE_CHARACTERS_MAX),
    },
  ),
)
const NEW_PASSWORD = is.namedObject('NewSharePassword', {
  ...PASSWORD,
  password: is.about(is.TEXT, 'The password. It is shown only here.'),
})

const route = routesOf<SavedServices>(
  '/api/projects/:project_id/',
  inProject('sharing_configuration:read'),
  inProject('sharing_configuration:write'),
)

/** The routes for sharing insights and dashboards. */
export const SHARING_RESOURCE: Resource<SavedServices> = {
  name: 'Sharing',
  sentence: 'Insights and dashboards for people without a key.',
  segments: {
    id: is.about(is.WHOLE, 'Number of the insight or the dashboard.'),
    password_id: is.about(is.WHOLE, 'Number of the password.'),
  },
  routes: [...sharingRoutes('dashboards', 'dashboard'), ...sharingRoutes('insights', 'insight')],
}

function sharingRoutes(
  kind: SharedPlace['kind'],
  name: 'dashboard' | 'insight',
): readonly AnyRoute<SavedServices>[] {
  const title = name === 'dashboard' ? 'Dashboard' : 'Insight'
  const path = `${kind}/:id/sharing/`
  /** Returns how the object named in the path is shared. Throws 404. */
  const thing = async (call: SavedCall) => {
    const place = placeInPath(call)
    const { sharing, isDeleted, id, projectId } =
      kind === 'dashboards'
        ? existing(await ask(call, 'getDashboard', place), name)
        : existing(await ask(call, 'getInsight', place), name).insight
    existing(isDeleted ? null : id, name)
    return { sharing, place: { kind, id, projectId } }
  }
  /** Returns how the object named in the path is shared. Throws 403 if the caller may not change the object. */
  const own = (call: SavedCall) => {
    requireScope(call.grant, `${name}:write`)
    return thing(call)
  }
  return [
    route('GET', path, `get${title}Sharing`, `Shows how the ${name} is shared.`, {
      answers: { 200: done(SHARING) },
      handle: async (call) => sharingBody(call, (await thing(call)).sharing),
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
          const { enabled, settings, expires_at: expiry, ...flags } = call.body()
          const wanted = settings === undefined ? undefined : settingsOf(settings)
          const access = given({
            isPasswordRequired: flags.password_required,
            isRangeChangeable: flags.range_changes_allowed,
            isEmbeddable: flags.embedding_allowed,
            expiresAtMs: typeof expiry === 'string' ? momentOf(expiry) : expiry,
          })
          const request = { ...place, enabled, settings: wanted, access }
          return sharingBody(call, await change(call, 'changeSharing', request))
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
          return sharingBody(call, await change(call, 'refreshSharing', place))
        },
      },
    ),
    route(
      'POST',
      `${path}passwords/`,
      `create${title}SharePassword`,
      `Adds a password to the link of the ${name}. The key also needs ${name}:write.`,
      {
        body: PASSWORD_DRAFT,
        answers: { 201: done(NEW_PASSWORD) },
        async handle(call) {
          const { place, sharing } = await own(call)
          const { raw_password: sent, note = '' } = call.body()
          const password = sent || randomBytes(PASSWORD_BYTES).toString('base64url')
          if ([...password].length < PASSWORD_CHARACTERS_LEAST) {
            throw invalidInput(
              'raw_password',
              `must have at least ${PASSWORD_CHARACTERS_LEAST} characters`,
            )
          }
          // The limit is checked before the hash, because computing a hash costs much more than a refusal. The store
          // checks it again, because another request may add a password in between.
          requirePasswordRoom(sharing)
          const hash = await call.services.passwords.hash(password)
          const request = { ...place, hash, note, createdById: call.user.id }
          const made = accessOf(await change(call, 'addSharePassword', request)).passwords.at(-1)
          if (made === undefined) throw new TypeError('The password was not stored.')
          return { ...passwordBody(call, made), password }
        },
      },
    ),
    route(
      'DELETE',
      `${path}passwords/:password_id/`,
      `delete${title}SharePassword`,
      `Removes a password of the link of the ${name}. The key also needs ${name}:write.`,
      {
        answers: { 204: done() },
        async handle(call) {
          const { place } = await own(call)
          const request = { ...place, passwordId: call.number('password_id') ?? 0 }
          await change(call, 'removeSharePassword', request, String(place.id))
        },
      },
    ),
  ]
}

/** Returns the settings that Tenrec knows. All other members of the body are ignored. */
function settingsOf(settings: is.TypeOf<typeof SETTINGS> | null) {
  const names = SHARING_SETTINGS.filter((name) => settings?.[name] !== undefined)
  return Object.fromEntries(names.map((name) => [name, settings?.[name] === true]))
}

function momentOf(text: string): number {
  const timeMs = parseTimestamp(text)
  if (timeMs !== null) return timeMs
  throw invalidInput('expires_at', 'must be a time such as 2024-05-01T12:00:00Z')
}

function passwordBody(
  { services }: Pick<SavedCall, 'services'>,
  { id, createdAtMs, note, createdById }: SharePassword,
) {
  const author = createdById === null ? null : services.directory.userById(createdById)
  return {
    id,
    created_at: timeText(createdAtMs),
    note,
    created_by_email: author?.email ?? 'deleted user',
  }
}

function sharingBody(call: Pick<SavedCall, 'services'>, sharing: Sharing | null) {
  const access = accessOf(sharing)
  return {
    created_at: optionalTimeText(sharing?.createdAtMs ?? null),
    enabled: sharing?.isEnabled === true,
    access_token: sharing?.token ?? null,
    settings: sharing?.settings ?? null,
    password_required: access.isPasswordRequired,
    share_passwords: access.passwords.map((one) => ({
      ...passwordBody(call, one),
      is_active: true,
    })),
    expires_at: optionalTimeText(access.expiresAtMs),
    range_changes_allowed: access.isRangeChangeable,
    embedding_allowed: access.isEmbeddable,
  }
}
