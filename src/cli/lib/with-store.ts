/**
 * Opens the store for one command, beside a running daemon or without one. Every command that
 * writes users, projects, keys, roles or flags comes through here and leaves an entry in the audit
 * log; changes that go through a daemon are noted there.
 */
import { userInfo } from 'node:os'
import { requireFreeDisk } from '../../base/disk-space.ts'
import type { AuditEntry } from '../../rules/access/audit.ts'
import type { EnvironmentName } from '../../store/directory/data-dir.ts'
import { type OpenStore, openStore } from '../../store/open-store.ts'
import type { CommandInput } from './command.ts'
import { OBJECT_ID_CHARACTERS_MAX } from './limits.ts'

/**
 * Runs `action` with the store and closes it. `isWriting`: only if the disk has room, and with an
 * entry in the audit log when it is done, about the project if one is given. Throws `OperatorError`
 * for a store that cannot be opened, and what `action` throws.
 */
export function withStore<T>(
  input: CommandInput,
  isWriting: boolean,
  action: (store: OpenStore) => T | Promise<T>,
  environments: readonly EnvironmentName[] = ['flags'],
  projectId: number | null = null,
): Promise<T> {
  const { dataDir } = input.settings()
  const { clock } = input.io
  return openStore({ dataDir, environments, isWriting, clock }, async (store) => {
    if (isWriting) await requireFreeDisk(store.path)
    const result = await action(store)
    if (isWriting) store.organization.audit.append([commandEntry(input, projectId)])
    return result
  })
}

/**
 * Leaves the entry of a command that has made or changed a whole store, which must be of the
 * current format.
 */
export function noteInStore(
  input: CommandInput,
  dataDir: string,
  objectId: string | null,
): Promise<void> {
  const { clock } = input.io
  return openStore({ dataDir, environments: ['flags'], isWriting: true, clock }, (store) =>
    store.organization.audit.append([{ ...commandEntry(input, null), objectId }]),
  )
}

/** The entry of a command that has changed something; `projectId` where it is about one project. */
function commandEntry(input: CommandInput, projectId: number | null): AuditEntry {
  const [operand] = input.operands
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
    objectId: operand?.slice(0, OBJECT_ID_CHARACTERS_MAX) ?? null,
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
