/**
 * Organization and projects: the environment `flags`, which the daemon and commands write alike.
 * `ProjectStore` changes and lists them; `ProjectDirectory` answers from memory on every request and
 * notices changes by a counter that every write transaction raises.
 */
import { timingSafeEqual } from 'node:crypto'
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import { uuidV7 } from '../../base/ids.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import type { FlagEditor, OwnedFlag } from '../../rules/access/flag-permissions.ts'
import { type FlagAccessLevel, USER_LEVELS } from '../../rules/access/levels.ts'
import {
  DEFAULT_BROWSER_CAPTURE,
  type Organization,
  type PersonalKey,
  type PersonalKeyGrant,
  type Project,
  type ProjectChanges,
  type SecretKey,
  type User,
} from '../../rules/access/organization.ts'
import type {
  ProjectDirectory as IngestProjectDirectory,
  PersonalKeyAccess,
} from '../../rules/capture/project-directory.ts'
import { NUMBER_MAX, numberKey, pairKey, tripleKey } from '../lmdb/keys.ts'
import { DirectoryEnvironment } from './directory-environment.ts'
import { checkKeyText, generateProjectKey, hashKey, KeyStore } from './key-store.ts'
import {
  allRecords,
  decodePersonalKey,
  decodeProject,
  decodeSecretKey,
  decodeUser,
  encodeProject,
  putRecord,
  recordsWithin,
} from './project-records.ts'
import { decodeRole, decodeRoleAccess } from './role-records.ts'

/** The keys of the first start. */
export interface FirstKeys {
  readonly projectId: number
  readonly projectKey: string
  readonly personalKey: string
}

/** The roles of one user. */
interface RolesOfUser {
  readonly numbers: Set<number>
  readonly levels: FlagAccessLevel[]
}

const NAME_CHARACTERS_MAX = 200
const PROJECTS_MAX = 10_000
const TEST_ACCOUNT_FILTERS_MAX = 100
const TEST_ACCOUNT_FILTERS_BYTES_MAX = 64 * 1024
const OWNER_ID = 1
const [, , HIGHEST] = USER_LEVELS

/** The writing side. Every change is one durable transaction; what is not allowed is a `ServiceError`. */
export class ProjectStore {
  readonly keys: KeyStore
  readonly #environment: DirectoryEnvironment

  /** `dataDir` must hold a store (data-dir.ts). */
  constructor(
    dataDir: string,
    clock: Clock = SYSTEM_CLOCK,
    environment = new DirectoryEnvironment(dataDir, clock),
  ) {
    this.#environment = environment
    this.keys = new KeyStore(environment)
  }

  /** Null before the first start is complete. */
  organization(): Organization | null {
    return this.#environment.organization()
  }

