/** The route of the audit log. docs/compatibility/organization.md, "Audit log". */
import { timeText } from '../../../base/time.ts'
import type { StoredAuditEntry } from '../../../rules/access/audit-entry.ts'
import { userSummary } from '../../../rules/access/user.ts'
import { lenientPage, pageBody } from '../../server/pages.ts'
import {
  byAdministrators,
  done,
  inOrganization,
  type Resource,
  routesOf,
} from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import {
  ask,
  type OrganizationDirectory,
  type OrganizationServices,
  PAGE,
  USER_SUMMARY,
} from './organization-services.ts'

const ENTRY = is.namedObject('AuditEntry', {
  id: is.WHOLE,
  created_at: is.TIME,
  source: is.choice('api', 'command_line'),
  user: is.about(is.nullable(USER_SUMMARY), 'Whose key it was; null on the command line.'),
  personal_api_key_id: is.nullable(is.WHOLE),
  account: is.about(is.nullable(is.TEXT), 'Account of the machine, on the command line.'),
  address: is.about(is.nullable(is.TEXT), 'Address of the client.'),
  project_id: is.nullable(is.WHOLE),
  method: is.nullable(is.TEXT),
  route: is.about(is.TEXT, 'Pattern of the path, or the command.'),
  object_id: is.about(is.nullable(is.TEXT), 'What was changed or made.'),
  status: is.about(is.nullable(is.WHOLE), 'Status of the answer; null on the command line.'),
})

const route = routesOf<OrganizationServices>(
  '/api/organizations/:org_id/',
  byAdministrators(inOrganization('organization:read')),
)

/** The log of changes, newest first, for administrators and owners. */
export const AUDIT_ROUTES: Resource<OrganizationServices>['routes'] = [
  route('GET', 'audit_log/', 'listAuditEntries', 'Lists who changed what.', {
    query: PAGE,
    answers: { 200: done(is.pageOf(ENTRY)) },
    async handle(call) {
      const page = lenientPage(call)
      const { count, results } = await ask(call, 'listAudit', page)
      const { directory } = call.services
      const bodies = results.map((entry) => entryBody(entry, directory))
      return pageBody(call, page, count, bodies)
    },
  }),
]

function entryBody(entry: StoredAuditEntry, directory: OrganizationDirectory) {
  const user = entry.userId === null ? null : directory.userById(entry.userId)
  return {
    id: entry.id,
    created_at: timeText(entry.atMs),
    source: entry.source,
    user: user === null ? null : userSummary(user),
    personal_api_key_id: entry.keyId,
    account: entry.account,
    address: entry.address === '' ? null : entry.address,
    project_id: entry.projectId,
    method: entry.method === '' ? null : entry.method,
    route: entry.route,
    object_id: entry.objectId,
    status: entry.status === 0 ? null : entry.status,
  }
}
