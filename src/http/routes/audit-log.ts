/** The route of the audit log. docs/COMPATIBILITY.md, "Audit log". */

import { timeText } from '../../base/time.ts'
import type { StoredAuditEntry } from '../../rules/access/audit.ts'
import { userSummary } from '../../rules/access/user.ts'
import type { Answer } from '../server/respond.ts'
import type { Route } from '../server/router.ts'
import {
  ask,
  type OrganizationAccess,
  type OrganizationDirectory,
  type OrganizationRoutesOptions,
  openOrganizationAccess,
  pageAnswer,
  pageOf,
  requireAdministrator,
} from './organization-access.ts'

/** The log of changes, newest first, for administrators and owners. */
export function auditLogRoutes(options: OrganizationRoutesOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/api/organizations/:org_id/audit_log/',
      handler(request) {
        const access = openOrganizationAccess(request, options, 'organization:read')
        requireAdministrator(access)
        return listEntries(access)
      },
    },
  ]
}

async function listEntries(access: OrganizationAccess): Promise<Answer> {
  const page = pageOf(access.request)
  const { count, results } = await ask(access, 'listAudit', page)
  const { directory } = access.options
  return pageAnswer(
    access,
    page,
    count,
    results.map((entry) => entryBody(entry, directory)),
  )
}

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
