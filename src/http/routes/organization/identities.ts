/**
 * The routes of linked accounts: the accounts at the identity provider with which members log in. An account is linked
 * to a member at the first login with it. Source: docs/compatibility/organization.md, "Accounts at an identity
 * provider".
 */
import { timeText } from '../../../base/time.ts'
import type { StoredIdentity } from '../../../rules/access/identity.ts'
import { userSummary } from '../../../rules/access/user.ts'
import { byAdministrators, inOrganization } from '../../server/route.ts'
import * as is from '../../server/schema.ts'
import { memberInPath, requireRank } from './members.ts'
import {
  ask,
  change,
  type OrganizationCall,
  type OrganizationServices,
  organizationCollection,
  USER_SUMMARY,
} from './organization-services.ts'

const IDENTITY = is.namedObject('Identity', {
  user: is.nullable(USER_SUMMARY),
  issuer: is.about(is.TEXT, 'The address of the provider.'),
  email: is.about(is.TEXT, 'The e-mail address of the account when it was linked.'),
  linked_at: is.TIME,
})

const collection = organizationCollection<OrganizationServices>('identities/')

/** The routes of linked accounts. */
export const IDENTITY_ROUTES = collection({
  name: 'Identity',
  plural: 'Identities',
  noun: 'an account at the identity provider',
  one: ':user_uuid/',
  schema: IDENTITY,
  list: {
    says: 'Lists the accounts at the identity provider with which members log in.',
    who: byAdministrators(inOrganization('organization:read')),
    items: (call) => ask(call, 'listIdentities', undefined),
    show: identityBody,
  },
  show: identityBody,
  remove: {
    says: 'Unlinks all accounts of a member. Sessions that were started with them end.',
    run(call) {
      const member = memberInPath(call)
      requireRank(call.user, member.level)
      return change(call, 'unlinkIdentities', member.id, member.uuid)
    },
  },
})

function identityBody({ services }: Pick<OrganizationCall, 'services'>, identity: StoredIdentity) {
  const user = services.directory.userById(identity.userId)
  return {
    user: user === null ? null : userSummary(user),
    issuer: identity.issuer,
    email: identity.email,
    linked_at: timeText(identity.linkedAtMs),
  }
}
