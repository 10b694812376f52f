/**
 * Who changed what, when and from where: one entry for each change that was asked for through the private
 * API, and for each change that a command made in the store. Entries stand in the environment `flags`;
 * they raise no version, because nobody decides by them. Neither keys nor bodies nor query strings are kept.
 *
 * Table `audit_log`: entry u32 (from 1, ascending, without gaps) -> `AuditEntry` as MessagePack with a
 * checksum.
 */

import { numberInKey, numberKey } from '../lmdb/keys.ts'
import type { DirectoryEnvironment } from './directory-environment.ts'
import { putRecord, recordsWithin } from './project-records.ts'
import type { Page, PageRequest } from './role-store.ts'

/** Tables of the log. */
export const AUDIT_TABLES = ['audit_log'] as const
/** One of `AUDIT_TABLES`. */
export type AuditTable = (typeof AUDIT_TABLES)[number]

const TABLE = 'audit_log'
/** Entries that are kept, some 30 MB; the oldest make room. */
const AUDIT_ENTRIES_MAX = 100_000

/** A change that somebody asked for. */
export interface AuditEntry {
  readonly atMs: number
  /** `api`: over HTTP with a personal key; `command_line`: by a command on the machine itself. */
  readonly source: 'api' | 'command_line'
  /** Whose key it was; null on the command line. */
  readonly userId: number | null
  /** Number of the personal key; null on the command line. */
  readonly keyId: number | null
  /** Account of the operating system on the command line, else null. */
  readonly account: string | null
  /** The client's address, '' on the command line. */
  readonly address: string
  /** Null for what belongs to no project. */
  readonly projectId: number | null
  /** Method of the request; '' on the command line. */
  readonly method: string
  /** Pattern of the path, or the command, such as `tenrec flag set`. */
  readonly route: string
  /** What was changed or made: the last id of the path, the id in the answer, the operand. */
  readonly objectId: string | null
  /** Status of the answer; 0 on the command line, where only what was done is noted. */
  readonly status: number
}

/** An entry as it was stored. */
export interface StoredAuditEntry extends AuditEntry {
  readonly id: number
}

/** The log behind an open environment. */
export class AuditLog {
  readonly #environment: DirectoryEnvironment
  readonly #entriesMax: number

  constructor(environment: DirectoryEnvironment, entriesMax: number = AUDIT_ENTRIES_MAX) {
    this.#environment = environment
    this.#entriesMax = entriesMax
  }

  /** Stores entries durably, in one transaction, and removes the oldest beyond the limit. */
  append(entries: readonly AuditEntry[]): void {
    this.#environment.record(() => {
      const table = this.#environment.table(TABLE)
      let { first, last } = this.#extent()
      for (const entry of entries) putRecord(table, numberKey(++last), entry)
      for (; first <= last - this.#entriesMax; first++) table.removeSync(numberKey(first))
    })
  }

  /** Entries, newest first. Throws `DamagedRecordError`. */
  list({ limit, offset }: PageRequest): Page<StoredAuditEntry> {
    const { first, last } = this.#extent()
    const newest = last - offset
    const oldest = Math.max(first, newest - limit + 1)
    const results: StoredAuditEntry[] = []
    if (newest >= first) {
      const range = { start: numberKey(oldest), end: numberKey(newest + 1) }
      for (const record of recordsWithin(this.#environment.table(TABLE), TABLE, range)) {
        // Written by `append`; the checksum says that it is unchanged.
        results.push({ id: oldest + results.length, ...(record as unknown as AuditEntry) })
      }
    }
    return { count: last - first + 1, results: results.reverse() }
  }

  /** Numbers of the oldest and the newest entry; 1 and 0 when there is none. */
  #extent(): { first: number; last: number } {
    const table = this.#environment.table(TABLE)
    for (const firstKey of table.getKeys({ limit: 1 })) {
      for (const lastKey of table.getKeys({ reverse: true, limit: 1 })) {
        return { first: numberInKey(firstKey, 0), last: numberInKey(lastKey, 0) }
      }
    }
    return { first: 1, last: 0 }
  }
}
