/**
 * The stores of users, roles, projects and keys. `OrganizationStore` opens all of them for changes, in one environment.
 * `ProjectDirectory` reads them from memory.
 */
import { timingSafeEqual } from 'node:crypto'
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import {
  type SessionEnd,
  type SessionGrant,
  sessionEndMs,
  sessionProof,
} from '../../rules/access/console-session.ts'
import type { FlagEditor, OwnedFlag } from '../../rules/access/flag-permissions.ts'
import type { FlagAccessLevel } from '../../rules/access/levels.ts'
import { SESSION_AGE_MS_MAX } from '../../rules/access/limits.ts'
import type {
  Organization,
  PersonalKey,
  PersonalKeyGrant,
  Project,
  ProjectAccess,
  ProjectMembership,
  SecretKey,
  User,
} from '../../rules/access/organization.ts'
import type { StoredPassword } from '../../rules/access/password.ts'
import { commonProjects, projectAccess } from '../../rules/access/project-access.ts'
import type {
  ProjectDirectory as IngestProjectDirectory,
  PersonalKeyAccess,
} from '../../rules/access/project-directory.ts'
import type { RoleAccess } from '../../rules/access/roles.ts'
import { scopesAtLevel } from '../../rules/access/scopes.ts'
import { DamagedRecordError } from '../faults.ts'
import { Environment } from '../lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, keysOf } from '../lmdb/keys.ts'
import { readCount, recordsOf } from '../lmdb/records.ts'
import { AuditLog } from './audit-log.ts'
import {
  leaveShared,
  proposeWrites,
  readChangePlace,
  StoredCatalogue,
  takeProposal,
} from './catalogue-copy.ts'
import { ConsoleStore } from './console-store.ts'
import { DefinitionStore } from './definition-store.ts'
import { DirectoryEnvironment } from './directory-environment.ts'
import { ExperimentStore } from './experiment-store.ts'
import { IdentityStore } from './identity-store.ts'
import { InviteStore } from './invite-store.ts'
import { hashKey } from './key-store.ts'
import { PasswordStore } from './password-store.ts'
import { ProjectMemberStore } from './project-member-store.ts'
import { ProjectStore } from './project-store.ts'
import { RoleStore } from './role-store.ts'
import { SavedStore } from './saved-store.ts'
import { UsageStore } from './usage-store.ts'
import { UserStore } from './user-store.ts'

/** The operations on the catalogue of a cluster (catalogue-copy.ts), for callers outside of the store. */
export const SHARED_CATALOGUE = {
  /** Opens the copy of the catalogue in a data directory. Close it before the thread ends. */
  open: (dataDir: string) => new StoredCatalogue(dataDir),
  /** Returns the position of the copy in the change log, or null if the catalogue is not shared. */
  place: readChangePlace,
  /** Stops sharing the catalogue in a data directory. The directory then belongs to a single machine. */
  leave: leaveShared,
  propose: proposeWrites,
  takeProposal,
  /**
   * Sets the name of the cluster's warehouse if it has none, and returns its name (see
   * `OrganizationStore.noteWarehouse`). Without `name`, it only returns the current name.
   */
  async warehouse(dataDir: string, name?: string): Promise<string | null> {
    const store = new OrganizationStore(dataDir)
    try {
      return name === undefined ? store.warehouse : store.noteWarehouse(name)
    } finally {
      await store.close()
    }
  },
}

/**
 * Opens the stores of users, roles, projects, keys and saved objects in one environment. Close it before the thread
 * ends.
 */
export class OrganizationStore {
  readonly audit: AuditLog
  readonly console: ConsoleStore
  readonly definitions: DefinitionStore
  readonly experiments: ExperimentStore
  readonly identities: IdentityStore
  readonly invites: InviteStore
  readonly passwords: PasswordStore
  readonly projectMembers: ProjectMemberStore
  readonly projects: ProjectStore
  readonly roles: RoleStore
  readonly saved: SavedStore
  readonly usage: UsageStore
  readonly users: UserStore
  readonly #environment: DirectoryEnvironment