  /**
   * Creates organization, owner, project 1 and a personal key. Null, and nothing is changed, when there
   * is an organization already.
   */
  bootstrap(keys: { readonly projectKey: string; readonly personalKey: string }): FirstKeys | null {
    return this.#environment.change(() => {
      if (this.organization() !== null) return null
      const createdAtMs = this.#environment.clock.now()
      const id = uuidV7(createdAtMs)
      this.#environment.putOrganization({ id, name: 'Default', createdAtMs, flagAccess: null })
      const uuid = uuidV7(createdAtMs)
      const owner: User = {
        id: OWNER_ID,
        uuid,
        email: 'owner@localhost',
        firstName: 'Owner',
        distinctId: uuid,
        level: HIGHEST.number,
        isActive: true,
        createdAtMs,
      }
      putRecord(this.#environment.table('users'), numberKey(owner.id), owner)
      const project = this.#insertProject({ name: 'Default project', apiKey: keys.projectKey })
      this.keys.insert(keys.personalKey, { label: 'First start' })
      return {
        projectId: project.id,
        projectKey: keys.projectKey,
        personalKey: keys.personalKey,
      }
    })
  }

  createProject(request: ProjectChanges & { readonly name: string }): Project {
    return this.#environment.change(() => this.#insertProject(request))
  }

  /** Changes a project and answers it. */
  setProject(id: number, changes: ProjectChanges): Project {
    return this.#environment.change(() => {
      const before = this.#requireProject(id)
      const after: Project = { ...before, ...changes }
      this.#checkProject(after)
      putRecord(this.#environment.table('projects'), numberKey(id), encodeProject(after))
      return after
    })
  }

  /** All projects by id. */
  listProjects(): readonly Project[] {
    return [...allRecords(this.#environment.table('projects'), 'projects')].map(decodeProject)
  }

  project(id: number): Project | null {
    return this.listProjects().find((project) => project.id === id) ?? null
  }

  close(): Promise<void> {
    return this.#environment.close()
  }

  #requireProject(id: number): Project {
    const project = this.project(id)
    if (project === null) throw new ServiceError('not_found', `there is no project ${id}`)
    return project
  }

  #insertProject(request: ProjectChanges & { readonly name: string }): Project {
    const projects = this.listProjects()
    if (projects.length >= PROJECTS_MAX) {
      throw new ServiceError('invalid_input', `there can be at most ${PROJECTS_MAX} projects`)
    }
    const project: Project = {
      id: projects.reduce((highest, { id }) => Math.max(highest, id), 0) + 1,
      name: request.name,
      apiKey: request.apiKey ?? generateProjectKey(),
      isIpAnonymized: request.isIpAnonymized ?? false,
      isAutocaptureOff: request.isAutocaptureOff ?? DEFAULT_BROWSER_CAPTURE.isAutocaptureOff,
      areExceptionsCaptured:
        request.areExceptionsCaptured ?? DEFAULT_BROWSER_CAPTURE.areExceptionsCaptured,
      areWebVitalsCaptured:
        request.areWebVitalsCaptured ?? DEFAULT_BROWSER_CAPTURE.areWebVitalsCaptured,
      timezone: request.timezone ?? 'UTC',
      testAccountFilters: request.testAccountFilters ?? [],
      createdAtMs: this.#environment.clock.now(),
    }
    this.#checkProject(project)
    putRecord(this.#environment.table('projects'), numberKey(project.id), encodeProject(project))
    return project
  }

  #checkProject(project: Project): void {
    checkName(project.name)
    checkKeyText('a project key', project.apiKey, 'api_token')
    checkTimezone(project.timezone)
    checkTestAccountFilters(project.testAccountFilters)
    const isTaken = this.listProjects().some(
      ({ id, apiKey }) => id !== project.id && apiKey === project.apiKey,
    )
    if (isTaken || this.keys.isTaken(project.apiKey)) {
      const detail = 'the project key is in use already: choose another'
      throw new ServiceError('unique', detail, { attr: 'api_token' })
    }
  }
}

/**
 * Organization, users, projects and keys as of the last `refreshIfChanged`, for one thread. Lookups
 * touch no disk and answer null for whatever is unknown.
 */
export class ProjectDirectory implements IngestProjectDirectory {
  readonly #environment: DirectoryEnvironment
  readonly #clock: Clock
  #version = -1
  #organization: Organization | null = null
  #byKey: ReadonlyMap<string, Project> = new Map()
  #byId: ReadonlyMap<number, Project> = new Map()
  #keys: ReadonlyMap<string, PersonalKey> = new Map()
  #secretKeys: ReadonlyMap<string, SecretKey> = new Map()
  #users: ReadonlyMap<number, User> = new Map()
  #roles: ReadonlyMap<number, RolesOfUser> = new Map()

  /** Opens the store that is in `dataDir` and reads it. Throws `DamagedRecordError`. */
  constructor(dataDir: string, clock: Clock = SYSTEM_CLOCK) {
    this.#environment = new DirectoryEnvironment(dataDir, clock)
    this.#clock = clock
    this.refreshIfChanged()
  }

