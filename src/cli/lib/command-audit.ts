/**
 * What commands leave in the audit log. Every command that writes users, projects, keys, roles or flags
 * comes through here after it has written; changes that go through a daemon are noted there.
 */
import { userInfo } from 'node:os'
import type { AuditEntry } from '../../rules/access/audit.ts'
import { OrganizationStore } from '../../store/catalog/organization-store.ts'
import type { CommandInput } from './command.ts'
import { withStore } from './with-store.ts'

const OBJECT_ID_CHARACTERS_MAX = 200

/** The entry of a command that has changed something; `projectId` where it is about one project. */
export function commandEntry(input: CommandInput, projectId: number | null): AuditEntry {
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

/** Leaves the entry of a command that has made or changed a whole store, which must be of the current format. */
export async function noteInStore(
  input: CommandInput,
  dataDir: string,
  objectId: string | null,
): Promise<void> {
  await withStore(dataDir, ['flags'], true, async (path) => {
    const store = new OrganizationStore(path, input.io.clock)
    try {
      store.audit.append([{ ...commandEntry(input, null), objectId }])
    } finally {
      await store.close()
    }
  })
}

/** A service account may have a number only. */
function accountName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? '')
  }
}
