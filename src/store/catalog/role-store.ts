/**
 * Roles, their members, and the flags that they may change. Every change is one durable transaction. A change that is
 * not allowed throws a `ServiceError` and changes nothing. Source: docs/compatibility/organization.md, "Roles and role
 * access". Values are MessagePack with a checksum.
 *
 * | table       | key                              | value                           |
 * |-------------|----------------------------------|---------------------------------|
 * | roles       | number u32, in order of creation | `Role`                          |
 * | role_access | project u32, flag u32, entry u32 | `RoleAccess`                    |
 * | state       | `role`, `role_access`            | the last number used (`number`) |
 */
import { uuidV7 } from '../../base/ids.ts'
import { NAME_CHARACTERS_MAX } from '../../base/limits.ts'
import { getOrAdd } from '../../base/maps.ts'
import type { Page, PageRequest } from '../../base/pages.ts'
import { FLAG_ACCESS_LEVELS, levelNumbers } from '../../rules/access/levels.ts'
import type {
  FlagNumbers,
  Role,
  RoleAccess,
  RoleAccessView,
  RoleChanges,
  RoleMember,
  RoleMembership,
  RoleRequest,
  RoleView,
} from '../../rules/access/roles.ts'
import { keysOf, NUMBER_MAX, numberKey, tripleKey } from '../lmdb/keys.ts'
import { getRecord, putRecord, recordsOf } from '../lmdb/records.ts'
import { demand, demandRoom } from './checks.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { ROLE_ACCESS_MAX, ROLE_MEMBERS_MAX, ROLES_MAX } from './limits.ts'

const [, HIGHEST] = FLAG_ACCESS_LEVELS

/** Reads and changes roles. */
export class RoleStore {
  readonly #environment: DirectoryEnvironment

  constructor(environment: DirectoryEnvironment) {
    this.#environment = environment
  }

