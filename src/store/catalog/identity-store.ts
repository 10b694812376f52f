/**
 * Logins with accounts at an OpenID Connect provider. The first login links an account to its user. The links are in
 * linked-accounts.ts.
 */
import {
  asciiLowerCase,
  type IdentityLogin,
  type ProviderAccount,
  type StoredIdentity,
} from '../../rules/access/identity.ts'
import { USER_LEVELS } from '../../rules/access/levels.ts'
import type { User } from '../../rules/access/organization.ts'
import type { AuditLog } from './audit-log.ts'
import { demand } from './checks.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import type { InviteStore } from './invite-store.ts'
import {
  identitiesOf,
  identityByHash,
  identityHash,
  linkAccount,
  unlinkUser,
} from './linked-accounts.ts'
import type { UserStore } from './user-store.ts'

/** The stores that the first login with an account may change. */
export interface IdentityStores {
  readonly users: UserStore
  readonly invites: InviteStore
  readonly audit: AuditLog
}

/** Links accounts with users. Each change is a durable transaction. */
export class IdentityStore {
  readonly #environment: DirectoryEnvironment
  readonly #stores: IdentityStores

  constructor(environment: DirectoryEnvironment, stores: IdentityStores) {
    this.#environment = environment
    this.#stores = stores
  }

  /**
   * Returns the link between an account and its user, for a login with the account. If the account is not linked yet,
   * links it to the user with the same e-mail address. If there is no such user, accepts an open invitation to the
   * address, or creates a viewer if `isViewerMade` is true. A new link is recorded in the audit log. Throws 403
   * `permission_denied` if no user can log in with the account.
   */
  enter({ account, isViewerMade, audit }: IdentityLogin): StoredIdentity {
    const known = identityByHash(this.#environment, identityHash(account))
    if (known !== null) {
      this.#requireActive(this.#userById(known.userId), account.email)
      return known
    }
    return this.#environment.save(() => {
      const user = this.#userByEmail(account.email) ?? this.#newUser(account, isViewerMade)
      this.#requireActive(user, account.email)
      const isFree = identitiesOf(this.#environment, user.id).every(
        ({ identity }) => identity.issuer !== account.issuer,
      )
      const detail = `The user ${account.email} logs in with another account of the identity provider. Ask an administrator to unlink that account on the page Access.`
      demand(isFree, 'permission_denied', detail)
      const identity = linkAccount(this.#environment, account, user)
      this.#stores.audit.append([{ ...audit, userId: user.id, objectId: user.uuid }])
      return identity
    })
  }

  /**
   * Removes the links of a user. This ends the sessions that began with the linked accounts. Throws 404 `not_found` if
   * the user has no links.
   */
  unlink(userId: number): void {
    this.#environment.save(() => {
      const count = unlinkUser(this.#environment, userId)
      demand(count > 0, 'not_found', 'No account of an identity provider is linked to this user.')
    })
  }

  list(): readonly StoredIdentity[] {
    return identitiesOf(this.#environment).map(({ identity }) => identity)
  }

  #newUser({ email, firstName }: ProviderAccount, isViewerMade: boolean): User {
    const { users, invites } = this.#stores
    const invited = invites.acceptFor(email, firstName)
    if (invited !== null) return invited
    const detail = `There is no user with the e-mail address ${email}. Ask an administrator to invite you.`
    demand(isViewerMade, 'permission_denied', detail)
    return users.create({ email, firstName, level: USER_LEVELS[0].number })
  }

  #requireActive(user: User | undefined, email: string): asserts user is User {
    const detail = `The user ${email} is inactive. Ask an administrator to activate the user.`
    demand(user?.isActive === true, 'permission_denied', detail)
  }

  #userById(userId: number): User | undefined {
    return this.#stores.users.list().find(({ id }) => id === userId)
  }

  #userByEmail(email: string): User | undefined {
    return this.#stores.users.list().find((user) => asciiLowerCase(user.email) === email)
  }
}
