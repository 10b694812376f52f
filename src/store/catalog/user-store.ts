/**
 * Users, and their default access level for flags in the organization. Users are never removed, because the objects
 * that they created refer to them. A user who leaves becomes inactive. The user then loses all roles, all memberships
 * of projects, the password, and the links to accounts at an identity provider. The user's keys become invalid.
 */
import { uuidV7 } from '../../base/ids.ts'
import { type FlagAccessLevel, isOwner, NEW_USER_LEVEL } from '../../rules/access/levels.ts'
import type {
  FlagAccessSetting,
  Organization,
  User,
  UserChanges,
  UserRequest,
} from '../../rules/access/organization.ts'
import { numberKey } from '../lmdb/keys.ts'
import { demand, demandRoom, nextId } from './checks.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import {
  EMAIL_CHARACTERS_MAX,
  FIRST_NAME_CHARACTERS_MAX,
  USER_DISTINCT_ID_CHARACTERS_MAX,
  USERS_MAX,
} from './limits.ts'
import { unlinkUser } from './linked-accounts.ts'
import { leaveProjects } from './project-member-store.ts'

const EMAIL_PATTERN = /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u

/** Changes users. A change that is not allowed throws a `ServiceError` and changes nothing. */
export class UserStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  /** Returns all users in the order of their ids, including inactive ones. */
  list(): readonly User[] {
    return this.#environment.all('users')
  }

  create(request: UserRequest): User {
    return this.#environment.change(() => {
      const users = this.list()
      demandRoom(users.length, USERS_MAX, 'users')
      const createdAtMs = this.#environment.clock.now()
      const uuid = uuidV7(createdAtMs)
      const user: User = {
        id: nextId(users),
        uuid,
        email: request.email.trim(),
        firstName: request.firstName ?? '',
        distinctId: request.distinctId ?? uuid,
        level: request.level ?? NEW_USER_LEVEL,
        isActive: true,
        createdAtMs,
      }
      this.#put(user, users)
      return user
    })
  }

  /** Changes a user. At least one active owner must remain. */
  change(id: number, changes: UserChanges): User {
    return this.#environment.change(() => {
      const users = this.list()
      const before = users.find((user) => user.id === id)
      demand(before !== undefined, 'not_found', `There is no user ${id}.`)
      const after: User = { ...before, ...changes, email: (changes.email ?? before.email).trim() }
      const others = users.filter((user) => user.id !== id)
      const isOwned = !isActiveOwner(before) || isActiveOwner(after) || others.some(isActiveOwner)
      const detail = 'The organization needs an active owner. Make another user an owner first.'
      demand(isOwned, 'invalid_input', detail, 'level')
      this.#put(after, others)
      if (before.isActive && !after.isActive) {
        this.#takeRoles(id)
        this.#environment.table('passwords').removeSync(numberKey(id))
        unlinkUser(this.#environment, id)
        leaveProjects(this.#environment, id)
      }
      return after
    })
  }

  organization(): Organization {
    const organization = this.#environment.organization()
    if (organization === null) throw new TypeError('the store was never filled')
    return organization
  }

  /** Sets which access to flags users have if they have no role. Removes the setting if `level` is null. */
  setFlagAccess(level: FlagAccessLevel | null, userId: number | null): FlagAccessSetting | null {
    return this.#environment.change(() => {
      const organization = this.organization()
      const flagAccess = this.#flagAccess(organization.flagAccess, level, userId)
      this.#environment.putOrganization({ ...organization, flagAccess })
      return flagAccess
    })
  }

  #flagAccess(
    before: FlagAccessSetting | null,
    level: FlagAccessLevel | null,
    createdById: number | null,
  ): FlagAccessSetting | null {
    if (level === null) return null
    const updatedAtMs = this.#environment.clock.now()
    if (before !== null) return { ...before, level, updatedAtMs }
    return { level, createdById, createdAtMs: updatedAtMs, updatedAtMs }
  }

  /** Throws 400 if the e-mail address or the name is not valid, or if one of `others` has the same address. */
  requireFree({ email, firstName }: Pick<User, 'email' | 'firstName'>, others = this.list()): void {
    checkPerson({ email, firstName })
    const folded = email.toLowerCase()
    const known = others.find((user) => user.email.toLowerCase() === folded)
    const detail = 'There is already a user with this e-mail address'
    const hint = known?.isActive === false ? ', who is inactive. See `tenrec user set`' : ''
    demand(known === undefined, 'unique', `${detail}${hint}.`, 'email')
  }

  #put(user: User, others: readonly User[]): void {
    this.requireFree(user, others)
    checkDistinctId(user)
    this.#environment.put('users', user)
  }

  #takeRoles(userId: number): void {
    for (const role of this.#environment.all('roles')) {
      const memberships = role.memberships.filter((membership) => membership.userId !== userId)
      if (memberships.length === role.memberships.length) continue
      this.#environment.put('roles', { ...role, memberships })
    }
  }
}

function isActiveOwner({ level, isActive }: User): boolean {
  return isActive && isOwner(level)
}

function checkPerson({ email, firstName }: Pick<User, 'email' | 'firstName'>): void {
  const isAddress = email.length <= EMAIL_CHARACTERS_MAX && EMAIL_PATTERN.test(email)
  demand(isAddress, 'invalid_input', '`email` must be an address such as ann@example.com.', 'email')
  const isNameShort = firstName.length <= FIRST_NAME_CHARACTERS_MAX
  const nameDetail = `\`first_name\` may have at most ${FIRST_NAME_CHARACTERS_MAX} characters.`
  demand(isNameShort, 'max_length', nameDetail, 'first_name')
}

function checkDistinctId({ distinctId }: User): void {
  const isId = distinctId !== '' && distinctId.length <= USER_DISTINCT_ID_CHARACTERS_MAX
  const idDetail = `\`distinct_id\` must have 1 to ${USER_DISTINCT_ID_CHARACTERS_MAX} characters.`
  demand(isId, 'invalid_input', idDetail, 'distinct_id')
}
