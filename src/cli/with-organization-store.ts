/** Opens the store of users, roles, projects and keys for one command, beside a running daemon or without one. */
import { requireStore } from '../store/data-dir.ts'
import { requireFreeDisk } from '../store/disk-guard.ts'
import { OrganizationStore } from '../store/organization-store.ts'
import type { CommandInput } from './command.ts'

/**
 * Runs `action` with the store and closes it. `isWriting`: only if the disk has room. Throws
 * `OperatorError` for a store that cannot be opened, and what `action` throws.
 */
export async function withOrganizationStore<T>(
  input: CommandInput,
  isWriting: boolean,
  action: (store: OrganizationStore) => T,
): Promise<T> {
  const path = requireStore(input.settings().dataDir, 'flags')
  if (isWriting) await requireFreeDisk(path)
  const store = new OrganizationStore(path, input.io.clock)
  try {
    return action(store)
  } finally {
    await store.close()
  }
}
