/**
 * The routes of role access: which roles may change a restricted flag. Source: interface description, sections 2.5 and
 * 4.2; docs/compatibility/organization.md, "Roles and role access".
 */
import { formatUuid, parseUuid } from '../../../base/ids.ts'
import { timeText } from '../../../base/time.ts'
import { canWriteRoleAccess } from '../../../rules/access/flag-permissions.ts'
import type { FlagNumbers, RoleAccessView } from '../../../rules/access/roles.ts'
import type { Flag } from '../../../rules/flags/types.ts'
import { denied } from '../../server/auth.ts'
import { type Call, inProject, type Resource } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { collectionOf, existing } from '../collection.ts'
import { type FlagServices, presentFlag } from '../flags/flag-access.ts'
import { FEATURE_FLAG } from '../flags/flag-schemas.ts'
import { ask, change, type OrganizationServices } from './organization-services.ts'
import { ROLE_SCHEMA, roleBody } from './roles.ts'

const UNKNOWN_FLAG = 'The project has no such feature flag.'
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

const collection = collectionOf<AccessCall['services']>(
  ENTRIES,
  inProject('feature_flag:read'),
  inProject('feature_flag:write'),
)

interface Entry {
  readonly flag: Flag
  readonly entry: RoleAccessView
}

/** The routes of role access. */
export const ROLE_ACCESS_RESOURCE: Resource<AccessCall['services']> = {
  name: 'Role access',
  sentence: 'The roles that may edit a restricted flag.',
  segments: { id: is.about(is.WHOLE, 'Number of the entry.') },
  routes: collection({
    name: 'RoleAccess',
    plural: 'RoleAccess',
    noun: 'an entry',
    one: ':id/',
    schema: ACCESS,
    list: {
      says: 'Lists the roles that may edit a flag.',
      query: { role_id: is.about(is.TEXT, 'Return only the entry of this role.') },
      async items(call, page) {
        const numbers = flagInPath(call)
        const role = call.request.query.get('role_id')
        const uuid = role === null ? null : parseUuid(role)
        // A text that is not a UUID finds no role, because every role has a UUID as its ID.
        const roleId = uuid === null ? role : formatUuid(uuid, 0)
        const { count, results } = await ask(call, 'listRoleAccess', {
          flag: numbers,
          roleId,
          page,
        })
        const flag = call.services.flags.flagById(numbers.projectId, numbers.flagId)
        return flag === null ? [] : { count, results: results.map((entry) => ({ flag, entry })) }
      },
      show: entryBody,
    },
    find: existingEntry,
    show: entryBody,
    create: {
      says: 'Allows a role to edit a flag.',
      body: is.openObject({ role_id: is.CLIENT_UUID }),
      async make(call) {
        const numbers = flagInPath(call)
        const flag = existingFlag(call, numbers)
        requireRights(call, flag)
        const { role_id: roleId } = call.body()
        return { flag, entry: await change(call, 'addRoleAccess', { flag: numbers, roleId }) }
      },
    },
    get: {},
    remove: {
      says: 'Removes the permission of a role.',
      async run(call) {
        const { flag, entry } = await existingEntry(call)
        requireRights(call, flag)
        await change(call, 'removeRoleAccess', { flag: flagInPath(call), id: entry.id })
      },
    },
  }),
}

function flagInPath(call: Pick<AccessCall, 'number' | 'projectId'>): FlagNumbers {
  return { projectId: call.projectId, flagId: existing(call.number(FLAG), UNKNOWN_FLAG) }
}

function existingFlag({ services }: AccessCall, { projectId, flagId }: FlagNumbers): Flag {
  return existing(services.flags.flagById(projectId, flagId), UNKNOWN_FLAG)
}

async function existingEntry(call: AccessCall): Promise<Entry> {
  const numbers = flagInPath(call)
  const flag = existingFlag(call, numbers)
  const id = call.number('id')
  const entry = id === null ? null : await ask(call, 'getRoleAccess', { flag: numbers, id })
  return { flag, entry: existing(entry, 'The feature flag has no such role access entry.') }
}

function requireRights({ services, user }: AccessCall, flag: Flag): void {
  if (canWriteRoleAccess(services.directory.flagEditor(user), flag)) return
  throw denied(
    'Only the creator of the flag, administrators, and roles that may edit flags can share this flag.',
  )
}

/** Returns the JSON of an entry: a role that may change a flag. Interface description, section 2.5. */
function entryBody(call: AccessCall, { flag, entry: { id, role, addedAtMs, updatedAtMs } }: Entry) {
  return {
    id,
    feature_flag: presentFlag(call, flag, false),
    role: roleBody(call, role),
    added_at: timeText(addedAtMs),
    updated_at: timeText(updatedAtMs),
  }
}
