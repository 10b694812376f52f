/**
 * Opens the store for one command, beside a running daemon or without one. Every command that
 * writes users, projects, keys, roles or flags comes through here and takes its entry in the audit
 * log into the transaction of the change; changes that go through a daemon are noted there.
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
 * Runs `action` with the store and closes it. `isWriting`: only if the disk has room; `action` then
 * stores its `commandEntry` with what it changes. Throws `OperatorError` for a store that cannot be
 * opened, and what `action` throws.
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

/** Reads users, projects, keys or roles. Throws as `withStore`. */
export function readOrganization<T>(
  input: CommandInput,
  action: (store: OrganizationStore) => T,
): Promise<T> {
  return withStore(input, false, ({ organization }) => action(organization))
}

/** A project by its number. Throws `OperatorError` when there is none, with a `hint`, and as `withStore`. */
export async function projectOf(input: CommandInput, id: number, hint = ''): Promise<Project> {
  const project = await readOrganization(input, ({ projects }) => projects.project(id))
  if (project !== null) return project
  throw new OperatorError(`there is no project ${id}${hint}`)
}

/**
 * Changes users, projects, keys or roles in one transaction with the command's entry in the audit
 * log. Throws as `withStore`.
 */
export function changeOrganization<T>(
  input: CommandInput,
  action: (store: OrganizationStore) => T,
): Promise<T> {
  return withStore(input, true, ({ organization }) =>
    organization.noted(
      () => commandEntry(input, null),
      () => action(organization),
    ),
  )
}

/**
 * Leaves the entry of a command that has made or changed a whole store, which must be of the
 * current format.
 */
export function noteInStore(input: CommandInput, objectId: string | null): Promise<void> {
  const { dataDir, io } = input
  const request = { dataDir, environments: ['flags'], isWriting: true, clock: io.clock } as const
  return openStore(request, ({ organization, path }) => {
    // The catalogue of a cluster is not this command's: it is there without the store, too.
    if (SHARED_CATALOGUE.place(path) !== null) return
    organization.audit.append([{ ...commandEntry(input, null), objectId }])
  })
}

/** The entry of a command that has changed something; `projectId` where it is about one project. */
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

/** A service account may have a number only. */
function accountName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? '')
  }
}
