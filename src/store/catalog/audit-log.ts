/**
 * The audit log: one entry for each change that was requested through the private API or made by a command in the
 * store, with its author, its time and its origin. Entries are in the environment `flags`. Adding an entry does not
 * raise the version number of the environment, because no flag decision depends on the audit log. Keys, request bodies
 * and query strings are not stored.
 *
 * Table `audit_log`: entry u32 (from 1, ascending, without gaps) -> `AuditEntry` as MessagePack with a checksum.
 */
import type { Page, PageRequest } from '../../base/pages.ts'
import type { AuditEntry, StoredAuditEntry } from '../../rules/access/audit-entry.ts'
import type { Table } from '../lmdb/environment.ts'
import { numberInKey, numberKey } from '../lmdb/keys.ts'
import { lastKey, putRecord, recordsOf } from '../lmdb/records.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { AUDIT_ENTRIES_MAX } from './limits.ts'

const TABLE = 'audit_log'

/** Writes and reads the audit log in an open environment. */
export class AuditLog {
  readonly #environment: DirectoryEnvironment
  readonly #entriesMax: number

  constructor(environment: DirectoryEnvironment, entriesMax: number = AUDIT_ENTRIES_MAX) {
    this.#environment = environment
    this.#entriesMax = entriesMax
  }

  /** Stores entries durably. If the log then has more entries than its limit, removes the oldest ones. */
  append(entries: readonly AuditEntry[]): void {
    this.#environment.record(() => {
      putAuditEntries(this.#environment.table(TABLE), entries, this.#entriesMax)
    })
  }

  /** Returns a page of entries, newest first. Throws `DamagedRecordError`. */
  list({ limit, offset }: PageRequest): Page<StoredAuditEntry> {
    const { first, last } = extentOf(this.#environment.table(TABLE))
    const newest = last - offset
    const oldest = Math.max(first, newest - limit + 1)
    const results: StoredAuditEntry[] = []
    if (newest >= first) {
      const range = { start: numberKey(oldest), end: numberKey(newest + 1) }
      for (const record of recordsOf(this.#environment.table(TABLE), range)) {
        // The cast is right: `append` wrote the entry, and its checksum matches.
        results.push({ id: oldest + results.length, ...(record as unknown as AuditEntry) })
      }
    }
    return { count: last - first + 1, results: results.reverse() }
  }
}

/**
 * Stores entries in the table of the log. If it then has more entries than its limit, removes the oldest ones. Call it
 * only within the write transaction of the change that the entries describe.
 */
export function putAuditEntries(
  table: Table,
  entries: readonly AuditEntry[],
  entriesMax: number = AUDIT_ENTRIES_MAX,
): void {
  let { first, last } = extentOf(table)
  for (const entry of entries) putRecord(table, numberKey(++last), entry)
  for (; first <= last - entriesMax; first++) table.removeSync(numberKey(first))
}

/** Returns the numbers of the oldest and the newest entry, or 1 and 0 if the log is empty. */
function extentOf(table: Table): { first: number; last: number } {
  for (const key of table.getKeys({ limit: 1 })) {
    const first = numberInKey(key, 0)
    return { first, last: numberInKey(lastKey(table) ?? key, 0) }
  }
  return { first: 1, last: 0 }
}
