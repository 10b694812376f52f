/**
 * The routes of the calling user's personal keys. No key makes another that may do more than itself, nor
 * replaces, revokes or changes the rights of one that does.
 * Source: docs/COMPATIBILITY.md, "Organization, users, keys, projects".
 */
import { ServiceError } from '../../base/errors.ts'
import type { PersonalKeyView } from '../../engine/threads/organization-tasks.ts'
import type { Scope } from '../../rules/access/scopes.ts'
import type { Answer } from '../server/respond.ts'
import { json, type Route } from '../server/router.ts'
import { missingField } from '../shapes/body-fields.ts'
import { personalKeyBody, readKeyFields } from '../shapes/organization.ts'
import {
  ask,
  change,
  fieldsOf,
  listAnswer,
  numberInPath,
  type OrganizationAccess,
  type OrganizationRoutesOptions,
  openUserAccess,
  requireContained,
} from './organization-access.ts'

const KEYS_PATH = '/api/personal_api_keys/'
const KEY_PATH = `${KEYS_PATH}:id/`

/** The routes under `/api/personal_api_keys/`. */
export function keyRoutes(options: OrganizationRoutesOptions): readonly Route[] {
  const route = (
    method: Route['method'],
    path: string,
    handle: (access: OrganizationAccess) => Promise<Answer>,
  ): Route => {
    const scope: Scope = method === 'GET' ? 'personal_api_key:read' : 'personal_api_key:write'
    return {
      method,
      path,
      handler: async (request) => handle(openUserAccess(request, options, scope)),
    }
  }
  return [
    route('GET', KEYS_PATH, listKeys),
    route('POST', KEYS_PATH, createKey),
    route('GET', KEY_PATH, getKey),
    route('PATCH', KEY_PATH, patchKey),
    route('DELETE', KEY_PATH, revokeKey),
    route('POST', `${KEY_PATH}roll/`, rollKey),
  ]
}

async function listKeys(access: OrganizationAccess): Promise<Answer> {
  const keys = await ownKeys(access)
  return listAnswer(
    access,
    keys.map((key) => personalKeyBody(key, null)),
  )
}

async function createKey(access: OrganizationAccess): Promise<Answer> {
  const { grant, options, request, user } = access
  const fields = readKeyFields(fieldsOf(request), options.clock.now())
  const { label, scopes } = fields
  if (label === undefined) throw missingField('label')
  if (scopes === undefined) throw missingField('scopes')
  const { projectIds = 'all', expiresAtMs = null } = fields
  requireContained(grant, { scopes, projectIds, expiresAtMs }, 'make a key')
  const { text, key } = await change(access, 'createKey', {
    userId: user.id,
    label,
    scopes,
    projectIds,
    ...(expiresAtMs === null ? {} : { expiresAtMs }),
  })
  return json(personalKeyBody(key, text), 201)
}

async function getKey(access: OrganizationAccess): Promise<Answer> {
  return json(personalKeyBody(await keyInPath(access), null))
}

async function patchKey(access: OrganizationAccess): Promise<Answer> {
  const before = await keyInPath(access)
  const { options, request, grant } = access
  const { expiresAtMs, ...changes } = readKeyFields(fieldsOf(request), options.clock.now())
  if (expiresAtMs !== undefined && expiresAtMs !== before.expiresAtMs) {
    const detail = 'expires_at cannot change: create another key'
    throw new ServiceError('invalid_input', detail, { attr: 'expires_at' })
  }
  if (changes.scopes !== undefined || changes.projectIds !== undefined) {
    // Nor may a weak key take rights away from a stronger one.
    requireContained(grant, before, 'change the rights of a key')
    requireContained(grant, { ...before, ...changes }, 'give a key rights')
  }
  const key = await change(access, 'changeKey', { id: before.id, changes })
  return json(personalKeyBody(key, null))
}

async function revokeKey(access: OrganizationAccess): Promise<Answer> {
  const before = await keyInPath(access)
  // A weak key that leaks must not lock its user out.
  requireContained(access.grant, before, 'revoke a key')
  await change(access, 'revokeKey', before.id)
  return { status: 204, contentType: '', body: '' }
}

async function rollKey(access: OrganizationAccess): Promise<Answer> {
  const before = await keyInPath(access)
  // Whoever gets the new text has the rights of the key.
  requireContained(access.grant, before, 'replace a key')
  const { text, key } = await change(access, 'rollKey', before.id)
  return json(personalKeyBody(key, text))
}

async function ownKeys(access: OrganizationAccess): Promise<readonly PersonalKeyView[]> {
  const keys = await ask(access, 'listKeys', { userId: access.user.id })
  return keys.filter(({ revokedAtMs }) => revokedAtMs === null)
}

async function keyInPath(access: OrganizationAccess): Promise<PersonalKeyView> {
  const id = numberInPath(access.request, 'id')
  const key = (await ownKeys(access)).find((candidate) => candidate.id === id)
  if (key !== undefined) return key
  throw new ServiceError('not_found', 'you have no such personal API key')
}
