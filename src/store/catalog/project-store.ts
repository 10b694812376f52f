/**
 * The organization and its projects, in the environment `flags`. The daemon and commands may write to it at the same
 * time. `ProjectStore` changes and lists projects. Requests find projects in `ProjectDirectory`, which has them in
 * memory and detects changes by a counter that every change raises.
 */
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { ServiceError } from '../../base/errors.ts'
import { uuidV7 } from '../../base/ids.ts'
import { isObject, type JsonObject } from '../../base/json.ts'
import { NAME_CHARACTERS_MAX } from '../../base/limits.ts'
import { isDevelopmentKey } from '../../rules/access/development-keys.ts'
import { USER_LEVELS } from '../../rules/access/levels.ts'
import {
  DEFAULT_BROWSER_CAPTURE,
  EMPTY_LISTS,
  type Organization,
  type Project,
  type ProjectChanges,
  type ProjectRequest,
  type User,
} from '../../rules/access/organization.ts'
import { replacementOf } from '../../rules/queries/web/path-cleaning.ts'
import { numberKey } from '../lmdb/keys.ts'
import { demand, demandRoom, nextId } from './checks.ts'
import { DirectoryEnvironment } from './directory-environment.ts'
import { checkKeyText, generateProjectKey, KeyStore, refuseDevelopmentKey } from './key-store.ts'
import { PROJECT_LIST_BYTES_MAX, PROJECT_LIST_ITEMS_MAX, PROJECTS_MAX } from './limits.ts'

/** The keys that the first start creates, and the number of the project that it creates. */
export interface FirstKeys {
  readonly projectId: number
  readonly projectKey: string
  readonly personalKey: string
}

const OWNER_ID = 1
const [, , , HIGHEST] = USER_LEVELS

/** Changes projects. Every change is one durable transaction. A change that is not allowed throws a `ServiceError`. */
export class ProjectStore {
  readonly keys: KeyStore
  readonly #environment: DirectoryEnvironment

  /** `dataDir` must contain a store (data-dir.ts). */
  constructor(
    dataDir: string,
    clock: Clock = SYSTEM_CLOCK,
    environment = new DirectoryEnvironment(dataDir, clock),
  ) {
    this.#environment = environment
    this.keys = new KeyStore(environment)
  }

  /** Returns the organization, or null before the first start is complete. */
  organization(): Organization | null {
    return this.#environment.organization()
  }

