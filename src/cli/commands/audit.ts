/** `tenrec audit list`: reads the audit log from the data directory, whether or not a daemon runs. */
import type { StoredAuditEntry } from '../../rules/access/audit-entry.ts'
import { type Commands, JSON_OPTION } from '../lib/command.ts'
import { isoTime } from '../lib/output.ts'
import { readOrganization } from '../lib/with-store.ts'

const LIST_ENTRIES_DEFAULT = 100

/** `tenrec audit list`. */
export const COMMANDS: Commands = [
  {
    name: 'audit list',
    sentence:
      'List the changes that were made through the private API and the command line, with the user who made them, newest first.',
    options: {
      '--limit N': `Maximum number of entries to list. Default: ${LIST_ENTRIES_DEFAULT}.`,
      ...JSON_OPTION,
    },
    run(input) {
      const limit = input.id('limit', LIST_ENTRIES_DEFAULT)
      return readOrganization(input, ({ audit, users }) => {
        const emails = new Map(users.list().map(({ id, email }) => [id, email]))
        return audit.list({ limit, offset: 0 }).results.map((entry) => rowOf(entry, emails))
      })
    },
  },
]

function rowOf(entry: StoredAuditEntry, emails: ReadonlyMap<number, string>) {
  const { userId } = entry
  return {
    id: entry.id,
    at: isoTime(entry.atMs),
    source: entry.source,
    user: userId === null ? entry.account : (emails.get(userId) ?? String(userId)),
    key: entry.keyId,
    address: entry.address === '' ? null : entry.address,
    project: entry.projectId,
    method: entry.method === '' ? null : entry.method,
    route: entry.route,
    object: entry.objectId,
    status: entry.status === 0 ? null : entry.status,
  }
}
