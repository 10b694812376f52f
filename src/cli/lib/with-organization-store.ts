/** Opens the store of users, roles, projects and keys for one command, beside a running daemon or without one. */

import { requireFreeDisk } from '../../base/disk-space.ts'
import { OrganizationStore } from '../../store/catalog/organization-store.ts'
import type { CommandInput } from './command.ts'
import { commandEntry } from './command-audit.ts'
import { withStore } from './with-store.ts'

/**
 * Runs `action` with the store and closes it. `isWriting`: only if the disk has room, and with an entry in
 * the audit log when it is done. Throws
 * `OperatorError` for a store that cannot be opened, and what `action` throws.
 */
export async function withOrganizationStore<T>(
  input: CommandInput,
  isWriting: boolean,
  action: (store: OrganizationStore) => T,
): Promise<T> {
  return withStore(input.settings().dataDir, ['flags'], isWriting, async (path) => {
    if (isWriting) await requireFreeDisk(path)
    const store = new OrganizationStore(path, input.io.clock)
    try {
      const result = action(store)
      if (isWriting) store.audit.append([commandEntry(input, null)])
      return result
    } finally {
      await store.close()
    }
  })
}
