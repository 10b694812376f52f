/**
 * The environment `flags` as those open it who change the organization, users, projects, keys and
 * roles. Every change is one durable transaction that raises two versions: the one of the environment,
 * and one of its own, so that a changed flag does not make everybody read all users again.
 */
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { refusal } from '../../base/refusals.ts'
import type { Organization } from '../../rules/access/organization.ts'
import { Environment, type Table } from '../lmdb/environment.ts'
import { FLAGS_ENVIRONMENT, FLAGS_TABLES, type FlagsTable } from '../lmdb/keys.ts'
import { getRecord, putRecord } from '../lmdb/records.ts'
import { decodeOrganization } from './project-records.ts'

const VERSION = 'version'
const DIRECTORY_VERSION = 'directory'
const ORGANIZATION_KEY = Buffer.from('organization', 'latin1')

/** An open environment; close it before the thread ends. */
export class DirectoryEnvironment {
  readonly clock: Clock
  readonly #environment: Environment
  #hasFailed = false

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
    return readNumber(this.table('state'), DIRECTORY_VERSION)
  }

  table(name: FlagsTable): Table {
    return this.#environment.table(name)
  }

  /** Null before the first start is complete. Throws `DamagedRecordError`. */
  organization(): Organization | null {
    return decodeOrganization(getRecord(this.table('state'), 'state', ORGANIZATION_KEY))
  }

  /** Within `change` only. */
  putOrganization(organization: Organization): void {
    putRecord(this.table('state'), ORGANIZATION_KEY, organization)
  }

  /** A number that was never given before under this name, from 1. Within `change` only. */
  nextNumber(name: RoleNumber): number {
    return this.#raise(name)
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
    return this.record(() => {
      const result = action()
      this.#raise(VERSION)
      this.#raise(DIRECTORY_VERSION)
      return result
    })
  }

  /** The same for what nobody decides by: the versions stay as they are. */
  record<T>(action: () => T): T {
    if (this.#hasFailed) throw refusal('catalog_write_failed')
    let isComplete = false
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
    }
  }

  close(): Promise<void> {
    return this.#environment.close()
  }

  #raise(name: string): number {
    const state = this.table('state')
    const number = readNumber(state, name) + 1
    putRecord(state, Buffer.from(name, 'latin1'), number)
    return number
  }
}

type RoleNumber = 'role' | 'role_access'

function readNumber(state: Table, name: string): number {
  const value = getRecord(state, 'state', Buffer.from(name, 'latin1'))
  return typeof value === 'number' ? value : 0
}
