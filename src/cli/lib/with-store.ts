/**
 * Opens the store for one command, whether or not a daemon runs. Every command that writes users, projects, keys, roles
 * or flags uses this module, and writes its audit log entry in the transaction of the change. Changes that go through
 * the daemon are logged by the daemon.
 */
import { userInfo } from 'node:os'
import { requireFreeDisk } from '../../base/disk-space.ts'
import { OperatorError } from '../../base/errors.ts'
import type { AuditEntry } from '../../rules/access/audit-entry.ts'
import type { Project } from '../../rules/access/organization.ts'
import { type OrganizationStore, SHARED_CATALOGUE } from '../../store/catalog/organization-store.ts'
import type { PartName } from '../../store/directory/data-dir.ts'
import { type OpenStore, openStore } from '../../store/open-store.ts'
import { OBJECT_ID_CHARACTERS_MAX } from '../limits.ts'
import type { CommandInput } from './command.ts'

/**
 * Runs `action` with the store, and closes the store. If `isWriting` is true, the disk must have free space, and
 * `action` must store the `commandEntry` of the command together with its change. Throws `OperatorError` if the store
 * cannot be opened, and the errors of `action`.
 */
export function withStore<T>(
  input: CommandInput,
  isWriting: boolean,
  action: (store: OpenStore) => T | Promise<T>,
  environments: readonly PartName[] = ['flags'],
): Promise<T> {
  const { clock } = input.io
  return openStore({ dataDir: input.dataDir, environments, isWriting, clock }, async (store) => {
    if (!isWriting) return await action(store)
    await requireFreeDisk(store.path)
    if (SHARED_CATALOGUE.place(store.path) === null) return await action(store)
    const { shareChange } = await import('../../cluster/shared-change.ts')
    return await shareChange(store.path, () => action(store))
  })
}

/** Reads users, projects, keys or roles. Throws the errors of `withStore`. */
export function readOrganization<T>(
  input: CommandInput,
  action: (store: OrganizationStore) => T,
): Promise<T> {
  return withStore(input, false, ({ organization }) => action(organization))
}

/**
 * Returns a project by its ID. If there is none, throws `OperatorError` with `hint` in its message. Also throws the
 * errors of `withStore`.
 */
export async function projectOf(
  input: CommandInput,
  id: number,
  hint = " Run 'tenrec project list' to see all projects.",
): Promise<Project> {
  const project = await readOrganization(input, ({ projects }) => projects.project(id))
  if (project !== null) return project
  throw new OperatorError(`There is no project ${id}.${hint}`)
}

/**
 * Changes users, projects, keys or roles, in one transaction with the audit log entry of the command. `about` returns
 * the project and the object for this entry. By default, the entry has no project, and the first operand of the command
 * as its object. Throws the errors of `withStore`.
 */
export function changeOrganization<T>(
  input: CommandInput,
  action: (store: OrganizationStore) => T,
  about: (result: T) => Partial<Pick<AuditEntry, 'projectId' | 'objectId'>> = () => ({}),
): Promise<T> {
  return withStore(input, true, ({ organization }) =>
    organization.noted(
      (result) => ({ ...commandEntry(input, null), ...about(result) }),
      () => action(organization),
    ),
  )
}

/**
 * Writes the audit log entry of a command that created or changed a whole store. The store must have the current
 * format.
 */
export function noteInStore(input: CommandInput, objectId: string | null): Promise<void> {
  const { dataDir, io } = input
  const request = { dataDir, environments: ['flags'], isWriting: true, clock: io.clock } as const
  return openStore(request, ({ organization, path }) => {
    // In a cluster, the catalogue exists outside of this store, and the command did not change it.
    if (SHARED_CATALOGUE.place(path) !== null) return
    organization.audit.append([{ ...commandEntry(input, null), objectId }])
  })
}

/** Returns the audit log entry of a command. `projectId` is the project that was changed, or null. */
export function commandEntry(input: CommandInput, projectId: number | null): AuditEntry {
  return {
    atMs: input.io.clock.now(),
    source: 'command_line',
    userId: null,
    keyId: null,
    account: accountName(),
    address: '',
    projectId,
    method: '',
    route: `tenrec ${input.name}`,
    objectId: input.operands[0]?.slice(0, OBJECT_ID_CHARACTERS_MAX) ?? null,
    status: 0,
  }
}

/**
 * Returns the name of the account that runs the command. If the account has no name, as service accounts may, it
 * returns its number.
 */
function accountName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? '')
  }
}