  /** Returns a page of roles in the order of their creation. */
  list({ limit, offset }: PageRequest): Page<RoleView> {
    const roles = this.#roles()
    return { count: roles.length, results: this.#views(roles.slice(offset, offset + limit)) }
  }

  /** Returns the role with this uuid, or null. */
  get(id: string): RoleView | null {
    const role = this.#find(id)
    return role === null ? null : this.#view(role)
  }

  create({ name, level, createdById }: RoleRequest): RoleView {
    return this.#environment.change(() => {
      const roles = this.#roles()
      demandRoom(roles.length, ROLES_MAX, 'roles')
      const createdAtMs = this.#environment.clock.now()
      const { flagAccess = null } = this.#environment.organization() ?? {}
      const role: Role = {
        number: this.#environment.nextNumber('role'),
        id: uuidV7(createdAtMs),
        name: name.trim(),
        level: level ?? flagAccess?.level ?? HIGHEST.number,
        createdById,
        createdAtMs,
        memberships: [],
      }
      this.#put(role, roles)
      return this.#view(role)
    })
  }

  change(id: string, changes: RoleChanges): RoleView {
    return this.#environment.change(() => {
      const before = this.#require(id)
      const name = (changes.name ?? before.name).trim()
      const role: Role = { ...before, ...changes, name }
      const others = this.#roles().filter((other) => other.number !== role.number)
      this.#put(role, others)
      return this.#view(role)
    })
  }

  /** Removes a role with its memberships and role access entries. */
  delete(id: string): void {
    this.#environment.change(() => {
      const role = this.#require(id)
      this.#environment.table('roles').removeSync(numberKey(role.number))
      for (const access of this.#accesses()) {
        if (access.roleNumber === role.number) this.#removeAccess(access)
      }
    })
  }

  /** Returns the members of a role, in the order in which they joined. Returns null for an unknown role. */
  members(id: string): readonly RoleMember[] | null {
    return this.get(id)?.members ?? null
  }

  addMember(id: string, userUuid: string): RoleMember {
    return this.#environment.change(() => {
      const role = this.#find(id)
      demand(role !== null, 'invalid_input', 'This role does not exist.')
      const user = this.#environment.all('users').find(({ uuid }) => uuid === userUuid)
      demand(
        user?.isActive === true,
        'invalid_input',
        '`user_uuid` must be the UUID of an active user.',
      )
      const { memberships } = role
      const isNew = memberships.every(({ userId }) => userId !== user.id)
      demand(isNew, 'invalid_input', 'The user already has this role.')
      const hasRoom = memberships.length < ROLE_MEMBERS_MAX
      demand(hasRoom, 'invalid_input', `A role can have at most ${ROLE_MEMBERS_MAX} members.`)
      const joinedAtMs = this.#environment.clock.now()
      const membership: RoleMembership = {
        id: uuidV7(joinedAtMs),
        userId: user.id,
        joinedAtMs,
        updatedAtMs: joinedAtMs,
      }
      this.#environment.put('roles', { ...role, memberships: [...memberships, membership] })
      return { id: membership.id, user, joinedAtMs, updatedAtMs: joinedAtMs }
    })
  }

  /** Removes a member from a role. `membershipId` is the uuid of the membership. */
  removeMember(id: string, membershipId: string): void {
    this.#environment.change(() => {
      const role = this.#require(id)
      const memberships = role.memberships.filter((membership) => membership.id !== membershipId)
      const isThere = memberships.length < role.memberships.length
      demand(isThere, 'not_found', 'The role has no such membership.')
      this.#environment.put('roles', { ...role, memberships })
    })
  }

  /**
   * Returns a page of the role access entries of a flag, oldest first. If `roleId` is not null, only the entries of
   * this role are returned.
   */
  flagAccess(flag: FlagNumbers, roleId: string | null, page: PageRequest): Page<RoleAccessView> {
    const role = roleId === null ? null : this.#find(roleId)
    const all = this.#accessesOf(flag).filter(
      ({ roleNumber }) => roleId === null || roleNumber === role?.number,
    )
    const results = all.slice(page.offset, page.offset + page.limit)
    return { count: all.length, results: this.#accessViews(results) }
  }

  /** Returns one role access entry of a flag, or null. */
  getAccess(flag: FlagNumbers, id: number): RoleAccessView | null {
    const access = this.#findAccess(flag, id)
    return access === null ? null : (this.#accessViews([access])[0] ?? null)
  }

  /** Allows the members of a role to change a flag. The caller must have checked that the flag exists. */
  addAccess(flag: FlagNumbers, roleId: string): RoleAccessView {
    return this.#environment.change(() => {
      const role = this.#find(roleId)
      demand(role !== null, 'does_not_exist', 'This role does not exist.', 'role_id')
      const isNew = this.#accessesOf(flag).every(({ roleNumber }) => roleNumber !== role.number)
      demand(isNew, 'unique', 'The role already has access to this flag.', 'role_id')
      const count = this.#environment.table('role_access').getKeysCount()
      demandRoom(count, ROLE_ACCESS_MAX, 'role access entries')
      const addedAtMs = this.#environment.clock.now()
      const access: RoleAccess = {
        id: this.#environment.nextNumber('role_access'),
        ...flag,
        roleNumber: role.number,
        addedAtMs,
        updatedAtMs: addedAtMs,
      }
      putRecord(this.#environment.table('role_access'), accessKey(access), access)
      const { roleNumber: _, ...view } = access
      return { ...view, role: this.#view(role) }
    })
  }

  /** Removes a role access entry. */
  removeAccess(flag: FlagNumbers, id: number): void {
    this.#environment.change(() => {
      const access = this.#findAccess(flag, id)
      demand(access !== null, 'not_found', 'The flag has no such role access entry.')
      this.#removeAccess(access)
    })
  }

  #roles(): readonly Role[] {
    return this.#environment.all('roles')
  }

  #find(id: string): Role | null {
    return this.#roles().find((role) => role.id === id) ?? null
  }

  #require(id: string): Role {
    const role = this.#find(id)
    demand(role !== null, 'not_found', 'This role does not exist.')
    return role
  }

  #put(role: Role, others: readonly Role[]): void {
    checkRole(role)
    const folded = foldName(role.name)
    const isNew = others.every(({ name }) => foldName(name) !== folded)
    demand(isNew, 'unique', 'There is already a role with this name. Choose another name.', 'name')
    this.#environment.put('roles', role)
  }

  #accesses(): readonly RoleAccess[] {
    return this.#environment.all('role_access')
  }

  #accessesOf({ projectId, flagId }: FlagNumbers): readonly RoleAccess[] {
    if (flagId > NUMBER_MAX) return []
    const table = this.#environment.table('role_access')
    return [...recordsOf(table, keysOf(projectId, flagId))] as unknown as RoleAccess[]
  }

  #findAccess({ projectId, flagId }: FlagNumbers, id: number): RoleAccess | null {
    if (flagId > NUMBER_MAX || id > NUMBER_MAX) return null
    const key = tripleKey(projectId, flagId, id)
    const record = getRecord(this.#environment.table('role_access'), key)
    // The cast is right: `addAccess` wrote the record, and its checksum matches.
    return record === undefined ? null : (record as RoleAccess)
  }

  #removeAccess(access: RoleAccess): void {
    this.#environment.table('role_access').removeSync(accessKey(access))
  }

  #view(role: Role): RoleView {
    const [view] = this.#views([role])
    if (view === undefined) throw new TypeError('one role has one view')
    return view
  }

  #views(roles: readonly Role[]): readonly RoleView[] {
    const users = new Map(this.#environment.all('users').map((user) => [user.id, user]))
    const flags = new Map<number, RoleAccess[]>()
    for (const access of this.#accesses()) {
      getOrAdd(flags, access.roleNumber, () => []).push(access)
    }
    return roles.map(({ memberships, ...role }) => ({
      role,
      createdBy: role.createdById === null ? null : (users.get(role.createdById) ?? null),
      members: memberships.flatMap(({ userId, ...membership }) => {
        const user = users.get(userId)
        return user === undefined ? [] : [{ ...membership, user }]
      }),
      flags: (flags.get(role.number) ?? [])
        .sort((a, b) => a.id - b.id)
        .map(({ projectId, flagId }) => ({ projectId, flagId })),
    }))
  }

  #accessViews(accesses: readonly RoleAccess[]): readonly RoleAccessView[] {
    const numbers = new Set(accesses.map(({ roleNumber }) => roleNumber))
    const views = this.#views(this.#roles().filter(({ number }) => numbers.has(number)))
    const byNumber = new Map(views.map((view) => [view.role.number, view]))
    return accesses.flatMap(({ roleNumber, ...access }) => {
      const role = byNumber.get(roleNumber)
      return role === undefined ? [] : [{ ...access, role }]
    })
  }
}

function accessKey({ projectId, flagId, id }: RoleAccess): Buffer {
  return tripleKey(projectId, flagId, id)
}

function foldName(name: string): string {
  return name.normalize('NFC').toLowerCase()
}

function checkRole({ name, level }: Role): void {
  demand(name !== '', 'blank', '`name` must not be empty.', 'name')
  const isShort = name.length <= NAME_CHARACTERS_MAX
  demand(
    isShort,
    'max_length',
    `\`name\` may have at most ${NAME_CHARACTERS_MAX} characters.`,
    'name',
  )
  const isLevel = levelNumbers(FLAG_ACCESS_LEVELS).includes(level)
  const uses = FLAG_ACCESS_LEVELS.map(({ number, title }) => `${number} to ${title}`)
  const detail = `${JSON.stringify(level)} is not an access level. Use ${uses.join(' or ')}.`
  demand(isLevel, 'invalid_choice', detail, 'feature_flags_access_level')
}
