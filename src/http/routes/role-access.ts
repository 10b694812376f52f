/**
 * The routes of role access: which roles may change a flag that is closed to others. Source: interface
 * description, section 4.2; docs/COMPATIBILITY.md, "Roles and role access".
 */
import { ServiceError } from '../../base/errors.ts'
import { formatUuid, parseUuid } from '../../base/ids.ts'
import { canWriteRoleAccess } from '../../rules/access/flag-permissions.ts'
import type { RoleAccessView } from '../../rules/access/roles.ts'
import type { Flag } from '../../rules/flags/types.ts'
import { authenticate, authoriseAs, type KeyUser, userOf } from '../server/auth.ts'
import type { Answer } from '../server/respond.ts'
import { type ApiRequest, json, type Route } from '../server/router.ts'
import { baseUrl } from '../server/url.ts'
import { missingField, readUuidField } from '../shapes/body-fields.ts'
import { roleAccessBody } from '../shapes/role.ts'
import {
  ask,
  change,
  denied,
  fieldsOf,
  numberInPath,
  type OrganizationRoutesOptions,
  pageAnswer,
  pageOf,
} from './organization-access.ts'
import { roleBody } from './roles.ts'

const FLAG = 'parent_lookup_feature_flag_id'
const LIST_PATH = `/api/projects/:project_id/feature_flags/:${FLAG}/role_access/`
const ENTRY_PATH = `${LIST_PATH}:id/`

/** An authorised request about one flag. */
interface FlagAccess {
  readonly request: ApiRequest
  readonly options: OrganizationRoutesOptions
  readonly user: KeyUser
  readonly base: string
  readonly projectId: number
  readonly flagId: number
}

/** The routes under `/api/projects/:project_id/feature_flags/:id/role_access/`. */
export function roleAccessRoutes(options: OrganizationRoutesOptions): readonly Route[] {
  const route = (
    method: Route['method'],
    path: string,
    handle: (access: FlagAccess) => Promise<Answer>,
  ): Route => ({
    method,
    path,
    handler: (request) => handle(openFlagAccess(request, options, method === 'GET')),
  })
  return [
    route('GET', LIST_PATH, listEntries),
    route('POST', LIST_PATH, addEntry),
    route('GET', ENTRY_PATH, getEntry),
    route('DELETE', ENTRY_PATH, removeEntry),
  ]
}

function openFlagAccess(
  request: ApiRequest,
  options: OrganizationRoutesOptions,
  isReading: boolean,
): FlagAccess {
  const { directory } = options
  const scope = isReading ? 'feature_flag:read' : 'feature_flag:write'
  const grant = authenticate(request, directory)
  const { id: projectId } = authoriseAs(grant, request, directory, scope)
  const user = userOf(grant)
  const flagId = numberInPath(request, FLAG)
  if (flagId === null) throw unknownFlag()
  return { request, options, user, base: baseUrl(request, options), projectId, flagId }
}

async function listEntries(access: FlagAccess): Promise<Answer> {
  const { request, options, projectId, flagId } = access
  const page = pageOf(request)
  const roleId = request.query.get('role_id')
  const uuid = roleId === null ? null : parseUuid(roleId)
  const found = await ask(access, 'listRoleAccess', {
    flag: { projectId, flagId },
    // No role has an id that is no uuid.
    roleId: uuid === null ? roleId : formatUuid(uuid, 0),
    page,
  })
  const flag = options.flags.flagById(projectId, flagId)
  const bodies = flag === null ? [] : found.results.map((entry) => entryBody(access, flag, entry))
  return pageAnswer(access, page, flag === null ? 0 : found.count, bodies)
}

async function addEntry(access: FlagAccess): Promise<Answer> {
  const flag = writableFlag(access)
  const roleId = readUuidField(fieldsOf(access.request), 'role_id')
  if (roleId === undefined) throw missingField('role_id')
  const { projectId, flagId } = access
  const entry = await change(access, 'addRoleAccess', { flag: { projectId, flagId }, roleId })
  return json(entryBody(access, flag, entry), 201)
}

async function getEntry(access: FlagAccess): Promise<Answer> {
  const { options, projectId, flagId } = access
  const flag = options.flags.flagById(projectId, flagId)
  if (flag === null) throw unknownFlag()
  const id = entryInPath(access)
  const entry = await ask(access, 'getRoleAccess', { flag: { projectId, flagId }, id })
  if (entry === null) throw unknownEntry()
  return json(entryBody(access, flag, entry))
}

async function removeEntry(access: FlagAccess): Promise<Answer> {
  const { options, user, projectId, flagId } = access
  const flag = options.flags.flagById(projectId, flagId)
  if (flag === null) throw unknownFlag()
  const numbers = { flag: { projectId, flagId }, id: entryInPath(access) }
  if ((await ask(access, 'getRoleAccess', numbers)) === null) throw unknownEntry()
  requireRights(options, user, flag)
  await change(access, 'removeRoleAccess', numbers)
  return { status: 204, contentType: '', body: '' }
}

/** The flag of the path, for a caller who may say which roles change it. */
function writableFlag({ options, user, projectId, flagId }: FlagAccess): Flag {
  const flag = options.flags.flagById(projectId, flagId)
  if (flag === null) throw unknownFlag()
  requireRights(options, user, flag)
  return flag
}

function requireRights(options: OrganizationRoutesOptions, user: KeyUser, flag: Flag): void {
  if (canWriteRoleAccess(options.directory.flagEditor(user), flag)) return
  throw denied('only its creator, administrators and roles that may edit flags share this flag')
}

function entryBody({ options, user }: FlagAccess, flag: Flag, entry: RoleAccessView) {
  return roleAccessBody(entry, options.flagBody(flag, user), roleBody(options, entry.role))
}

function entryInPath({ request }: FlagAccess): number {
  const id = numberInPath(request, 'id')
  if (id === null) throw unknownEntry()
  return id
}

function unknownFlag(): ServiceError {
  return new ServiceError('not_found', 'the project has no such feature flag')
}

function unknownEntry(): ServiceError {
  return new ServiceError('not_found', 'the feature flag has no such role access entry')
}
