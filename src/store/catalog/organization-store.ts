/** Everything about users, roles, projects and keys behind one open environment, for those who change it. */
import { type Clock, SYSTEM_CLOCK } from '../../base/clock.ts'
import { AuditLog } from './audit-log.ts'
import { DirectoryEnvironment } from './directory-environment.ts'
import { ProjectStore } from './project-store.ts'
import { RoleStore } from './role-store.ts'
import { UserStore } from './user-store.ts'

/** The stores of one environment; close it before the thread ends. */
export class OrganizationStore {
  readonly audit: AuditLog
  readonly projects: ProjectStore
  readonly roles: RoleStore
  readonly users: UserStore
  readonly #environment: DirectoryEnvironment

  /** `dataDir` must hold a store (data-dir.ts). */
  constructor(dataDir: string, clock: Clock = SYSTEM_CLOCK) {
    this.#environment = new DirectoryEnvironment(dataDir, clock)
    this.audit = new AuditLog(this.#environment)
    this.projects = new ProjectStore(dataDir, clock, this.#environment)
    this.roles = new RoleStore(this.#environment)
    this.users = new UserStore(this.#environment)
  }

  /** Lets reads see what other threads and processes have committed. */
  refresh(): void {
    this.#environment.refresh()
  }

  close(): Promise<void> {
    return this.#environment.close()
  }
}
