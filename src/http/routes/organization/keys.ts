/**
 * The routes of the calling user's personal keys. A request cannot create a key that has more rights than the key of
 * the request. It also cannot replace, revoke or change the rights of such a key. Source:
 * docs/compatibility/organization.md, "Organization, users, keys, projects".
 */
import { invalidInput, ServiceError } from '../../../base/errors.ts'
import { given } from '../../../base/json.ts'
import { NAME_CHARACTERS_MAX } from '../../../base/limits.ts'
import { optionalTimeText, timeText } from '../../../base/time.ts'
import type { PersonalKeyView } from '../../../engine/threads/organization-tasks.ts'
import { hasScope, SCOPES } from '../../../rules/access/scopes.ts'
import { denied, type FullGrant } from '../../server/auth.ts'
import {
  BY_ANY_KEY,
  type Call,
  callerWith,
  done,
  type Resource,
  routesOf,
} from '../../server/route.ts'
import type { TypeOf } from '../../server/schema.ts'
import * as is from '../../server/schema.ts'
import { collectionOf, existing } from '../collection.ts'
import { ask, change, type OrganizationServices } from './organization-services.ts'

/** The label of a key in the body of a request. */
export const LABEL = is.name(NAME_CHARACTERS_MAX)
/** The members of every key in an answer. */
export const KEY_MEMBERS = {
  id: is.WHOLE,
  label: is.TEXT,
  value: is.about(
    is.nullable(is.TEXT),
    'The key itself. It is shown only when the key is created or rolled, and is null otherwise.',
  ),
  mask_value: is.TEXT,
  created_at: is.TIME,
  last_rolled_at: is.nullable(is.TIME),
}
const EXPIRY = '`expires_at` must be a time in the future, such as 2030-01-31T12:00:00Z.'
const PROJECT_NUMBER = { ...is.WHOLE, minimum: 1, maximum: Number.MAX_SAFE_INTEGER }
const FIELDS = {
  scoped_teams: is.about(
    is.nullable(
      is.list(is.refused(PROJECT_NUMBER, '`scoped_teams` must contain project numbers.')),
    ),
    'Project numbers. Null means all projects.',
  ),
  expires_at: is.refused(is.nullable(is.TIME), EXPIRY),
}
const SCOPE_LIST = is.about(
  is.list(is.refused(is.TEXT, '`scopes` must contain texts.')),
  `* for all scopes, or some of ${SCOPES.join(', ')}.`,
)
const PERSONAL_KEY_MEMBERS = {
  ...KEY_MEMBERS,
  user_id: is.WHOLE,
  scopes: is.list(is.TEXT),
  scoped_teams: is.about(
    is.nullable(is.list(is.WHOLE)),
    'Project numbers. Null means all projects.',
  ),
  expires_at: is.nullable(is.TIME),
}
/** A personal key in an answer. */
export const PERSONAL_KEY = is.namedObject('PersonalKey', PERSONAL_KEY_MEMBERS)
/**
 * The key with which the request was made. The lists of projects and organizations are never null here, because clients
 * read them without checking for null.
 */
const CURRENT_KEY = is.namedObject('CurrentPersonalKey', {
  ...PERSONAL_KEY_MEMBERS,
  scoped_teams: is.about(is.list(is.WHOLE), 'Project numbers. Empty means all projects.'),
  scoped_organizations: is.about(is.list(is.TEXT), 'Always empty.'),
})
const DRAFT = is.named(
  'PersonalKeyDraft',
  is.openObject({ label: LABEL, scopes: SCOPE_LIST }, FIELDS),
)
const CHANGES = is.named(
  'PersonalKeyChanges',
  is.openObject({}, { label: LABEL, scopes: SCOPE_LIST, ...FIELDS }),
)

type KeyCall = Call<OrganizationServices>

const KEYS = '/api/personal_api_keys/'
const READER = callerWith('personal_api_key:read')
const WRITER = callerWith('personal_api_key:write')
const route = routesOf<OrganizationServices>(KEYS, READER, WRITER)
const collection = collectionOf<OrganizationServices>(KEYS, READER, WRITER)

/** A key. `text` is the secret itself if the key was just created or rolled, and otherwise null. */
interface ShownKey {
  readonly key: PersonalKeyView
  readonly text: string | null
}