  /**
   * Takes over what any process changed since the last call; whether there was something. Throws
   * `DamagedRecordError` and then still answers what it knew. Cost: one read when nothing changed.
   */
  refreshIfChanged(): boolean {
    const version = this.#environment.version
    if (version === this.#version) return false
    const organization = this.#environment.organization()
    const projects = this.#records('projects').map(decodeProject)
    const keys = this.#records('personal_keys').map(decodePersonalKey).filter(isInForce)
    const secretKeys = this.#records('secret_keys').map(decodeSecretKey).filter(isInForce)
    const users = this.#records('users').map(decodeUser)
    const roles = this.#rolesByUser()
    this.#organization = organization
    this.#users = new Map(users.map((user) => [user.id, user]))
    this.#roles = roles
    this.#byKey = new Map(projects.map((project) => [project.apiKey, project]))
    this.#byId = new Map(projects.map((project) => [project.id, project]))
    this.#keys = new Map(keys.map((key) => [key.hash.toString('latin1'), key]))
    this.#secretKeys = new Map(secretKeys.map((key) => [key.hash.toString('latin1'), key]))
    this.#version = version
    return true
  }

  /** Null before the first start is complete. */
  organization(): Organization | null {
    return this.#organization
  }

  projectByKey(apiKey: string): Project | null {
    return this.#byKey.get(apiKey) ?? null
  }

  projectById(id: number): Project | null {
    return this.#byId.get(id) ?? null
  }

  /** Inactive users, too: what they made still names them. */
  userById(id: number): User | null {
    return this.#users.get(id) ?? null
  }

  /** All users by id, inactive ones too. */
  users(): readonly User[] {
    return [...this.#users.values()]
  }

  /** All projects by id. */
  projects(): readonly Project[] {
    return [...this.#byId.values()]
  }

  /**
   * What the rights of a user about flags depend on; from memory, but for the role access entries of a
   * flag, which are read when they decide.
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
   * What a personal key opens; null for an unknown, revoked or expired one, and for the key of an
   * inactive user. Keys are compared by their hash, so that the time of an answer tells nothing about
   * how much of a key was right.
   */
  personalKeyByText(text: string): PersonalKeyGrant | null {
    const key = findByHash(this.#keys, text)
    if (key === null) return null
    const { userId, scopes, projectIds, expiresAtMs } = key
    if (expiresAtMs !== null && expiresAtMs <= this.#clock.now()) return null
    const user = this.#users.get(userId)
    if (user?.isActive !== true) return null
    return { keyId: key.id, userId, user, scopes, projectIds, projects: projectIds, expiresAtMs }
  }

  personalKey(key: string): PersonalKeyAccess | null {
    return this.personalKeyByText(key)
  }

  /** The project whose secret key this is; null for an unknown or revoked one. Compared by hash. */
  projectBySecretKey(text: string): Project | null {
    const key = findByHash(this.#secretKeys, text)
    return key === null ? null : this.projectById(key.projectId)
  }

  close(): Promise<void> {
    return this.#environment.close()
  }

  #records(name: 'projects' | 'personal_keys' | 'secret_keys' | 'users' | 'roles') {
    return [...allRecords(this.#environment.table(name), name)]
  }

  #rolesByUser(): ReadonlyMap<number, RolesOfUser> {
    const byUser = new Map<number, RolesOfUser>()
    for (const { number, level, memberships } of this.#records('roles').map(decodeRole)) {
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
    const table = this.#environment.table('role_access')
    const range = { start: pairKey(projectId, id), end: tripleKey(projectId, id, NUMBER_MAX) }
    for (const record of recordsWithin(table, 'role_access', range)) {
      if (roleNumbers.has(decodeRoleAccess(record).roleNumber)) return true
    }
    return false
  }
}

function isInForce({ revokedAtMs }: { readonly revokedAtMs: number | null }): boolean {
  return revokedAtMs === null
}

function findByHash<Key extends { readonly hash: Buffer }>(
  keys: ReadonlyMap<string, Key>,
  text: string,
): Key | null {
  const hash = hashKey(text)
  const key = keys.get(hash.toString('latin1'))
  return key !== undefined && timingSafeEqual(key.hash, hash) ? key : null
}

function checkName(name: string): void {
  if (name.trim() !== '' && name.length <= NAME_CHARACTERS_MAX) return
  const detail = `the name of a project must have 1 to ${NAME_CHARACTERS_MAX} characters`
  throw new ServiceError('invalid_input', detail, { attr: 'name' })
}

function checkTimezone(timezone: string): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone })
  } catch (cause) {
    const detail = `${JSON.stringify(timezone)} is not a time zone: use a name such as Europe/Berlin`
    throw new ServiceError('invalid_choice', detail, { attr: 'timezone', cause })
  }
}

function checkTestAccountFilters(filters: readonly JsonObject[]): void {
  const attr = 'test_account_filters'
  if (!filters.every(isObject)) {
    const detail = 'test account filters must be a list of JSON objects'
    throw new ServiceError('invalid_input', detail, { attr })
  }
  const bytes = Buffer.byteLength(JSON.stringify(filters))
  if (filters.length > TEST_ACCOUNT_FILTERS_MAX || bytes > TEST_ACCOUNT_FILTERS_BYTES_MAX) {
    const detail = `test account filters may be ${TEST_ACCOUNT_FILTERS_MAX} at most, and ${TEST_ACCOUNT_FILTERS_BYTES_MAX} bytes of JSON`
    throw new ServiceError('invalid_input', detail, { attr })
  }
}
