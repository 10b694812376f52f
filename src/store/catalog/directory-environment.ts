/**
 * The environment `flags` as those open it who change the organization, users, projects, keys and
 * roles. Every change is one durable transaction that raises two versions: the one of the environment,
 * and one of its own, so that a changed flag does not make everybody read all users again.
 *
 * What it holds about them; every value is MessagePack with a checksum (codec.ts):
 *
 * | table         | key         | value                                             |
 * |---------------|-------------|---------------------------------------------------|
 * | state         | `version`   | number of the last write transaction (`number`)   |
 * | state         | `directory` | number of the last one that changed what this table or role-store.ts lists |
 * | state         | `organization` | `Organization`                                 |
 * | state         | `warehouse` | the name of the one that the cluster has          |
 * | users         | id u32      | `User`                                            |
 * | projects      | id u32      | `Project`, its lists as JSON texts                |
 * | personal_keys | id u32      | `PersonalKey`                                     |
 * | secret_keys   | id u32      | `SecretKey`                                       |
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

/** Tables that are read as a whole -> what their records are. */
interface DirectoryRecords {
  users: User
  projects: Project
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
  // Written by `put`, and unchanged since: the checksum says so.
  users: (record) => record as unknown as User,
  projects: decodeProject,
  personal_keys: decodePersonalKey,
  secret_keys: decodeHashed<SecretKey>,
  roles: (record) => record as unknown as Role,
  role_access: (record) => record as unknown as RoleAccess,
  invites: decodeHashed<Invite>,
}

/** An open environment; close it before the thread ends. */
export class DirectoryEnvironment {
  readonly clock: Clock
  readonly #environment: Environment
  #hasFailed = false
  #isWriting = false

  /** `dataDir` must hold a store (data-dir.ts). */
  constructor(dataDir: string, clock: Clock = SYSTEM_CLOCK) {
    this.clock = clock
    // Not read-only, even for reading: LMDB would then refuse to open it for writing elsewhere in the
    // same process.
    this.#environment = new Environment({
      dataDir,
      name: FLAGS_ENVIRONMENT,
      tables: FLAGS_TABLES,
    })
  }

  /** Raised by every change of what the tables hold. Cost: one read. */
  get version(): number {
    this.#environment.refresh()
    return readCount(this.table('state'), DIRECTORY_VERSION)
  }

  table(name: FlagsTable): Table {
    return this.#environment.table(name)
  }

  /** Null before the first start is complete. Throws `DamagedRecordError`. */
  organization(): Organization | null {
    return decodeOrganization(getRecord(this.table('state'), ORGANIZATION_KEY))
  }

  /** Within `change` only. */
  putOrganization(organization: Organization): void {
    putRecord(this.table('state'), ORGANIZATION_KEY, organization)
  }

  /** The warehouse of the cluster, which receipts of erasures wait for; null: there is none. */
  warehouse(): string | null {
    const name = getRecord(this.table('state'), WAREHOUSE_KEY)
    return typeof name === 'string' ? name : null
  }

  /** Within `change` only. */
  putWarehouse(name: string | null): void {
    const state = this.table('state')
    if (name === null) state.removeSync(WAREHOUSE_KEY)
    else putRecord(state, WAREHOUSE_KEY, name)
  }

  /** All records of a table in the order of their keys. Throws `DamagedRecordError`. */
  all<Name extends keyof DirectoryRecords>(name: Name): DirectoryRecords[Name][] {
    return [...recordsOf(this.table(name))].map(DECODERS[name])
  }

  /** Writes a record under its number, and answers it. Within `change` only. */
  put<Name extends Exclude<keyof DirectoryRecords, 'role_access'>>(
    name: Name,
    record: DirectoryRecords[Name],
  ): DirectoryRecords[Name] {
    const number = 'number' in record ? record.number : record.id
    const stored = 'testAccountFilters' in record ? encodeProject(record) : record
    putRecord(this.table(name), numberKey(number), stored)
    return record
  }

  /** A number that was never given before under this name, from 1. Within `change` only. */
  nextNumber(name: RecordNumber): number {
    return raiseCount(this.table('state'), name)
  }

  /** Lets reads of this thread see what others have committed. */
  refresh(): void {
    this.#environment.refresh()
  }

  /**
   * Runs a change and raises the versions with it. `action` must not answer a promise. Throws what it
   * throws, and 503 after a write that failed.
   */
  change<T>(action: () => T): T {
    return this.save(() => {
      const result = action()
      raiseCount(this.table('state'), DIRECTORY_VERSION)
      return result
    })
  }

  /** The same for what nobody keeps in memory: only the version of the environment is raised. */
  save<T>(action: () => T): T {
    return this.record(() => {
      const result = action()
      raiseCount(this.table('state'), VERSION)
      return result
    })
  }

  /**
   * The same for what nobody decides by: the versions stay as they are. Within another one it is
   * part of that one's transaction.
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
      // What a failed commit has left behind is not known: nothing may be written on top of it.
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

/** Numbers of saved things; dashboards of flags share theirs with the others (flag-records.ts). */
export type SavedNumber = 'insight' | 'flag_dashboard_id' | 'annotation' | 'tile'

type RecordNumber = 'role' | 'role_access' | 'invite' | 'console_session' | SavedNumber

const PROJECT_DEFAULTS = Object.entries({ ...DEFAULT_BROWSER_CAPTURE, ...EMPTY_LISTS })
/** What a list of `ProjectLists` is called as it is stored -> its name. */
const LISTS = new Map(Object.keys(EMPTY_LISTS).map((name) => [`${name}Json`, name]))

/** A project as it is stored: its lists are text of clients and stay JSON. */
function encodeProject(project: Project): Record<string, unknown> {
  const record: Record<string, unknown> = { ...project }
  for (const [stored, name] of LISTS) {
    record[stored] = JSON.stringify(record[name])
    delete record[name]
  }
  return record
}

/** The reverse of `encodeProject`; projects of before there was a setting or list have its default. */
export function decodeProject(record: Record<string, unknown>): Project {
  // In loops: to spread one object over another takes 20 us, and a list of projects has many.
  const project: Record<string, unknown> = {}
  for (const [name, value] of PROJECT_DEFAULTS) project[name] = value
  for (const [name, value] of Object.entries(record)) {
    const list = LISTS.get(name)
    if (list === undefined) project[name] = value
    else project[list] = value === '[]' ? [] : JSON.parse(String(value))
  }
  // Written by `encodeProject`, and unchanged since: the checksum says so.
  return project as unknown as Project
}

/** A personal key from its record. */
function decodePersonalKey(record: Record<string, unknown>): PersonalKey {
  const key = decodeHashed<PersonalKey>(record)
  // Keys of before there was `rolledAtMs` were never rolled.
  return { ...key, rolledAtMs: key.rolledAtMs ?? null }
}

/** What is known by its hash, from its record. */
function decodeHashed<T extends { readonly hash: Buffer }>(record: Record<string, unknown>): T {
  const kept = record as unknown as T
  return { ...kept, hash: Buffer.from(kept.hash) }
}

/** The organization from its record, or null when there is none yet. */
function decodeOrganization(record: unknown): Organization | null {
  if (record === undefined) return null
  const organization = record as Organization
  return { ...organization, flagAccess: organization.flagAccess ?? null }
}
