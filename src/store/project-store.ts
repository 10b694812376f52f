/**
 * Organization, users, projects and personal keys: the environment `flags`, which the daemon and
 * commands write alike. `ProjectStore` changes and lists them; `ProjectDirectory` answers from memory
 * on every request and notices changes by a counter that every write transaction raises.
 */
import { createHash, randomInt, timingSafeEqual } from 'node:crypto'
import { type Clock, SYSTEM_CLOCK } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { uuidV7 } from '../base/ids.ts'
import { KEY_ALLOWED, KEY_PATTERN } from '../config/settings-table.ts'
import { isJsonObject } from '../ingest/fields.ts'
import type {
  ProjectDirectory as IngestProjectDirectory,
  PersonalKeyAccess,
} from '../ingest/project-directory.ts'
import type { JsonObject } from '../ingest/types.ts'
import { Environment, type Table } from './environment.ts'
import { numberKey } from './keys.ts'
import {
  allRecords,
  decodeOrganization,
  decodePersonalKey,
  decodeProject,
  decodeUser,
  encodeProject,
  FLAGS_ENVIRONMENT,
  getRecord,
  type Organization,
  type PersonalKey,
  PROJECT_TABLES,
  type Project,
  type ProjectTable,
  putRecord,
  type User,
} from './project-records.ts'

/** What can be changed of a project; what is left out stays, or gets its default. */
export interface ProjectChanges {
  readonly name?: string
  /** Default: generated. */
  readonly apiKey?: string
  readonly isIpAnonymized?: boolean
  readonly timezone?: string
  readonly testAccountFilters?: readonly JsonObject[]
}

/** What a new personal key may do. */
export interface KeyRequest {
  /** The key itself; default: generated. */
  readonly text?: string
  readonly label?: string
  /** Default: `*`. */
  readonly scopes?: readonly string[]
  /** Default: all. */
  readonly projectIds?: readonly number[] | 'all'
  readonly expiresAtMs?: number
}

/** The keys of the first start. */
export interface FirstKeys {
  readonly projectId: number
  readonly projectKey: string
  readonly personalKey: string
}

/** What a personal key opens. */
export interface PersonalKeyGrant extends PersonalKeyAccess {
  readonly userId: number
  readonly scopes: readonly string[]
  readonly projectIds: readonly number[] | 'all'
}

const PROJECT_KEY_PREFIX = 'phc_'
const PERSONAL_KEY_PREFIX = 'phx_'
const KEY_RANDOM_CHARACTERS = 43
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const SCOPE_PATTERN = /^(\*|[a-z_]{1,40}:(read|write))$/
const NAME_CHARACTERS_MAX = 200
const PROJECTS_MAX = 10_000
const OWNER_ID = 1
const VERSION_KEY = Buffer.from('version', 'latin1')
const ORGANIZATION_KEY = Buffer.from('organization', 'latin1')

/** A random project key: `phc_` and 43 letters and digits (256 bits). */
export function generateProjectKey(): string {
  return PROJECT_KEY_PREFIX + randomBase62()
}

/** A random personal key: `phx_` and 43 letters and digits (256 bits). */
export function generatePersonalKey(): string {
  return PERSONAL_KEY_PREFIX + randomBase62()
}

/** The writing side. Every change is one durable transaction; what is not allowed is an `OperatorError`. */
export class ProjectStore {
  readonly #environment: Environment
  readonly #clock: Clock