  /**
   * Creates the organization, its owner, project 1 and a personal key. If there is an organization already, changes
   * nothing and returns null.
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
      this.#environment.put('users', owner)
      const project = this.#insertProject({ name: 'Default project', apiKey: keys.projectKey })
      this.keys.insert(keys.personalKey, { label: 'First start' })
      return {
        projectId: project.id,
        projectKey: keys.projectKey,
        personalKey: keys.personalKey,
      }
    })
  }

  createProject(request: ProjectRequest): Project {
    refuseDevelopmentKey(request.apiKey, 'api_token')
    return this.#environment.change(() => this.#insertProject(request))
  }

  setProject(id: number, changes: ProjectChanges): Project {
    return this.#environment.change(() => {
      const projects = this.listProjects()
      const before = projects.find((project) => project.id === id)
      demand(before !== undefined, 'not_found', `There is no project ${id}.`)
      const after: Project = { ...before, ...changes }
      if (after.apiKey !== before.apiKey) refuseDevelopmentKey(after.apiKey, 'api_token')
      this.#checkProject(after, projects)
      return this.#environment.put('projects', after)
    })
  }

  /**
   * Replaces a project by a new, empty one with default settings. The new project gets the key and the name of the old
   * one, and a new number. The data of the old project stays on the disk, but can no longer be reached.
   */
  replaceProject(id: number): Project {
    return this.#environment.change(() => {
      const before = this.project(id)
      demand(before !== null, 'not_found', `There is no project ${id}.`)
      const next = nextId(this.listProjects())
      this.#environment.table('projects').removeSync(numberKey(id))
      const { apiKey, name } = before
      return this.#insertProject({ apiKey, name }, next)
    })
  }

  /** True if one of the fixed keys of `tenrec dev`, which everybody knows, is valid in this store. */
  get hasDevelopmentKey(): boolean {
    if (this.listProjects().some(({ apiKey }) => isDevelopmentKey(apiKey))) return true
    return this.keys.hasDevelopmentKey
  }

  /** Returns all projects in the order of their ids. */
  listProjects(): readonly Project[] {
    return this.#environment.all('projects')
  }

  project(id: number): Project | null {
    return this.listProjects().find((project) => project.id === id) ?? null
  }

  close(): Promise<void> {
    return this.#environment.close()
  }

  #insertProject(request: ProjectRequest, id?: number): Project {
    const projects = this.listProjects()
    demandRoom(projects.length, PROJECTS_MAX, 'projects')
    const project: Project = {
      id: id ?? nextId(projects),
      apiKey: request.apiKey ?? generateProjectKey(),
      isIpAnonymized: request.isIpAnonymized ?? false,
      areGroupTypesClosed: request.areGroupTypesClosed ?? false,
      isPrivate: request.isPrivate ?? false,
      ...DEFAULT_BROWSER_CAPTURE,
      timezone: 'UTC',
      ...EMPTY_LISTS,
      ...request,
      createdAtMs: this.#environment.clock.now(),
    }
    this.#checkProject(project, projects)
    return this.#environment.put('projects', project)
  }

  /**
   * Throws 400 if a new or changed project is not valid. `projects` are all stored projects, including the old version
   * of a changed one.
   */
  #checkProject(project: Project, projects: readonly Project[]): void {
    checkName(project.name)
    checkKeyText('A project key', project.apiKey, 'api_token')
    checkTimezone(project.timezone)
    checkList(project.testAccountFilters, 'test_account_filters')
    checkList(project.pathCleaningFilters, 'path_cleaning_filters')
    checkList(project.customChannelTypeRules, 'customChannelTypeRules')
    checkPathRules(project.pathCleaningFilters)
    checkMaximum(project.dailyEventsMax, 'daily_events_limit')
    checkMaximum(project.dailyBytesMax, 'daily_bytes_limit')
    const isTaken = projects.some(
      ({ id, apiKey }) => id !== project.id && apiKey === project.apiKey,
    )
    const isFree = !isTaken && !this.keys.isTaken(project.apiKey)
    demand(isFree, 'unique', 'This project key is already in use. Choose another one.', 'api_token')
  }
}

function checkName(name: string): void {
  const isName = name.trim() !== '' && name.length <= NAME_CHARACTERS_MAX
  const detail = `The name of a project must have 1 to ${NAME_CHARACTERS_MAX} characters.`
  demand(isName, 'invalid_input', detail, 'name')
}

function checkTimezone(timezone: string): void {
  // Skip the check for UTC, which nearly all projects use: checking a time zone loads the tables of time zones.
  if (timezone === 'UTC') return
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone })
  } catch (cause) {
    const detail = `${JSON.stringify(timezone)} is not a time zone. Use a name such as Europe/Berlin.`
    throw new ServiceError('invalid_choice', detail, { attr: 'timezone', cause })
  }
}

function checkList(list: readonly JsonObject[], attr: string): void {
  const isList = list.every(isObject)
  demand(isList, 'invalid_input', `\`${attr}\` must be a list of JSON objects.`, attr)
  const bytes = Buffer.byteLength(JSON.stringify(list))
  const isSmall = list.length <= PROJECT_LIST_ITEMS_MAX && bytes <= PROJECT_LIST_BYTES_MAX
  const detail = `\`${attr}\` may have at most ${PROJECT_LIST_ITEMS_MAX} items and ${PROJECT_LIST_BYTES_MAX} bytes of JSON.`
  demand(isSmall, 'invalid_input', detail, attr)
}

function checkMaximum(value: number | null | undefined, attr: string): void {
  const isMaximum = value == null || (Number.isSafeInteger(value) && value >= 0)
  const detail = `\`${attr}\` must be a whole number, at least 0, or null for no limit.`
  demand(isMaximum, 'invalid_input', detail, attr)
}

function checkPathRules(rules: readonly JsonObject[]): void {
  for (const { regex, alias } of rules) {
    const isUsable = replacementOf(regex, alias) !== null
    const detail = `\`path_cleaning_filters\` has a pattern that cannot be used: ${JSON.stringify(regex)}.`
    demand(isUsable, 'invalid_input', detail, 'path_cleaning_filters')
  }
}
