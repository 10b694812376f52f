/**
 * The environment `flags`, opened to change the organization, users, projects, keys and roles. Every change is one
 * durable transaction. It raises two version numbers: one of the whole environment, and one of the records below.
 * Threads read users and projects again only if the second number has changed. So a change of a flag does not make them
 * read users and projects again. The records, as MessagePack with a checksum (codec.ts):
 *
 * | table         | key            | value                                                                     |
 * |---------------|----------------|---------------------------------------------------------------------------|
 * | state         | `version`      | number of the last write transaction (`number`)                           |
 * | state         | `directory`    | number of the last change of the records listed here or in role-store.ts  |
 * | state         | `organization` | `Organization`                                                            |
 * | state         | `warehouse`    | the name of the warehouse of the cluster                                  |
 * | users         | id u32         | `User`                                                                    |
 * | projects      | id u32         | `Project`, its lists as JSON texts                                        |
 * | project_members | project u32, user u32 | `ProjectMembership`                                                |
 * | personal_keys | id u32         | `PersonalKey`                                                             |
 * | secret_keys   | id u32         | `SecretKey`                                                               |
 */
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { refusal } from '../../base/refusals.ts'
import {
  DEFAULT_BROWSER_CAPTURE,
  EMPTY_LISTS,
  type Invite,
  type Organization,
  type PersonalKey,
  type Project,
  type ProjectMembership,
  type SecretKey,
  type User,
} from '../../rules/access/organization.ts'
import type { Role, RoleAccess } from '../../rules/access/roles.ts'
import { Environment, type Table } from '../lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, FLAGS_TABLES, type FlagsTable, numberKey } from '../lmdb/keys.ts'
import { getRecord, putRecord, raiseCount, readCount, recordsOf } from '../lmdb/records.ts'

const VERSION = 'version'
const DIRECTORY_VERSION = 'directory'
const ORGANIZATION_KEY = Buffer.from('organization', 'latin1')
const WAREHOUSE_KEY = Buffer.from('warehouse', 'latin1')

/** The tables of which all records are read at once, with the types of their records. */
interface DirectoryRecords {
  users: User
  projects: Project
  project_members: ProjectMembership
  personal_keys: PersonalKey
  secret_keys: SecretKey
  roles: Role
  role_access: RoleAccess
  invites: Invite
}

const DECODERS: {
  readonly [Name in keyof DirectoryRecords]: (
    record: Record<string, unknown>,
  ) => DirectoryRecords[Name]
} = {
  // The cast is right: `put` wrote the records, and their checksums match.
  users: (record) => record as unknown as User,
  projects: decodeProject,
  project_members: (record) => record as unknown as ProjectMembership,
  personal_keys: decodePersonalKey,
  secret_keys: decodeHashed<SecretKey>,
  roles: (record) => record as unknown as Role,
  role_access: (record) => record as unknown as RoleAccess,
  invites: decodeHashed<Invite>,
}

/** The open environment `flags`. Close it before the thread ends. */
export class DirectoryEnvironment {
  readonly clock: Clock
  readonly #environment: Environment
  #hasFailed = false
  #isWriting = false