  /** `dataDir` must contain a store (data-dir.ts). */
  constructor(dataDir: string, clock: Clock = SYSTEM_CLOCK) {
    this.#environment = new DirectoryEnvironment(dataDir, clock)
    this.audit = new AuditLog(this.#environment)
    this.passwords = new PasswordStore(this.#environment)
    this.console = new ConsoleStore(this.#environment, this.passwords)
    this.definitions = new DefinitionStore(this.#environment)
    this.experiments = new ExperimentStore(this.#environment)
    this.projectMembers = new ProjectMemberStore(this.#environment)
    this.projects = new ProjectStore(dataDir, clock, this.#environment)
    this.roles = new RoleStore(this.#environment)
    this.saved = new SavedStore(this.#environment)
    this.usage = new UsageStore(this.#environment)
    this.users = new UserStore(this.#environment)
    this.invites = new InviteStore(
      this.#environment,
      this.users,
      this.projects.keys,
      this.passwords,
    )
    this.identities = new IdentityStore(this.#environment, this)
  }

  /** The name of the cluster's warehouse; see `DirectoryEnvironment.warehouse`. */
  get warehouse(): string | null {
    return this.#environment.warehouse()
  }

  /**
   * Sets the name of the cluster's warehouse, or removes the name if `name` is null. If the warehouse already has a
   * name, `name` does not replace it. Returns the name after the call.
   */
  noteWarehouse(name: string | null): string | null {
    const known = this.warehouse
    if (known === name || (known !== null && name !== null)) return known
    this.#environment.change(() => this.#environment.putWarehouse(name))
    return name
  }

  /**
   * Runs a change and stores its audit entry: both are durable, or neither is. `entryOf` returns the entry for the
   * result of the change. If `action` throws, nothing is changed or recorded, and the error is thrown to the caller.
   */
  noted<T>(entryOf: (result: T) => AuditEntry, action: () => T): T {
    return this.#environment.record(() => {
      const result = action()
      this.audit.append([entryOf(result)])
      return result
    })
  }

  /** Makes commits of other threads and processes visible to reads. */
  refresh(): void {
    this.#environment.refresh()
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}

/** The number of the project that the first start creates. */
const FIRST_PROJECT_ID = 1

interface RolesOfUser {
  readonly numbers: Set<number>
  readonly levels: FlagAccessLevel[]
}

/**
 * The organization, users, projects and keys in memory, as of the last `refreshIfChanged`, for one thread. Lookups do
 * not access the disk. They return null for unknown values.
 */
export class ProjectDirectory implements IngestProjectDirectory {
  readonly #environment: DirectoryEnvironment
  readonly #clock: Clock
  readonly #console: ConsoleStore
  readonly #passwords: PasswordStore
  readonly #firstProjectKey: string | null
  #version = -1
  #organization: Organization | null = null
  #warehouse: string | null = null
  #byKey: ReadonlyMap<string, Project> = new Map()
  #byId: ReadonlyMap<number, Project> = new Map()
  #keys: ReadonlyMap<string, PersonalKey> = new Map()
  #secretKeys: ReadonlyMap<string, SecretKey> = new Map()
  #users: ReadonlyMap<number, User> = new Map()
  #roles: ReadonlyMap<number, RolesOfUser> = new Map()
  #memberships: readonly ProjectMembership[] = []
  /**
   * For each user, the projects that the user may use. The entry of a user is created when it is first needed. When
   * `refreshIfChanged` reads a change, it clears all entries.
   */
  #access = new Map<number, ProjectAccess>()

  /**
   * Opens the store in `dataDir` and reads it. If project 1 was replaced by another project, requests for project 1 go
   * to the project with the key `firstProjectKey`. Throws `DamagedRecordError`.
   */
  constructor(dataDir: string, clock: Clock = SYSTEM_CLOCK, firstProjectKey: string | null = null) {
    this.#environment = new DirectoryEnvironment(dataDir, clock)
    this.#clock = clock
    this.#firstProjectKey = firstProjectKey
    this.#passwords = new PasswordStore(this.#environment)
    this.#console = new ConsoleStore(this.#environment, this.#passwords)
    this.refreshIfChanged()
  }

  /**
   * Reads the changes that any process has made since the last call. Returns whether there were any. After a
   * `DamagedRecordError`, lookups still return the earlier data. Costs one read if nothing changed.
   */
  refreshIfChanged(): boolean {
    const version = this.#environment.version
    if (version === this.#version) return false
    const organization = this.#environment.organization()
    const warehouse = this.#environment.warehouse()
    const projects = this.#environment.all('projects')
    const keys = this.#environment.all('personal_keys').filter(isInForce)
    const secretKeys = this.#environment.all('secret_keys').filter(isInForce)
    const users = this.#environment.all('users')
    const roles = this.#rolesByUser()
    this.#memberships = this.#environment.all('project_members')
    this.#access = new Map()
    this.#organization = organization
    this.#warehouse = warehouse
    this.#users = new Map(users.map((user) => [user.id, user]))
    this.#roles = roles
    this.#byKey = new Map(projects.map((project) => [project.apiKey, project]))
    this.#byId = new Map(projects.map((project) => [project.id, project]))
    this.#keys = new Map(keys.map((key) => [key.hash.toString('latin1'), key]))
    this.#secretKeys = new Map(secretKeys.map((key) => [key.hash.toString('latin1'), key]))
    this.#version = version
    return true
  }

  /** Returns the organization, or null before the first start is complete. */
  organization(): Organization | null {
    return this.#organization
  }

  /** Returns the name of the cluster's warehouse; see `DirectoryEnvironment.warehouse`. */
  warehouse(): string | null {
    return this.#warehouse
  }

  projectByKey(apiKey: string): Project | null {
    return this.#byKey.get(apiKey) ?? null
  }

  projectById(id: number): Project | null {
    const project = this.#byId.get(id)
    if (project !== undefined) return project
    const isFirst = id === FIRST_PROJECT_ID && this.#firstProjectKey !== null
    return isFirst ? this.projectByKey(this.#firstProjectKey) : null
  }

  /**
   * Returns the partition whose machines store a project. Refreshes first if the project is unknown, because another
   * thread may have created it. Throws `ServiceError` not_found if there is no such project.
   */
  partitionOf(projectId: number): number {
    const project = this.#byId.get(projectId)
    if (project !== undefined) return project.partition ?? 0
    if (this.refreshIfChanged()) return this.partitionOf(projectId)
    throw new ServiceError('not_found', `There is no project ${projectId}.`)
  }

  /** Returns the partitions to which projects belong, lowest first. Partition 0 is always included. */
  partitions(): readonly number[] {
    const used = this.projects().map(({ partition = 0 }) => partition)
    return [...new Set([0, ...used])].sort((a, b) => a - b)
  }

  /**
   * Returns a user, also if the user is inactive, because the objects that inactive users have created still refer to
   * them.
   */
  userById(id: number): User | null {
    return this.#users.get(id) ?? null
  }

  /** Returns the active user with an e-mail address, or null. Upper and lower case do not matter. */
  userByEmail(email: string): User | null {
    const folded = email.trim().toLowerCase()
    const user = this.users().find((one) => one.email.toLowerCase() === folded)
    return user?.isActive === true ? user : null
  }

  /** Returns the stored password of a user, or null if there is none. A damaged record counts as no password. */
  passwordOf(userId: number): StoredPassword | null {
    this.#environment.refresh()
    return this.#passwords.find(userId)
  }

  /** Returns all users in the order of their ids, including inactive ones. */
  users(): readonly User[] {
    return [...this.#users.values()]
  }

  /** Returns the members of a project, in the order of their user numbers. */
  projectMembers(projectId: number): readonly ProjectMembership[] {
    return this.#memberships.filter((one) => one.projectId === projectId)
  }

  /** Returns all projects in the order of their ids. */
  projects(): readonly Project[] {
    return [...this.#byId.values()]
  }

  /**
   * Returns the data that decides which flags a user may change. The role access entries of a flag are read from the
   * disk when they are needed. All other data comes from memory.
   */
  flagEditor({ id, level }: { readonly id: number; readonly level: number }): FlagEditor {
    const roles = this.#roles.get(id)
    return {
      userId: id,
      level,
      defaultLevel: this.#organization?.flagAccess?.level ?? null,
      roleLevels: roles?.levels ?? [],
      hasRoleAccess: (flag) => roles !== undefined && this.#hasAccess(roles.numbers, flag),
    }
  }

  /**
   * Returns the rights of a personal key. Returns null for an unknown, revoked or expired key, and for the key of an
   * inactive user. Keys are compared by their hashes, so the response time does not reveal how much of a key was
   * correct.
   */
  personalKeyByText(text: string): PersonalKeyGrant | null {
    const key = findByHash(this.#keys, hashKey(text))
    return key === null ? null : this.#grantOf(key)
  }

  /**
   * Returns the rights of a console session. Returns null if the session is unknown or has ended, or if its user is
   * inactive. A session also ends if the user's proof for the login is no longer valid: the key was revoked, replaced
   * or has expired, the password was changed or removed, or the account was unlinked. Costs one or two reads of the
   * store.
   */
  consoleSession(token: string): SessionGrant | null {
    this.#environment.refresh()
    const session = this.#console.find(token)
    if (session === null) return null
    const { keyHash, userId, passwordSetAtMs } = session
    if (passwordSetAtMs !== null && this.passwordOf(userId)?.setAtMs !== passwordSetAtMs)
      return null
    if (session.identity !== null && !this.#console.isLinked(session)) return null
    const key = keyHash === null ? null : findByHash(this.#keys, keyHash)
    const grant = keyHash === null ? this.#grantOfUser(userId) : key && this.#grantOf(key)
    const isOpen = sessionEndMs(session, null) > this.#clock.now()
    if (!isOpen || grant === null) return null
    const { id, createdAtMs, lastSeenAtMs } = session
    return {
      ...grant,
      session: { id, createdAtMs, lastSeenAtMs, startedWith: sessionProof(session) },
    }
  }

  /** Returns the reason why `consoleSession` returned null for a token. */
  sessionEnd(token: string): SessionEnd {
    const session = this.#console.find(token)
    if (session === null) return 'removed'
    const nowMs = this.#clock.now()
    if (session.createdAtMs + SESSION_AGE_MS_MAX <= nowMs) return 'old'
    if (sessionEndMs(session, null) <= nowMs) return 'idle'
    if (this.#users.get(session.userId)?.isActive !== true) return 'user'
    if (session.identity !== null) return 'identity'
    return session.keyHash === null ? 'password' : 'key'
  }

  #grantOf(key: PersonalKey): PersonalKeyGrant | null {
    const { userId, projectIds, expiresAtMs } = key
    if (expiresAtMs !== null && expiresAtMs <= this.#clock.now()) return null
    const user = this.#users.get(userId)
    if (user?.isActive !== true) return null
    return { keyId: key.id, ...this.#rightsOf(user, key.scopes, projectIds), expiresAtMs }
  }

  /** Returns all rights that a user has. A viewer only has rights to read. */
  #grantOfUser(userId: number): Omit<PersonalKeyGrant, 'keyId'> | null {
    const user = this.#users.get(userId)
    if (user?.isActive !== true) return null
    return { ...this.#rightsOf(user, ['*'], 'all'), expiresAtMs: null }
  }

  /** Returns the rights of a user, limited to these scopes and projects. */
  #rightsOf(
    user: User,
    keyScopes: readonly string[],
    keyProjectIds: readonly number[] | 'all',
  ): Omit<PersonalKeyGrant, 'keyId' | 'expiresAtMs'> {
    const access = this.#accessOf(user)
    const projectIds = commonProjects(keyProjectIds, access.projectIds)
    return {
      userId: user.id,
      user,
      scopes: scopesAtLevel(keyScopes, user.level),
      keyScopes,
      projectIds,
      projects: projectIds,
      keyProjectIds,
      projectLevels: access.projectLevels,
    }
  }

  #accessOf(user: User): ProjectAccess {
    const known = this.#access.get(user.id)
    if (known !== undefined) return known
    const access = projectAccess(user, this.projects(), this.#memberships)
    this.#access.set(user.id, access)
    return access
  }

  personalKey(key: string): PersonalKeyAccess | null {
    return this.personalKeyByText(key)
  }

  /** Returns the project of a secret key, or null for an unknown or revoked key. Keys are compared by their hashes. */
  projectBySecretKey(text: string): Project | null {
    const key = findByHash(this.#secretKeys, hashKey(text))
    return key === null ? null : this.projectById(key.projectId)
  }

  close(): Promise<void> {
    return this.#environment.close()
  }

  #rolesByUser(): ReadonlyMap<number, RolesOfUser> {
    const byUser = new Map<number, RolesOfUser>()
    for (const { number, level, memberships } of this.#environment.all('roles')) {
      for (const { userId } of memberships) {
        const roles = byUser.get(userId) ?? { numbers: new Set(), levels: [] }
        roles.numbers.add(number)
        roles.levels.push(level)
        byUser.set(userId, roles)
      }
    }
    return byUser
  }

  #hasAccess(roleNumbers: ReadonlySet<number>, { projectId, id }: OwnedFlag): boolean {
    for (const record of recordsOf(this.#environment.table('role_access'), keysOf(projectId, id))) {
      if (roleNumbers.has((record as unknown as RoleAccess).roleNumber)) return true
    }
    return false
  }
}

function isInForce({ revokedAtMs }: { readonly revokedAtMs: number | null }): boolean {
  return revokedAtMs === null
}

function findByHash<Key extends { readonly hash: Buffer }>(
  keys: ReadonlyMap<string, Key>,
  hash: Buffer,
): Key | null {
  const key = keys.get(hash.toString('latin1'))
  return key !== undefined && timingSafeEqual(key.hash, hash) ? key : null
}

const STATE = 'state'

/**
 * Reads at each call the version number of the environment `flags`, which changes of flags, projects, keys and users
 * raise. Close it before the thread ends.
 */
export class FlagsVersion {
  readonly #environment: Environment

  /** Set `isReadOnly` if no other part of this process opens the environment for writing. */
  constructor(dataDir: string, isReadOnly = false) {
    const options = { dataDir, name: FLAGS_ENVIRONMENT, tables: [STATE], isReadOnly }
    this.#environment = new Environment(options)
  }

  /** Returns the current version, or 0 before the first change. Throws `DamagedRecordError`. */
  read(): number {
    this.#environment.refresh()
    const state = this.#environment.find(STATE)
    if (state === undefined) return 0
    return readCount(state, 'version')
  }

  /** Returns the current version, or 0 if the record is damaged. The damage is reported elsewhere. */
  readIfSound(): number {
    try {
      return this.read()
    } catch (cause) {
      if (cause instanceof DamagedRecordError) return 0
      throw cause
    }
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}
