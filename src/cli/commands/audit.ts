/** `tenrec audit list`: who changed what, read from the data directory with or without a running daemon. */
import type { StoredAuditEntry } from '../../rules/access/audit-entry.ts'
import { idOption } from '../lib/arguments.ts'
import { type Command, JSON_OPTION } from '../lib/command.ts'
import { isoTime, printRows, type Row } from '../lib/output.ts'
import { withStore } from '../lib/with-store.ts'

const LIST_ENTRIES_DEFAULT = 100

/** `tenrec audit list`. */
export const AUDIT_LIST: Command = {
  name: 'audit list',
  sentence: 'List who changed what through the private API and the command line, newest first.',
  operands: [],
  options: [
    {
      name: 'limit',
      placeholder: 'N',
      sentence: `At most so many; without it ${LIST_ENTRIES_DEFAULT}.`,
    },
    JSON_OPTION,
  ],
  settings: ['dataDir'],
  async run(input) {
    const limit = idOption(input, 'limit', LIST_ENTRIES_DEFAULT)
    const rows = await withStore(input, false, ({ organization: { audit, users } }) => {
      const emails = new Map(users.list().map(({ id, email }) => [id, email]))
      return audit.list({ limit, offset: 0 }).results.map((entry) => rowOf(entry, emails))
    })
    printRows(input.io, rows, input.options.has('json'))
    return 0
  },
}

function rowOf(entry: StoredAuditEntry, emails: ReadonlyMap<number, string>): Row {
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