  /** `dataDir` must contain a store (data-dir.ts). */
  constructor(dataDir: string, clock: Clock = SYSTEM_CLOCK) {
    this.clock = clock
    // The environment is opened for writing even in a thread that only reads. If one thread opened it only for reading,
    // LMDB would refuse to open it for writing in another thread of the same process.
    this.#environment = new Environment({
      dataDir,
      name: FLAGS_ENVIRONMENT,
      tables: FLAGS_TABLES,
    })
  }

  /**
   * The version number of the records that the header of this file lists. Every change of these records raises the
   * number by one. Costs one read.
   */
  get version(): number {
    this.#environment.refresh()
    return readCount(this.table('state'), DIRECTORY_VERSION)
  }

  table(name: FlagsTable): Table {
    return this.#environment.table(name)
  }

  /** Returns the organization, or null before the first start is complete. Throws `DamagedRecordError`. */
  organization(): Organization | null {
    return decodeOrganization(getRecord(this.table('state'), ORGANIZATION_KEY))
  }

  /** Stores the organization. Call it only within `change`. */
  putOrganization(organization: Organization): void {
    putRecord(this.table('state'), ORGANIZATION_KEY, organization)
  }

  /**
   * Returns the name of the cluster's warehouse, or null if there is none. The receipt of an erasure waits until the
   * data is erased there too.
   */
  warehouse(): string | null {
    const name = getRecord(this.table('state'), WAREHOUSE_KEY)
    return typeof name === 'string' ? name : null
  }

  /** Stores the name of the warehouse, or removes it. Call it only within `change`. */
  putWarehouse(name: string | null): void {
    const state = this.table('state')
    if (name === null) state.removeSync(WAREHOUSE_KEY)
    else putRecord(state, WAREHOUSE_KEY, name)
  }

  /** Returns all records of a table in the order of their keys. Throws `DamagedRecordError`. */
  all<Name extends keyof DirectoryRecords>(name: Name): DirectoryRecords[Name][] {
    return [...recordsOf(this.table(name))].map(DECODERS[name])
  }

  /** Writes a record under its number, and returns it. Call it only within `change`. */
  put<Name extends Exclude<keyof DirectoryRecords, 'role_access' | 'project_members'>>(
    name: Name,
    record: DirectoryRecords[Name],
  ): DirectoryRecords[Name] {
    const number = 'number' in record ? record.number : record.id
    const stored = 'testAccountFilters' in record ? encodeProject(record) : record
    putRecord(this.table(name), numberKey(number), stored)
    return record
  }

  /**
   * Raises the counter with this name by one, and returns it as the number of a new record. The first number is 1. Call
   * it only within `change`.
   */
  nextNumber(name: RecordNumber): number {
    return raiseCount(this.table('state'), name)
  }

  /** Makes commits of other threads and processes visible to the reads of this thread. */
  refresh(): void {
    this.#environment.refresh()
  }

  /**
   * Runs a change and raises both version numbers. `action` must not return a promise. Throws the errors of `action`,
   * and 503 if an earlier commit has failed.
   */
  change<T>(action: () => T): T {
    return this.save(() => {
      const result = action()
      raiseCount(this.table('state'), DIRECTORY_VERSION)
      return result
    })
  }

  /**
   * Runs a change of records that no thread caches. Such a change raises only the version number of the environment.
   */
  save<T>(action: () => T): T {
    return this.record(() => {
      const result = action()
      raiseCount(this.table('state'), VERSION)
      return result
    })
  }

  /**
   * Runs a change that affects no flag decision and no cache. Such a change raises no version number. A call within
   * another change joins the transaction of that change.
   */
  record<T>(action: () => T): T {
    if (this.#isWriting) return action()
    if (this.#hasFailed) throw refusal('catalog_write_failed')
    let isComplete = false
    this.#isWriting = true
    try {
      return this.#environment.write(() => {
        const result = action()
        isComplete = true
        return result
      })
    } catch (error) {
      // If `action` is complete, the commit has failed. It is then unknown what was stored, so later changes are
      // refused.
      this.#hasFailed = isComplete
      throw error
    } finally {
      this.#isWriting = false
    }
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}

/**
 * The kinds of saved objects, each with numbers of its own. The dashboards of flags and all other dashboards are
 * numbered together (flag-records.ts).
 */
export type SavedNumber =
  | 'insight'
  | 'flag_dashboard_id'
  | 'annotation'
  | 'tile'
  | 'experiment'
  | 'holdout'
  | 'saved_metric'
  | 'saved_metric_link'

type RecordNumber = 'role' | 'role_access' | 'invite' | 'console_session' | SavedNumber

const PROJECT_DEFAULTS = Object.entries({ ...DEFAULT_BROWSER_CAPTURE, ...EMPTY_LISTS })
/** The lists of a project: the name in the stored record -> the name in `Project`. */
const LISTS = new Map(Object.keys(EMPTY_LISTS).map((name) => [`${name}Json`, name]))

/** Returns a project in its stored form. The lists of a project come from clients, and are stored as JSON texts. */
function encodeProject(project: Project): Record<string, unknown> {
  const record: Record<string, unknown> = { ...project }
  for (const [stored, name] of LISTS) {
    record[stored] = JSON.stringify(record[name])
    delete record[name]
  }
  return record
}

/**
 * Decodes the result of `encodeProject`. If an older version wrote the project, missing settings and lists get their
 * defaults.
 */
export function decodeProject(record: Record<string, unknown>): Project {
  // Loops are used because they are faster here: spreading one object into another takes 20 us, and a list may contain
  // thousands of projects.
  const project: Record<string, unknown> = {}
  for (const [name, value] of PROJECT_DEFAULTS) project[name] = value
  for (const [name, value] of Object.entries(record)) {
    const list = LISTS.get(name)
    if (list === undefined) project[name] = value
    else project[list] = value === '[]' ? [] : JSON.parse(String(value))
  }
  // The cast is right: `encodeProject` wrote the record, and its checksum matches.
  return project as unknown as Project
}

function decodePersonalKey(record: Record<string, unknown>): PersonalKey {
  const key = decodeHashed<PersonalKey>(record)
  // Records without `rolledAtMs` are from a version that could not roll keys.
  return { ...key, rolledAtMs: key.rolledAtMs ?? null }
}

/**
 * Decodes a record that contains a hash. MessagePack returns the hash as a `Uint8Array`, and the result has it as a
 * `Buffer`.
 */
function decodeHashed<T extends { readonly hash: Buffer }>(record: Record<string, unknown>): T {
  const kept = record as unknown as T
  return { ...kept, hash: Buffer.from(kept.hash) }
}

/** Returns the organization from its record, or null if there is none yet. */
function decodeOrganization(record: unknown): Organization | null {
  if (record === undefined) return null
  const organization = record as Organization
  return { ...organization, flagAccess: organization.flagAccess ?? null }
}