/** The routes under `/api/personal_api_keys/`. */
export const KEY_ROUTES: Resource<OrganizationServices>['routes'] = [
  route('GET', '@current/', 'getCurrentPersonalKey', 'Shows the key of this request.', {
    who: BY_ANY_KEY,
    answers: { 200: done(CURRENT_KEY) },
    async handle(call) {
      const key = keyBody(await ownKey(call, call.grant.keyId ?? null), null)
      return { ...key, scoped_teams: key.scoped_teams ?? [], scoped_organizations: [] }
    },
  }),
  ...collection({
    name: 'PersonalKey',
    noun: 'a key',
    one: ':id/',
    schema: PERSONAL_KEY,
    list: {
      says: 'Lists the keys of the caller.',
      items: ownKeys,
      show: (_, key) => keyBody(key, null),
    },
    find: async (call) => ({ key: await keyInPath(call), text: null }),
    show: (_, { key, text }: ShownKey) => keyBody(key, text),
    create: {
      says: 'Creates a key with at most the rights of the calling key.',
      body: DRAFT,
      make(call) {
        const { label, scopes, projectIds = 'all', expiresAtMs } = fieldsOf(call.body(), call.nowMs)
        const rights = { scopes, projectIds, expiresAtMs: expiresAtMs ?? null }
        requireContained(call.grant, rights, 'create a key')
        const fields = given({ label, scopes, projectIds, expiresAtMs })
        return change(call, 'createKey', { userId: call.user.id, ...fields })
      },
    },
    get: { says: 'Shows one key.' },
    patch: {
      body: CHANGES,
      async change(call, { key: before }) {
        const { expiresAtMs, ...changes } = fieldsOf(call.body(), call.nowMs)
        if (expiresAtMs !== undefined && expiresAtMs !== before.expiresAtMs) {
          throw invalidInput('expires_at', 'cannot be changed. Create another key')
        }
        if (changes.scopes !== undefined || changes.projectIds !== undefined) {
          // The calling key must have all rights that the changed key had before, and all rights that it gets.
          // Otherwise a key with few rights could take rights away from another key, or give it more rights than its
          // own.
          requireContained(call.grant, before, 'change the rights of a key')
          requireContained(call.grant, { ...before, ...changes }, 'turn a key into one')
        }
        return { key: await change(call, 'changeKey', { id: before.id, changes }), text: null }
      },
    },
    remove: {
      says: 'Revokes a key with at most the rights of the calling key.',
      async run(call) {
        const before = await keyInPath(call)
        // Without this check, somebody who finds a key with few rights could lock its user out.
        requireContained(call.grant, before, 'revoke a key')
        await change(call, 'revokeKey', before.id)
      },
    },
  }),
  route(
    'POST',
    ':id/roll/',
    'rollPersonalKey',
    'Replaces the secret of a key with at most the rights of the calling key.',
    {
      answers: { 200: done(PERSONAL_KEY) },
      async handle(call) {
        const before = await keyInPath(call)
        // The client receives the new secret, and with it all rights of the replaced key. These must not exceed the
        // rights of the calling key.
        requireContained(call.grant, before, 'replace a key')
        const { text, key } = await change(call, 'rollKey', before.id)
        return keyBody(key, text)
      },
    },
  ),
]

/** The rights of a key: its scopes, its projects, and when it expires. */
export type KeyRights = Pick<FullGrant, 'scopes' | 'projectIds' | 'expiresAtMs'>

/**
 * Throws 403 `permission_denied` if `rights` exceed those of the calling key: if they include a scope or a project that
 * the calling key does not have, or if they expire later than the calling key. `what` names the refused action in the
 * error text.
 */
export function requireContained(grant: FullGrant, rights: KeyRights, what: string): void {
  const refuse = (lack: string): never => {
    throw denied(`This personal API key cannot ${what} that ${lack}. Use a key with these rights.`)
  }
  // Both keys belong to the same user, whose level limits both in the same way and may rise later. The scopes and
  // projects of the keys themselves are therefore compared, without the limit of the level.
  const lacking = rights.scopes.filter((scope) => !hasScope(grant.keyScopes, scope))
  if (lacking.length > 0) refuse(`has scopes that the calling key lacks (${lacking.join(', ')})`)
  const { keyProjectIds: projectIds, expiresAtMs } = grant
  const isWithin =
    projectIds === 'all' ||
    (rights.projectIds !== 'all' && rights.projectIds.every((id) => projectIds.includes(id)))
  if (!isWithin) refuse('reaches projects that the calling key may not use')
  const isShorter =
    expiresAtMs === null || (rights.expiresAtMs !== null && rights.expiresAtMs <= expiresAtMs)
  if (!isShorter) refuse('is valid for longer than the calling key')
}

/** Returns the JSON of a key. `value` is the key itself if it was just created or rolled, and otherwise null. */
export function keyBody(key: PersonalKeyView, value: string | null) {
  return {
    id: key.id,
    label: key.label,
    value,
    mask_value: `phx_...${key.lastFour}`,
    user_id: key.userId,
    scopes: key.scopes,
    scoped_teams: key.projectIds === 'all' ? null : key.projectIds,
    created_at: timeText(key.createdAtMs),
    last_rolled_at: optionalTimeText(key.rolledAtMs),
    expires_at: optionalTimeText(key.expiresAtMs),
  }
}

/**
 * Converts the members of a request's body to the fields of the store. For projects, null and an empty list mean all
 * projects.
 */
function fieldsOf<Fields extends TypeOf<typeof CHANGES>>(
  { scoped_teams: projects, expires_at: expiry, ...fields }: Fields,
  nowMs: number,
) {
  const isAll = projects === null || projects?.length === 0
  const projectIds: readonly number[] | 'all' | undefined = isAll ? 'all' : projects
  const expiresAtMs =
    expiry === undefined || expiry === null ? undefined : timeToCome(expiry, nowMs)
  return { ...fields, ...given({ projectIds, expiresAtMs }) }
}

function timeToCome(text: string, nowMs: number): number {
  const timeMs = /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text) ? Date.parse(text) : Number.NaN
  if (timeMs > nowMs) return timeMs
  throw new ServiceError('invalid_input', EXPIRY, { attr: 'expires_at' })
}

async function ownKeys(call: KeyCall): Promise<readonly PersonalKeyView[]> {
  const keys = await ask(call, 'listKeys', { userId: call.user.id })
  return keys.filter(({ revokedAtMs }) => revokedAtMs === null)
}

function keyInPath(call: KeyCall): Promise<PersonalKeyView> {
  return ownKey(call, call.number('id'))
}

async function ownKey(call: KeyCall, id: number | null): Promise<PersonalKeyView> {
  const key = (await ownKeys(call)).find((candidate) => candidate.id === id)
  return existing(key, 'You have no such personal API key.')
}
