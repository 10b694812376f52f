/**
 * Activity logs: entries that say which user changed which object, and how. Entries can be listed for a project or for
 * one changed object (the *subject*). They are never removed.
 */
import type { Entries } from '../../base/pages.ts'
import type { Table } from './environment.ts'
import { keysOf, NUMBER_MAX, numberInKey, pairKey, tripleKey } from './keys.ts'
import { load, store } from './records.ts'

/** The tables of a log: its entries, and an index of entries by subject. */
export interface EntryTables {
  readonly entries: Table
  readonly items: Table
}

/**
 * Stores an entry under a number that no entry had before. Call it only within a write transaction. Tables:
 *
 *   entries   project, entry          -> JSON
 *   items     project, subject, entry -> nothing
 */
export function storeEntry(
  { entries, items }: EntryTables,
  projectId: number,
  subject: number,
  entry: number,
  json: string,
): void {
  store(entries, pairKey(projectId, entry), Buffer.from(json))
  store(items, tripleKey(projectId, subject, entry))
}

/**
 * Returns entries of one subject, newest first. If `subject` is null, the entries of the whole project are returned.
 * The newest `offset` entries are skipped, and at most `limit` entries are returned. Throws `DamagedRecordError`.
 */
export function listEntries(
  { entries, items }: EntryTables,
  projectId: number,
  subject: number | null,
  offset: number,
  limit: number,
): Entries {
  const table = subject === null ? entries : items
  const keyOf = (number: number): Buffer =>
    subject === null ? pairKey(projectId, number) : tripleKey(projectId, subject, number)
  const first = keyOf(0)
  const options = { start: keyOf(NUMBER_MAX), end: first, reverse: true, offset, limit }
  const numbers = [...table.getKeys(options)].map((key) => numberInKey(key, first.length - 4))
  return {
    totalCount: table.getKeysCount(keysOf(projectId, subject ?? undefined)),
    entries: textsOf(entries, projectId, numbers),
  }
}

function* textsOf(table: Table, projectId: number, numbers: readonly number[]): Generator<string> {
  for (const number of numbers) {
    const text = load(table, pairKey(projectId, number))?.toString('utf8')
    if (text !== undefined) yield text
  }
}