  /** `dataDir` must hold a store (data-dir.ts). */
  constructor(dataDir: string, clock: Clock = SYSTEM_CLOCK) {
    this.#environment = new Environment({
      dataDir,
      name: FLAGS_ENVIRONMENT,
      tables: PROJECT_TABLES,
    })
    this.#clock = clock
  }

  /** Null before the first start is complete. */
  organization(): Organization | null {
    return decodeOrganization(getRecord(this.#table('state'), 'state', ORGANIZATION_KEY))
  }

  /**
   * Creates organization, owner, project 1 and a personal key. Null, and nothing is changed, when there
   * is an organization already.
   */
  bootstrap(keys: { readonly projectKey: string; readonly personalKey: string }): FirstKeys | null {
    return this.#write(() => {
      if (this.organization() !== null) return null
      const createdAtMs = this.#clock.now()
      const organization: Organization = { id: uuidV7(createdAtMs), name: 'Default', createdAtMs }
      putRecord(this.#table('state'), ORGANIZATION_KEY, organization)
      const uuid = uuidV7(createdAtMs)
      const owner: User = {
        id: OWNER_ID,
        uuid,
        email: 'owner@localhost',
        firstName: 'Owner',
        distinctId: uuid,
        level: 15,
        isActive: true,
        createdAtMs,
      }
      putRecord(this.#table('users'), numberKey(owner.id), owner)
      const project = this.#insertProject({ name: 'Default project', apiKey: keys.projectKey })
      this.#insertKey(keys.personalKey, { label: 'First start' })
      return {
        projectId: project.id,
        projectKey: keys.projectKey,
        personalKey: keys.personalKey,
      }
    })
  }

  createProject(request: ProjectChanges & { readonly name: string }): Project {
    return this.#write(() => this.#insertProject(request))
  }

  /** Changes a project and answers it. */
  setProject(id: number, changes: ProjectChanges): Project {
    return this.#write(() => {
      const before = this.#requireProject(id)
      const after: Project = { ...before, ...changes }
      this.#checkProject(after)
      putRecord(this.#table('projects'), numberKey(id), encodeProject(after))
      return after
    })
  }

  /** All projects by id. */
  listProjects(): readonly Project[] {
    return [...allRecords(this.#table('projects'), 'projects')].map(decodeProject)
  }

  project(id: number): Project | null {
    return this.listProjects().find((project) => project.id === id) ?? null
  }

  /** Creates a personal key of the owner. `text` is the key; it cannot be had again. */
  createKey(request: KeyRequest): { readonly text: string; readonly key: PersonalKey } {
    const text = request.text ?? generatePersonalKey()
    return { text, key: this.#write(() => this.#insertKey(text, request)) }
  }

  /** Revokes a key; revoking it again changes nothing. */
  revokeKey(id: number): PersonalKey {
    return this.#write(() => {
      const key = this.listKeys().find((candidate) => candidate.id === id)
      if (key === undefined) throw new OperatorError(`there is no personal key ${id}`)
      if (key.revokedAtMs !== null) return key
      const revoked: PersonalKey = { ...key, revokedAtMs: this.#clock.now() }
      putRecord(this.#table('personal_keys'), numberKey(id), revoked)
      return revoked
    })
  }

  /** All personal keys by id, revoked and expired ones too. */
  listKeys(): readonly PersonalKey[] {
    return [...allRecords(this.#table('personal_keys'), 'personal_keys')].map(decodePersonalKey)
  }

  close(): Promise<void> {
    return this.#environment.close()
  }

  #table(name: ProjectTable): Table {
    return this.#environment.table(name)
  }

  /** Runs a change and raises the version with it. `action` must not answer a promise. */
  #write<T>(action: () => T): T {
    return this.#environment.write(() => {
      const result = action()
      const state = this.#table('state')
      putRecord(state, VERSION_KEY, readVersion(state) + 1)
      return result
    })
  }

  #requireProject(id: number): Project {
    const project = this.project(id)
    if (project === null) throw new OperatorError(`there is no project ${id}`)
    return project
  }

  #insertProject(request: ProjectChanges & { readonly name: string }): Project {
    const projects = this.listProjects()
    if (projects.length >= PROJECTS_MAX) {
      throw new OperatorError(`there can be at most ${PROJECTS_MAX} projects`)
    }
    const project: Project = {
      id: projects.reduce((highest, { id }) => Math.max(highest, id), 0) + 1,
      name: request.name,
      apiKey: request.apiKey ?? generateProjectKey(),
      isIpAnonymized: request.isIpAnonymized ?? false,
      timezone: request.timezone ?? 'UTC',
      testAccountFilters: request.testAccountFilters ?? [],
      createdAtMs: this.#clock.now(),
    }
    this.#checkProject(project)
    putRecord(this.#table('projects'), numberKey(project.id), encodeProject(project))
    return project
  }

  #checkProject(project: Project): void {
    checkName('a project', project.name)
    checkKey('a project key', project.apiKey)
    checkTimezone(project.timezone)
    if (!project.testAccountFilters.every(isJsonObject)) {
      throw new OperatorError('test account filters must be a list of JSON objects')
    }
    const isTaken = this.listProjects().some(
      ({ id, apiKey }) => id !== project.id && apiKey === project.apiKey,
    )
    if (isTaken || this.#isPersonalKey(hashKey(project.apiKey))) {
      throw new OperatorError('the project key is in use already: choose another')
    }
  }

  #insertKey(text: string, request: KeyRequest): PersonalKey {
    checkKey('a personal key', text)
    const hash = hashKey(text)
    if (this.#isPersonalKey(hash) || this.listProjects().some(({ apiKey }) => apiKey === text)) {
      throw new OperatorError('the personal key is in use already: choose another')
    }
    const scopes = request.scopes ?? ['*']
    const projectIds = request.projectIds ?? 'all'
    checkScopes(scopes)
    if (projectIds !== 'all') for (const id of projectIds) this.#requireProject(id)
    const label = request.label ?? 'Personal key'
    checkName('a key', label)
    const keys = this.listKeys()
    const key: PersonalKey = {
      id: keys.reduce((highest, { id }) => Math.max(highest, id), 0) + 1,
      userId: OWNER_ID,
      label,
      hash,
      lastFour: text.slice(-4),
      scopes,
      projectIds,
      createdAtMs: this.#clock.now(),
      revokedAtMs: null,
      expiresAtMs: request.expiresAtMs ?? null,
    }
    putRecord(this.#table('personal_keys'), numberKey(key.id), key)
    return key
  }

  #isPersonalKey(hash: Buffer): boolean {
    return this.listKeys().some((key) => key.hash.equals(hash))
  }
}

