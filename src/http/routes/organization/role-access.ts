/**
 * The routes of role access, which list the roles that may change a restricted flag. Source: interface description,
 * sections 2.5 and 4.2; docs/compatibility/organization.md, "Roles and role access".
 */
import { ServiceError } from '../../../base/errors.ts'
import { formatUuid, parseUuid } from '../../../base/ids.ts'
import { timeText } from '../../../base/time.ts'
import { canWriteRoleAccess } from '../../../rules/access/flag-permissions.ts'
import type { FlagNumbers, RoleAccessView } from '../../../rules/access/roles.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import { denied } from '../../server/auth.ts'
import { lenientPage, pageBody } from '../../server/pages.ts'
import { type Call, done, inProject, type Resource, routesOf } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { type FlagServices, presentFlag } from '../flags/flag-access.ts'
import { FEATURE_FLAG } from '../flags/flag-schemas.ts'
import { ask, change, type OrganizationServices, PAGE_MEMBERS } from './organization-services.ts'
import { ROLE_SCHEMA, roleBody } from './roles.ts'

const FLAG = 'parent_lookup_feature_flag_id'
const ENTRIES = `/api/projects/:project_id/feature_flags/:${FLAG}/role_access/`

const ACCESS = is.namedObject('RoleAccess', {
  id: is.WHOLE,
  feature_flag: FEATURE_FLAG,
  role: ROLE_SCHEMA,
  added_at: is.TIME,
  updated_at: is.TIME,
})

type AccessCall = Call<FlagServices & OrganizationServices>

const route = routesOf<AccessCall['services']>(
  ENTRIES,
  inProject('feature_flag:read'),
  inProject('feature_flag:write'),
)

/** The roles that may change a flag. */
export const ROLE_ACCESS_RESOURCE: Resource<AccessCall['services']> = {
  name: 'Role access',
  sentence: 'The roles that may edit a restricted flag.',
  segments: { id: is.about(is.WHOLE, 'Number of the entry.') },
  routes: [
    route('GET', '', 'listRoleAccess', 'Lists the roles that may edit a flag.', {
      query: is.options({
        role_id: is.about(is.TEXT, 'Return only the entry of this role.'),
        ...PAGE_MEMBERS,
      }),
      answers: { 200: done(is.pageOf(ACCESS)) },
      async handle(call) {
        const page = lenientPage(call)
        const numbers = flagInPath(call)
        const role = call.request.query.get('role_id')
        const uuid = role === null ? null : parseUuid(role)
        // The ID of a role is always a UUID, so any other text finds no role.
        const roleId = uuid === null ? role : formatUuid(uuid, 0)
        const found = await ask(call, 'listRoleAccess', { flag: numbers, roleId, page })
        const flag = call.services.flags.flagById(numbers.projectId, numbers.flagId)
        if (flag === null) return pageBody(call, page, 0, [])
        const bodies = found.results.map((entry) => entryBody(call, flag, entry))
        return pageBody(call, page, found.count, bodies)
      },
    }),
    route('POST', '', 'createRoleAccess', 'Allows a role to edit a flag.', {
      body: is.openObject({ role_id: is.CLIENT_UUID }),
      answers: { 201: done(ACCESS) },
      async handle(call) {
        const numbers = flagInPath(call)
        const flag = existingFlag(call, numbers)
        requireRights(call, flag)
        const { role_id: roleId } = call.body()
        const entry = await change(call, 'addRoleAccess', { flag: numbers, roleId })
        return entryBody(call, flag, entry)
      },
    }),
    route('GET', ':id/', 'getRoleAccess', 'Shows an entry.', {
      answers: { 200: done(ACCESS) },
      async handle(call) {
        const { flag, entry } = await existingEntry(call)
        return entryBody(call, flag, entry)
      },
    }),
    route('DELETE', ':id/', 'deleteRoleAccess', 'Removes the permission of a role.', {
      answers: { 204: done() },
      async handle(call) {
        const { flag, entry } = await existingEntry(call)
        requireRights(call, flag)
        await change(call, 'removeRoleAccess', { flag: flagInPath(call), id: entry.id })
      },
    }),
  ],
}

function flagInPath(call: AccessCall): FlagNumbers {
  const flagId = call.number(FLAG)
  if (flagId === null) throw unknownFlag()
  return { projectId: call.projectId, flagId }
}

function existingFlag({ services }: AccessCall, { projectId, flagId }: FlagNumbers): Flag {
  const flag = services.flags.flagById(projectId, flagId)
  if (flag === null) throw unknownFlag()
  return flag
}

async function existingEntry(
  call: AccessCall,
): Promise<{ readonly flag: Flag; readonly entry: RoleAccessView }> {
  const numbers = flagInPath(call)
  const flag = existingFlag(call, numbers)
  const id = call.number('id')
  const entry = id === null ? null : await ask(call, 'getRoleAccess', { flag: numbers, id })
  if (entry !== null) return { flag, entry }
  throw new ServiceError('not_found', 'The feature flag has no such role access entry.')
}

function requireRights({ services, user }: AccessCall, flag: Flag): void {
  if (canWriteRoleAccess(services.directory.flagEditor(user), flag)) return
  throw denied(
    'Only the creator of the flag, administrators, and roles that may edit flags can share this flag.',
  )
}

/** Returns the body of an entry. Interface description, section 2.5. */
function entryBody(
  call: AccessCall,
  flag: Flag,
  { id, role, addedAtMs, updatedAtMs }: RoleAccessView,
) {
  return {
    id,
    feature_flag: presentFlag(call, flag, false),
    role: roleBody(call.services, role),
    added_at: timeText(addedAtMs),
    updated_at: timeText(updatedAtMs),
  }
}

function unknownFlag(): ServiceError {
  return new ServiceError('not_found', 'The project has no such feature flag.')
}