/**
 * Projects and keys as of the last `refreshIfChanged`, for one thread. Lookups touch no disk and answer
 * null for whatever is unknown.
 */
export class ProjectDirectory implements IngestProjectDirectory {
  readonly #environment: Environment
  readonly #clock: Clock
  #version = -1
  #byKey: ReadonlyMap<string, Project> = new Map()
  #byId: ReadonlyMap<number, Project> = new Map()
  #keys: ReadonlyMap<string, PersonalKey> = new Map()
  #users: ReadonlyMap<number, User> = new Map()

  /** Opens the store that is in `dataDir` and reads it. Throws `DamagedRecordError`. */
  constructor(dataDir: string, clock: Clock = SYSTEM_CLOCK) {
    // Not read-only: LMDB would then refuse to open it for writing elsewhere in the same process.
    this.#environment = new Environment({
      dataDir,
      name: FLAGS_ENVIRONMENT,
      tables: PROJECT_TABLES,
    })
    this.#clock = clock
    this.refreshIfChanged()
  }

  /**
   * Takes over what any process changed since the last call; whether there was something. Throws
   * `DamagedRecordError` and then still answers what it knew. Cost: one read when nothing changed.
   */
  refreshIfChanged(): boolean {
    this.#environment.refresh()
    const version = readVersion(this.#environment.table('state'))
    if (version === this.#version) return false
    const projects = [...allRecords(this.#environment.table('projects'), 'projects')].map(
      decodeProject,
    )
    const keys = [...allRecords(this.#environment.table('personal_keys'), 'personal_keys')]
      .map(decodePersonalKey)
      .filter(({ revokedAtMs }) => revokedAtMs === null)
    const users = [...allRecords(this.#environment.table('users'), 'users')].map(decodeUser)
    this.#users = new Map(users.map((user) => [user.id, user]))
    this.#byKey = new Map(projects.map((project) => [project.apiKey, project]))
    this.#byId = new Map(projects.map((project) => [project.id, project]))
    this.#keys = new Map(keys.map((key) => [key.hash.toString('latin1'), key]))
    this.#version = version
    return true
  }

  projectByKey(apiKey: string): Project | null {
    return this.#byKey.get(apiKey) ?? null
  }

  projectById(id: number): Project | null {
    return this.#byId.get(id) ?? null
  }

  userById(id: number): User | null {
    return this.#users.get(id) ?? null
  }

  /** All projects by id. */
  projects(): readonly Project[] {
    return [...this.#byId.values()]
  }

  /**
   * What a personal key opens; null for an unknown, revoked or expired one. Keys are compared by their
   * hash, so that the time of an answer tells nothing about how much of a key was right.
   */
  personalKeyByText(text: string): PersonalKeyGrant | null {
    const hash = hashKey(text)
    const key = this.#keys.get(hash.toString('latin1'))
    if (key === undefined || !timingSafeEqual(key.hash, hash)) return null
    if (key.expiresAtMs !== null && key.expiresAtMs <= this.#clock.now()) return null
    const { userId, scopes, projectIds } = key
    return { userId, scopes, projectIds, projects: projectIds }
  }

  personalKey(key: string): PersonalKeyAccess | null {
    return this.personalKeyByText(key)
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}

function readVersion(state: Table): number {
  const version = getRecord(state, 'state', VERSION_KEY)
  return typeof version === 'number' ? version : 0
}

function hashKey(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest()
}

function randomBase62(): string {
  let text = ''
  for (let index = 0; index < KEY_RANDOM_CHARACTERS; index++) text += BASE62[randomInt(62)]
  return text
}

function checkKey(what: string, key: string): void {
  if (!KEY_PATTERN.test(key)) throw new OperatorError(`${what} must be ${KEY_ALLOWED}`)
}

function checkName(what: string, name: string): void {
  if (name.trim() !== '' && name.length <= NAME_CHARACTERS_MAX) return
  throw new OperatorError(`the name of ${what} must have 1 to ${NAME_CHARACTERS_MAX} characters`)
}

function checkTimezone(timezone: string): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone })
  } catch {
    throw new OperatorError(
      `${JSON.stringify(timezone)} is not a time zone: use a name such as Europe/Berlin`,
    )
  }
}

function checkScopes(scopes: readonly string[]): void {
  if (scopes.length > 0 && scopes.every((scope) => SCOPE_PATTERN.test(scope))) return
  throw new OperatorError("scopes must be '*' or a list such as event:read,feature_flag:write")
}
